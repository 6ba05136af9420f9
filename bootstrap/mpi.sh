# mpi.sh - sourced by the scripts that start ranks; POSIX sh. Lets root and machines with few cores run small jobs under
# Open MPI 4 and 5 (MPICH needs none of it), and counts the machine's GPUs. The lines with `export` are read by the tests, too
# (cmake/UnitTest.cmake, tests/cli/conftest.py): nothing but NAME=value in them.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none

count_gpus() {
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
        nvidia-smi -L | grep -c '^GPU' || true
    else
        ls -d /proc/driver/nvidia/gpus/* 2>/dev/null | wc -l
    fi
}
