# The GPUs that the device code is built for: those of CudaArchitectureList.cmake, or what CMAKE_CUDA_ARCHITECTURES says. The
# CUDA runtime is linked shared, since the emulated GPUs (tests/emulator) take its place under the unmodified program.
include(CudaArchitectureList)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(_asked "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT _asked)
  set(CMAKE_CUDA_ARCHITECTURES 80)  # enough to try the compiler; the list below depends on its version
endif()
enable_language(CUDA)
if(NOT _asked)
  cuda_architectures(${CMAKE_CUDA_COMPILER_VERSION} CMAKE_CUDA_ARCHITECTURES)
endif()
