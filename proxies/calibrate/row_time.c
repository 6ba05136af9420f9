/* row_time.c - see row_time.h. */
#include "proxies/calibrate/row_time.h"

#include <math.h>
#include <strings.h>

static double message_us(const struct bb_cluster *c, const struct bb_evidence_row *row)
{
    struct bb_load load = {0};

    load.out[row->same_node] = load.in[row->same_node] = row->bytes;
    return (double)bb_cluster_message_ns(c, row->same_node, bb_cluster_load_ns(c, &load, c->gpus_per_node)) / 1e3;
}

/* Kernels back to back on one stream, from the host's first launch on: each begins when the one before has ended and it
 * has been launched. */
static double in_stream_us(const struct bb_cluster *c, double kernel_us, int iterations)
{
    if (iterations == 0)
        return kernel_us;
    return (c->launch_us + (iterations - 1) * fmax(c->launch_us, kernel_us) + kernel_us) / iterations;
}

double bb_row_time_us(const struct bb_cluster *c, const struct bb_evidence_row *row)
{
    switch (row->kind) {
    case BB_EVIDENCE_COLLECTIVE:
        return (double)bb_cluster_collective_ns(c, &row->call, NULL) / 1e3 +
               (row->by_host ? c->nccl_launch_us / row->iterations : 0);
    case BB_EVIDENCE_MESSAGE:
        return fmax(message_us(c, row), c->nccl_launch_us);
    case BB_EVIDENCE_KERNEL:
        return in_stream_us(c, (double)bb_cluster_kernel_ns(c, &row->kernel) / 1e3, row->iterations);
    case BB_EVIDENCE_TIMED:
        return in_stream_us(c, row->known_us, row->iterations);
    default:
        return c->nccl_launch_us;
    }
}

int bb_row_way(const struct bb_cluster *c, const struct bb_evidence_row *row)
{
    const struct bb_nccl_way *taken = NULL;

    if (*row->algorithm == '\0')
        (void)bb_cluster_collective_ns(c, &row->call, &taken);
    for (int i = 0; i < c->n_ways; i++)
        if (taken ? taken == &c->ways[i]
                  : strcasecmp(bb_nccl_algorithms[c->ways[i].algorithm], row->algorithm) == 0 &&
                        strcasecmp(c->ways[i].protocol, row->protocol) == 0)
            return i;
    return -1;
}

double bb_row_time_by_us(const struct bb_cluster *c, int way, const struct bb_evidence_row *row)
{
    struct bb_cluster one = *c;
    const struct bb_nccl_way *taken = NULL;
    int64_t ns;

    one.ways[0] = c->ways[way];
    one.n_ways = 1;
    ns = bb_cluster_collective_ns(&one, &row->call, &taken);
    return taken ? (double)ns / 1e3 + (row->by_host ? c->nccl_launch_us / row->iterations : 0) : INFINITY;
}
