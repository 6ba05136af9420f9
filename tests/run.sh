#!/bin/sh
# run.sh - installs missing tools, builds, and runs all tests that require no GPU:
#   1. setup decisions for other machines (tests/fresh)
#   2. unit tests and black-box tests of the release build, some also with MPICH
#   3. quick selections of the fault injection tests (tests/fault_injection/run.sh), the second one under a real Slurm
#   4. unit tests and some black-box tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   5. at the same time as 2 to 4: cppcheck and the warnings of clang, which compiles 4 (tests/analysers has more analysers), the fuzz
#      targets on their seeds (tests/fuzz), the offline tools on 64-bit Arm in qemu, the format of the sources, and the black-box tests of 4
# `sh tests/run.sh --quick` runs 1 to 3 without Slurm, other MPIs and other NCCLs, and of the black-box tests those of
# `pytest tests/cli --quick` (a third of their time). The last line counts passed, failed and skipped tests.
set -u
cd "$(dirname "$0")/.."
quick=${1:-}
. bootstrap/mpi.sh
passed=0 failed=0 skipped=0
workers=$(($(getconf _NPROCESSORS_ONLN) * 2)) # jobs mostly wait, for their start and for other ranks
[ "$workers" -le 8 ] || workers=8
logs=$(mktemp -d)
began_s=$(date +%s)
ahead= # process group of begin_checks
trap '[ -z "$ahead" ] || kill -- -"$ahead"; rm -rf "$logs"' EXIT
trap 'exit 1' HUP INT TERM
export logs TMPDIR="$logs" # a killed mpirun leaves session files, which each later mpirun would scan
export PYTHONPYCACHEPREFIX="$logs/pycache" # no __pycache__ in the source tree
unset PYTHONDONTWRITEBYTECODE # images for containers set it; without the cache each worker compiles the test files (8 s of CPU time)
# Open MPI 4: an mpirun fails if another one creates or removes this folder at the same time. Each mpirun removes the files in it and then
# the folder, unless it contains a folder.
host=$(uname -n)
mkdir -m 700 "$logs/ompi.${host%%.*}.$(id -u)" "$logs/ompi.${host%%.*}.$(id -u)/kept"
# Without PCI devices in hwloc's topology: in a virtual machine, reading them takes a third of the CPU time of each mpirun.
export HWLOC_COMPONENTS=-pci,-linuxio

heading() {
    echo "== $1, after $(($(date +%s) - began_s)) s"
}

