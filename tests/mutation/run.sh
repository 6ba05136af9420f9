#!/bin/sh
# run.sh - changes random places of the product, one at a time, and says which changes no test notices: mutate.py says how.
# `sh tests/mutation/run.sh N [--seed S] [--only FOLDER] [--since REV]` tries mutants until N have been judged; started again with the same
# words it goes on where it was. `--again` tries those once more that survived, after tests were written for them; `--together`
# tries those on every black-box test, `--sanitize` on the smoke tests under AddressSanitizer.
set -u
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
. bootstrap/mpi.sh
exec nice -n 10 "${PYTHON:-python3}" tests/mutation/mutants.py "$@"
