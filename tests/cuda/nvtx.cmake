# An NVTX tool of our own (loaded by NVTX_INJECTION64_PATH), and the wrapper tested against it.
add_library(nvtx_recorder MODULE nvtx_recorder.c)
target_link_libraries(nvtx_recorder PRIVATE CUDA::toolkit bb_flags)
set_target_properties(nvtx_recorder PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
bb_unit_test(NAME test_nvtx SOURCES test_nvtx.c LIBS bb_cuda EMULATED)
add_dependencies(test_nvtx nvtx_recorder)
set_property(TEST test_nvtx APPEND PROPERTY ENVIRONMENT
             NVTX_INJECTION64_PATH=${CMAKE_BINARY_DIR}/tests/nvtx_recorder.so
             NVTX_RECORD=${CMAKE_CURRENT_BINARY_DIR}/nvtx)
