/*
 * profile.c - the emulated machine: the profile $EMU_CLUSTER (a name or a path), read as `busbar plan` reads it
 * (proxies/simulation/machine), the number of nodes ($EMU_NODES), and slow parts ($EMU_SLOW).
 */
#include "internal.h"
#include <math.h>
#include <stdlib.h>

int64_t emu_ns_of_us(double us)
{
    return llround(us * 1000.0);
}

static struct emu_profile reached_by_kernels(const struct bb_cluster *c)
{
    return (struct emu_profile){.sm_count = c->sm_count,
                                .kernel_us = c->kernel_us,
                                .memory_gbps = c->memory_gbps * (c->has_achieved ? c->achieved.memory : 1),
                                .tflops_float32 = c->tflops_float32,
                                .tflops_float16 = c->tflops_float16,
                                .tflops_bfloat16 = c->tflops_bfloat16,
                                .tflops_float64 = c->tflops_float64};
}

/* Ends the program after an error in EMU_CLUSTER or EMU_SLOW, which bb_err() has printed on rank 0. */
static _Noreturn void end_after_error(void)
{
    if (bb_err_is_mute())
        emu_die("%s", bb_err_record()->text);
    _Exit(BB_EUSAGE);
}

void emu_profile_load(struct bb_cluster *machine, struct emu_profile *profile)
{
    const char *word = getenv("EMU_CLUSTER");

    bb_err_mute(emu_world_rank() > 0);
    bb_err_context("EMU_CLUSTER: ");
    if (bb_cluster_load(word && *word ? word : "emulated-default", machine) != 0)
        end_after_error();
    *profile = reached_by_kernels(machine);
}

/* ---- locations and slow parts ---- */

int emu_gpu_number(struct emu_location location, int all)
{
    const int nodes = emu_nodes();

    if (nodes == 0)
        return location.node * emu.machine.gpus_per_node + location.gpu;
    return (int)(((int64_t)location.node * all + nodes - 1) / nodes) + location.gpu;
}

struct emu_location emu_location_of(int at, int all)
{
    struct emu_location location = {emu_nodes() > 0 ? emu_node_of(at, all) : at / emu.machine.gpus_per_node, 0};

    location.gpu = at - emu_gpu_number(location, all);
    return location;
}

int emu_profile_node(int at, int all)
{
    static int per_node;
    const char *word = getenv("EMU_CLUSTER");
    struct bb_cluster machine;

    if (per_node == 0) {
        const int muted = bb_err_is_mute();

        bb_err_mute(1); /* emu_profile_load() prints the error */
        per_node =
            bb_cluster_load(word && *word ? word : "emulated-default", &machine) == 0 ? machine.gpus_per_node : all;
        bb_err_mute(muted);
    }
    return all > per_node ? at / per_node : -1;
}

/* Without a launcher a process may drive many devices; each device then counts as a rank. */
void emu_slow_load(struct bb_slow *slow, struct bb_cluster *machine)
{
    const char *text = getenv("EMU_SLOW");
    const int size = emu_world_size(), ranks = size > 1 ? size : EMU_MAX_DEVICES, per_node = machine->gpus_per_node;
    const int nodes = emu_env_number("EMU_NODES", EMU_MAX_RANKS);

    *slow = (struct bb_slow){0};
    if (!text || !*text)
        return;
    bb_err_context("");
    if (bb_slow_parse(slow, "EMU_SLOW", text) != 0 ||
        bb_slow_validate(slow, "EMU_SLOW", machine, ranks, nodes > 0 ? nodes : (ranks + per_node - 1) / per_node) != 0)
        end_after_error();
    bb_slow_degrade_fabric(slow, machine);
}

const struct bb_slow *emu_slow(void)
{
    return &emu.slow;
}

double emu_nic_factor(struct emu_location location)
{
    return bb_slow_nic_factor(&emu.slow, &emu.machine, location.node, location.gpu);
}

double emu_leaf_factor(int machine_rank)
{
    return bb_slow_leaf_factor(&emu.slow, &emu.machine, machine_rank);
}

int64_t emu_slowed_ns(int device, int64_t ns)
{
    const int size = emu_world_size(), rank = size > 1 ? emu_world_rank() : device;
    const struct emu_location location = emu_location_of(rank, size > 1 ? size : EMU_MAX_DEVICES);

    return llround((double)ns * bb_slow_compute_factor(&emu.slow, rank, location.node));
}
