/* calibrate_main.c - `busbar calibrate`: files to rows, rows to figures, figures to a profile. */
#include "proxies/calibrate/calibrate_main.h"

#include "bootstrap/base/grow.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/cli/opts.h"
#include "proxies/calibrate/base_profile.h"
#include "proxies/calibrate/calibration_report.h"
#include "proxies/models/profile.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *output, *from, *json;
    bool quiet;
};

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt rows[] = {
    OPT_STRING('o', "output", FIELD(output), NULL, "FILE", "the profile that is written: needed, ends in .json"),
    OPT_STRING(0, "from", FIELD(from), NULL, "NAME|FILE",
               "the profile that figures come from which no row tells (default: the shipped one of these GPUs; 'busbar "
               "list clusters')",
               .word_at = bb_cluster_name_at),
    OPT_STRING(0, "json", FIELD(json), NULL, "FILE", "write figures and residuals as JSON, - for stdout"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "no table"),
    {0},
};

static const struct bb_opt_table tables[] = {{.title = "Options", .opts = rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar calibrate RESULT.json... -o FILE [OPTION...]",
    .doc =
        "A cluster profile from measurements, for `busbar plan --cluster FILE`. Reads the JSON of busbar bench\n"
        "(collectives, p2p, compute, overlap) and of nccl-tests, fits latencies and rates to the rows, says how well\n"
        "they hold, and which figures no row tells: these stay as they are in the profile that it starts from.",
    .after = "Exit status: 0 ok, 1 the profile cannot be written, 2 usage, or files that do not go together.",
    .tables = tables,
};

/* ---- writing ---- */

/* root is taken over; NULL: there was no memory for it. */
static int write_json(const char *path, const char *what, json_t *root)
{
    struct bb_outfile file = {.out = stdout};
    bool to_stdout = strcmp(path, "-") == 0;
    int rc = root ? 0 : bb_err(BB_EFAIL, "no memory for %s", what);

    if (rc == 0 && !to_stdout)
        rc = bb_outfile_open(&file, path, what);
    if (rc == 0 &&
        (json_dumpf(root, file.out, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) || fputc('\n', file.out) == EOF) &&
        !ferror(file.out))
        rc = bb_err(BB_EFAIL, "no memory for %s", what);
    if (file.path)
        rc = bb_outfile_close(&file, what, rc);
    json_decref(root);
    return rc;
}

static int write_all(const struct options *o, const struct bb_calibration_report *r)
{
    int rc;

    TRY(write_json(o->output, "the profile", bb_calibration_profile(r)));
    if (!o->quiet && !(o->json && strcmp(o->json, "-") == 0))
        bb_calibration_print(r, stdout);
    if (o->json)
        TRY(write_json(o->json, "the calibration", bb_calibration_json(r)));
out:
    return rc;
}

/* ---- the command ---- */

static int calibrate_files(const struct options *o, const struct bb_evidence *e, int argc, char **argv)
{
    struct bb_calibration_report report = {
        .evidence = e, .profile = o->output, .by_device = !o->from, .argc = argc, .argv = argv};
    struct bb_calibration *calibration = NULL; /* large */
    struct bb_cluster base;
    const char *name;
    json_t *root = NULL;
    int rc;

    TRY(bb_base_profile(o->from, e->files[0].device, &name));
    TRY(bb_cluster_load(name, &base));
    TRY(bb_profile_load("clusters", name, &root));
    report.base = &base;
    report.base_root = root;
    TRY(BB_NEW(calibration, 1));
    report.calibration = calibration;
    TRY(bb_calibrate(calibration, &base, e));
    TRY(write_all(o, &report));
out:
    free(calibration);
    json_decref(root);
    return rc;
}

static int check_options(const struct options *o, const struct bb_words *words)
{
    const char *end = o->output ? strrchr(o->output, '.') : NULL;

    if (words->n == 0)
        return bb_err(BB_EUSAGE, "no files of measurements given, expected: busbar calibrate RESULT.json... -o FILE");
    if (!o->output)
        return bb_err(BB_EUSAGE, "calibrate needs -o FILE, the profile that it writes; nearest: -o mine.json");
    if (!end || strcmp(end, ".json") != 0)
        return bb_err(BB_EUSAGE,
                      "--output: '%s' does not end in .json, by which --cluster knows a file; nearest: %s.json",
                      o->output, o->output);
    return bb_outfile_check(o->output, "the profile");
}

int bb_calibrate_main(int argc, char **argv)
{
    struct bb_evidence evidence = {0};
    struct options options;
    struct bb_words words;
    int rc = bb_opts_parse(&set, &options, argc, argv, &words, stdout);

    if (rc != 0)
        return rc;
    TRY(check_options(&options, &words));
    TRY(bb_evidence_read(&evidence, words.word, (size_t)words.n));
    TRY(calibrate_files(&options, &evidence, argc, argv));
out:
    bb_evidence_release(&evidence);
    return rc;
}
