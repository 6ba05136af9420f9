/*
 * busbw_reference.h - the expected bus bandwidth of each case, of `--expect` and of `--min-busbw FILE:PERCENT%`. Its source
 * is a result file, which contains a prediction (`busbar plan COLLECTIVE --json`) or a measurement, or a forecast for
 * this machine or for a cluster profile.
 */
#ifndef BB_COLLECTIVES_SWEEP_BUSBW_REFERENCE_H
#define BB_COLLECTIVES_SWEEP_BUSBW_REFERENCE_H

#include "collectives/compare/result_reader.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "collectives/sweep/cases.h"
#include "collectives/sweep/groups.h"
#include "cuda/device/nics.h"
#include "cuda/work/layer_shape.h"

#include <jansson.h>

/* What is known about the machine of a run. */
struct bb_machine_facts {
    const char *gpu; /* name of the GPU of rank 0, as CUDA reports it */
    bool emulated;
    struct bb_nics nics;       /* of the host of rank 0 */
    int node_gpus;             /* of the host of rank 0, as CUDA shows them; 0: unknown */
    int ranks, ranks_per_node; /* of one --split group; ranks_per_node: the largest number on one host */
    int concurrent;            /* ranks of a host in all concurrent groups, which share its NICs; 0: one group */
    int job_ranks;             /* of all groups; 0: one group, */
    int job_ranks_per_node;    /* with these */
    int domain_nodes;          /* nodes of the group in each NVLink domain; 0: by the profile */
    const int *nodes;          /* those of the group in ascending order; NULL: the first nodes of the job */
    bool one_host;             /* all ranks of the job have the same host */
    bool unequal_nodes; /* more than one host has fewer of these ranks than ranks_per_node, which no forecast has */
    struct bb_gemm_shape gemm; /* kernels to predict, too, for health; m 0: none */
    size_t copy_bytes;         /* read and written by a copy in GPU memory */
};

/* bb_machine_facts_of - returns the facts of a session's machine after bb_session_setup_gpus, for one group of `ranks` ranks. */
struct bb_session;
struct bb_machine_facts bb_machine_facts_of(const struct bb_session *s, int ranks, int ranks_per_node);

/*
 * bb_forecast - predict the results of a sweep.
 * The cost model is in proxies/, on which collectives/ does not depend; busbar_rank.c passes the function.
 *   name     "auto": the cluster profile of this machine; otherwise name or path of a cluster profile
 *   root     out: new reference, a document busbar.plan/1 whose "predicted.cluster" describes the machine, and predicted.pcie_gbps,
 *            peer_gbps and peer_kernel_gbps the rates of copies; NULL after printing a warning on how to make a profile: "auto" does not know the machine
 *   Returns  0, or a negative error code after printing an error
 */
typedef int bb_forecast(const struct bb_machine_facts *facts, const char *name, const struct bb_sweep *sweep,
                        json_t **root);

/* An all-zero struct is empty. */
struct bb_busbw_reference {
    const char *option;   /* --expect or --min-busbw, for messages */
    char *path;           /* value of the option: the source */
    double fraction;      /* thresholds are this fraction of the expected bus bandwidth; 0: no thresholds */
    int aggregate;        /* operations in a call of this run (-m) */
    int rank_aggregation; /* ranks whose time this run reports (-a) */
    bool host_clock;      /* this run has --clock host */
    bool is_forecast;     /* out: the source is not a result file */
    bool other_nodes;     /* out: a forecast for equal nodes, unlike those of the job: nothing is judged */
    bool partial;         /* cases without expected bus bandwidth are allowed */
    struct bb_result_file file;
    /* [n] one threshold per case: the expected bus bandwidth, times the fraction unless that is 0; their `from` are rows
     * of `file` */
    struct bb_busbw_threshold *item;
    int n;
    int missing; /* number of cases without a row in `file`, and the first of them */
    char first_missing[64];
};

/*
 * bb_busbw_reference_load - read the result file r->path, or make the forecast for the cluster profile r->path or "auto".
 *   groups    [w->size] group of each rank (--split)
 *   forecast  predicts the results of `sweep`; NULL: r->path is a result file
 *   Returns   0, or -BB_EUSAGE after printing one error line: the file cannot be read, has another number of ranks or nodes
 *             than one of the groups, or was measured with --split, with another -m or -a, with ranks that share a GPU, or by
 *             the host clock unlike this run
 *   Owner    the caller calls bb_busbw_reference_release, also after an error
 */
int bb_busbw_reference_load(struct bb_busbw_reference *r, const struct bb_world *w, const int *groups,
                            bb_forecast *forecast, const struct bb_machine_facts *facts,
                            const struct bb_sweep *sweep) BB_MUST_CHECK;

/* bb_busbw_reference_add - add the thresholds of all cases of a collective in a timing mode. Returns 0, or -BB_EUSAGE after
 * printing one error line if the file has no result for a case, unless r->partial. */
int bb_busbw_reference_add(struct bb_busbw_reference *r, const struct bb_sweep *sweep, int coll, const char *mode,
                           int ranks) BB_MUST_CHECK;

/* bb_busbw_reference_expected - return the expected bus bandwidth of the case `c` in GB/s; NaN: unknown. */
double bb_busbw_reference_expected(const struct bb_busbw_reference *r, const struct bb_case *c, const char *mode);

/* bb_busbw_reference_matches - return whether a row of a result file is the case `c`, with its placement, in `mode`. */
bool bb_busbw_reference_matches(const struct bb_timing *row, const struct bb_case *c, const char *mode);

void bb_busbw_reference_release(struct bb_busbw_reference *r);

#endif
