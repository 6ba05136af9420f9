/*
 * software.h - what a training framework reaches on a GPU, relative to the rates of the cluster profile, which are those
 * of Megatron-LM with Transformer Engine as in NVIDIA's recipes.
 */
#ifndef BB_PROXIES_SIMULATION_MACHINE_SOFTWARE_H
#define BB_PROXIES_SIMULATION_MACHINE_SOFTWARE_H

#include "proxies/simulation/machine/cluster.h"

enum bb_gpu_generation { BB_AMPERE, BB_HOPPER, BB_BLACKWELL, BB_GPU_GENERATIONS };
extern const char *const bb_gpu_generations[BB_GPU_GENERATIONS + 1];
/* bb_cluster_generation - returns the generation of a profile's GPUs: its key "generation", or by the peak rate of 16-bit
 * GEMMs. */
enum bb_gpu_generation bb_cluster_generation(const struct bb_cluster *c);
/* bb_cluster_is_ada - returns whether the generation is Ampere by the rate of GEMMs, but the GPUs have FP8 and no HBM. */
bool bb_cluster_is_ada(const struct bb_cluster *c);
/* bb_cluster_has_pcie - returns whether PCIe connects the GPUs of a node, by the rate of its links. */
bool bb_cluster_has_pcie(const struct bb_cluster *c);
/* bb_cluster_gpus_text - returns what published measurements are of: "Hopper", "Ada", "Hopper with PCIe". */
#define BB_GPUS_TEXT 32
const char *bb_cluster_gpus_text(const struct bb_cluster *c, char text[BB_GPUS_TEXT]);

struct bb_software {
    const char *name;
    bool overlaps; /* collectives of tensor parallelism and transfers of ring attention overlap GEMMs and attention */
    bool fuses_experts; /* on Blackwell, experts have fused kernels with CUDA graphs */
    bool fuses_dropout; /* attention with dropout is fused also on GPUs whose profile states that it is not */
    /* factors of the rates in section "achieved" of the profile */
    struct {
        double gemm, gemm_float8, attention, memory;
        double routed; /* of memory, in the kernels of experts and of their permutations */
    } of[BB_GPU_GENERATIONS];
};

extern const char *const bb_software_names[]; /* values of --software; the last element is NULL */
/*
 * bb_software_of - returns the software of a step.
 *   name        value of --software; NULL: torch with `sharded`, else megatron-plain without `overlaps`, else megatron
 *   sharded     the parameters are sharded (--dp-sync zero3 or hsdp), or frozen (--lora-rank): PyTorch with PEFT
 *               (bb_training_assumes_torch)
 *   overlaps    false: --no-overlap
 */
const struct bb_software *bb_software_of(const char *name, bool sharded, bool overlaps);
/* bb_software_is_torch - returns whether a value of --software is PyTorch's: torch, torch-compile, torch-te; NULL: false. */
bool bb_software_is_torch(const char *name);
/* bb_software_apply - multiplies the rates in section "achieved" by the factors of the software; without this section
 * the cluster is unchanged. */
void bb_software_apply(const struct bb_software *s, struct bb_cluster *c);

#endif
