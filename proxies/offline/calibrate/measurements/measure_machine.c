/* measure_machine.c - see measure_machine.h. */
#include "proxies/offline/calibrate/measurements/measure_machine.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/results/results.h"
#include "bootstrap/sweep/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The calibration benchmarks in the order in which they run:
 *   collectives     collectives of small and large sizes
 *   node            the same on one node, if the ranks are more than its GPUs: other variants, and the rates of its links
 *   two-nodes       small sizes of alltoall on two of more nodes: separates a group of messages from each message
 *   p2p             messages of small and large sizes
 *   compute         GEMMs and memory-bound kernels that fill the GPU
 *   launches        kernels that are shorter than their launch
 *   overlap-gemms   GEMMs during sendrecv, with enough tiles that each SM that NCCL occupies lengthens the GEMMs
 *   overlap-memory  memory-bound GEMMs during sendrecv
 */
#define COLLECTIVES "bench all_reduce all_gather reduce_scatter alltoall -b 8 -e 1G -f 4 -c 0"
static const struct {
    const char *name, *command;
    enum { ONE_RANK, ONE_NODE, TWO_NODES, ALL_RANKS } where;
} benches[] = {
    {"collectives", COLLECTIVES, ALL_RANKS},
    {"node", COLLECTIVES, ONE_NODE},
    {"two-nodes", "bench alltoall -b 64 -e 1M -f 4 -c 0", TWO_NODES},
    {"p2p", "bench p2p --bandwidth-sizes 1M,32M -c 0", ALL_RANKS},
    {"compute", "bench compute", ONE_RANK},
    {"launches", "bench compute memory_kernels timed --size 4K -n 1", ONE_RANK},
    {"overlap-gemms", "bench overlap --collective sendrecv --gemm 32768x32768x512 --sizes 256M --ctas default",
     ALL_RANKS},
    {"overlap-memory", "bench overlap --collective sendrecv --gemm 32768x32768x64 --sizes 256M --ctas default",
     ALL_RANKS},
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

/* Returns the number of ranks of benchmark i; 0: it does not run. srun starts the ranks of one node only with -N 1, of two
 * with -N 2, which contradicts a list of hosts. */
static int ranks_of(const struct bb_measure_options *o, size_t i)
{
    const bool on_list = o->launcher && strcmp(o->launcher, "srun") == 0 && o->hosts;

    switch (benches[i].where) {
    case ONE_RANK:
        return 1;
    case ONE_NODE:
        return o->node_ranks > 1 && o->node_ranks < o->ranks && !on_list ? o->node_ranks : 0;
    case TWO_NODES:
        return o->node_ranks > 1 && 2 * o->node_ranks < o->ranks && !on_list ? 2 * o->node_ranks : 0;
    default:
        return o->ranks >= 2 ? o->ranks : 0;
    }
}

/* Returns the JSON of a study (the input file of `busbar sweep`) that runs all calibration benchmarks; NULL if an
 * argument is not valid UTF-8. */
static json_t *study_json(const struct bb_measure_options *o)
{
    json_t *cases = json_array();

    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
        const bool few_nodes = benches[i].where == ONE_NODE || benches[i].where == TWO_NODES;
        json_t *one;

        if (ranks_of(o, i) == 0)
            continue;
        one = json_pack("{s:s, s:o, s:i}", "name", benches[i].name, "command",
                        command_json(benches[i].command, o, strcmp(benches[i].command, COLLECTIVES) == 0), "ranks",
                        ranks_of(o, i));
        if (json_array_append_new(cases, one) != 0) {
            json_decref(cases);
            return NULL;
        }
        if (few_nodes) /* emulated GPUs: the ranks are on as many nodes as the profile has, not on EMU_NODES */
            json_object_set_new(one, "environment", json_pack("{s:n}", "EMU_NODES"));
        if (few_nodes && o->launcher && strcmp(o->launcher, "srun") == 0)
            json_object_set_new(one, "launch_arguments", json_string(benches[i].where == ONE_NODE ? "-N 1" : "-N 2"));
    }
    return json_pack("{s:s, s:o}", "about", "what busbar calibrate needs", "cases", cases);
}

static int run_study(const struct bb_measure_options *o, const char *study, const char *folder,
                     int (*sweep)(int argc, char **argv, size_t *ran), size_t *ran)
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
    bb_argv_add(&words, o->restart ? "--restart" : "--retry-failed");
    bb_argv_add(&words, "--quiet"); /* do not print the table of all results */
    rc = sweep((int)words.n, words.word, ran);
    bb_argv_release(&words);
    return rc;
}

/* The benchmark that started first. */
struct oldest {
    const char *started, *host;
};

static void find_oldest(struct oldest *oldest, const json_t *result)
{
    const char *started = json_string_value(json_object_get(result, "started"));
    const json_t *device = json_array_get(json_object_get(result, "devices"), 0);

    if (!started || (oldest->started && strcmp(oldest->started, started) <= 0))
        return;
    oldest->started = started;
    oldest->host = json_string_value(json_object_get(device, "host"));
}

/*
 * Lists the result files of the completed benchmarks, which `busbar sweep` recorded in the file sweep.json of the
 * folder, and reports how many were measured before.
 *   ran  number of benchmarks that this call has run; the results of the others are of an earlier call
 */
static int list_files(const char *folder, size_t ran, struct bb_argv *files)
{
    char *list = bb_format("%s/sweep.json", folder);
    json_t *root = NULL, *one;
    struct oldest oldest = {0};
    size_t i;
    int rc;

    TRY(bb_json_load(list, &root));
    json_array_foreach(json_object_get(root, "combinations"), i, one)
    {
        const char *id;

        TRY(bb_json_text_at(one, "id", list, &id));
        bb_argv_add(files, "%s/%s.json", folder, id);
        find_oldest(&oldest, json_object_get(one, "result"));
    }
    if (ran < i)
        bb_warn("%zu of %zu benches were measured before, the first at %s on %s; try: --restart to measure again",
                i - ran, i, oldest.started ? oldest.started : "an unknown time",
                oldest.host ? oldest.host : "an unknown host");
out:
    json_decref(root);
    free(list);
    return rc;
}

/* Writes the study. Another sweep that runs in the folder keeps its own. */
static int save_study(const struct bb_measure_options *o, const char *study, const char *folder)
{
    int lock = -1, rc;

    TRY(bb_sweep_lock_folder(folder, &lock));
    TRY(bb_json_save(study, "the study", study_json(o), 0));
out:
    if (lock >= 0)
        close(lock);
    return rc;
}

int bb_measure_machine(const struct bb_measure_options *o, const char *profile,
                       int (*sweep)(int argc, char **argv, size_t *ran), struct bb_argv *files)
{
    const int stem = (int)(strlen(profile) - strlen(".json"));
    char *study = bb_format("%.*s.study.json", stem, profile), *folder = bb_format("%.*s.sweep", stem, profile);
    size_t ran = 0;
    int rc;

    TRY(save_study(o, study, folder));
    if (!o->quiet)
        fprintf(stderr, "busbar: measuring, results in %s\n", folder);
    TRY(run_study(o, study, folder, sweep, &ran));
    TRY(list_files(folder, ran, files));
out:
    free(study);
    free(folder);
    return rc;
}
