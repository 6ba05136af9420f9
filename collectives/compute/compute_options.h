/*
 * compute_options.h - options of `busbar bench compute`, which measures GEMMs, memory-bound kernels and timed kernels
 * and compares them with the measured limits of the GPU.
 */
#ifndef BB_COLLECTIVES_COMPUTE_COMPUTE_OPTIONS_H
#define BB_COLLECTIVES_COMPUTE_COMPUTE_OPTIONS_H

#include "bootstrap/cli/opts.h"
#include "cuda/work/dtype.h"

enum bb_compute_section { BB_COMPUTE_GEMM, BB_COMPUTE_MEMORY_KERNELS, BB_COMPUTE_TIMED, BB_COMPUTE_SECTIONS };
extern const char *const bb_compute_section_names[BB_COMPUTE_SECTIONS];

/* tf32: GEMMs round their operands, which are of type float, to TF32. */
struct bb_compute_type {
    const char *name;
    enum bb_dtype_id dtype;
    bool tf32;
};
enum { BB_COMPUTE_TYPES = 4 };
extern const struct bb_compute_type bb_compute_types[BB_COMPUTE_TYPES];

struct bb_bench_compute_options {
    struct bb_common common;
    const char *dtype; /* name of a bb_compute_type, or "all": those without TF32 */
    size_t bytes;
    int iterations, repeats, warmup, candidates;
    double max_error; /* tolerance in percent for the duration of a timed kernel, in addition to 5 us
                         (TIMED_SLACK_US); 0: no limit */
    double slow;      /* a rank is slow above this multiple of the typical time */
    int max_slow;     /* exit with status 5 if more ranks are slow; -1: no limit */
    bool quick;
    bool wanted[BB_COMPUTE_SECTIONS]; /* [enum bb_compute_section] whether to measure GEMMs, memory-bound kernels,
                                         timed kernels; set by bb_opts_read from the positional arguments */
};

/* bb_compute_hides_slow_gpus - return whether kernels are measured that are too short to show a slow GPU (--quick). */
bool bb_compute_hides_slow_gpus(const struct bb_bench_compute_options *o);

/* bb_bench_compute_set - the options of `busbar bench compute`, for bb_opts_read with argv[0] = "compute". */
extern const struct bb_opts bb_bench_compute_set;

/* bb_bench_compute_run - run the benchmark; defined in busbar-rank. Returns 0, a positive value if help
 * was printed, or a negative error code. */
int bb_bench_compute_run(int argc, char **argv);

#endif
