# packages.sh - installs busbar's dependencies. Sourced by setup.sh in the project's folder; POSIX sh.
#
# get_packages GOAL   installs the missing dependencies for GOAL (demo, program, tests) and sets CMAKE_FLAGS
# get_report          installs the optional dependencies of busbar report
#
# System packages are installed by the package manager, as root or with a sudo that does not ask for a password. Without
# root, CMake, ninja and MPI are installed as Python wheels, and apt-get's packages are unpacked into build/system. If CUDA,
# NCCL or pytest are missing or too old, their wheels are installed in a virtual environment, build/python.

# Table of dependencies. The columns are: name; goal that requires the dependency; packages for apt-get, for dnf and for
# zypper; group of wheels. "-": none. The function has_NAME checks whether the dependency is installed.
things='
compilers all   gcc,g++                      gcc,gcc-c++        gcc,gcc-c++        -
cmake     all   cmake                        cmake              cmake              cmake
ninja     all   ninja-build                  ninja-build        ninja              ninja
mpi       all   libopenmpi-dev,openmpi-bin   openmpi-devel      openmpi4-devel     mpi
jansson   all   libjansson-dev               jansson-devel      libjansson-devel   -
cmocka    tests libcmocka-dev                libcmocka-devel    libcmocka-devel    -
python    python python3                     python3            python3            -
mpich     mpich  libmpich-dev,mpich           -                  -                  -
pip       wheels python3-venv                python3-pip        python3-pip        -
'
managers='apt-get dnf zypper' # in the order of the columns above
here=$(pwd)
python=$here/build/python   # the virtual environment
unpacked=$here/build/system # packages that were unpacked without root
system=${SETUP_SYSTEM:-}    # prefix of the system folders; empty except in the tests of this file
wheel_list=$here/bootstrap/wheels.txt
. bootstrap/steps.sh
. bootstrap/mpi.sh

# --- checks for installed dependencies ---

# is_at_least MIN_VERSION VERSION - succeeds if VERSION is at least MIN_VERSION; compares three numbers.
is_at_least() {
    [ -n "$2" ] && printf '%s %s\n' "$1" "$2" |
        awk '{ split($1, w, "."); split($2, v, "."); for (i = 1; i <= 3; i++) if (w[i] + 0 != v[i] + 0) exit !(v[i] + 0 > w[i] + 0) }'
}

has_header() {
    for dir in "$system/usr/include" "$system/usr/local/include" "$unpacked/usr/include" $(printf %s "${CPATH:-}" | tr : ' '); do
        [ ! -e "$dir/$1" ] || return 0
    done
    [ -z "$system" ] && echo "#include <$1>" |
        ${CC:-cc} -E -include stddef.h -include stdarg.h -include setjmp.h -include stdint.h - >/dev/null 2>&1
}

# Checks that a program can be linked, which also requires the development packages of the C and C++ libraries.
has_compilers() {
    command -v "${CC:-cc}" >/dev/null && echo 'int main() { return 0; }' | "${CXX:-c++}" -x c++ -o /dev/null - >/dev/null 2>&1
}
has_cmake() { command -v cmake >/dev/null && is_at_least 3.25 "$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }')"; }
has_ninja() { command -v ninja >/dev/null; }
has_mpi() { command -v mpicc >/dev/null && command -v mpirun >/dev/null; }
has_mpich() { command -v mpicc.mpich >/dev/null && command -v mpiexec.mpich >/dev/null; }
has_jansson() { has_header jansson.h; }
has_cmocka() { has_header cmocka.h; }
has_python() { command -v python3 >/dev/null; }
has_pip() { has_python && [ -n "$(find_pip)" ]; }
has_pytest() { python3 -c 'import pytest, xdist, jsonschema' 2>/dev/null; }
# Checks the Python that busbar report uses: the one in the build folder, else the system's.
has_plotly() {
    interpreter=$python/bin/python3
    [ -x "$interpreter" ] || interpreter=python3
    "$interpreter" -c 'import plotly' 2>/dev/null
}
has_wheels() { [ "$(cat "$python/$1.done" 2>/dev/null)" = "$(list_wheels "$1")" ]; }

