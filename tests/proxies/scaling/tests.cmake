bb_unit_test(NAME test_scaling SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_scaling.c LIBS bb_steps)
