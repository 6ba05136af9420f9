/* foreign_options.c - names of options of nccl-tests, proxy and plan, with what to type instead under `busbar bench`. */
#include "collectives/ops/foreign_options.h"

const struct bb_foreign_name bb_bench_foreign_options[] = {
    {"ngpus ranks nproc-per-node", "--gpus", "--gpus 8", NULL},
    {"nnodes nodes num-nodes standalone", NULL,
     "--gpus N starts the ranks of one node, mpirun or srun those of several", NULL},
    {"t nthreads", NULL, "each rank is a process; -g N alone sets the number of ranks", NULL},
    {"cluster", NULL, "busbar plan has --cluster (busbar plan all_reduce --ranks 64 --cluster h100-sxm-ib)", NULL},
    {"tp pp model", NULL, "busbar proxy and busbar plan have this option", NULL},
    {NULL, NULL, NULL, NULL},
};
