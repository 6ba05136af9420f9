# mpi.sh - sets the environment for MPI jobs; POSIX sh. Scripts that start ranks source this file in the project's folder;
# users who run mpirun themselves can do the same.
#   - Adds the programs that setup.sh installed in the build folder to PATH.
#   - Lets Open MPI 4 and 5 start ranks as root, and more ranks than cores (MPICH does both by default).
#   - Defines count_gpus, which prints the number of the machine's GPUs.
# The tests parse the lines with `export NAME=value` (cmake/UnitTest.cmake, tests/cli/conftest.py).
use_build_folder() {
    for dir in "$PWD/build/system/usr/bin" "$PWD/build/python/bin"; do
        case :$PATH: in *":$dir:"*) continue ;; esac
        [ ! -d "$dir" ] || PATH=$dir:$PATH
    done
    for dir in "$PWD"/build/system/usr/lib/*-linux-gnu; do # libraries of a Python that was unpacked into build/system
        case :${LD_LIBRARY_PATH:-}: in *":$dir:"*) continue ;; esac
        [ ! -d "$dir" ] || export LD_LIBRARY_PATH="$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    done
    if [ -e "$PWD/build/python/lib/libmpi.so" ]; then # a rank without mpirun requires Open MPI's prefix
        OPAL_PREFIX=$PWD/build/python
        export OPAL_PREFIX
    fi
    command -v mpicc >/dev/null || for dir in /usr/lib64/openmpi/bin /usr/lib64/mpi/gcc/openmpi*/bin; do # packages of dnf and zypper
        [ ! -x "$dir/mpicc" ] || PATH=$PATH:$dir
    done
    export PATH
}
use_build_folder
case :$PATH: in *:/usr/local/nvidia/bin:*) ;; *) PATH=$PATH:/usr/local/nvidia/bin ;; esac # nvidia-smi and MPS in containers

if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
# Open MPI 4 requires a remote shell even if all ranks are on this machine.
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    OMPI_MCA_plm_rsh_agent=false
    export OMPI_MCA_plm_rsh_agent
fi

count_gpus() {
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
        nvidia-smi -L | grep -c '^GPU' || true
    else
        # A container has device files only for its own GPUs; a machine without nvidia-smi may have no device files yet.
        for list in "/dev/nvidia[0-9]*" "/proc/driver/nvidia/gpus/*"; do
            # shellcheck disable=SC2086
            n=$(ls -d $list 2>/dev/null | wc -l)
            [ "$n" = 0 ] || break
        done
        echo "$n"
    fi
}
