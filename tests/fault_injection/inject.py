"""inject.py - runs busbar once for each combination of phase and fault, and prints a table of the results.

Each case is one job of ranks on emulated GPUs. Cases are independent, and several run at the same time. A case passes when the job
  inject   reaches the marked call, where the fault is injected,
  end      ends within the timeout plus 5 s after the fault,
  exit     ends with a documented exit status,
  message  prints one line that names the phase, and the rank if one rank is at fault,
  rows     leaves a result file that parses and whose status is correct,
  clean    leaves no process, no shared memory and no temporary file.

The launcher is the MPI launcher of the build (Open MPI's mpirun or MPICH's mpiexec). FAULT_LAUNCHER=srun, with a build of MPICH,
selects fake_srun.py instead, and FAULT_LAUNCHER="srun --overcommit --mpi=pmix" a real Slurm. Some launchers crash themselves, or keep
running after their last rank has ended. Such a case has no end and no exit status to check: the table shows `launcher`, the log
describes the failure, and these cases are counted separately. All other checks apply as usual.
"""
import concurrent.futures
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUSBAR_BUILD", "build")
SHIM = next((path for path in (BUILD + "/tests/fault_injection/libfault_shim.so", "build/tests/fault_injection/libfault_shim.so")
             if os.path.exists(path)), "")
TIMEOUT_S, SLACK_S, HOLD_S, GRACE_S = 3, 5, 40, 2.5
NO_RANKS_S = 5  # time in which a launcher must end after its last rank has ended

COMMANDS = {
    "bench": (3, ["bench", "all_reduce", "-b", "8", "-e", "64", "-n", "5", "--repeats", "2", "-N", "2"]),
    "proxy": (4, ["proxy", "gpt2_large", "4", "2", "2", "--scale-counts", "0.001", "--steps", "3", "--check"]),
}

# Phase -> command -> (marked function, call number at which the fault is injected). Phases in ONLY_RANK_0 run on rank 0 only, so
# they have no faults on rank 1.
PHASES = {
    "a-mpi-init": {"bench": ("MPI_Init_thread", 1), "proxy": ("MPI_Init_thread", 1)},
    "b-roll-call": {"bench": ("MPI_Iallgather", 1), "proxy": ("MPI_Iallgather", 1)},
    "b-supervisors": {"bench": ("MPI_Ibcast", 1), "proxy": ("MPI_Ibcast", 1)},
    "b-device": {"bench": ("cudaSetDevice", 1), "proxy": ("cudaSetDevice", 1)},
    "b-unique-id": {"bench": ("ncclGetUniqueId", 1), "proxy": ("ncclGetUniqueId", 1)},
    "c-comm-init": {"bench": ("ncclCommInitRankConfig", 1), "proxy": ("ncclCommInitRankConfig", 1)},
    "c-buffers": {"bench": ("ncclMemAlloc", 1), "proxy": ("ncclMemAlloc", 1)},
    "c-open": {"bench": ("fsync", 1), "proxy": ("fsync", 1)},
    "c-open-folder": {"bench": ("fsync", 2), "proxy": ("fsync", 2)},
    "d-warm-up": {"bench": ("ncclAllReduce", 1), "proxy": ("ncclSend", 1)},
    "e-timed": {"bench": ("ncclAllReduce", 12), "proxy": ("ncclSend", 12)},
    "f-verify": {"bench": ("cudaMemcpy", 1), "proxy": ("cudaMemcpyAsync", 1)},
    "g-write": {"bench": ("pwrite", 2), "proxy": ("fsync", 5)},  # a proxy has no rows: each change writes a new file
    "g-rename": {"bench": ("rename", 1), "proxy": ("rename", 1)},
    "h-finalize": {"bench": ("ncclCommFinalize", 1), "proxy": ("ncclCommFinalize", 1)},
    "h-mpi-finalize": {"bench": ("MPI_Finalize", 1), "proxy": ("MPI_Finalize", 1)},
}
ONLY_RANK_0 = ("b-unique-id", "c-open", "c-open-folder", "g-write", "g-rename")

