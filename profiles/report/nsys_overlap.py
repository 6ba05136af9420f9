#!/usr/bin/env python3
"""Compute how much communication was hidden by compute from the kernels in Nsight Systems reports.

Reads SQLite exports (`nsys export -t sqlite`) and computes for each device of each report, per step: C, the union of
compute kernels, M, the union of communication kernels (unions, never sums over streams), exposed = |M \\ C|,
idle = T - |C u M| and overlap_fraction = |M n C| / |M|. A step is an NVTX range `step N`, which busbar records; without
such ranges the whole capture counts as one step. Kernels are classified by name: names that begin with ncclDevKernel or
ncclKernel are communication, all others are compute.

Tables and columns, as in the documentation of the SQLite exporter:
  CUPTI_ACTIVITY_KIND_KERNEL  start, end (ns), deviceId, globalPid, demangledName -> StringIds.id
  StringIds                   id, value
  NVTX_EVENTS                 start, end (ns), eventType (59: push/pop range), text or textId -> StringIds.id, globalTid
A globalTid is a globalPid with the thread id in its lowest 24 bits.
"""
import argparse
import collections
import json
import pathlib
import re
import sqlite3
import sys

COMMUNICATION = re.compile(r"^(void )?nccl(Dev)?Kernel")
STEP = re.compile(r"^step \d+$")
PUSH_POP_RANGE = 59
THREAD_BITS = 24
METRICS = ("step_us", "compute_us", "comm_us", "exposed_us", "idle_us")


class Unreadable(Exception):
    pass


# ---- intervals: lists of (begin, end) -------------------------------------------------------------------------------


def union(intervals):
    """The union as a sorted list of disjoint, non-adjacent intervals."""
    joined = []
    for begin, end in sorted(i for i in intervals if i[1] > i[0]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(joined):
    return sum(end - begin for begin, end in joined)


def intersection_length(a, b):
    """|a n b| of two unions."""
    total = i = k = 0
    while i < len(a) and k < len(b):
        total += max(0, min(a[i][1], b[k][1]) - max(a[i][0], b[k][0]))
        if a[i][1] < b[k][1]:
            i += 1
        else:
            k += 1
    return total


def clipped(intervals, begin, end):
    return [(max(b, begin), min(e, end)) for b, e in intervals if b < end and e > begin]


def step_metrics(compute, comm, begin, end):
    """The METRICS of the step [begin, end], in microseconds; the arguments are in nanoseconds."""
    c, m = union(clipped(compute, begin, end)), union(clipped(comm, begin, end))
    hidden = intersection_length(c, m)
    return {"step_us": (end - begin) / 1e3, "compute_us": length(c) / 1e3, "comm_us": length(m) / 1e3,
            "exposed_us": (length(m) - hidden) / 1e3, "idle_us": (end - begin - length(c) - length(m) + hidden) / 1e3}


# ---- reports --------------------------------------------------------------------------------------------------------


def columns(db, table):
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def read_kernels(db):
    """{(process, device): ([compute intervals], [communication intervals])}"""
    have = columns(db, "CUPTI_ACTIVITY_KIND_KERNEL")
    if not have:
        raise Unreadable("no kernels in this report (was the capture range reached? was -t cuda given?)")
    process = "k.globalPid" if "globalPid" in have else "0"
    found = collections.defaultdict(lambda: ([], []))
    for begin, end, device, pid, name in db.execute(
            f"SELECT k.start, k.end, k.deviceId, {process}, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "LEFT JOIN StringIds s ON s.id = k.demangledName"):
        found[pid, device][bool(COMMUNICATION.match(name or ""))].append((begin, end))
    return found


def read_steps(db):
    """{process: [(begin, end)]} of the NVTX ranges named `step N`."""
    have = columns(db, "NVTX_EVENTS")
    if not have:
        return {}
    text = "COALESCE(n.text, s.value)" if "textId" in have else "n.text"
    join = "LEFT JOIN StringIds s ON s.id = n.textId" if "textId" in have else ""
    steps = collections.defaultdict(list)
    for begin, end, name, tid in db.execute(
            f"SELECT n.start, n.end, {text}, n.globalTid FROM NVTX_EVENTS n {join} "
            "WHERE n.eventType = ? AND n.end IS NOT NULL ORDER BY n.start", (PUSH_POP_RANGE,)):
        if STEP.match(name or ""):
            steps[(tid or 0) >> THREAD_BITS << THREAD_BITS].append((begin, end))
    return steps


def analyse(path):
    """One row per device of the report, with means over the steps."""
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        kernels, steps = read_kernels(db), read_steps(db)
        db.close()
    except sqlite3.Error as error:
        raise Unreadable(str(error)) from error
    rows = []
    for (process, device), (compute, comm) in sorted(kernels.items()):
        everything = compute + comm
        windows = steps.get(process) or [(min(b for b, _ in everything), max(e for _, e in everything))]
        each = [step_metrics(compute, comm, *window) for window in windows]
        row = {key: sum(f[key] for f in each) / len(each) for key in METRICS}
        row["overlap_fraction"] = (row["comm_us"] - row["exposed_us"]) / row["comm_us"] if row["comm_us"] else None
        rows.append({"report": pathlib.Path(path).name, "device": device, "process": process >> THREAD_BITS & 0xFFFFFF,
                     "steps": len(windows), "by_ranges": process in steps, **row})
    return rows


# ---- output ---------------------------------------------------------------------------------------------------------


def line(name, device, row):
    hidden = row.get("overlap_fraction")
    return (f"  {name:<24} {device:>6}" + "".join(f" {row[key]:>11.1f}" for key in METRICS)
            + (f" {100 * hidden:>6.1f}%" if hidden is not None else f" {'-':>7}"))


def show(rows, against):
    print("# from the kernels in the Nsight Systems report; ncclDevKernel and ncclKernel are communication, "
          "all others compute")
    columns = "".join(f" {key[:-3] + ' us':>11}" for key in METRICS)
    print(f"# {'report':<24} {'device':>6}{columns} {'hidden':>7}")
    for row in rows:
        print(line(row["report"], row["device"], row))
        if not row["by_ranges"]:
            print(f"# {row['report']}: no NVTX ranges 'step N': the whole capture counts as one step")
    if against:
        print(f"# from busbar's CUDA events: slowest rank {against['rank']}, mean of its traced steps:")
        print(line("busbar", "", against))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", nargs="+", help="SQLite export of an Nsight Systems report")
    parser.add_argument("--against", metavar="RESULT", help="busbar's JSON result of the run, printed for comparison")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    rows, against = [], None
    try:
        for path in options.report:
            rows += analyse(path)
        if options.against:
            path = options.against
            against = json.loads(pathlib.Path(path).read_text())["breakdown"]
    except (Unreadable, OSError, ValueError, KeyError) as error:
        print(f"nsys_overlap: {path}: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"devices": rows, "busbar": against}, indent=1))
    else:
        show(rows, against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
