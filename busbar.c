/*
 * busbar.c - main(): dispatches the subcommands. Functions return a code; only main() converts the code to the exit
 * status.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/err.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/report/report_main.h"
#include "bootstrap/results/results.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/sweep/argv.h"
#include "bootstrap/sweep/collect.h"
#include "bootstrap/sweep/sweep_main.h"
#include "collectives/bench_main.h"
#include "collectives/compare/compare.h"
#include "collectives/compare/result_reader.h"
#include "collectives/health/health_options.h"
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/bench_plan/expectation.h"
#include "proxies/offline/calibrate/calibrate_main.h"
#include "proxies/plan_main.h"
#include "proxies/proxy_main.h"
#include "proxies/workloads/registry/registry.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A subcommand. run() receives the subcommand's name as argv[0]. run() returns 0, a negative error code (-BB_E...),
 * or a positive code such as BB_OPTS_HELP, which is success. */
struct command {
    const char *name, *help;
    int (*run)(int argc, char **argv);
};

static int list_main(int argc, char **argv);
static int help_main(int argc, char **argv);
static int sweep_main(int argc, char **argv);
static int calibrate_main(int argc, char **argv);
static int report_main(int argc, char **argv);
static int health_main(int argc, char **argv);

static const struct command commands[] = {
    {"bench", "time collectives: latency, algorithm and bus bandwidth", bb_bench_main},
    {"proxy", "run a training step's communication and measure its overlap with compute", bb_proxy_main},
    {"health", "test every GPU, node, network connection and rail of a job, and name the bad ones", health_main},
    {"plan", "predict a training step or a collective offline: traffic, memory, time; no GPU, no MPI", bb_plan_main},
    {"compare", "compare result files or plans: faster or slower?", bb_compare_main},
    {"calibrate", "fit a cluster profile to measurements, for use by plan", calibrate_main},
    {"sweep", "run a command with many combinations of options, write one table", sweep_main},
    {"report", "write a page of charts from the results of these commands", report_main},
    {"list", "list collectives, dtypes, ops, proxies, models, architectures, clusters or columns", list_main},
    {"help", "print the options of a command, like --help, or one option; environment: the environment variables",
     help_main},
};

