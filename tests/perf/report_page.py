#!/usr/bin/env python3
"""Time to write a report page of 10,000 rows, and to open the page in a browser (load event plus two frames).

The inputs are a generated study of 10,000 combinations and a generated bench result of 10,000 rows; for comparison a study of ten
rows, because most of the time is spent in plotly.js. Requires plotly and Chromium; asserts nothing."""
import json
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "profiles" / "report")]
import report  # noqa: E402
from chromium import Chromium  # noqa: E402

ROWS, REPEATS = 10000, 5


def study(n):
    rows = [[2 ** (i % 10), 1 + i % 7, 1e3 + i * 7919 % n, "complete"] for i in range(n)]
    return {"schema": "busbar.sweep/1", "name": "made up", "about": "", "columns": ["ranks", "stages", "step_us", "state"],
            "axes": {"ranks": [], "stages": []}, "rows": rows, "combinations": [], "emulated": True}


def bench(n):
    rows = [{"collective": f"all_reduce_{i // 100}", "bytes": 1 << i % 25, "dtype": "float", "op": "sum", "cycle": i % 100 // 25,
             "placement": "out_of_place", "mode": "stream", "time_us": {"p50": 10. + i, "ci95": [9. + i, 11. + i]}, "busbw_gbps": 1. * i,
             "algorithm": "RING", "protocol": "LL", "channels": 8, "model_us": 9. + i} for i in range(n)]
    return {"schema": "busbar.bench/1", "command": ["bench"], "status": "ok", "results": rows, "emulated": True}


def measure(name, data, folder, browser):
    source, target = folder / f"{name}.json", folder / f"{name}.html"
    source.write_text(json.dumps(data))
    began = time.monotonic()
    if report.main([str(source), "-o", str(target)]) != 0:
        sys.exit(1)
    written = time.monotonic() - began
    opened, busy = [], []
    for _ in range(REPEATS):
        opened.append(browser.open(target))
        metrics = browser.call("Performance.getMetrics")["metrics"]
        busy.append(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))
    print(f"{name:18} written in {written:5.2f} s   opened in {statistics.median(opened):5.2f} s ({min(opened):.2f} to {max(opened):.2f}), CPU "
          f"time of the main thread {statistics.median(busy):.2f} s   {target.stat().st_size / 1048576:.1f} MiB, {len(browser.errors)} errors")


def main():
    with tempfile.TemporaryDirectory() as folder, Chromium() as browser:
        browser.call("Performance.enable", timeDomain="threadTicks")  # CPU time, independent of the load of the machine
        for name, data in (("study of 10 rows", study(10)), ("study", study(ROWS)), ("bench", bench(ROWS))):
            measure(name, data, pathlib.Path(folder), browser)


if __name__ == "__main__":
    main()
