#!/bin/sh
# setup.sh - installs missing dependencies, then configures and builds busbar.
#
#   sh bootstrap/setup.sh --report                             installs plotly for busbar report, and builds nothing
#   sh bootstrap/setup.sh [--demo | --tests] [PRESET...]       presets: release (default), debug, sanitize,
#                                                              mpich (build/ must exist, with --tests; adds programs for MPICH to it)
#
# By default, setup.sh builds the program for all supported GPUs, and the emulated GPUs. --tests also builds the unit tests.
# --demo builds less, but the build can be installed: device code only for this machine's GPUs, and the emulated GPUs only if
# there is no GPU. CUDAARCHS (CMake's variable) selects the architectures of the device code. Installed dependencies are not
# changed; packages.sh describes how missing ones are installed.
set -eu
cd "$(dirname "$0")/.."
. bootstrap/packages.sh

goal=program presets=
for word in "$@"; do
    case $word in
    --demo | --tests | --report) goal=${word#--} ;;
    release | debug | sanitize | mpich) presets="$presets $word" ;;
    *) echo "setup: unknown argument '$word'; expected --demo, --tests, --report, release, debug, sanitize or mpich" >&2; exit 2 ;;
    esac
done

# choose_architectures - prints the CUDA architectures of this machine's GPUs, or a single architecture if there is no GPU.
# If the architectures are unknown or nvcc does not support them, prints nothing, which selects the list of
# cmake/CudaArchitectureList.cmake.
choose_architectures() {
    if [ "$(count_gpus)" = 0 ]; then echo 80-virtual; return; fi
    nvcc=${CMAKE_FLAGS#*-DCMAKE_CUDA_COMPILER=}
    known=$("${nvcc%% *}" --list-gpu-code 2>/dev/null || true)
    list=
    for code in $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u); do
        case $known in *"sm_$code"*) list="$list${list:+;}$code-real" ;; *) return ;; esac
    done
    echo "$list"
}

# clang compiles the build with sanitizers in less time than gcc, and its warnings are checked at the same time.
clang_has_sanitizers() {
    echo 'int main() { return 0; }' | clang++ -fsanitize=address -shared-libasan -x c++ - -o /dev/null 2>/dev/null
}

# configure PRESET FOLDER - runs CMake, unless the folder is already configured with the same dependencies for this goal or, with
# device code for all architectures, for a goal that includes this goal ("tests" includes "program", which includes "demo").
configure() {
    list=${CUDAARCHS:-}
    case $goal in
    tests) wanted="3 -DBUSBAR_TESTS=ON" ;;
    program) wanted="2 -DBUSBAR_TESTS=OFF" ;;
    demo)
        list=${list:-$(choose_architectures)} emulated=ON
        [ "$(count_gpus)" = 0 ] || emulated=OFF
        wanted="1 -DBUSBAR_TESTS=OFF -DBUSBAR_EMULATED=$emulated"
        ;;
    esac
    if [ "$1" = sanitize ] && clang_has_sanitizers; then
        wanted="$wanted -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CUDA_HOST_COMPILER=clang++"
        wanted="$wanted -DCMAKE_CUDA_FLAGS=-allow-unsupported-compiler" # nvcc rejects versions of clang that are newer than nvcc
        ! command -v ld.lld >/dev/null || wanted="$wanted -DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld" # half of the time of GNU ld
    fi
    all=$wanted
    [ -z "$list" ] || wanted="$wanted -DCMAKE_CUDA_ARCHITECTURES=$list"
    if [ -f "$2/build.ninja" ] && [ -f "$2/setup.flags" ]; then
        # Older versions of setup.sh wrote a single line without newline, which never matches.
        had=$(sed -n 1p "$2/setup.flags")
        if [ "$(sed 1d "$2/setup.flags")" = "$CMAKE_FLAGS" ]; then
            case $had in
            "$wanted" | "$all") return ;;
            *ARCHITECTURES*) ;;
            *) if [ "${had%% *}" -gt "${wanted%% *}" ] 2>/dev/null; then return; fi ;;
            esac
        fi
    fi
    rm -f "$2/CMakeCache.txt" "$2/setup.flags"
    # shellcheck disable=SC2086
    run_step configure "configuring $2/" cmake --preset "$1" $CMAKE_FLAGS ${wanted#* }
    printf '%s\n%s\n' "$wanted" "$CMAKE_FLAGS" >"$2/setup.flags"
}

# build FOLDER [TARGET] - builds the folder; on failure, prints the output of the failed steps and exits.
build() {
    begin_step "building $1/"
    { NINJA_STATUS='[%f/%t] ' cmake --build "$1" ${2:+--target "$2"} 2>&1 && echo 0 >"$1/build.status" || echo 1 >"$1/build.status"; } |
        count_progress >"$1/build.log"
    if [ "$(cat "$1/build.status")" = 0 ]; then end_step ''; else
        end_step ', FAILED'
        grep -v '^\[[0-9]*/[0-9]*\] ' "$1/build.log" | tail -n 60 >&2 # omits successful steps
        stop "building $1 failed (full output: $1/build.log)"
    fi
}

if [ "$goal" = report ]; then
    find_installers
    get_report
    has_plotly
    exit
fi
get_packages $goal
get_report
case "$presets " in *" mpich "*) get_mpich ;; esac
for preset in ${presets:-release}; do
    case $preset in
    mpich)
        run_step configure "configuring build/ with MPICH" cmake build
        build build mpich
        continue
        ;;
    release) folder=build ;;
    *) folder=build-$preset ;;
    esac
    configure "$preset" $folder
    build $folder
done
