/* expectation.c - see expectation.h. */
#include "proxies/offline/bench_plan/expectation.h"

#include "bootstrap/base/environment.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/bench_plan/bench_plan.h"
#include "proxies/simulation/machine/fabric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

static const char *profile_of_machine(const struct bb_machine_facts *facts)
{
    const char *emulated = getenv("EMU_CLUSTER");

    return facts->emulated && emulated && *emulated ? emulated : bb_cluster_of_gpu(facts->gpu);
}

/* A profile with larger nodes is that of an NVLink domain of several hosts (GB200 NVL72). */
enum { GPUS_OF_A_HOST = 16 };

static bool spans_hosts(const struct bb_cluster *c)
{
    return c->domain_gpus > 0 || c->gpus_per_node > GPUS_OF_A_HOST;
}

/* Returns the number of GPUs of a host in an NVLink domain. */
static int host_gpus(const struct bb_machine_facts *facts, const struct bb_cluster *c)
{
    return MAX(MAX(facts->job_ranks_per_node, facts->ranks_per_node), MAX(c->host_gpus, 1));
}

/* Returns the number of consecutive nodes of a job in an NVLink domain, which is a node of the profile. Of its GPUs, a job uses the
 * profile's gpus_per_node, or all if its ranks are a multiple of them. An emulated node is a domain. */
static int domain_nodes(const struct bb_machine_facts *facts, const struct bb_cluster *c)
{
    const int ranks = facts->job_ranks > 0 ? facts->job_ranks : facts->ranks;
    const bool is_full = c->domain_gpus > 0 && ranks % c->domain_gpus == 0;

    if (!spans_hosts(c) || facts->emulated || bb_environment_has_nodes())
        return 1;
    return MAX(1, (is_full ? c->domain_gpus : c->gpus_per_node) / host_gpus(facts, c));
}

/* Share of a port's rate that data reach, as in the shipped profiles (48.5 of 50 GB/s). */
#define PORT_EFFICIENCY 0.97

/* Sets number and rate of the NICs of a node, unless the rate is that of the profile within 10 %. More NICs than GPUs are for
 * storage, too. */
static void set_nics(const struct bb_machine_facts *facts, struct bb_cluster *c)
{
    const double gbps = PORT_EFFICIENCY * facts->nics.gbit_s / 8;

    if (facts->emulated || facts->nics.n == 0 || c->n_variants == 0)
        return;
    if (!spans_hosts(c))
        c->nics_per_node = facts->nics.n < c->gpus_per_node ? facts->nics.n : c->gpus_per_node;
    if (fabs(gbps / c->inter.gbps - 1) > 0.1)
        c->inter.gbps = gbps;
}

/* Sets the number of GPUs per node, and reduces the rate of NICs and uplinks that concurrent groups share. Emulated ranks of one host may
 * be on several nodes of the profile. nodes: of the job, in a node of the profile */
static void set_node_size(const struct bb_machine_facts *facts, int nodes, struct bb_cluster *c)
{
    struct bb_cluster of_all = *c;
    double demand, part, all_nics; /* part: of the rate of a NIC */

    if (facts->emulated && facts->one_host)
        return;
    if (nodes * facts->ranks_per_node != c->gpus_per_node)
        bb_cluster_set_gpus_per_node(c, nodes * facts->ranks_per_node);
    if (facts->concurrent <= facts->ranks_per_node)
        return;
    bb_cluster_set_gpus_per_node(&of_all, nodes * facts->concurrent);
    demand = (double)bb_cluster_nics(c) * facts->concurrent / facts->ranks_per_node;
    part = fmin(1, bb_cluster_nics(&of_all) / demand);
    c->inter.gbps *= part;
    all_nics = bb_cluster_nics(c) + c->fabric.unused_nics;
    c->fabric.unused_nics = fmax(0, all_nics * facts->ranks_per_node / (facts->concurrent * part) - bb_cluster_nics(c));
}

/* Reduces leaves and pods to the largest number of the group's nodes under one of them, with the same uplinks: a
 * forecast has consecutive nodes. size: number of nodes of the job in a node of the profile */
static void set_placement(const struct bb_machine_facts *facts, int size, struct bb_cluster *c)
{
    const int n = facts->nodes ? facts->ranks / facts->ranks_per_node : 0;

    for (int tier = 0; tier < BB_TIERS && n > 0; tier++) {
        const int all = c->fabric.nodes[tier] * size;
        int most = 0;

        for (int i = 0, on_switch = 0; i < n && all > 0; i++) {
            on_switch = i > 0 && facts->nodes[i] / all == facts->nodes[i - 1] / all ? on_switch : 0;
            on_switch += on_switch == 0 || facts->nodes[i] / size != facts->nodes[i - 1] / size;
            most = MAX(most, on_switch);
        }
        if (all == 0)
            continue;
        c->fabric.oversubscription[tier] *= (double)most / c->fabric.nodes[tier];
        c->fabric.nodes[tier] = most;
    }
}

int bb_expectation_machine(const struct bb_machine_facts *facts, const char *name, struct bb_cluster *cluster,
                           struct bb_machine_nodes *nodes, char text[BB_MACHINE_TEXT])
{
    const bool is_auto = strcmp(name, "auto") == 0;
    const char *profile = is_auto ? profile_of_machine(facts) : name;
    struct bb_machine_facts node = *facts; /* all GPUs that run at once */
    struct bb_cluster whole;
    int gpus, nics, rc = 0;

