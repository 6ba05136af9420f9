# mpi.sh - sourced in the project's folder by the scripts that start ranks, and by people; POSIX sh. Puts what setup.sh
# fetched into the build folder on the path, lets root and machines with few cores run small jobs under Open MPI 4 and 5
# (MPICH needs none of it), and counts the machine's GPUs. The lines with `export NAME=value` are read by the tests, too
# (cmake/UnitTest.cmake, tests/cli/conftest.py).
use_build_folder() {
    for dir in "$PWD/build/system/usr/bin" "$PWD/build/python/bin"; do
        case :$PATH: in *":$dir:"*) continue ;; esac
        [ ! -d "$dir" ] || PATH=$dir:$PATH
    done
    for dir in "$PWD"/build/system/usr/lib/*-linux-gnu; do # an unpacked Python's own libraries
        case :${LD_LIBRARY_PATH:-}: in *":$dir:"*) continue ;; esac
        [ ! -d "$dir" ] || export LD_LIBRARY_PATH="$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
    if [ -e "$PWD/build/python/lib/libmpi.so" ]; then # its own programs, for a rank without mpirun
        OPAL_PREFIX=$PWD/build/python
        export OPAL_PREFIX
    fi
    command -v mpicc >/dev/null || for dir in /usr/lib64/openmpi/bin /usr/lib64/mpi/gcc/openmpi*/bin; do # where dnf and zypper put it
        [ ! -x "$dir/mpicc" ] || PATH=$PATH:$dir
    done
    export PATH
}
use_build_folder

if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
# Open MPI 4 does not start without a program to reach other nodes, even where there are none.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    OMPI_MCA_plm_rsh_agent=false
    export OMPI_MCA_plm_rsh_agent
fi

count_gpus() {
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
        nvidia-smi -L | grep -c '^GPU' || true
    else
        ls -d /proc/driver/nvidia/gpus/* 2>/dev/null | wc -l
    fi
}
