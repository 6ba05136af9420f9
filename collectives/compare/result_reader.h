/*
 * result_reader.h - result files read back: what was timed, its median and how sure that is. Four formats give the
 * same rows:
 *
 *   busbar.bench/1   one row per result; time_us.p50 and time_us.ci95 (both_us of an overlap). Rows of p2p, comm and
 *                    overlap are called by what tells them apart: "latency 0>1 one", "init 4/1", "all_reduce+gemm 8",
 *                    and so are forced algorithms: "all_reduce TREE/LL"
 *   busbar.proxy/1   one row, the step; step_us.p50 and step_us.ci95
 *   busbar.plan/1    with --cluster: of collectives as of bench, of a proxy its step; predicted, without intervals
 *   nccl-tests       its JSON file, version 3: one row per placement. With per-iteration times the median of those and
 *                    its interval, else the one time that it gives, which says nothing about its own spread. It writes
 *                    booleans and nan as words and the root as a padded word; the collective is the program's name.
 *                    What it prints is read as well (nccl_tests_text.h).
 */
#ifndef BB_COLLECTIVES_COMPARE_RESULT_READER_H
#define BB_COLLECTIVES_COMPARE_RESULT_READER_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

/* Texts are borrowed from the file's tree; NULL or -1: not applicable. */
struct bb_timing {
    const char *what; /* the collective, or the proxy's name */
    const char *dtype, *op, *placement;
    const char *mode;                 /* "stream", "sync", "graph", or "step" of a proxy       */
    const char *algorithm, *protocol; /* what NCCL chose; never part of what a row is */
    long long channels;
    long long bytes, root, group, cycle;
    long long wrong;        /* elements; -1: not checked                             */
    double time_us;         /* median; NaN where the file has none                   */
    double low_us, high_us; /* 95 % interval of the median; NaN where there is none  */
};

struct bb_result_file {
    const char *path; /* borrowed; for messages */
    json_t *root;
    char *program; /* nccl-tests: collective by its program's name */
    struct bb_timing *rows;
    size_t n;
};

/*
 * bb_result_tree_load - the tree of a result file: JSON, or what nccl-tests printed, as the tree that its -J would have
 * been. word: a path, or OPERATION=PATH for a print that does not say what it is of. *path: where the path begins in
 * it. *root is new, NULL after an error.
 */
int bb_result_tree_load(const char *word, const char **path, json_t **root) BB_MUST_CHECK;

/*
 * bb_result_file_load - read a result file, named as above. Anything that is not such a file is -BB_EUSAGE after one
 * line that names the file, the place in it and what was expected. Released also after a failure.
 */
int bb_result_file_load(struct bb_result_file *t, const char *word) BB_MUST_CHECK;

/* bb_result_file_from_tree - the same of a tree, which is taken over. */
int bb_result_file_from_tree(struct bb_result_file *t, const char *path, json_t *root) BB_MUST_CHECK;

void bb_result_file_release(struct bb_result_file *t);

/* bb_result_file_predicted - the cluster that the times are predicted for; NULL: they were measured. */
const char *bb_result_file_predicted(const struct bb_result_file *t);

/* bb_result_file_is_nccl_tests - the file is nccl-tests'. */
int bb_result_file_is_nccl_tests(const struct bb_result_file *t);

/* bb_result_file_nccl_tests_ranks - of a file of nccl-tests, which lists the first device of each process with several;
 * busbar's lists all. 0: it does not tell. */
int bb_result_file_nccl_tests_ranks(const json_t *root);
/* bb_result_file_nccl_tests_devices - that list; older files have it at the top. NULL: there is none. */
const json_t *bb_result_file_nccl_tests_devices(const json_t *root);

/*
 * bb_provenance_of - under what the file was made, as a new flat object of texts: "NCCL library": "2.28.9", "ranks",
 * "devices": "8 x NVIDIA H200", "$NCCL_ALGO": "Ring", "--iters": "20". What a format does not tell is left out. Of
 * nccl-tests' environment only NCCL_* and CUDA_* are looked at. NULL without memory.
 */
json_t *bb_provenance_of(const struct bb_result_file *t);

/*
 * bb_provenance_differences - new array of {what, a, b} where two of them differ. A variable or an option that only one
 * has is a difference (null on the other side); anything else that only one tells is not.
 */
json_t *bb_provenance_differences(const json_t *a, const json_t *b);

#endif
