/*
 * compare.h - `busbar compare`: compares two result files row by row, or several files (what_if.h). A row is one timed
 * case, for example one collective with one message size. Needs neither MPI nor a GPU.
 *
 * Two rows match when collective, bytes, dtype, op, root, placement (in place or out of place), mode (timing mode, such
 * as stream or graph), group (index of the --split group), cycle (repetition of the sweep, -N) and, for a link of bench
 * p2p, its class (inside a node or between nodes) are equal. If several
 * rows of a file are equal in all of these fields, the k-th of them in A matches the k-th in B. B's row is faster or
 * slower when the 95 % confidence intervals of the two medians do not overlap and the difference passes Holm's test. If
 * the row of A or B has no interval (only one sample, as in nccl-tests' files), the ratio of the times is compared with
 * the threshold (10 % without --threshold) and the verdict is marked "by ratio". Predictions have no random error: of two
 * predictions, the ratio is compared with the threshold, BB_EQUAL_PERCENT without a threshold.
 *
 * Holm's test ("A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6, 1979, p. 65-70) limits the
 * probability that any of n rows of two equal systems differs: with the p-values in ascending order, p(1), p(2), ..,
 * rows differ as long as p(i) <= BB_FALSE_VERDICTS / (n + 1 - i). The p-value of two medians is that of McKean and
 * Schrader ("A comparison of methods for studentizing the sample median", Commun. Statist. B13, 1984, p. 751-773): the
 * standard error of a median is (high - low) / (2 x 1.96), and the difference of two medians is normal. Of simulated
 * comparisons of equal systems, with 100 rows of 6 or 20 samples, 0 % to 7 % have a row that differs, depending on the
 * distribution of the samples; without the test, 18 % to 34 %.
 *
 * Values of health that depend on the number of nodes (stages bisection, rails and whole) are not compared if A and B have
 * different numbers of nodes in the test, for example because nodes have failed in an earlier stage, nor values of several GPUs
 * (all stages but gpu and copies) if the numbers of GPUs per node or the message sizes (--size, --quick) differ.
 *
 * The verdict of the whole comparison is the first verdict of this list that applies: incomplete run, different
 * model, B does not fit in GPU memory, no common row, wrong data, mixed (some rows are slower, others faster), slower,
 * inconclusive, rows missing in B, not slower.
 */
#ifndef BB_COLLECTIVES_COMPARE_COMPARE_H
#define BB_COLLECTIVES_COMPARE_COMPARE_H

#include "bootstrap/results/checks.h"
#include "bootstrap/results/results.h"
#include "collectives/compare/culprit.h"
#include "collectives/compare/group_members.h"
#include "collectives/compare/result_reader.h"

#include <stdbool.h>
#include <stdio.h>

enum bb_verdict {
    BB_FASTER, /* the confidence interval of B is entirely below that of A; if an interval is missing: B / A < 1 / (1
                  + threshold) */
    BB_SLOWER, /* the confidence interval of B is entirely above that of A; if an interval is missing: B / A > 1 +
                  threshold */
    BB_SAME,   /* the confidence intervals overlap; if an interval is missing: B / A is within the threshold */
    BB_INCONCLUSIVE, /* A or B has no time; the clocks of A and B differ; or A or B has no confidence interval and no
                        threshold is given */
    BB_WRONG_DATA,   /* the received data of A or B were wrong, so the times are meaningless */
    BB_VERDICTS
};

#define BB_FALSE_VERDICTS 0.01 /* level of Holm's test: probability that two equal systems differ in any row */
#define BB_HEALTH_PERCENT 3.0  /* without --threshold: noise of single measurements of health */
#define BB_EQUAL_PERCENT  0.5  /* two predictions whose times differ by less have no difference */

extern const char *const bb_verdict_names[BB_VERDICTS];
/* Verdicts of a row and of whole files. */
#define BB_NAME_SLOWER       "slower"
#define BB_NAME_NOT_SLOWER   "not slower"
#define BB_NAME_INCONCLUSIVE "inconclusive"
#define BB_NAME_WRONG_DATA   "wrong data"

/* bb_verdict_of - return the verdict of two matching rows. threshold_percent is used only if row a or row b has no
 * confidence interval; NaN: no threshold. */
enum bb_verdict bb_verdict_of(const struct bb_timing *a, const struct bb_timing *b, double threshold_percent);

