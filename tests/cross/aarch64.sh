#!/bin/sh
# aarch64.sh - tests the offline tools for 64-bit Arm (Grace) on another architecture: cross-compiles them with Debian's compiler,
# runs their unit tests in qemu, and compares their plans with those of the native program byte for byte.
#
#   sh tests/cross/aarch64.sh [NATIVE]      NATIVE: the native busbar (default: build/busbar)
#
# Installs the compiler and qemu if root or sudo is available. jansson and cmocka for Arm are unpacked in build-aarch64/packages
# without root; no foreign architecture is added to the system. Exit status 77: skipped, with the reason on stderr.
set -eu
cd "$(dirname "$0")/../.."
native=${1:-build/busbar} folder=build-aarch64
packages=$PWD/$folder/packages

skip() {
    echo "aarch64: $*" >&2
    exit 77
}

missing_tools() {
    command -v aarch64-linux-gnu-gcc >/dev/null || echo gcc-aarch64-linux-gnu
    [ -e /usr/aarch64-linux-gnu/include/stdio.h ] || echo libc6-dev-arm64-cross
    command -v qemu-aarch64-static >/dev/null || echo qemu-user-static
}

install_tools() {
    # shellcheck disable=SC2046
    set -- $(missing_tools)
    [ $# != 0 ] || return 0
    command -v apt-get >/dev/null || skip "missing: $*; this script can install them only with apt-get"
    as_root=
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || skip "missing packages can only be installed as root: apt-get install $*"
        as_root='sudo -n env DEBIAN_FRONTEND=noninteractive'
    fi
    echo "aarch64: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get -q update >"$folder/tools.log" 2>&1 || true
    $as_root apt-get -q -y --no-install-recommends install "$@" >>"$folder/tools.log" 2>&1 ||
        { tail -n 5 "$folder/tools.log" >&2; skip "apt-get could not install $*"; }
}

# Runs apt-get for arm64 with separate package lists, cache and status, so that the system's package state does not change.
arm_apt_get() {
    apt-get -q -o Dir::State::Lists="$packages/lists" -o Dir::State::status="$packages/status" \
        -o Dir::Cache="$packages/cache" -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
        -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch_libraries() {
    [ ! -e "$packages/done" ] || return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || skip "apt-get not found, which fetches jansson and cmocka for arm64"
    echo "aarch64: fetching jansson and cmocka"
    mkdir -p "$packages/lists/partial" "$packages/cache/archives/partial"
    : >"$packages/status"
    arm_apt_get update >"$folder/fetch.log" 2>&1 || true
    (cd "$packages" && arm_apt_get download libjansson4 libjansson-dev libcmocka0 libcmocka-dev) >>"$folder/fetch.log" 2>&1 ||
        { tail -n 3 "$folder/fetch.log" >&2; skip "the package sources have no jansson and cmocka for arm64"; }
    for package in "$packages"/*.deb; do dpkg-deb -x "$package" "$packages"; done
    rm -rf "$packages/lists" "$packages/cache"
    : >"$packages/done"
}

build() {
    echo "aarch64: building $folder"
    generator='Unix Makefiles'
    ! command -v ninja >/dev/null || generator=Ninja
    cmake -B "$folder" -G "$generator" -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DCMAKE_PREFIX_PATH="$packages/usr" \
        -DBUSBAR_GPU=OFF -DBUSBAR_TESTS=ON \
        -DBUSBAR_WERROR=OFF -DCMAKE_C_FLAGS_RELEASE="-O1 -DNDEBUG" >"$folder/configure.log" 2>&1 || { cat "$folder/configure.log"; return 1; }
    cmake --build "$folder" -j 2 >"$folder/build.log" 2>&1 || { tail -n 60 "$folder/build.log"; return 1; }
}

# same ARGUMENTS... - checks that the native and the Arm program print the same. JSON contains all digits of a double; only the
# start time may differ.
same() {
    "$native" "$@" >"$folder/native.out" || return 1
    qemu-aarch64-static -L /usr/aarch64-linux-gnu "$folder/busbar" "$@" >"$folder/arm.out" || return 1
    sed -i '/"started"/d' "$folder/native.out" "$folder/arm.out"
    [ -s "$folder/arm.out" ] && diff "$folder/native.out" "$folder/arm.out" || { echo "aarch64: busbar $* differs"; return 1; }
}

compare_plans() {
    echo "aarch64: comparing plans with $native"
    same plan gpt3 --ranks 384 --cluster h100-sxm-ib &&
        same plan transformer --model mixtral_8x7b --ranks 64 --tp 2 --ep 8 --pp 4 --sequence-parallel --micro-batches 8 \
            --gpus-per-node 8 --best-order &&
        same plan cosmoflow --ranks 16 --cluster a100-sxm-ib --json - &&
        same plan transformer --model gpt2_small --layers 4 --ranks 4 --global-batch-size 4 --cluster h100-sxm-ib --best-layout --json - &&
        same plan gpt2_large 12 4 3 --ranks 8 --cluster h100-sxm-ib --ops --json -
}

case $(uname -m) in aarch64 | arm64) skip "this machine is 64-bit Arm; its normal tests cover the offline tools" ;; esac
mkdir -p "$folder"
install_tools
fetch_libraries
build
file=$(readelf -h "$folder/busbar" | grep Machine:)
case $file in *AArch64*) ;; *) echo "aarch64: the program is not for AArch64: $file"; exit 1 ;; esac
FUZZ_ROUNDS=2000 ctest --test-dir "$folder" --output-on-failure --no-tests=error -j 2
compare_plans
echo "aarch64: passed"
