/*
 * sweep_main.c - `busbar sweep`: reads and expands the study, then runs it, lists it, writes Slurm scripts, or gathers
 * its results. The sweep itself is a single process without MPI and GPU; only the runs that it starts use both.
 */
#include "bootstrap/sweep/sweep_main.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/progress.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/results.h"
#include "bootstrap/start/mpirun.h"
#include "bootstrap/sweep/collect.h"
#include "bootstrap/sweep/launch_runs.h"
#include "bootstrap/sweep/state.h"
#include "bootstrap/sweep/view.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *output, *json, *csv, *junit, *prometheus, *launcher, *hosts, *launch_arguments, *program, *ranks;
    struct bb_sweep_view view;
    double timeout_s;
    int max_combinations;
    bool list, slurm, submit, gather, retry_failed, restart, full, quiet;
};

#define FIELD(name) offsetof(struct options, name)

static const struct bb_opt what_rows[] = {
    OPT_FLAG(
        0, "list", FIELD(list),
        "only print each combination, its state and its command line; with --slurm: the scripts, without writing them"),
    OPT_FLAG(0, "slurm", FIELD(slurm),
             "only write the remaining combinations as Slurm array jobs, and print the sbatch commands"),
    OPT_FLAG(0, "submit", FIELD(submit), "write the array jobs, submit them with sbatch, and print their ids"),
    OPT_FLAG(0, "gather", FIELD(gather), "only gather the existing results"),
    OPT_FLAG(0, "retry-failed", FIELD(retry_failed), "run combinations again that failed or are below their threshold"),
    OPT_FLAG(0, "restart", FIELD(restart), "run all combinations again"),
    OPT_INT(0, "max-combinations", FIELD(max_combinations), "1000", "N", 1, 100000,
            "reject a study with more than N combinations"),
    {0},
};

static const struct bb_opt how_rows[] = {
    OPT_CHOICE(0, "launcher", FIELD(launcher), NULL, "NAME", bb_study_launchers,
               "launcher of the ranks (default: launch.with in FILE, else mpirun, or srun with --slurm)"),
    OPT_STRING(0, "ranks", FIELD(ranks), NULL, "LIST",
               "numbers of ranks, for example 2,4,8; replaces \"ranks\" in FILE"),
    OPT_STRING(0, "hosts", FIELD(hosts), NULL, "LIST", "hosts for the launcher: --host of mpirun, --nodelist of srun"),
    OPT_STRING(0, "launch-arguments", FIELD(launch_arguments), NULL, "ARGS",
               "additional launcher arguments, split at blanks"),
    OPT_STRING(0, "program", FIELD(program), NULL, "FILE",
               "busbar executable to run (default: launch.program in FILE, else this executable)"),
    OPT_DOUBLE(0, "timeout", FIELD(timeout_s), NULL, "SECONDS", 0.001, 1e7,
               "time limit of a run without timeout_s in FILE (default: none; busbar ends hanging runs "
               "itself)"),
    {0},
};

static const struct bb_opt where_rows[] = {
    OPT_STRING('o', "output", FIELD(output), NULL, "DIR", "results folder (default: NAME.sweep)"),
    OPT_OUTPUT_DASH(0, "json", FIELD(json),
                    "all results as busbar.sweep/1, - for stdout (default: DIR/sweep.json)" BB_PRIVATE_HELP),
    OPT_OUTPUT_DASH(0, "csv", FIELD(csv), "the table as CSV, - for stdout (default: DIR/sweep.csv)" BB_CSV_HELP),
    OPT_OUTPUT(0, "junit", FIELD(junit), "write a check for each combination as JUnit XML, for CI"),
    OPT_OUTPUT(0, "prometheus", FIELD(prometheus),
               "write the checks as Prometheus metrics, for the textfile collector of node_exporter"),
    OPT_STRING(0, "sort", FIELD(view.sort), NULL, "COLUMN",
               "sort printed rows and --csv by a column (`busbar list columns`); -COLUMN: descending"),
    OPT_STRING(
        0, "where", FIELD(view.where), NULL, "LIST",
        "only rows that satisfy all conditions: COLUMN, one of < <= > >= = !=, value; for example 'ranks>=4,state=ok'"),
    OPT_INT(0, "top", FIELD(view.top), NULL, "N", 1, 1e9, "only the first N rows, after --where and --sort"),
    OPT_FLAG(0, "full", FIELD(full), "print all rows and failures; default: the first ones in at most 25 lines"),
    OPT_QUIET(FIELD(quiet)),
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "Action (default: run the combinations that are not complete, then gather)", .opts = what_rows},
    {.title = "Launch", .opts = how_rows},
    {.title = "Results", .opts = where_rows},
    {0},
};