/* Questions that users come with, and the command that answers each. */
static const char *const questions[][2] = {
    {"Is my bandwidth normal?", "mpirun -n 8 busbar bench all_reduce -b 8 -e 1G --expect auto"},
    {"Which node, NIC or GPU is slow?", "mpirun -n 16 busbar health"},
    {NULL, "mpirun -n 16 busbar bench p2p --max-slow 0"},
    {"What will 512 GPUs do?",
     "busbar plan transformer --model llama3_8b --ranks 512 --dp-sync zero3 --cluster h100-sxm-ib"},
    {"Which layout is fastest and fits?", "busbar plan transformer --model llama3_70b --ranks 64 --best-layout "
                                          "--global-batch-size 64 --cluster h100-sxm-ib"},
    {"How much communication is hidden by compute?", "mpirun -n 8 busbar proxy transformer --model gpt2_small"},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const struct listing {
    const char *name, *note; /* note: text after the name in the heading */
    json_t *(*rows)(void);   /* returns a new list of objects, NULL after printing an error */
} listings[] = {
    {"collectives", "", bb_list_collectives},
    {"dtypes", "", bb_list_dtypes},
    {"ops", "", bb_list_ops},
    {"proxies", "", bb_list_proxies},
    {"models", " (name, proxy): busbar plan PROXY --model NAME, or busbar plan NAME if both are equal", bb_list_models},
    {"architectures", " (model_type, class) of text models: busbar plan transformer --model config.json",
     bb_list_architectures},
    {"clusters", "", bb_list_clusters},
    {"columns", "", bb_list_columns},
};

enum { N_LISTINGS = sizeof(listings) / sizeof(listings[0]) };

/* The commands whose arguments can be validated without running them. */
static const struct bb_study_command runs[] = {
    {.name = "bench", .launched = true, .check = bb_bench_check},
    {.name = "proxy", .launched = true, .check = bb_proxy_check},
    {.name = "plan", .check = bb_plan_check},
    {.name = "health", .launched = true, .check = bb_health_check},
};

enum { N_RUNS = sizeof(runs) / sizeof(runs[0]) };

/* Runs `busbar sweep`. The commands that a study may run are passed as an argument, because bootstrap/ does not
 * depend on collectives/ and proxies/. */
static int count_sweep_main(int argc, char **argv, size_t *ran)
{
    return bb_sweep_main(argc, argv, runs, N_RUNS, ran);
}

static int sweep_main(int argc, char **argv)
{
    return count_sweep_main(argc, argv, NULL);
}

static int report_main(int argc, char **argv)
{
    return bb_report_main(argc, argv, bb_result_tree_load);
}

static int health_main(int argc, char **argv)
{
    return bb_health_main(bb_expectation_forecast, argc, argv);
}

static int calibrate_main(int argc, char **argv)
{
    return bb_calibrate_main(argc, argv, count_sweep_main);
}

static void complete_commands(const char *text)
{
    for (int i = 0; i < N_COMMANDS; i++)
        bb_opts_print_candidate(commands[i].name, text, commands[i].help, stdout);
}

/* ---- busbar list ---- */

struct list_options {
    const char *json;
    bool quiet;
};

static const struct bb_opt list_rows[] = {
    OPT_OUTPUT_DASH(0, "json", offsetof(struct list_options, json), "write the rows as JSON, - for stdout"),
    OPT_FLAG(0, "quiet", offsetof(struct list_options, quiet), "print no table"),
    {0},
};

static const struct bb_opt_table list_tables[] = {{.title = "Options", .opts = list_rows}, {0}};

static const char *listing_at(size_t i)
{
    return i < N_LISTINGS ? listings[i].name : NULL;
}

static const struct bb_opts list_set = {
    .usage = "busbar list [WHAT] [OPTION...]",
    .doc = "Lists collectives, dtypes, ops, proxies, models, architectures, clusters or columns (default: all).\n"
           "columns: the default columns of sweep; other columns are axes of the study, state, and the JSON path of\n"
           "any value in the result (bootstrap/results/README.md); a trailing .p50 may be omitted.",
    .exits = {BB_EXITS_OFFLINE},
    .examples = "  busbar list models\n",
    .choice_at = listing_at,
    .tables = list_tables,
};

/* Prints the values up to the description in columns, and the other values in parentheses. */
static void print_list_row(json_t *row)
{
    enum { TEXT_WIDTH = 23, NUMBER_WIDTH = 28 };
    int column = 2, at = 0;
    bool is_described = false;
    const char *key;
    json_t *value;

    json_object_foreach(row, key, value)
    {
        if (is_described && json_is_string(value)) {
            printf(" (%s: %s)", key, json_string_value(value));
        } else if (json_is_string(value)) {
            at += printf("%*s%s", column - at, "", json_string_value(value));
            column += TEXT_WIDTH;
        } else if (json_is_integer(value)) {
            at += printf("%*s%14lld %s", column - at, "", json_integer_value(value), key);
            column += NUMBER_WIDTH;
        }
        is_described = is_described || strcmp(key, "description") == 0;
    }
    putchar('\n');
}

/* Adds the list `what` (NULL: all lists) to the document. */
static int add_lists(json_t *document, const char *what)
{
    bool is_known = !what;

    for (int i = 0; i < N_LISTINGS; i++) {
        if (what && strcmp(what, listings[i].name) != 0)
            continue;
        is_known = true;
        if (json_object_set_new(document, listings[i].name, listings[i].rows()) != 0)
            return -BB_EFAIL;
    }
    return is_known ? 0 : bb_reject_unknown_at("list", what, listing_at);
}

static void print_lists(const json_t *document)
{
    json_t *rows, *row;
    size_t r;

    for (int i = 0; i < N_LISTINGS; i++) {
        if (!(rows = json_object_get(document, listings[i].name)))
            continue;
        printf("%s%s\n", listings[i].name, listings[i].note);
        json_array_foreach(rows, r, row)
        {
            print_list_row(row);
        }
    }
}

static int list_main(int argc, char **argv)
{
    struct bb_positionals what;
    struct list_options o;
    json_t *document = NULL;
    int rc;

    TRY(bb_opts_parse(&list_set, &o, argc, argv, &what, stdout));
    if (what.n > 1)
        return bb_err(BB_EUSAGE, "busbar list does not take '%s'; expected: busbar list [WHAT]", what.word[1]);
    TRY(bb_outfile_check(o.json, "the lists"));
    document = json_pack("{s:s, s:s}", "schema", "busbar.list/1", "busbar", BUSBAR_VERSION);
    TRY(add_lists(document, what.n ? what.word[0] : NULL));
    if (!o.quiet && !bb_results_on_stdout(o.json, NULL))
        print_lists(document);
    if (o.json)
        TRY(bb_json_save(o.json, "the lists", json_incref(document), 0));
out:
    json_decref(document);
    return rc;
}

/* ---- help ---- */

static const char about[] = "Measures and predicts the communication of deep-learning training on GPU clusters.";

static const char *const exits[BB_EXITS] = {BB_EXITS_RANKS, [5] = "a result misses a limit that an option sets"};

static const char other_variables[] = "Rank and size of the job come from the variables of the launcher: OMPI_*, "
                                      "PMIX_*, PMI_*, MPI_LOCAL*, MV2_*, ALPS_*,\n"
                                      "MP_*, FLUX_* or SLURM_*. NCCL, CUDA and MPI read variables of their own. "
                                      "Results contain all variables that begin\n"
                                      "with NCCL_, CUDA_, BUSBAR_ or EMU_ (bootstrap/results/README.md). PATH is "
                                      "searched for mpirun, srun and python3.\n";

/* Files of an installation, relative to its prefix. */
static const char *const files[][2] = {
    {"lib/busbar/busbar-rank", "the program of a rank, which bench and proxy start"},
    {"share/busbar/profiles/",
     "models, clusters, studies, JSON Schemas of the results, scripts for Nsight Systems, report"},
    {"share/busbar/mpi.sh", "settings of Open MPI to start ranks as root, and more ranks than cores"},
    {"share/doc/busbar/", "documentation; bootstrap/results/README.md describes each field of the results"},
};

/* Prints what an environment variable does. Returns whether it is one of busbar or NCCL. */
static bool print_variable(const char *wanted, FILE *out)
{
    const char *name, *text;

    for (size_t i = 0; (name = bb_environment_read_at(i, &text)); i++)
        if (strcmp(name, wanted) == 0) {
            bb_opts_print_term(name, text, out);
            return true;
        }
    if (bb_begins_with(wanted, "NCCL_"))
        bb_opts_print_term(
            wanted, "NCCL reads its variables (see its documentation); those of busbar: busbar help environment", out);
    return bb_begins_with(wanted, "NCCL_");
}

static void print_variables(void (*print)(const char *, const char *, FILE *), FILE *out)
{
    const char *name, *text;

    for (size_t i = 0; (name = bb_environment_read_at(i, &text)); i++)
        print(name, text, out);
}

static void print_man(FILE *out)
{
    bb_opts_print_man_header("busbar COMMAND [...]", about, out);
    fprintf(out, ".SH COMMANDS\n");
    for (int i = 0; i < N_COMMANDS; i++)
        bb_opts_print_man_term(commands[i].name, commands[i].help, out);
    bb_opts_print_man_exits(exits, out);
    fprintf(out, ".SH ENVIRONMENT\n");
    print_variables(bb_opts_print_man_term, out);
    fprintf(out, ".PP\n");
    bb_opts_print_man_text(other_variables, out);
    fprintf(out, ".SH FILES\n");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        bb_opts_print_man_term(files[i][0], files[i][1], out);
    fprintf(out, ".SH EXAMPLES\n");
    bb_opts_print_man_text("  busbar list models\n"
                           "  busbar plan all_reduce --ranks 64 --cluster h100-sxm-ib\n"
                           "  mpirun -n 8 busbar bench all_reduce\n",
                           out);
    fprintf(out, ".SH SEE ALSO\n");
    for (int i = 0; i + 1 < N_COMMANDS; i++) /* help, the last command, has no page */
        fprintf(out, ".BR busbar\\-%s (1),\n", commands[i].name);
    fprintf(out, ".BR mpirun (1)\n");
}

static void print_environment(FILE *out)
{
    fprintf(out, "Environment variables of busbar, its scripts and the emulated GPUs:\n\n");
    print_variables(bb_opts_print_term, out);
    fprintf(out, "\n%s", other_variables);
}

static void print_help(FILE *out)
{
    fprintf(out, "Usage: busbar COMMAND [...]\n\n%s\n\n", about);
    for (int i = 0; i < N_COMMANDS; i++)
        bb_opts_print_term(commands[i].name, commands[i].help, out);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        fprintf(out, "%s%s%s  %s\n", questions[i][0] ? "\n" : "", questions[i][0] ? questions[i][0] : "",
                questions[i][0] ? "\n" : "", questions[i][1]);
    fprintf(
        out,
        "\nbusbar COMMAND --help prints the options of a command, busbar --version the version.\n"
        "bench, proxy and health run one rank per GPU: start them with -g 8 on one node, else under mpirun or srun.\n");
}

static const struct command *find_command(const char *word)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* ---- names at the wrong place: `busbar plan llama3_70b`, `busbar p2p` ---- */

static const char *command_at(size_t i)
{
    return i < N_COMMANDS ? commands[i].name : NULL;
}

static const char *coll_name_at(size_t i)
{
    return i < BB_COLL_KIND_COUNT ? bb_colls[i].name : NULL;
}

static const char *compute_at(size_t i)
{
    return i == 0 ? "compute" : NULL;
}

static bool is_json_file(const char *word)
{
    const size_t length = strlen(word);

    return length > 5 && strcmp(word + length - 5, ".json") == 0 && access(word, R_OK) == 0;
}

/* Returns whether a readable file is a result of busbar. */
static bool is_result_file(const char *path)
{
    json_t *root = json_load_file(path, 0, NULL);
    const char *schema = json_string_value(json_object_get(root, "schema"));
    const bool is_result = schema && bb_begins_with(schema, "busbar.");

    json_decref(root);
    return is_result;
}

/* Names that only the commands in `accepted` take as first argument; for other commands the error shows what to type.
 * A proxy precedes the model of the same name. */
static const struct name_kind {
    const char *what, *accepted;
    const char *(*name_at)(size_t i); /* NULL: the name of a readable JSON file */
    const char *instead, *after;      /* arguments before and after the name */
} name_kinds[] = {
    {"a command", "help", command_at, "", ""},
    {"a collective", "bench plan", coll_name_at, "bench ", ""},
    {"the benchmark of kernels", "bench plan", compute_at, "bench ", ""},
    {"a benchmark", "bench", bb_bench_subcommand_at, "bench ", ""},
    {"a proxy", "proxy plan", bb_proxy_name_at, "proxy ", ""},
    {"a model", "", bb_model_name_at, "plan ", ""},
    {"a cluster", "", bb_cluster_name_at, "plan all_reduce --cluster ", ""},
    {"a list", "list", listing_at, "list ", ""},
    {"a file", "", NULL, "report ", " -o page.html"},
};

/* Returns the name of this kind of which `word` is a spelling (bb_is_same_name), preferably one of the same length, so
 * that gpt3-1.3b is gpt3_1_3b and not gpt3_13b; NULL if there is none. */
static const char *find_name(const struct name_kind *kind, const char *word)
{
    const char *name, *found = kind->name_at == bb_model_name_at      ? bb_model_of_hub(word)
                               : !kind->name_at && is_json_file(word) ? word
                                                                      : NULL;

    for (size_t i = 0; kind->name_at && (name = kind->name_at(i)); i++) {
        if (!bb_is_same_name(name, word, strlen(word)))
            continue;
        if (strlen(name) == strlen(word))
            return name;
        found = found ? found : name;
    }
    return found;
}

/* Returns the index of the first positional argument, as far as known without the options of the command: a word after
 * an option may be its value. 0: none. */
static int find_first_name(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-' && (i == 1 || argv[i - 1][0] != '-' || strchr(argv[i - 1], '=')))
            return i;
    return 0;
}

/* Returns whether the command line requests help or a completion. */
static bool asks_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return argc > 1 && (bb_opts_completion_prefix(argc, argv) || strcmp(argv[argc - 1], "--help=man") == 0);
}