# find_pip - prints the path that must be in PYTHONPATH for "python3 -m pip": the wheel of pip that Python or the
# distribution bundles for new virtual environments, or the folder of an installed pip.
find_pip() {
    python3 - 2>/dev/null <<'PYTHON' && return 0
import glob, os
try:
    import ensurepip
    found = glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))
except ImportError:
    found = []
if not found:
    import pip
    found = [os.path.dirname(os.path.dirname(pip.__file__))]
print(found[0])
PYTHON
    for wheel in "$system"/usr/share/python-wheels/pip-*.whl "$unpacked"/usr/share/python-wheels/pip-*.whl; do
        if [ -e "$wheel" ]; then echo "$wheel"; return 0; fi
    done
}

add_flag() { CMAKE_FLAGS="$CMAKE_FLAGS $1"; }

# find_cuda MIN_VERSION - finds a CUDA toolkit of the system, else the toolkit installed as wheels, adds the CMake flags for this
# toolkit and sets cuda_major, for list_wheels.
find_cuda() {
    cuda_major=13 # of the wheels
    for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/nowhere}/bin/nvcc" "$system/usr/local/cuda/bin/nvcc"; do
        [ -n "$nvcc" ] && [ -x "$nvcc" ] || continue
        release=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
        is_at_least "$1" "$release" || continue
        cuda_major=${release%%.*}
        add_flag "-DCMAKE_CUDA_COMPILER=$nvcc"
        return 0
    done
    has_wheels toolkit || return 1
    nvcc=$(find_site)/nvidia/cu13/bin/nvcc
    add_flag "-DCMAKE_CUDA_COMPILER=$nvcc -DCUDAToolkit_ROOT=${nvcc%/bin/nvcc}"
}

