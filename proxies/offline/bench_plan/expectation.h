/*
 * expectation.h - `bench --expect`: recognises the machine of a run and predicts its results as `busbar plan COLLECTIVE`
 * does.
 */
#ifndef BB_PROXIES_OFFLINE_BENCH_PLAN_EXPECTATION_H
#define BB_PROXIES_OFFLINE_BENCH_PLAN_EXPECTATION_H

#include "collectives/sweep/busbw_reference.h"
#include "proxies/simulation/machine/cluster.h"

/*
 * bb_expectation_machine - load the cluster profile of a machine. Number and rate of the NICs are those of the machine.
 *   name     "auto", or name or path of a profile. Emulated GPUs have the profile $EMU_CLUSTER
 *   cluster  out: its gpus_per_node is 0 after printing a warning: "auto" does not know the machine
 *   nodes    out
 *   text     out: description of the machine
 *   Returns  0, or -BB_EUSAGE after printing an error
 */
enum { BB_MACHINE_TEXT = 512 };
struct bb_machine_nodes {
    bool is_domain;                    /* a node of the profile is an NVLink domain of several hosts */
    int gpus, nics;                    /* of a node of the profile; of a domain: gpus of a host with at least as many as
                                          the job's nodes have, no nics; 0: unknown */
    int of_domain;                     /* number of consecutive nodes of the job in a domain; 1: other machines */
    double oversubscription[BB_TIERS]; /* as bb_fabric_job_oversubscription, of all GPUs that run at once */
};
int bb_expectation_machine(const struct bb_machine_facts *facts, const char *name, struct bb_cluster *cluster,
                           struct bb_machine_nodes *nodes, char text[BB_MACHINE_TEXT]) BB_MUST_CHECK;

/* bb_expectation_forecast - a bb_forecast. */
int bb_expectation_forecast(const struct bb_machine_facts *facts, const char *name, const struct bb_sweep *sweep,
                            json_t **root) BB_MUST_CHECK;

#endif
