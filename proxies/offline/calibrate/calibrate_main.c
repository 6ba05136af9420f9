/* calibrate_main.c - `busbar calibrate`: reads result files of benchmarks, fits the parameters of a cluster profile
 * to the measured times, and writes the profile. */
#include "proxies/offline/calibrate/calibrate_main.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/results/results.h"
#include "bootstrap/sweep/study.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/calibrate/calibration_report.h"
#include "proxies/offline/calibrate/measurements/measure_machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

struct options {
    const char *output, *from, *json;
    int gpus_per_node;
    bool quiet, measure;
    struct bb_measure_options run;
};

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt rows[] = {
    OPT_OUTPUT_DASH('o', "output", FIELD(output), "profile to write (required; ends in .json), - for stdout"),
    OPT_STRING(0, "from", FIELD(from), NULL, "NAME|FILE",
               "starting profile, which provides the parameters that the measurements do not determine (default: the "
               "shipped profile of these GPUs; see 'busbar list clusters')",
               .choice_at = bb_cluster_name_at),
    OPT_INT(0, "gpus-per-node", FIELD(gpus_per_node), NULL, "N", 1, 1 << 20,
            "GPUs per node (default: as in the starting profile, or the ranks per host if there were more)"),
    OPT_OUTPUT_DASH(0, "json", FIELD(json), "write parameters and residuals as JSON, - for stdout"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "no table"),
    {0},
};

static const struct bb_opt measure_rows[] = {
    OPT_FLAG(
        0, "measure", FIELD(measure),
        "run the benches that a profile needs instead of reading files; arguments after -- are passed to the bench "
        "of collectives (-- -e 4G --sweep-algorithms)"),
    OPT_INT(0, "ranks", FIELD(run.ranks), NULL, "N", 1, 1 << 24,
            "number of ranks of the calibration benchmarks, one per GPU"),
    OPT_CHOICE(0, "launcher", FIELD(run.launcher), NULL, "NAME", bb_study_launchers,
               "launcher that starts the ranks (default: mpirun)"),
    OPT_STRING(0, "hosts", FIELD(run.hosts), NULL, "LIST", "hosts for the launcher"),
    OPT_STRING(0, "launch-arguments", FIELD(run.launch_arguments), NULL, "WORDS",
               "additional arguments of the launcher, split at blanks"),
    OPT_DOUBLE('T', "timeout", FIELD(run.timeout_s), NULL, "SECONDS", 0.1, 1e6,
               "timeout of each bench (default: the default of bench)"),
    OPT_STRING(0, "program", FIELD(run.program), NULL, "FILE", "busbar executable to start (default: this one)"),
    OPT_FLAG(0, "restart", FIELD(run.restart),
             "run all benches again (default: only those that did not run or failed)"),
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "Options", .opts = rows}, {.title = "Measuring", .opts = measure_rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar calibrate RESULT.json... -o FILE [OPTION...]\n       busbar calibrate --measure --ranks N -o FILE "
             "[OPTION...] [-- OPTION...]",
    .doc =
        "Fits a cluster profile for `busbar plan --cluster FILE` to measurements. Reads the JSON of busbar bench\n"
        "(collectives, p2p, compute, overlap) and of nccl-tests, and the tables that nccl-tests prints (for a table\n"
        "without the name of its operation: all_reduce=FILE, and for one whose list of devices is incomplete, with\n"
        "RANKSxNODES: all_reduce:16x2=FILE). Fits latencies and rates to the measurements, and reports the errors of\n"
        "the fits. Parameters that the measurements do not determine keep the values of the starting profile and are\n"
        "listed.",
    .after =
        "--measure keeps its results in the folder FILE.sweep and its study in FILE.study.json; the same command\n"
        "continues an interrupted measurement. If the ranks are on several nodes, the collectives also run on one\n"
        "(8 GPUs, those of the profile of --from, or --gpus-per-node); on more than two, small alltoalls on two.",
    .exits = {[0] = "the profile is written, also if the last line reports that it DOES NOT HOLD for some measurements",
              [1] = "a bench failed, or the profile cannot be written completely",
              [2] = "usage error, invalid input, or files of different machines"},
    .examples = "Measure this cluster, then predict another number of ranks:\n"
                "  busbar calibrate --measure --ranks 16 -o mine.json\n"
                "  busbar plan all_reduce --ranks 64 --cluster ./mine.json\n",
    .tables = tables,
};

