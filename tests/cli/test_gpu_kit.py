"""tests/gpu/pack.sh and the run.sh of the GPU kit, with a fake nvidia-smi and emulated GPUs: messages, kept results and totals. The kit
is unpacked outside of the build, and finds emulated CUDA and NCCL on the library path like real libraries.
"""
import json
import os
import re
import shutil
import subprocess
import tarfile
import time

import pytest

from conftest import BUILD, ROOT


SMI = """#!/bin/sh
case "$*" in
-L) echo "GPU 0: Stand-in (UUID: GPU-0)" ;;
*query-gpu*) echo "Stand-in <1>, 1.0, 81920 MiB" ;;
esac
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    done = subprocess.run(["sh", ROOT / "tests/gpu/pack.sh", "-b", BUILD, folder / "kit.tar.gz"], capture_output=True, text=True,
                          timeout=200)
    if "cannot be downloaded" in done.stderr or "another MPI" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    cuda, glibc, size = re.search(r": CUDA (\d+), glibc 2\.(\d+) or newer, (\d+) MiB unpacked", done.stdout).groups()
    assert (BUILD / f"emulator/libcudart.so.{cuda}").exists() and int(size) < 60
    assert int(glibc) >= max(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", (BUILD / "busbar-rank").read_bytes()))
    with tarfile.open(folder / "kit.tar.gz") as archive:
        # older Python versions have no filters
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    smi = folder / "tools/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    return folder / "gpu-kit"


def start(kit, out, pattern, smi=True, prefix=(), **env):
    """Starts run.sh, after a command prefix. PATH contains only the folders of a minimal machine and the fake tools."""
    env = {"PATH": (f"{kit.parent}/tools:" if smi else "") + "/usr/bin:/bin", "HOME": str(out.parent), "TMPDIR": str(out.parent),
           "LD_LIBRARY_PATH": str(BUILD / "emulator"), "EMU_TWINS": str(BUILD / "emulator/busbar-twins.so"), "EMU_QUIET": "1",
           "EMU_DEVICES": "1", **env}
    return subprocess.Popen([*prefix, kit / "run.sh", out, pattern], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def bare_path(folder):
    """Returns a folder with the tools that run.sh needs, without mpirun."""
    folder_of_tools = folder / "bare"
    folder_of_tools.mkdir()
    for name in ("sh awk cat cd cp cut date dirname echo grep gzip head id kill ldd ls mkdir mktemp mv nproc printf rm sed seq sleep "
                 "sort tail tar timeout tr uname wc xargs env bash basename expr python3 df find mount").split():
        found = shutil.which(name, path="/usr/bin:/bin")
        if found:
            (folder_of_tools / name).symlink_to(found)
    return folder_of_tools


def run(kit, out, pattern, **env):
    """Returns the exit status, the output and results.json."""
    process = start(kit, out, pattern, **env)
    output, _ = process.communicate(timeout=150)
    results = out / "results.json"
    return process.returncode, output, json.loads(results.read_text()) if results.exists() else None


def test_steps_pass_and_their_output_is_kept(kit, tmp_path):
    status, output, results = run(kit, tmp_path / "out",
                                  "^conformance|^test-gpu-(start_barrier|kernels)|^probe$|^nccl-tests-name|^shared-2$|^killed|^stalled|^too-few")
    assert status == 0, output
    verdicts = {step["step"]: step["verdict"] for step in results["steps"]}
    assert verdicts == {"conformance": "recorded", "test-gpu-kernels": "passed", "test-gpu-start_barrier": "passed", "probe": "passed",
                        "nccl-tests-name": "passed",
                        "shared-2": "passed", "killed-rank": "passed", "stalled-rank": "passed", "too-few-gpus": "passed"}
    assert (results["passed"], results["failed"], results["skipped"]) == (8, 0, 0)
    assert results["machine"]["gpu"] == "Stand-in <1>, 1.0, 81920 MiB" and results["machine"]["emulated"] == "yes"
    assert results["metrics"]["launch_queue_calls_at_least"] == 8192
    with tarfile.open(tmp_path / "out/results.tar.gz") as archive:
        names = archive.getnames()
        assert {"results.json", "output/shared-2.txt", "output/shared-2.json", "output/nccl-tests-name.json"} <= set(names)
        conformance = archive.extractfile("output/conformance.txt").read().decode()
    assert conformance.strip().endswith("same as the emulated GPUs")
    page = (tmp_path / "out/results.html").read_text()
    assert "Stand-in &lt;1>" in page and "<tr class=passed><td>shared-2" in page


def test_failing_step_is_reported_with_its_exit_status(kit, tmp_path):
    """A row has one warm-up operation, 2 x (1 + 2) operations, and 3 for the host clock: operation 17 is the last timed operation
    of the second row."""
    status, output, results = run(kit, tmp_path / "out", "^test-gpu-start_barrier|^shared-2$",
                                  EMU_FAULT="corrupt:rank=1,call=17,name=ncclAllReduce")
    assert status == 1
    assert re.search(r"shared-2: FAILED \(exit 3, expected 0\)", output)
    assert results["failed"] == 1 and results["passed"] == 1


FAKE_TOOLS = {"nvidia-cuda-mps-control": '#!/bin/sh\ncase "$1" in -d) echo started ;; *) cat ;; esac\n',
              "compute-sanitizer": '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do\n'
                                   'case $1 in *-exitcode|--tool|--leak-check) shift ;; esac; shift; done\nexec "$@"\n'}


def test_uses_mps_and_compute_sanitizer_if_available(kit, tmp_path):
    tools = [kit.parent / "tools" / name for name in FAKE_TOOLS]
    for path, text in zip(tools, FAKE_TOOLS.values()):
        path.write_text(text)
        path.chmod(0o755)
    try:
        status, output, results = run(kit, tmp_path / "out", "^memcheck-kernels|^shared-2$|^racecheck-busy")
    finally:
        for path in tools:
            path.unlink()
    assert status == 0, output
    assert results["machine"]["mps"] == "yes" and "MPS: yes" in output
    assert [step["verdict"] for step in results["steps"]] == ["passed", "passed", "passed"]


def test_without_mpirun_steps_with_several_ranks_are_skipped(kit, tmp_path):
    hidden_folder = kit / "openmpi/aside"
    hidden_folder.mkdir()
    hidden = [path for path in (kit / "openmpi/bin").iterdir() if path.name in ("mpirun", "mpiexec")]
    for path in hidden:
        path.rename(hidden_folder / path.name)
    try:
        status, output, results = run(kit, tmp_path / "out", "^nccl-tests-name|^shared-2$|^killed|^compare-with",
                                      PATH=f"{kit.parent}/tools:{bare_path(tmp_path)}")
    finally:
        for path in hidden:
            (hidden_folder / path.name).rename(path)
        hidden_folder.rmdir()
    assert status == 0, output
    assert {step["step"]: step["verdict"] for step in results["steps"]} == {
        "nccl-tests-name": "passed", "shared-2": "skipped", "killed-rank": "skipped", "compare-with-nccl-tests": "skipped"}
    skipped = next(step for step in results["steps"] if step["step"] == "shared-2")
    assert skipped["exit_status"] is None and skipped["expected"] is None and skipped["seconds"] == 0


def test_steps_after_the_time_limit_are_skipped(kit, tmp_path):
    began = time.monotonic()
    status, output, results = run(kit, tmp_path / "out", "^stalled|^shared-2$|^killed|^scaling", GPU_SECONDS="7")
    assert time.monotonic() - began < 30
    assert results["skipped"] >= 1 and "no time left" in output


def test_results_are_kept_when_the_script_is_terminated(kit, tmp_path):
    out = tmp_path / "out"
    process = start(kit, out, "^test-gpu-start_barrier|^stalled")
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("tmp.*/pid.1")) and time.monotonic() < deadline:  # rank 1 of the second step has started
        time.sleep(0.1)
    process.terminate()
    assert process.wait(timeout=20) == 1
    assert [step["step"] for step in json.loads((out / "results.json").read_text())["steps"]] == ["test-gpu-start_barrier"]
    assert tarfile.is_tarfile(out / "results.tar.gz")


def test_reports_that_no_gpu_was_found(kit, tmp_path):
    status, output, results = run(kit, tmp_path / "out", ".", smi=False, EMU_DEVICES="0")
    if os.path.exists("/proc/driver/nvidia/gpus") or os.path.exists("/usr/bin/nvidia-smi"):
        pytest.skip("this machine has a GPU")
    assert status == 77 and "SKIPPED: no GPU found" in output and results is None


def test_gpus_are_found_without_nvidia_smi(kit, tmp_path):
    status, output, results = run(kit, tmp_path / "out", "^nccl-tests-name", smi=False)
    assert status == 0, output
    assert results["machine"]["gpus"] == 1 and results["passed"] == 1


def test_gpus_that_cuda_does_not_find_are_an_error(kit, tmp_path):
    status, output, _ = run(kit, tmp_path / "out", ".", EMU_DEVICES="0")
    assert status == 1 and "this machine has 1 GPU(s), but CUDA finds none: is libcuda.so.1 in the library path" in output


def test_old_driver_is_one_line(kit, tmp_path):
    status, output, _ = run(kit, tmp_path / "out", ".", EMU_DRIVER="9020")
    assert status == 1
    assert re.fullmatch(r"gpu tests: the driver supports CUDA 9\.2, and this build requires CUDA 1\d; install a newer driver, or build with "
                        r"the CUDA 9 toolkit\n", output), output


def confined(script, *without):
    """Returns a command prefix: a root shell in namespaces of its own runs the script, and then the command without capabilities."""
    drop = ["setpriv"] + [f"--{kind}={','.join('-' + name for name in without)}" for kind in ("inh-caps", "bounding-set")]
    prefix = ["unshare", "-m", "-n", "sh", "-c", script + ' && exec "$@"', "sh", *(drop if without else [])]
    if not shutil.which("setpriv") or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("requires root with namespaces")
    return prefix


POOL = {"EMU_SHM": "34209792"}  # bytes of NCCL's pool of proxy operations, 2048 x 72 entries of 232 bytes
SMALL_SHM = "mount -t tmpfs -o size=64m tmpfs /dev/shm"


def test_small_shm_is_enlarged_and_loopback_brought_up(kit, tmp_path):
    """A container's default of 64 MiB holds no second pool."""
    prefix = confined(SMALL_SHM)
    status, output, results = run(kit, tmp_path / "out", "^smoke|^shared-2$|^killed", prefix=prefix, **POOL)
    assert status == 0 and results["passed"] == 3, output
    assert results["machine"]["shm"].startswith("8192 MiB") and results["machine"]["loopback"] == "was down, is up"


