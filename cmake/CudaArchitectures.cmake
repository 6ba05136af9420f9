# Enables CUDA for the architectures in CMAKE_CUDA_ARCHITECTURES or, if that variable is not set, in
# CudaArchitectureList.cmake. The CUDA runtime is linked dynamically, so that the emulated GPUs (tests/emulator) can replace
# the runtime without a new build.
include(CudaArchitectureList)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(_asked "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT _asked)
  set(CMAKE_CUDA_ARCHITECTURES 80)  # only for CMake's compiler test; the list that is set below depends on the compiler's version
endif()
enable_language(CUDA)
if(NOT _asked)
  cuda_architectures(${CMAKE_CUDA_COMPILER_VERSION} CMAKE_CUDA_ARCHITECTURES)
endif()
