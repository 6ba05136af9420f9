# Finds the launcher of the MPI library that find_package(MPI) found, which is the library of `mpicc`. If several MPI
# libraries are installed, the `mpiexec` that CMake finds may belong to another library, and would start each rank as a
# separate job of one rank. Sets:
#   MPIEXEC_EXECUTABLE       path of the launcher
#   BB_MPIRUN                launcher that busbar uses: "mpirun" if the mpirun on PATH belongs to the same MPI library,
#                            else MPIEXEC_EXECUTABLE
#   BB_MPI_IS_OPEN_MPI       1 for Open MPI, else 0
#   BB_MPIEXEC_LEAVE         launcher options that keep the other ranks running when one fails, as srun does; for tests
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_c_source_compiles("#include <mpi.h>\n#ifndef OPEN_MPI\n#error\n#endif\nint main(void) { return 0; }" BB_MPI_HAS_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)
set(BB_MPI_IS_OPEN_MPI 0)
if(BB_MPI_HAS_OPEN_MPI)
  set(BB_MPI_IS_OPEN_MPI 1)
endif()

# Sets `result` to whether the program is a launcher of this MPI, and `version` to the output of its --version.
function(bb_launcher_fits program result version)
  set(fits FALSE)
  set(words)
  if(program)
    execute_process(COMMAND ${program} --version OUTPUT_VARIABLE words ERROR_VARIABLE words RESULT_VARIABLE failed)
    if(NOT failed AND words MATCHES "Open MPI|OpenRTE|PRRTE" AND BB_MPI_HAS_OPEN_MPI)
      set(fits TRUE)
    elseif(NOT failed AND words MATCHES "HYDRA|Intel|MVAPICH" AND NOT BB_MPI_HAS_OPEN_MPI)
      set(fits TRUE)
    endif()
  endif()
  set(${result} ${fits} PARENT_SCOPE)
  set(${version} "${words}" PARENT_SCOPE)
endfunction()

# Uses the mpiexec that CMake found if it belongs to this MPI library; otherwise searches the folder of mpicc, and the
# folder of the file to which a symbolic link mpicc points.
bb_launcher_fits("${MPIEXEC_EXECUTABLE}" _fits _version)
if(NOT _fits AND MPI_C_COMPILER)
  file(REAL_PATH "${MPI_C_COMPILER}" _mpicc)
  cmake_path(GET MPI_C_COMPILER PARENT_PATH _mpicc_folder)
  cmake_path(GET _mpicc PARENT_PATH _linked_folder)
  foreach(_name mpiexec.hydra mpiexec mpirun mpiexec.mpich mpiexec.openmpi)
    foreach(_folder ${_mpicc_folder} ${_linked_folder})
      if(NOT _fits AND EXISTS ${_folder}/${_name})
        bb_launcher_fits(${_folder}/${_name} _fits _version)
        if(_fits)
          set(MPIEXEC_EXECUTABLE ${_folder}/${_name} CACHE FILEPATH "launcher of the MPI library" FORCE)
        endif()
      endif()
    endforeach()
  endforeach()
endif()
if(NOT _fits)
  message(STATUS "No mpirun found for the MPI of ${MPI_C_COMPILER}; using ${MPIEXEC_EXECUTABLE}")
endif()

find_program(_mpirun mpirun NO_CACHE)
bb_launcher_fits("${_mpirun}" _on_path _)
if(_fits AND NOT _on_path)
  set(BB_MPIRUN ${MPIEXEC_EXECUTABLE})
else()
  set(BB_MPIRUN mpirun)
endif()
message(STATUS "Launcher of MPI ranks: ${BB_MPIRUN}")

if(NOT BB_MPI_HAS_OPEN_MPI)
  set(BB_MPIEXEC_LEAVE "") # MPICH's -disable-auto-cleanup also sends SIGUSR1 to the healthy ranks
elseif(_version MATCHES "(Open MPI\\)|OpenRTE\\)) [1-4]\\.")
  set(BB_MPIEXEC_LEAVE "--enable-recovery")
else()
  set(BB_MPIEXEC_LEAVE "--runtime-options recoverable,error-nonzero-status=false")
endif()
