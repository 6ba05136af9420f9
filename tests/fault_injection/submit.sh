#!/bin/sh
# submit.sh - busbar sweep --submit under a real Slurm (slurm.sh): the array job runs a shell command on one and two ranks, and the
# gathered table has a row for each rank. Environment: BUSBAR_BUILD=build.
set -u
busbar=$(cd "${BUSBAR_BUILD:-build}" && pwd)/busbar
folder=$(mktemp -d "${TMPDIR:-/tmp}/submit-XXXXXX") && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
cat >ranks.json <<'JSON'
{"command": ["/bin/sh", "-c", "echo \"rank $SLURM_PROCID $1\"", "sh", "{text}"], "values": {"text": "of 'a b'"}, "ranks": [1, 2],
 "metrics": {"rank": "^rank ([0-9]) of 'a b'$"}, "launch_arguments": ["--overcommit"], "slurm": {"lines": ["--ntasks=1"]}}
JSON

fail() {
    echo "sweep --submit: FAILED: $*"
    cat ranks.sweep/*.out ranks.sweep/*.err 2>/dev/null
    exit 1
}

printed=$("$busbar" sweep ranks.json --submit) || fail "exit status $?"
id=$(expr "$printed" : 'array job \([0-9]*\): 2 tasks, .*/ranks.slurm$') || fail "printed: $printed"
for _ in $(seq 120); do
    [ -n "$(squeue --noheader --job "$id" 2>/dev/null)" ] || break
    sleep 0.5
done
"$busbar" sweep ranks.json --gather --quiet || fail "the array job did not complete both tasks"
[ "$(sort ranks.sweep/sweep.csv | tr '\n' ' ')" = "1,0,ok 2,0,ok 2,1,ok ranks,rank,state " ] || fail "$(cat ranks.sweep/sweep.csv)"
echo "sweep --submit: passed"
