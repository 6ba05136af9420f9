"""The two programs, busbar and busbar-rank: commands that run without the libraries of busbar-rank, the errors of bench and proxy in that
case, and the search for the busbar-rank of an installed busbar."""
import os
import re
import shutil
import subprocess

import pytest

BENCH = ["bench", "all_reduce", "-b", "8", "-e", "8"]
PROXY = ["proxy", "gpt2_large", "4", "2", "2"]
RANK_PROGRAM = "busbar-rank"
ADVICE = {"libmpi": "an MPI library", "libnccl": "NCCL", "libcudart": "the CUDA runtime", "libcublasLt": "cuBLASLt"}


def dynamic(path, tag):
    """The values of one tag of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\)\s.*\[(.*)\]", text)


def rank_program_dependencies(busbar):
    return [name for name in dynamic(busbar.build / RANK_PROGRAM, "NEEDED") if name.startswith(tuple(ADVICE))]


def replace_string(path, old, new):
    """Replaces a zero-terminated string in a file by another of the same length."""
    assert len(old) == len(new)
    data = path.read_bytes()
    assert old.encode() + b"\0" in data
    path.write_bytes(data.replace(old.encode() + b"\0", new.encode() + b"\0"))


class Copy:
    """A copy of the two programs in a separate folder, where libraries can be hidden."""

    def __init__(self, busbar, folder):
        self.busbar, self.folder, self.program, self.rank_program = busbar, folder, folder / "busbar", folder / RANK_PROGRAM
        shutil.copy(busbar.build / "busbar", self.program)
        shutil.copy(busbar.build / RANK_PROGRAM, self.rank_program)

    def hide(self, *libraries):
        """Makes busbar-rank depend on library names that do not exist."""
        for name in libraries:
            replace_string(self.rank_program, name, name.replace(".so.", ".so-"))

    def run(self, *args, ranks=0, env=None, program=None):
        command = [str(program or self.program), *map(str, args)]
        return subprocess.run(["mpirun", "-n", str(ranks), *command] if ranks else command, env=self.busbar.environment(env),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.fixture
def copy(busbar, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    return Copy(busbar, folder)


@pytest.fixture
def copy_without_libraries(busbar, copy):
    """A copy that finds none of the libraries of busbar-rank."""
    copy.hide(*rank_program_dependencies(busbar))
    return copy


def error_line(done, status):
    """Checks the exit status and returns the only error line."""
    assert done.returncode == status and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar:")]
    return line


@pytest.mark.parametrize("args", [BENCH, PROXY], ids=["bench", "proxy"])
@pytest.mark.parametrize("stem", ADVICE)
def test_missing_library_is_reported(busbar, copy, stem, args):
    (name,) = [name for name in rank_program_dependencies(busbar) if name.startswith(stem)]
    copy.hide(name)
    done = copy.run(*args)
    line = error_line(done, 1)
    assert done.stderr.count("\n") == 1
    assert f"{args[0]} needs {name.replace('.so.', '.so-')}, which is not found; install {ADVICE[stem]}" in line
    assert "LD_LIBRARY_PATH" in line and "bootstrap/setup.sh" in line


def test_broken_library_is_reported(busbar, copy, tmp_path):
    """An empty file with the name of the library: the loader fails and does not search further folders."""
    (name,) = [name for name in rank_program_dependencies(busbar) if name.startswith("libnccl")]
    (tmp_path / name).touch()
    line = error_line(copy.run(*BENCH, env={"LD_LIBRARY_PATH": str(tmp_path)}), 1)
    assert f"bench needs {name}, which cannot be loaded ({tmp_path / name}: " in line and ADVICE["libnccl"] in line


def test_one_rank_reports_the_missing_library(busbar, copy):
    (name,) = [name for name in rank_program_dependencies(busbar) if name.startswith("libnccl")]
    copy.hide(name)
    done = copy.run(*BENCH, ranks=3)
    assert done.returncode == 1 and done.stderr.count("busbar:") == 1 and "libnccl" in done.stderr


def test_missing_library_is_reported_under_an_nccl_tests_name(copy_without_libraries):
    link = copy_without_libraries.folder / "all_reduce_perf"
    link.symlink_to("busbar")
    assert "which is not found" in error_line(copy_without_libraries.run("-b", "8", "-e", "8", program=link), 1)


def test_missing_function_is_reported(copy):
    """A library that is older than the one of the build lacks a function."""
    replace_string(copy.rank_program, "ncclGetUniqueId", "ncclGetUniqueIe")
    done = copy.run(*BENCH)
    assert done.stderr.count("\n") == 1
    line = error_line(done, 1)
    assert f"bench needs busbar's program {RANK_PROGRAM}, which cannot be loaded" in line
    assert "undefined symbol: ncclGetUniqueIe" in line


@pytest.mark.parametrize("ranks", [0, 3])
def test_library_of_an_older_version_is_reported(copy, ranks):
    """A library lacks a symbol version, for example the C library of a machine with an older operating system."""
    version = max(re.findall(rb"GLIBC_2\.\d\d\0", copy.rank_program.read_bytes()))[:-1].decode()
    replace_string(copy.rank_program, version, "GLIBC_2.99")
    done = copy.run(*BENCH, ranks=ranks)
    line = error_line(done, 1)
    assert done.stderr.count("GLIBC_2.99") == 1
    assert f"bench needs busbar's program {RANK_PROGRAM}, which cannot be loaded" in line and "version `GLIBC_2.99' not found" in line


def test_missing_library_is_reported_after_a_warning_of_the_loader(busbar, copy):
    """The loader warns of a missing preloaded library first. With one CPU the supervisor often reads both lines together."""
    (name,) = [name for name in rank_program_dependencies(busbar) if name.startswith("libnccl")]
    copy.hide(name)
    for _ in range(4):
        done = copy.run("-c", "0", copy.program, *BENCH, program="taskset", env={"LD_PRELOAD": "/nonexistent.so"})
        assert "bench needs libnccl.so-2, which is not found" in error_line(done, 1)


@pytest.mark.parametrize("ranks", [0, 3])
def test_missing_rank_program_is_reported(copy, ranks):
    copy.rank_program.unlink()
    line = error_line(copy.run(*BENCH, ranks=ranks), 1)
    assert RANK_PROGRAM in line and str(copy.folder) in line and "BUSBAR_GPU" in line


@pytest.mark.parametrize("ranks", [0, 3])
def test_invalid_rank_program_is_reported(copy, ranks):
    copy.rank_program.write_bytes(b"\x7fELF" + bytes(100))
    line = error_line(copy.run(*BENCH, ranks=ranks), 1)
    assert f"bench needs busbar's program {RANK_PROGRAM}, which cannot be loaded: {copy.rank_program}: Exec format error" in line


@pytest.mark.parametrize("ranks", [0, 3])
def test_rejects_a_rank_program_of_another_version(copy, ranks):
    version = copy.run("--version").stdout.split()[1]
    replace_string(copy.rank_program, version, "9" + version[1:])
    line = error_line(copy.run(*BENCH, ranks=ranks), 1)
    assert f"cannot be loaded: it is not the program of busbar {version}; install both together" in line


@pytest.mark.parametrize("args", [[], ["bench", "all_reduce"], ["--help"]], ids=" ".join)
def test_rank_program_started_by_a_user_names_busbar(busbar, args):
    done = subprocess.run([str(busbar.build / RANK_PROGRAM), *args], env=busbar.environment(emulated(busbar)), capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert "busbar-rank is started by busbar; try: busbar-emulated bench --help" in error_line(done, 2)


@pytest.mark.parametrize("args", [
    ["--help"], ["--version"], ["list"], ["bench", "--help"], ["bench", "p2p", "--help"], ["proxy", "--help"], ["compare", "--help"],
    ["sweep", "--help"], ["calibrate", "--help"], ["plan", "gpt2_large", "12", "4", "3", "--ranks", "8", "--cluster", "h100-sxm-ib"],
])
def test_offline_commands_need_no_library(busbar, copy_without_libraries, args):
    done = copy_without_libraries.run(*args)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == busbar.run(*args).stdout != ""


@pytest.mark.parametrize("args,message", [
    (["bench", "all_redcue"], "all_reduce"), (["bench", "all_reduce", "--bgin", "8"], "--bgin"), (["bench", "p2p", "x"], "'x'"),
    (["proxy", "gpt2_lrage"], "gpt2_large"), (["proxy", "gpt2_large", "--stpes", "3"], "--stpes"),
    (["proxy", "gpt2_large", "--trace", "t.json", "--traced-steps", "0"], "--traced-steps"),
])
def test_argument_errors_need_no_library(copy_without_libraries, args, message):
    assert message in error_line(copy_without_libraries.run(*args), 2)


def test_compare_needs_no_library(busbar, copy_without_libraries, tmp_path):
    busbar.json(*BENCH, tmp_path=tmp_path)
    result = tmp_path / "result.json"
    done = copy_without_libraries.run("compare", result, result)
    assert done.returncode == 0 and "all_reduce" in done.stdout


def test_sweep_list_needs_no_library(copy_without_libraries, tmp_path):
    study = tmp_path / "study.json"
    study.write_text('{"command": "bench all_reduce", "options": {"minbytes": ["8", "1K"]}, "ranks": 2}')
    done = copy_without_libraries.run("sweep", study, "--list")
    assert done.returncode == 0 and "minbytes" in done.stdout


def test_program_does_not_depend_on_gpu_libraries(busbar):
    needed = dynamic(busbar.build / "busbar", "NEEDED")
    assert any(name.startswith("libjansson") for name in needed)
    assert [name for name in needed if re.match(r"lib(cu|nccl|mpi|nv|open|stdc\+\+)", name)] == []


@pytest.mark.parametrize("args,max_mib", [(["--version"], 16), (["plan", "gpt3", "--ranks", "98304"], 40)], ids=["version", "plan"])
def test_memory_use_is_limited(busbar, args, max_mib):
    program = busbar.build / "busbar"
    if b"__asan_init" in program.read_bytes():
        pytest.skip("the sanitizers use more memory")
    done = subprocess.run([str(busbar.build / "tests/perf/peak"), str(program), *args], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout.split()[1]) <= max_mib * 1024


def empty_paths(file):
    return [entry for path in dynamic(file, "RUNPATH") + dynamic(file, "RPATH") for entry in path.split(":")
            if not entry.startswith(("/", "$"))]


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def test_library_paths_exclude_the_current_folder(busbar):
    """An empty entry of a search path means the current folder, where anybody may have put a library."""
    folders = [busbar.build, busbar.build / "emulator", *(busbar.build / "tests").rglob("*")]
    files = [path for folder in folders if folder.is_dir() for path in folder.iterdir()
             if path.is_file() and os.access(path, os.X_OK) and is_elf(path)]
    assert busbar.build / RANK_PROGRAM in files and busbar.build / "emulator/busbar-twins.so" in files
    assert [str(path) for path in files if empty_paths(path)] == []


def symbols(path):
    text = subprocess.run(["readelf", "--dyn-syms", "-W", str(path)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"UND (\w+)", text))


@pytest.mark.parametrize("name", ["busbar", RANK_PROGRAM])
def test_binaries_are_hardened(busbar, name):
    """Protection against exploits of memory errors: stack protector, checked library calls, read-only relocation tables."""
    path = busbar.build / name
    kind = re.search(r"CMAKE_BUILD_TYPE:\w+=(\w*)", (busbar.build / "CMakeCache.txt").read_text()).group(1)
    if kind == "Debug":
        pytest.skip("a debug build")
    program = subprocess.run(["readelf", "-hlW", str(path)], capture_output=True, text=True, check=True).stdout
    flags = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    assert re.search(r"Type:\s+DYN", program) and "GNU_RELRO" in program
    assert re.search(r"GNU_STACK.*RW ", program) and not re.search(r"GNU_STACK.*RWE", program)
    assert "BIND_NOW" in flags or re.search(r"\(FLAGS_1\).*NOW", flags)
    imported = symbols(path)
    assert "__stack_chk_fail" in imported
    assert len([s for s in imported if re.fullmatch(r"__\w+_chk", s)]) >= 5
    if re.search(r"HAS_fcf_protection:\w+=1", (busbar.build / "CMakeCache.txt").read_text()):
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True).stdout
        assert code.count("endbr") > 100  # valid targets of indirect jumps


@pytest.fixture(scope="module")
def installed(busbar, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", str(busbar.build), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


def emulated(busbar):
    """Returns the environment that build/busbar-emulated sets."""
    return {"LD_LIBRARY_PATH": str(busbar.build / "emulator"), "EMU_TWINS": str(busbar.build / "emulator" / "busbar-twins.so")}


def test_installed_library_paths_exclude_the_current_folder(installed):
    assert empty_paths(installed / "bin" / "busbar") == empty_paths(installed / "lib" / "busbar" / RANK_PROGRAM) == []


@pytest.mark.parametrize("linked", [False, True], ids=["direct", "symbolic link"])
@pytest.mark.parametrize("name,args", [("busbar", BENCH), ("all_reduce_perf", ["-b", "8", "-e", "8"])], ids=["busbar", "all_reduce_perf"])
def test_installed_program_finds_its_rank_program(busbar, installed, tmp_path, name, args, linked):
    program = installed / "bin" / name
    if linked:
        (tmp_path / name).symlink_to(program)
        program = tmp_path / name
    done = subprocess.run([str(program), *args], env=busbar.environment(emulated(busbar)), cwd=tmp_path, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Emulated GPU" in done.stdout and re.search("row verified|# Out of bounds values : 0 OK", done.stdout)


def test_installed_rank_program_is_used(busbar, installed):
    rank_program = installed / "lib" / "busbar" / RANK_PROGRAM
    hidden = rank_program.with_suffix(".hidden")
    rank_program.rename(hidden)
    try:
        done = subprocess.run([str(installed / "bin" / "busbar"), *BENCH], env=busbar.environment(emulated(busbar)), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=60)
    finally:
        hidden.rename(rank_program)
    assert RANK_PROGRAM in error_line(done, 1)


@pytest.mark.parametrize("follow,args", [("child", []), ("parent", ["--no-supervisor"])], ids=["supervised", "--no-supervisor"])
def test_gdb_stops_in_the_rank(busbar, tmp_path, follow, args):
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    if (busbar.build / "CMakeCache.txt").read_text().find("-fsanitize=") >= 0:
        pytest.skip("the leak checker of the sanitizers does not work under gdb")
    script = tmp_path / "commands"
    environment = emulated(busbar) | {"LD_PRELOAD": str(busbar.build / "emulator" / "emu-hosts.so")}
    script.write_text("".join(f"set environment {name} {value}\n" for name, value in environment.items()) +
                      f"set startup-with-shell off\nset follow-fork-mode {follow}\nset breakpoint pending on\n"
                      "break bb_world_init\nrun\nbacktrace 1\ncontinue\n")
    done = busbar.run_program("gdb", "-q", "-batch", "-x", script, "--args", busbar.build / "busbar", *BENCH, *args)
    assert re.search(r"executing new program: .*/busbar-rank", done.stdout), done.stdout + done.stderr
    assert re.search(r"^#0 .*bb_world_init", done.stdout, re.M), done.stdout
    assert re.search("row verified|# Out of bounds values : 0 OK", done.stdout)