/* The installed studies (profiles/studies), for shell completion. */
static const char *study_at(size_t i)
{
    static const char *const names[] = {"ctas", "gpt2-layouts", "mpi4dl", "nccl-choices", "scaling"};

    return i < sizeof(names) / sizeof(names[0]) ? names[i] : NULL;
}

static const struct bb_opts set = {
    .usage = "busbar sweep FILE|NAME [OPTION...]",
    .choice_at = study_at,
    .doc =
        "Runs a parameter study: all combinations of options, environment variables and numbers of ranks in the JSON\n"
        "file FILE, or in the installed study NAME (an unknown NAME lists them), one after another, each under mpirun\n"
        "or srun. Then gathers all results in one table. Complete combinations are not run again, so the same command\n"
        "continues an interrupted sweep. The command may also be a program other than busbar, whose results are read\n"
        "from its output or from its JSON file.",
    .after =
        "  {\"command\": \"bench all_reduce\", \"ranks\": 8, \"options\": {\"maxbytes\": \"1G\"},\n"
        "   \"environment\": {\"NCCL_ALGO\": [\"Ring\", \"Tree\"], \"NCCL_PROTO\": [\"LL\", \"LL128\", \"Simple\"]}}\n"
        "  {\"command\": \"./my_program --size={bytes}\", \"ranks\": 8, \"values\": {\"bytes\": [1024, 65536]},\n"
        "   \"metrics\": {\"images_per_s\": \"Global Img/sec: ([0-9.]+)\"}}\n"
        "  {\"command\": \"proxy scaling --model resnet50\", \"ranks\": [1, 2, 4], \"columns\": "
        "[\"scaling.images_per_s\",\n"
        "   {\"name\": \"efficiency\", \"value\": \"scaling.images_per_s_per_rank\", \"relative_to\": {\"ranks\": "
        "1}}]}\n"
        "Keys of FILE (see bootstrap/sweep/README.md): name, about, command, values, options, environment, ranks,\n"
        "metrics, launch_arguments, timeout_s, choices, cases, leave_out, repeats, launch (with, hosts, program),\n"
        "slurm (lines, setup, at_once, tasks_per_array, gpus_per_node), columns (fields of the results; with "
        "relative_to\n"
        "the ratio to the same field of another combination, for example speed-up or efficiency), charts.",
    .exits = {[0] = "all combinations are complete",
              [1] = "a combination failed or did not run",
              [2] = "usage error or invalid study",
              [5] = "no combination failed, but one is below its threshold (exit status 5 of its run)"},
    .examples = "Run a study, then print its five best rows:\n"
                "  busbar sweep study.json\n"
                "  busbar sweep study.json --gather --sort=-busbw_gbps --top 5\n",
    .tables = tables,
};

/* State of a sweep. A zero-initialized struct is empty. */
struct sweep {
    struct options options;
    struct bb_study study;
    struct bb_sweep_runs combinations;
    struct bb_launch_runs launch;
    struct bb_progress progress;
    char here[PATH_MAX]; /* the current folder, in which the runs start */
    char *dir;           /* absolute path of the results folder */
    char *json, *csv;    /* paths of all results and of the table; "-": stdout */
    int lock;            /* descriptor of the lock file of the results folder; 0: not locked */
    int argc;            /* argc, argv: the command line as typed */
    char **argv;
    /* numbers of combinations: that this sweep must run, that have run, and that have run and failed */
    size_t to_run, ran, failed;
    const struct bb_sweep_run *running; /* the combination that is running */
    struct bb_sweep_found reported;     /* the last failure that was reported */
};

/* ---- command line ---- */

