#!/bin/sh
# run.sh [OUT [PATTERN]] - tests on one or more real GPUs, in eight minutes, most important first: behaviour of the CUDA runtime
# compared with the emulated GPUs, kernels, runs with one rank, ranks that share a GPU (correctness only, no speed), proxies,
# faults. Runs in the source tree with build/, or in a kit that tests/gpu/pack.sh made.
#
#   OUT      folder for results.json, results.html and results.tar.gz (all output), updated after each step; default gpu-results
#   PATTERN  regular expression of the steps to run ("^transformer|^shared"); default: all
# Environment:
#   GPU_SECONDS       time limit of the whole run in seconds; default 470
#   NCCL_TESTS_BUILD  build folder of nccl-tests to compare with; a kit may contain a build
#
# Prints one line per step. A step that exceeds its time limit is "too slow", which is no failure: without MPS, ranks that share a
# GPU alternate in slices of milliseconds. Exit status 0: no step failed, 1: a step failed or the machine cannot run the tests, 77: no
# GPU.
set -u
started=$(date +%s)
[ -z "${NCCL_TESTS_BUILD:-}" ] || NCCL_TESTS_BUILD=$(cd "$NCCL_TESTS_BUILD" && pwd) || exit 1
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-gpu-results}
pattern=${2:-.}
seconds=${GPU_SECONDS:-470}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)

# --- paths ---

if [ -x "$here/bin/busbar" ]; then
    cd "$here" || exit 1
    bin=$here/bin comparison=$here/compare_with_nccl_tests.py conformance=$here/conformance.txt
    . ./mpi.sh
    export OPAL_PREFIX="$here/openmpi"
    PATH=$here/openmpi/bin:$PATH
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/openmpi/lib
    [ ! -d "$here/nccl-tests" ] || : "${NCCL_TESTS_BUILD=$here/nccl-tests}"
else
    cd "$here/../.." || exit 1
    bin=$PWD/build comparison=$here/compare_with_nccl_tests.py conformance=$PWD/tests/emulator/conformance.txt
    . bootstrap/mpi.sh
fi
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
export OMPI_MCA_ess_singleton_isolated=1 # a rank without mpirun starts no Open MPI daemon
export NCCL_DEBUG="${NCCL_DEBUG:-WARN}" # NCCL's warnings become part of a step's output
[ -x "$bin/busbar" ] || { echo "gpu tests: $bin/busbar does not exist; run: sh bootstrap/setup.sh --tests" >&2; exit 1; }

# program NAME - prints the path of a program; in a kit all programs are in one folder.
program() {
    for dir in "$bin" "$bin/tests/cuda" "$bin/tests/gpu" "$bin/tests/emulator"; do
        if [ -x "$dir/$1" ]; then echo "$dir/$1"; return; fi
    done
    echo "$bin/$1"
}

# list_absent_libraries PROGRAM... - prints the names of the libraries that the loader does not find.
list_absent_libraries() { ldd "$@" 2>/dev/null | awk '/not found/ { print $1 }' | sort -u; }

