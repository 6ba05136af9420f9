/* next_measurements.c - names the measurements that would determine what a calibration could not. */
#include "proxies/offline/calibrate/calibration_report.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#define SMALLEST_BYTES (64 << 10)           /* a size up to this one determines latencies */
#define LARGEST_BYTES  (1024.0 * (1 << 20)) /* a size from this one on determines rates: NCCL reaches its bandwidth */

/* What was measured. */
struct measured {
    bool collective, message; /* collectives that are one NCCL call; sends and receives */
    bool phases[2];           /* [0] collectives with one phase: all_gather, ...; [1] with two: all_reduce */
    double min_bytes, max_bytes;
    bool several_nodes;
};

static struct measured summarize(const struct bb_measurements *e)
{
    struct measured m = {.min_bytes = INFINITY};

    for (const struct bb_measurement *row = e->rows; row < e->rows + e->n_rows; row++) {
        const bool is_call = row->kind == BB_MEASURED_COLLECTIVE && bb_colls[row->call.kind].flags & BB_COLL_ESTIMATED;

        m.message |= row->kind == BB_MEASURED_MESSAGE || (row->kind == BB_MEASURED_COLLECTIVE && !is_call);
        if (!is_call)
            continue;
        m.collective = true;
        m.phases[row->call.kind == BB_ALL_REDUCE] = true;
        m.several_nodes |= row->call.nodes > 1;
        m.min_bytes = fmin(m.min_bytes, row->bytes);
        m.max_bytes = fmax(m.max_bytes, row->bytes);
    }
    return m;
}

/* Returns whether a fit changed only the sum of a parameter, whose key matches the pattern, and of others. */
static bool has_correlated(const struct bb_calibration *c, const char *pattern)
{
    for (const struct bb_calibration_parameter *p = c->parameters; p < c->parameters + c->n_parameters; p++)
        if (p->fit && p->correlated && fnmatch(pattern, p->key, 0) == 0)
            return true;
    return false;
}

/* Returns whether NCCL reduces in the NVSwitches: then all_reduce of large sizes does not use a ring. */
static bool has_nvls(const struct bb_cluster *c)
{
    for (int i = 0; i < c->n_variants; i++)
        if (c->variants[i].algorithm == BB_NCCL_NVLS)
            return true;
    return false;
}

json_t *bb_next_measurements(const struct bb_calibration *c)
{
    const struct measured m = summarize(c->measurements);
    const struct {
        bool applies;
        const char *text;
    } rows[] = {
        {m.phases[1] && !m.phases[0] && has_nvls(c->base), "all_gather, for the ring, which all other collectives use"},
        {m.phases[1] != m.phases[0] && !has_nvls(c->base) && has_correlated(c, "nccl.ring.*.intra_us"),
         m.phases[1] ? "all_gather, to separate the start of a ring (base_us) from its steps (intra_us)"
                     : "all_reduce, to separate the start of a ring (base_us) from its steps (intra_us)"},
        {m.collective && !m.message && !m.several_nodes,
         "alltoall, for messages inside a node (intra.latency_us, intra.gbps)"},
        {m.collective && !m.message && m.several_nodes,
         "alltoall or sendrecv, for messages between nodes (inter.latency_us, inter.gbps)"},
        {has_correlated(c, "inter.message_us"),
         "alltoall on another number of nodes, to separate a group of messages (inter.group_us) from each message "
         "(inter.message_us)"},
        {has_correlated(c, "inter.group_us"),
         "sendrecv between nodes, to separate a group of messages (inter.group_us) from the latency of a message "
         "(inter.latency_us)"},
        {m.collective && m.min_bytes > SMALLEST_BYTES, "sizes from 8 bytes, for latencies"},
        {m.collective && m.max_bytes < LARGEST_BYTES, "sizes up to 16 GiB, for rates"},
    };
    json_t *list = json_array();

    for (size_t i = 0; c->base->n_variants > 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].applies)
            json_array_append_new(list, json_string(rows[i].text));
    return list;
}
