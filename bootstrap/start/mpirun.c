/* mpirun.c - launcher of the MPI library that busbar was built with. cmake/MpiLauncher.cmake sets BB_MPIRUN and
 * BB_MPI_IS_OPEN_MPI. */
#include "bootstrap/start/mpirun.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"
#include "bootstrap/start/launcher.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BB_MPIRUN
#define BB_MPIRUN "mpirun"
#endif
#ifndef BB_MPI_IS_OPEN_MPI
#define BB_MPI_IS_OPEN_MPI 1
#endif

const char *bb_mpirun(void)
{
    return BB_MPIRUN[0] == '/' && access(BB_MPIRUN, X_OK) == 0 ? BB_MPIRUN : "mpirun";
}

const char *bb_mpirun_hosts(void)
{
    return BB_MPI_IS_OPEN_MPI ? "--host" : "-hosts";
}

const char *bb_mpirun_export(void)
{
    return BB_MPI_IS_OPEN_MPI ? "-x" : NULL;
}

bool bb_mpirun_started_us(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("MPI_LOCALNRANKS"); /* set by Open MPI and by Hydra, respectively */
}

char *bb_mpirun_per_node(int nodes, int each)
{
    if (!bb_mpirun_started_us() && getenv("SLURM_PROCID"))
        return bb_format("srun -N %d -n %d --ntasks-per-node %d", nodes, nodes * each, each);
    return bb_format(BB_MPI_IS_OPEN_MPI ? "%s -n %d --map-by ppr:%d:node" : "%s -n %d -ppn %d", bb_mpirun(),
                     nodes * each, each);
}

/* ---- the command line of mpirun ---- */

enum { COMMAND_LINE = 32768, WORDS = 512 };

static bool is_listed(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}

/* Reads the command line of a process into text, and its words. Returns their number, 0 if it cannot be read. */
static int read_words(long pid, char text[COMMAND_LINE], const char *words[WORDS])
{
    const size_t bytes = bb_process_read(pid, "cmdline", text, COMMAND_LINE);
    int n = 0;

    for (const char *at = text; at < text + bytes && n < WORDS; at += strlen(at) + 1)
        words[n++] = at;
    return n;
}

/* Returns the parent of a process; 0: unknown. */
static long parent_of(long pid)
{
    char text[512];
    const char *end;

    bb_process_read(pid, "stat", text, sizeof text);
    end = strrchr(text, ')'); /* "PID (NAME) STATE PPID" */
    return end && strlen(end) > 4 ? strtol(end + 4, NULL, 10) : 0;
}

/* Returns whether a word, NAME or NAME=VALUE, names a secret. Results have the values of variables of busbar, NCCL and CUDA. */
static bool names_secret(const char *word)
{
    static const char *const parts[] = {"KEY", "PASS", "JWT", "CREDENTIAL", "AUTH"};
    char *name = bb_format("%.*s", (int)strcspn(word, "="), word);
    bool found = false;

    for (size_t i = 0; i < sizeof parts / sizeof *parts && !strpbrk(name, "-/."); i++)
        found |= strcasestr(name, parts[i]) && strcmp(bb_environment_value(name, ""), "") != 0;
    free(name);
    return found;
}

/* Returns whether a word may be printed: ASCII without control characters, and no variable with a secret, since output is
 * kept and shown to others. */
static bool is_public(const char *word)
{
    static const char *const secrets[] = {"TOKEN", "SECRET", "PASSW", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"};

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (strcasestr(word, secrets[i]))
            return false;
    if (names_secret(word))
        return false;
    while (*word >= ' ' && *word <= '~')
        word++;
    return *word == '\0';
}

/* Returns the position of busbar in the command line of mpirun, n if it is not there or the options are not to be printed.
 * command: the next word, because options may name folders and files like busbar. */
static int find_program(const char *const *words, int n, const char *command)
{
    static const char wrappers[] = "numactl taskset nsys ncu timeout env bash sh gdb strace perf :";

    for (int i = 1; i + 1 < n && is_public(words[i]); i++) {
        if (bb_begins_with(bb_base_name(words[i]), "busbar") && strcmp(words[i + 1], command) == 0)
            return i;
        if (is_listed(wrappers, bb_base_name(words[i]), strlen(bb_base_name(words[i]))))
            break;
    }
    return n;
}

void bb_mpirun_print_options(const char *command, bb_print_word *print, FILE *out)
{
    static const char launchers[] = "mpirun mpiexec orterun prterun mpiexec.hydra mpirun.openmpi mpiexec.openmpi",
                      sets_hosts[] = "-n -np -c --n --np -H -host --host -hosts -hostfile --hostfile -machinefile "
                                     "--machinefile -f -N -npernode --npernode -ppn -perhost";
    const char *words[WORDS];
    char text[COMMAND_LINE];
    int n = 0, program;

    for (long pid = getppid(); pid > 1; pid = parent_of(pid)) {
        n = read_words(pid, text, words);
        if (n > 0 && is_listed(launchers, bb_base_name(words[0]), strlen(bb_base_name(words[0]))))
            break;
        n = 0;
    }
    program = find_program(words, n, command);
    for (int i = 1; program < n && i < program; i++) {
        const size_t length = strcspn(words[i], "=");

        if (is_listed(sets_hosts, words[i], length)) {
            i += words[i][length] == '\0';
            continue;
        }
        fputc(' ', out);
        print(words[i], out);
    }
}
