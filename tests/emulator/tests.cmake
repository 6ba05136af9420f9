# The tests of the emulated GPUs. Each scenario runs in a process of its own (child.h).
add_library(emu_test_child STATIC child.c)
target_compile_definitions(emu_test_child PRIVATE TEST_PROFILE="${CMAKE_CURRENT_SOURCE_DIR}/test_profile.json")
target_link_libraries(emu_test_child PUBLIC emu_flags cmocka)
foreach(part streams memory graphs)
  bb_unit_test(NAME test_emu_${part} SOURCES test_${part}.c LIBS emu_test_child emu_cudart emu_flags m EMULATED)
endforeach()
