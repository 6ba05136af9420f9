/* row_time.c - see row_time.h. */
#include "proxies/offline/calibrate/measurements/row_time.h"

#include <math.h>
#include <strings.h>

/* If a message's measured time is more than this multiple of the host time to launch it, the launch is ignored. */
#define ISSUE_NOISE 1.05

/* Returns the time of a message in us by the cost model. */
static double transfer_us(const struct bb_cluster *c, bool same_node, double bytes)
{
    struct bb_link_load load = {0};

    load.out[same_node] = load.in[same_node] = bytes;
    return (double)bb_cluster_message_ns(c, same_node, bb_cluster_link_load_ns(c, &load, c->gpus_per_node)) / 1e3;
}

/* Predicts the time of a message in us: the longer of the cost model's time and the host's launch time. A sendrecv between
 * nodes also has messages within nodes. The launch is ignored if the measured time is clearly longer than the launch (ISSUE_NOISE). Otherwise, at the start values of
 * a fit, a launch longer than the predicted message would make the predicted time independent of the fitted
 * parameters, and the measurement would become an outlier. */
static double message_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    double us = transfer_us(c, row->same_node, row->bytes);

    if (!row->same_node && row->call.ranks > row->call.nodes)
        us = fmax(us, transfer_us(c, true, row->bytes));
    return row->iterations == 0 || row->time_us > ISSUE_NOISE * c->nccl_launch_us ? us : fmax(us, c->nccl_launch_us);
}

/* Returns the mean time in us of `iterations` kernels that run back to back in one stream, measured from the first
 * launch. Each kernel begins when the previous kernel has ended and its own launch is complete. */
static double in_stream_us(const struct bb_cluster *c, double kernel_us, int iterations)
{
    if (iterations == 0)
        return kernel_us;
    return (c->launch_us + (iterations - 1) * fmax(c->launch_us, kernel_us) + kernel_us) / iterations;
}

/* ---- GEMMs during NCCL operations ---- */

/* Returns the rate of the GEMM relative to its rate when it runs alone, while NCCL occupies `held` SMs and uses the
 * fraction `taken` of the memory bandwidth. */
static double overlap_rate(const struct bb_cluster *c, const struct bb_kernel_list_item *gemm, int held, double taken)
{
    bool by_memory, any;
    const double alone_ns = (double)bb_cluster_kernel_on_sms_ns(c, gemm, c->sm_count, &by_memory);
    const double held_ns = (double)bb_cluster_kernel_on_sms_ns(c, gemm, c->sm_count - held, &any);

    return alone_ns / (fmax(alone_ns, held_ns) + (by_memory ? alone_ns * taken / (1 - taken) : 0));
}

static double call_latency_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    const int variant = bb_row_variant(c, row);
    struct bb_cost cost;

    if (row->call.kind == BB_SENDRECV)
        return row->call.nodes == 1 ? c->intra.latency_us : c->inter.latency_us;
    if (variant < 0 || !bb_cluster_variant_cost(c, &row->call, &c->variants[variant], &cost))
        bb_cluster_collective_cost(c, &row->call, &cost);
    return cost.latency_ns / 1e3;
}

/* Returns the time in us of the GEMMs of an overlap measurement (GEMMs during NCCL calls). While NCCL runs, the
 * GEMMs are slower because NCCL occupies SMs and, during transfers, memory bandwidth. */
static double overlap_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    const double latency_us = fmin(row->comm_us, row->iterations * call_latency_us(c, row));
    const double transfer_us = row->comm_us - latency_us;
    const double bytes = 2 * row->iterations * bb_colls[row->call.kind].bus_factor(row->call.ranks) * row->bytes;
    const double max_gbps = bb_cluster_nccl_memory_gbps(c);
    const double taken = transfer_us > 0 ? fmin(bytes * c->sharing.memory_bytes / transfer_us / 1e3, max_gbps) /
                                               bb_cluster_memory_gbps(c)
                                         : 0; /* fraction of the memory bandwidth that NCCL uses during transfers */
    int held = row->channels > 0 ? row->channels : c->sharing.collective_sms;
    double done_us;

    if (row->call.kind == BB_SENDRECV) /* two messages: one to the next rank and one from the previous rank */
        held = bb_cluster_exchange_sms(c, 2);
    held = bb_cluster_held_sms(c, held);
    done_us =
        transfer_us * overlap_rate(c, &row->kernel, held, taken) + latency_us * overlap_rate(c, &row->kernel, held, 0);
    if (done_us >= row->known_us)
        return row->comm_us * row->known_us / done_us;
    return row->comm_us + row->known_us - done_us;
}

/* ---- all kinds of measurements ---- */

/* Returns the host time per operation, in us, that a measured time contains. If the host clock measured `iterations`
 * calls together, this is the launch time of the first call divided by `iterations`; otherwise 0. */
static double host_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    return row->by_host ? c->nccl_launch_us / row->iterations : 0;
}

double bb_row_time_us(const struct bb_cluster *c, const struct bb_measurement *row)
{
    switch (row->kind) {
    case BB_MEASURED_COLLECTIVE:
        return (double)bb_cluster_collective_ns(c, &row->call, NULL) / 1e3 + host_us(c, row);
    case BB_MEASURED_MESSAGE:
        return message_us(c, row) + host_us(c, row);
    case BB_MEASURED_KERNEL:
        return in_stream_us(c, (double)bb_cluster_kernel_ns(c, &row->kernel) / 1e3, row->iterations);
    case BB_MEASURED_OVERLAP:
        return overlap_us(c, row);
    case BB_MEASURED_TIMED_KERNEL:
        return in_stream_us(c, row->known_us, row->iterations);
    default:
        return c->nccl_launch_us;
    }
}

int bb_row_variant(const struct bb_cluster *c, const struct bb_measurement *row)
{
    const struct bb_nccl_variant *taken = NULL;

    if (*row->algorithm == '\0')
        (void)bb_cluster_collective_ns(c, &row->call, &taken);
    for (int i = 0; i < c->n_variants; i++)
        if (taken ? taken == &c->variants[i]
                  : strcasecmp(bb_nccl_algorithms[c->variants[i].algorithm], row->algorithm) == 0 &&
                        strcasecmp(c->variants[i].protocol, row->protocol) == 0)
            return i;
    return -1;
}

double bb_row_time_by_us(const struct bb_cluster *c, int variant, const struct bb_measurement *row)
{
    struct bb_cost cost;

    bb_cluster_only_variant_cost(c, &row->call, &c->variants[variant], &cost);
    return cost.variant ? (double)llround(cost.latency_ns + cost.transfer_ns) / 1e3 + host_us(c, row) : INFINITY;
}