# Fault -> (action of shim.c, rank, accepted exit statuses, pattern of the error line). mpirun returns the exit status of the rank that
# died first. "{signals}" is the rank that sends a signal to the launcher.
FAULTS = {
    "kill1": ("kill", "1", (4, 137, 1), r"rank 1 |SIGTERM"),
    "stop1": ("stop", "1", (4,), r"rank 1 |did not end"),
    "stall1": ("stall", "1", (4,), r"rank 1 |did not end"),
    "segv1": ("segv", "1", (4, 139, 1), r"rank 1 |SIGTERM"),
    "exit1": ("exit", "1", (4, 1), r"rank 1 |SIGTERM|did not end"),
    "leave1": ("leave", "1", (1,), r"rank 1 .*ended by a library that called exit\(\); last seen: \w"),
    "fail1": ("fail", "1", (1, 16), r"rank 1 "),
    "kill0": ("kill", "0", (4, 137, 1), r"rank 0 |SIGTERM"),
    "stop0": ("stop", "0", (4,), r"rank 0 |did not end"),
    "stall0": ("stall", "0", (4,), r"rank 0 |did not end"),
    "stall-all": ("stall", "all", (4,), r"did not end within 3 s|after 3 s: rank "),
    "term": ("term", "{signals}", (1, 143), r"ended by SIGTERM; last seen: \w"),
    "int": ("int", "{signals}", (1, 130), r"ended by SIG(INT|TERM); last seen: \w"),
    "hup": ("hup", "{signals}", (1, 129), r"ended by SIG(HUP|TERM); last seen: \w"),
    "usr1": ("usr1", "{signals}", (1, 138), r"ended by SIGUSR1; last seen: \w"),
    "usr2": ("usr2", "{signals}", (1, 140), r"ended by SIGUSR2; last seen: \w"),
    "quit1": ("quit", "1", (1, 131), r"ended by SIGQUIT; last seen: \w"),
    "xcpu0": ("xcpu", "0", (1, 152), r"ended by SIGXCPU; last seen: \w"),
    "orphan": ("orphan", "{signals}", (137,), r"ended by the loss of its launcher; last seen: \w"),
}
# Further exit statuses of particular launchers. Hydra returns the number of the first signal that it saw, or of the signal with which it
# killed a stopped rank. When Hydra itself is interrupted it may return 0 although all ranks returned 1.
# srun only prints the state of the job after one SIGINT, so the job ends with 0; slurmstepd kills the other ranks 1 s after a rank has ended
# that had not reached MPI_Finalize, and while MPI starts it kills them at once: srun then returns 137, after the line was printed.
STATUSES = {"hydra": {"kill1": (9,), "kill0": (9,), "segv1": (11,), "stop1": (9,), "stop0": (9,), "int": (0,), "usr1": (0,)},
            "Slurm": {"int": (0,), "segv1": (137,), "leave1": (137,), "usr1": (137,), "usr2": (137,)}}
# `--sweep-calls`: calls 1, 2, 4, 8 ... of each function in SWEPT_FUNCTIONS fail, on rank 1 and on all ranks. The failing rank reports the
# function and the phase. No rank may be left waiting in an exchange or an operation, so no FORBIDDEN_MESSAGES may appear.
SWEEP_FAULTS = {"fail1": (r"rank 1 ",), "fail-all": (r"",)}
FAULTS["fail-all"] = ("fail", "all", (1,), r"")
SWEPT_FUNCTIONS = (
    "cudaSetDevice cudaGetDeviceProperties cudaMalloc cudaHostAlloc cudaMallocHost cudaMemcpy cudaMemcpyAsync cudaMemsetAsync "
    "cudaMemGetInfo cudaEventCreate cudaEventCreateWithFlags cudaEventElapsedTime cudaEventQuery cudaEventRecord cudaEventSynchronize "
    "cudaFuncGetAttributes cudaLaunchKernel cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamQuery "
    "cudaStreamSynchronize cudaStreamWaitEvent cudaDeviceGetAttribute ncclGetVersion ncclGetUniqueId ncclCommInitRankConfig "
    "ncclCommCount ncclCommUserRank ncclCommGetAsyncError ncclMemAlloc ncclGroupStart ncclGroupEnd ncclAllReduce ncclSend ncclRecv "
    "ncclCommFinalize ncclCommDestroy MPI_Iallgather MPI_Ibcast").split()
