# Programs with known overlap, run on two emulated GPUs.
bb_unit_test(NAME test_runner SOURCES test_runner.c LIBS bb_proxies EMULATED RANKS 2)
set_property(TEST test_runner APPEND PROPERTY ENVIRONMENT EMU_CLUSTER=${CMAKE_CURRENT_SOURCE_DIR}/round.json)