/* Rejects options of the table with --list, --slurm or --submit, which print no table. */
static int check_table(const struct options *o)
{
    const char *const mode = o->list ? "list" : o->slurm ? "slurm" : o->submit ? "submit" : NULL;
    const struct {
        const char *name;
        bool given;
    } of_table[] = {{"where", o->view.where}, {"sort", o->view.sort}, {"top", o->view.top > 0},     {"json", o->json},
                    {"csv", o->csv},          {"junit", o->junit},    {"prometheus", o->prometheus}};

    for (size_t i = 0; mode && i < sizeof of_table / sizeof *of_table; i++)
        if (of_table[i].given)
            return bb_err(BB_EUSAGE, "--%s applies to the table of results, which --%s does not print; leave it out",
                          of_table[i].name, mode);
    return 0;
}

static int check_options(const struct options *o)
{
    const struct {
        const char *name;
        bool given;
    } of_runs[] = {{"list", o->list},         {"restart", o->restart},      {"retry-failed", o->retry_failed},
                   {"launcher", o->launcher}, {"hosts", o->hosts},          {"launch-arguments", o->launch_arguments},
                   {"program", o->program},   {"timeout", o->timeout_s > 0}};
    int rc;

    if (o->slurm + o->submit + o->gather > 1)
        return bb_err(BB_EUSAGE, "--slurm, --submit and --gather are mutually exclusive");
    for (size_t i = 0; o->gather && i < sizeof of_runs / sizeof *of_runs; i++)
        if (of_runs[i].given)
            return bb_err(BB_EUSAGE, "--gather starts no runs, so --%s has no effect; leave it out", of_runs[i].name);
    TRY(check_table(o));
    TRY(bb_results_validate(o->json, o->csv));
    TRY(bb_checks_validate(o->junit, o->prometheus));
out:
    return rc;
}

static int parse_words(struct sweep *s, int argc, char **argv, const struct bb_study_command *commands, size_t n)
{
    struct bb_expand_plan plan = {.commands = commands, .n_commands = n};
    struct bb_positionals positionals;
    int rc;

    TRY(bb_opts_parse(&set, &s->options, argc, argv, &positionals, stdout));
    if (positionals.n != 1)
        return bb_err(BB_EUSAGE, "%d files given, expected one: busbar sweep FILE", positionals.n);
    TRY(check_options(&s->options));
    if (bb_mpirun_started_us()) /* each rank would start the launcher inside the job */
        return bb_err(BB_EUSAGE, "busbar sweep starts the ranks itself; run it without mpirun");
    plan.ranks = s->options.ranks;
    plan.timeout_s = s->options.timeout_s;
    plan.max_combinations = (size_t)s->options.max_combinations;
    TRY(bb_study_load(&s->study, positionals.word[0]));
    TRY(bb_expand(&s->combinations, &s->study, &plan));
    TRY(bb_view_check(&s->options.view, &s->study, &s->combinations));
    if (!s->options.gather)
        TRY(bb_sweep_check_columns(&s->study, &s->combinations));
out:
    return rc;
}

/* Sets up the launcher. If neither an option nor the file names a launcher, --slurm and --submit use srun, because
 * Slurm batch jobs provide srun. */
static int prepare_launch(struct sweep *s)
{
    const struct options *o = &s->options;
    const char *launcher = o->launcher;
    int rc;

    s->launch = (struct bb_launch_runs){.study = &s->study, .here = s->here, .dir = s->dir};
    if (!launcher && (o->slurm || o->submit) && !json_object_get(json_object_get(s->study.root, "launch"), "with"))
        launcher = "srun";
    rc = bb_launch_runs_init(&s->launch, launcher, o->hosts, o->launch_arguments, o->program);
    return rc ? rc : bb_launch_runs_check(&s->launch, &s->combinations);
}

/* Sets the path of the results folder. The path is absolute, because ranks may start in other folders. The folder
 * need not exist yet. */
static int set_folder(struct sweep *s)
{
    const char *given = s->options.output;
    char name[BB_STUDY_NAME_TEXT + 8];

    snprintf(name, sizeof(name), "%s.sweep", s->study.name);
    given = given ? given : name;
    if (!*given || !getcwd(s->here, sizeof(s->here)))
        return bb_err(BB_EUSAGE, "--output: cannot use '%s' as folder: %s", given, strerror(*given ? errno : ENOENT));
    s->dir = *given == '/' ? bb_copy_text(given) : bb_format("%s/%s", s->here, given);
    s->json = s->options.json ? bb_copy_text(s->options.json) : bb_format("%s/sweep.json", s->dir);
    s->csv = s->options.csv ? bb_copy_text(s->options.csv) : bb_format("%s/sweep.csv", s->dir);
    return 0;
}

