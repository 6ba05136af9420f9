/*
 * run_report.h - what a run of a proxy prints and writes. Only formats: all figures come from step_measure.h.
 */
#ifndef BB_PROXIES_RUN_RUN_REPORT_H
#define BB_PROXIES_RUN_RUN_REPORT_H

#include "bootstrap/results/results.h"
#include "cuda/device/device.h"
#include "proxies/run/step_measure.h"
#include "proxies/step/step.h"

/* Everything that a report speaks of. Pointers are borrowed. */
struct bb_run_report {
    const struct bb_step *step;
    const struct bb_world *world;
    const struct bb_device_info *devices; /* [world.size]                                               */
    bool shared_gpu;
    int nccl_runtime, cuda_runtime;
    int argc; /* the command                                                */
    char **argv;
    const struct bb_measure_plan *plan;
    const struct bb_measured *measured;
    double peak_tflops;       /* of one GPU, 0: unknown                                     */
    bool checked;             /* the data were checked:                                     */
    unsigned long long wrong; /* elements that differ, over all ranks                       */
};

/* bb_run_report_text - the report for people. */
void bb_run_report_text(const struct bb_run_report *r, FILE *out);

/* One line of `busbar proxy all` for each proxy, under the head of the table. measured is of that proxy; a proxy
 * without a form for these ranks (step NULL) says so. */
void bb_run_report_head(const struct bb_run_report *r, FILE *out);
void bb_run_report_line(const struct bb_run_report *r, const char *proxy, FILE *out);
json_t *bb_run_report_row(const struct bb_run_report *r, const char *proxy);

/* bb_run_report_json - the fields of busbar.proxy/1 that a run adds to those of the plan. groups: the plan's array of
 * groups, taken over, whose objects get the figures of the slowest rank. */
int bb_run_report_json(const struct bb_run_report *r, struct bb_results *res, json_t *groups) BB_MUST_CHECK;

/* ---- derived figures, pure: both reports use them ---- */

/* The role's rank with the longest traced step; BB_NONE without traced steps. role BB_NONE: of all ranks. */
int bb_run_report_slowest(const struct bb_run_report *r, int role);

/* (communication beside which a kernel ran) / (communication); NaN without communication. */
double bb_hidden_fraction(const struct bb_rank_breakdown *f);

/* Model FLOPs of one step over all ranks, 0 without compute; and the part of the GPUs' peak that they make of a step of
 * that length, NaN without a peak or FLOPs. */
double bb_run_report_flops(const struct bb_run_report *r);
double bb_run_report_utilisation(const struct bb_run_report *r, double step_us);

/* What communication costs, on one rank: total = exposed + slowdown + waiting (overlap.h), microseconds. NaN: unknown.
 */
struct bb_cost {
    double total_us, exposed_us, slowdown_us, waiting_us;
    double compute_slowdown; /* time of the kernels, both over alone                                     */
    double comm_slowdown;    /* time of the transfers, both over alone                                   */
};
struct bb_cost bb_run_report_cost(const struct bb_run_report *r, int rank);

/* GB/s of bus bandwidth of a group on a rank; NaN for a group of one rank or without communication. */
double bb_run_report_busbw(const struct bb_run_report *r, int rank, int group, const struct bb_group_work *work);

#endif
