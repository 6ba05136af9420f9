#!/bin/sh
# export.sh FOLDER - converts each Nsight Systems report in FOLDER to SQLite, for ../report/nsys_overlap.py.
set -eu
for report in "$1"/rank.*.nsys-rep; do
    [ -e "$report" ] || { echo "no reports rank.*.nsys-rep in $1" >&2; exit 1; }
    "${NSYS:-nsys}" export -t sqlite --force-overwrite=true -o "${report%.nsys-rep}.sqlite" "$report"
done
