/* Empty: NCCL's device headers include cooperative groups, but the parts that kernels on the CPU use do not. */