# find_nccl MIN_VERSION - finds NCCL in the system, in the packages of the system's Python or in the wheels of build/python,
# and adds the CMake flags for this NCCL.
find_nccl() {
    for root in "${NCCL_HOME:-}" "${NCCL_ROOT:-}" "$system/usr" "$system/usr/local" "$system/usr/local/cuda" "${CUDA_HOME:-}" \
        "$(dirname "$(dirname "$(command -v nvcc || echo /x/x/x)")")"; do
        [ -n "$root" ] && is_at_least "$1" "$(get_nccl_version "$root")" || continue
        for lib in "$root"/lib/libnccl.so* "$root"/lib64/libnccl.so* "$root"/lib/*-linux-gnu/libnccl.so*; do
            [ -e "$lib" ] || continue
            [ "$root" = /usr ] || add_flag "-DNCCL_ROOT=$root"
            return 0
        done
    done
    root=$(python3 -c 'import os, nvidia.nccl as n; print(os.path.abspath(list(n.__path__)[0]))' 2>/dev/null || true)
    if [ -z "$root" ] || ! is_at_least "$1" "$(get_nccl_version "$root")"; then
        has_wheels nccl || return 1
        root=$(find_site)/nvidia/nccl
    fi
    add_flag "-DNCCL_WHEELS=$root"
}

get_nccl_version() {
    awk '/^#define NCCL_(MAJOR|MINOR|PATCH) / { v = v d $3; d = "." } END { print v }' "$1/include/nccl.h" 2>/dev/null || true
}

# --- selection of packages and wheels ---

# get_column NAME NUMBER - prints a column of a dependency's row in the table above, with blanks instead of commas.
get_column() { printf '%s\n' "$things" | awk -v name="$1" -v n="$2" '$1 == name && $n != "-" { gsub(",", " ", $n); print $n }'; }

# list_wheels GROUP - prints the requirements of a group of wheels. NVIDIA has the same versions of NCCL for CUDA 12 and 13.
list_wheels() { awk -v group="$1" -v cuda="${cuda_major:-13}" '$1 == group { sub(/-cu13=/, "-cu" cuda "=", $2); print $2 }' "$wheel_list"; }

# list_missing GOAL - prints the names of the dependencies of a goal that are not installed.
list_missing() {
    for thing in $(printf '%s\n' "$things" | awk -v what="$1" '$2 == what { print $1 }'); do
        "has_$thing" || echo "$thing"
    done
}

find_manager() {
    column=3
    for manager in $managers; do
        command -v "$manager" >/dev/null && return 0
        column=$((column + 1))
    done
    manager=
}

find_root() {
    as_root=
    [ "$(id -u)" != 0 ] || return 0
    as_root='sudo -n'
    command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

# comes_as_wheel NAME - succeeds if a dependency must be installed as a wheel: without root, or if the installed CMake is
# too old, because the system's package of CMake is then too old as well.
comes_as_wheel() {
    [ -n "$(get_column "$1" 6)" ] || return 1
    [ $can_install = no ] || { [ "$1" = cmake ] && command -v cmake >/dev/null; }
}

# choose_sources GOAL - sets `wheels` to the wheels and `missing` to the dependencies to install as packages, and CMAKE_FLAGS
# to the locations of installed dependencies.
choose_sources() {
    CMAKE_FLAGS= wheels= missing=
    least_cuda=12.0 least_nccl=2.19
    if needs_emulated "$1"; then least_cuda=12.4 least_nccl=2.28; fi
    find_cuda $least_cuda || wheels="$wheels toolkit"
    find_nccl $least_nccl || wheels="$wheels nccl"
    # shellcheck disable=SC2046
    for thing in $(list_missing all) $([ "$1" != tests ] || list_missing tests); do
        if comes_as_wheel "$thing"; then wheels="$wheels $(get_column "$thing" 6)"; else missing="$missing $thing"; fi
    done
    if [ "$1" = tests ]; then has_pytest || wheels="$wheels pytest"; fi
    if [ -n "$wheels" ] || [ "$1" = tests ]; then missing="$missing $(list_missing python)"; fi
    if [ -n "$wheels" ]; then missing="$missing $(list_missing wheels)"; fi
    # shellcheck disable=SC2086
    missing=$(echo $missing) # removes blanks at both ends
    [ ! -d "$unpacked/usr/include" ] || add_flag "-DCMAKE_PREFIX_PATH=$unpacked/usr"
}

# needs_emulated GOAL - succeeds if the goal includes the emulated GPUs, which require newer headers of CUDA and NCCL.
needs_emulated() { [ "$1" = tests ] || { [ "$1" = demo ] && [ "$(count_gpus)" = 0 ]; }; }

# find_installers - sets manager, column and can_install.
find_installers() {
    find_manager
    if find_root; then can_install=yes; else can_install=no; fi
}

get_packages() {
    find_installers
    # The second iteration installs a wheel if the package that the first one installed is too old.
    for _ in 1 2; do
        choose_sources "$1"
        [ -n "$missing$wheels" ] || return 0
        [ -z "$missing" ] || install_things
        [ -z "$wheels" ] || fetch_wheels
    done
    choose_sources "$1"
    [ -z "$missing$wheels" ] || stop "still missing: $missing$wheels"
}

# get_mpich - installs MPICH in addition to Open MPI; call after get_packages. Debian's packages of both can be installed
# together, because their programs have different suffixes. Exits with status 77 if MPICH is missing and cannot be installed.
get_mpich() {
    missing=$(list_missing mpich)
    [ -n "$missing" ] || return 0
    if [ "$manager" != apt-get ] || [ $can_install = no ]; then
        echo "setup: mpicc.mpich and mpiexec.mpich not found" >&2
        exit 77
    fi
    install_things
}

# get_report - installs plotly for busbar report; call after get_packages or find_installers. On failure, prints one line and returns 0, because
# all other commands work without plotly.
get_report() {
    ! has_plotly || return 0
    missing=$(echo $(list_missing python) $(list_missing wheels))
    wheels=report
    if ( [ -z "$missing" ] || install_things; fetch_wheels ); then use_build_folder; else
        echo "setup: plotly is missing; only busbar report needs it: pip install $(list_wheels report)" >&2
    fi
}

# --- installation ---

install_things() {
    [ -n "$manager" ] || stop "missing: $missing; no supported package manager found ($managers)"
    packages=
    for thing in $missing; do packages="$packages $(get_column "$thing" $column)"; done
    packages=${packages# }
    if [ $can_install = yes ]; then
        run_step packages "packages: $packages" install_packages
    elif [ $manager != apt-get ] || ! has_compilers; then
        stop "missing packages can only be installed as root: $manager install $packages"
    else
        run_step packages "packages unpacked into build/system: $packages" unpack_packages
    fi
}

# shellcheck disable=SC2086
install_packages() {
    if [ $manager = apt-get ]; then
        $as_root apt-get -q update || true # if the update fails, the existing package lists may be sufficient
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $packages
    else
        $as_root $manager install -y $packages
    fi
}

# Unpacks the packages, and those of their dependencies that are not installed. Uses separate package lists, because only
# root can update the system's.
unpack_packages() {
    mkdir -p "$unpacked/lists/partial" "$unpacked/debs/partial"
    apt="apt-get -q -o Dir::State::lists=$unpacked/lists -o Dir::Cache=$unpacked/debs -o Debug::NoLocking=1"
    $apt update || true
    # shellcheck disable=SC2086
    names=$($apt -s install --no-install-recommends $packages | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }')
    [ -n "$names" ] || return 1
    # shellcheck disable=SC2086
    (cd "$unpacked/debs" && $apt download $names && for deb in *.deb; do dpkg -x "$deb" "$unpacked" || exit 1; done && rm -f ./*.deb) || return 1
    # Merges lib into usr/lib; on the system, lib is a link to usr/lib.
    if [ -d "$unpacked/lib" ]; then cp -a "$unpacked/lib/." "$unpacked/usr/lib/" && rm -rf "$unpacked/lib" || return 1; fi
    for link in "$unpacked"/usr/lib/*/*.so; do # repairs links to libraries in other folders or in the system
        [ -L "$link" ] && [ ! -e "$link" ] || continue
        folder=${link%/*} name=$(readlink "$link")
        for dir in "$folder" "$system/usr/lib/${folder##*/}" "$system/lib/${folder##*/}"; do
            if [ -e "$dir/${name##*/}" ]; then ln -sf "$dir/${name##*/}" "$link"; break; fi
        done
    done
    use_build_folder
}

fetch_wheels() {
    requirements=$(for group in $wheels; do list_wheels "$group"; done)
    # shellcheck disable=SC2086
    run_step wheels "wheels into build/python, as listed in bootstrap/wheels.txt:$wheels" install_wheels
}

install_wheels() {
    pip=$(find_pip)
    "$python/bin/python3" -c '' 2>/dev/null || python3 -m venv --clear --system-site-packages --without-pip "$python" || return 1
    # --ignore-installed: pip also installs packages that exist outside the virtual environment. --no-compile: Python compiles
    # a module when it is first imported, so that the installation takes half the time.
    # shellcheck disable=SC2086
    PYTHONPATH=$pip "$python/bin/python3" -m pip install -q --no-cache-dir --disable-pip-version-check --ignore-installed \
        --no-compile $requirements || return 1
    case " $wheels " in *" toolkit "*) link_toolkit "$(find_site)/nvidia/cu13" ;; esac
    for group in $wheels; do list_wheels "$group" >"$python/$group.done"; done
    use_build_folder
}

find_site() { (cd "$python"/lib/python3*/site-packages && pwd); }

# Adds two kinds of links to the toolkit: libX.so, which the linker needs, to libX.so.N of the wheels; and lib64, which nvcc
# searches, to lib of the wheels.
link_toolkit() {
    for lib in "$1"/lib/lib*.so.[0-9]*; do
        [ -e "${lib%%.so.*}.so" ] || ln -s "$(basename "$lib")" "${lib%%.so.*}.so"
    done
    [ -e "$1/lib64" ] || ln -s lib "$1/lib64"
}
