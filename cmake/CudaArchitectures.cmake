# The GPUs that the device code is built for: real code for each listed generation, and PTX of the newest so that later
# ones run too. Set CMAKE_CUDA_ARCHITECTURES to override. The CUDA runtime is linked shared, since the emulated GPUs
# (tests/emulator) take its place under the unmodified program.
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(_asked "${CMAKE_CUDA_ARCHITECTURES}")
if(NOT _asked)
  set(CMAKE_CUDA_ARCHITECTURES 80)  # enough to try the compiler; the list below depends on its version
endif()
enable_language(CUDA)
if(NOT _asked)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
endif()
