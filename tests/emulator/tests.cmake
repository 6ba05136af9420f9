# The tests of the emulated GPUs. Each scenario runs in its own process (child.h).
add_library(emu_test_child STATIC child.c)
target_compile_definitions(emu_test_child PRIVATE TEST_PROFILE="${CMAKE_CURRENT_SOURCE_DIR}/test_profile.json")
target_link_libraries(emu_test_child PUBLIC emu_flags cmocka)

# An ordinary CUDA program, and the CPU twins of its kernels.
add_executable(emu_saxpy saxpy.cu)
target_link_libraries(emu_saxpy PRIVATE CUDA::cudart bb_flags)
target_link_options(emu_saxpy PRIVATE -Wl,--enable-new-dtags)
add_executable(emu_saxpy_own_streams saxpy.cu) # the same, compiled for per-thread default streams
target_compile_options(emu_saxpy_own_streams PRIVATE --default-stream per-thread)
target_link_libraries(emu_saxpy_own_streams PRIVATE CUDA::cudart bb_flags)
target_link_options(emu_saxpy_own_streams PRIVATE -Wl,--enable-new-dtags)
add_library(emu_saxpy_twins MODULE twins_saxpy.c)
target_link_libraries(emu_saxpy_twins PRIVATE emu_flags)

foreach(part contention streams memory graphs launch gemm system hazards)
  bb_unit_test(NAME test_emu_${part} SOURCES test_${part}.c LIBS emu_test_child emu_cudart emu_flags m EMULATED)
endforeach()
target_link_libraries(test_emu_gemm PRIVATE emu_cublaslt)
target_compile_definitions(test_emu_contention PRIVATE SHARING_PROFILE="${CMAKE_CURRENT_SOURCE_DIR}/test_sharing_profile.json")
bb_unit_test(NAME test_emu_timeline SOURCES timeline/test_timeline.c ${timeline} LIBS bb_machine emu_flags m)
add_library(emu_fake_mpi SHARED fake_mpi.c)
target_link_libraries(emu_fake_mpi PRIVATE emu_flags)
bb_unit_test(NAME test_emu_hosts SOURCES test_hosts.c hosts.c job.c LIBS emu_fake_mpi emu_flags ${CMAKE_DL_LIBS})
# LeakSanitizer calls sched_yield, which hosts.c interposes, while all threads are stopped.
set_tests_properties(test_emu_hosts PROPERTIES ENVIRONMENT ASAN_OPTIONS=detect_leaks=0:exitcode=99)
set_target_properties(test_emu_hosts PROPERTIES ENABLE_EXPORTS ON) # hosts.c looks up functions of the program by name
bb_unit_test(NAME test_host_gpu SOURCES kernels/test_host_gpu.cpp LIBS host_gpu emu_test_child)
set(device_tests "")
if(NCCL_VERSION VERSION_GREATER_EQUAL 2.28.9 AND NCCL_VERSION VERSION_LESS 2.33)
  list(APPEND device_tests test_device_kernels)
endif()
if(NCCL_VERSION VERSION_GREATER_EQUAL 2.30.7 AND NCCL_VERSION VERSION_LESS 2.33)
  list(APPEND device_tests test_gin_kernels)
endif()
foreach(test ${device_tests})
  bb_unit_test(NAME ${test} SOURCES kernels/${test}.cpp nccl/device_structs.cpp nccl/device_gin.cpp LIBS host_gpu emu_test_child emu_flags)
  target_include_directories(${test} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/kernels/device_api ${NCCL_INCLUDE_DIR}
                             ${CMAKE_CURRENT_SOURCE_DIR}/nccl)
  # -O2: without optimization, the assembly of branches of NCCL's headers that are never taken remains.
  target_compile_options(${test} PRIVATE -O2 -Wno-unknown-pragmas -Wno-unused-function)
endforeach()
bb_unit_test(NAME test_kernel_sources SOURCES kernels/test_kernel_sources.c LIBS busbar_kernels emu_cudart m EMULATED)
target_compile_definitions(test_emu_system PRIVATE TEST_PROFILE="${CMAKE_CURRENT_SOURCE_DIR}/test_profile.json"
                           DEFAULT_PROFILE="${CMAKE_CURRENT_SOURCE_DIR}/../../profiles/clusters/emulated-default.json")
target_compile_definitions(test_emu_launch PRIVATE SAXPY="$<TARGET_FILE:emu_saxpy>"
                           SAXPY_OWN_STREAMS="$<TARGET_FILE:emu_saxpy_own_streams>"
                           SAXPY_TWINS="$<TARGET_FILE:emu_saxpy_twins>")
add_dependencies(test_emu_launch emu_saxpy emu_saxpy_own_streams emu_saxpy_twins)

# Results of runtime calls, as text; the program also runs on real GPUs.
add_executable(emu_conformance conformance.c)
target_link_libraries(emu_conformance PRIVATE CUDA::cudart bb_flags)
target_link_options(emu_conformance PRIVATE -Wl,--enable-new-dtags)
add_dependencies(emu_conformance emulator)
add_test(NAME test_emu_conformance
         COMMAND sh -c "$<TARGET_FILE:emu_conformance> | diff -u ${CMAKE_CURRENT_SOURCE_DIR}/conformance.txt -")
set_tests_properties(test_emu_conformance PROPERTIES TIMEOUT 60
                     ENVIRONMENT "LD_LIBRARY_PATH=${emu_dir};EMU_QUIET=1;EMU_CLUSTER=;ASAN_OPTIONS=detect_leaks=0")
