/* measure_machine.c - see measure_machine.h. */
#include "proxies/offline/calibrate/measurements/measure_machine.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/results/results.h"

#include <stdlib.h>
#include <string.h>

/*
 * The calibration benchmarks in the order in which they run:
 *   collectives     collectives of small and large sizes
 *   p2p             messages of small and large sizes
 *   compute         GEMMs and memory-bound kernels that fill the GPU
 *   launches        kernels that are shorter than their launch
 *   overlap-gemms   GEMMs during sendrecv, with enough tiles that each SM that NCCL occupies lengthens the GEMMs
 *   overlap-memory  memory-bound GEMMs during sendrecv
 */
static const struct {
    const char *name, *command;
    bool all_ranks; /* true: runs on all ranks; false: on one rank */
} benches[] = {
    {"collectives", "bench all_reduce all_gather reduce_scatter alltoall -b 8 -e 1G -f 4 -c 0", true},
    {"p2p", "bench p2p --bandwidth-sizes 1M,32M -c 0", true},
    {"compute", "bench compute", false},
    {"launches", "bench compute memory_kernels timed --size 4K -n 1", false},
    {"overlap-gemms", "bench overlap --collective sendrecv --gemm 32768x32768x512 --sizes 256M --ctas default", true},
    {"overlap-memory", "bench overlap --collective sendrecv --gemm 32768x32768x64 --sizes 256M --ctas default", true},
};

/* Returns the command line of a benchmark as a JSON list of words; NULL if a word is not valid UTF-8. takes_options:
 * true: append o->bench_options. */
static json_t *command_json(const char *command, const struct bb_measure_options *o, bool takes_options)
{
    struct bb_argv words = {0};
    json_t *list = json_array();
    bool failed = false;

    bb_argv_add_split(&words, command);
    if (o->timeout_s > 0)
        bb_argv_add(&words, "--timeout=%.15g", o->timeout_s);
    for (int i = 0; i < o->n_bench_options && takes_options; i++)
        bb_argv_add(&words, "%s", o->bench_options[i]);
    for (size_t i = 0; i < words.n; i++)
        failed |= json_array_append_new(list, json_string(words.word[i])) != 0;
    bb_argv_release(&words);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* Returns the JSON of a study (the input file of `busbar sweep`) that runs all calibration benchmarks; NULL if an
 * argument is not valid UTF-8. */
static json_t *study_json(const struct bb_measure_options *o)
{
    json_t *cases = json_array();

    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        if ((o->ranks >= 2 || !benches[i].all_ranks) &&
            json_array_append_new(cases, json_pack("{s:s, s:o, s:i}", "name", benches[i].name, "command",
                                                   command_json(benches[i].command, o, i == 0), "ranks",
                                                   benches[i].all_ranks ? o->ranks : 1)) != 0) {
            json_decref(cases);
            return NULL;
        }
    return json_pack("{s:s, s:o}", "about", "what busbar calibrate needs", "cases", cases);
}

static int run_study(const struct bb_measure_options *o, const char *study, const char *folder,
                     int (*sweep)(int argc, char **argv))
{
    const char *const options[][2] = {{"-o", folder},
                                      {"--launcher", o->launcher},
                                      {"--hosts", o->hosts},
                                      {"--launch-arguments", o->launch_arguments},
                                      {"--program", o->program}};
    struct bb_argv words = {0};
    int rc;

    bb_argv_add(&words, "sweep");
    bb_argv_add(&words, "%s", study);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        for (int part = 0; options[i][1] && part < 2; part++)
            bb_argv_add(&words, "%s", options[i][part]);
    if (o->restart)
        bb_argv_add(&words, "--restart");
    bb_argv_add(&words, "--quiet"); /* do not print the table of all results */
    rc = sweep((int)words.n, words.word);
    bb_argv_release(&words);
    return rc;
}

/* Lists the result files of the completed benchmarks, which `busbar sweep` recorded in the file sweep.json of the
 * folder. */
static int list_files(const char *folder, struct bb_argv *files)
{
    char *list = bb_format("%s/sweep.json", folder);
    json_t *root = NULL, *one;
    size_t i;
    int rc;

    TRY(bb_json_load(list, &root));
    json_array_foreach(json_object_get(root, "combinations"), i, one)
    {
        const char *id;

        TRY(bb_json_text_at(one, "id", list, &id));
        bb_argv_add(files, "%s/%s.json", folder, id);
    }
out:
    json_decref(root);
    free(list);
    return rc;
}

int bb_measure_machine(const struct bb_measure_options *o, const char *profile, int (*sweep)(int argc, char **argv),
                       struct bb_argv *files)
{
    const int stem = (int)(strlen(profile) - strlen(".json"));
    char *study = bb_format("%.*s.study.json", stem, profile), *folder = bb_format("%.*s.sweep", stem, profile);
    int rc;

    TRY(bb_json_save(study, "the study", study_json(o), 0));
    if (!o->quiet)
        fprintf(stderr, "busbar: measuring, results in %s\n", folder);
    TRY(run_study(o, study, folder, sweep));
    TRY(list_files(folder, files));
out:
    free(study);
    free(folder);
    return rc;
}
