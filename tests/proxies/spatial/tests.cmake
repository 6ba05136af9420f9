# Networks cut in tiles and splits.
foreach(part net tiles spatial gems)
  bb_unit_test(NAME test_${part} SOURCES spatial/test_${part}.c LIBS bb_steps)
endforeach()
