#!/bin/sh
# setup.sh - installs what is missing, and only that, then configures and builds busbar.
#
#   sh bootstrap/setup.sh [--demo | --tests] [PRESET...]       presets: release (default), debug, sanitize, clang,
#                                                              mpich (beside Open MPI, for its tests)
#
# The program is built for every supported GPU, with the emulated ones; --tests adds the unit tests, --demo builds only what
# a demonstration runs: code for the GPU that is here, emulated GPUs where there is none. packages.sh says where what is
# missing comes from. Nothing that is there is touched.
set -eu
cd "$(dirname "$0")/.."
. bootstrap/packages.sh

goal=program presets=
for word in "$@"; do
    case $word in
    --demo | --tests) goal=${word#--} ;;
    release | debug | sanitize | clang | mpich) presets="$presets $word" ;;
    *) echo "setup: unknown word '$word'; expected --demo, --tests, release, debug, sanitize, clang or mpich" >&2; exit 2 ;;
    esac
done

# choose_architectures - code for the GPUs that are here, or as little as will do where there is none. Nothing where that is
# not known or where nvcc does not know them: then CMake's list stands.
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

# configure PRESET FOLDER - again only when what was found or asked for has changed. A build of more is kept: tests contain
# the program, and the program contains what the demonstration runs.
configure() {
    case $goal in
    tests) wanted="3 -DBUSBAR_TESTS=ON" ;;
    program) wanted="2 -DBUSBAR_TESTS=OFF" ;;
    demo)
        list=$(choose_architectures)
        wanted="1 -DBUSBAR_TESTS=OFF ${list:+-DCMAKE_CUDA_ARCHITECTURES=$list}"
        ;;
    esac
    if [ -f "$2/build.ninja" ] && [ -f "$2/setup.flags" ]; then
        # An older setup.sh wrote one line without its end: no match, configured anew.
        had=$(sed -n 1p "$2/setup.flags")
        found=$(sed 1d "$2/setup.flags")
        if [ "$found" = "$CMAKE_FLAGS" ] && { [ "$had" = "$wanted" ] || [ "${had%% *}" -gt "${wanted%% *}" ] 2>/dev/null; }; then return; fi
    fi
    rm -f "$2/CMakeCache.txt" "$2/setup.flags"
    # shellcheck disable=SC2086
    run_step configure "configuring $2/" cmake --preset "$1" $CMAKE_FLAGS ${wanted#* }
    printf '%s\n%s\n' "$wanted" "$CMAKE_FLAGS" >"$2/setup.flags"
}

# build FOLDER
build() {
    targets=all
    if [ $goal = demo ]; then
        targets="busbar busbar_gpu"
        [ "$(count_gpus)" != 0 ] || targets="$targets emulator"
    fi
    begin_step "building $1/"
    # shellcheck disable=SC2086
    { NINJA_STATUS='[%f/%t] ' cmake --build "$1" --target $targets 2>&1 && echo 0 >"$1/build.status" || echo 1 >"$1/build.status"; } |
        count_progress >"$1/build.log"
    if [ "$(cat "$1/build.status")" = 0 ]; then end_step ''; else
        end_step ', FAILED'
        grep -v '^\[[0-9]*/[0-9]*\] ' "$1/build.log" | tail -n 60 >&2 # without what went well
        stop "building $1 failed (all of its output: $1/build.log)"
    fi
}

get_packages $goal
[ $goal = demo ] || get_report
case "$presets " in *" mpich "*) get_mpich ;; esac
for preset in ${presets:-release}; do
    case $preset in release) folder=build ;; *) folder=build-$preset ;; esac
    configure "$preset" $folder
    build $folder
done
