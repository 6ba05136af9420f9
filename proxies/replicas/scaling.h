/*
 * scaling.h - the scaling study that users of Horovod know: a network is trained data-parallel for some epochs on N
 * ranks, rank 0 prints its throughput after each, and throughputs of several N are compared.
 *
 *   images of a rank        ceil(images / N)
 *   steps of an epoch       ceil(images of a rank / batch of a rank), the last one short where that does not divide
 *   Global Img/sec          images of rank 0 / seconds of the epoch * N
 *   weak                    the batch of a rank stays; strong: the batch of all ranks stays, N divides it
 *
 * With X(N) the throughput and N0, X0 those of a baseline: speed-up X/X0, efficiency (X/N) / (X0/N0), which is E_w in
 * weak mode and N0 t(N0) / (N t(N)) = E_s in strong mode; ideal X0 N/N0; Karp and Flatt's serial fraction
 * (1/S - 1/N) / (1 - 1/N) for N0 = 1.
 *
 * The other form is that of Horovod's pytorch_synthetic_benchmark.py: 10 batches of warm-up, 10 iterations of 10
 * batches, mean and 1.96 standard deviations (of the population) of the images per second of one GPU.
 *
 * The step itself is that of data_parallel (replicas.c), with tensor fusion unless --sync says otherwise. Before
 * training rank 0's parameters, running statistics of batch norms and optimizer state are broadcast, tensor by tensor.
 */
#ifndef BB_PROXIES_REPLICAS_SCALING_H
#define BB_PROXIES_REPLICAS_SCALING_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

#include <jansson.h>

enum { BB_SCALING_ITERATIONS = 10, BB_SCALING_BATCHES = 10 }; /* of the synthetic form */

/* What the options mean on so many ranks. */
struct bb_scaling {
    bool strong, synthetic;
    int ranks;
    int batch;       /* of a rank and step; less than asked for where a rank has fewer images      */
    int full_steps;  /* of an epoch (synthetic: of an iteration)                                   */
    int last_batch;  /* of the short last step; 0: there is none                                   */
    int run_steps;   /* full steps of an epoch that are run; their time counts for full_steps      */
    int rounds;      /* epochs, or iterations                                                      */
    int images;      /* of the data set; 0: synthetic                                              */
    int rank_images; /* of one rank and round                                                      */
};

/* bb_scaling_settle - from the options, all defaults in place. A batch that does not divide, or options that mean
 * nothing together: said with the nearest, -BB_EUSAGE. */
int bb_scaling_resolve(const struct bb_proxy_config *config, struct bb_scaling *s) BB_MUST_CHECK;

/* ---- figures, pure ---- */

/* bb_scaling_rate - images per second of all ranks together. */
double bb_scaling_rate(const struct bb_scaling *s, double seconds);
double bb_scaling_efficiency(double rate, int ranks, double base_rate, int base_ranks);
double bb_karp_flatt(double speedup, int ranks); /* NaN for one rank */

/* What was measured. [rounds] arrays are owned. */
struct bb_scaling_measured {
    double *seconds;     /* [rounds]                                                         */
    double *last_us;     /* [rounds] the short last steps, already in seconds                */
    int rounds;          /* that were finished                                               */
    double broadcast_us; /* NaN: nothing was broadcast                                       */
    double broadcast_bytes;
    int broadcasts; /* calls */
};
void bb_scaling_measured_release(struct bb_scaling_measured *m);

/* bb_scaling_steady - images per second of all ranks: epochs from the second on (all, where there is one), whose first
 * contains what was not warm; synthetic: N times the mean of the iterations. NaN without a round. */
double bb_scaling_steady_rate(const struct bb_scaling *s, const struct bb_scaling_measured *m);

/* Mean and 1.96 standard deviations of the images per second of one GPU over the iterations. */
void bb_scaling_iteration_stats(const struct bb_scaling *s, const struct bb_scaling_measured *m, double *mean,
                           double *half_width);

/* ---- another run to hold it against ---- */

struct bb_scaling_baseline {
    const char *path; /* NULL: none                                                     */
    int ranks;
    double rate, step_us;
    bool emulated;
};

/* bb_scaling_baseline_load - no path: an empty one. A file that is no finished scaling run, or of another study (model,
 * mode, form, batch, images, type, compute, sync), is refused with what differs: -BB_EUSAGE. */
int bb_scaling_baseline_load(const struct bb_proxy_config *config, const struct bb_scaling *s,
                             struct bb_scaling_baseline *baseline) BB_MUST_CHECK;

/* ---- said ---- */

struct bb_scaling_report {
    const struct bb_proxy_config *config;
    const struct bb_scaling *scaling;
    const struct bb_scaling_measured *measured;
    const struct bb_scaling_baseline *baseline;
    double step_us;          /* median of the full step                                                  */
    double compute_alone_us; /* of it, NaN: not measured                                                  */
};

/* The line after each round: "Epoch 1/3 | Time: 12.34s | Global Img/sec: 5678.90", "Iter #0: 123.4 img/sec per GPU". */
void bb_scaling_print_round(const struct bb_scaling *s, int round, double seconds, FILE *out);
void bb_scaling_print_total(const struct bb_scaling *s, const struct bb_scaling_measured *m, FILE *out); /* synthetic */
void bb_scaling_print(const struct bb_scaling_report *r, FILE *out); /* what comes after all of them */
json_t *bb_scaling_json(const struct bb_scaling_report *r);          /* scaling{} of busbar.proxy/1  */

#endif
