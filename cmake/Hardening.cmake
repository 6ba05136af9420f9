# harden(target) - adds the hardening options that compiler and linker support to all users of an interface target. Debug
# builds and builds with sanitizers are excluded, because sanitizers find more errors and conflict with _FORTIFY_SOURCE.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)

set(_compile_flags "")
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "HAS${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    list(APPEND _compile_flags ${flag})
  endif()
endforeach()
# Level 3 of _FORTIFY_SOURCE requires gcc 12 or clang 9. With an older gcc, the headers of glibc emit a warning, which
# -Werror turns into an error.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
  set(_fortify 2)
else()
  set(_fortify 3)
endif()
list(APPEND _compile_flags -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${_fortify})
check_linker_flag(C "LINKER:-z,relro,-z,now" HAS_z_relro_now)

function(harden target)
  if(BUSBAR_SANITIZE)
    return()
  endif()
  target_compile_options(${target} INTERFACE "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:${_compile_flags}>")
  if(HAS_z_relro_now)
    target_link_options(${target} INTERFACE "$<$<NOT:$<CONFIG:Debug>>:LINKER:-z,relro,-z,now>")
  endif()
endfunction()