def test_small_shm_that_cannot_be_enlarged_skips_shared_ranks(kit, tmp_path):
    prefix = confined(SMALL_SHM, "sys_admin")
    status, output, results = run(kit, tmp_path / "out", "^smoke|^shared-2$|^nccl-tests-name|^stalled", prefix=prefix, **POOL)
    assert status == 0 and results["machine"]["shm"].startswith("64 MiB"), output
    assert (results["passed"], results["skipped"]) == (1, 3)
    assert re.search(r"shared-2: SKIPPED: NCCL needs 140 MiB of /dev/shm, 6\d MiB are free; try: docker run --shm-size=8g", output)


def test_ranks_that_do_not_start_end_a_fault_step_at_once(kit, tmp_path):
    began = time.monotonic()
    status, output, results = run(kit, tmp_path / "out", "^killed", prefix=confined("true", "net_admin"))
    assert status == 1 and results["machine"]["loopback"] == "down"
    assert "rank 1 did not start" in output and "Illegal" not in output and time.monotonic() - began < 30


def test_failed_smoke_test_is_repeated_with_debug_output_and_skips_shared_ranks(kit, tmp_path):
    status, output, results = run(kit, tmp_path / "out", "^smoke|^shared-2$|^proxy-gemm|^killed",
                                  EMU_FAULT="fail:rank=1,call=1,name=ncclCommInitRankConfig")
    assert status == 1, output
    assert [step["verdict"] for step in results["steps"]] == ["failed", "recorded", "skipped", "skipped", "skipped"]
    assert "shared-2: SKIPPED: ranks cannot share a GPU here: see smoke.txt and smoke-debug.txt" in output