# count PASSED FAILED SKIPPED - adds to the totals.
count() {
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# number REGEX FILE - prints the number before the last match of the word, or 0.
number() {
    n=$(grep -oE "[0-9]+ $1" "$2" | tail -n 1 | cut -d' ' -f1)
    echo "${n:-0}"
}

units() {
    heading "unit tests ($1)"
    status=0
    # twice the workers: the longest tests only wait for timeouts
    ctest --test-dir "$1" --output-on-failure --timeout 300 -j $((workers * 2)) >"$logs/ctest" 2>&1 || status=$?
    sed -n '/Test *#/p' "$logs/ctest" | grep -vE 'Passed' || true
    bad=$(grep -cE 'Test +#.*(\*\*\*Failed|\*\*\*Timeout|\*\*\*Exception|\*\*\*Not Run)' "$logs/ctest")
    left=$(grep -cE 'Test +#.*\*\*\*Skipped' "$logs/ctest")
    good=$(grep -cE 'Test +#.* Passed' "$logs/ctest")
    if [ $status != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    [ "$bad" = 0 ] || sed -n '1,400p' "$logs/ctest"
    count "$good" "$bad" "$left"
    echo "$good passed, $bad failed, $left skipped"
}

black_box() {
    heading "black-box tests ($1)"
    status=0
    build=$1; shift
    BUSBAR_BUILD=$PWD/$build python3 -m pytest -q -p no:cacheprovider -rs -n "$workers" tests/cli "$@" >"$logs/pytest" 2>&1 || status=$?
    count_pytest
}

# Prints and counts the output of a pytest that ended with exit status $status.
count_pytest() {
    cat "$logs/pytest"
    bad=$(($(number failed "$logs/pytest") + $(number error "$logs/pytest")))
    if [ $status != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    count "$(number passed "$logs/pytest")" "$bad" "$(number skipped "$logs/pytest")"
}

# script FILE [ARGUMENT...] - runs a test script that prints its own counts; exit status 77: skipped, the output is the reason.
script() {
    heading "$*"
    status=0
    sh "$@" >"$logs/script" 2>&1 || status=$?
    cat "$logs/script"
    if [ $status = 77 ]; then count 0 0 1; return; fi
    bad=$(number failed "$logs/script")
    if [ $status != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    count "$(number passed "$logs/script")" "$bad" 0
}

# step NAME COMMAND... - runs one check; exit status 77: skipped, the last line of the output is the reason.
step() {
    heading "$1"
    shift
    status=0
    "$@" >"$logs/step" 2>&1 || status=$?
    case $status in
    0) count 1 0 0 ;;
    77) echo "SKIPPED: $(tail -n 1 "$logs/step")"; count 0 0 1 ;;
    *) tail -n 60 "$logs/step"; count 0 1 0 ;;
    esac
}

# Checks that need few waits run in the background, at low priority and one after the other, while tests wait for their ranks.
# Output: $logs/NAME, exit status: $logs/NAME.status.
begin_checks() {
    # shellcheck disable=SC2016
    setsid nice -n 19 sh -c '
        check() { name=$1; shift; "$@" >"$logs/$name" 2>&1; echo $? >"$logs/$name.status"; }
        check sanitize sh bootstrap/setup.sh --tests sanitize
        check cppcheck sh tests/analysers/run.sh cppcheck
        check fuzz sh tests/fuzz/run.sh --quick
        for name in sanitize fuzz; do [ "$(cat "$logs/$name.status")" != 0 ] || CLANG_BUILDS="${CLANG_BUILDS:-} build-$name"; done
        export CLANG_BUILDS
        check clang sh tests/analysers/run.sh clang
        check aarch64 sh tests/cross/aarch64.sh build/busbar
        check format sh tests/analysers/format.sh
        [ "$(cat "$logs/sanitize.status")" != 0 ] ||
            check smoke env BUSBAR_BUILD="$PWD/build-sanitize" UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0:exitcode=99 \
                python3 -m pytest -q -p no:cacheprovider -rs -n 4 tests/cli -m smoke' &
    ahead=$!
}

# Waits for the check NAME of begin_checks. Returns its exit status.
end_check() {
    while ! [ -s "$logs/$1.status" ] && kill -0 "$ahead" 2>"$logs/kill"; do sleep 0.2; done
    cat "$logs/$1"
    return "$(cat "$logs/$1.status" || echo 1)"
}

# No test below runs device code, so it is compiled only for an architecture with all number formats and, in the build with
# sanitizers, for the oldest one. tests/gpu/pack.sh builds it for all architectures.
CUDAARCHS=90-virtual sh bootstrap/setup.sh --tests release || exit 1
use_build_folder # with the tools that setup has just installed
[ "$quick" = --quick ] || step "programs for MPICH, for tests/cli/test_mpi.py" sh bootstrap/setup.sh mpich
[ "$quick" = --quick ] || step "the oldest and the newest NCCL, for tests/cli/test_real_nccl.py" sh tests/cli/real_nccl.sh build/real_nccl
[ "$quick" = --quick ] || begin_checks
# pytest compiles the test files in 6 s of CPU time. Each worker would do so again, without the files that this command leaves in the cache.
python3 -m pytest -q -p no:cacheprovider --collect-only tests/cli >"$logs/collected" 2>&1 &
script tests/fresh/test_setup.sh
step "words of the former jargon" python3 tests/analysers/language.py
units build
black_box build ${quick:+"$quick"}
script tests/fault_injection/run.sh --quick
[ "$quick" = --quick ] || script tests/fault_injection/run.sh --slurm
if [ "$quick" != --quick ]; then
    # Leak detection is on for processes without MPI (cmake/UnitTest.cmake).
    export UBSAN_OPTIONS=print_stacktrace=1
    if end_check sanitize; then
        # The release build runs ten times as many rounds; the fuzz targets run under the sanitizers.
        FUZZ_ROUNDS=2000 ASAN_OPTIONS=detect_leaks=1:exitcode=99 units build-sanitize
        heading "black-box tests (build-sanitize)"
        status=0
        end_check smoke >"$logs/pytest" 2>&1 || status=$?
        count_pytest
    else count 0 1 0; fi
    step "cppcheck" end_check cppcheck
    step "clang's warnings" end_check clang
    step "every fuzz target for one second" end_check fuzz
    step "the offline tools on aarch64" end_check aarch64
    step "source format" end_check format
    ahead=
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
