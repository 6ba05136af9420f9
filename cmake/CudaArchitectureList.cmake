# cuda_architectures(VERSION out) - sets `out` to the GPU architectures for which nvcc VERSION compiles device code:
#   SASS  for each supported generation from Volta on (the first with independent thread scheduling); SASS runs only on
#         GPUs with the same major version
#   PTX   for the newest architecture, so that later GPUs can run the program, and for 80, for GPUs between the two
# 70: V100 (CUDA 12 only); 75: T4; 80: A100, also 86 and 89; 90: H100; 100: B200, also 103; 110: Thor (CUDA 13);
# 120: RTX 50
function(cuda_architectures version out)
  set(list 75-real 80)
  if(version VERSION_LESS 13)
    list(PREPEND list 70-real)
  endif()
  if(version VERSION_LESS 12.8)
    list(APPEND list 90)
  else()
    list(APPEND list 90-real 100-real)
    if(version VERSION_GREATER_EQUAL 13)
      list(APPEND list 110-real)
    endif()
    list(APPEND list 120)
  endif()
  set(${out} "${list}" PARENT_SCOPE)
endfunction()
