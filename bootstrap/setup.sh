#!/bin/sh
# setup.sh - installs what is missing, and only that, then configures and builds busbar.
#
#   sh bootstrap/setup.sh [--tests] [PRESET...]       presets: release (default), debug, sanitize, clang
#
# System packages come from the machine's package manager (as root, or through sudo when it asks for no password; else the
# command to run is printed). A missing CUDA toolkit or NCCL comes as NVIDIA's Python wheels into build/wheels; with
# --tests a missing pytest goes to build/python. Neither needs root. Nothing that is there is touched.
set -eu
cd "$(dirname "$0")/.."
. bootstrap/packages.sh

tests=no presets=
for word in "$@"; do
    case $word in
    --tests) tests=yes ;;
    release | debug | sanitize | clang) presets="$presets $word" ;;
    *) echo "setup: unknown word '$word'; expected --tests, release, debug, sanitize or clang" >&2; exit 2 ;;
    esac
done

install_packages "$tests"
find_cuda
find_nccl
[ "$tests" = no ] || find_pytest

for preset in ${presets:-release}; do
    case $preset in release) folder=build ;; *) folder=build-$preset ;; esac
    # Configured again only when something that was found has changed; building is incremental anyway.
    if [ "$(cat "$folder/setup.flags" 2>/dev/null)" != "$CMAKE_FLAGS" ] || [ ! -f "$folder/build.ninja" ]; then
        echo "setup: configuring $folder"
        rm -f "$folder/CMakeCache.txt"
        # shellcheck disable=SC2086
        cmake --preset "$preset" $CMAKE_FLAGS >"$folder.configure.log" 2>&1 ||
            { cat "$folder.configure.log" >&2; exit 1; }
        mv "$folder.configure.log" "$folder/configure.log"
        printf '%s' "$CMAKE_FLAGS" >"$folder/setup.flags"
    fi
    echo "setup: building $folder"
    cmake --build "$folder" >"$folder/build.log" 2>&1 || { tail -n 60 "$folder/build.log" >&2; exit 1; }
done
