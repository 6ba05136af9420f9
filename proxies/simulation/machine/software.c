/* software.c - rates and overlap of training frameworks (see software.h). */
#include "proxies/simulation/machine/software.h"

#include <stdio.h>
#include <string.h>

const char *const bb_gpu_generations[BB_GPU_GENERATIONS + 1] = {"Ampere", "Hopper", "Blackwell", NULL};
/* 16-bit peaks: A100 312 TFLOP/s, H100 and H200 989, B200 2,250 */
#define HOPPER_TFLOPS    500
#define BLACKWELL_TFLOPS 1500

enum bb_gpu_generation bb_cluster_generation(const struct bb_cluster *c)
{
    if (c->generation > 0)
        return (enum bb_gpu_generation)(c->generation - 1);
    return c->tflops_bfloat16 > BLACKWELL_TFLOPS ? BB_BLACKWELL
           : c->tflops_bfloat16 > HOPPER_TFLOPS  ? BB_HOPPER
                                                 : BB_AMPERE;
}

#define HBM_GBPS 1200 /* Ada has GDDR6 (RTX 4090: 1,008), A100 has HBM (1,555 or more) */

bool bb_cluster_is_ada(const struct bb_cluster *c)
{
    return bb_cluster_generation(c) == BB_AMPERE && c->tflops_float8 > 0 && c->memory_gbps < HBM_GBPS;
}

#define PCIE_GBPS 64 /* more than PCIe 5 x16, less than the NVLink of any of these generations */

bool bb_cluster_has_pcie(const struct bb_cluster *c)
{
    return c->intra.gbps < PCIE_GBPS;
}

const char *bb_cluster_gpus_text(const struct bb_cluster *c, char text[BB_GPUS_TEXT])
{
    snprintf(text, BB_GPUS_TEXT, "%s%s", bb_cluster_is_ada(c) ? "Ada" : bb_gpu_generations[bb_cluster_generation(c)],
             bb_cluster_has_pcie(c) ? " with PCIe" : "");
    return text;
}

/* Chosen by the fitting half of the published steps (tests/cli/accuracy.py), see profiles/clusters/README.md; except
 * that FlashAttention-2 has the rates of the FlashAttention-3 paper on H100 (figures 5 and 6, heads of 128 dimensions,
 * 16,384 tokens): 370 TFLOP/s forward and 322 backward, 0.65 and 0.68 of the profile's; and except torch-te, PyTorch
 * with the kernels of Transformer Engine, whose rates are therefore those of megatron. FlashAttention-2 and, since
 * version 2.0, PyTorch's scaled_dot_product_attention have fused kernels with dropout. torch-compile fuses memory-
 * bound kernels, which reach the rate of the profile (Ampere: that of megatron): two published pairs of steps differ
 * only in torch.compile (pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, Llama 3.1 8B on H100 with
 * 2.4 TB/s, tokens/s per GPU without and with it: 5,762 and 6,667 on 8, 5,605 and 6,514 on 128), a gain of 16 %; with
 * this rate it is 13 %. Kernels of experts, except of Megatron-LM on Blackwell: permutation on B200 reaches 0.505 of 8
 * TB/s (permute_fwd and permute_bwd in MooreThreads/SimuMax, configs/system/b200_bf16_ceperm.json), 0.59 of the 0.85
 * in the profile; Hopper: as B200, a guess; not with torch-te, because NeMo Automodel's experts are PyTorch's grouped
 * GEMMs with compiled activations. */
static const struct bb_software rows[] = {
    {"megatron", true, true, false, {{1, 1, 1, 0.8, 1}, {1, 1, 1, 1, 0.59}, {1, 1, 1, 1, 0.3}}},
    {"megatron-flash2", true, true, true, {{1, 1, 1, 0.8, 1}, {1, 1, 0.66, 1, 0.59}, {1, 1, 0.66, 1, 0.3}}},
    {"megatron-plain", false, false, false, {{1, 1, 1, 0.8, 1}, {1, 1, 1, 1, 0.59}, {0.88, 0.92, 0.95, 0.3, 1.98}}},
    {"torch", false, false, true, {{1, 1, 0.65, 0.55, 1}, {0.95, 1, 0.45, 0.45, 1}, {0.95, 1, 0.45, 0.45, 1}}},
    {"torch-compile", false, false, true, {{1, 1, 0.65, 0.8, 1}, {0.95, 1, 0.45, 1, 1}, {0.95, 1, 0.45, 1, 1}}},
    {"torch-te", false, true, true, {{1, 1, 1, 0.8, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 0.3}}},
    {"jax", true, false, false, {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}},
};
const char *const bb_software_names[] = {
    "megatron", "megatron-flash2", "megatron-plain", "torch", "torch-compile", "torch-te", "jax", NULL};

const struct bb_software *bb_software_of(const char *name, bool sharded, bool overlaps)
{
    int i = 0;

    name = name ? name : sharded ? "torch" : overlaps ? "megatron" : "megatron-plain";
    while (strcmp(rows[i].name, name) != 0)
        i++;
    return &rows[i];
}

bool bb_software_is_torch(const char *name)
{
    return name && strncmp(name, "torch", strlen("torch")) == 0;
}

void bb_software_apply(const struct bb_software *s, struct bb_cluster *c)
{
    const enum bb_gpu_generation g = bb_cluster_generation(c);

    c->achieved.gemm *= s->of[g].gemm;
    c->achieved.gemm_float8 *= s->of[g].gemm_float8;
    c->achieved.attention_forward *= s->of[g].attention;
    c->achieved.attention_backward *= s->of[g].attention;
    c->nccl_memory = c->achieved.memory;
    c->achieved.memory *= s->of[g].memory;
    c->achieved.fuses_dropout |= s->fuses_dropout;
    c->routed_memory = s->of[g].routed;
    c->graphs_fuse_experts = s->fuses_experts && g == BB_BLACKWELL;
}
