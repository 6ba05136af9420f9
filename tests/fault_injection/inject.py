"""inject.py - phases x faults, as a table; each drill is one job of ranks on emulated GPUs, isolated, several side by side.

A drill holds when the job
  end      ends within the timeout and 5 s after the deed,
  exit     with a documented status,
  message  after one line of busbar's that names where it was, and the rank where one is at fault,
  rows     with results that parse and say what became of the run,
  clean    and leaves no process, shared memory or temporary file.

The launcher is the build's own (Open MPI's mpirun, MPICH's mpiexec); FAULT_LAUNCHER=srun, with a build of MPICH, is the stand-in fake_srun.py.
One that crashes itself, or goes on when none of its ranks is left, has no end and no status to judge: the table says `launcher` there,
what it did is told, and such drills are counted apart. All else is judged as ever.
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
SHIM = next((path for path in (BUILD + "/tests/fault_injection/libfault_shim.so", "build/tests/fault_injection/libfault_shim.so") if os.path.exists(path)), "")
TIMEOUT_S, SLACK_S, HOLD_S, GRACE_S = 3, 5, 40, 2.5
LEFT_ALONE_S = 5  # a launcher without a rank

COMMANDS = {
    "bench": (3, ["bench", "all_reduce", "-b", "8", "-e", "64", "-n", "5", "--repeats", "2", "-N", "2"]),
    "proxy": (4, ["proxy", "gpt2_large", "4", "2", "2", "--scale-counts", "0.001", "--steps", "3", "--check"]),
}

# phase: marked function, its call, by command. A phase that only rank 0 is in has no faults on rank 1.
PHASES = {
    "a-mpi-init": {"bench": ("MPI_Init_thread", 1), "proxy": ("MPI_Init_thread", 1)},
    "b-roll-call": {"bench": ("MPI_Iallgather", 1), "proxy": ("MPI_Iallgather", 1)},
    "b-watchdog": {"bench": ("MPI_Ibcast", 1), "proxy": ("MPI_Ibcast", 1)},
    "b-device": {"bench": ("cudaSetDevice", 1), "proxy": ("cudaSetDevice", 1)},
    "b-unique-id": {"bench": ("ncclGetUniqueId", 1), "proxy": ("ncclGetUniqueId", 1)},
    "c-comm-init": {"bench": ("ncclCommInitRankConfig", 1), "proxy": ("ncclCommInitRankConfig", 1)},
    "c-buffers": {"bench": ("ncclMemAlloc", 1), "proxy": ("ncclMemAlloc", 1)},
    "c-open": {"bench": ("fsync", 1), "proxy": ("fsync", 1)},
    "c-open-folder": {"bench": ("fsync", 2), "proxy": ("fsync", 2)},
    "d-warm-up": {"bench": ("ncclAllReduce", 1), "proxy": ("ncclSend", 1)},
    "e-timed": {"bench": ("ncclAllReduce", 12), "proxy": ("ncclSend", 12)},
    "f-verify": {"bench": ("cudaMemcpy", 1), "proxy": ("cudaMemcpyAsync", 1)},
    "g-write": {"bench": ("pwrite", 2), "proxy": ("pwrite", 2)},
    "g-rename": {"bench": ("rename", 1), "proxy": ("rename", 1)},
    "h-finalize": {"bench": ("ncclCommFinalize", 1), "proxy": ("ncclCommFinalize", 1)},
    "h-mpi-finalize": {"bench": ("MPI_Finalize", 1), "proxy": ("MPI_Finalize", 1)},
}
ONLY_RANK_0 = ("b-unique-id", "c-open", "c-open-folder", "g-write", "g-rename")

# fault: deed, rank, exit statuses (mpirun's is that of the rank that died first), what the line says.
# {r}: the rank at fault; a job whose ranks are all alike at fault has none.
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
    "stall-all": ("stall", "all", (4,), r"did not end within 3 s"),
    "term": ("term", "{signals}", (1, 143), r"ended by SIGTERM; last seen: \w"),
    "int": ("int", "{signals}", (1, 130), r"ended by SIG(INT|TERM); last seen: \w"),
    "hup": ("hup", "{signals}", (1, 129), r"ended by SIG(HUP|TERM); last seen: \w"),
    "usr1": ("usr1", "{signals}", (1, 138), r"ended by SIGUSR1; last seen: \w"),
    "usr2": ("usr2", "{signals}", (1, 140), r"ended by SIGUSR2; last seen: \w"),
    "quit1": ("quit", "1", (1, 131), r"ended by SIGQUIT; last seen: \w"),
    "xcpu0": ("xcpu", "0", (1, 152), r"ended by SIGXCPU; last seen: \w"),
    "orphan": ("orphan", "{signals}", (137,), r"ended by the loss of its launcher; last seen: \w"),
}
# Of launchers with statuses of their own: the number of the signal that hydra saw first, or that it ended a stopped rank with; interrupted
# itself it may say 0 when all ranks say 1.
STATUSES = {"hydra": {"kill1": (9,), "kill0": (9,), "segv1": (11,), "stop1": (9,), "stop0": (9,), "int": (0,), "usr1": (0,)}}
# `--walk`: a call of each of these fails, on rank 1 and on all, the first, second, fourth .. of a run. Whoever fails says so and where, and
# no rank is left in an exchange or an operation that the others do not come to: nothing is timed out, truncated or lost.
WALKS = {"fail1": (r"rank 1 ",), "fail-all": (r"",)}
FAULTS["fail-all"] = ("fail", "all", (1,), r"")
WALKED = (
    "cudaSetDevice cudaGetDeviceProperties cudaMalloc cudaHostAlloc cudaMallocHost cudaMemcpy cudaMemcpyAsync cudaMemsetAsync cudaMemGetInfo "
    "cudaEventCreate cudaEventCreateWithFlags cudaEventElapsedTime cudaEventQuery cudaEventRecord cudaEventSynchronize cudaFuncGetAttributes "
    "cudaLaunchKernel cudaStreamCreateWithFlags cudaStreamCreateWithPriority cudaStreamQuery cudaStreamSynchronize cudaStreamWaitEvent "
    "cudaDeviceGetAttribute ncclGetVersion ncclGetUniqueId ncclCommInitRankConfig ncclCommCount ncclCommUserRank ncclCommGetAsyncError ncclMemAlloc "
    "ncclGroupStart ncclGroupEnd ncclAllReduce ncclSend ncclRecv ncclCommFinalize ncclCommDestroy MPI_Iallgather MPI_Ibcast").split()
SPOKEN_BY_NOBODY = r"timeout|did not end|truncate|is lost|ended by SIG"
QUICK_WALK = ("bench/cudaMalloc#1", "bench/cudaEventRecord#4", "bench/ncclAllReduce#2", "proxy/ncclSend#2", "proxy/cudaMemcpyAsync#1",
              "proxy/MPI_Iallgather#4")
INTERRUPTING = ("term", "int", "hup", "usr1", "usr2", "quit", "xcpu", "orphan", "leave")
NAMED_TWICE = [("g-rename", fault) for fault in ("kill0", "stop0", "orphan")]  # who is killed there leaves the file's other name
LOSSES = ("kill1", "segv1", "exit1", "kill0")
# It dies of these at once, without a word, and what it started kills all ranks by SIGKILL.
DIES_OF = {"hydra": ("hup", "usr2", "orphan")}
QUICK = {
    "bench": [(p, f) for p in PHASES if p != "h-mpi-finalize" for f in ("kill0", "stall-all")] + [  # mpirun may hang there
        ("c-comm-init", "kill1"), ("e-timed", "stop0"), ("e-timed", "term"), ("e-timed", "usr1"), ("h-finalize", "stall1"),
        ("e-timed", "orphan"), ("f-verify", "quit1"), ("b-roll-call", "stop1"), ("a-mpi-init", "stop0"), ("f-verify", "stall0"), ("e-timed", "leave1"),
        ("c-open", "stall0")],
    "proxy": [("c-comm-init", "kill0"), ("c-buffers", "stall-all"), ("e-timed", "stop0"), ("e-timed", "int"),
              ("b-unique-id", "stall-all")],
}


def find_launcher():
    """Its name and its words."""
    if os.environ.get("FAULT_LAUNCHER") == "srun":
        return "srun", [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_srun.py")]
    with open(BUILD + "/CMakeCache.txt", encoding="utf-8") as file:
        found = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(.+)$", file.read(), re.M)
    program = found.group(1) if found else "mpirun"
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return "hydra" if "HYDRA" in version else "Open MPI", [program]


def drills(words):
    """(command, phase, fault) of what is asked for."""
    everything = [(c, p, f) for c in COMMANDS for p in PHASES for f in FAULTS
                  if f != "fail-all" and not (p in ONLY_RANK_0 and FAULTS[f][1] == "1")]
    if words == ["--quick"]:
        return [d for d in everything if d[1:] in QUICK[d[0]]] + [(*d.split("/"), f) for d in QUICK_WALK for f in WALKS]
    return [d for d in everything if not words or any("/".join(d).startswith(w) for w in words)]


def processes(mark):
    """Those whose environment has the mark of a drill."""
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
    """Of the emulator, made during the drill, that no living process holds any more."""
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
    ranks, words = COMMANDS[command]
    deed, rank = FAULTS[fault][:2]
    function, call = phase.split("#") if "#" in phase else PHASES[phase][command]
    rank = rank.format(signals="0" if phase in ONLY_RANK_0 else "1")
    environment = dict(os.environ, FAULT=f"{deed}:{function}:{call}:{rank}", FAULT_LOG=folder + "/deed", FAULT_MARK=folder,
                       TMPDIR=folder + "/tmp")
    os.mkdir(folder + "/tmp")
    preload = ["env", "LD_PRELOAD=" + os.path.abspath(SHIM)]
    return subprocess.Popen(
        ["sh", "-c", 'export FAULT_LAUNCHER_PID=$$; exec "$@"', "sh"] + launcher + ["-n", str(ranks)] + preload + [BUILD + "/busbar-emulated"] + words + ["-T", str(TIMEOUT_S), "--json", folder + "/out/r.json"],
        env=environment, stdin=subprocess.DEVNULL, stdout=open(folder + "/stdout", "w"), stderr=open(folder + "/stderr", "w"),
        start_new_session=True)


def busbar_lines(text):
    return [line for line in text.splitlines() if line.startswith("busbar: ") and "warning:" not in line]


def judge_rows(folder, phase, fault, status):
    """The results parse, and what they say became of the run is true. A killed rank 0 could not say more."""
    path = folder + "/out/r.json"
    if not os.path.exists(path):
        return True
    try:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)["status"]
    except (ValueError, KeyError):
        return False
    if FAULTS[fault][0] in INTERRUPTING and said == "interrupted":
        return True
    if fault == "orphan" and phase.startswith("h-") and said == "ok":
        return True
    if fault == "orphan" and phase == "h-mpi-finalize" and said == "running":  # MPICH ends the ranks that wait there, at once
        return True
    if said == "running" and fault in ("kill0", "stop0"):
        return True
    return said not in ("running", "ok") or (said == "ok" and status == 0)


def ranks_of(folder):
    """Processes of busbar in a drill; not what a launcher made of itself."""
    found = []
    for pid in processes(folder):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                found += [pid] if file.read().startswith("busbar") else []
        except OSError:
            pass
    return found


def await_end(launcher, fault, job, folder):
    """Its end, its status (None: it did not end), and what the launcher did by itself, else ""."""
    start_s, alone_s = time.monotonic(), None
    while job.poll() is None and time.monotonic() < start_s + HOLD_S:
        time.sleep(0.05)
        if time.monotonic() > start_s + TIMEOUT_S + SLACK_S:
            time.sleep(0.3)
            alone_s = None if ranks_of(folder) else alone_s or time.monotonic()
        if alone_s and time.monotonic() > alone_s + LEFT_ALONE_S:
            return alone_s, None, "goes on without a rank"
    status = job.poll()
    while fault == "orphan" and status is not None and ranks_of(folder):
        if time.monotonic() > start_s + HOLD_S:
            return time.monotonic(), None, ""
        time.sleep(0.05)
    if status is not None and status < 0 and fault in DIES_OF.get(launcher[0], ()):
        return time.monotonic(), status, f"was ended by {signal.Signals(-status).name}, which it does not handle, and the ranks by SIGKILL"
    own = f"was ended by its own signal {-status}" if status in (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS) else ""
    return time.monotonic(), status, own


def end_job(job, folder):
    for pid in processes(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    job.kill()
    job.wait()


def run_drill(launcher, drill):
    """Returns (drill, seconds from the deed to the end, what did not hold, the lines, what the launcher did)."""
    command, phase, fault = drill
    folder = tempfile.mkdtemp(prefix="drill-")
    os.mkdir(folder + "/out")
    since_s = time.time() - 1
    job = start_job(launcher[1], command, phase, fault, folder)
    end_s, status, own = await_end(launcher, fault, job, folder)
    unheard = own and fault in DIES_OF.get(launcher[0], ())
    bad = ["end"] if status is None and not own else []
    if status is None:
        end_job(job, folder)
    try:
        deed_s = min(float(line) for line in open(folder + "/deed", encoding="utf-8"))
    except (OSError, ValueError):
        deed_s = None
    said = busbar_lines(open(folder + "/stderr", encoding="utf-8", errors="replace").read())
    if deed_s is None:
        bad = ["no deed"]
    else:
        if end_s - deed_s > TIMEOUT_S + SLACK_S and "end" not in bad:
            bad.append("end")
        documented = (0, 1) if "#" in phase else FAULTS[fault][2] + STATUSES.get(launcher[0], {}).get(fault, ())
        if status is not None and not own and (status if status >= 0 else 128 - status) not in documented:
            bad.append(f"exit {status}")
        # It may kill all when one is lost, as long as that one prints; then a line without a place, or of a rank that it killed, is all.
        if launcher[0] == "hydra" and fault in LOSSES and len(said) == 1 and re.search(r"rank 0 \([^)]*\) is lost|\) is lost$", said[0]):
            own = "" if judge_rows(folder, phase, fault, status) else "killed all ranks by SIGKILL at once"
        if "#" in phase:
            bad += judge_walk(phase, fault, said) if status else []
        elif not unheard and len(said) != 1 and (fault != "orphan" or said) or said and not own and not re.search(FAULTS[fault][3], said[0]):
            bad.append(f"message x{len(said)}")
        if not own and not judge_rows(folder, phase, fault, status):
            bad.append("rows")
    left = processes(folder)
    while left and time.monotonic() < end_s + GRACE_S:
        time.sleep(0.2)
        left = processes(folder)
    beside = glob.glob(folder + "/out/*.tmp") + glob.glob(folder + "/out/.*")
    if left or abandoned_regions(since_s) or (beside and (phase, fault) not in NAMED_TWICE and not (unheard and phase == "g-rename")):
        bad.append("clean")
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    return drill, end_s - deed_s if deed_s else 0, bad, said, own


def judge_walk(phase, fault, said):
    """What is wrong with what was said, if anything."""
    most = 1 if fault == "fail1" else len(said)
    function = phase.split("#")[0]
    right = [line for line in said if (function in line or "ncclGroupEnd" in line or "ncclMemAlloc" in line) and re.search(WALKS[fault][0], line)
             and not re.search(SPOKEN_BY_NOBODY, line)]
    return [] if said and len(right) == len(said) <= most else [f"message x{len(said)}"]


def walk(launcher, command, function, fault):
    """Until the run has no such call any more."""
    results, call = [], 1
    while not results or results[-1][2] != ["no deed"]:
        results.append(run_drill(launcher, (command, f"{function}#{call}", fault)))
        call *= 2
    return results[:-1]


def walk_all(launcher, pool, words):
    ways = [(c, function, fault) for c in COMMANDS for function in WALKED for fault in WALKS
            if not words or any(f"{c}/{function}".startswith(w) for w in words)]
    return [result for results in pool.map(lambda way: walk(launcher, *way), ways) for result in results]


def run_until_done(launcher, drill):
    """Once more where the job did not get as far as the deed: on a busy machine its start may take longer than it is given."""
    result = run_drill(launcher, drill)
    return run_drill(launcher, drill) if result[2][:1] == ["no deed"] else result


def text_of(cell):
    seconds, bad, own = cell
    return ",".join(word.split()[0] for word in bad)[:11] if bad else "launcher" if own else f"ok {seconds:.1f}"


def print_table(results):
    for command in COMMANDS:
        done = {(p, f): (s, bad, own) for (c, p, f), s, bad, _, own in results if c == command}
        if not done:
            continue
        faults = [f for f in FAULTS if any(f == key[1] for key in done)]
        print(f"\n{command:15}" + "".join(f"{f:>12}" for f in faults) + "   held")
        for phase in [*PHASES, *sorted({p for p, _ in done if "#" in p})]:
            cells = [done.get((phase, f)) for f in faults]
            if any(cells):
                text = ["" if c is None else text_of(c) for c in cells]
                held = f"{sum(1 for c in cells if c and not c[1])}/{sum(1 for c in cells if c)}"
                print(f"{phase:15}" + "".join(f"{t:>12}" for t in text) + f"{held:>7}")


def main(words):
    if not SHIM:
        print("0 passed, 0 failed, 1 skipped: the shim of the drills is not built")
        return 0
    workers = int(os.environ.get("FAULT_WORKERS", str(3 * (os.cpu_count() or 1))))
    launcher = find_launcher()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        if words[:1] == ["--walk"]:
            results = walk_all(launcher, pool, words[1:])
        else:
            results = list(pool.map(lambda drill: run_until_done(launcher, drill), drills(words)))
    for drill, seconds, bad, said, own in results:
        if bad:
            print(f"{'/'.join(drill)}: {', '.join(bad)} ({seconds:.1f} s)" + "".join("\n    " + line for line in said[:4]))
        if own:
            print(f"{'/'.join(drill)}: the launcher {own}")
    print_table(results)
    held = sum(1 for r in results if not r[2])
    own = sum(1 for r in results if r[4])
    print(f"\nlauncher: {launcher[0]}" + (f", which failed by itself in {own} drills" if own else ""))
    print(f"{held} passed, {len(results) - held} failed")
    return 0 if held == len(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
