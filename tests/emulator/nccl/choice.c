/*
 * choice.c - chooses the algorithm and protocol of a collective, and calls a tuner plugin as NCCL does. See choice.h.
 * The structures follow version 5 of NCCL's tuner interface, as far as they are filled here.
 */
#include "choice.h"
#include "cost.h"

#include "../engine.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* NCCL's numbers of ncclFunc_t, which differ from enum en_kind. */
static const int functions[EN_KINDS] = {
    [EN_BROADCAST] = 0, [EN_REDUCE] = 1, [EN_ALL_GATHER] = 2, [EN_REDUCE_SCATTER] = 3, [EN_ALL_REDUCE] = 4};

static const char *const algorithms[EN_ALGORITHMS] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                      "NVLS_TREE", "PAT"};
/* The spelling in NCCL_ALGO (tuning.cc of NCCL, ncclAlgoStr). */
static const char *const settings[EN_ALGORITHMS] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                                    "NVLSTree", "PAT"};
static const char *const protocols[EN_PROTOCOLS] = {"LL", "LL128", "SIMPLE"};

/* Without NCCL variants every other choice is estimated at least this factor slower than RING SIMPLE, even if it is
 * faster: a model that is wrong about small sizes. */
static const double handicap = 1.1;

struct nvlink_domains {
    int count, least_ranks, most_ranks;
};

struct tuner {
    const char *name;
    ncclResult_t (*init)(void **context, uint64_t id, size_t ranks, size_t nodes,
                         void (*log)(int, unsigned long, const char *, int, const char *, ...),
                         struct nvlink_domains *domains, void *constants);
    ncclResult_t (*choose)(void *context, int function, size_t bytes, int operations, float **costs, int n_algorithms,
                           int n_protocols, int registered, int *channels);
    ncclResult_t (*finalize)(void *context);
};

const char *en_algorithm_name(int algorithm)
{
    return algorithms[algorithm];
}

const char *en_protocol_name(int protocol)
{
    return protocols[protocol];
}

/* Returns whether NCCL_ALGO or NCCL_PROTO allows a name. The value is a list of names, or ^ and a list to exclude. */
static bool allows(const char *variable, const char *name)
{
    const char *list = getenv(variable);
    const bool excludes = list != NULL && *list == '^';
    bool listed = false;

    if (list == NULL || *list == '\0')
        return true;
    for (list += excludes; *list != '\0';) {
        const size_t length = strcspn(list, ",");

        listed = listed || (strlen(name) == length && strncasecmp(list, name, length) == 0);
        list += length + (list[length] == ',');
    }
    return listed != excludes;
}

/* Returns whether a configured call allows a pair: "RING_LL128". */
static bool selects(const struct en_task *task, int algorithm, int protocol)
{
    char name[sizeof(task->selection)];

    snprintf(name, sizeof(name), "%s_%s", algorithm == EN_NVLS_TREE ? "NVLSTREE" : algorithms[algorithm],
             protocols[protocol]);
    return task->selection[0] == '\0' || strcasecmp(name, task->selection) == 0;
}

static bool ignores(const char *word)
{
    const char *ignored = getenv("EMU_NCCL_IGNORE");

    return ignored != NULL && strcmp(ignored, word) == 0;
}

static const struct tuner *tuner(void)
{
    const char *name = getenv("NCCL_TUNER_PLUGIN");

    void *library;

    if (name == NULL || ignores("TUNER"))
        return NULL;
    if (strcmp(name, "STATIC_PLUGIN") == 0)
        return dlsym(RTLD_DEFAULT, "ncclTunerPlugin_v5");
    library = strchr(name, '/') != NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL; /* the same handle each time */
    return library != NULL ? dlsym(library, "ncclTunerPlugin_v5") : NULL;
}

