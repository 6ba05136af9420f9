"""Failing library calls: in each run of bench one call of MPI, CUDA, NCCL, cuBLASLt or the C library fails, in the rank or in its
supervisor. The run prints one line and ends with an error; if the call does not matter, the run ends with the results of a run without the
fault. BUSBAR_EVERY_CALL=1 injects a fault into every call of each function instead of the first."""
import json
import os
import re
import subprocess

import pytest

SHORT = ["-n", "2", "-w", "1", "--repeats", "2", "-T", "20", "--json", "r.json"]
BENCH = ["bench", "all_reduce", "-b", "8", "-e", "16", *SHORT]
GEMMS = ["bench", "compute", "--quick", "-d", "float", *SHORT]
SHIM = open(os.path.dirname(__file__) + "/../fault_injection/shim.c").read()
FUNCTIONS = re.findall(r"^MARK\((\w+), ", SHIM, re.M)
C_FUNCTIONS = r"(?!MPI_|cu|nccl)[a-z_0-9]+$"
# Name -> (pattern of the functions, run that calls them, processes in which a call fails). Functions that the run does not call are
# skipped. busbar is the supervisor and the process that writes the results.
LIBRARIES = {"MPI": (r"MPI_", BENCH, "busbar-rank"), "CUDA": (r"cuda", BENCH, "busbar-rank"), "NCCL": (r"nccl", BENCH, "busbar-rank"),
             "cuBLASLt": (r"cublasLt", GEMMS, "busbar-rank"), "C in the rank": (C_FUNCTIONS, BENCH, "busbar-rank"),
             "C in the supervisor": (C_FUNCTIONS, BENCH, "busbar")}
# A single process does not start MPI. MP_CHILD marks a launcher that does not report the number of ranks; sh makes it a child process.
LAUNCHED = ["env", "MP_CHILD=0", "sh", "-c", '"$@"; exit $?', "sh"]
MAX_CALLS = 200 if os.environ.get("BUSBAR_EVERY_CALL") else 1


