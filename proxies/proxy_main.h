/* proxy_main.h - `busbar proxy NAME [options]`. */
#ifndef BB_PROXIES_PROXY_MAIN_H
#define BB_PROXIES_PROXY_MAIN_H

#include "bootstrap/cli/opts.h"
#include "proxies/author/proxy.h"

struct bb_proxy_run_options {
    struct bb_common common;
    struct bb_proxy_config step;
    int warmup, steps, traced_steps;
    const char *compute_sms; /* a number, or "free" */
    double compute_gbps;
    bool check, no_alone, graph, start_barrier, quick;
    const char *trace, *cluster;
    double peak_tflops;
};

extern const struct bb_opts bb_proxy_set;

/*
 * bb_compute_sms - return the number of SMs that timed kernels occupy.
 *   requested  a number, limited to sm_count, or "free": all SMs except those that NCCL may use
 *   sm_count   SMs of the GPU
 */
int bb_compute_sms(const char *requested, int sm_count);

/* bb_proxy_main - the command. argv[0] is the subcommand's name. Returns an exit status of 0 or above, or a negative
 * error. */
int bb_proxy_main(int argc, char **argv);

/* bb_proxy_check - check the arguments as far as the check needs no ranks, MPI or GPU. Returns 0, or -BB_EUSAGE
 * after an error line. */
int bb_proxy_check(int argc, char **argv);

/*
 * bb_proxy_parse - parse the command line.
 *   proxy    out: NULL for `proxy all`
 *   Returns  0, BB_OPTS_HELP, or -BB_EUSAGE after an error line
 * bb_proxy_run - the run itself, in the GPU library.
 */
int bb_proxy_parse(struct bb_proxy_run_options *o, const struct bb_proxy **proxy, int argc, char **argv) BB_MUST_CHECK;
int bb_proxy_run(int argc, char **argv);

#endif
