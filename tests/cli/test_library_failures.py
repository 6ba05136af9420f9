"""A call of MPI, CUDA, NCCL, cuBLASLt or the C library that fails, one in each run of `bench` on one rank: the run says so in one line and ends with
an error, or, where nothing hangs on the call, ends with the results that it would have had. BUSBAR_EVERY_CALL=1 takes every
call of each function instead of the first."""
import json
import os
import re
import signal
import subprocess

import pytest

SHORT = ["-n", "2", "-w", "1", "--repeats", "2", "-T", "20", "--json", "r.json"]
BENCH = ["bench", "all_reduce", "-b", "8", "-e", "16", *SHORT]
PRODUCTS = ["bench", "compute", "--quick", "-d", "float", *SHORT]
SHIM = open(os.path.dirname(__file__) + "/../fault_injection/shim.c").read()
FUNCTIONS = re.findall(r"^MARK\((\w+), ", SHIM, re.M)
# Which functions are tried in which run; a function that it does not call is left out.
PARTS = {"MPI": (r"MPI_", BENCH), "CUDA": (r"cuda", BENCH), "NCCL": (r"nccl", BENCH), "cuBLASLt": (r"cublasLt", PRODUCTS),
         "C": (r"(?!MPI_|cu|nccl)[a-z_]+$", BENCH)}
# A process that is alone starts no MPI: here a launcher started it that does not say how many there are, a new one each time.
LAUNCHED = ["env", "MP_CHILD=0", "sh", "-c", '"$@"; exit $?', "sh"]
MOST = 200 if os.environ.get("BUSBAR_EVERY_CALL") else 1


def run(busbar, part, folder, function="none", number=1):
    """What the run said and left behind, and whether the call was made."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    words = PARTS[part][1]
    folder.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAULT": f"fail:{function}:{number}:all", "FAULT_FROM_PROGRAM": "1", "LC_ALL": "C",
                   "FAULT_LOG": str(folder / "made"), "EMU_DEVICES": "1", "EMU_QUIET": "1", "EMU_DATA": "off" if words is PRODUCTS else "on"}
    done = subprocess.run([*(LAUNCHED if part == "MPI" else []), str(busbar.build / "busbar-emulated"), *words], cwd=folder, env=environment, timeout=60, capture_output=True,
                          text=True)
    try:
        results = json.loads((folder / "r.json").read_text())
    except FileNotFoundError:
        results = None
    return done, results, (folder / "made").exists()


def figures(results):
    """Without what a host's clock and the environment say."""
    return [{k: v for k, v in row.items() if k not in ("host_us", "first_us")} for row in results["results"]]


def judge(done, results, whole):
    """Why this end is none of those allowed; None: it is one."""
    lines = [line for line in done.stderr.splitlines() if "warning:" not in line]
    if done.returncode == 0:
        if done.stdout != whole[0].stdout or results is None or results["status"] != "ok" or figures(results) != figures(whole[1]):
            return "exit 0, but other results"
        return None if len(lines) <= 1 else "more than one line"
    if done.returncode not in (1, 2):
        return "the exit status"
    if results and results["status"] == "ok":
        return "the status of the results"
    return None if len(lines) == 1 and lines[0].startswith("busbar: ") else "not one line"


@pytest.fixture
def shim(busbar):
    """What marks the calls, where it can be loaded."""
    path = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not path.exists():
        pytest.skip("the shim of the drills is of x86-64")
    if b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the sanitizers want to be loaded first")
    return str(path)


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("part", PARTS)
def test_a_failing_call_hides_nothing(busbar, tmp_path, part):
    pattern = PARTS[part][0]
    whole = run(busbar, part, tmp_path / "whole")
    assert whole[0].returncode == 0, whole[0].stderr
    bad, made = [], 0
    for function in FUNCTIONS:
        if not re.match(pattern, function):
            continue
        for number in range(1, MOST + 1):
            done, results, was_made = run(busbar, part, tmp_path / f"{function}.{number}", function, number)
            if not was_made:
                break
            made += 1
            reason = judge(done, results, whole)
            if reason:
                bad.append((function, number, reason, done.returncode, done.stderr[-300:]))
    assert made >= 5
    assert bad == []


def test_every_call_is_marked(busbar):
    """What the GPU library takes from MPI, CUDA and NCCL is in the shim's list, but for what returns no error."""
    none = {"MPI_Error_string", "MPI_Abort", "__cudaGetKernel", "__cudaLaunchKernel", "__cudaPopCallConfiguration",
            "__cudaPushCallConfiguration", "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaRegisterFunction",
            "__cudaUnregisterFatBinary", "cublasLtGetStatusName", "cublasLtGetStatusString", "cudaGetErrorName", "cudaGetErrorString",
            "cudaLaunchKernel", "cudaProfilerStart", "cudaProfilerStop", "ncclGetErrorString", "ncclGetLastError"}
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(busbar.build / "libbusbar-gpu.so")], capture_output=True, text=True,
                             check=True).stdout
    taken = set(re.findall(r" U ((?:MPI_|_*cuda|nccl|cublas)\w+)", symbols))
    assert taken - none - set(FUNCTIONS) == set()