def run(busbar, library, folder, function="none", number=1):
    """Returns the completed process, its results, and whether the fault was injected."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    _, args, program = LIBRARIES[library]
    folder.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(shim), "FAULT": f"fail:{function}:{number}:all", "FAULT_FROM_PROGRAM": "1",
                   "FAULT_PROGRAM": program, "LC_ALL": "C",
                   "FAULT_LOG": str(folder / "injected"), "EMU_DEVICES": "1", "EMU_QUIET": "1",
                   "EMU_DATA": "off" if args is GEMMS else "on"}
    done = subprocess.run([*(LAUNCHED if library == "MPI" else []), str(busbar.build / "busbar-emulated"), *args], cwd=folder,
                          env=environment, timeout=60, capture_output=True,
                          text=True)
    try:
        results = json.loads((folder / "r.json").read_text())
    except FileNotFoundError:
        results = None
    return done, results, (folder / "injected").exists()


def comparable_rows(results):
    """Returns the rows without host times."""
    return [{k: v for k, v in row.items() if k not in ("host_us", "first_us")} for row in results["results"]]


def find_error(done, results, reference):
    """Returns why the end of the run is wrong, or None."""
    lines = [line for line in done.stderr.splitlines() if "warning:" not in line]
    if done.returncode == 0:
        if (done.stdout != reference[0].stdout or results is None or results["status"] != "ok" or
                comparable_rows(results) != comparable_rows(reference[1])):
            return "exit 0, but other results"
        return None if len(lines) <= 1 else "more than one line"
    if done.returncode not in (1, 2):
        return "the exit status"
    if results and results["status"] == "ok":
        return "the status of the results"
    return None if len(lines) == 1 and lines[0].startswith("busbar: ") else "not one line"


@pytest.fixture
def shim(busbar):
    """Returns the path of the shim that injects faults; skips where the shim cannot be loaded."""
    path = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not path.exists():
        pytest.skip("the fault injection shim requires x86-64")
    if b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the sanitizers must be loaded first")
    return str(path)


@pytest.mark.usefixtures("shim")
@pytest.mark.parametrize("library", LIBRARIES)
def test_failing_call_is_reported_or_harmless(busbar, tmp_path, library):
    pattern = LIBRARIES[library][0]
    reference = run(busbar, library, tmp_path / "reference")
    assert reference[0].returncode == 0, reference[0].stderr
    errors, injected = [], 0
    for function in FUNCTIONS:
        if not re.match(pattern, function):
            continue
        for number in range(1, MAX_CALLS + 1):
            done, results, was_injected = run(busbar, library, tmp_path / f"{function}.{number}", function, number)
            if not was_injected:
                break
            injected += 1
            reason = find_error(done, results, reference)
            if reason:
                errors.append((function, number, reason, done.returncode, done.stderr[-300:]))
    assert injected >= 5
    assert errors == []


def test_shim_covers_every_imported_function(busbar):
    """The shim marks every function that busbar-rank imports from MPI, CUDA and NCCL and that returns an error."""
    without_error = {"MPI_Error_string", "MPI_Abort", "__cudaGetKernel", "__cudaLaunchKernel", "__cudaPopCallConfiguration",
            "__cudaPushCallConfiguration", "__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaRegisterFunction",
            "__cudaUnregisterFatBinary", "cublasLtGetStatusName", "cublasLtGetStatusString", "cudaGetErrorName", "cudaGetErrorString",
            "cudaLaunchKernel", "cudaProfilerStart", "cudaProfilerStop", "ncclGetErrorString", "ncclGetLastError"}
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(busbar.build / "busbar-rank")], capture_output=True, text=True,
                             check=True).stdout
    imported = set(re.findall(r" U ((?:MPI_|_*cuda|nccl|cublas)\w+)", symbols))
    assert imported - without_error - set(FUNCTIONS) == set()


@pytest.mark.parametrize("action, status, cause",
                         [("leave", 1, "a library that called exit()"), ("leave-now", 1, "a library that called exit()"),
                         ])
def test_exit_or_crash_in_a_library_is_reported(busbar, shim, tmp_path, action, status, cause):
    """ncclAllReduce calls exit(0) or _exit(0) in a job of one rank."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{action}:ncclAllReduce:3:all"}
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *BENCH], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
                          text=True)
    results = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == status
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert f"ended by {cause}; last seen: bench all_reduce 8 B" in line
    assert (results["status"], results["ended_by"]) == ("interrupted", cause)
    assert "all_reduce 8 B" in results["phase"] and results["reason"] in line


def test_crash_in_a_library_is_reported(busbar, shim, tmp_path):
    """ncclAllReduce crashes in a job of one rank."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": "crash:ncclAllReduce:3:all"}
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *BENCH], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
                          text=True)
    results = json.loads((tmp_path / "r.json").read_text())
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 4 and "is lost; last seen: bench all_reduce 8 B" in line and line.endswith("; killed by SIGSEGV")
    assert results["status"] == "timeout" and results["reason"] in line and "all_reduce 8 B" in results["phase"]


@pytest.mark.parametrize("action, call, code, status, rows", [
    # What write 3 contains depends on the speed of the machine: fields are written with the next row if writing is slow.
    ("leave", "pwrite:3", 1, "interrupted", (0, 1, 2)), ("stall", "pwrite:3", 4, "timeout", (0, 1, 2)),
    ("stall", "fsync:2", 4, "timeout", (0,)),  # sync of the folder, after the rename
    ("stall", "rename:1", 4, None, ()), ("leave", "rename:1", 1, None, ()),  # the temporary file is deleted
    ("leave", "fsync:3", 1, "interrupted", (2,)),  # the last write
    # all data is written, only the truncation is missing; or the rank stalls first, in the shared memory of the emulated NCCL
    ("stall", "ftruncate:2", 4, "timeout", (0, 2))])
def test_hanging_or_exiting_write_keeps_results_consistent(busbar, shim, tmp_path, action, call, code, status, rows):
    """A library calls exit() during a write, or the file system hangs. Exit status and results agree, and no other file is left."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{action}:{call}:all", "EMU_QUIET": "1"}
    args = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "0.5", "--json", "r.json"]
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *args], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
                          text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == code and ("did not end" if action == "stall" else "exit()") in line
    files_left = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert {name: text["status"] for name, text in files_left.items()} == ({"r.json": status} if status else {})
    assert not status or len(files_left["r.json"]["results"]) in rows


