# Enables CUDA for the architectures of CMAKE_CUDA_ARCHITECTURES or, if that is not set, of CudaArchitectureList.cmake. The
# CUDA runtime is linked dynamically, so that the emulated GPUs (tests/emulator) can replace it without a new build.
include(CudaArchitectureList)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(_asked "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT _asked)
  set(CMAKE_CUDA_ARCHITECTURES 80)  # for CMake's compiler test; the list below depends on the compiler's version
endif()
enable_language(CUDA)
if(NOT _asked)
  cuda_architectures(${CMAKE_CUDA_COMPILER_VERSION} CMAKE_CUDA_ARCHITECTURES)
endif()