/* Rejects a file to write that is the study or its lock, all results or the table, or that the command of a run names: its
 * input or its result. path: NULL: none */
static int check_output(const struct sweep *s, const char *option, const char *path)
{
    char *lock;
    bool replaces;

    if (!path)
        return 0;
    lock = bb_format("%s/lock", s->dir);
    replaces = bb_opts_replaces(path, s->study.path) || bb_outfile_replaces(path, lock) ||
               (path != s->json && path != s->csv &&
                (bb_outfile_replaces(path, s->json) || bb_outfile_replaces(path, s->csv)));
    free(lock);
    for (size_t i = 0; i < s->combinations.n && !replaces && !bb_outfile_is_stdout(path); i++) {
        struct bb_argv words = bb_launch_runs_argv(&s->launch, &s->combinations.one[i], true);

        for (size_t w = 0; w < words.n; w++)
            replaces |= bb_opts_replaces(path, words.word[w]);
        replaces |= bb_sweep_replaces(s->dir, &s->combinations.one[i], path);
        bb_argv_release(&words);
    }
    return replaces ? bb_err(BB_EUSAGE, "--%s %s: this file of the study would be replaced; try: another file name",
                             option, path)
                    : 0;
}

static int check_outputs(const struct sweep *s)
{
    const bool created = mkdir(s->dir, 0777) == 0; /* files of a missing folder cannot be compared */
    int rc = bb_opts_replaces(s->json, s->csv)
                 ? bb_err(BB_EUSAGE, "--json %s: the table (--csv) has the same name; try: another file name", s->json)
                 : 0;

    rc = rc ? rc : check_output(s, "json", s->json);
    rc = rc ? rc : check_output(s, "csv", s->csv);
    rc = rc ? rc : check_output(s, "junit", s->options.junit);
    rc = rc ? rc : check_output(s, "prometheus", s->options.prometheus);
    if (rc && created)
        rmdir(s->dir);
    return rc;
}

/* ---- running the combinations ---- */

/* Returns the list of the combinations that this sweep must run, in the order of the study; the caller frees the
 * list. */
static const struct bb_sweep_run **list_wanted(struct sweep *s)
{
    const struct bb_sweep_run **list;

    BB_NEW(list, s->combinations.n);
    s->to_run = 0;
    for (size_t i = 0; i < s->combinations.n; i++) {
        struct bb_sweep_found found;

        bb_sweep_load_state(s->dir, &s->combinations.one[i], &found);
        if (s->options.restart || found.state == BB_SWEEP_TO_DO ||
            (found.state != BB_SWEEP_COMPLETE && s->options.retry_failed))
            list[s->to_run++] = &s->combinations.one[i];
        bb_sweep_found_release(&found);
    }
    return list;
}

static void show_progress(void *arg, double seconds)
{
    struct sweep *s = arg;
    char text[160];

    bb_progress_show(&s->progress, "%zu/%zu, %zu failed  %s  %.0f s", s->ran + 1, s->to_run, s->failed,
                     bb_settings_text(s->running, text, sizeof(text)), seconds);
}

/* Reports a failed run immediately, with the last line that the run wrote to stderr, unless the failure reported before
 * is of the same kind: the table has the number of these. */
static void report_failure(struct sweep *s, const struct bb_started *ended)
{
    struct bb_sweep_found found;
    char text[400];

    bb_sweep_load_state(s->dir, s->running, &found);
    if (found.state != BB_SWEEP_COMPLETE) {
        const char *last = json_string_value(json_array_get(found.errors, json_array_size(found.errors) - 1));

        s->failed += found.state == BB_SWEEP_FAILED;
        if (bb_sweep_is_same_failure(&found, &s->reported)) {
            bb_sweep_found_release(&found);
            return;
        }
        bb_progress_clear(&s->progress);
        bb_warn("%s: %s %d%s%s", bb_settings_text(s->running, text, sizeof(text)),
                found.state == BB_SWEEP_BELOW ? "below threshold, exit status"
                : ended->exit_status == 124   ? "timeout, exit status"
                                              : "failed with exit status",
                ended->exit_status, last ? ": " : "", last ? last : "");
        bb_sweep_found_release(&s->reported);
        s->reported = found;
        return;
    }
    bb_sweep_found_release(&found);
}

