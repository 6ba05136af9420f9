/*
 * scaling.h - a scaling study like those of Horovod: N ranks train a network data-parallel for some epochs, and rank 0
 * prints the throughput after each epoch. A later run on another number of ranks compares its throughput with that of
 * an earlier run, the baseline.
 *
 *   images per rank   ceil(images / N)
 *   steps per epoch   ceil(images per rank / batch per rank); the last step has fewer samples if there is a remainder
 *   Global Img/sec    images per rank / seconds of the epoch * N
 *   weak scaling      fixed batch per rank
 *   strong scaling    fixed global batch, which must be divisible by N
 *
 * With throughput X on N ranks, and X0 on N0 ranks in the baseline, the report contains the speed-up S = X/X0, the
 * ideal throughput X0 N/N0, and the efficiency (X/N) / (X0/N0). The efficiency is named E_w for weak and E_s for strong
 * scaling. With the time t of an epoch, E_s equals N0 t(N0) / (N t(N)). For strong scaling with N0 = 1 the report also
 * contains the serial fraction of Karp and Flatt, (1/S - 1/N) / (1 - 1/N).
 *
 * The synthetic format is Horovod's pytorch_synthetic_benchmark.py: 10 warm-up batches, then 10 iterations of 10
 * batches. The output is the mean of the images per second of one GPU and 1.96 population standard deviations. A
 * *round* is an epoch or, with the synthetic format, an iteration.
 *
 * The step is that of data_parallel (replicas.c), with tensor fusion unless --sync selects another synchronization.
 * Before the training, rank 0 broadcasts its parameters, the running statistics of its batch norms and its optimizer
 * state, tensor by tensor.
 */
#ifndef BB_PROXIES_WORKLOADS_REPLICAS_SCALING_H
#define BB_PROXIES_WORKLOADS_REPLICAS_SCALING_H

#include "proxies/form/step/config.h"
#include "proxies/form/step/step.h"

#include <jansson.h>

/* Format of Horovod's synthetic benchmark: number of iterations, and number of batches (training steps) per
 * iteration. */
enum { BB_SCALING_ITERATIONS = 10, BB_SCALING_BATCHES = 10 };

/* Size of a scaling study on one number of ranks, computed from the options. A round is an epoch (format `epochs`)
 * or an iteration of 10 training steps (format `synthetic`). */
struct bb_scaling {
    bool strong, synthetic;
    bool sequences; /* the samples are token sequences, not images */
    int ranks;
    int given_batch; /* value of --batch or its default: samples per training step of each rank (weak scaling) or of all
                        ranks (strong scaling) */
    int batch;       /* samples per rank and training step; at most rank_images */
    int full_steps;  /* number of training steps with the full batch in each epoch or iteration */
    int last_batch;  /* number of samples per rank in the last step of an epoch if it has fewer than the full batch;
                        0: all steps have the full batch */
    int run_steps;   /* number of full-batch steps in each epoch or iteration that are really run; the time of all
                        full_steps is extrapolated from them */
    int rounds;      /* number of epochs, or of iterations of the synthetic format */
    int images;      /* images of the data set; 0 for the synthetic format */
    int rank_images; /* number of images that each rank processes in one epoch or iteration */
};

/*
 * bb_scaling_resolve - computes the size of the scaling study from the options, whose defaults must be set before.
 *   s        out: the size of the study
 *   Returns  0, or -BB_EUSAGE after printing an error message: a global batch that is not divisible by the number of
 *            ranks (with the nearest valid values), or contradictory options
 */
int bb_scaling_resolve(const struct bb_proxy_config *config, struct bb_scaling *s) BB_MUST_CHECK;

/* ---- throughput, efficiency and serial fraction; these functions have no side effects ---- */

/* bb_scaling_rate - returns the images per second of all ranks together if one epoch or iteration takes `seconds`. */
double bb_scaling_rate(const struct bb_scaling *s, double seconds);
double bb_scaling_efficiency(double rate, int ranks, double base_rate, int base_ranks);
double bb_karp_flatt(double speedup, int ranks); /* returns the serial fraction after Karp and Flatt; NaN for one
                                                    rank */

