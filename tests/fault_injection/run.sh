#!/bin/sh
# run.sh - plants faults in every phase of bench and proxy and looks at what becomes of the job: inject.py says how.
# `sh tests/fault_injection/run.sh --quick` runs a part of at most 100 s on 2 cores; other words choose drills by name:
# `sh tests/fault_injection/run.sh bench/c-comm-init`. `--walk` lets every call fail in turn, on one rank and on all (words choose:
# `--walk bench/cudaMalloc`); `--many 64 256 1024` starts so many ranks. BUSBAR_BUILD=build-mpich: under MPICH's
# launcher, with FAULT_LAUNCHER=srun under a stand-in for Slurm's. FAULT_WORKERS: how many jobs at a time.
set -u
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
. bootstrap/mpi.sh
if [ "${1:-}" = --many ]; then
    shift
    exec "${PYTHON:-python3}" tests/fault_injection/many.py "$@"
fi
exec "${PYTHON:-python3}" tests/fault_injection/drill.py "$@"
