#!/bin/sh
# run.sh - plants faults in every phase of bench and proxy and looks at what becomes of the job: drill.py says how.
# `sh tests/drill/run.sh --quick` runs a part of at most 100 s on 2 cores; other words choose drills by name:
# `sh tests/drill/run.sh bench/c-comm-init`.
set -u
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
. bootstrap/mpi.sh
exec "${PYTHON:-python3}" tests/drill/drill.py "$@"