static void no_log(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

void en_tuner_join(ncclComm_t comm)
{
    const struct tuner *t = comm->size > 1 ? tuner() : NULL;
    struct nvlink_domains domains = {1, comm->size, comm->size};
    double constants[256] = {0}; /* larger than the real array */
    uint64_t id;

    memcpy(&id, comm->id, sizeof(id));
    comm->tuned = t != NULL && t->init(&comm->tuner, id, (size_t)comm->size, (size_t)comm->n_nodes, no_log, &domains,
                                       constants) == 0;
}

void en_tuner_leave(ncclComm_t comm)
{
    const struct tuner *t = comm->tuned ? tuner() : NULL;

    if (t != NULL)
        t->finalize(comm->tuner);
    comm->tuned = false;
}

/* The alpha-beta model has no multicast in switches (NVLS), and no reduction in the network (COLLNET). */
static bool offered(enum en_kind kind, int algorithm, int protocol)
{
    if (algorithm == EN_RING || en_has_variants())
        return true;
    if (algorithm == EN_TREE)
        return kind == EN_ALL_REDUCE;
    return algorithm == EN_PAT && protocol == EN_SIMPLE && (kind == EN_ALL_GATHER || kind == EN_REDUCE_SCATTER);
}

static double takes_us(ncclComm_t comm, const struct en_task *task, int algorithm, int protocol)
{
    struct en_task other = *task;
    int64_t ns;

    other.algorithm = algorithm;
    other.protocol = protocol;
    ns = offered(task->kind, algorithm, protocol) ? en_collective_ns(comm, &other) : -1;
    return ns < 0 ? -1 : (double)ns / 1e3;
}

/* The estimates are the modelled times; without NCCL variants others cost at least `handicap` times RING SIMPLE. */
static void fill(ncclComm_t comm, const struct en_task *task, float costs[EN_ALGORITHMS][EN_PROTOCOLS])
{
    const double least_us = en_has_variants() ? 0 : handicap * takes_us(comm, task, EN_RING, EN_SIMPLE);

    for (int a = 0; a < EN_ALGORITHMS; a++)
        for (int p = 0; p < EN_PROTOCOLS; p++) {
            double us = allows("NCCL_ALGO", settings[a]) && allows("NCCL_PROTO", protocols[p]) && selects(task, a, p)
                            ? takes_us(comm, task, a, p)
                            : -1;
            costs[a][p] = (float)(us < 0 || (a == EN_RING && p == EN_SIMPLE) ? us : fmax(us, least_us));
        }
}

/* Finds the tuner's choice; false when the tuner leaves the choice to NCCL. */
static bool cheapest(float costs[EN_ALGORITHMS][EN_PROTOCOLS], struct en_task *task)
{
    bool found = false;

    for (int a = 0; a < EN_ALGORITHMS; a++)
        for (int p = 0; p < EN_PROTOCOLS; p++)
            if (costs[a][p] >= 0 && (!found || costs[a][p] < costs[task->algorithm][task->protocol])) {
                task->algorithm = a;
                task->protocol = p;
                found = true;
            }
    return found;
}

/* An injected fault: the requested algorithm or protocol is not used. */
static bool is_ignored(const struct en_task *task)
{
    return ignores(algorithms[task->algorithm]) || ignores(protocols[task->protocol]);
}

static size_t payload_bytes(ncclComm_t comm, const struct en_task *task)
{
    return task->count * en_element_bytes(task) * (en_kind(task->kind)->pays_per_block ? (size_t)comm->size : 1);
}

double en_choose(ncclComm_t comm, struct en_task *task)
{
    const struct tuner *t = comm->tuned ? tuner() : NULL;
    float costs[EN_ALGORITHMS][EN_PROTOCOLS];
    int channels = 0;

    en_choose_fastest(comm, task);
    if (!en_has_algorithm(task))
        return -1;
    if ((t == NULL && getenv("NCCL_ALGO") == NULL && getenv("NCCL_PROTO") == NULL && task->selection[0] == '\0') ||
        comm->size == 1)
        return takes_us(comm, task, task->algorithm, task->protocol);
    fill(comm, task, costs);
    if (t != NULL)
        t->choose(comm->tuner, functions[task->kind], payload_bytes(comm, task), 1, (float **)costs, EN_ALGORITHMS,
                  EN_PROTOCOLS, 0, &channels);
    if (cheapest(costs, task) && !is_ignored(task))
        return costs[task->algorithm][task->protocol];
    en_choose_fastest(comm, task);
    return takes_us(comm, task, task->algorithm, task->protocol);
}
