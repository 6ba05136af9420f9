/*
 * copy_options.h - options of `busbar bench copy`, which measures copies between each GPU and its host, and between the GPUs of
 * a node.
 */
#ifndef BB_COLLECTIVES_COPY_COPY_OPTIONS_H
#define BB_COLLECTIVES_COPY_COPY_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/sweep/busbw_reference.h"

struct bb_bench_copy_options {
    struct bb_common common;
    size_t bytes;
    int iterations, repeats, warmup;
    const char *expect; /* "auto", "none", or a cluster profile */
    double slow;        /* a GPU or pair is slow if its typical rate / its rate is above this */
    int max_slow;       /* exit with status 5 if more GPUs and pairs are slow; -1: no limit */
};

/* Expected rates of one direction in 1e9 bytes/s: between host and GPU, between two GPUs of a node by copy engine and by
 * kernel. NaN: unknown. */
struct bb_copy_rates {
    double host_gbps, peer_gbps, peer_kernel_gbps;
};
/*
 * bb_copy_expect - read the expected rates from the profile of a machine.
 *   name     "auto", or a cluster profile
 *   source   out: description of the machine; "": unknown
 *   Returns  0, or a negative error code after printing an error
 */
enum { BB_COPY_SOURCE = 512 };
int bb_copy_expect(bb_forecast *forecast, const struct bb_machine_facts *facts, const char *name,
                   struct bb_copy_rates *rates, char source[BB_COPY_SOURCE]) BB_MUST_CHECK;

/* bb_bench_copy_set - the options of `busbar bench copy`, for bb_opts_read with argv[0] = "copy". */
extern const struct bb_opts bb_bench_copy_set;

/* bb_bench_copy_run - run the benchmark; defined in busbar-rank. Returns 0, a positive value if help was printed, or a
 * negative error code. */
int bb_bench_copy_run(bb_forecast *forecast, int argc, char **argv);

#endif