@pytest.mark.parametrize("deed, status, cause", [("leave", 1, "a library that called exit()"), ("leave-now", 1, "a library that called exit()"),
                                                 ("crash", -signal.SIGSEGV, "SIGSEGV")])
def test_an_exit_or_a_crash_of_a_library_is_told(busbar, shim, tmp_path, deed, status, cause):
    """ncclAllReduce calls exit(0), or _exit(0), or crashes: one process, so that no other rank could tell."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{deed}:ncclAllReduce:3:all"}
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *BENCH], cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True)
    results = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == status
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert f"ended by {cause}; last seen: bench all_reduce 8 B" in line
    assert (results["status"], results["ended_by"]) == ("interrupted", cause)
    assert "all_reduce 8 B" in results["phase"]


@pytest.mark.parametrize("deed, call, code, status, rows", [
    ("leave", "pwrite:3", 1, "interrupted", (1, 2)),  # a row, which is written all the same: the second, where a slow
    ("stall", "pwrite:3", 4, "timeout", (1, 2)),      # machine did not write again with the first, its head having changed
    ("stall", "fsync:2", 4, "timeout", (0,)),  # the folder of a file that has its name
    ("stall", "rename:1", 4, None, ()), ("leave", "rename:1", 1, None, ()),  # it has another name yet, which goes
    ("leave", "fsync:3", 1, "running", (2,)),  # the last write
    ("stall", "ftruncate:2", 0, "ok", (2,))])  # all is written: only its length is to be cut
def test_a_write_that_does_not_come_back(busbar, shim, tmp_path, deed, call, code, status, rows):
    """A library calls exit() in it, or the file system hangs: exit status and results agree, and nothing else is left."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{deed}:{call}:all", "EMU_QUIET": "1"}
    words = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "0.5", "--json", "r.json"]
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *words], cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == code and ("did not end" if deed == "stall" else "exit()") in line
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert {name: text["status"] for name, text in found.items()} == ({"r.json": status} if status else {})
    assert not status or len(found["r.json"]["results"]) in rows


@pytest.mark.parametrize("function, status, said, files", [("fflush", 4, "the head of the table", []),
                                                          ("destructor", 0, "the exit of the process", ["--json", "r.json"])])
def test_a_run_that_hangs_beside_its_work_is_told(busbar, shim, tmp_path, function, status, said, files):
    """In what it prints first, or, when it is over, in a library's destructor: then it ends with its own status, as its results say."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"stall:{function}:1:all",
                   "FAULT_FROM_PROGRAM": "1", "EMU_QUIET": "1"}
    words = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "0.5", *files]
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *words], cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == status and f"timeout: {said} did not end within 0.5 s" in line
    assert [json.loads(path.read_text())["status"] for path in tmp_path.glob("*")] == ["ok"] * (len(files) // 2)


@pytest.mark.parametrize("deed, told", [("nan", "nan ms"), ("past", "-1 ms")])
@pytest.mark.parametrize("words", [["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1"], [*PRODUCTS[:5], "-n", "2", "-w", "1"],
                                   ["proxy", "resnet50", "--scale-counts", "0.001", "--steps", "1"]])
def test_a_time_that_is_none_is_no_measurement(busbar, shim, tmp_path, deed, told, words):
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{deed}:cudaEventElapsedTime:1:all",
                   "EMU_QUIET": "1", "EMU_DATA": "off"}
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *words, "--json", "r.json"], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
                          text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and json.loads((tmp_path / "r.json").read_text())["status"] == "failed"
    assert f"cudaEventElapsedTime: {told}" in line


def test_an_mpi_that_ends_the_process_in_its_start_is_named(busbar, tmp_path):
    """Open MPI says what it misses, and leaves by _exit."""
    environment = {**os.environ, "OMPI_MCA_pml": "nonsense", "EMU_QUIET": "1"}
    done = subprocess.run([*LAUNCHED, str(busbar.build / "busbar-emulated"), *BENCH], cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("this MPI is another one")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 1 and "MPI_Init_thread" in line


@pytest.mark.parametrize("function, where", [("cublasLtCreate", "the streams, GEMMs and buffers of a step"),
                                             ("cublasLtDestroy", "the release of streams, GEMMs and buffers")])
def test_a_rank_that_ends_in_cublaslt_is_seen_there(busbar, shim, function, where):
    """Not in the step before, the opening of the results or the last of the timed ones."""
    env = {"LD_PRELOAD": shim, "FAULT": f"leave:{function}:1:1"}
    done = busbar.run("proxy", "gpt2_large", 2, 2, 1, "--scale-counts", "0.001", "--steps", 1, "--compute", "gemm", "--no-alone", ranks=2, env=env)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 1 and "rank 1 (" in line and f"last seen: {where}" in line
