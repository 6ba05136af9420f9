"""The program and its GPU library: commands that run without the GPU library's dependencies, the errors of bench and proxy in that case,
and the search for the GPU library of an installed busbar."""
import os
import re
import shutil
import subprocess

import pytest

BENCH = ["bench", "all_reduce", "-b", "8", "-e", "8"]
PROXY = ["proxy", "gpt2_large", "4", "2", "2"]
MODULE = "libbusbar-gpu.so"
ADVICE = {"libmpi": "an MPI library", "libnccl": "NCCL", "libcudart": "the CUDA runtime", "libcublasLt": "cuBLASLt"}


def dynamic(path, tag):
    """The values of one tag of the dynamic section."""
    text = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    return re.findall(rf"\({tag}\)\s.*\[(.*)\]", text)


def gpu_library_dependencies(busbar):
    return [name for name in dynamic(busbar.build / MODULE, "NEEDED") if name.startswith(tuple(ADVICE))]


def patch(path, old, new):
    """Other bytes in place of a text that ends in a zero; the file keeps its length."""
    assert len(old) == len(new)
    data = path.read_bytes()
    assert old.encode() + b"\0" in data
    path.write_bytes(data.replace(old.encode() + b"\0", new.encode() + b"\0"))


def names_defined(path):
    return {line.split()[-1] for line in subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True,
                                                        check=True).stdout.splitlines()}


def test_program_and_gpu_library_define_no_common_symbol(busbar):
    """The GPU library would call the program's function of the same name instead of its own."""
    program, gpu_library = names_defined(busbar.build / "busbar"), names_defined(busbar.build / MODULE)
    assert "bb_plan_main" in program and "bb_proxy_run" in gpu_library
    assert program & gpu_library <= {"_init", "_fini"}


class Copy:
    """A copy of the program and its GPU library in a separate folder, where libraries can be hidden."""

    def __init__(self, busbar, folder):
        self.busbar, self.folder, self.program, self.module = busbar, folder, folder / "busbar", folder / MODULE
        shutil.copy(busbar.build / "busbar", self.program)
        shutil.copy(busbar.build / MODULE, self.module)

    def hide(self, *libraries):
        """Makes the GPU library depend on a library name that does not exist."""
        for name in libraries:
            patch(self.module, name, name.replace(".so.", ".so-"))

    def run(self, *words, ranks=0, env=None, program=None):
        command = [str(program or self.program), *map(str, words)]
        return subprocess.run(["mpirun", "-n", str(ranks), *command] if ranks else command, env=self.busbar.environment(env),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)