# folder_of LIBRARY - prints a folder with the library: of CUDA toolkits, Python wheels, also in virtual environments, and the kit, or
# else the first one in the file system.
folder_of() {
    for dir in /usr/local/cuda/lib64 /usr/local/cuda-*/lib64 /usr/lib/*-linux-gnu $(for s in $site; do echo "$s"/*/lib; done) \
        "${VIRTUAL_ENV:-/opt/venv}"/lib/python3*/*-packages/nvidia/*/lib /opt/*/lib/python3*/*-packages/nvidia/*/lib \
        /usr/lib/python3*/*-packages/nvidia/*/lib /usr/local/lib/python3*/*-packages/nvidia/*/lib "$here/lib"; do
        if [ -e "$dir/$1" ]; then echo "$dir"; return; fi
    done
    timeout 20 find / -xdev -name "$1" ! -path '*/stubs/*' 2>/dev/null | sed 's|/[^/]*$||' | head -n 1
}

# Extends LD_LIBRARY_PATH for CUDA and NCCL libraries that the loader does not find.
find_libraries() {
    site=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null || true)
    for library in $(list_absent_libraries "$bin/busbar" "$bin/busbar-rank" "$(program test_gpu_kernels)"); do
        dir=$(folder_of "$library")
        [ -z "$dir" ] || LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$dir
    done
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
}
find_libraries
missing=$(list_absent_libraries "$bin/busbar" "$bin/busbar-rank" | tr '\n' ' ')

# --- the machine: what can be repaired (/dev/shm, loopback), and what the results depend on ---

stop() { echo "gpu tests: $*" >&2; exit 1; }

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
"$(program gpu_machine)" >"$work/runtime" 2>"$work/reason"
case $? in
0) ;;
77)
    [ "$(count_gpus)" = 0 ] || stop "this machine has $(count_gpus) GPU(s), but CUDA finds none: is libcuda.so.1 in the library path, and is CUDA_VISIBLE_DEVICES='${CUDA_VISIBLE_DEVICES:-}' right?"
    echo "gpu tests: SKIPPED: no GPU found"
    exit 77
    ;;
*) stop "$(cat "$work/reason")" ;;
esac

# runtime KEY - prints a value of gpu_machine.
runtime() { sed -n "s/^$1	//p" "$work/runtime"; }

# shm_mib COLUMN - prints the size (2) or the free space (4) of /dev/shm in MiB.
shm_mib() { df -Pk /dev/shm 2>/dev/null | awk -v c="$1" 'NR == 2 { n = int($c / 1024) } END { print n + 0 }'; }

gpus=$(runtime gpus)
if [ "$(shm_mib 2)" -lt 2048 ]; then
    mount -o remount,size=8g /dev/shm 2>/dev/null || { mkdir -p /dev/shm && mount -t tmpfs -o size=8g tmpfs /dev/shm; } 2>/dev/null
fi
# MiB of /dev/shm for each rank and communicator: before 2.30.3, NCCL connects ranks on the same GPU only through sockets.
shm_each=$(runtime nccl | awk -F. '{ print ($1 * 10000 + $2 * 100 + $3 < 23003 ? 35 : 0) }')

# --- steps ---

child=
trap '[ -z "$child" ] || kill "$child" 2>/dev/null; exit 1' INT TERM HUP
mkdir "$work/output"
: >"$work/steps"
passed=0 failed=0 too_slow=0 skipped=0

seconds_left() { echo $((started + seconds - $(date +%s))); }

# awk functions: a JSON string, a JSON number or null.
quote='function quote(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[[:cntrl:]]/, " ", s); return "\"" s "\"" }
function number(s) { return s == "" ? "null" : s }'

# as_json FILE - converts lines "key<TAB>value" to members of a JSON object; numbers stay numbers.
as_json() {
    awk -F'\t' "$quote"'{ printf "%s%s: %s", (NR > 1 ? ", " : ""), quote($1), ($2 ~ /^-?[0-9]+(\.[0-9]+)?$/ ? $2 : quote($2)) }' "$1"
}

# save - writes the results of all steps so far, so that an interrupted run keeps them.
save() {
    cat "$work"/output/*.txt 2>/dev/null | awk '$1 == "metric" { print $2 "_" $4 "\t" $3 }' >"$work/metrics"
    {
        printf '{"machine": {%s},\n "metrics": {%s},\n "passed": %d, "failed": %d, "too_slow": %d, "skipped": %d, "seconds": %d,\n "steps": [' \
            "$(as_json "$work/machine")" "$(as_json "$work/metrics")" $passed $failed $too_slow $skipped $(($(date +%s) - started))
        awk -F'\t' "$quote"'{ printf "%s\n  {\"step\": %s, \"verdict\": %s, \"exit_status\": %s, \"expected\": %s, \"seconds\": %s}", (NR > 1 ? "," : ""),
            quote($1), quote($2), number($3), ($4 == "" ? "null" : quote($4)), number($5) }' "$work/steps"
        printf ']}\n'
    } >"$work/results.json" && cp "$work/results.json" "$out/results.json.new" && mv "$out/results.json.new" "$out/results.json"
    write_page >"$out/results.html.new" && mv "$out/results.html.new" "$out/results.html"
    tar -czf "$out/results.tar.gz.new" -C "$work" output results.json && mv "$out/results.tar.gz.new" "$out/results.tar.gz"
}

write_page() {
    echo '<!doctype html><meta charset="utf-8"><title>busbar on a GPU</title><style>body{font:15px sans-serif;max-width:60em;margin:2em auto}td,th{text-align:left;padding:.15em 1em .15em 0}.failed{background:#fbb}.too_slow{background:#ffb}.skipped{color:#777}</style>'
    echo "<h1>busbar on a GPU</h1><p>$passed passed, $failed failed, $too_slow too slow, $skipped skipped, $(($(date +%s) - started)) s</p>"
    escape='function e(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); return s }'
    for table in machine metrics; do
        echo "<h2>$table</h2><table>"
        awk -F'\t' "$escape"'{ print "<tr><td>" e($1) "<td>" e($2) }' "$work/$table"
        echo '</table>'
    done
    echo '<h2>steps</h2><table><tr><th>step<th>verdict<th>exit status<th>expected<th>seconds'
    awk -F'\t' "$escape"'{ print "<tr class=" $2 "><td>" e($1) "<td>" $2 "<td>" $3 "<td>" $4 "<td>" $5 }' "$work/steps"
    echo '</table><p>results.tar.gz contains the output of each step.'
}

# record NAME VERDICT EXIT EXPECTED SECONDS - adds a step to the results.
record() {
    printf '%s\t%s\t%s\t%s\t%s\n' "$@" >>"$work/steps"
    case $2 in passed) passed=$((passed + 1)) ;; failed) failed=$((failed + 1)) ;; too_slow) too_slow=$((too_slow + 1)) ;; skipped) skipped=$((skipped + 1)) ;; esac
    save
}

is_selected() { printf '%s\n' "$1" | grep -qE "$pattern"; }

skip() {
    is_selected "$1" || return 0
    echo "$1: SKIPPED: $2"
    record "$1" skipped "" "" 0
}

# reason_to_skip COMMAND... - prints why a step cannot run, or nothing.
communicators=1 # at most, of a rank
shared_ranks=yes
reason_to_skip() {
    [ "$1" = mpirun ] || return 0
    command -v mpirun >/dev/null || { echo "mpirun not found"; return 0; }
    case " $* " in *" --share-gpu "*) ;; *) return 0 ;; esac
    shm_needed=$(($3 * communicators * shm_each)) # of mpirun -n N
    if [ $shared_ranks = no ]; then
        echo "ranks cannot share a GPU here: see smoke.txt and smoke-debug.txt"
    elif [ "$(shm_mib 4)" -lt $shm_needed ]; then
        echo "NCCL needs $shm_needed MiB of /dev/shm, $(shm_mib 4) MiB are free; try: docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm"
    fi
}

# expect STATUS LIMIT NAME COMMAND... - runs a step with a time limit in seconds; it passes if it exits with STATUS. A step that exceeds
# the limit is too slow; but if STATUS is not 0, busbar should have ended the run, so the step failed.
# STATUS "any": the step is recorded without a verdict.
expect() {
    want=$1 limit=$2 name=$3
    shift 3
    is_selected "$name" || return 0
    reason=$(reason_to_skip "$@")
    [ -z "$reason" ] || { skip "$name" "$reason"; return 0; }
    [ "$limit" -le "$(seconds_left)" ] || limit=$(seconds_left)
    [ "$limit" -ge 5 ] || { skip "$name" "no time left"; return 0; }
    began=$(date +%s)
    (cd "$work/output" && exec timeout -k 5 "$limit" "$@") >"$work/output/$name.txt" 2>&1 </dev/null &
    child=$!
    wait $child
    status=$?
    child=
    took=$(($(date +%s) - began)) verdict=passed
    case $want-$status-$((took >= limit)) in
    any-*) verdict=recorded ;;
    "$want-$want-"*) ;;
    0-124-1 | 0-137-1) verdict=too_slow ;;
    *) verdict=failed ;;
    esac
    case $verdict in
    failed)
        echo "$name: FAILED (exit $status, expected $want), $took s"
        tail -n 12 "$work/output/$name.txt" | sed 's/^/    /'
        ;;
    too_slow) echo "$name: too slow, more than $limit s" ;;
    *) echo "$name: $verdict, $took s" ;;
    esac
    record "$name" $verdict $status "$want" $took
}

# --- MPS runs several processes on one GPU concurrently; without MPS they alternate in slices of milliseconds ---

mps=no
trap 'stop_mps; rm -rf "$work"' EXIT
start_mps() {
    command -v nvidia-cuda-mps-control >/dev/null || return 0
    export CUDA_MPS_PIPE_DIRECTORY="$work/mps" CUDA_MPS_LOG_DIRECTORY="$work/mps-log"
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    if timeout -k 2 20 nvidia-cuda-mps-control -d >"$work/output/mps.txt" 2>&1 && timeout -k 2 30 "$(program test_gpu_start_barrier)" >>"$work/output/mps.txt" 2>&1; then
        mps=yes
    else
        mps=refused
        stop_mps
    fi
}

stop_mps() {
    [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || return 0
    echo quit | timeout -k 2 20 nvidia-cuda-mps-control >>"$work/output/mps.txt" 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

# --- 1. the machine ---

describe_machine() {
    printf 'gpu\t%s\n' "$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)"
    cat "$work/runtime"
    printf 'shm\t%s MiB, %s MiB free\n' "$(shm_mib 2)" "$(shm_mib 4)"
    # shellcheck disable=SC3045
    printf 'locked memory\t%s KiB\n' "$(ulimit -l)"
    printf 'busbar\t%s\n' "$("$bin/busbar" --version 2>&1 | head -n 1)"
    printf 'libraries\t%s\n' "$(ldd "$bin/busbar-rank" | awk '/cudart|nccl|cublasLt|libmpi/ { printf "%s%s", d, $3; d = " " }')"
    printf 'mpirun\t%s\n' "$(mpirun --version 2>/dev/null | head -n 1)"
    printf 'system\t%s\n' "$(uname -srm)"
    printf 'emulated\t%s\n' "$(ldd "$bin/busbar-rank" | awk '/cudart/ { print $3 }' | xargs grep -q EMU_DEVICES && echo yes || echo no)"
    printf 'mps\t%s\n' $mps
}
describe_machine >"$work/machine"
cat "$work/machine"
busbar=$bin/busbar
collectives="all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv"
expect any 20 nvidia-smi nvidia-smi -q

# --- 2. the runtime and the kernels, no MPI ---

expect any 20 conformance sh -c "'$(program emu_conformance)' | diff '$conformance' - && echo 'same as the emulated GPUs'"
for test in kernels start_barrier layer busy gemm work; do expect 0 40 test-gpu-$test "$(program test_gpu_$test)"; done
expect 0 30 probe "$(program gpu_probe)"
cuda=$(runtime runtime | cut -d. -f1)
cublas=nvidia-cublas
[ "$cuda" -gt 12 ] || cublas=nvidia-cublas-cu$cuda
[ -z "$missing" ] || stop "libraries not found (the number is the CUDA version of the build): $missing; try: pip install $cublas nvidia-nccl-cu$cuda"
share="--share-gpu"
expect 0 40 smoke mpirun -n 2 "$busbar" bench all_reduce -b 8 -e 8 -n 1 --repeats 1 $share
if grep -qE "^smoke	(failed|too_slow)" "$work/steps"; then
    expect any 30 smoke-debug env NCCL_DEBUG=INFO mpirun -n 2 "$busbar" bench all_reduce -b 8 -e 8 -n 1 --repeats 1 $share
    shared_ranks=no
fi
if command -v compute-sanitizer >/dev/null; then
    for test in kernels layer; do
        expect 0 60 memcheck-$test compute-sanitizer --error-exitcode 9 --leak-check full "$(program test_gpu_$test)"
    done
else
    skip memcheck "compute-sanitizer not found"
fi

# --- 3. one rank ---

for registration in 0 1 2; do
    # shellcheck disable=SC2086
    expect 0 40 one-rank-R$registration "$busbar" bench $collectives -b 8 -e 1M -f 64 -n 5 -w 2 --mode all -R $registration --json one-rank-R$registration.json
done
expect 0 30 one-rank-types "$busbar" bench all_reduce -b 4K -e 4K -n 3 -d all -o all
expect 0 20 nccl-tests-name "$bin/all_reduce_perf" -b 8 -e 64K -f 16 -n 5 -J nccl-tests-name.json
expect 0 40 compute-quick "$busbar" bench compute --quick --json compute-quick.json
expect 0 40 compute-timed "$busbar" bench compute timed --max-error 2 --json compute-timed.json
expect 0 40 proxy-one-rank "$busbar" proxy data_parallel --model resnet18_cifar --sync all_reduce --compute gemm --scale-counts 0.01 --check --start-barrier --steps 3 --json proxy-one-rank.json
expect 0 40 proxy-slow-rank "$busbar" proxy data_parallel --model resnet18_cifar --compute gemm --scale-counts 0.01 --slow rank=0:1.5 --delay rank=0:1ms --steps 3 --json proxy-slow-rank.json
if [ -n "${NCCL_TESTS_BUILD:-}" ] && command -v mpirun >/dev/null; then
    expect 0 100 compare-with-nccl-tests python3 "$comparison" "$NCCL_TESTS_BUILD" --build "$bin" --rounds 3 --ranks 2 --operations all_reduce,all_gather,reduce_scatter,alltoall,sendrecv
else
    skip compare-with-nccl-tests "NCCL_TESTS_BUILD is not set, or mpirun was not found"
fi

# --- 4. ranks that share one GPU ---

start_mps
describe_machine >"$work/machine"
echo "MPS: $mps"
communicators=2
few="-n 2 --repeats 2 -w 1"
# shellcheck disable=SC2086
{
    expect 0 60 shared-2 mpirun -n 2 "$busbar" bench $collectives -b 8 -e 64K -f 64 $few $share --json shared-2.json
    expect 0 60 shared-3 mpirun -n 3 "$busbar" bench $collectives -b 8 -e 64K -f 64 $few $share --json shared-3.json
    expect 0 60 shared-types mpirun -n 2 "$busbar" bench all_reduce reduce_scatter -b 4K -e 4K $few -d all -o all $share
    expect 0 40 shared-modes mpirun -n 2 "$busbar" bench all_reduce sendrecv -b 1K -e 64K -f 64 $few --mode all $share --json modes.json
    expect 0 40 algorithms mpirun -n 2 "$busbar" bench all_reduce all_gather --sizes 1K,64K $few --sweep-algorithms $share --json algorithms.json
    expect 0 40 variants mpirun -n 2 "$busbar" bench all_gather --sizes 64K $few --sweep-variants plain,registered,symmetric,zero-sm,graph --with-gemm --gemm 256 $share --json variants.json
    expect 0 40 p2p mpirun -n 3 "$busbar" bench p2p --bandwidth-sizes 256K $few $share --json p2p.json
    expect 0 40 comm mpirun -n 2 "$busbar" bench comm --repeats 2 $share --json comm.json
    expect 0 40 overlap mpirun -n 2 "$busbar" bench overlap --sizes 256K --ctas default,1 --gemm 256 --repeats 3 $share --json overlap.json
}

# --- 5. proxies ---

communicators=6
step="--steps 2 --warmup 1 $share"
[ $mps = yes ] || step="--steps 1 --traced-steps 1 --warmup 1 $share" # each step takes many time slices
gpt="--model gpt2_small --layers 4 --seq-length 128"
# shellcheck disable=SC2086
{
    expect 0 100 proxies-quick mpirun -n 4 "$busbar" proxy all --quick --check $step --json proxies.json
    expect 0 40 proxy-gemm mpirun -n 2 "$busbar" proxy bert_large 2 2 2 --compute gemm --scale-counts 0.001 --dtype bfloat16 $step --trace gemm-trace.json
    expect 0 40 proxy-graph mpirun -n 2 "$busbar" proxy gpt2_large 2 2 2 --graph $step
    expect 0 40 proxy-one-step mpirun -n 8 "$busbar" proxy gpt3_one_pipe_step 2 --check --scale-counts 0.001 $step
    expect 0 40 transformer-tp-pp mpirun -n 4 "$busbar" proxy transformer $gpt --tp 2 --pp 2 --sequence-parallel --micro-batches 4 --check $step
    expect 0 40 transformer-interleaved mpirun -n 4 "$busbar" proxy transformer $gpt --pp 2 --vpp 2 --micro-batches 4 --dp-sync zero1 --scale-counts 0.1 --check $step
    expect 0 40 transformer-context mpirun -n 4 "$busbar" proxy transformer $gpt --cp 2 --micro-batches 2 --dp-sync zero3 --scale-counts 0.1 --check $step
    expect 0 40 transformer-experts mpirun -n 4 "$busbar" proxy transformer --model mixtral_8x7b --layers 2 --seq-length 128 --ep 4 --moe-imbalance 1 --micro-batches 2 --scale-counts 0.001 --check $step
    expect 0 40 transformer-gemm mpirun -n 4 "$busbar" proxy transformer $gpt --pp 4 --schedule zb-h1 --micro-batches 8 --compute gemm --scale-counts 0.01 --check $step
    expect 0 40 spatial mpirun -n 5 "$busbar" proxy spatial --model resnet110_v2 --image-size 64 --slice square --spatial-parts 4 --splits 2 --spatial-splits 1 --halo-bwd dx --check $step
    expect 0 40 gems mpirun -n 4 "$busbar" proxy gems --model resnet110_v2 --image-size 64 --splits 4 --replications 2 --check $step
    for sync in ps horovod zero3; do
        expect 0 40 data-parallel-$sync mpirun -n 3 "$busbar" proxy data_parallel --model resnet18_cifar --sync $sync --check $step
    done
    expect 0 30 scaling mpirun -n 2 "$busbar" proxy scaling --model resnet18_cifar --mode weak --batch 128 --epoch-steps 10 $share
}

# --- 6. faults: exit status as documented in the README; last, because a fault can break the MPS server for other steps ---

stop_mps
# script_with_signal SIGNAL - prints the path of a script that starts a run of two ranks, sends the signal to rank 1 (the child of
# its supervisor) during the measurement and exits with the status of the run. If the launcher exits with 137, the status of the
# killed rank, the error line decides.
script_with_signal() {
    cat >"$work/signal.sh" <<SCRIPT
rm -f "$work"/pid.*
mpirun -n 2 sh -c 'echo \$\$ >"$work/pid.\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}"; exec "\$@"' sh "$busbar" bench all_reduce -b 8 -e 64K -n 500 --repeats 5000 -T 10 $share >"$work/signal.txt" 2>&1 &
job=\$!
for i in \$(seq 200); do { grep -q 'busbw' "$work/signal.txt" || ! kill -0 \$job 2>/dev/null; } && break; sleep 0.1; done
sleep 2
if [ ! -s "$work/pid.1" ]; then cat "$work/signal.txt"; echo "rank 1 did not start"; kill \$job; exit 1; fi
read -r supervisor <"$work/pid.1"
kill -$1 \$(cat /proc/\$supervisor/task/\$supervisor/children)
wait \$job
status=\$?
cat "$work/signal.txt"
kill -KILL "\$(cat "$work/pid.1")" 2>/dev/null
ls /dev/shm/nccl-* 2>/dev/null && echo "files were left in /dev/shm"
if [ \$status = 137 ] && grep -q 'rank 1 .* is lost' "$work/signal.txt"; then status=4; fi
exit \$status
SCRIPT
    echo "$work/signal.sh"
}
communicators=2
for fault in stalled-rank:STOP killed-rank:KILL; do
    reason=$(reason_to_skip mpirun -n 2 $share)
    if [ -z "$reason" ]; then expect 4 60 "${fault%:*}" sh "$(script_with_signal "${fault#*:}")"; else skip "${fault%:*}" "$reason"; fi
done
expect 2 30 too-few-gpus mpirun -n $((gpus + 1)) "$busbar" bench all_reduce -b 8 -e 8

# --- 7. races in kernels (slow) ---

if command -v compute-sanitizer >/dev/null; then
    for tool in racecheck synccheck; do
        # The tool slows the test down, which may make it fail; only the tool's own exit status 9 counts.
        for test in layer busy; do
            expect 0 60 $tool-$test sh -c "compute-sanitizer --tool $tool --error-exitcode 9 '$(program test_gpu_$test)'; [ \$? != 9 ]"
        done
    done
fi

echo
echo "$passed passed, $failed failed, $too_slow too slow, $skipped skipped in $(($(date +%s) - started)) s: $out/results.html"
[ $failed = 0 ]