    cluster->gpus_per_node = 0;
    if (!profile) {
        bb_warn(
            "--expect auto: no shipped profile is for GPUs '%s'; to make one: busbar calibrate --measure --ranks %d "
            "-o mine.json, then --expect mine.json",
            facts->gpu, facts->ranks);
        return 0;
    }
    TRY(bb_cluster_load(profile, cluster));
    nodes->nics = spans_hosts(cluster) ? 0 : cluster->nics_per_node;
    if (is_auto)
        set_nics(facts, cluster);
    whole = *cluster;
    nodes->is_domain = spans_hosts(cluster);
    nodes->gpus = !nodes->is_domain                                 ? cluster->gpus_per_node
                  : host_gpus(facts, cluster) == cluster->host_gpus ? cluster->host_gpus
                                                                    : 0;
    nodes->of_domain = domain_nodes(facts, cluster);
    if (node.ranks_per_node < node.concurrent)
        node.ranks_per_node = node.concurrent;
    set_node_size(&node, nodes->of_domain, &whole);
    set_node_size(facts, facts->domain_nodes > 0 ? facts->domain_nodes : nodes->of_domain, cluster);
    set_placement(facts, nodes->of_domain, cluster);
    gpus = whole.gpus_per_node;
    nics = bb_cluster_nics(&whole);
    for (int tier = 0; tier < BB_TIERS; tier++)
        nodes->oversubscription[tier] = bb_fabric_job_oversubscription(&whole, (enum bb_tier)tier);
    snprintf(text, BB_MACHINE_TEXT, "%s%s: %d GPU%s and %d NIC%s of %.4g GB/s per %s%s", whole.name,
             is_auto ? " (recognised)" : "", gpus, bb_plural(gpus), nics, bb_plural(nics), whole.inter.gbps,
             nodes->is_domain ? "NVLink domain" : "node",
             whole.n_variants == 0 && nics > 1 ? ", of which a collective uses one" : "");
out:
    return rc;
}

/* Adds what a forecast states of the machine itself: the rates of a GEMM, of copies and of links, and its switches. */
static void add_machine(const struct bb_machine_facts *facts, const struct bb_cluster *c,
                        const struct bb_machine_nodes *nodes, json_t *predicted)
{
    const struct bb_kernel_list_item gemm = {.gemm = facts->gemm};
    const double copy_ns = c->kernel_us * 1e3 + (double)facts->copy_bytes / bb_cluster_memory_gbps(c);
    json_t *tiers = json_array();

    for (int tier = 0; tier < BB_TIERS; tier++)
        json_array_append_new(tiers, json_pack("{s:i, s:f}", "nodes", c->fabric.nodes[tier], "oversubscription",
                                               nodes->oversubscription[tier]));
    json_object_set_new(predicted, "tiers", tiers);
    if (facts->gemm.m > 0)
        json_object_set_new(predicted, "gemm_tflops",
                            json_real(bb_gemm_flops(&facts->gemm) / 1e3 / (double)bb_cluster_kernel_ns(c, &gemm)));
    json_object_set_new(predicted, "copy_gbps", json_real((double)facts->copy_bytes / copy_ns));
    if (c->pcie_gbps > 0)
        json_object_set_new(predicted, "pcie_gbps", json_real(c->pcie_gbps));
    json_object_set_new(predicted, "peer_gbps", json_real(bb_cluster_peer_gbps(c, false)));
    json_object_set_new(predicted, "peer_kernel_gbps", json_real(bb_cluster_peer_gbps(c, true)));
    json_object_set_new(predicted, "other_nodes", json_boolean(facts->unequal_nodes && !nodes->is_domain));
    json_object_set_new(predicted, "node_gpus", json_integer(nodes->gpus));
    json_object_set_new(predicted, "node_nics", json_integer(nodes->nics));
    json_object_set_new(predicted, "domain_nodes", json_integer(nodes->of_domain));
}

int bb_expectation_forecast(const struct bb_machine_facts *facts, const char *name, const struct bb_sweep *sweep,
                            json_t **root)
{
    const struct bb_conditions none = {0};
    struct bb_cluster cluster;
    const struct bb_bench_plan plan = {&cluster, sweep, &none, 1, facts->ranks, 0, NULL, json_array()};
    char text[BB_MACHINE_TEXT];
    json_t *rows = json_array();
    struct bb_machine_nodes nodes;
    int rc;

    *root = NULL;
    TRY(bb_expectation_machine(facts, name, &cluster, &nodes, text));
    if (cluster.gpus_per_node > 0) {
        TRY(bb_bench_plan_validate(&plan));
        TRY(bb_bench_plan_run(&plan, NULL, rows));
        *root = bb_bench_plan_json(&plan, json_object(), json_incref(rows));
        json_object_set_new(json_object_get(*root, "predicted"), "cluster", json_string(text));
        add_machine(facts, &cluster, &nodes, json_object_get(*root, "predicted"));
    }
out:
    json_decref(rows);
    json_decref(plan.accuracy);
    return rc;
}
