/*
 * forecast.h - the function that predicts the results of a sweep for `bench --expect`. The cost model is in proxies/, on
 * which collectives/ does not depend; busbar_rank.c passes the function.
 */
#ifndef BB_COLLECTIVES_SWEEP_FORECAST_H
#define BB_COLLECTIVES_SWEEP_FORECAST_H

#include "collectives/sweep/cases.h"
#include "cuda/device/nics.h"

#include <jansson.h>

/* What is known about the machine of a run. */
struct bb_machine_facts {
    const char *gpu; /* name of the GPU of rank 0, as CUDA reports it */
    bool emulated;
    struct bb_nics nics;       /* of the host of rank 0 */
    int ranks, ranks_per_node; /* of one --split group; ranks_per_node: the largest number on one host */
    int concurrent;            /* ranks of a host in all concurrent groups, which share its NICs; 0: one group */
    bool one_host;             /* all ranks of the job have the same host */
};

/*
 * bb_forecast - predict the results of a sweep.
 *   name     "auto": the cluster profile of this machine; otherwise name or path of a cluster profile
 *   root     out: new reference, a document busbar.plan/1 whose "predicted.cluster" describes the machine; NULL after printing a warning
 *            on how to make a profile: "auto" does not know the machine
 *   Returns  0, or a negative error code after printing an error
 */
typedef int bb_forecast(const struct bb_machine_facts *facts, const char *name, const struct bb_sweep *sweep,
                        json_t **root);

#endif
