/* proxy_main.h - options and entry points of `busbar proxy NAME [options]`. */
#ifndef BB_PROXIES_PROXY_MAIN_H
#define BB_PROXIES_PROXY_MAIN_H

#include "bootstrap/cli/opts.h"
#include "proxies/form/author/proxy.h"
#include "proxies/simulation/machine/slow.h"

struct bb_proxy_run_options {
    struct bb_common common;
    struct bb_proxy_config step;
    int warmup, steps, traced_steps;
    const char *compute_sms; /* --compute-sms: a number of SMs, or "free" */
    double compute_gbps;
    bool check, no_alone, graph, start_barrier, quick;
    const char *trace, *cluster, *slow_list, *delay_list;
    struct bb_opt_texts changes; /* --set */
    double peak_tflops;
    struct bb_slow slow; /* not an option: the ranks of --slow and --delay */
    bool given_times;    /* not an option: --forward-us or --backward-us is given */
    bool given_rate;     /* not an option: one of these or --tflops is given */
};

extern const struct bb_opts bb_proxy_set;

/*
 * bb_compute_sms - return the number of SMs that timed kernels occupy.
 *   requested  value of --compute-sms: a number, limited to sm_count; or "free": all SMs except those that NCCL may use
 *              for each of `comms` communicators, which may run at the same time; for several, at least half
 *   sm_count   number of SMs of the GPU
 */
int bb_compute_sms(const char *requested, int sm_count, int comms);

/* bb_proxy_main - run `busbar proxy`; argv[0] is "proxy". Returns an exit status of 0 or above, or a negative error. */
int bb_proxy_main(int argc, char **argv);

/*
 * bb_proxy_check - validate the command line as far as possible without started ranks, MPI and a GPU. Returns 0, or
 * -BB_EUSAGE after printing an error line.
 */
int bb_proxy_check(int argc, char **argv);

/*
 * bb_proxy_parse - parse the command line.
 *   o        out: the options
 *   proxy    out: the proxy; NULL for `proxy all`
 *   Returns  0, BB_OPTS_HELP, or -BB_EUSAGE after printing an error line
 * bb_proxy_run - run the proxy; the implementation is in busbar-rank.
 */
int bb_proxy_parse(struct bb_proxy_run_options *o, const struct bb_proxy **proxy, int argc, char **argv) BB_MUST_CHECK;
int bb_proxy_run(int argc, char **argv);

#endif
