# A program for real GPUs; without one it exits with status 77.
add_executable(gemm_vs_best gemm_vs_best.c)
target_link_libraries(gemm_vs_best PRIVATE bb_collectives bb_cuda m bb_flags)
target_link_options(gemm_vs_best PRIVATE -Wl,--enable-new-dtags)