FORBIDDEN_MESSAGES = r"timeout|did not end|truncate|is lost|ended by SIG"
QUICK_SWEEP = ("bench/cudaMalloc#1", "bench/cudaEventRecord#4", "bench/ncclAllReduce#2", "proxy/ncclSend#2", "proxy/cudaMemcpyAsync#1",
              "proxy/MPI_Iallgather#4")
INTERRUPTS = ("term", "int", "hup", "usr1", "usr2", "quit", "xcpu", "orphan", "leave")
LOSSES = ("kill1", "segv1", "exit1", "kill0")
# Signals (by fault) after which SIGKILL ends all ranks at once: Hydra does not handle them and dies, and its proxy processes kill the
# ranks; after SIGTERM, SIGHUP or the loss of srun, slurmstepd kills the step within about 10 ms.
FATAL_SIGNALS = {"hydra": ("hup", "usr2", "orphan"), "Slurm": ("term", "hup", "orphan")}
IGNORED_SIGNALS = {"Slurm": ("int",)}  # the launcher does not end the job
QUICK = {
    "bench": [(p, f) for p in PHASES if p != "h-mpi-finalize" for f in ("kill0", "stall-all")] + [  # mpirun may hang in MPI_Finalize
        ("c-comm-init", "kill1"), ("e-timed", "stop0"), ("e-timed", "term"), ("e-timed", "usr1"), ("h-finalize", "stall1"),
        ("e-timed", "orphan"), ("f-verify", "quit1"), ("b-roll-call", "stop1"), ("a-mpi-init", "stop0"), ("f-verify", "stall0"),
        ("e-timed", "leave1"), ("c-open", "stall0")],
    "proxy": [("c-comm-init", "kill0"), ("c-buffers", "stall-all"), ("e-timed", "stop0"), ("e-timed", "int"),
              ("b-unique-id", "stall-all")],
}


SLURM_SELECTION = {
    "bench": [("a-mpi-init", "kill0"), ("b-supervisors", "kill1"), ("c-comm-init", "exit1"), ("e-timed", "kill1"), ("e-timed", "stop0"),
              ("e-timed", "term"), ("e-timed", "usr1"), ("e-timed", "leave1"), ("f-verify", "segv1"), ("c-open", "stall0"),
              ("h-finalize", "stall1")],
    "proxy": [("c-comm-init", "kill0"), ("e-timed", "stall-all")],
}


