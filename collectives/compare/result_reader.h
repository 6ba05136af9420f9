/*
 * result_reader.h - reads result files of several formats. All formats are converted to the same rows, each with the
 * timed case, the median time and the confidence interval of the median:
 *
 *   busbar.bench/1   one row per result; time_us.p50 and time_us.ci95 (both_us for overlap). Rows of p2p, comm and
 *                    overlap are named after their distinguishing fields: "latency 0>1 one", "init 4/1",
 *                    "10 all_reduce+2 gemm 8"; rows with a forced algorithm: "all_reduce TREE/LL";
 *                    of a variant: "all_reduce graph"
 *   busbar.health/1  one row per value of a GPU in its first measurement: "pairs node4 GPU 0 > node7"
 *   busbar.proxy/1   one row for the training step; step_us.p50 and step_us.ci95
 *   busbar.plan/1    only from `busbar plan --cluster`: the same rows as bench for collectives, one row for each kernel of
 *                    `plan compute`: "gemm square 1024x1024x1024x1", one row for the training step of a proxy; predicted
 *                    times have no intervals
 *   nccl-tests       JSON file, version 3: one row per placement (in place, out of place). If the file has the times of
 *                    all iterations, the row has their median and interval; otherwise it has the single time of the
 *                    file, without interval. nccl-tests writes booleans and nan as strings and the root as a padded
 *                    string. The collective is derived from the program's name. The printed output of nccl-tests is
 *                    also read (nccl_tests_text.h).
 */
#ifndef BB_COLLECTIVES_COMPARE_RESULT_READER_H
#define BB_COLLECTIVES_COMPARE_RESULT_READER_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The clock of a time: CUDA events, or the host from the first call to the end of the wait. NONE: a prediction, or unknown. */
enum bb_clock { BB_CLOCK_NONE, BB_CLOCK_GPU, BB_CLOCK_HOST, BB_CLOCKS };
extern const char *const bb_clock_names[BB_CLOCKS]; /* NONE: NULL */

/* One row of a result file. Strings are borrowed from the file's JSON tree. A string that does not apply to the row
 * is NULL, an integer -1. */
struct bb_timing {
    const char *what; /* name of the row: the collective, the proxy, or a name composed of several fields (see above) */
    const char *dtype, *op, *placement;
    const char *mode; /* how the operations were launched: "stream", "sync" or "graph"; "step" for a proxy */
    const char *algorithm, *protocol; /* algorithm and protocol chosen by NCCL; ignored when rows of two files are
                                         matched */
    long long channels;
    long long bytes, root, group, cycle;
    long long wrong;        /* number of received elements with a wrong value; -1: not verified */
    long long ranks[2];     /* bench p2p: the ranks of the link; bench compute: the slowest rank, and -1; else -1 */
    const char *hosts[2];   /* their hosts; NULL: unknown */
    double slowdown;        /* bench compute: time of the slowest rank / typical time of the ranks; else NaN */
    const char *test;       /* health: the test, if it is of several GPUs (test_sizes); else NULL */
    json_t *row;            /* health: the row of the file; else NULL */
    const char *key;        /* health: matched instead of `what`: bb_result_files_pair_gpus; else NULL */
    int same_node;          /* bench p2p: 1: the link is inside a node, 0: between nodes; else -1 */
    double time_us;         /* median time in us; NaN: the file has no time for this row */
    double low_us, high_us; /* 95 % confidence interval of the median, in us; NaN: none */
    enum bb_clock clock;    /* that measured time_us */
    double wall_us;         /* bench: time of the same operations by the host clock; NaN: none */
    double busbw_gbps;      /* bus bandwidth; health: the value of a test in GB/s; NaN: none */
    double tflops;          /* health: the value of a test in TFLOP/s; NaN: none */
};

