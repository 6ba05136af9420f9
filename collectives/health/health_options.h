/*
 * health_options.h - the command line of `busbar health`, and its plan: expectations and duration of each test.
 * Requires neither MPI nor a GPU.
 */
#ifndef BB_COLLECTIVES_HEALTH_HEALTH_OPTIONS_H
#define BB_COLLECTIVES_HEALTH_HEALTH_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "collectives/health/verdict/verdict.h"
#include "collectives/sweep/busbw_reference.h"

struct bb_health_options {
    struct bb_common common;
    const char *only;       /* one stage; "all" */
    const char *from;       /* the first stage to run; NULL: all */
    const char *expect;     /* "auto", a cluster profile, or an earlier result */
    const char *baseline;   /* --save-baseline; its file is common.json */
    size_t bytes;           /* of a collective; 0: depends on `quick` */
    int iterations, rounds; /* rounds: 0: not given */
    bool quick, thorough, drain, plan, nodes;
    const char *soak; /* time of the stage soak; NULL: none */
    double soak_s;
    int ranks, gpus_per_node; /* only with --plan */
};
extern const struct bb_opts bb_health_set;

/* bb_bench_rails_set, bb_bench_nodes_set - options of `busbar bench rails` and `busbar bench p2p --nodes`, which run
 * one stage of health and write its results. */
extern const struct bb_opts bb_bench_rails_set, bb_bench_nodes_set;

/* bb_health_size - return the bytes of a collective.
 * bb_health_wanted_rounds - return the number of rounds of the stage pairs for struct bb_health. */
size_t bb_health_size(const struct bb_health_options *o);
enum { BB_HEALTH_ALL_ROUNDS = 1 << 20 }; /* more than any job has */
int bb_health_wanted_rounds(const struct bb_health_options *o);

/* The GEMM of stage gpu, and the bytes that its copy reads and writes. */
extern const struct bb_gemm_shape bb_health_gemm;
enum { BB_HEALTH_COPY = 512 << 20 };
/* bb_health_arena_bytes - return the bytes of the matrices of the GEMM, which the copy uses, too.
 * bb_health_work_bytes - return the GPU memory of a run without the buffer of the collectives and without NCCL's. */
size_t bb_health_arena_bytes(void);
enum { BB_HEALTH_COPIES = 64 << 20 }; /* each of the two buffers of the stage copies */
size_t bb_health_work_bytes(const struct bb_health_options *o);

/* bb_health_has - return whether a stage is to be run. */
bool bb_health_has(const struct bb_health_options *o, const char *stage);

/* bb_health_baseline - return the earlier result that --expect names, as a new reference; NULL: it names something
 *   else. */
json_t *bb_health_baseline(const struct bb_health_options *o);

/* bb_health_baseline_nodes - return the number of nodes whose value of a test a baseline has; 0: it has none. */
int bb_health_baseline_nodes(const json_t *baseline, enum bb_health_test test);

/*
 * bb_health_expect - predict the value of each test for the nodes that have not failed, and set h->tiers, h->latency.
 *   baseline of bb_health_baseline; its medians take the place of the forecast
 *   facts    machine; this function sets ranks and ranks_per_node
 *   source   out: description of the machine; "": unknown, and h->expected is NaN
 *   Returns  0, or a negative error code after printing an error
 */
enum { BB_HEALTH_SOURCE = 512 };
int bb_health_expect(struct bb_health *h, const struct bb_health_options *o, const json_t *baseline,
                     bb_forecast *forecast, const struct bb_machine_facts *facts,
                     char source[BB_HEALTH_SOURCE]) BB_MUST_CHECK;

/* bb_health_seconds - return the planned duration of a test. */
double bb_health_seconds(const struct bb_health *h, const struct bb_health_options *o, enum bb_health_test test);

/* bb_health_runs - return whether a test is to be run; one node has no tests between nodes. */
bool bb_health_runs(const struct bb_health *h, enum bb_health_test test);

/* bb_health_check - validate the arguments of `busbar health`. Returns 0, or -BB_EUSAGE after printing an error line.
 * bb_health_main - run `busbar health`; argv[0] is "health". Returns 0, BB_OPTS_HELP after printing the help, or
 *   -BB_E...
 * bb_health_rank_main - the same in busbar-rank; set: bb_health_set, or of the bench command whose name is argv[1]. */
int bb_health_check(int argc, char **argv) BB_MUST_CHECK;
int bb_health_main(bb_forecast *forecast, int argc, char **argv);
int bb_health_rank_main(const struct bb_opts *set, bb_forecast *forecast, int argc, char **argv);

#endif
