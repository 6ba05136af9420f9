/*
 * result_reader.h - reads result files. All formats yield the same rows: what was timed, the median, and its confidence
 * interval:
 *
 *   busbar.bench/1   one row per result; time_us.p50 and time_us.ci95 (both_us for overlap). Rows of p2p, comm and
 *                    overlap are named after their distinguishing fields: "latency 0>1 one", "init 4/1",
 *                    "all_reduce+gemm 8"; rows with a forced algorithm: "all_reduce TREE/LL"
 *   busbar.proxy/1   one row for the step; step_us.p50 and step_us.ci95
 *   busbar.plan/1    with --cluster: rows as in bench for collectives, one row for a proxy's step; predicted times have
 *                    no intervals
 *   nccl-tests       JSON file, version 3: one row per placement. With per-iteration times: their median and its
 *                    interval; otherwise the single time of the file, without interval. nccl-tests writes booleans and
 *                    nan as strings and the root as a padded string; the collective is derived from the program's name.
 *                    nccl-tests' printed output is read, too (nccl_tests_text.h).
 */
#ifndef BB_COLLECTIVES_COMPARE_RESULT_READER_H
#define BB_COLLECTIVES_COMPARE_RESULT_READER_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

/* One row. Texts are borrowed from the file's JSON tree; NULL or -1: not applicable. */
struct bb_timing {
    const char *what; /* name of the collective or proxy */
    const char *dtype, *op, *placement;
    const char *mode;                 /* "stream", "sync", "graph"; "step" for a proxy */
    const char *algorithm, *protocol; /* NCCL's choice; not part of the row's identity */
    long long channels;
    long long bytes, root, group, cycle;
    long long wrong;        /* wrong elements; -1: not verified */
    double time_us;         /* median; NaN: the file has none */
    double low_us, high_us; /* 95 % confidence interval of the median; NaN: none */
};

struct bb_result_file {
    const char *path; /* borrowed; for messages */
    json_t *root;
    char *program; /* nccl-tests: name of the collective, from the program's name; owned */
    struct bb_timing *rows;
    size_t n;
};

/*
 * bb_result_tree_load - load the JSON tree of a result file. nccl-tests' printed output is converted into the tree that
 * nccl-tests writes with -J.
 *   word     a path, or OPERATION=PATH for output that does not name its operation
 *   path     out: start of the path inside `word`
 *   root     out: new reference; NULL after an error
 *   Returns  0, or a negative error after printing one line
 */
int bb_result_tree_load(const char *word, const char **path, json_t **root) BB_MUST_CHECK;

/*
 * bb_result_file_load - read a result file, named as for bb_result_tree_load.
 *   Returns  0; -BB_EUSAGE for any other file, after printing one line with the file, the position and what was
 *            expected
 *   Owner    the caller calls bb_result_file_release, also after a failure
 */
int bb_result_file_load(struct bb_result_file *t, const char *word) BB_MUST_CHECK;

/* bb_result_file_from_tree - the same for a loaded tree, whose reference it takes over. */
int bb_result_file_from_tree(struct bb_result_file *t, const char *path, json_t *root) BB_MUST_CHECK;

void bb_result_file_release(struct bb_result_file *t);

/* bb_result_file_predicted - name of the cluster that the times are predicted for; NULL: measured times. */
const char *bb_result_file_predicted(const struct bb_result_file *t);

/* bb_result_file_is_nccl_tests - whether nccl-tests wrote the file. */
int bb_result_file_is_nccl_tests(const struct bb_result_file *t);

/* bb_result_file_nccl_tests_ranks - number of ranks of an nccl-tests file. nccl-tests lists only the first device of
 * each process, so the list is multiplied by threads and GPUs per process; busbar's files list all devices. 0:
 * unknown. */
int bb_result_file_nccl_tests_ranks(const json_t *root);
/* bb_result_file_nccl_tests_devices - the list of devices, which older files have at the top level. NULL: none. */
const json_t *bb_result_file_nccl_tests_devices(const json_t *root);

/*
 * bb_provenance_of - the conditions under which a file was made, as a new flat object of texts: "NCCL library":
 * "2.28.9", "ranks", "devices": "8 x NVIDIA H200", "$NCCL_ALGO": "Ring", "--iters": "20". Facts that a format does not
 * record are left out. From nccl-tests' environment only NCCL_* and CUDA_* are taken.
 *   Returns  NULL without memory
 */
json_t *bb_provenance_of(const struct bb_result_file *t);

/*
 * bb_provenance_differences - new array of {what, a, b}, one entry per difference. A variable or option that only one
 * side has is a difference (null on the other side); any other fact that only one side has is ignored.
 */
json_t *bb_provenance_differences(const json_t *a, const json_t *b);

#endif
