/*
 * scaling.h - scaling study in the manner of Horovod: a network is trained data-parallel for some epochs on N ranks,
 * rank 0 prints the throughput after each epoch, and a later run compares the throughputs of several N.
 *
 *   images per rank         ceil(images / N)
 *   steps per epoch         ceil(images per rank / batch per rank); the last step is short if the division has a
 *   remainder Global Img/sec          images per rank / seconds of the epoch * N
 *   weak scaling            fixed batch per rank
 *   strong scaling          fixed global batch; N must divide it
 *
 * With throughput X on N ranks, and X0 on N0 ranks in the baseline: speed-up S = X/X0; efficiency (X/N) / (X0/N0),
 * which is E_w for weak scaling and N0 t(N0) / (N t(N)) = E_s for strong scaling; ideal throughput X0 N/N0. For N0 = 1
 * the serial fraction of Karp and Flatt is (1/S - 1/N) / (1 - 1/N).
 *
 * The synthetic form is Horovod's pytorch_synthetic_benchmark.py: 10 warm-up batches, then 10 iterations of 10 batches.
 * It prints the mean of the images per second of one GPU and 1.96 population standard deviations.
 *
 * The step is that of data_parallel (replicas.c), with tensor fusion unless --sync selects another kind. Before
 * training, rank 0 broadcasts its parameters, the running statistics of its batch norms and its optimizer state, tensor
 * by tensor.
 */
#ifndef BB_PROXIES_REPLICAS_SCALING_H
#define BB_PROXIES_REPLICAS_SCALING_H

#include "proxies/step/config.h"
#include "proxies/step/step.h"

#include <jansson.h>

enum {
    BB_SCALING_ITERATIONS = 10,
    BB_SCALING_BATCHES = 10
}; /* synthetic form: iterations, and batches per
                                                                 iteration */

/* The study on a given number of ranks, resolved from the options. */
struct bb_scaling {
    bool strong, synthetic;
    int ranks;
    int batch;       /* samples per rank and step; at most rank_images */
    int full_steps;  /* full steps per epoch (synthetic: per iteration) */
    int last_batch;  /* samples per rank of the short last step; 0: there is none */
    int run_steps;   /* full steps per epoch that are run; their time is scaled up to full_steps */
    int rounds;      /* number of epochs or iterations */
    int images;      /* images of the data set; 0 for synthetic */
    int rank_images; /* images per rank and round */
};

/*
 * bb_scaling_resolve - compute the study from the options. Call it after the defaults are set.
 *   s        out
 *   Returns  0, or -BB_EUSAGE, after an error line with the nearest valid values, for an indivisible batch or
 *            contradictory options
 */
int bb_scaling_resolve(const struct bb_proxy_config *config, struct bb_scaling *s) BB_MUST_CHECK;

/* ---- metrics, pure functions ---- */

/* bb_scaling_rate - images per second of all ranks, for a round that takes `seconds`. */
double bb_scaling_rate(const struct bb_scaling *s, double seconds);
double bb_scaling_efficiency(double rate, int ranks, double base_rate, int base_ranks);
double bb_karp_flatt(double speedup, int ranks); /* NaN for one rank */

/* Measurements of a run. The arrays are owned; bb_scaling_measured_release frees them. */
struct bb_scaling_measured {
    double *seconds;     /* [rounds] duration of each round */
    double *last_us;     /* [rounds] duration of the short last step; included in seconds */
    int rounds;          /* completed rounds */
    double broadcast_us; /* duration of the first broadcast; NaN: there was none */
    double broadcast_bytes;
    int broadcasts; /* broadcast calls */
};
void bb_scaling_measured_release(struct bb_scaling_measured *m);

/* bb_scaling_steady_rate - steady images per second of all ranks: mean of the epochs without the first, which
 * includes warm-up (with one epoch: that epoch); synthetic: N times the mean of the iterations. NaN without a
 * completed round. */
double bb_scaling_steady_rate(const struct bb_scaling *s, const struct bb_scaling_measured *m);

/* bb_scaling_iteration_stats - mean of the images per second of one GPU over the iterations, and 1.96 standard
 * deviations. */
void bb_scaling_iteration_stats(const struct bb_scaling *s, const struct bb_scaling_measured *m, double *mean,
                                double *half_width);

/* ---- baseline: an earlier run for comparison ---- */

struct bb_scaling_baseline {
    const char *path; /* NULL: no baseline */
    int ranks;
    double rate, step_us;
    bool emulated;
};

/*
 * bb_scaling_baseline_load - read the results of an earlier run (config->scaling.baseline).
 *   baseline  out; empty without a path
 *   Returns   0, -BB_EFAIL, or -BB_EUSAGE, after an error line that names the difference, if the file holds no
 *             completed scaling run, or a run of another study (model, mode, format, batch, images, data type, compute,
 *             sync)
 */
int bb_scaling_baseline_load(const struct bb_proxy_config *config, const struct bb_scaling *s,
                             struct bb_scaling_baseline *baseline) BB_MUST_CHECK;

/* ---- report ---- */

struct bb_scaling_report {
    const struct bb_proxy_config *config;
    const struct bb_scaling *scaling;
    const struct bb_scaling_measured *measured;
    const struct bb_scaling_baseline *baseline;
    double step_us;          /* median duration of the full step */
    double compute_alone_us; /* duration of its compute without communication; NaN: not measured */
};

/* Line after each round: "Epoch 1/3 | Time: 12.34s | Global Img/sec: 5678.90" or "Iter #0: 123.4 img/sec per GPU". */
void bb_scaling_print_round(const struct bb_scaling *s, int round, double seconds, FILE *out);
/* synthetic form only */
void bb_scaling_print_total(const struct bb_scaling *s, const struct bb_scaling_measured *m, FILE *out);
void bb_scaling_print(const struct bb_scaling_report *r, FILE *out); /* report after the last round */
json_t *bb_scaling_json(const struct bb_scaling_report *r); /* object scaling{} of busbar.proxy/1; the caller owns
                                                               the reference */

#endif