struct bb_result_file {
    char *path; /* file name for messages, without control characters; owned */
    json_t *root;
    char *program; /* only for files of nccl-tests: collective, derived from the program's name; owned */
    struct bb_timing *rows;
    size_t n;
    json_t *test_sizes; /* health: sizes (bb_test_sizes) on which the values of each test of several GPUs depend, by its
                           name; owned; NULL: none */
    const char *host;   /* health of one node: its host, if other files are of other hosts; else NULL */
    bool uses_wall;     /* rows have the time wall_us: bb_result_files_align_clocks */
};

/* bb_test_sizes - the sizes on which values of health of several GPUs depend: their names in results, and in text. */
enum { BB_TEST_SIZES = 3 };
extern const struct bb_test_size {
    const char *name, *text;
} bb_test_sizes[BB_TEST_SIZES];

/* bb_health_bytes - return the bytes of a collective of health. bytes: --size, 0: default
 * bb_result_health_bytes - return those of a result of health. */
size_t bb_health_bytes(size_t bytes, bool quick);
size_t bb_result_health_bytes(const json_t *root);

/* bb_incomplete_status - return the status of an incomplete run, or NULL if the run is complete. A run that ended with
 * "below threshold" is complete, and so are a plan that "does not fit" and a file without a status, for example from
 * nccl-tests. root: the parsed file.
 * bb_is_below_threshold - return whether a run ended in order, but with a part that fails, or below a limit of its own.
 * bb_warn_if_incomplete - print a warning that names the status. reference: other runs are judged by this run, so also warn if
 * it missed a threshold.
 * bb_warn_if_restricted - print a warning if ranks of a reference shared a GPU, or if variables of the environment that the
 * environment of this process does not have can have lowered its bandwidth. */
const char *bb_incomplete_status(const json_t *root);
bool bb_is_below_threshold(const json_t *root);
void bb_warn_if_incomplete(const char *path, const json_t *root, bool reference);
void bb_warn_if_restricted(const char *path, const json_t *root);

/* bb_result_slow_text - describe an element of `causes` (bench p2p) or `slow_gpus` (bench compute) of a result file: "rank
 * 4 (node1): bandwidth 12.45 GB/s, other links 24.82". Returns text. */
enum { BB_SLOW_TEXT = 256 };
const char *bb_result_slow_text(const json_t *slow, char text[BB_SLOW_TEXT]);

/*
 * bb_result_tree_load - load the JSON tree of a result file. The printed output of nccl-tests is converted into the
 * tree that nccl-tests writes with -J.
 *   word     the path; or OPERATION=PATH for printed output that does not contain the operation, and
 *            OPERATION:RANKSxNODES=PATH for output without its ranks
 *   path     out: start of the path inside `word`
 *   root     out: new reference; NULL after an error
 *   Returns  0, or a negative error code after printing an error
 * bb_result_trees_load - load a list of trees: printed output may have several runs one after the other.
 */
int bb_result_tree_load(const char *word, const char **path, json_t **root) BB_MUST_CHECK;
int bb_result_trees_load(const char *word, const char **path, json_t **list) BB_MUST_CHECK;

/*
 * bb_result_file_load - read a result file.
 *   word     the path; or OPERATION=PATH for printed output of nccl-tests that does not contain the operation
 *   Returns  0; -BB_EUSAGE for a file in none of the formats above, after printing an error with the file, the position
 *            and what was expected
 *   Owner    the caller calls bb_result_file_release, also after an error
 */
int bb_result_file_load(struct bb_result_file *t, const char *word) BB_MUST_CHECK;

/* bb_result_file_from_tree - convert the JSON tree `root` of a result file to rows, as bb_result_file_load does for
 * a file. `path` is used in error messages. The function takes ownership of `root`. */
int bb_result_file_from_tree(struct bb_result_file *t, const char *path, json_t *root) BB_MUST_CHECK;

void bb_result_file_release(struct bb_result_file *t);

/* bb_result_files_align_clocks - if a row of one of n files has a time by the host clock (nccl-tests, bench --clock host),
 * sets the time of all rows by the GPU's clock that have wall_us to wall_us. */