static int run_one(struct sweep *s, const struct bb_sweep_run *c)
{
    struct bb_started ended;
    json_t *inputs = NULL;
    int rc;

    s->running = c;
    show_progress(s, 0);
    TRY(bb_sweep_await_previous(s->dir, c));
    TRY(bb_sweep_remove_files(s->dir, c));
    inputs = bb_sweep_inputs(c);
    TRY(bb_sweep_record(s->dir, c, inputs, -1, NAN));
    TRY(bb_launch_runs_run(&s->launch, c, show_progress, s, &ended));
    if (ended.stopped_by) {
        bb_progress_clear(&s->progress);
        TRY(bb_err(BB_EFAIL, "stopped by %s after %zu of %zu combinations; run the same command again to continue",
                   strsignal(ended.stopped_by), s->ran, s->to_run));
    }
    TRY(bb_sweep_record(s->dir, c, inputs, ended.exit_status, ended.seconds));
    report_failure(s, &ended);
    s->ran++;
    bb_progress_advance(&s->progress, 1);
out:
    json_decref(inputs);
    return rc;
}

/* Warns that combinations that failed before are not run again, although the options that start them may be new. */
static void warn_of_kept_failures(const struct sweep *s)
{
    const struct options *o = &s->options;
    size_t n = 0;

    if (o->restart || o->retry_failed || !(o->launch_arguments || o->launcher || o->hosts))
        return;
    for (size_t i = 0; i < s->combinations.n; i++) {
        struct bb_sweep_found found;

        bb_sweep_load_state(s->dir, &s->combinations.one[i], &found);
        n += found.state == BB_SWEEP_FAILED;
        bb_sweep_found_release(&found);
    }
    if (n > 0)
        bb_warn("%zu combination%s failed in an earlier sweep and %s not run with the given launch options; try: "
                "--retry-failed",
                n, bb_plural(n), n == 1 ? "is" : "are");
}

/* Warns of results that are not used because an input file has changed, and of results that are kept although a variable
 * of the shell has. */
static void warn_of_changed_inputs(const struct sweep *s)
{
    char *file = NULL, *variable = NULL;
    size_t files = 0, variables = 0;

    for (size_t i = 0; i < s->combinations.n && !s->options.restart; i++) {
        struct bb_sweep_found found;

        bb_sweep_load_state(s->dir, &s->combinations.one[i], &found);
        files += found.changed_file != NULL;
        variables += found.changed_variable != NULL;
        if (found.changed_file && !file)
            file = bb_copy_text(found.changed_file);
        if (found.changed_variable && !variable)
            variable = bb_copy_text(found.changed_variable);
        bb_sweep_found_release(&found);
    }
    if (files)
        bb_warn("input files of %zu combination%s have changed, first %s; earlier results of %s are not used", files,
                bb_plural(files), file, files == 1 ? "it" : "them");
    if (variables)
        bb_warn("%s has another value than when %zu combination%s ran; try: --restart to run %s again, or another "
                "--output",
                variable, variables, bb_plural(variables), variables == 1 ? "it" : "them");
    free(file);
    free(variable);
}

static int run_wanted(struct sweep *s)
{
    const struct bb_sweep_run **list = list_wanted(s);
    int rc = 0;

    warn_of_kept_failures(s);
    bb_progress_init(&s->progress, 0, s->options.quiet);
    bb_progress_expect(&s->progress, (double)s->to_run);
    for (size_t i = 0; i < s->to_run && rc == 0; i++)
        rc = run_one(s, list[i]);
    bb_progress_end(&s->progress);
    free(list);
    return rc;
}

/* Returns the command line that gathers the results of array jobs, in the folder in which the runs start. */
static struct bb_argv gather_words(const struct sweep *s)
{
    const struct options *o = &s->options;
    struct bb_argv words = {0};

    bb_argv_add(&words, "busbar");
    bb_argv_add(&words, "sweep");
    bb_argv_add(&words, "%s", s->study.path);
    bb_argv_add(&words, "--gather");
    bb_argv_add(&words, "--output=%s", s->dir);
    if (o->ranks)
        bb_argv_add(&words, "--ranks=%s", o->ranks);
    if (s->combinations.n > 1000) /* the default */
        bb_argv_add(&words, "--max-combinations=%d", o->max_combinations);
    return words;
}

