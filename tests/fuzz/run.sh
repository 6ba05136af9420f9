#!/bin/sh
# run.sh - runs the fuzz targets, which cover all parsers and the messages between ranks, supervisors and the results writer, under
# libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   sh tests/fuzz/run.sh [MINUTES [TARGET...]]     the targets in parallel, MINUTES in total (default: 1; default: all targets)
#   sh tests/fuzz/run.sh --quick                   the seeds and one second of each target, as in tests/run.sh
#
# Seeds are in corpus/TARGET and in profiles/. New inputs are stored in build-fuzz/corpus, which can be deleted. An input that
# crashes a target is stored as build-fuzz/TARGET-crash-*: fix the bug, and add the input to the seeds.
# Exit status: 0 no finding, 1 findings, 77 no clang with libFuzzer.
set -u
cd "$(dirname "$0")/../.."

# target | sources whose string literals form the dictionary | additional seeds
targets() {
    cat <<'TABLE'
formula||
matrix||
numbers||
cluster|proxies/simulation/machine/cluster.c proxies/simulation/machine/collective_time.c proxies/simulation/machine/fabric.c|profiles/clusters
config_json|proxies/workloads/transformer/arch/arch_load.c proxies/workloads/transformer/arch/arch_types.c|profiles/models
model_file|proxies/form/models/model_file.c proxies/form/models/residual.c proxies/form/models/transformer_model.c proxies/workloads/spatial/net/net.c|profiles/models
plan_model|proxies/workloads/transformer/arch/arch_load.c proxies/workloads/transformer/arch/arch_types.c proxies/form/models/residual.c|profiles/models
compare|collectives/compare/result_reader.c collectives/compare/provenance.c|
study|bootstrap/sweep/study.c bootstrap/sweep/expand.c|profiles/studies
sweep_results|bootstrap/sweep/state.c bootstrap/sweep/collect.c bootstrap/sweep/view.c|
bench_words|collectives/sweep/bench_options.c collectives/p2p/p2p_options.c collectives/overlap/overlap_options.c|
step_words|proxies/plan_main.c proxies/simulation/machine/slow.c proxies/workloads/registry/proxy_options.c proxies/workloads/transformer/transformer_options.c proxies/workloads/sync/sync_options.c proxies/workloads/spatial/tiles_options.c|
nccl_tests_words|collectives/nccl_tests/nccl_tests_options.c|
nccl_tests_text|collectives/compare/nccl_tests_text.c proxies/offline/calibrate/measurements/measurement_rows.c|
baseline|proxies/runner/scaling/scaling_report.c|
environment|bootstrap/start/launcher.c bootstrap/world/siblings.c|
interfaces||
star_visitor||
star_peer||
star_dial||
rank_messages||
results_requests|bootstrap/results/serve.c bootstrap/results/writer.c|
plugins|collectives/session/tuner.c|
TABLE
}

minutes=${1:-1}
[ $# -eq 0 ] || shift
build=build-fuzz
if ! command -v clang >/dev/null; then
    echo "no fuzzing: clang not found"
    exit 77
fi
if ! echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0 * (d && n); }' |
    clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null; then
    echo "no fuzzing: clang has no libFuzzer"
    exit 77
fi
case $minutes in --*) flags='-O0 -g1' ;; *) flags='-O1 -g' ;; esac # building takes longer than one second of each target
linker=
! command -v ld.lld >/dev/null || linker=-fuse-ld=lld # GNU ld takes 0.6 s for each target
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2046
if ! cmake --preset fuzz $(sed 1d build/setup.flags 2>/dev/null) "-DCMAKE_C_FLAGS_DEBUG=$flags" "-DCMAKE_EXE_LINKER_FLAGS=$linker" >"$log" 2>&1 || ! cmake --build $build --target fuzz >>"$log" 2>&1; then
    tail -n 60 "$log"
    exit 1
fi

wanted=$(targets | cut -d'|' -f1)
for target in $wanted; do
    [ -x $build/tests/fuzz/fuzz_"$target" ] || echo "$target: SKIPPED: not built, NCCL not found"
done
wanted=${*:-$wanted}
cores=$(getconf _NPROCESSORS_ONLN)
if [ "$minutes" = --quick ]; then seconds=1; else
    seconds=$((minutes * 60 * cores / $(echo "$wanted" | wc -w)))
fi
mkdir -p $build/corpus

# fuzz TARGET SOURCES SEEDS - runs one target; output goes to build-fuzz/TARGET.log.
fuzz() {
    out=$build/corpus/$1
    mkdir -p "$out"
    # The string literals of a parser are the words that it accepts.
    # shellcheck disable=SC2086
    [ -z "$2" ] || grep -ohE '"[A-Za-z0-9_.+-]{2,40}"' $2 | sort -u >$build/"$1".dict
    # shellcheck disable=SC2046,SC2086
    env -u SLURM_JOB_ID -u SLURM_STEP_ID UBSAN_OPTIONS=print_stacktrace=1 \
        $build/tests/fuzz/fuzz_"$1" -max_total_time=$seconds -timeout=100 -rss_limit_mb=3000 -close_fd_mask=3 -verbosity=1 \
        -print_final_stats=1 -reload=0 -artifact_prefix=$build/"$1"- $([ -z "$2" ] || echo -dict=$build/"$1".dict) \
        "$out" tests/fuzz/corpus/"$1" $3 >$build/"$1".log 2>&1 </dev/null || touch $build/"$1".found
}

rm -f $build/*.found $build/*.log
running=0
for target in $wanted; do
    [ -x $build/tests/fuzz/fuzz_"$target" ] || continue
    row=$(targets | grep "^$target|") || { echo "unknown target '$target'; known: $(targets | cut -d'|' -f1 | tr '\n' ' ')"; exit 2; }
    sources=${row#*|}
    fuzz "$target" "${sources%|*}" "${row##*|}" &
    running=$((running + 1))
    if [ $((running % cores)) = 0 ]; then wait; fi
done
wait

total=0 found=0
for target in $wanted; do
    [ -f $build/"$target".log ] || continue
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' $build/"$target".log)
    edges=$(sed -n 's/.*[[:space:]]cov: \([0-9]*\).*/\1/p' $build/"$target".log | tail -n 1)
    total=$((total + ${runs:-0}))
    if [ -f $build/"$target".found ]; then
        found=$((found + 1)) verdict=FOUND
    else verdict=ok; fi
    printf '%-17s %9s inputs  %5s edges  %s\n' "$target" "${runs:-?}" "${edges:-?}" $verdict
    [ $verdict = ok ] || grep -vE '^#[0-9]+|^stat::' $build/"$target".log | tail -n 40
done
echo "$total inputs, $found targets with a finding"
[ $found = 0 ]
