/* test_launcher.c - what bb_launcher_* derives about the job from the environment variables of a launcher; the folder
 * of the program. */
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/mpirun.h"
#include "bootstrap/start/program_folder.h"
#include "tests/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMI_SIZE",
                                        "PMI_RANK",
                                        "PMI_ID",
                                        "PMIX_RANK",
                                        "PALS_RANKID",
                                        "MPI_LOCALNRANKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",
                                        "SLURM_NODEID",
                                        "SLURM_PROCID",
                                        "SLURM_GTIDS",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "PMI_LOCAL_SIZE",
                                        "SLURM_NTASKS_PER_NODE",
                                        "FOO_RANK",
                                        "FOO_RANKS",
                                        "FOO_SIZE",
                                        "BAR_SIZE",
                                        "RANK",
                                        "WORLD_SIZE"};

static const struct {
    const char *set[3][2];
    bool alone;
    int local_size;
} rows[] = {
    {{{0}}, true, 0},
    {{{"OMPI_COMM_WORLD_SIZE", "8"}, {"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, false, 4},
    {{{"OMPI_COMM_WORLD_SIZE", "1"}, {"PMIX_RANK", "0"}}, true, 0},
    {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}}, true, 3}, /* a rank of -g 3 */
    /* a single process in the shell of salloc */
    {{{"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}, {"SLURM_NTASKS", "8"}}, true, 0},
    {{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS_PER_NODE", "2"}}, false, 2},
    {{{"SLURM_STEP_NUM_TASKS", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, false, 0}, /* mpirun in the shell of salloc */
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "1"}}, false, 8},
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "2"}}, false, 4},
    {{{"SLURM_STEP_NUM_TASKS", "20"}, {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}, {"SLURM_NODEID", "3"}}, false, 0},
    {{{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_NODEID", "0"}}, false, 3},
    {{{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x-2147483648),7"}, {"SLURM_NODEID", "0"}},
     false,
     0},
    {{{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_STEP_TASKS_PER_NODE", "3"}, {"SLURM_NODEID", "-1"}}, false, 0},
    {{{"PMI_SIZE", "6"}, {"PMI_LOCAL_SIZE", "3"}}, false, 3},
    {{{"MPI_LOCALNRANKS", "1"}, {"PMI_SIZE", "2"}}, false, 1}, /* Hydra, one process on each of two hosts */
    {{{"PMIX_RANK", "0"}}, false, 0},                          /* PMIx without a size: assume several ranks */
    {{{"PALS_RANKID", "0"}}, false, 0},
    {{{"FOO_RANK", "0"}}, false, 0}, /* unknown launchers */
    {{{"RANK", "3"}, {"WORLD_SIZE", "8"}}, false, 0},
    {{{"FOO_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, false, 0},
    {{{"FOO_RANK", "first"}}, true, 0},
    {{{"FOO_RANK", ""}}, true, 0},
    {{{"FOO_RANKS", "2"}}, true, 0},
    {{{"FOO_SIZE", "12"}}, true, 0}, /* not a rank: a font size, for example */
    {{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "1"}}, true, 0},
};

static const struct {
    const char *set[3][2], *claim;
} claims[] = {
    {{{0}}, NULL},
    {{{"FOO_RANK", "0"}, {"FOO_SIZE", "8"}}, "FOO_SIZE=8"},
    {{{"FOO_RANK", "7"}, {"FOO_SIZE", "8"}}, "FOO_SIZE=8"},
    {{{"FOO_RANK", "8"}, {"FOO_SIZE", "8"}}, NULL}, /* invalid: ranks of 8 are 0 to 7 */
    {{{"FOO_RANK", "0"}, {"FOO_SIZE", "1"}}, NULL},
    {{{"FOO_RANK", "0"}, {"BAR_SIZE", "8"}}, NULL},
    {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "WORLD_SIZE=2"},
    {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, "PMI_SIZE=2"},
    {{{"FOO_RANK", "-1"}, {"FOO_SIZE", "8"}}, NULL},
    {{{"FOO_RANK", "0"}, {"FOO_SIZE", "8G"}}, NULL},
};

static void detects_single_process_and_local_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        for (size_t v = 0; v < ROWS(variables); v++)
            unsetenv(variables[v]);
        for (int v = 0; v < 3 && rows[i].set[v][0]; v++)
            setenv(rows[i].set[v][0], rows[i].set[v][1], 1);
        if (bb_launched_alone() != rows[i].alone || bb_launcher_local_size() != rows[i].local_size)
            fail_msg("row %zu: alone %d, local size %d", i, bb_launched_alone(), bb_launcher_local_size());
    }
}

/* srun --mpi=pmix does, mpirun in a job of Slurm does not. */
static void names_launchers_that_end_the_job_with_a_rank(void **state)
{
    (void)state;
    for (size_t v = 0; v < ROWS(variables); v++)
        unsetenv(variables[v]);
    setenv("SLURM_PROCID", "0", 1);
    assert_false(bb_launcher_ends_with_rank());
    setenv("PMIX_RANK", "0", 1);
    assert_true(bb_launcher_ends_with_rank());
    setenv("OMPI_COMM_WORLD_SIZE", "8", 1);
    assert_false(bb_launcher_ends_with_rank());
}

static void finds_size_variable_of_unknown_launcher(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(claims); i++) {
        const char *claim;

        for (size_t v = 0; v < ROWS(variables); v++)
            unsetenv(variables[v]);
        for (int v = 0; v < 3 && claims[i].set[v][0]; v++)
            setenv(claims[i].set[v][0], claims[i].set[v][1], 1);
        claim = bb_launcher_claim();
        if (!claim != !claims[i].claim || (claim && strcmp(claim, claims[i].claim) != 0))
            fail_msg("row %zu: %s", i, claim ? claim : "none");
    }
}

/*
 * Starts a process with the name of a launcher, whose stderr is `file`. pipe_end >= 0: the process keeps the read end
 * of our stderr pipe open, like a launcher that forwards output; -1: it closes all inherited descriptors.
 */
static pid_t start_launcher(const char *name, int file, int pipe_end)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(file, STDERR_FILENO);
        if (pipe_end < 0)
            for (int fd = STDERR_FILENO + 1; fd < ready[0]; fd++)
                close(fd);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/*
 * Takes over the stderr of a launcher, writes a line, and returns where the line arrives: 'f' in the launcher's file,
 * 'p' in our pipe.
 */
static char find_line(const char *name, bool holds_our_pipe)
{
    FILE *file = tmpfile();
    int our_pipe[2], saved_stderr = dup(STDERR_FILENO);
    char text[8] = "";
    pid_t launcher;

    assert_int_equal(pipe2(our_pipe, O_NONBLOCK), 0);
    assert_int_equal(write(fileno(file), "before ", 7), 7);
    launcher = start_launcher(name, fileno(file), holds_our_pipe ? our_pipe[0] : -1);
    dup2(our_pipe[1], STDERR_FILENO);
    bb_launcher_take_stderr(launcher);
    assert_int_equal(write(STDERR_FILENO, "line", 4), 4);
    dup2(saved_stderr, STDERR_FILENO);
    kill(launcher, SIGKILL);
    waitpid(launcher, NULL, 0);
    const bool in_pipe = read(our_pipe[0], text, 4) == 4, in_file = pread(fileno(file), text, 7, 7) == 4;
    for (int i = 0; i < 3; i++)
        close((int[]){our_pipe[0], our_pipe[1], saved_stderr}[i]);
    fclose(file);
    assert_true(in_pipe != in_file);
    assert_string_equal(text, "line");
    return in_pipe ? 'p' : 'f';
}

static void writes_past_a_launcher_that_stopped_reading(void **state)
{
    (void)state;
    assert_int_equal(find_line("prterun", true), 'f');
    assert_int_equal(find_line("prterun", false), 'p'); /* the launcher does not hold our pipe, for example with
                                                                a wrapper in between */
    assert_int_equal(find_line("mpirun", true), 'p');
    bb_launcher_take_stderr(0); /* a launcher outside our PID namespace */
    bb_launcher_take_stderr(-1);
}

static void starts_the_same_number_of_processes_per_node(void **state)
{
    char *text;

    (void)state;
    for (size_t v = 0; v < ROWS(variables); v++)
        unsetenv(variables[v]);
    text = bb_mpirun_per_node(3, 4);
    assert_true(strstr(text, " -n 12 --map-by ppr:4:node") || strstr(text, " -n 12 -ppn 4"));
    free(text);
    setenv("SLURM_PROCID", "0", 1);
    text = bb_mpirun_per_node(3, 4);
    assert_string_equal(text, "srun -N 3 -n 12 --ntasks-per-node 4");
    free(text);
    setenv("OMPI_COMM_WORLD_SIZE", "11", 1); /* mpirun in a job of Slurm */
    text = bb_mpirun_per_node(3, 4);
    assert_null(strstr(text, "srun"));
    free(text);
    unsetenv("SLURM_PROCID");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

static void program_folder_is_terminated(void **state)
{
    char folder[PATH_MAX], path[PATH_MAX + sizeof("/test_launcher")], *file = realpath("/proc/self/exe", NULL);

    (void)state;
    memset(folder, '/', sizeof(folder)); /* a '/' after the text would be taken for its last one */
    folder[PATH_MAX - 1] = '\0';
    assert_int_equal(bb_program_folder(folder), 0);
    snprintf(path, sizeof(path), "%s/test_launcher", folder);
    assert_string_equal(path, file);
    free(file);
}

static void finds_files_next_to_the_program(void **state)
{
    char *found = bb_program_file("test_launcher"), *file = realpath("/proc/self/exe", NULL);

    (void)state;
    assert_non_null(found);
    assert_string_equal(found, file);
    assert_null(bb_program_file("no such file"));
    free(found);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(detects_single_process_and_local_size),
                                       cmocka_unit_test(names_launchers_that_end_the_job_with_a_rank),
                                       cmocka_unit_test(finds_size_variable_of_unknown_launcher),
                                       cmocka_unit_test(writes_past_a_launcher_that_stopped_reading),
                                       cmocka_unit_test(starts_the_same_number_of_processes_per_node),
                                       cmocka_unit_test(program_folder_is_terminated),
                                       cmocka_unit_test(finds_files_next_to_the_program)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