/* ---- the command ---- */

enum { DIGITS = 6 };

static int take_node_size(const struct options *o, struct bb_measurements *e)
{
    e->gpus_per_node = o->gpus_per_node;
    for (size_t f = 0; f < e->n_files && o->gpus_per_node > 0; f++)
        if (e->files[f].max_ranks_per_host > o->gpus_per_node)
            return bb_err(BB_EUSAGE, "--gpus-per-node is %d, but in %s a host had %d ranks, one per GPU",
                          o->gpus_per_node, e->files[f].path, e->files[f].max_ranks_per_host);
    return 0;
}

/* GPUs of the largest host; a larger node of a profile is an NVLink domain of several hosts. */
#define LARGEST_HOST 8

/* Counts NVLink domains of `gpus` GPUs instead of hosts: only messages between domains use NICs. given: by
 * --gpus-per-node. */
static void count_domains(struct bb_measurements *e, int gpus, bool given)
{
    for (size_t i = 0; gpus > LARGEST_HOST && i < e->n_rows; i++) {
        struct bb_collective *call = &e->rows[i].call;

        call->nodes = MIN(call->nodes, (call->ranks + gpus - 1) / gpus);
    }
    for (size_t f = 0; gpus > LARGEST_HOST && f < e->n_files; f++) {
        const int domains = (e->files[f].ranks + gpus - 1) / gpus;

        if (domains < e->files[f].nodes && !given)
            bb_warn("%s: the %d hosts of %d ranks are %d NVLink domain%s of %d GPUs; other domains: --gpus-per-node N",
                    e->files[f].path, e->files[f].nodes, e->files[f].ranks, domains, bb_plural(domains), gpus);
        e->files[f].nodes = MIN(e->files[f].nodes, domains);
    }
}

/* Measurements far from those of any machine give values that no profile may have: then no file is written. */
static int save_profile(const struct bb_calibration_report *report)
{
    json_t *profile = bb_calibration_profile(report);
    char *where = bb_format("no profile written: fitted %s", report->profile);
    int rc;

    TRY(bb_cluster_check(profile, where));
    rc = bb_json_save(report->profile, "the profile", json_incref(profile), DIGITS);
out:
    json_decref(profile);
    free(where);
    return rc;
}

/* Loads the starting profile: of --from, of EMU_CLUSTER of the files, or of the GPU; in place of this one a better one with
 * other NICs, if there is one, otherwise only reports it (report->better). */
static int load_start(const struct options *o, struct bb_measurements *e, struct bb_calibration_report *report,
                      struct bb_cluster *base, json_t **root)
{
    const char *device = e->files[0].device, *emulated = e->files[0].emulated_cluster;
    const bool is_name = *emulated && !strpbrk(emulated, "/."); /* "": GPUs; a path: of another machine, perhaps */
    const char *of_gpu = is_name ? emulated : bb_cluster_of_gpu(device), *name = o->from ? o->from : of_gpu;
    int rc;

    if (!name)
        return bb_err(BB_EUSAGE,
                      "no shipped profile is for GPUs '%s', so the parameters that were not measured are unknown; try: "
                      "--from NAME with a similar cluster (see busbar list clusters)",
                      device);
    report->selected_by = o->from ? NULL : is_name ? "EMU_CLUSTER of the files" : "the GPU";
    TRY(bb_cluster_load(name, base));
    count_domains(e, o->gpus_per_node > 0 ? o->gpus_per_node : base->gpus_per_node, o->gpus_per_node > 0);
    snprintf(report->selected, sizeof(report->selected), "%s", base->name);
    TRY(bb_find_better_start(base, bb_cluster_base(name) ? name : of_gpu, e, &report->better));
    if (report->better.name && !o->from) {
        name = report->better.name;
        TRY(bb_cluster_load(name, base));
    }
    TRY(bb_profile_load("clusters", name, root));
out:
    return rc;
}

