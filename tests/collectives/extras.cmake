# Result files against each other, and what NCCL tells about its choices.
bb_unit_test(NAME test_compare SOURCES test_compare.c LIBS bb_collectives)
# It plays NCCL, which looks the plugin up in the program.
bb_unit_test(NAME test_profiler SOURCES test_profiler.c LIBS bb_collectives ${CMAKE_DL_LIBS})
set_target_properties(test_profiler PROPERTIES ENABLE_EXPORTS ON)
# The stand-in for NVML comes from tests/cuda.
bb_unit_test(NAME test_observe SOURCES test_observe.c LIBS bb_collectives RANKS 2)
add_dependencies(test_observe nvml_stub)
set_property(TEST test_observe APPEND PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/nvml)
# The same for the tuner, and what comes of it.
bb_unit_test(NAME test_tuner SOURCES test_tuner.c LIBS bb_collectives ${CMAKE_DL_LIBS})
set_target_properties(test_tuner PROPERTIES ENABLE_EXPORTS ON)
bb_unit_test(NAME test_contest SOURCES test_contest.c LIBS bb_collectives)
