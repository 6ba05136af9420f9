/*
 * tuner.c - the tuner plugin, see tuner.h.
 *
 * NCCL calls the plugin from the thread that calls NCCL, or from helper threads of non-blocking communicators. A mutex
 * protects the state. The state is global, because NCCL finds a plugin by its symbol name.
 */
#include "collectives/session/tuner.h"

#include "collectives/session/tuner_plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const char *const bb_algorithms[BB_ALGORITHMS] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                  "NVLS_TREE", "PAT"};
const char *const bb_protocols[BB_PROTOCOLS] = {"LL", "LL128", "SIMPLE"};

static struct {
    pthread_mutex_t lock;
    int comms, ranks, nodes;
    bool forced, recording;
    struct bb_algorithm_protocol wanted;
    struct bb_tuner_costs costs;
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int index_of(const char *const *words, int n, const char *word)
{
    for (int i = 0; i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

struct bb_algorithm_protocol bb_algorithm_protocol_of(const char *algorithm, const char *protocol)
{
    return (struct bb_algorithm_protocol){index_of(bb_algorithms, BB_ALGORITHMS, algorithm),
                                          index_of(bb_protocols, BB_PROTOCOLS, protocol)};
}

/* ---- functions that NCCL calls ---- */

/* Stores NCCL's cost table. Ignores algorithms and protocols of newer NCCL versions that are not in the lists
 * bb_algorithms and bb_protocols; busbar cannot force them. */
static void record_costs(const float *costs, int algorithms, int protocols)
{
    plugin.costs.known = true;
    plugin.costs.ranks = plugin.ranks;
    plugin.costs.nodes = plugin.nodes;
    for (int a = 0; a < BB_ALGORITHMS; a++)
        for (int p = 0; p < BB_PROTOCOLS; p++)
            plugin.costs.us[a][p] = a < algorithms && p < protocols ? costs[a * protocols + p] : -1;
}

/* Marks all algorithm/protocol pairs except plugin.wanted as unavailable in NCCL's cost table. Leaves the whole
 * table unchanged if NCCL does not offer the wanted pair. */
static void disable_unwanted(float *costs, int algorithms, int protocols)
{
    const struct bb_algorithm_protocol *w = &plugin.wanted;
    int kept = w->algorithm * protocols + w->protocol;

    if (w->algorithm >= algorithms || w->protocol >= protocols || costs[kept] < 0)
        return;
    for (int i = 0; i < algorithms * protocols; i++)
        costs[i] = i == kept ? costs[i] : -1;
}

static ncclResult_t choose_algorithm(void *context, int function, size_t bytes, int operations, float **costs,
                                     int algorithms, int protocols, int registered, int *channels)
{
    float *table = (float *)(void *)costs; /* NCCL declares a float **, but passes a flat array, see tuner_plugin.h */

    (void)context, (void)function, (void)operations, (void)channels;
    pthread_mutex_lock(&plugin.lock);
    if (plugin.recording) {
        record_costs(table, algorithms, protocols);
        plugin.costs.bytes = bytes;
        plugin.costs.registered = registered != 0;
    }
    if (plugin.forced)
        disable_unwanted(table, algorithms, protocols);
    pthread_mutex_unlock(&plugin.lock);
    return ncclSuccess;
}

static ncclResult_t add_comm(void **context, size_t ranks, size_t nodes)
{
    pthread_mutex_lock(&plugin.lock);
    plugin.comms++;
    plugin.ranks = (int)ranks;
    plugin.nodes = (int)nodes;
    pthread_mutex_unlock(&plugin.lock);
    *context = &plugin;
    return ncclSuccess;
}

static ncclResult_t init_v4(size_t ranks, size_t nodes, bb_tuner_log *log, void **context)
{
    (void)log;
    return add_comm(context, ranks, nodes);
}

static ncclResult_t init_v5(void **context, uint64_t comm_id, size_t ranks, size_t nodes, bb_tuner_log *log,
                            void *domains, void *constants)
{
    (void)comm_id, (void)log, (void)domains, (void)constants;
    return add_comm(context, ranks, nodes);
}

static ncclResult_t finalize_plugin(void *context)
{
    (void)context;
    pthread_mutex_lock(&plugin.lock);
    plugin.comms--;
    pthread_mutex_unlock(&plugin.lock);
    return ncclSuccess;
}

const struct bb_tuner_v4 ncclTunerPlugin_v4 = {
    .name = "busbar", .init = init_v4, .choose = choose_algorithm, .finalize = finalize_plugin};
const struct bb_tuner_v6 ncclTunerPlugin_v6 = {
    .v5 = {.name = "busbar", .init = init_v5, .choose = choose_algorithm, .finalize = finalize_plugin}};
/* NCCL's version 6 struct begins with the fields of its version 5 struct, so one object serves both. */
extern const struct bb_tuner_v5 ncclTunerPlugin_v5 __attribute__((alias("ncclTunerPlugin_v6")));

/* ---- functions that busbar calls ---- */

bool bb_tuner_enable(void)
{
    const char *given = getenv("NCCL_TUNER_PLUGIN");

    if (given && strcmp(given, "STATIC_PLUGIN") != 0)
        return false;
    return setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1) == 0;
}

int bb_tuner_attached(void)
{
    int comms;

    pthread_mutex_lock(&plugin.lock);
    comms = plugin.comms;
    pthread_mutex_unlock(&plugin.lock);
    return comms;
}

void bb_tuner_force(const struct bb_algorithm_protocol *wanted)
{
    pthread_mutex_lock(&plugin.lock);
    plugin.forced = wanted && wanted->algorithm >= 0 && wanted->protocol >= 0;
    if (plugin.forced)
        plugin.wanted = *wanted;
    pthread_mutex_unlock(&plugin.lock);
}

void bb_tuner_begin_recording(void)
{
    pthread_mutex_lock(&plugin.lock);
    plugin.recording = true;
    plugin.costs = (struct bb_tuner_costs){.known = false};
    pthread_mutex_unlock(&plugin.lock);
}

void bb_tuner_end_recording(struct bb_tuner_costs *costs)
{
    pthread_mutex_lock(&plugin.lock);
    plugin.recording = false;
    *costs = plugin.costs;
    pthread_mutex_unlock(&plugin.lock);
}