static int calibrate_files(const struct options *o, struct bb_measurements *e, int argc, char **argv)
{
    struct bb_calibration_report report = {.profile = o->output, .argc = argc, .argv = argv};
    struct bb_calibration *calibration; /* allocated, because the struct is too large for the stack */
    struct bb_cluster base;
    json_t *root = NULL;
    int rc;

    BB_NEW(calibration, 1);
    TRY(load_start(o, e, &report, &base, &root));
    bb_calibrate(calibration, &base, e);
    bb_cross_validate(calibration, report.left_out);
    report.calibration = calibration;
    report.base_root = root;
    TRY(save_profile(&report));
    bb_calibration_warn(&report);
    if (!o->quiet && !bb_outfile_is_stdout(o->json) && !bb_outfile_is_stdout(o->output))
        bb_calibration_print(&report, stdout);
    if (o->json)
        TRY(bb_json_save(o->json, "the calibration", bb_calibration_json(&report), DIGITS));
out:
    bb_calibration_release(calibration);
    free(calibration);
    json_decref(root);
    return rc;
}

/* Returns the GPUs of a node for the benches: those of --gpus-per-node, of the profile of --from, or LARGEST_HOST. */
static int find_node_ranks(const struct options *o, int *ranks)
{
    struct bb_cluster from = {.gpus_per_node = LARGEST_HOST};
    int rc = 0;

    if (o->gpus_per_node > 0)
        from.gpus_per_node = o->gpus_per_node;
    else if (o->from)
        TRY(bb_cluster_load(o->from, &from));
    *ranks = from.gpus_per_node;
out:
    return rc;
}

static int check_options(const struct options *o, const struct bb_positionals *positionals)
{
    const char *end = o->output ? strrchr(o->output, '.') : NULL;
    const char *unused = o->measure ? NULL : bb_opts_find_changed(&tables[1], o, positionals);
    int rc;

    if (positionals->n == 0 && !o->measure)
        return bb_err(BB_EUSAGE,
                      "no files of measurements given; try: busbar calibrate RESULT.json... -o FILE, or --measure");
    if (o->measure && o->run.ranks == 0)
        return bb_err(BB_EUSAGE, "--measure requires --ranks N, one per GPU; try: --ranks 8");
    if (unused)
        return bb_err(BB_EUSAGE, "--%s requires --measure", unused);
    if (!o->output)
        return bb_err(BB_EUSAGE, "calibrate requires -o FILE, the profile to write; try: -o mine.json");
    if (bb_outfile_is_stdout(o->output) && (o->measure || bb_outfile_is_stdout(o->json)))
        return bb_err(BB_EUSAGE, "-o - requires %s; try: -o mine.json",
                      o->measure ? "files of measurements, because --measure keeps its results in FILE.sweep"
                                 : "another file for --json");
    if (!bb_outfile_is_stdout(o->output) && (!end || strcmp(end, ".json") != 0))
        return bb_err(BB_EUSAGE,
                      "--output: '%s' does not end in .json, so --cluster would take it for a name; try: %s.json",
                      o->output, o->output);
    TRY(bb_outfile_check(o->output, "the profile"));
    TRY(bb_outfile_check(o->json, "the calibration"));
out:
    return rc;
}

int bb_calibrate_main(int argc, char **argv, int (*sweep)(int argc, char **argv, size_t *ran))
{
    struct bb_measurements measurements = {0};
    struct bb_argv measured = {0};
    struct options options;
    struct bb_positionals words;
    int rc = bb_opts_parse(&set, &options, argc, argv, &words, stdout);

    if (rc != 0)
        return rc;
    TRY(check_options(&options, &words));
    if (options.measure) {
        options.run.bench_options = words.word;
        options.run.n_bench_options = words.n;
        options.run.quiet = options.quiet || bb_outfile_is_stdout(options.json);
        TRY(find_node_ranks(&options, &options.run.node_ranks));
        TRY(bb_measure_machine(&options.run, options.output, sweep, &measured));
    }
    TRY(bb_measurements_read(&measurements, options.measure ? (const char *const *)measured.word : words.word,
                             options.measure ? measured.n : (size_t)words.n));
    TRY(take_node_size(&options, &measurements));
    TRY(calibrate_files(&options, &measurements, argc, argv));
out:
    bb_measurements_release(&measurements);
    bb_argv_release(&measured);
    return rc;
}
