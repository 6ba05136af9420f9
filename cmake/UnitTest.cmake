# bb_unit_test(NAME name SOURCES files LIBS libraries [EMULATED] [RANKS n] [MPI])
# Adds a cmocka program as a ctest case. Exit status 77 marks a skipped test.
#   EMULATED  the program uses the emulated GPUs instead of the real libraries (LD_LIBRARY_PATH)
#   RANKS n   ctest starts the program under mpirun with n ranks
#   MPI       the program itself starts ranks
# With RANKS and MPI, leak detection is off, because Open MPI leaks memory in plugins. Open MPI unloads the plugins before
# the program ends, so a suppression cannot name them.
enable_testing()
find_path(CMOCKA_INCLUDE_DIR cmocka.h)
find_library(CMOCKA_LIBRARY cmocka)
mark_as_advanced(CMOCKA_INCLUDE_DIR CMOCKA_LIBRARY)
if(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY)
  add_library(cmocka UNKNOWN IMPORTED)
  set_target_properties(cmocka PROPERTIES IMPORTED_LOCATION ${CMOCKA_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CMOCKA_INCLUDE_DIR})
elseif(BUSBAR_TESTS STREQUAL "AUTO")
  message(STATUS "cmocka not found: unit tests are not built")
  set(BUSBAR_TESTS OFF)
elseif(BUSBAR_TESTS)
  message(FATAL_ERROR "cmocka not found: install libcmocka-dev, or configure with -DBUSBAR_TESTS=OFF")
endif()

# The variables that bootstrap/mpi.sh sets for Open MPI 4 and 5, as NAME=value.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../bootstrap/mpi.sh _exports REGEX "^ *export ")
string(REGEX MATCHALL "[A-Z][A-Za-z_]*=[^ ;]+" BB_MPI_ENVIRONMENT "${_exports}")
# Without this selection of the message layer, each rank of a job first searches for absent networks for a quarter of a second.
list(APPEND BB_MPI_ENVIRONMENT OMPI_MCA_pml=ob1)

function(bb_unit_test)
  cmake_parse_arguments(T "EMULATED;MPI" "NAME;RANKS" "SOURCES;LIBS" ${ARGN})
  add_executable(${T_NAME} ${T_SOURCES})
  target_link_libraries(${T_NAME} PRIVATE ${T_LIBS} cmocka bb_flags)
  # -O1 for the test itself: compiling takes 0.6 of the time of -O3. The tested libraries keep the options of the program. At -O1, gcc
  # does not see that a loop runs at least once.
  target_compile_options(${T_NAME} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1 -Wno-maybe-uninitialized>)
  target_link_options(${T_NAME} PRIVATE -Wl,--enable-new-dtags)
  set(command ${T_NAME})
  if(T_RANKS)
    set(command ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${T_RANKS} $<TARGET_FILE:${T_NAME}>)
  endif()
  add_test(NAME ${T_NAME} COMMAND ${command})
  set(environment ${BB_MPI_ENVIRONMENT})
  if(T_EMULATED)
    list(APPEND environment LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/emulator EMU_QUIET=1
         EMU_TWINS=${CMAKE_BINARY_DIR}/emulator/busbar-twins.so)
    add_dependencies(${T_NAME} emulator)
  endif()
  if(T_RANKS OR T_MPI)
    list(APPEND environment ASAN_OPTIONS=detect_leaks=0:exitcode=99)
  endif()
  set(limit 60)
  if(CMAKE_CROSSCOMPILING)
    set(limit 600) # an emulated CPU is about ten times slower
  elseif(BUSBAR_SANITIZE)
    set(limit 240) # builds with sanitizers are slower, because they contain checks and are not optimized
  endif()
  set_tests_properties(${T_NAME} PROPERTIES TIMEOUT ${limit} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# bb_unit_tests(LIBS libraries TESTS folder/name ... [EMULATED] [RANKS n] [MPI])
# Adds one program per test: folder/test_name.c becomes test_name.
function(bb_unit_tests)
  cmake_parse_arguments(T "" "" "TESTS" ${ARGN})
  foreach(test ${T_TESTS})
    get_filename_component(folder ${test} DIRECTORY)
    get_filename_component(name ${test} NAME)
    bb_unit_test(NAME test_${name} SOURCES ${folder}/test_${name}.c ${T_UNPARSED_ARGUMENTS})
  endforeach()
endfunction()
