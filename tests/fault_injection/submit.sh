#!/bin/sh
# submit.sh - busbar sweep --submit under a real Slurm (slurm.sh). An array job runs a shell command on one and two ranks, and the
# gathered table has a row for each rank. A second array job runs `busbar bench` on emulated GPUs with one rank for each of the two GPUs
# that Slurm counts; its results are complete.
# Environment: BUSBAR_BUILD=build.
set -u
busbar=$(cd "${BUSBAR_BUILD:-build}" && pwd)/busbar
folder=$(mktemp -d "${TMPDIR:-/tmp}/submit-XXXXXX") && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
cat >ranks.json <<'JSON'
{"command": ["/bin/sh", "-c", "echo \"rank $SLURM_PROCID $1\"", "sh", "{text}"], "values": {"text": "of 'a b'"}, "ranks": [1, 2],
 "metrics": {"rank": "^rank ([0-9]) of 'a b'$"}, "launch_arguments": ["--overcommit"], "slurm": {"lines": ["--ntasks=1"]}}
JSON

cat >bench.json <<JSON
{"command": "bench all_reduce", "options": {"sizes": "1M", "n": 2, "placement": "out_of_place"}, "ranks": 2, "repeats": 2,
 "launch": {"program": "$busbar-emulated"}, "launch_arguments": "--overcommit --mpi=pmix", "timeout_s": 60,
 "slurm": {"gpus_per_node": 2, "lines": ["--overcommit"]},
 "columns": ["bytes", "emulated", "environment.SLURM_NTASKS_PER_NODE"]}
JSON

fail() {
    echo "sweep --submit: FAILED: $*"
    cat "$study".sweep/*.out "$study".sweep/*.err 2>/dev/null
    exit 1
}

# run_study NAME TABLE COLUMNS - submits a study of two tasks, waits for its array job, gathers, and compares the first columns
# of the sorted table.
run_study() {
    study=$1
    printed=$("$busbar" sweep "$study.json" --submit) || fail "exit status $?"
    id=$(expr "$printed" : "array job \\([0-9]*\\): 2 tasks, .*/$study.slurm\$") || fail "printed: $printed"
    for _ in $(seq 120); do
        [ -n "$(squeue --noheader --job "$id" 2>/dev/null)" ] || break
        sleep 0.5
    done
    "$busbar" sweep "$study.json" --gather --quiet || fail "the array job did not complete both tasks"
    # After the columns of the study, the table has columns that identify the runs.
    [ "$(cut -d, -f"-$3" "$study.sweep/sweep.csv" | sort | tr '\n' ' ')" = "$2" ] || fail "$(cat "$study.sweep/sweep.csv")"
}

run_study ranks "1,0,ok 2,0,ok 2,1,ok ranks,rank,state " 3
run_study bench "1,1048576,true,2,ok 2,1048576,true,2,ok repeat,bytes,emulated,environment.SLURM_NTASKS_PER_NODE,state " 5
echo "sweep --submit: passed"
