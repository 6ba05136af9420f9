/* foreign_options.c - names of options of nccl-tests, proxy and plan, with what to type instead under `busbar bench`. */
#include "collectives/ops/foreign_options.h"

#define SIZES "b e minbytes maxbytes size bytes message-size msg-size"

const struct bb_foreign_name bb_bench_foreign_options[] = {
    {"ngpus ranks nproc-per-node", "--gpus", "--gpus 8", NULL},
    {"nnodes nodes num-nodes standalone", NULL,
     "--gpus N starts the ranks of one node, mpirun or srun those of several", NULL},
    {"t nthreads", NULL, "each rank is a process; -g N alone sets the number of ranks", NULL},
    {"p parallel_init", NULL, "ranks are processes, which always initialize in parallel", NULL},
    {"J output_file output out outfile", "--json", "--json results.json", NULL},
    {"csvfile", "--csv", "--csv results.csv", NULL},
    {"D device_implementation", "--device", "--device lsa", NULL},
    {"warmup warmup=N warmups num-warmup warmup-iterations warm-up", "--warmup_iters", "--warmup_iters 5", NULL},
    {"warmup warmups num-warmup warmup-iterations warm-up", "--warmup_lives", "--warmup_lives 1", NULL},
    {"iterations iter num-iters niters loops nccl-iters", "--iters", "--iters 20", NULL},
    {"samples iterations iters num-iters", "--repeats", "--repeats 6", NULL},
    {"minbytes", "--minbytes", "--minbytes 8", NULL},
    {"maxbytes", "--maxbytes", "--maxbytes 1G", NULL},
    {SIZES, "--sizes", "--sizes 8,1M", NULL},
    {"sizes " SIZES, "--size", "--size 1M", NULL},
    {"sizes " SIZES, "--bandwidth-sizes", "--bandwidth-sizes 32M", NULL},
    {"factor", "--stepfactor", "--stepfactor 2", NULL},
    {"dtype type", "--datatype", "--datatype half",
     "fp16=half float16=half bf16=bfloat16 fp32=float float32=float fp64=double fp8=f8e4m3"},
    {"verify check-iters validate", "--check", "--check 1", NULL},
    {"no-check no-verify", "--check 0", "--check 0", NULL},
    {"graph cuda-graphs", "--cudagraph", "--cudagraph 1", NULL},
    {"avg", "--average", "--average 1", NULL},
    {"in-place inplace", "--placement in_place", "--placement in_place", NULL},
    {"out-of-place", "--placement out_of_place", "--placement out_of_place", NULL},
    {"algo proto", NULL, "NCCL reads $NCCL_ALGO and $NCCL_PROTO (bench --sweep-algorithms measures all)", NULL},
    {"min-bw bandwidth", "--min-busbw", "--min-busbw 1G:300", NULL},
    {"cluster", NULL, "busbar plan has --cluster (busbar plan all_reduce --ranks 64 --cluster h100-sxm-ib)", NULL},
    {"tp pp model", NULL, "busbar proxy and busbar plan have this option", NULL},
    {NULL, NULL, NULL, NULL},
};
