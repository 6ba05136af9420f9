"""Prints how well profiles that busbar calibrate fitted to some rows of published nccl-tests logs predict the other rows.

    python3 tests/cli/calibration_accuracy.py [LOGS.json] [--rows]     (BUSBAR_BUILD: the build folder)

LOGS.json: {"logs": [{"m": machine, "coll": collective, "ranks", "gpn": GPUs per node, "prof": nearest shipped profile, "id", "dtype",
"dev": name of the GPUs, "us": {bytes: us}}]}; without it: reference_data/collectives.json, to which shipped profiles were fitted. A row is
predicted by profiles that did not use it; `shipped` is the starting profile."""
import concurrent.futures
import itertools
import json
import os
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import collective_accuracy

PROGRAM = pathlib.Path(os.environ.get("BUSBAR_BUILD", "build")) / "busbar"
LIMIT = 64 << 20
HALVES = "half of the sizes -> other half"


def table(log, sizes):
    """The log as nccl-tests prints it, with these sizes only."""
    ranks, per_host = log["ranks"], log["gpn"]
    factor = {"all_reduce": 2, "broadcast": ranks / (ranks - 1), "reduce": ranks / (ranks - 1)}.get(log["coll"], 1) * (ranks - 1) / ranks
    element = 2 if log["dtype"] == "bfloat16" else 4
    lines = [f"# Collective test starting: {log['coll']}_perf",
             "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0",
             "#", "# Using devices"]
    lines += [f"#  Rank {rank} Group 0 Pid {4000 + rank} on host{rank // per_host} device {rank % per_host} "
              f"[{rank % per_host:04x}:01:00] {log['dev']}" for rank in range(ranks)]
    lines += ["#", "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
              "# (B) (elements) (us) (GB/s) (GB/s) (us) (GB/s) (GB/s)"]
    for size in sizes:
        us = log["us"][size]
        lines.append(f"{size} {int(size) // element} {log['dtype']} sum -1 {us:.2f} {int(size) / us / 1e3:.2f} "
                     f"{int(size) / us / 1e3 * factor:.2f} 0 N/A N/A N/A N/A")
    return "\n".join(lines) + "\n"


def forecasts(log, sizes, cluster):
    done = subprocess.run([PROGRAM, "plan", log["coll"], "--sizes", ",".join(sizes), "--ranks", str(log["ranks"]), "--cluster", cluster,
                           "--placement", "out_of_place", "-d", log["dtype"], "--json", "-", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]]


