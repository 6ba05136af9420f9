/*
 * nccl_tests_options.h - busbar under the names of nccl-tests' programs (all_reduce_perf, ... : links to busbar): their
 * options, defaults, table and footer, so that scripts and parsers written for them go on working. What is measured and
 * checked is busbar's, and so are the exit statuses; what nccl-tests takes for granted (an unknown word is a default)
 * is refused.
 */
#ifndef BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H
#define BB_COLLECTIVES_NCCL_TESTS_NCCL_TESTS_OPTIONS_H

#include "collectives/sweep/bench_options.h"

#define BB_NCCL_TESTS_SUFFIX "_perf"

struct bb_nccl_tests_options {
    struct bb_bench_options bench;
    int threads, gpus, parallel_init, device_kernel, device_ctas;
    double timeout_s;
    char split[64];     /* the rule of the environment */
    char min_busbw[32]; /* of the environment */
};

/* bb_nccl_tests_kind - the collective of a program's path ("/opt/bin/all_reduce_perf"), -1 for any other program. */
int bb_nccl_tests_kind(const char *path);

/*
 * bb_nccl_tests_main - that program. With -g or -t above 1 the process becomes that many ranks, in an MPI job or
 * without one. Returns as bb_bench_main.
 */
int bb_nccl_tests_main(int argc, char **argv);

/* bb_nccl_tests_parse - the words and the environment; everything but the sweep. Returns 0, BB_OPTS_HELP or -BB_EUSAGE
 * (said). bb_nccl_tests_run - the run itself, in the GPU library. */
int bb_nccl_tests_parse(struct bb_nccl_tests_options *o, int argc, char **argv) BB_MUST_CHECK;
int bb_nccl_tests_run(int argc, char **argv);

#endif