def test_step_that_exceeds_its_limit_is_too_slow_not_failed(kit, tmp_path):
    tool = kit.parent / "tools/compute-sanitizer"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    try:
        status, output, results = run(kit, tmp_path / "out", "^memcheck-kernels", GPU_SECONDS="9")
    finally:
        tool.unlink()
    assert status == 0 and "memcheck-kernels: too slow, more than" in output
    assert results["too_slow"] == 1 and results["failed"] == 0 and results["steps"][0]["verdict"] == "too_slow"


def test_libraries_of_a_virtual_environment_are_found(kit, tmp_path):
    """The build's own libraries are hidden. Without NCCL only the steps that require the CUDA runtime alone run."""
    nvidia = tmp_path / "venv/lib/python3.12/site-packages/nvidia"
    for name, target in (("cuda_runtime", "libcudart"), ("nccl", "libnccl"), ("cu13", "libcublasLt")):
        (nvidia / name / "lib").mkdir(parents=True)
        for library in (BUILD / "emulator").glob(target + ".so.*"):
            shutil.copy(library, nvidia / name / "lib")
    listed = subprocess.run(["ldd", BUILD / "busbar-rank"], capture_output=True, text=True, check=True).stdout
    folders = {os.path.dirname(path) for path in re.findall(r"=> (\S+(?:nccl|cublasLt)\S+)", listed)}
    if any(re.match("/(usr/)?lib", folder) for folder in folders):
        pytest.skip("the build uses libraries of the system")
    env = {"prefix": confined(" && ".join(f"mount -t tmpfs tmpfs {folder}" for folder in folders)),
           "LD_LIBRARY_PATH": str(nvidia / "cuda_runtime/lib")}
    status, output, results = run(kit, tmp_path / "out", "^nccl-tests-name", VIRTUAL_ENV=str(tmp_path / "venv"), **env)
    assert status == 0 and results["passed"] == 1, output
    (kit.parent / "tools/find").write_text("#!/bin/sh\n")
    (kit.parent / "tools/find").chmod(0o755)
    try:
        status, output, results = run(kit, tmp_path / "bare", "^nccl-tests-name|^test-gpu-start_barrier", **env)
    finally:
        (kit.parent / "tools/find").unlink()
    assert status == 1 and results["passed"] == 1
    cuda = next((BUILD / "emulator").glob("libcudart.so.1?")).suffix[1:]
    cublas = {"12": "nvidia-cublas-cu12", "13": "nvidia-cublas"}[cuda]
    assert re.search(rf"libraries not found .*: libcublasLt\.so\.{cuda} libnccl\.so\.2 ; try: pip install {cublas} nvidia-nccl-cu{cuda}", output)