static int write_slurm(struct sweep *s)
{
    const struct bb_sweep_run **list = list_wanted(s);
    const enum bb_slurm_action action = s->options.list     ? BB_SLURM_PRINT
                                        : s->options.submit ? BB_SLURM_SUBMIT
                                                            : BB_SLURM_WRITE;
    struct bb_argv gather = gather_words(s);
    int rc = bb_slurm_write(&s->launch, list, s->to_run, action, &gather, stdout);

    if (rc == 0 && s->to_run == 0)
        bb_warn("all combinations have run, so no array job was written");
    bb_argv_release(&gather);
    free(list);
    return rc;
}

/* ---- printing the list, writing the results ---- */

/* Prints variables as arguments of env(1), first the variables to unset. */
static void print_environment(const struct bb_argv *environment)
{
    if (environment->n)
        fputs("env ", stdout);
    for (size_t v = 0; v < environment->n; v++)
        if (!strchr(environment->word[v], '='))
            printf("-u %s ", environment->word[v]);
    for (size_t v = 0; v < environment->n; v++) {
        const char *variable = environment->word[v], *equals = strchr(variable, '=');

        if (!equals)
            continue;
        printf("%.*s=", (int)(equals - variable), variable);
        bb_quote(equals + 1, stdout);
        putchar(' ');
    }
}

static void print_combination(const struct sweep *s, size_t i)
{
    const struct bb_sweep_run *c = &s->combinations.one[i];
    struct bb_argv words = bb_launch_runs_argv(&s->launch, c, false);
    struct bb_sweep_found found;
    char text[1024];

    bb_sweep_load_state(s->dir, c, &found);
    printf("# %zu %s %s: %s\n", i + 1, c->id, bb_sweep_state_names[found.state],
           bb_settings_text(c, text, sizeof(text)));
    print_environment(&c->environment);
    bb_quote_all(&words, stdout);
    putchar('\n');
    bb_sweep_found_release(&found);
    bb_argv_release(&words);
}

static const char gathered[] = "the gathered results";
enum { REASON_TEXT = 160 };

