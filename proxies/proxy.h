/*
 * proxy.h - a proxy is a builder: one file and one row of the table in registry.c.
 */
#ifndef BB_PROXIES_PROXY_H
#define BB_PROXIES_PROXY_H

#include "bootstrap/opts.h"
#include "proxies/layout.h"
#include "proxies/program.h"

enum bb_compute { BB_COMPUTE_NONE, BB_COMPUTE_TIMED };

/* What every proxy may be told; 0 or BB_NONE means "the proxy's own default". Filled from the option table in
 * options.c. */
struct bb_proxy_config {
    const char *proxy; /* its name                                                                  */
    int ranks;
    int layers, stages, micro_batches;
    bool per_tensor;     /* one all-reduce per tensor instead of per layer                            */
    const char *dtype;   /* "float", "half", "bfloat16"                                               */
    const char *compute; /* "none", "timed"                                                           */
    double forward_us;   /* timed: microseconds per layer and micro-batch, forward; < 0: from FLOPs   */
    double backward_us;  /* < 0: twice the forward                                                    */
    double tflops;       /* rate that turns FLOPs into microseconds                                   */
};

/* What a builder makes: the layout, one program per role, and which role each rank has. */
struct bb_role {
    const char *name; /* "first stage", "middle stage", ...; owned by the step                     */
    struct bb_program program;
};

struct bb_step {
    const char *proxy;
    struct bb_layout layout;
    struct bb_role *roles;
    int n_roles;
    int *role_of;      /* [layout.ranks]                                                            */
    double parameters; /* of the whole model, for the report                                        */
    double samples;    /* per step, over all ranks; 0 when unknown                                  */
    struct bb_strings {
        char **text;
        int n;
    } strings; /* texts that programs point to                                              */
};

struct bb_proxy {
    const char *name, *help;
    const char *positional; /* "[L S [M]]" for the help; how positional words map is the row's own        */
    int (*positional_words)(struct bb_proxy_config *, const struct bb_words *); /* NULL: takes none              */
    int (*defaults)(struct bb_proxy_config *); /* fills what the user left open                                  */
    int (*build)(const struct bb_proxy_config *, struct bb_step *); /* bad layouts: said, -BB_EUSAGE             */
    const void *model; /* data for builders that serve several rows                                  */
};

extern const struct bb_proxy bb_proxies[];
extern const int bb_n_proxies;

const struct bb_proxy *bb_proxy_find(const char *name); /* NULL after an error line with the nearest name        */

/* bb_step_build - defaults, checks and the builder's work. release is fine on a half-built one. */
int bb_step_build(struct bb_step *step, const struct bb_proxy *proxy, struct bb_proxy_config *config) BB_MUST_CHECK;
void bb_step_release(struct bb_step *step);

static inline const struct bb_program *bb_step_program(const struct bb_step *step, int rank)
{
    return &step->roles[step->role_of[rank]].program;
}

#endif
