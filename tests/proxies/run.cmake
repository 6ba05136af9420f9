# Programs with known overlap, run on two emulated GPUs, and a library that writes down what a run asks NCCL for.
bb_unit_test(NAME test_runner SOURCES test_runner.c LIBS bb_proxies EMULATED RANKS 2)
set_property(TEST test_runner APPEND PROPERTY ENVIRONMENT EMU_CLUSTER=${CMAKE_CURRENT_SOURCE_DIR}/round.json)

add_library(nccl_recorder MODULE nccl_recorder.c)
target_link_libraries(nccl_recorder PRIVATE NCCL::nccl CUDA::toolkit bb_flags ${CMAKE_DL_LIBS})
set_target_properties(nccl_recorder PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
