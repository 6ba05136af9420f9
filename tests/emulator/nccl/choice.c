/*
 * choice.c - chooses the algorithm and protocol of a collective, and calls a tuner plugin as NCCL does. See choice.h.
 * The structures follow version 5 of NCCL's tuner interface, as far as they are filled here.
 */
#include "choice.h"
#include "cost.h"

#include "../engine.h"

#include "bootstrap/base/environment.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* NCCL's numbers of ncclFunc_t, which differ from enum en_kind. */
static const int functions[EN_KINDS] = {
    [EN_BROADCAST] = 0, [EN_REDUCE] = 1, [EN_ALL_GATHER] = 2, [EN_REDUCE_SCATTER] = 3, [EN_ALL_REDUCE] = 4};

/* Their names in NCCL_ALGO and NCCL_PROTO (ncclFuncStr). */
static const char *const operations[EN_KINDS] = {[EN_BROADCAST] = "Broadcast",
                                                 [EN_REDUCE] = "Reduce",
                                                 [EN_ALL_GATHER] = "AllGather",
                                                 [EN_REDUCE_SCATTER] = "ReduceScatter",
                                                 [EN_ALL_REDUCE] = "AllReduce"};

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

/* NCCL_ALGO or NCCL_PROTO: a list of names, or ^ and a list to exclude; since NCCL 2.24 also lists for operations, each
 * after the first one with the name of its operation: "ring;allreduce:tree,nvls;broadcast:^ring" (tuning.cc, parseList). */
struct setting {
    const char *variable;
    const char *const *names;
    int n;
};
static const struct setting algorithm_setting = {"NCCL_ALGO", settings, EN_ALGORITHMS};
static const struct setting protocol_setting = {"NCCL_PROTO", protocols, EN_PROTOCOLS};

static bool is_word(const char *word, size_t length, const char *name)
{
    return name != NULL && strlen(name) == length && strncasecmp(name, word, length) == 0;
}

/* Applies a list without the name of its operation. Returns the first invalid word; NULL: the list is valid. */
static const char *apply_list(const struct setting *s, const char *list, bool *allowed)
{
    const bool excludes = *list == '^';
    size_t length;

    for (int i = 0; i < s->n; i++)
        allowed[i] = excludes;
    for (list += excludes; length = strcspn(list, ",;"), *list != '\0' && *list != ';';
         list += length + (list[length] == ',')) {
        int i = 0;

        while (i < s->n && !is_word(list, length, s->names[i]))
            i++;
        if (i == s->n)
            return list;
        allowed[i] = !excludes;
    }
    return NULL;
}

/* Reads what a variable allows for an operation: allowed[s->n]. Returns the first invalid word; NULL: the value is valid. */
static const char *read_setting(const struct setting *s, enum en_kind kind, bool *allowed)
{
    const char *value = getenv(s->variable), *invalid = NULL;

    for (int i = 0; i < s->n; i++)
        allowed[i] = true;
    for (const char *entry = value; invalid == NULL && entry != NULL && *entry != '\0';) {
        const size_t length = strcspn(entry, ";"), prefix = strcspn(entry, ":;");
        bool ignored[EN_ALGORITHMS];
        int k = 0;

        while (prefix < length && k < EN_KINDS && !is_word(entry, prefix, operations[k]))
            k++;
        invalid = prefix < length && k < EN_KINDS
                      ? apply_list(s, entry + prefix + 1, k == (int)kind ? allowed : ignored)
                  : prefix == length && entry == value ? apply_list(s, entry, allowed)
                                                       : entry;
        entry += length + (entry[length] == ';');
    }
    return invalid;
}

static bool is_nvls_off(void)
{
    const char *value = getenv("NCCL_NVLS_ENABLE");

    return value != NULL && strcmp(value, "0") == 0;
}

/* Tuning variables that can make NCCL faster and are not modelled, in addition to the restrictions of environment.h. */
static const char *const tuning[] = {
    "NCCL_CHUNK_SIZE",           "NCCL_CROSS_NIC",         "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_LL128_NTHREADS",    "NCCL_MIN_NCHANNELS",
    "NCCL_MIN_NRINGS",           "NCCL_MIN_P2P_NCHANNELS", "NCCL_NSOCKS_PERTHREAD",
    "NCCL_NVLS_CHUNKSIZE",       "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_SOCKET_NTHREADS",      "NCCL_THREAD_THRESHOLDS"};

/* Prints the variables of this process that would change NCCL's times, but are not modelled; once. */
static void warn_of_others(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const struct bb_restriction *r;
    const char *before = "emulated NCCL: without effect, because not modelled: ";

    if (emu_world_rank() > 0 || atomic_flag_test_and_set(&warned))
        return;
    for (size_t i = 0; (r = bb_environment_restriction_at(i)) != NULL; i++)
        if (!r->modelled && bb_environment_restricts(r, getenv(r->name))) {
            fprintf(stderr, "%s%s=%s", before, r->name, getenv(r->name));
            before = ", ";
        }
    for (size_t i = 0; i < sizeof(tuning) / sizeof(*tuning); i++)
        if (getenv(tuning[i]) != NULL) {
            fprintf(stderr, "%s%s=%s", before, tuning[i], getenv(tuning[i]));
            before = ", ";
        }
    if (*before == ',')
        fputc('\n', stderr);
}

