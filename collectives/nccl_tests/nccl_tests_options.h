/*
 * nccl_tests_options.h - busbar under the names of nccl-tests' programs (all_reduce_perf, ..., which are links to
 * busbar): accepts their options, defaults and environment, and prints their table and footer, so that existing scripts
 * and parsers keep working. Measurement, verification and exit statuses are busbar's. Unlike nccl-tests, unknown types
 * and operations are errors.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H

#include "collectives/sweep/bench_options.h"

#define BB_NCCL_TESTS_SUFFIX "_perf"

struct bb_nccl_tests_options {
    struct bb_bench_options bench;
    int threads, gpus, parallel_init, device_kernel, device_ctas;
    double timeout_s;
    char split[64];     /* rule for --split from the environment */
    char min_busbw[32]; /* value for --min-busbw from the environment */
};

/* bb_nccl_tests_kind - return the collective (enum bb_coll_kind) that a program path such as
 * "/opt/bin/all_reduce_perf" names; -1 for other programs. */
int bb_nccl_tests_kind(const char *path);

/*
 * bb_nccl_tests_main - run that program. With -g or -t above 1, the process forks the further ranks, inside or outside
 * of an MPI job. Returns as bb_bench_main.
 */
int bb_nccl_tests_main(int argc, char **argv);

/*
 * bb_nccl_tests_parse - parse the arguments and the environment, without deriving the sweep. Returns 0, BB_OPTS_HELP,
 * or
 *                       -BB_EUSAGE after printing one line.
 * bb_nccl_tests_run   - run the benchmark; exported by the GPU library.
 */
int bb_nccl_tests_parse(struct bb_nccl_tests_options *o, int argc, char **argv) BB_MUST_CHECK;
int bb_nccl_tests_run(int argc, char **argv);

#endif