/* bb_holm_limit - return the largest p-value that passes Holm's test at `level`; -1: none. Sorts p[n]. */
double bb_holm_limit(double *p, size_t n, double level);

/*
 * bb_match_rows - match the rows of two files. Files of different models have no matches.
 *   pair_a   [a->n] out: index of the row of b that matches row i of a; -1: no match
 *   pair_b   [b->n] out: index of the row of a that matches row i of b; -1: no match
 *   Returns  {"test", "of", "a", "b"}: the tests of health that are not compared, because the size `of` (bb_test_sizes) differs;
 *            a new reference
 */
json_t *bb_match_rows(const struct bb_result_file *a, const struct bb_result_file *b, long *pair_a,
                      long *pair_b) BB_MUST_CHECK;

/* The criteria for exit status 5 (BB_EBELOW). */
struct bb_regression_threshold {
    double threshold_percent; /* fail if the time of B exceeds that of A by more than this percentage in any row;
                                 NaN: no limit */
    bool strict;              /* fail also if the comparison is inconclusive or incomplete, or ranks or nodes differ */
};

/*
 * bb_compare - compare two files.
 *   full     print all rows and conditions; false: at most 25 lines, with the worst rows
 *   out      prints table and summary to this stream; NULL: print nothing
 *   results  receives the fields of busbar.compare/1; NULL: none
 *   Returns  0; -BB_EFAIL after a write error; -BB_EBELOW if a row is slower by more than the threshold; with a
 *            threshold, for an incomplete run, no common row and wrong data; with threshold->strict, for all verdicts
 *            except mixed, slower and not slower, and if the numbers of ranks or nodes differ
 */
int bb_compare(const struct bb_result_file *a, const struct bb_result_file *b,
               const struct bb_regression_threshold *threshold, bool full, FILE *out,
               struct bb_results *results) BB_MUST_CHECK;

enum { BB_WORST_TEXT = BB_GROUP_TEXT + 192, BB_REJECTED_TEXT = BB_WORST_TEXT + 192, BB_RULE_TEXT = 256 };

/* By which ratio a row without a confidence interval is slower. */
struct bb_rule {
    enum bb_rule_kind {
        BB_RULE_NONE,
        BB_RULE_HEALTH,
        BB_RULE_PREDICTED,
        BB_RULE_FEW_SAMPLES
    } kind; /* NONE: all rows have one */
    double percent;
    const char *by; /* where `percent` is from */
};

/* bb_rule_text - write a rule. verdict: name of the verdict on such a row; ratio: what is compared. Returns text, "": none. */
const char *bb_rule_text(const struct bb_rule *rule, const char *verdict, const char *ratio, char text[BB_RULE_TEXT]);

/* Result of the comparison of two files. */
struct bb_compared {
    long rows, faster, slower;   /* number of common rows; of rows in which B is faster, and slower */
    double ratio, worst_ratio;   /* geometric mean, and largest of B / A; NaN: no common row with a time */
    double busbw_gbps;           /* mean bus bandwidth of the common rows of B; NaN: none has one, or of health */
    enum bb_verdict row;         /* verdict of the only row; BB_VERDICTS: of the whole comparison, see `verdict` */
    const char *verdict;         /* name of the verdict */
    enum bb_check_status status; /* of the verdict, if no limit is exceeded */
    int order; /* order of the verdicts of whole comparisons: 0 is the worst; mixed and slower are equal */
    char worst[BB_WORST_TEXT]; /* the slowest row and its ratio: "all_reduce 64 MiB: +60.6 %"; "": no row with a time */
    char culprit
        [BB_CULPRIT_TEXT];   /* what slower rows have in common: "; rank 6 (node3) is in 18 of 18 slower rows"; or "" */
    const char *rejected_by; /* the option that rejects the verdict: "--threshold" or "--strict"; NULL: accepted */
    char reason[BB_REJECTED_TEXT]; /* the verdict that is rejected, or "ranks differ: A 4, B 2" */
    size_t over;                   /* number of rows slower by more than the threshold */
    struct bb_rule rule;
};
struct bb_compared bb_compare_count(const struct bb_result_file *a, const struct bb_result_file *b,
                                    const struct bb_regression_threshold *threshold);
/* bb_compared_doubt - replace the verdict by 'inconclusive', which strict rejects. */
void bb_compared_doubt(struct bb_compared *c, bool strict);

/* bb_compare_main - the command `busbar compare`. */
int bb_compare_main(int argc, char **argv);

#endif
