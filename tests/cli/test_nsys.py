"""nsys_overlap.py on generated databases with a known overlap, the capture scripts with a stub for nsys, and busbar's profiler range."""
import json
import pathlib
import sqlite3
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "profiles" / "report" / "nsys_overlap.py"
PROCESS = 0x1000000 * (7 + 0x1000000 * 3)  # process 7 in the encoding of the nsys exporter (globalPid)
GEMM, SPIN, RING, OLD, OTHER = "sm90_xmma_gemm", "bb_hold_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", \
    "ncclKernel_SendRecv", "reorder_nccl"


def database(path, kernels, ranges=(), text_ids=True):
    """kernels: (begin, end, device, stream, name); ranges: (begin, end, name). Times in us."""
    db = sqlite3.connect(path)
    names = sorted({k[4] for k in kernels} | {r[2] for r in ranges})
    db.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(names))
    db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
               "globalPid INTEGER, demangledName INTEGER, shortName INTEGER)")
    for begin, end, device, stream, name in kernels:
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)",
                   (begin * 1000, end * 1000, device, stream, PROCESS, names.index(name), names.index(name)))
    if ranges:
        db.execute("CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, "
                   "textId INTEGER)")
        for begin, end, name in ranges:
            db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, ?)",
                       (begin * 1000, end * 1000, None if text_ids else name, PROCESS + 42,
                        names.index(name) if text_ids else None))
    db.commit()
    db.close()
    return path