/* Writes all results as JSON, or the table as CSV (root: NULL), with mode 0600: results contain environment variables. */
static int write_results(const struct bb_gathered *g, const json_t *root, const char *path)
{
    struct bb_outfile file = {.out = stdout};
    int rc = 0;

    if (!bb_outfile_is_stdout(path))
        TRY(bb_outfile_open_private(&file, path, gathered));
    if (!root) {
        bb_gathered_csv(g, file.out);
    } else {
        json_dumpf(root, file.out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
        fputc('\n', file.out);
    }
    if (!bb_outfile_is_stdout(path))
        rc = bb_outfile_close(&file, gathered, 0);
out:
    return rc;
}

/* Returns whether --retry-failed, which is not given, may succeed: not after a usage error, such as an invalid layout. */
static bool may_retry(const struct options *o, const struct bb_gathered *g)
{
    for (size_t i = 0; i < g->combinations->n && !o->retry_failed; i++)
        if (g->found[i].state == BB_SWEEP_FAILED && g->found[i].exit_status != BB_EUSAGE)
            return true;
    return false;
}

/* Returns 0 if all combinations are complete; else the error code of the sweep. text: out, its error line. */
static enum bb_error judge(const struct options *o, const struct bb_gathered *g, char text[REASON_TEXT])
{
    const size_t n = g->combinations->n, below = g->count[BB_SWEEP_BELOW];
    char also[64] = "";

    if (g->count[BB_SWEEP_COMPLETE] == n)
        return 0;
    if (g->count[BB_SWEEP_COMPLETE] + below == n) {
        snprintf(text, REASON_TEXT, "%zu of %zu combinations are below their threshold", below, n);
        return BB_EBELOW;
    }
    if (below)
        snprintf(also, sizeof(also), ", %zu below threshold", below);
    snprintf(text, REASON_TEXT, "%zu of %zu combinations failed, %zu did not run%s%s", g->count[BB_SWEEP_FAILED], n,
             g->count[BB_SWEEP_TO_DO], also, may_retry(o, g) ? "; try: --retry-failed" : "");
    return BB_EFAIL;
}

/* Returns a check for each combination. */
static json_t *checks_json(const struct bb_gathered *g)
{
    static const enum bb_check_status statuses[BB_SWEEP_STATES] = {
        [BB_SWEEP_FAILED] = BB_CHECK_FAIL, [BB_SWEEP_BELOW] = BB_CHECK_FAIL, [BB_SWEEP_TO_DO] = BB_CHECK_UNKNOWN};
    json_t *list = json_array();
    char name[400];

    for (size_t i = 0; i < g->combinations->n; i++) {
        const struct bb_sweep_found *found = &g->found[i];
        const char *reason = json_string_value(json_object_get(found->result, "reason"));

        bb_settings_text(&g->combinations->one[i], name, sizeof name);
        bb_checks_add(list, &(struct bb_check){.check = name,
                                               .status = statuses[found->state],
                                               .measured = NAN,
                                               .expected = NAN,
                                               .reason = reason ? reason : bb_sweep_state_names[found->state]});
    }
    return list;
}

/* Keeps the first error, so that the other outputs are written. */
static void count_failed(int *failed, int rc)
{
    *failed = *failed ? *failed : rc;
}

/* Writes all outputs that can be written. */
static int gather_results(const struct sweep *s)
{
    const struct options *o = &s->options;
    char reason[REASON_TEXT];
    enum bb_error code;
    struct bb_gathered g;
    json_t *root;
    int failed, rc;

    bb_gather(&g, &s->study, &s->combinations, s->dir);
    root = bb_gathered_json(&g);
    code = judge(o, &g, reason);
    bb_results_set_end(root, -(int)code, reason);
    (void)!json_object_set_new(root, "checks", checks_json(&g));
    failed = write_results(&g, root, s->json);
    bb_gathered_identify(&g);
    if (!o->csv)
        count_failed(&failed, write_results(&g, NULL, s->csv));
    TRY(bb_view_apply(&o->view, &g));
    if (o->csv)
        count_failed(&failed, write_results(&g, NULL, s->csv));
    if (failed)
        bb_results_set_end(root, failed, NULL);
    if (!o->quiet && !bb_outfile_is_stdout(s->json) && !bb_outfile_is_stdout(s->csv)) {
        bb_print_report_header(stdout, s->argc, s->argv);
        bb_gathered_text(&g, o->full || o->view.top > 0, stdout);
        fflush(stdout); /* in a common file of stdout and stderr, the error below must be the last line */
    }
    count_failed(&failed, bb_checks_save(root, NULL, o->junit, o->prometheus));
    rc = code && !failed ? bb_err(code, "%s", reason) : failed;
out:
    json_decref(root);
    bb_gathered_release(&g);
    return rc;
}

static int run_command(struct sweep *s)
{
    int rc;

    TRY(set_folder(s));
    TRY(prepare_launch(s));
    if (s->options.list && (s->options.slurm || s->options.submit))
        return write_slurm(s);
    for (size_t i = 0; s->options.list && i < s->combinations.n; i++)
        print_combination(s, i);
    if (s->options.list)
        return 0;
    TRY(check_outputs(s));
    TRY(bb_sweep_lock_folder(s->dir, s->options.gather ? NULL : &s->lock));
    TRY(bb_outfile_check(s->json, gathered)); /* once their usual folder exists */
    TRY(bb_outfile_check(s->csv, gathered));
    warn_of_changed_inputs(s);
    bb_warn_hold(0);
    if (s->options.slurm || s->options.submit)
        return write_slurm(s);
    if (!s->options.gather)
        TRY(run_wanted(s));
    TRY(gather_results(s));
out:
    return rc;
}

int bb_sweep_main(int argc, char **argv, const struct bb_study_command *commands, size_t n, size_t *ran)
{
    struct sweep s = {.argc = argc, .argv = argv};
    int rc = parse_words(&s, argc, argv, commands, n);

    rc = rc ? rc : run_command(&s);
    if (ran)
        *ran = s.ran;
    if (s.lock > 0)
        close(s.lock);
    bb_sweep_found_release(&s.reported);
    bb_launch_runs_release(&s.launch);
    bb_sweep_runs_release(&s.combinations);
    bb_study_release(&s.study);
    free(s.dir);
    free(s.json);
    free(s.csv);
    return rc;
}
