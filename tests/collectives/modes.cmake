# Tests of the bench commands that are no collectives.
bb_unit_test(NAME test_pairs SOURCES test_pairs.c LIBS bb_collectives)
bb_unit_test(NAME test_overlap_figures SOURCES test_overlap_figures.c LIBS bb_collectives)
