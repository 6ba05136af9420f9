/*
 * nccl_tests_options.h - the nccl-tests programs (all_reduce_perf, ...), which are links to busbar. Under these names
 * busbar accepts the options, defaults and environment variables of nccl-tests, measures times by the host clock as
 * nccl-tests does, and prints nccl-tests' table and footer, so that existing scripts and parsers keep working.
 * Sampling, verification and exit statuses are busbar's. Unlike in nccl-tests, unknown types and operations are errors.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H

#include "collectives/sweep/bench_options.h"

#define BB_NCCL_TESTS_SUFFIX "_perf"

struct bb_nccl_tests_options {
    struct bb_bench_options bench;
    int threads, gpus, parallel_init, device_kernel;
    double timeout_s;
    char split[64];     /* value for --split from the environment (NCCL_TESTS_SPLIT or NCCL_TESTS_SPLIT_MASK) */
    char min_busbw[32]; /* value for --min-busbw from the environment: 90 % of NCCL_TESTS_MIN_BW */
};

/* bb_nccl_tests_kind - return the collective (enum bb_coll_kind) of a program path such as
 * "/opt/bin/all_reduce_perf"; -1 if this is not an nccl-tests program. */
int bb_nccl_tests_kind(const char *path);

/*
 * bb_nccl_tests_main - run the nccl-tests program argv[0]. If -g (GPUs per thread) times -t (threads per process) is n
 * > 1, the process forks n - 1 more ranks, with or without MPI. Returns 0, BB_OPTS_HELP after printing the help, or
 * -BB_E...
 */
int bb_nccl_tests_main(int argc, char **argv);

/*
 * bb_nccl_tests_parse - parse the arguments and the environment; the caller then calls bb_bench_resolve for the sweep.
 *                         Returns  0, BB_OPTS_HELP, or -BB_EUSAGE after printing one error line
 * bb_nccl_tests_run   - run the benchmark. Only busbar-rank contains this function.
 */
int bb_nccl_tests_parse(struct bb_nccl_tests_options *o, int argc, char **argv) BB_MUST_CHECK;
int bb_nccl_tests_run(int argc, char **argv);

#endif