def analysed(*paths, options=()):
    done = subprocess.run([sys.executable, SCRIPT, *map(str, paths), "--json", *map(str, options)], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def values(row):
    return [row[key] for key in ("step_us", "compute_us", "comm_us", "exposed_us", "idle_us", "overlap_fraction")]


# Compute runs in 100-200 and 300-400. Communication runs on two streams in 150-350 and 180-450. Its union is 150-450, of which 150 us
# overlap with compute.
ONE = [(100, 200, 0, 7, GEMM), (300, 400, 0, 7, SPIN), (150, 350, 0, 13, RING), (180, 450, 0, 14, OLD)]


def test_overlap_of_one_step(tmp_path):
    path = database(tmp_path / "rank.0.sqlite", ONE, [(80, 500, "step 0")])
    (row,) = analysed(path)["devices"]
    assert values(row) == [420, 200, 300, 150, 70, 0.5]
    assert (row["device"], row["process"], row["steps"], row["by_ranges"]) == (0, 7, 1, True)


@pytest.mark.parametrize("text_ids", [True, False])
def test_averages_over_steps_and_ignores_kernels_outside_them(tmp_path, text_ids):
    later = [(1100, 1200, 0, 7, GEMM), (1100, 1200, 0, 13, RING)]  # fully hidden
    outside = [(600, 900, 0, 13, RING), (20, 90, 0, 7, GEMM)]  # the second kernel overlaps step 0 by 10 us
    ranges = [(80, 500, "step 0"), (1080, 1280, "step 1"), (560, 950, "warm-up 0"), (600, 640, "step"),
              (1090, 1200, "forward")]
    path = database(tmp_path / "a.sqlite", ONE + later + outside, ranges, text_ids)
    (row,) = analysed(path)["devices"]
    assert row["steps"] == 2
    assert values(row) == [310, 155, 200, 75, (60 + 100) / 2, 0.625]


def test_devices_are_separate_and_capture_without_ranges_is_one_step(tmp_path):
    path = database(tmp_path / "a.sqlite", ONE + [(0, 10, 1, 7, GEMM), (10, 20, 1, 9, RING), (30, 40, 1, 9, OTHER)])
    first, second = analysed(path)["devices"]
    assert values(first) == [350, 200, 300, 150, 0, 0.5] and not first["by_ranges"]
    assert values(second) == [40, 20, 10, 10, 10, 0]  # a kernel name that contains nccl but does not begin with it is not communication


def test_overlap_fraction_is_null_without_communication(tmp_path):
    path = database(tmp_path / "a.sqlite", [(0, 10, 0, 7, GEMM)], [(0, 20, "step 0")])
    (row,) = analysed(path)["devices"]
    assert values(row) == [20, 10, 0, 0, 10, None]


def test_table_shows_busbar_result_for_comparison(tmp_path):
    path = database(tmp_path / "rank.0.sqlite", ONE, [(80, 500, "step 0")])
    result = tmp_path / "busbar.json"
    own = {"rank": 3, "step_us": 410, "compute_us": 200, "comm_us": 310, "exposed_us": 155, "idle_us": 55,
           "overlap_fraction": 0.5}
    result.write_text(json.dumps({"breakdown": own}))
    done = subprocess.run([sys.executable, SCRIPT, path, "--against", result], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "rank.0.sqlite" in done.stdout and "slowest rank 3" in done.stdout
    assert done.stdout.count("50.0%") == 2


def test_reports_invalid_databases(tmp_path):
    sqlite3.connect(tmp_path / "empty.sqlite").execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to be read " * 40)
    for name, text in (("empty.sqlite", "no kernels"), ("text.sqlite", "not a database"), ("missing.sqlite", "open")):
        done = subprocess.run([sys.executable, SCRIPT, tmp_path / name], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and name in done.stderr and text in done.stderr


# ---- capture --------------------------------------------------------------------------------------------------------

NSYS = """#!/bin/sh
# Appends its arguments to $CALLS. `profile` creates a report, `export` creates the file named by -o.
echo "$@" >>"$CALLS"
for word; do
    case $previous in -o) out=$word ;; esac
    previous=$word
done
case $1 in profile) : >"${out%%.%q*}.0.nsys-rep" ;; export) : >"$out" ;; esac
"""


@pytest.mark.parametrize("script,args,variable", [("node.sh", ("2",), "OMPI_COMM_WORLD_RANK"),
                                                  ("slurm.sh", (), "SLURM_PROCID")])
def test_capture_scripts_call_nsys_with_the_right_options(tmp_path, script, args, variable):
    nsys = tmp_path / "nsys"
    nsys.write_text(NSYS)
    nsys.chmod(0o755)
    launcher = tmp_path / "launch"
    launcher.write_text('#!/bin/sh\n[ "$1" = -n ] && shift 2\nexec "$@"\n')
    launcher.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "NSYS": str(nsys), "MPIRUN": str(launcher), "SRUN": str(launcher), "BUSBAR": "busbar",
           "BUSBAR_NSYS": str(tmp_path / "reports"), "CALLS": str(tmp_path / "calls"), "BUSBAR_HOME": str(ROOT)}
    done = subprocess.run(["sh", ROOT / "profiles" / "nsys" / script, *args, "gpt2_large", "--steps", "5"], env=env,
                          capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    profile, export = (tmp_path / "calls").read_text().splitlines()
    for text in ("--capture-range=cudaProfilerApi", "--capture-range-end=stop", "--cuda-graph-trace=node", "cuda,nvtx",
                 f"rank.%q{{{variable}}}", "busbar proxy gpt2_large --steps 5 --json"):
        assert text in profile
    assert "-t sqlite" in export and (tmp_path / "reports" / "rank.0.sqlite").exists()
    done = subprocess.run(["sh", ROOT / "profiles" / "nsys" / script], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "usage" in done.stderr


@pytest.mark.parametrize("call", ["cudaProfilerStart", "cudaProfilerStop"])
def test_timed_steps_are_inside_the_profiler_range(busbar, call):
    env = {"EMU_DATA": "off", "EMU_FAULT": f"fail:rank=0,call=1,name={call}"}
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, "--steps", 2, ranks=2, env=env)
    assert done.returncode == 1 and call in done.stderr
    done = busbar.run("proxy", "gpt2_large", 4, 2, 2, "--steps", 2, ranks=2,
                      env={"EMU_DATA": "off", "EMU_FAULT": f"fail:rank=0,call=2,name={call}"})
    assert done.returncode == 0  # the function is called exactly once per run
