/* foreign_options.c - names of options of nccl-tests, proxy and plan, with what to type instead under `busbar bench`. */
#include "collectives/ops/foreign_options.h"

const struct bb_foreign_name bb_bench_foreign_options[] = {
    {"g", "mpirun -n", "mpirun -n 8 busbar bench ... (or all_reduce_perf -g 8)", NULL},
    {"ngpus", "mpirun -n", "mpirun -n 8 busbar bench ... (or all_reduce_perf -g 8)", NULL},
    {"t", "mpirun -n", "mpirun -n 8 busbar bench ... (or all_reduce_perf -t 8)", NULL},
    {"nthreads", "mpirun -n", "mpirun -n 8 busbar bench ... (or all_reduce_perf -t 8)", NULL},
    {"ranks", "mpirun -n", "mpirun -n 8 busbar bench ...", NULL},
    {"cluster", NULL, "--cluster is an option of busbar plan (busbar plan all_reduce --ranks 64 --cluster h100-sxm-ib)",
     NULL},
    {"tp", NULL, "--tp is an option of busbar proxy and plan", NULL},
    {"pp", NULL, "--pp is an option of busbar proxy and plan", NULL},
    {"model", NULL, "--model is an option of busbar proxy and plan", NULL},
    {NULL, NULL, NULL, NULL},
};
