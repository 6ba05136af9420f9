/*
 * tuner_from_file.c - a tuner plugin that reads NCCL_TUNER_CONFIG_FILE. Written from the README.md of NCCL's example tuner
 * plugin (plugins/tuner/example), independent of busbar's writer: the first line counts that matches the collective, the
 * size, the number of nodes and ranks, and the registration; -1 matches all.
 */
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PROTOCOLS = 3 };
static const char *const functions[] = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce", NULL};
static const char *const algorithms[] = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree",
                                         "pat",  NULL};
static const char *const protocols[] = {"ll", "ll128", "simple", NULL};

static long n_ranks, n_nodes;

static int find(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static ncclResult_t init(void **context, uint64_t id, size_t ranks, size_t nodes, void *log, void *domains,
                         void *constants)
{
    (void)id, (void)log, (void)domains, (void)constants;
    *context = &n_ranks;
    n_ranks = (long)ranks;
    n_nodes = (long)nodes;
    return ncclSuccess;
}

static ncclResult_t choose(void *context, int function, size_t bytes, int operations, float **table, int n_algorithms,
                           int n_protocols, int registered, int *channels)
{
    FILE *file = fopen(getenv("NCCL_TUNER_CONFIG_FILE"), "r");
    char line[256], name[32], algorithm[32], protocol[32];
    float *costs = (float *)(void *)table;
    unsigned long low, high;
    long nodes, ranks, pipes, buffers;

    (void)context, (void)n_algorithms, (void)operations;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%31[^,#],%lu,%lu,%31[^,],%31[^,],%d,%ld,%ld,%ld,%ld", name, &low, &high, algorithm, protocol,
                   channels, &nodes, &ranks, &pipes, &buffers) != 10 ||
            find(functions, name) != function || bytes < low || bytes > high || (nodes != -1 && nodes != n_nodes) ||
            (ranks != -1 && ranks != n_ranks) || (buffers != -1 && buffers != registered))
            continue;
        costs[find(algorithms, algorithm) * n_protocols + find(protocols, protocol)] = 0;
        break;
    }
    if (file != NULL)
        fclose(file);
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    (void)context;
    return ncclSuccess;
}

extern const struct tuner {
    const char *name;
    ncclResult_t (*init)(void **, uint64_t, size_t, size_t, void *, void *, void *);
    ncclResult_t (*choose)(void *, int, size_t, int, float **, int, int, int, int *);
    ncclResult_t (*finalize)(void *);
} ncclTunerPlugin_v5;
__attribute__((visibility("default"))) const struct tuner ncclTunerPlugin_v5 = {"file", init, choose, finalize};
