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

/* bb_compute_sms - the multiprocessors that timed kernels hold on a GPU of sm_count: what was asked for, at most all;
 * "free": all but those that NCCL may take. */
int bb_compute_sms(const char *asked, int sm_count);

/* bb_proxy_main - argv[0] is the subcommand's own name. Returns 0 or above, or a negative error. */
int bb_proxy_main(int argc, char **argv);

/* bb_proxy_check - whether bb_proxy_main would take these words, as far as that does not depend on the ranks; needs
 * neither MPI nor a GPU. Returns 0 or -BB_EUSAGE (said). */
int bb_proxy_check(int argc, char **argv);

/* bb_proxy_parse - the words as options; *proxy is NULL for `all`. Returns 0, BB_OPTS_HELP or -BB_EUSAGE (said).
 * bb_proxy_run - the run itself, in the GPU library. */
int bb_proxy_parse(struct bb_proxy_run_options *o, const struct bb_proxy **proxy, int argc, char **argv) BB_MUST_CHECK;
int bb_proxy_run(int argc, char **argv);

#endif
