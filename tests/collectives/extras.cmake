# Result files against each other, and what NCCL tells about its choices.
bb_unit_test(NAME test_compare SOURCES test_compare.c LIBS bb_collectives)