/* Measurements of a run. The struct owns its arrays; bb_scaling_measured_release frees them. */
struct bb_scaling_measured {
    double *seconds;     /* [rounds] duration of each epoch or iteration in seconds */
    double *last_us;     /* [rounds] duration in microseconds of the last step of each epoch, which has fewer samples;
                            included in `seconds` */
    int rounds;          /* number of completed epochs or iterations */
    double broadcast_us; /* duration in us of the broadcast of rank 0's training state before the first step; NaN:
                            not run */
    double broadcast_bytes;
    int broadcasts; /* number of broadcast calls, one per tensor */
};
void bb_scaling_measured_release(struct bb_scaling_measured *m);

/* bb_scaling_steady_rate - returns the images per second of all ranks together, without warm-up. Epochs: computed
 * from the mean duration of all epochs except the first, which includes warm-up; with a single epoch, from its
 * duration. Synthetic format: the mean rate of the iterations of one rank, times the number of ranks. NaN if no
 * epoch or iteration was completed. */
double bb_scaling_steady_rate(const struct bb_scaling *s, const struct bb_scaling_measured *m);

/* bb_scaling_iteration_stats - computes the statistics of the images per second of one GPU over the iterations of
 * the synthetic format: their mean (*mean) and 1.96 times their population standard deviation (*half_width). */
void bb_scaling_iteration_stats(const struct bb_scaling *s, const struct bb_scaling_measured *m, double *mean,
                                double *half_width);

/* ---- baseline: an earlier run with which this run is compared ---- */

struct bb_scaling_baseline {
    const char *path; /* path of the results file; NULL: the user specified no baseline */
    int ranks;
    double rate, step_us;
    bool emulated;
};

/*
 * bb_scaling_baseline_load - reads the results of an earlier run from the file config->scaling.baseline.
 *   baseline  out: the results; zeroed if the option is not set
 *   Returns   0, or -BB_EUSAGE after printing an error message: the file contains no completed scaling run, or a run of
 *             a different study (model, mode, format, batch, images, data type, compute, sync)
 */
int bb_scaling_baseline_load(const struct bb_proxy_config *config, const struct bb_scaling *s,
                             struct bb_scaling_baseline *baseline) BB_MUST_CHECK;

/* ---- report ---- */

/* A scaling study on one number of ranks: its options, size, measurements and baseline. */
struct bb_scaling_study {
    const struct bb_proxy_config *config; /* owned by the caller */
    struct bb_scaling scaling;
    struct bb_scaling_baseline baseline; /* set only on rank 0, which reads the file */
    struct bb_scaling_measured measured; /* released by the caller, also after an error */
    double step_us;                      /* median duration in microseconds of the training step with the full batch */
    double compute_alone_us; /* median duration in microseconds of the full-batch step with its communication
                                            left out; NaN: not measured */
};

/* bb_scaling_print_round - prints the line of one epoch, "Epoch 1/3 | Time: 12.34s | Global Img/sec: 5678.90", or of
 * one iteration of the synthetic format, "Iter #0: 123.4 img/sec per GPU". round: index of the epoch or iteration. */
void bb_scaling_print_round(const struct bb_scaling *s, int round, double seconds, FILE *out);
/* bb_scaling_print_total - prints the summary of Horovod's synthetic benchmark, which is the mean over its
 * iterations. */
void bb_scaling_print_total(const struct bb_scaling *s, const struct bb_scaling_measured *m, FILE *out);
/* bb_scaling_print - prints the report of the study after its last epoch or iteration. full: also how the times were
 * measured, which is always printed if they are extrapolated, and the first broadcast */
void bb_scaling_print(const struct bb_scaling_study *study, bool full, FILE *out);
json_t *bb_scaling_json(const struct bb_scaling_study *study); /* returns the object `scaling` of the JSON results file;
                                                                  the caller releases it */

#endif
