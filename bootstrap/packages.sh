# packages.sh - what busbar needs from the machine, and where it comes from. Sourced by setup.sh; POSIX sh.
#
# install_packages TESTS   compilers, CMake, MPI, jansson (and cmocka) by the system's package manager
# find_cuda, find_nccl     set CMAKE_FLAGS; NVIDIA's wheels in build/wheels where the machine has none
# find_pytest              pytest and pytest-xdist in build/python where the machine has none

CMAKE_FLAGS=
here=$(pwd)
wheels=$here/build/wheels

has_header() {
    for dir in /usr/include /usr/local/include $(printf %s "${CPATH:-}" | tr : ' '); do
        [ -e "$dir/$1" ] && return 0
    done
    echo "#include <$1>" | ${CC:-cc} -E -include stddef.h -include stdarg.h -include setjmp.h -include stdint.h - >/dev/null 2>&1
}

cmake_is_new_enough() {
    command -v cmake >/dev/null && cmake --version |
        awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 25)) }'
}

# missing_packages TESTS - names for apt, dnf or zypper, one set per thing that is not there.
missing_packages() {
    command -v cc >/dev/null && command -v c++ >/dev/null || name gcc,g++ gcc,gcc-c++ gcc,gcc-c++
    cmake_is_new_enough || name cmake cmake cmake
    command -v ninja >/dev/null || name ninja-build ninja-build ninja
    command -v mpicc >/dev/null && command -v mpirun >/dev/null ||
        name libopenmpi-dev,openmpi-bin openmpi-devel openmpi-devel
    has_header jansson.h || name libjansson-dev jansson-devel libjansson-devel
    command -v python3 >/dev/null || name python3 python3 python3
    if [ "$1" = yes ]; then
        has_header cmocka.h || name libcmocka-dev libcmocka-devel libcmocka-devel
    fi
}

name() {
    case $manager in apt-get) words=$1 ;; dnf) words=$2 ;; *) words=$3 ;; esac
    printf '%s ' "$words" | tr , ' '
}

install_packages() {
    manager=
    for candidate in apt-get dnf zypper; do
        if command -v $candidate >/dev/null; then manager=$candidate; break; fi
    done
    missing=$(missing_packages "$1")
    [ -n "$missing" ] || return 0
    if [ -z "$manager" ]; then
        echo "setup: missing: $missing, and no package manager that I know (apt-get, dnf, zypper)" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root='sudo -n'; else
            echo "setup: missing packages, and installing them needs root. Run: $manager install $missing" >&2
            exit 1
        fi
    fi
    echo "setup: installing with $manager: $missing"
    log=$(mktemp)
    [ $manager != apt-get ] || DEBIAN_FRONTEND=noninteractive $as_root apt-get -q update >"$log" 2>&1 || true
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as_root $manager install -y $missing >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; echo "setup: $manager could not install: $missing" >&2; exit 1; }
    rm -f "$log"
}

# pip_into FOLDER PACKAGE... - wheels into a folder of the build tree, without root. A folder for each call: pip replaces
# what a --target folder holds of the same top-level name ("nvidia").
pip_into() {
    folder=$1; shift
    echo "setup: fetching Python wheels into ${folder#"$here"/}: $*"
    mkdir -p "$folder"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$here/build/pip" >/dev/null 2>&1 ||
            { echo "setup: python3 has neither pip nor venv; install python3-pip" >&2; exit 1; }
        pip=$here/build/pip/bin/python3
    else
        pip=python3
    fi
    "$pip" -m pip install -q --no-cache-dir --disable-pip-version-check --upgrade --target "$folder" "$@" 2>"$folder/pip.log" ||
        { cat "$folder/pip.log" >&2; echo "setup: pip could not fetch: $*" >&2; exit 1; }
}

# The wheels carry libX.so.N only; a linker asks for libX.so.
link_sonames() {
    for lib in "$1"/lib*.so.[0-9]*; do
        plain=${lib%%.so.*}.so
        [ -e "$plain" ] || ln -s "$(basename "$lib")" "$plain"
    done
}

find_cuda() {
    for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/nowhere}/bin/nvcc" /usr/local/cuda/bin/nvcc; do
        if [ -n "$nvcc" ] && [ -x "$nvcc" ]; then
            CMAKE_FLAGS="$CMAKE_FLAGS -DCMAKE_CUDA_COMPILER=$nvcc"
            return 0
        fi
    done
    root=$wheels/toolkit/nvidia/cu13
    if [ ! -f "$wheels/toolkit.done" ]; then
        pip_into "$wheels/toolkit" 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
            'nvidia-cuda-runtime==13.0.*' 'nvidia-nvtx==13.0.*' 'nvidia-cuda-profiler-api==13.0.*' 'nvidia-cublas==13.1.*'
        link_sonames "$root/lib"
        [ -e "$root/lib64" ] || ln -s lib "$root/lib64"
        : >"$wheels/toolkit.done"
    fi
    CMAKE_FLAGS="$CMAKE_FLAGS -DCMAKE_CUDA_COMPILER=$root/bin/nvcc -DCUDAToolkit_ROOT=$root"
}

find_nccl() {
    for root in "${NCCL_HOME:-}" "${NCCL_ROOT:-}" /usr /usr/local /usr/local/cuda "${CUDA_HOME:-}" "$(dirname "$(dirname "$(command -v nvcc || echo /x/x/x)")")"; do
        [ -n "$root" ] && [ -e "$root/include/nccl.h" ] || continue
        for lib in "$root"/lib/libnccl.so* "$root"/lib64/libnccl.so* "$root"/lib/*-linux-gnu/libnccl.so*; do
            if [ -e "$lib" ]; then
                [ "$root" = /usr ] || CMAKE_FLAGS="$CMAKE_FLAGS -DNCCL_ROOT=$root"
                return 0
            fi
        done
    done
    root=$(python3 -c 'import os, nvidia.nccl as n; print(os.path.abspath(list(n.__path__)[0]))' 2>/dev/null || true)
    if [ -z "$root" ] || [ ! -e "$root/include/nccl.h" ]; then
        root=$wheels/nccl/nvidia/nccl
        [ -e "$root/include/nccl.h" ] || pip_into "$wheels/nccl" nvidia-nccl-cu13
    fi
    CMAKE_FLAGS="$CMAKE_FLAGS -DNCCL_WHEELS=$root"
}

find_pytest() {
    PYTHONPATH="$here/build/python${PYTHONPATH:+:$PYTHONPATH}" python3 -c 'import pytest, xdist' 2>/dev/null && return 0
    pip_into "$here/build/python" pytest pytest-xdist
}