def find_launcher():
    """Returns the launcher's name and its command."""
    if os.environ.get("FAULT_LAUNCHER") == "srun":
        return "srun", [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_srun.py")]
    if os.environ.get("FAULT_LAUNCHER", "").startswith("srun "):
        return "Slurm", os.environ["FAULT_LAUNCHER"].split()
    with open(BUILD + "/CMakeCache.txt", encoding="utf-8") as file:
        found = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(.+)$", file.read(), re.M)
    program = found.group(1) if found else "mpirun"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return "hydra" if "HYDRA" in version else "Open MPI", [program]


def cases(names):
    """Returns the selected cases as (command, phase, fault)."""
    everything = [(c, p, f) for c in COMMANDS for p in PHASES for f in FAULTS
                  if f != "fail-all" and not (p in ONLY_RANK_0 and FAULTS[f][1] == "1")]
    if names == ["--quick"]:
        return [d for d in everything if d[1:] in QUICK[d[0]]] + [(*d.split("/"), f) for d in QUICK_SWEEP for f in SWEEP_FAULTS]
    if names == ["--slurm"]:
        return [d for d in everything if d[1:] in SLURM_SELECTION[d[0]]]
    return [d for d in everything if not names or any("/".join(d).startswith(name) for name in names)]


def processes(mark):
    """Returns the ids of the processes whose environment contains the mark of a case."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def abandoned_regions(since_s):
    """Returns the emulator's shared memory files that were modified since `since_s` and that no living process has locked."""
    left = []
    for path in glob.glob("/dev/shm/emu-nccl-*"):
        try:
            if os.stat(path).st_mtime >= since_s:
                with open(path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left.append(path)
        except OSError:
            pass
    return left


def start_job(launcher, command, phase, fault, folder):
    ranks, arguments = COMMANDS[command]
    action, rank = FAULTS[fault][:2]
    function, call = phase.split("#") if "#" in phase else PHASES[phase][command]
    rank = rank.format(signals="0" if phase in ONLY_RANK_0 else "1")
    environment = dict(os.environ, FAULT=f"{action}:{function}:{call}:{rank}", FAULT_LOG=folder + "/fault_time", FAULT_MARK=folder,
                       TMPDIR=folder + "/tmp")
    os.mkdir(folder + "/tmp")
    preload = ["env", "LD_PRELOAD=" + os.path.abspath(SHIM)]
    return subprocess.Popen(
        ["sh", "-c", 'export FAULT_LAUNCHER_PID=$$; exec "$@"', "sh"] + launcher + ["-n", str(ranks)] + preload +
        [BUILD + "/busbar-emulated"] + arguments + ["-T", str(TIMEOUT_S), "--json", folder + "/out/r.json"],
        env=environment, stdin=subprocess.DEVNULL, stdout=open(folder + "/stdout", "w"), stderr=open(folder + "/stderr", "w"),
        start_new_session=True)


def busbar_lines(text):
    return [line for line in text.splitlines() if line.startswith("busbar: ") and "warning:" not in line]


def judge_rows(folder, phase, fault, status):
    """Returns whether the result file parses and its status is correct. A killed rank 0 cannot update the status."""
    path = folder + "/out/r.json"
    if not os.path.exists(path):
        return True
    try:
        with open(path, encoding="utf-8") as file:
            reported = json.load(file)["status"]
    except (ValueError, KeyError):
        return False
    if FAULTS[fault][0] in INTERRUPTS and reported == "interrupted":
        return True
    if fault == "orphan" and phase.startswith("h-") and reported == "ok":
        return True
    if fault == "orphan" and phase == "h-mpi-finalize" and reported == "running":  # MPICH kills ranks that wait in MPI_Finalize
        return True
    if reported == "running" and fault in ("kill0", "stop0"):
        return True
    return reported not in ("running", "ok") or (reported == "ok" and status == 0)


def names_of(pids):
    """Returns the command lines of processes, for messages."""
    return [open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")[:80] for pid in pids
            if os.path.exists(f"/proc/{pid}/cmdline")]


def ranks_of(folder):
    """Returns the busbar processes of a case, without the launcher's own processes."""
    found = []
    for pid in processes(folder):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                found += [pid] if file.read().startswith("busbar") else []
        except OSError:
            pass
    return found


def wait_for_end(launcher, fault, job, folder):
    """Waits for the launcher. Returns the time of its end, its exit status (None if it did not end), and a description of a failure of the
    launcher itself, else ""."""
    start_s, no_ranks_s = time.monotonic(), None
    while job.poll() is None and time.monotonic() < start_s + HOLD_S:
        time.sleep(0.05)
        if time.monotonic() > start_s + TIMEOUT_S + SLACK_S:
            time.sleep(0.3)
            no_ranks_s = None if ranks_of(folder) else no_ranks_s or time.monotonic()
        if no_ranks_s and time.monotonic() > no_ranks_s + NO_RANKS_S:
            return no_ranks_s, None, "keeps running after its last rank has ended"
    status = job.poll()
    while fault == "orphan" and status is not None and ranks_of(folder):
        if time.monotonic() > start_s + HOLD_S:
            return time.monotonic(), None, ""
        time.sleep(0.05)
    if status is not None and (status < 0 or status == 137) and fault in FATAL_SIGNALS.get(launcher[0], ()):
        return time.monotonic(), status, "killed all ranks by SIGKILL after the signal"
    crash = f"crashed with signal {-status}" if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS) else ""
    return time.monotonic(), status, crash


def end_job(job, folder):
    for pid in processes(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    job.kill()
    job.wait()


def run_case(launcher, case):
    """Returns (case, seconds from the fault to the end, failed checks, error lines, failure of the launcher)."""
    command, phase, fault = case
    folder = tempfile.mkdtemp(prefix="fault-")
    os.mkdir(folder + "/out")
    since_s = time.time() - 1
    job = start_job(launcher[1], command, phase, fault, folder)
    end_s, status, launcher_failure = wait_for_end(launcher, fault, job, folder)
    launcher_dies = launcher_failure and fault in FATAL_SIGNALS.get(launcher[0], ())
    bad = ["end"] if status is None and not launcher_failure else []
    if status is None:
        end_job(job, folder)
    try:
        fault_s = min(float(line) for line in open(folder + "/fault_time", encoding="utf-8"))
    except (OSError, ValueError):
        fault_s = None
    lines = busbar_lines(open(folder + "/stderr", encoding="utf-8", errors="replace").read())
    if fault_s is None:
        bad = ["inject"]
    else:
        if end_s - fault_s > TIMEOUT_S + SLACK_S and "end" not in bad:
            bad.append("end")
        documented = (0, 1) if "#" in phase else FAULTS[fault][2] + STATUSES.get(launcher[0], {}).get(fault, ())
        if status is not None and not launcher_failure and (status if status >= 0 else 128 - status) not in documented:
            bad.append(f"exit {status}")
        # Hydra may kill all ranks when one is lost, while the lost rank is still printing. Then the only line names no phase, or names a
        # rank that Hydra killed.
        if (launcher[0] == "hydra" and fault in LOSSES and len(lines) == 1 and
                re.search(r"rank 0 \([^)]*\) is lost|\) is lost$", lines[0])):
            launcher_failure = "" if judge_rows(folder, phase, fault, status) else "killed all ranks by SIGKILL at once"
        if "#" in phase:
            bad += judge_sweep(phase, fault, lines) if status else []
        elif fault in IGNORED_SIGNALS.get(launcher[0], ()) and status == 0:
            bad += ["message"] if lines else []
        elif (not launcher_dies and len(lines) != 1 and (fault != "orphan" or lines) or
              lines and not launcher_failure and not re.search(FAULTS[fault][3], lines[0])):
            bad.append(f"message x{len(lines)}")
        if not launcher_failure and not judge_rows(folder, phase, fault, status):
            bad.append("rows")
    left = processes(folder)
    while left and time.monotonic() < end_s + GRACE_S:
        time.sleep(0.2)
        left = processes(folder)
    leftover_files = glob.glob(folder + "/out/*.tmp") + glob.glob(folder + "/out/.*")
    leftover_allowed = launcher_dies and phase == "g-rename"
    regions = abandoned_regions(since_s)
    if launcher[0] == "Slurm":  # slurmstepd also kills the emulator's processes that remove the regions; the next job removes them
        regions = []
    if left or regions or (leftover_files and not leftover_allowed):
        bad.append(f"clean (processes {names_of(left)}, files {regions + leftover_files})")
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    return case, end_s - fault_s if fault_s else 0, bad, lines, launcher_failure


def judge_sweep(phase, fault, lines):
    """Returns the failed checks of a case of --sweep-calls: each line names the function (and rank 1), and none is forbidden."""
    most = 1 if fault == "fail1" else len(lines)
    function = phase.split("#")[0]
    right = [line for line in lines if (function in line or "ncclGroupEnd" in line or "ncclMemAlloc" in line)
             and re.search(SWEEP_FAULTS[fault][0], line) and not re.search(FORBIDDEN_MESSAGES, line)]
    return [] if lines and len(right) == len(lines) <= most else [f"message x{len(lines)}"]


def sweep_calls(launcher, command, function, fault):
    """Runs cases for calls 1, 2, 4, 8 ... of a function until the program makes fewer calls."""
    results, call = [], 1
    while not results or results[-1][2] != ["inject"]:
        results.append(run_case(launcher, (command, f"{function}#{call}", fault)))
        call *= 2
    return results[:-1]


def sweep_all_calls(launcher, pool, names):
    sweeps = [(c, function, fault) for c in COMMANDS for function in SWEPT_FUNCTIONS for fault in SWEEP_FAULTS
            if not names or any(f"{c}/{function}".startswith(name) for name in names)]
    return [result for results in pool.map(lambda sweep: sweep_calls(launcher, *sweep), sweeps) for result in results]


def run_case_with_retry(launcher, case):
    """Runs a case, and repeats it once if the fault was not injected: on a busy machine the start of the job may time out."""
    result = run_case(launcher, case)
    return run_case(launcher, case) if result[2][:1] == ["inject"] else result


def text_of(cell):
    seconds, bad, launcher_failure = cell
    return ",".join(word.split()[0] for word in bad)[:11] if bad else "launcher" if launcher_failure else f"ok {seconds:.1f}"


def print_table(results):
    for command in COMMANDS:
        done = {(p, f): (s, bad, launcher_failure) for (c, p, f), s, bad, _, launcher_failure in results if c == command}
        if not done:
            continue
        faults = [f for f in FAULTS if any(f == key[1] for key in done)]
        print(f"\n{command:15}" + "".join(f"{f:>12}" for f in faults) + "   passed")
        for phase in [*PHASES, *sorted({p for p, _ in done if "#" in p})]:
            cells = [done.get((phase, f)) for f in faults]
            if any(cells):
                text = ["" if c is None else text_of(c) for c in cells]
                passed = f"{sum(1 for c in cells if c and not c[1])}/{sum(1 for c in cells if c)}"
                print(f"{phase:15}" + "".join(f"{t:>12}" for t in text) + f"{passed:>7}")


def main(arguments):
    if not SHIM:
        print("0 passed, 0 failed, 1 skipped: tests/fault_injection/shim.c is not built")
        return 0
    workers = int(os.environ.get("FAULT_WORKERS", str(3 * (os.cpu_count() or 1))))
    launcher = find_launcher()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        if arguments[:1] == ["--sweep-calls"]:
            results = sweep_all_calls(launcher, pool, arguments[1:])
        else:
            results = list(pool.map(lambda case: run_case_with_retry(launcher, case), cases(arguments)))
    for case, seconds, bad, lines, launcher_failure in results:
        if bad:
            print(f"{'/'.join(case)}: {', '.join(bad)} ({seconds:.1f} s)" + "".join("\n    " + line for line in lines[:4]))
        if launcher_failure:
            print(f"{'/'.join(case)}: the launcher {launcher_failure}")
    print_table(results)
    passed = sum(1 for r in results if not r[2])
    launcher_failures = sum(1 for r in results if r[4])
    print(f"\nlauncher: {launcher[0]}" + (f", which failed itself in {launcher_failures} cases" if launcher_failures else ""))
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed == len(results) else 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs with both signals ignored,
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)             # which the ranks would inherit
    sys.exit(main(sys.argv[1:]))