/* Validates the arguments of a command line. Returns 0, or a negative error after printing an error line. */
static int check_command(const struct bb_argv *a)
{
    for (int i = 0; i < N_RUNS; i++)
        if (strcmp(a->word[0], runs[i].name) == 0)
            return runs[i].check((int)a->n, a->word);
    return 0;
}

/* Prints the error for argv[at], a spelling of `name`, which is of this kind. The other arguments remain; an error in
 * them is printed instead, so that the suggested command works. command: NULL without a known command. */
static int reject_misplaced(const struct name_kind *kind, const char *command, int argc, char **argv, int at,
                            const char *name)
{
    const bool steps = command && (strcmp(command, "proxy") == 0 || strcmp(command, "plan") == 0);
    const bool is_result = !kind->name_at && steps && is_result_file(name);
    const bool is_model = kind->name_at == bb_model_name_at,
               takes_model = is_model || (!kind->name_at && steps && !is_result);
    struct bb_argv a = {0};
    char *text = NULL;
    size_t size;
    FILE *out = bb_open_text(&text, &size);
    bool ranks = false; /* whether the suggested command needs no --ranks */
    int rc;

    bb_argv_add_split(&a, !takes_model ? kind->instead : steps ? command : "plan");
    if (takes_model) {
        bb_argv_add(&a, "%s", is_model ? bb_model_proxy(name) : "transformer");
        bb_argv_add(&a, "--model");
    }
    bb_argv_add(&a, "%s", name);
    bb_argv_add_split(&a, takes_model ? "" : kind->after);
    for (int i = 1; i < argc; i++) {
        ranks = ranks || bb_begins_with(argv[i], "--ranks") || strcmp(argv[i], "--help") == 0;
        if (i != at && !is_result && !(steps && kind->name_at == bb_bench_subcommand_at)) /* with other options */
            bb_argv_add(&a, "%s", argv[i]);
    }
    if (strcmp(a.word[0], "plan") == 0 && a.n > 1 && !ranks)
        bb_argv_add_split(&a, "--ranks 8");
    bb_quote_all(&a, out);
    bb_close_text(out, &text);
    if (!asks_help(argc, argv) && kind->name_at != command_at)
        TRY(check_command(&a));
    rc = bb_err(BB_EUSAGE, "%s is %s; try: busbar %s", argv[at],
                is_result ? "a result, and busbar reads no files of steps" : kind->what, text);
out:
    free(text);
    bb_argv_release(&a);
    return rc;
}