def experiment(given, wanted):
    """given, wanted: [(log, sizes)]. Returns [(log id, size, error of the calibrated profile, error of the shipped one)]."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, (log, sizes) in enumerate(given):
            files.append(pathlib.Path(folder) / f"{i}.log")
            files[-1].write_text(table(log, sizes))
        done = subprocess.run([PROGRAM, "calibrate", *files, "--from", given[0][0]["prof"], "-o", f"{folder}/mine.json",
                               "--quiet"], capture_output=True, text=True)
        assert done.returncode == 0, (given, done.stderr)
        return [(log["id"], int(size), mine / log["us"][size] - 1, shipped / log["us"][size] - 1)
                for log, sizes in wanted
                for size, mine, shipped in zip(sizes, forecasts(log, sizes, f"{folder}/mine.json"), forecasts(log, sizes, log["prof"]))]


def experiments(logs):
    """Yields (name, given, wanted)."""
    sizes = {log["id"]: sorted(log["us"], key=int) for log in logs}
    for log in logs:
        halves = [sizes[log["id"]][i::2] for i in (0, 1)]
        if len(sizes[log["id"]]) >= 6:
            for given, wanted in (halves, halves[::-1]):
                yield HALVES, [(log, given)], [(log, wanted)]
        small = [size for size in sizes[log["id"]] if int(size) <= LIMIT]
        if len(small) >= 4 and len(small) < len(sizes[log["id"]]):
            yield "up to 64 MiB -> larger", [(log, small)], [(log, sizes[log["id"]][len(small):])]
    for machine in sorted({log["m"] for log in logs}):
        group = [log for log in logs if log["m"] == machine]
        for two in itertools.combinations(group, 2):
            rest = [log for log in group if log not in two and log["coll"] != "alltoall"]
            if len({log["coll"] for log in group}) >= 3 and rest:
                yield "two collectives -> rest but alltoall", [(log, sizes[log["id"]]) for log in two], [
                    (log, sizes[log["id"]]) for log in rest]


def published_logs():
    """reference_data/collectives.json without the logs that `plan --set` describes; all sizes of a curve are in one log."""
    logs = {}
    for log in collective_accuracy.LOGS:
        if "--set" not in log.get("words", ""):
            name = log["id"].removesuffix(", every second size")
            machine = re.sub(", (all_reduce|all_gather|reduce_scatter|alltoall)$", "", name)
            logs.setdefault(name, {"id": name, "m": machine, "coll": log["collective"], "ranks": log["ranks"], "dtype": "float", "dev": "GPU", "us": {},
                                   "gpn": 72 if "words" in log else 8, "prof": log["cluster"]})["us"].update(log["us"])
    return list(logs.values())


def run(logs):
    """Returns {name: [(given, row of experiment())]}."""
    every = list(experiments(logs))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda e: experiment(*e[1:]), every))
    return {name: [(e[1], row) for e, result in zip(every, results) if e[0] == name for row in result] for name in dict.fromkeys(e[0] for e in every)}


def correlation(logs, rows):
    """Of the errors of sizes between measured ones, in two logs of the same profile and collective: 0 if the model lacks nothing that both have.
    Returns (correlation, number of pairs)."""
    kinds = {log["id"]: (log["prof"], log["coll"], log["ranks"] > log["gpn"]) for log in logs}
    errors = [(kinds[row[0]], row[1], row[0], math.log1p(row[2])) for given, row in rows
              if int(given[0][1][0]) < row[1] < int(given[0][1][-1])]
    pairs = [(a[3], b[3]) for a, b in itertools.combinations(errors, 2) if a[:2] == b[:2] and a[2] != b[2]]
    return sum(a * b for a, b in pairs) / math.prod(math.sqrt(sum(pair[i] ** 2 for pair in pairs)) for i in (0, 1)), len(pairs)


def main(*words):
    paths = [word for word in words if word != "--rows"]
    logs = json.loads(pathlib.Path(paths[0]).read_text())["logs"] if paths else published_logs()
    results = run(logs)
    for name, of in results.items():
        print(name)
        for title, low, high in (("all", 0, 1 << 60), ("below 1 MiB", 0, (1 << 20) - 1), ("1 to 64 MiB", 1 << 20, LIMIT),
                                 ("above", LIMIT + 1, 1 << 60)):
            part = [row for _, row in of if low <= row[1] <= high]
            if part:
                mine, shipped = ([100 * abs(row[i]) for row in part] for i in (2, 3))
                print(f"  {title:12} {len(part):4} rows  calibrated: mean {statistics.mean(mine):5.1f} median {statistics.median(mine):5.1f} "
                      f"worst {max(mine):6.1f} %   shipped: mean {statistics.mean(shipped):5.1f} median {statistics.median(shipped):5.1f} "
                      f"worst {max(shipped):6.1f} %")
        if "--rows" in words:
            for given, row in of:
                print(f"    {' + '.join(log['id'] for log, _ in given):60} {row[0]:40} {row[1]:12} {100 * row[2]:+7.1f} % {100 * row[3]:+7.1f} %")
    print("correlation of the errors of two machines between the same sizes: {:+.2f} ({} pairs)".format(*correlation(logs, results[HALVES])))


if __name__ == "__main__":
    main(*sys.argv[1:])
