#!/bin/sh
# run.sh - runs static analysers on the sources and dynamic analysers on emulated GPUs.
#
#   sh tests/analysers/run.sh [TOOL...]      default: all. Static: clang cppcheck fanalyzer tidy. Dynamic: integer tsan memcheck helgrind
#
# Requires a configured build/ (sh bootstrap/setup.sh --tests). Prints one line per tool with the number of findings and of those
# that suppressions.txt suppresses (with a reason each), then the remaining findings. Logs are in build-analysers/.
# Exit status: 0 no findings remain, 1 findings remain, 77 none of the requested tools is installed. A missing tool is skipped.
set -u
cd "$(dirname "$0")/../.."
. bootstrap/mpi.sh
logs=build-analysers
mkdir -p $logs
root=$PWD
cores=$(getconf _NPROCESSORS_ONLN)
rm -f $logs/*.verdict

skip() {
    echo "$1: SKIPPED: $2"
}

# judge TOOL - reads FILE:LINE: [CHECK] TEXT from stdin, counts the findings and prints those without a suppression. The verdict is
# written to a file, because the end of a pipe is a separate process.
judge() {
    sed "s,$root/,,g; s,^\.\./,," | sort -u >$logs/"$1".findings
    awk -v tool="$1" '
        FNR == NR { if ($0 !~ /^#/ && NF >= 4) { n++; t[n] = $1; f[n] = $2; c[n] = $3 } next }
        { all++; suppressed = 0
          for (i = 1; i <= n; i++) if ((t[i] == tool || t[i] == "*") && $0 ~ f[i] && index($0, c[i])) { suppressed = 1; used[i] = 1 }
          if (suppressed) n_suppressed++; else open[++m] = $0 }
        END { printf "%s: %d findings, %d suppressed, %d remain\n", tool, all, n_suppressed, m
              for (i = 1; i <= m; i++) print "  " open[i]
              exit m > 0 }' tests/analysers/suppressions.txt $logs/"$1".findings && verdict=clean || verdict=open
    echo $verdict >$logs/"$1".verdict
}

sources() {
    git ls-files 'bootstrap/*.c' 'collectives/*.c' 'cuda/*.c' 'proxies/*.c' busbar.c busbar_rank.c
}

# commands EXTRA - prints the compile command of each source of busbar with the EXTRA options and without output, one per line.
commands() {
    sed -n 's/^ *"command": "\(.*\)",*$/\1/p' build/compile_commands.json | sed 's/\\"/"/g; s/\\\\/\\/g' |
        grep -E ' -c (\S*/)?(bootstrap|collectives|cuda|proxies)/\S*\.c$| -c \S*busbar(_rank)?\.c$' | grep -v '/tests/' | sort -u |
        sed "s, -o [^ ]*, -o /dev/null $1,; s, -Werror,,; s,^[^ ]*ccache ,,"
}

# compiled FOLDER... - prints the sources that clang has compiled in these build folders.
compiled() {
    for build in "$@"; do
        ! grep -qE '"command": "([^ ]*ccache )?[^ ]*clang' "$build/compile_commands.json" ||
            sed -n 's/^ *"command": ".* -o \([^ ]*\) -c \(.*\)",*$/\1 \2/p' "$build/compile_commands.json" |
            while read -r object file; do [ ! -f "$build/$object" ] || echo " $file"; done
    done
}

# The warnings of clang for all C and C++ files, also those of the tests, with the options of the gcc build. CLANG_BUILDS names build
# folders whose sources are left out if clang has compiled them (tests/run.sh: those that it has just built with -Wall -Wextra -Werror).
run_clang() {
    command -v clang >/dev/null || { skip clang "not found"; return; }
    # shellcheck disable=SC2086
    compiled ${CLANG_BUILDS:-} >$logs/compiled
    sed -n 's/^ *"command": "\(.*\)",*$/\1/p' build/compile_commands.json | sed 's/\\"/"/g; s/\\\\/\\/g' |
        grep -E '\.(c|cpp)$' | grep -vF -f $logs/compiled | sort -u | sed "s,^[^ ]*ccache ,,; s, -o [^ ]*, -fsyntax-only -Wno-unknown-warning-option,
            s,^[^ ]*++ ,clang++ ,; /^clang++ /!s,^[^ ]* ,clang ," >$logs/commands
    (cd build && xargs -r -d '\n' -P "$cores" -n 1 sh -c <"$root/$logs/commands") >$logs/clang.log 2>&1
    sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: \(fatal \)*\(error\|warning\): \(.*\)$/\1: [\3] \4/p' $logs/clang.log | judge clang
}

