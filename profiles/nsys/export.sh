#!/bin/sh
# export.sh FOLDER - each report of Nsight Systems in the folder as SQLite, for ../report/nsys_overlap.py.
set -eu
for report in "$1"/rank.*.nsys-rep; do
    [ -e "$report" ] || { echo "no reports in $1" >&2; exit 1; }
    "${NSYS:-nsys}" export -t sqlite --force-overwrite=true -o "${report%.nsys-rep}.sqlite" "$report"
done