/* Prints that a limit of CTAs changes no times on a machine without a contention model; once. */
static void warn_of_ctas(ncclComm_t comm)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (!emu_machine()->has_sharing && comm->config.maxCTAs != NCCL_CONFIG_UNDEF_INT && emu_world_rank() <= 0 &&
        !atomic_flag_test_and_set(&warned))
        fprintf(stderr,
                "emulated NCCL: limits of CTAs or channels change no times with profile %s; try: "
                "EMU_CLUSTER=h100-sxm-ib\n",
                emu_machine()->name);
}

ncclResult_t en_check_settings(ncclComm_t comm)
{
    const struct setting *const both[] = {&algorithm_setting, &protocol_setting};
    bool allowed[EN_ALGORITHMS];

    warn_of_others();
    warn_of_ctas(comm);
    for (int i = 0; i < 2; i++) {
        const char *invalid = read_setting(both[i], EN_ALL_REDUCE, allowed);

        if (invalid != NULL)
            return en_fail(comm, ncclInvalidUsage, "Unrecognized token \"%.*s\" when parsing %s=%s",
                           (int)strcspn(invalid, ",;"), invalid, both[i]->variable, getenv(both[i]->variable));
    }
    return ncclSuccess;
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

/* The estimates are the modelled times, and 1024 times as long for a ring that NCCL takes last, also with NCCL_ALGO and
 * NCCL_PROTO. Without NCCL variants others cost at least `handicap` times RING SIMPLE. */
static void fill(ncclComm_t comm, const struct en_task *task, float costs[EN_ALGORITHMS][EN_PROTOCOLS])
{
    const double least_us = en_has_variants() ? 0 : handicap * takes_us(comm, task, EN_RING, EN_SIMPLE);
    bool allowed[EN_ALGORITHMS], used[EN_PROTOCOLS];
    struct en_task other = *task;

    read_setting(&algorithm_setting, task->kind, allowed);
    read_setting(&protocol_setting, task->kind, used);
    for (int a = 0; a < EN_ALGORITHMS; a++)
        for (int p = 0; p < EN_PROTOCOLS; p++) {
            const bool off = is_nvls_off() && (a == EN_NVLS || a == EN_NVLS_TREE);
            double us = allowed[a] && !off && used[p] && selects(task, a, p) ? takes_us(comm, task, a, p) : -1;

            us = us < 0 || (a == EN_RING && p == EN_SIMPLE) ? us : fmax(us, least_us);
            other.algorithm = a;
            costs[a][p] = (float)(us * en_choice_factor(comm, &other));
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

static ncclResult_t nothing_left(ncclComm_t comm, const struct en_task *task)
{
    const char *algorithm = getenv("NCCL_ALGO"), *protocol = getenv("NCCL_PROTO");

    return en_fail(comm, ncclInvalidUsage, "no algorithm/protocol available for function %s.%s%s%s%s",
                   operations[task->kind], algorithm != NULL ? " NCCL_ALGO was set to " : "",
                   algorithm != NULL ? algorithm : "", protocol != NULL ? " NCCL_PROTO was set to " : "",
                   protocol != NULL ? protocol : "");
}

ncclResult_t en_choose(ncclComm_t comm, struct en_task *task, double *us)
{
    const struct tuner *t = comm->tuned ? tuner() : NULL;
    const bool restricted = getenv("NCCL_ALGO") != NULL || getenv("NCCL_PROTO") != NULL || is_nvls_off();
    float costs[EN_ALGORITHMS][EN_PROTOCOLS];
    int channels = 0;

    *us = -1;
    en_choose_fastest(comm, task);
    if (!en_has_algorithm(task))
        return ncclSuccess;
    if ((t != NULL || restricted || task->selection[0] != '\0') && comm->size > 1) {
        fill(comm, task, costs);
        if (restricted && !cheapest(costs, task) && task->selection[0] == '\0')
            return nothing_left(comm, task);
        if (t != NULL)
            t->choose(comm->tuner, functions[task->kind], payload_bytes(comm, task), 1, (float **)costs, EN_ALGORITHMS,
                      EN_PROTOCOLS, 0, &channels);
        if (cheapest(costs, task) && !is_ignored(task)) {
            *us = costs[task->algorithm][task->protocol] / en_choice_factor(comm, task);
            return ncclSuccess;
        }
        en_choose_fastest(comm, task);
    }
    *us = takes_us(comm, task, task->algorithm, task->protocol);
    return ncclSuccess;
}
