foreach(part buckets network sync servers)
  bb_unit_test(NAME test_${part} SOURCES ${CMAKE_CURRENT_LIST_DIR}/test_${part}.c LIBS bb_steps)
endforeach()