run_cppcheck() {
    command -v cppcheck >/dev/null || { skip cppcheck "not found"; return; }
    # shellcheck disable=SC2046
    cppcheck -q -j "$cores" --std=c11 --enable=warning,performance,portability -DBB_ANALYSER -D_GNU_SOURCE \
        "-DBUSBAR_VERSION=\"x\"" "-Djson_object_foreach(o,k,v)=while(next_of(o,&k,&v))" \
        "-Djson_array_foreach(a,i,v)=while(next_of(a,&i,&v))" -I. --template='{file}:{line}: [{id}] {message}' $(sources) 2>&1 |
        grep -E '^[a-z_/]+\.c:[0-9]+: ' | judge cppcheck
}

run_fanalyzer() {
    gcc -fanalyzer -x c -c /dev/null -o /dev/null 2>/dev/null || { skip fanalyzer "gcc does not support -fanalyzer"; return; }
    commands "-fanalyzer -DBB_ANALYSER" >$logs/commands
    (cd build && xargs -d '\n' -P "$cores" -n 1 sh -c <"$root/$logs/commands") >$logs/fanalyzer.log 2>&1
    sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: warning: \(.*\) \[-Wanalyzer-\([a-z-]*\)\]$/\1: [\3] \2/p' $logs/fanalyzer.log | judge fanalyzer
}

run_tidy() {
    command -v clang-tidy >/dev/null || { skip tidy "clang-tidy not found"; return; }
    sources | xargs -P "$cores" -n 6 clang-tidy -p build --quiet --config-file=tests/analysers/clang-tidy.yaml >$logs/tidy.log 2>/dev/null
    sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: warning: \(.*\) \[\([a-zA-Z0-9.,-]*\)\]$/\1: [\3] \2/p' $logs/tidy.log | judge tidy
}

# ---- runs ----

# emulated BUILD COMMAND... - runs a command on the emulated GPUs of a build folder.
emulated() {
    (
        build=$root/$1
        shift
        LD_LIBRARY_PATH=$build/emulator EMU_TWINS=$build/emulator/busbar-twins.so EMU_QUIET=1 EMU_DEVICES=2
        export LD_LIBRARY_PATH EMU_TWINS EMU_QUIET EMU_DEVICES
        timeout 300 "$@"
    ) >>$logs/runs.log 2>&1
}

BENCH="bench all_reduce sendrecv -b 8 -e 1K -f 16 -n 2 -w 1 --repeats 2"
PROXY="proxy gpt2_large 4 2 2 --scale-counts 0.001 --steps 2 --warmup 1 --traced-steps 1 --check --no-alone"

# build_preset PRESET TARGET... - configures the preset if necessary and builds the targets.
build_preset() {
    preset=$1
    shift
    # shellcheck disable=SC2046
    { [ -f build-"$preset"/build.ninja ] || cmake --preset "$preset" $(sed 1d build/setup.flags 2>/dev/null); } >$logs/build.log 2>&1 &&
        cmake --build build-"$preset" --target "$@" >>$logs/build.log 2>&1
}

