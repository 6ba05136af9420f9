#!/bin/sh
# run.sh - mutation testing: changes the product at random places, one at a time, and reports the changes that no test detects. See mutate.py.
#   run.sh N [--seed S] [--only FOLDER] [--since REV]   tests mutants until N have a verdict; repeated with the same arguments, it continues
#   run.sh --again       tests the survivors again, after tests were added for them
#   run.sh --together    runs every black-box test on the survivors
#   run.sh --sanitize    runs the smoke tests under AddressSanitizer on the survivors
set -u
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
. bootstrap/mpi.sh
exec nice -n 10 "${PYTHON:-python3}" tests/mutation/mutate.py "$@"
