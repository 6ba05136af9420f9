#!/bin/sh
# run.sh - injects faults into every phase of `busbar bench` and `busbar proxy` and checks how the job ends: see inject.py.
#   run.sh --quick                    a selection that takes at most 100 s on 2 cores
#   run.sh --slurm                    a selection under a real Slurm, which slurm.sh starts on this machine (and installs, as root),
#                                     and busbar sweep --submit (submit.sh)
#   run.sh bench/c-comm-init ...      the cases whose names begin like this
#   run.sh --sweep-calls [bench/cudaMalloc ...]   each library call fails in turn, on one rank and on all
#   run.sh --many 64 256 1024         jobs with this many ranks: see many_ranks.py
# Environment: BUSBAR_BUILD=build/mpich selects a build with MPICH and its launcher, FAULT_LAUNCHER=srun selects fake_srun.py,
# FAULT_WORKERS is the number of jobs that run at the same time.
set -u
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
. bootstrap/mpi.sh
if [ "${1:-}" = --many ]; then
    shift
    exec "${PYTHON:-python3}" tests/fault_injection/many_ranks.py "$@"
fi
if [ "${1:-}" = --slurm ]; then
    export FAULT_LAUNCHER="srun --overcommit --mpi=pmix"
    exec sh tests/fault_injection/slurm.sh sh -c 'sh tests/fault_injection/submit.sh && exec "$@"' sh \
        "${PYTHON:-python3}" tests/fault_injection/inject.py "$@"
fi
exec "${PYTHON:-python3}" tests/fault_injection/inject.py "$@"