@pytest.mark.parametrize("function, status, message, files", [
    ("fflush", 4, "timeout: the head of the table .*did not end within 0.5 s", []),
    ("destructor", 0, r"timeout: rank 0 \(.*\) has finished but did not exit within 0.5 s", ["--json", "r.json"])])
def test_hang_outside_of_measurements_is_reported(busbar, shim, tmp_path, function, status, message, files):
    """The run hangs in its first output, or in the destructor of a library after the end. In the second case the exit status is that of
    the results."""
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"stall:{function}:1:all",
                   "FAULT_FROM_PROGRAM": "1", "EMU_QUIET": "1"}
    args = ["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "0.5", *files]
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *args], cwd=tmp_path, env=environment, timeout=60, capture_output=True,
                          text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == status and re.search(message, line)
    assert [json.loads(path.read_text())["status"] for path in tmp_path.glob("*")] == ["ok"] * (len(files) // 2)


@pytest.mark.parametrize("action, value", [("nan", "nan ms"), ("past", "-1 ms")])
@pytest.mark.parametrize("args", [["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1"], [*GEMMS[:5], "-n", "2", "-w", "1"],
                                   ["proxy", "resnet50", "--scale-counts", "0.001", "--steps", "1"]])
def test_invalid_event_times_fail_the_run(busbar, shim, tmp_path, action, value, args):
    environment = {**os.environ, "LD_PRELOAD": shim, "FAULT": f"{action}:cudaEventElapsedTime:1:all",
                   "EMU_QUIET": "1", "EMU_DATA": "off"}
    done = subprocess.run([str(busbar.build / "busbar-emulated"), *args, "--json", "r.json"], cwd=tmp_path, env=environment, timeout=60,
                          capture_output=True,
                          text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and json.loads((tmp_path / "r.json").read_text())["status"] == "failed"
    assert f"cudaEventElapsedTime: {value}" in line


def test_exit_inside_mpi_init_is_reported(busbar, tmp_path):
    """Open MPI reports a missing component and calls _exit."""
    environment = {**os.environ, "OMPI_MCA_pml": "nonsense", "EMU_QUIET": "1", "SLURM_STEP_ID": "0"}
    done = subprocess.run([*LAUNCHED, str(busbar.build / "busbar-emulated"), *BENCH], cwd=tmp_path, env=environment, timeout=60,
                          capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("this MPI is not Open MPI")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 1 and "MPI_Init_thread" in line and "; if MPI cannot start: srun --mpi=pmix" in line


@pytest.mark.parametrize("function, where", [("cublasLtCreate", "the GEMMs and buffers of a step"),
                                             ("cublasLtDestroy", "the release of streams, GEMMs and buffers")])
def test_exit_inside_cublaslt_names_the_phase(busbar, shim, function, where):
    """The message names the phase of the call, not the preceding phase."""
    env = {"LD_PRELOAD": shim, "FAULT": f"leave:{function}:1:1"}
    done = busbar.run("proxy", "gpt2_large", 2, 2, 1, "--scale-counts", "0.001", "--steps", 1, "--compute", "gemm", "--no-alone", ranks=2,
                      env=env)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("busbar: ")]
    assert done.returncode == 1 and "rank 1 (" in line and f"last seen: {where}" in line
