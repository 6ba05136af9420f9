# The compute side: shapes, passes, matrix products, the timed stand-in.
bb_unit_test(NAME test_shape SOURCES test_shape.c LIBS bb_dtype m)
bb_unit_test(NAME test_layer SOURCES test_layer.c LIBS bb_cuda m EMULATED)
bb_unit_test(NAME test_layer_kernels SOURCES test_layer_kernels.cpp pass_cases.c LIBS bb_dtype m)
target_include_directories(test_layer_kernels PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
bb_unit_test(NAME test_gpu_layer SOURCES test_gpu_layer.c pass_cases.c LIBS bb_cuda m EMULATED)
bb_unit_test(NAME test_gpu_gemm SOURCES test_gpu_gemm.c LIBS bb_cuda m EMULATED)
bb_unit_test(NAME test_gpu_busy SOURCES test_gpu_busy.c LIBS bb_cuda m EMULATED)
bb_unit_test(NAME test_gpu_work SOURCES test_gpu_work.c LIBS bb_cuda m EMULATED)
