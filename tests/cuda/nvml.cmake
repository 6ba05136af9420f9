# A stand-in for the driver's NVML, found by its soname through the library path, and the wrapper tested against it.
add_library(nvml_stub SHARED nvml_stub.c)
set_target_properties(nvml_stub PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/nvml)
bb_unit_test(NAME test_nvml SOURCES test_nvml.c LIBS bb_cuda Jansson::Jansson m)
add_dependencies(test_nvml nvml_stub)
set_property(TEST test_nvml APPEND PROPERTY ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/nvml)