void bb_result_files_align_clocks(struct bb_result_file *files, int n);

/* bb_result_files_pair_gpus - name the rows of n results of health such that equal rows are of the same GPU: that of the same
 * node and PCI address, or number if a file lacks the addresses. If each file has one node, and these differ, of the same
 * address in any node, or number if the addresses differ. */
#define BB_OTHER_HOSTS_NOTE                                                                                            \
    "# different hosts: rows are paired by test and PCI address of the GPU, or number if the addresses differ\n"
void bb_result_files_pair_gpus(struct bb_result_file *files, int n);

/* bb_result_file_predicted - return the name of the cluster that a prediction is for; NULL: the file has measured
 * times. */
const char *bb_result_file_predicted(const struct bb_result_file *t);

/* bb_result_jittered_us - return the median step time with jitter of a plan, borrowed; NULL: it has no jitter. */
const json_t *bb_result_jittered_us(const json_t *root);

/* bb_result_breakdown - returns the breakdown of the slowest rank of a role of a step; NULL: the file has none.
 *   step  the result of a run, or the field "predicted" of a plan
 *   role  in/out: name of the role; NULL, or not a role of the step: of the slowest rank of all, and set to its role */
const json_t *bb_result_breakdown(const json_t *step, const char **role);

/* bb_result_file_is_step - whether the file has one row, the step of a proxy. */
bool bb_result_file_is_step(const struct bb_result_file *t);

/* bb_result_file_is_health - whether the file is a result of health. Its rows are the time of 1 GB, or of 1 TFLOP. */
bool bb_result_file_is_health(const struct bb_result_file *t);

/* bb_timing_size - format the size of a row, after a blank: " 64 MiB", " step" for a step; "" if the row has no size. Returns
 * text. */
enum { BB_TIMING_SIZE = 40 };
const char *bb_timing_size(const struct bb_timing *row, char text[BB_TIMING_SIZE]);

/* bb_result_file_same_model - whether two files are not of different models: their parameters differ by at most 1 %, or,
 * if a file has no number of parameters, the names of their models are equal. */
bool bb_result_file_same_model(const struct bb_result_file *a, const struct bb_result_file *b);

/* bb_result_file_is_nccl_tests - whether the file is the JSON or the printed output of nccl-tests. */
int bb_result_file_is_nccl_tests(const struct bb_result_file *t);

/* bb_result_file_nccl_tests_ranks - return the number of ranks of an nccl-tests file; 0: unknown. nccl-tests lists
 * only the first device of each process, so the number of listed devices is multiplied by the threads per process
 * and GPUs per thread, unless the devices are numbered like ranks. */
int bb_result_file_nccl_tests_ranks(const json_t *root);
/* bb_result_file_nccl_tests_devices - return the list of devices of an nccl-tests file, or NULL. Files of older
 * nccl-tests versions have this list at the top level of the JSON tree. */
const json_t *bb_result_file_nccl_tests_devices(const json_t *root);

/* bb_result_run - return the values that identify the run of a file, as a new object: path of the file and those of
 * bb_flat_table_identity. */
json_t *bb_result_run(const struct bb_result_file *t);

/*
 * bb_provenance_of - return the conditions under which a file was created, as a new flat object of texts: "NCCL
 * library": "2.28.9", "ranks": "8", "devices": "8 x NVIDIA H200", "$NCCL_ALGO": "Ring", "--iters": "20". Conditions
 * that the file format does not record are omitted. nccl-tests' environment is reduced to the variables that
 * busbar records.
 */
json_t *bb_provenance_of(const struct bb_result_file *t);

/*
 * bb_provenance_differences - compare two objects from bb_provenance_of. Returns a new array with one object {what, a,
 * b} per difference. A variable or option that only one of the objects a and b contains is a difference, with null as
 * the missing value; any other condition that only one of them contains is ignored.
 */
json_t *bb_provenance_differences(const json_t *a, const json_t *b);

#endif