/* Prints an error if the first name after the command belongs to another command. argv[0]: command, or the name itself
 * if there is no such command. Returns -BB_EUSAGE after the error, else 0. */
static int check_first_name(int argc, char **argv)
{
    static const char take_any_word[] = "compare calibrate sweep report help";
    const char *command = find_command(argv[0]) ? argv[0] : NULL, *name;
    const int at = command ? find_first_name(argc, argv) : 0;

    if (command && (at == 0 || strstr(take_any_word, command) || bb_opts_completion_prefix(argc, argv)))
        return 0;
    for (size_t i = 0; i < sizeof(name_kinds) / sizeof(name_kinds[0]); i++)
        if ((name = find_name(&name_kinds[i], argv[at])))
            return command && strstr(name_kinds[i].accepted, command)
                       ? 0
                       : reject_misplaced(&name_kinds[i], command, argc, argv, at, name);
    return 0;
}

/* Prints the option of this name of the command, or of every command and benchmark (command: NULL). Names have no capitals,
 * letters may. Returns whether there is one. */
static bool print_option(const char *command, const char *name, bool contains)
{
    char *option = bb_format("--help=%s%s", contains ? "*" : "", name + strspn(name, "-"));
    const char *benchmark;
    const int muted = bb_err_is_mute();
    bool found = false;

    for (char *c = option; name[1] && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    bb_err_mute(1); /* the commands without this option */
    for (const struct command *c = commands; c->run != help_main; c++)
        if (!command || strcmp(command, c->name) == 0)
            found |= c->run(2, (char *[]){(char *)c->name, option}) == BB_OPTS_HELP;
    for (size_t i = 0; !command && (benchmark = bb_bench_subcommand_at(i)); i++)
        found |= bb_bench_main(3, (char *[]){"bench", (char *)benchmark, option}) == BB_OPTS_HELP;
    bb_err_mute(muted);
    free(option);
    return found;
}

static bool is_version_option(const char *word)
{
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0;
}

static int print_version(void)
{
    puts("busbar " BUSBAR_VERSION);
    return 0;
}

static int run_command(int argc, char **argv)
{
    const struct command *command = find_command(argv[0]);

    if (bb_nccl_tests_kind(argv[0]) >= 0)
        return bb_nccl_tests_main(argc, argv);
    if (check_first_name(argc, argv) != 0)
        return -BB_EUSAGE;
    if (!command && asks_help(argc, argv) && print_option(NULL, argv[0], false))
        return 0;
    if (!command && bb_reject_foreign_program(argv[0], "busbar proxy ") == 0 && bb_model_reject_hub(argv[0]) == 0)
        return bb_reject_unknown_at("command", argv[0], command_at);
    if (!command)
        return -BB_EUSAGE;
    if (strstr("plan sweep compare", argv[0]) && !asks_help(argc, argv)) /* bench and proxy: busbar_rank.c */
        bb_environment_warn();
    return argc == 2 && is_version_option(argv[1]) ? print_version() : command->run(argc, argv);
}

/* Returns true if the command line requests help or the version and this process is not rank 0. Under mpirun, only
 * rank 0 prints the help and the version. */
static bool is_printed_by_first_rank(int argc, char **argv)
{
    return bb_launcher_rank() > 0 && (asks_help(argc, argv) || (argc == 2 && is_version_option(argv[1])));
}

/* Terms of the reports, in the form of bb_foreign_options. README.md explains them in full. */
static const struct bb_foreign_name terms[] = {
    {"algbw", NULL, "algorithm bandwidth: size / time", NULL},
    {"busbw bus-bandwidth", NULL,
     "bus bandwidth: algbw x the collective's factor (busbar list collectives), for a ring the rate in one direction "
     "of the slowest link. Compare it in a node with a GPU's NVLink rate, between nodes with the rate of all NICs of a "
     "node (h100-sxm-ib: 8 x 48.5 GB/s; with emulated-default, the emulated GPUs' default, one NIC of 25 GB/s); tree "
     "and NVLS move other amounts and may exceed it, the tree on two nodes almost twice",
     NULL},
    {"bucket", NULL, "tensors whose gradients one collective reduces (--bucket-rule, --bucket-mb)", NULL},
    {"ci95", NULL, "95 % confidence interval of the median of the samples (order statistics)", NULL},
    {"zero1 zero2 zero3 fsdp", NULL,
     "values of --dp-sync: replicas share optimizer states (1), gradients too (2), parameters too (3, FSDP)", NULL},
    {"bubble pipeline-bubble", NULL,
     "exposed time in which a rank waits for another pipeline stage that still executes forward or backward kernels",
     NULL},
    {"exposed", NULL,
     "communication time during which no compute kernel executes = transfer + pipeline bubble + waiting", NULL},
    {"hidden", NULL, "fraction of the communication time during which a compute kernel executes", NULL},
    {"idle", NULL, "time in which neither compute nor communication executes", NULL},
    {"lost-to-communication", NULL, "step time - step time without communication of the same rank", NULL},
    {"mfu", NULL,
     "model FLOP utilization: FLOPs of the model per step / (step time x peak rate of the GPUs); from plan with "
     "--cluster and proxy with --peak-tflops",
     NULL},
    {"overlap-efficiency", NULL, "time saved by overlap / the most that overlap could save (1: all of it)", NULL},
    {"payload", NULL, "bytes of the messages of a group, as passed to NCCL", NULL},
    {"slowdown-under-overlap", NULL, "duration of kernels and transfers in the step / their duration alone", NULL},
    {"transfer", NULL, "exposed time in which data moves", NULL},
    {"count", NULL, "elements of a row: of each rank's buffer, as in nccl-tests; for a group of a step: of each call",
     NULL},
    {"wall", NULL, "time of one operation by the host clock, with launches and the final wait, as in nccl-tests", NULL},
    {"torchrun torch-distributed-launch", NULL,
     "starts scripts of PyTorch. Here -g GPUS starts the ranks of one node, mpirun -n RANKS busbar ... or srun those "
     "of several",
     NULL},
    {"waiting waiting-for-peers", NULL, "time in a call before its last participant arrives", NULL},
    {"goodput", NULL,
     "plan: part of the time in which training makes progress, without checkpoints, restarts and steps done again",
     NULL},
    {"rail rails", NULL,
     "the NICs of the same index of all nodes, and the switches that connect them; bench rails measures each", NULL},
    {"leaf", NULL, "a switch with nodes, and these nodes; leaves are connected by uplinks (\"fabric\" of a profile)",
     NULL},
    {"oversubscription", NULL, "rate of the NICs below a leaf / rate of its uplinks", NULL},
    {"straggler slow-rank", NULL, "a rank for which the others wait; in proxy and plan: --slow rank=N:FACTOR", NULL},
    {"sample samples", NULL,
     "time of -n operations back to back / -n, on the slowest rank; the tables show the median of the samples", NULL},
    {"wrong #wrong", NULL, "elements of the result that differ from the expected value (-c)", NULL},
    {"nvls", NULL, "algorithm of NCCL in which the NVSwitches reduce and multicast", NULL},
    {"ll ll128 simple", NULL,
     "protocols of NCCL: LL sends a flag with each 4 bytes (lowest latency, half the rate), LL128 8 with each 120, "
     "Simple synchronizes after whole chunks (highest rate)",
     NULL},
    {"micro-batch micro-batches", NULL, "samples of one forward and backward pass of a pipeline stage", NULL},
    {"role roles", NULL, "ranks with the same program of a step, for example a pipeline stage; proxy and plan --full",
     NULL},
    {"latency", NULL,
     "part of the time of an operation that does not depend on its size; bench p2p: half the round trip of a small "
     "message",
     NULL},
    {"bandwidth", NULL, "bytes / time, 1 GB/s = 1e9 bytes/s; of a collective: algbw and busbw", NULL},
    {NULL, NULL, NULL, NULL},
};

/* Prints the rows of `busbar list` with this name. Returns whether there is one. */
static bool print_listed(const char *name)
{
    bool found = false;
    json_t *rows, *row;
    size_t r;

    for (int i = 0; i < N_LISTINGS; i++) {
        rows = listings[i].rows == bb_list_columns ? NULL : listings[i].rows();
        json_array_foreach(rows, r, row)
        {
            const char *other = json_string_value(json_object_get(row, "name"));

            if (!other || !bb_is_same_name(other, name, strlen(name)))
                continue;
            printf("%s:\n", listings[i].name);
            print_list_row(row);
            found = true;
        }
        json_decref(rows);
    }
    return found;
}

/* Prints what is known about a word that is no command: a name of `busbar list`, or a term. Returns whether there is
 * something. */
static bool print_topic(const char *topic)
{
    const struct bb_foreign_name *row = bb_foreign_find(terms, topic, strlen(topic));
    const bool is_listed = print_listed(topic);
    const struct bb_foreign_name *program =
        is_listed ? NULL : bb_foreign_find(bb_foreign_programs, topic, strlen(topic));
    const bool starts = program && bb_begins_with(program->text, "transformer ");
    char *start = starts ? bb_format("here: mpirun -n 8 busbar proxy %s; without GPUs: busbar plan %s --ranks 8",
                                     program->text, program->text)
                         : NULL;

    if (is_listed)
        puts("Options: busbar help plan, or busbar help bench (collectives), busbar help proxy (proxies)");
    if (row)
        bb_opts_print_term(topic, row->text, stdout);
    if (start)
        bb_opts_print_term(topic, start, stdout);
    free(start);
    return is_listed || row || starts;
}

/* Prints a term of one or several words, `busbar help waiting for peers`. Returns whether there is one. */
static bool print_term(int n, char **words)
{
    char term[64] = "";
    const struct bb_foreign_name *row;

    for (int i = 0; i < n; i++)
        snprintf(term + strlen(term), sizeof(term) - strlen(term), "%s%s", i > 0 ? "-" : "", words[i]);
    for (char *c = term; *c; c++)
        *c = *c == ' ' ? '-' : *c;
    row = bb_foreign_find(terms, term, strlen(term));
    if (row)
        bb_opts_print_term(term, row->text, stdout);
    return row;
}

/* Prints the help of a command or, if it knows no such subcommand, those of its options whose names contain the word, or the
 * term. */
static int help_command(int argc, char **argv)
{
    const bool is_bench = strcmp(argv[0], "bench") == 0;
    const bool takes_name = is_bench || strstr("proxy plan list", argv[0]) || !find_command(argv[0]);
    const int muted = bb_err_is_mute();
    int rc;

    if (argc > 2) {
        bb_err_mute(1);
        rc = is_bench ? bb_bench_check(2, argv) : takes_name ? 0 : -BB_EUSAGE;
        rc = rc < 0 ? rc : run_command(argc, argv);
        bb_err_mute(muted);
        if (rc >= 0 || print_option(argv[0], argv[1], true) || print_term(1, &argv[1]))
            return 0;
        if (is_bench)
            return bb_bench_check(2, argv);
        if (!takes_name)
            return bb_err(BB_EUSAGE, "%s has no option '%s'; try: busbar help %s", argv[0], argv[1], argv[0]);
    }
    return run_command(argc, argv);
}

/* Runs `busbar help`. `busbar help bench p2p` is the same as `busbar bench p2p --help`; `busbar help tp` and
 * `busbar help plan tp` print the option --tp. */
static int help_main(int argc, char **argv)
{
    char flag[] = "--help", *topic = argc > 1 ? argv[1] + strspn(argv[1], "-") : flag;
    char *command_argv[3] = {topic, argc > 2 ? argv[2] : flag, flag};

    if (argc == 2 && bb_opts_completion_prefix(argc, argv)) {
        complete_commands(bb_opts_completion_prefix(argc, argv));
        return 0;
    }
    if ((argc > 2 || (argc == 2 && strchr(topic, ' '))) &&
        (print_term(argc - 1, &argv[1]) || (argc > 3 && find_command(topic) && print_term(argc - 2, &argv[2]))))
        return 0;
    if (argc > 3)
        return bb_err(BB_EUSAGE, "unexpected argument '%s', expected: busbar help [COMMAND [SUBCOMMAND] | OPTION]",
                      argv[3]);
    if (argc == 2 && strcmp(topic, "environment") == 0)
        print_environment(stdout);
    else if ((argc == 2 && print_variable(topic, stdout)) ||
             (argc == 3 && strcmp(topic, "environment") == 0 && print_variable(argv[2], stdout)) ||
             (argc == 2 && !find_command(topic) && print_topic(topic)) ||
             (argc == 3 && print_option(topic, argv[2], false)))
        return 0;
    else if (argc > 1 && !bb_begins_with("help", topic))
        return help_command(argc > 2 ? 3 : 2, command_argv);
    else
        print_help(stdout);
    return 0;
}

/*
 * Opens /dev/null in place of each standard stream that is closed. Otherwise the next opened file, such as the results
 * file, would get the descriptor of stdout or stderr and receive the text printed there.
 */
static void open_standard_streams(void)
{
    int fd;

    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
        ;
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    int rc = 0, error;

    open_standard_streams();
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with EFBIG and is reported; by
                                       default, SIGXFSZ kills the process */
    bb_memory_guard(NULL);
    bb_err_mute(bb_launcher_rank() > 0); /* until MPI is initialized, only rank 0 prints errors */
    bb_warn_hold(1);                     /* until bb_print_report_header(), or a run begins */
    if (is_printed_by_first_rank(argc, argv)) {
        rc = 0;
    } else if (argc > 0 && bb_nccl_tests_kind(argv[0]) >= 0) {
        rc = bb_nccl_tests_main(argc, argv);
    } else if (argc < 2) {
        print_help(stderr);
        rc = -BB_EUSAGE;
    } else if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
    } else if (strcmp(argv[1], "--help=man") == 0) {
        print_man(stdout);
    } else if (argc == 2 && bb_opts_completion_prefix(argc, argv)) {
        complete_commands(bb_opts_completion_prefix(argc, argv));
    } else if (is_version_option(argv[1]) || strcmp(argv[1], "version") == 0) {
        rc = print_version();
    } else {
        rc = run_command(argc - 1, argv + 1);
    }
    if ((error = bb_outfile_error(stdout)) != 0 && rc >= 0)
        rc = bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(error));
    bb_warn_hold(0);
    if (rc < 0 && bb_err_is_mute()) {
        const struct timespec delay = {.tv_nsec = 500000000};

        nanosleep(&delay, NULL); /* mpirun terminates all ranks when one exits: give rank 0 time to print the error */
    }
    return bb_exit_code(rc);
}