# Prints one finding per ThreadSanitizer report: the first frame in the sources of busbar.
tsan_reports() {
    cat $logs/tsan.[0-9]* 2>/dev/null | awk '
        /^WARNING: ThreadSanitizer: / { kind = $0; sub(/.*Sanitizer: /, "", kind); sub(/ \(pid.*/, "", kind); printed = 0 }
        kind && !printed && match($0, /(bootstrap|collectives|cuda|proxies|tests)\/[a-z_\/.0-9]+:[0-9]+/) {
            print substr($0, RSTART, RLENGTH) ": [" kind "] " $2; printed = 1 }
        /^SUMMARY: / { if (!printed && kind) print "elsewhere:0: [" kind "] " $0; kind = "" }'
}

run_tsan() {
    tests="test_rank_page test_serve test_supervise test_wait test_results test_progress"
    # shellcheck disable=SC2086
    build_preset tsan busbar busbar_rank emulator $tests || { tail -n 20 $logs/build.log; echo open >$logs/tsan.verdict; return; }
    rm -f $logs/tsan.[0-9]*
    export TSAN_OPTIONS="exitcode=0 ignore_noninstrumented_modules=1 log_path=$root/$logs/tsan"
    # shellcheck disable=SC2086
    emulated build-tsan mpirun -n 2 build-tsan/busbar $BENCH --json $logs/tsan.json
    # shellcheck disable=SC2086
    emulated build-tsan mpirun -n 2 build-tsan/busbar $PROXY --trace $logs/tsan.trace --json $logs/tsan.json
    # The supervisors end a run with a stalled rank and a run with a lost rank.
    for fault in stall:rank=1,call=9,name=ncclAllReduce die:rank=1,call=9,name=ncclAllReduce; do
        # shellcheck disable=SC2086
        EMU_FAULT=$fault emulated build-tsan mpirun -n 2 build-tsan/busbar $BENCH -T 3 --json $logs/tsan.json
    done
    for test in $tests; do
        emulated build-tsan "$(find build-tsan/tests -name "$test" -type f)"
    done
    unset TSAN_OPTIONS
    tsan_reports | judge tsan
}

# All integer checks of clang, including conversions and unsigned arithmetic, on the unit tests of the offline tools.
run_integer() {
    command -v clang >/dev/null || { skip integer "clang not found"; return; }
    build_preset integer all || { tail -n 20 $logs/build.log; echo open >$logs/integer.verdict; return; }
    UBSAN_OPTIONS=log_path=$root/$logs/integer ctest --test-dir build-integer -j "$cores" >>$logs/runs.log 2>&1
    cat $logs/integer.[0-9]* 2>/dev/null | sed -n 's/^\([^ ]*:[0-9]*\):[0-9]*: runtime error: \(.*\)$/\1: [integer] \2/p' |
        grep -v '^\(\.\./\)*tests/' | sed 's/\] [-0-9]* *\(.*overflow\|.*shift\).*/] \1/; s/ of value .*//' | judge integer
    rm -f $logs/integer.[0-9]*
}

# Emulated kernels run on separate stacks, which valgrind reports as stack errors; under valgrind kernels therefore do nothing.
valgrind_on_gpu() {
    EMU_DATA=off EMU_UNKNOWN_KERNELS=pass
    export EMU_DATA EMU_UNKNOWN_KERNELS
    emulated build env -u EMU_TWINS "$@" -c 0 --start-barrier 0
    unset EMU_DATA EMU_UNKNOWN_KERNELS
}

# valgrind_reports PREFIX - prints one finding per valgrind report that has a frame in busbar.
valgrind_reports() {
    cat "$1".[0-9]* 2>/dev/null | sed 's/^==[0-9]*== //' | awk '
        /^(Possible data race|Thread #.*lock|Conditional|Use of|Invalid|Syscall|Mismatched|Source and)/ { kind = $0; printed = 0 }
        /^[0-9,]+ .*bytes in .* lost/ { kind = "leak"; printed = 0 }
        /^(Address|This conflicts|Required order|HEAP|LEAK|ERROR)/ { kind = "" }
        kind && !printed && /\(in [^)]*\/(busbar|busbar-rank)\)/ {
            sub(/ at 0x.*/, "", kind); print $3 ":0: [" kind "]"; printed = 1 }'
}

run_memcheck() {
    command -v valgrind >/dev/null || { skip memcheck "valgrind not found"; return; }
    rm -f $logs/memcheck.[0-9]*
    # shellcheck disable=SC2089
    tool="valgrind --error-exitcode=0 --leak-check=full --errors-for-leak-kinds=definite --log-file=$root/$logs/memcheck.%p"
    # shellcheck disable=SC2086,SC2090
    {
        emulated build $tool build/busbar plan gpt2_large 4 2 2 --ranks 8 --json /dev/null --ops
        emulated build $tool build/busbar plan transformer --model mixtral_8x7b --layers 2 --ranks 32 --ep 8 --moe-imbalance 0.7 \
            --cluster tests/fuzz/corpus/cluster/fabric --slow rank=5:1.1,link=node1-nic3:0.5 --json /dev/null
        emulated build $tool build/busbar plan transformer --model gpt2_small --ranks 4 --global-batch-size 4 \
            --cluster h100-sxm-ib --best-layout --threads 2
        emulated build $tool build/busbar calibrate tests/fuzz/corpus/nccl_tests_text/h100 -o $logs/memcheck-cluster.json
        emulated build $tool build/busbar compare tests/fuzz/corpus/compare/proxy tests/fuzz/corpus/compare/proxy
        emulated build $tool build/busbar sweep profiles/studies/nccl-choices.json --list
        valgrind_on_gpu $tool build/busbar $BENCH --json $logs/memcheck.json
    }
    valgrind_reports $logs/memcheck | judge memcheck
}

run_helgrind() {
    command -v valgrind >/dev/null || { skip helgrind "valgrind not found"; return; }
    rm -f $logs/helgrind.[0-9]*
    # shellcheck disable=SC2086
    valgrind_on_gpu valgrind --tool=helgrind --log-file=$root/$logs/helgrind.%p build/busbar $BENCH --json $logs/helgrind.json
    valgrind_reports $logs/helgrind | judge helgrind
}

[ -f build/compile_commands.json ] || { echo "build/ is not configured; run: sh bootstrap/setup.sh --tests"; exit 77; }
for tool in ${*:-clang cppcheck fanalyzer tidy integer tsan memcheck helgrind}; do
    case $tool in
    clang | cppcheck | fanalyzer | tidy | integer | tsan | memcheck | helgrind) run_$tool ;;
    *) echo "unknown tool '$tool'; available: clang cppcheck fanalyzer tidy integer tsan memcheck helgrind" >&2; exit 2 ;;
    esac
done
ls $logs/*.verdict >/dev/null 2>&1 || exit 77
! grep -q open $logs/*.verdict