@pytest.fixture
def copy(busbar, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    return Copy(busbar, folder)


@pytest.fixture
def bare(busbar, copy):
    """A copy that finds none of the GPU library's dependencies."""
    copy.hide(*gpu_library_dependencies(busbar))
    return copy


def refused(done, status):
    """The one line that a refusal is."""
    assert done.returncode == status and done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar:")]
    return line


@pytest.mark.parametrize("words", [BENCH, PROXY], ids=["bench", "proxy"])
@pytest.mark.parametrize("stem", ADVICE)
def test_a_missing_library_is_named(busbar, copy, stem, words):
    (name,) = [name for name in gpu_library_dependencies(busbar) if name.startswith(stem)]
    copy.hide(name)
    done = copy.run(*words)
    line = refused(done, 1)
    assert done.stderr.count("\n") == 1
    assert f"{words[0]} needs {name.replace('.so.', '.so-')}, which is not found: {ADVICE[stem]}" in line
    assert "LD_LIBRARY_PATH" in line and "bootstrap/setup.sh" in line


def test_a_broken_library_is_named(busbar, copy, tmp_path):
    """An empty file under the right name: the loader stops there and looks no further."""
    (name,) = [name for name in gpu_library_dependencies(busbar) if name.startswith("libnccl")]
    (tmp_path / name).touch()
    line = refused(copy.run(*BENCH, env={"LD_LIBRARY_PATH": str(tmp_path)}), 1)
    assert f"bench needs {name}, which cannot be loaded ({tmp_path / name}: " in line and ADVICE["libnccl"] in line


def test_one_rank_names_the_missing_library(busbar, copy):
    (name,) = [name for name in gpu_library_dependencies(busbar) if name.startswith("libnccl")]
    copy.hide(name)
    done = copy.run(*BENCH, ranks=3)
    assert done.returncode == 1 and done.stderr.count("busbar:") == 1 and "libnccl" in done.stderr


def test_under_an_nccl_tests_name_too(bare):
    link = bare.folder / "all_reduce_perf"
    link.symlink_to("busbar")
    assert "which is not found" in refused(bare.run("-b", "8", "-e", "8", program=link), 1)


def test_program_without_its_gpu_library(copy):
    copy.module.unlink()
    line = refused(copy.run(*BENCH), 1)
    assert MODULE in line and str(copy.folder) in line and "BUSBAR_GPU" in line


def test_gpu_library_of_another_version(copy):
    version = copy.run("--version").stdout.split()[1]
    patch(copy.module, version, "9" + version[1:])
    line = refused(copy.run(*BENCH), 1)
    assert MODULE in line and version in line and "9" + version[1:] in line


@pytest.mark.parametrize("words", [
    ["--help"], ["--version"], ["list"], ["bench", "--help"], ["bench", "p2p", "--help"], ["proxy", "--help"], ["compare", "--help"],
    ["sweep", "--help"], ["calibrate", "--help"], ["plan", "gpt2_large", "12", "4", "3", "--ranks", "8", "--cluster", "h100-sxm-ib"],
])
def test_offline_commands_need_no_library(busbar, bare, words):
    done = bare.run(*words)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == busbar.run(*words).stdout != ""


@pytest.mark.parametrize("words,why", [
    (["bench", "all_redcue"], "all_reduce"), (["bench", "all_reduce", "--bgin", "8"], "--bgin"), (["bench", "p2p", "x"], "'x'"),
    (["proxy", "gpt2_lrage"], "gpt2_large"), (["proxy", "gpt2_large", "--stpes", "3"], "--stpes"),
    (["proxy", "gpt2_large", "--trace", "t.json", "--traced-steps", "0"], "--traced-steps"),
])
def test_refusals_need_no_library(bare, words, why):
    assert why in refused(bare.run(*words), 2)


def test_results_are_compared_without_a_library(busbar, bare, tmp_path):
    busbar.json(*BENCH, tmp_path=tmp_path)
    result = tmp_path / "result.json"
    done = bare.run("compare", result, result)
    assert done.returncode == 0 and "all_reduce" in done.stdout


def test_a_study_is_listed_without_a_library(bare, tmp_path):
    study = tmp_path / "study.json"
    study.write_text('{"command": "bench all_reduce", "options": {"minbytes": ["8", "1K"]}, "ranks": 2}')
    done = bare.run("sweep", study, "--list")
    assert done.returncode == 0 and "minbytes" in done.stdout


def test_the_program_asks_for_no_gpu_library(busbar):
    asked = dynamic(busbar.build / "busbar", "NEEDED")
    assert any(name.startswith("libjansson") for name in asked)
    assert [name for name in asked if re.match(r"lib(cu|nccl|mpi|nv|open|stdc\+\+)", name)] == []


@pytest.mark.parametrize("words,mib", [(["--version"], 16), (["plan", "gpt3", "--ranks", "98304"], 40)], ids=["version", "plan"])
def test_memory_stays_small(busbar, words, mib):
    program = busbar.build / "busbar"
    if b"__asan_init" in program.read_bytes():
        pytest.skip("the sanitizers' own memory is larger")
    done = subprocess.run([str(busbar.build / "tests/perf/peak"), str(program), *words], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout.split()[1]) <= mib * 1024


def empty_paths(file):
    return [entry for path in dynamic(file, "RUNPATH") + dynamic(file, "RPATH") for entry in path.split(":") if not entry.startswith(("/", "$"))]


@pytest.mark.parametrize("name", ["busbar", MODULE])
def test_no_library_comes_from_the_current_folder(busbar, name):
    """An empty entry of a search path stands for the folder that one happens to be in."""
    assert empty_paths(busbar.build / name) == []


def symbols(path):
    text = subprocess.run(["readelf", "--dyn-syms", "-W", str(path)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"UND (\w+)", text))


@pytest.mark.parametrize("name", ["busbar", MODULE])
def test_binaries_are_hardened(busbar, name):
    """Against what a memory error is used for: a guard on stacks, checked library calls, tables that nothing can write to any more."""
    path = busbar.build / name
    kind = re.search(r"CMAKE_BUILD_TYPE:\w+=(\w*)", (busbar.build / "CMakeCache.txt").read_text()).group(1)
    if kind == "Debug":
        pytest.skip("a debugger's build")
    program = subprocess.run(["readelf", "-hlW", str(path)], capture_output=True, text=True, check=True).stdout
    flags = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    assert re.search(r"Type:\s+DYN", program) and "GNU_RELRO" in program
    assert re.search(r"GNU_STACK.*RW ", program) and not re.search(r"GNU_STACK.*RWE", program)
    assert "BIND_NOW" in flags or re.search(r"\(FLAGS_1\).*NOW", flags)
    called = symbols(path)
    assert "__stack_chk_fail" in called
    assert len([s for s in called if re.fullmatch(r"__\w+_chk", s)]) >= 5
    if re.search(r"HAS_fcf_protection:\w+=1", (busbar.build / "CMakeCache.txt").read_text()):
        code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=True).stdout
        assert code.count("endbr") > 100  # where an indirect jump may land


@pytest.fixture(scope="module")
def installed(busbar, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", str(busbar.build), "--prefix", str(prefix)], check=True, capture_output=True)
    return prefix


def emulated(busbar):
    """What build/busbar-emulated sets, for another program."""
    return {"LD_LIBRARY_PATH": str(busbar.build / "emulator"), "EMU_TWINS": str(busbar.build / "emulator" / "busbar-twins.so")}


def test_installed_files_take_nothing_from_the_current_folder(installed):
    assert empty_paths(installed / "bin" / "busbar") == empty_paths(installed / "lib" / "busbar" / MODULE) == []


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "through a link"])
@pytest.mark.parametrize("name,words", [("busbar", BENCH), ("all_reduce_perf", ["-b", "8", "-e", "8"])], ids=["busbar", "all_reduce_perf"])
def test_installed_program_finds_its_gpu_library(busbar, installed, tmp_path, name, words, linked):
    program = installed / "bin" / name
    if linked:
        (tmp_path / name).symlink_to(program)
        program = tmp_path / name
    done = subprocess.run([str(program), *words], env=busbar.environment(emulated(busbar)), cwd=tmp_path, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Emulated GPU" in done.stdout and "# Out of bounds values : 0 OK" in done.stdout


def test_installed_gpu_library_is_used(busbar, installed):
    module = installed / "lib" / "busbar" / MODULE
    module.rename(module.with_suffix(".away"))
    try:
        done = subprocess.run([str(installed / "bin" / "busbar"), *BENCH], env=busbar.environment(emulated(busbar)), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=60)
    finally:
        module.with_suffix(".away").rename(module)
    assert MODULE in refused(done, 1)
