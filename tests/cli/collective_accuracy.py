"""Prints the error of predicted collectives by transport and size, for the logs that a profile was fitted to and for the others.

    python3 tests/cli/collective_accuracy.py [--rows]     (BUSBAR_BUILD: the build folder)"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
LOGS = json.loads((pathlib.Path(__file__).parent / "reference_data/collectives.json").read_text())["logs"]
SIZES = (("below 1 MiB", 0, 1 << 20), ("to 64 MiB", 1 << 20, (64 << 20) + 1), ("above", (64 << 20) + 1, 1 << 60))


def is_one_node(log):
    return log["ranks"] <= (72 if "--gpus-per-node 72" in log.get("words", "") else 8)


def transport(log):
    """Also the name of old software that no profile describes."""
    if is_one_node(log):
        return ""
    chosen = re.search(r"transport=(\S+)", log.get("words", ""))
    name = chosen[1] if chosen else json.loads((ROOT / f"profiles/clusters/{log['cluster']}.json").read_text())["transport"]
    return f"{name} with {log['software']}" if "software" in log else name


def errors_of(log, program):
    """Returns {bytes: predicted / measured time - 1}."""
    done = subprocess.run([program, "plan", log["collective"], "--ranks", str(log["ranks"]), "--cluster", log["cluster"], "--sizes",
                           ",".join(log["us"]), "--placement", "out_of_place", *log.get("words", "").split(), "--quiet", "--json", "-"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    times = {str(row["bytes"]): row["time_us"]["p50"] for row in json.loads(done.stdout)["results"]}
    return {int(size): times[size] / us - 1 for size, us in log["us"].items()}


def by_size(errors):
    """errors: [(bytes, error)]. Returns [(name of the sizes, number of rows, mean error, bias)]."""
    parts = [(name, [error for size, error in errors if low <= size < high]) for name, low, high in SIZES]
    return [(name, len(its), statistics.mean(map(abs, its)), statistics.mean(its)) for name, its in parts if its]


def too(bias):
    """A mean error in words, as `plan transformer` prints it: "16% too short"."""
    return f"{100 * abs(bias):.0f}% too {'short' if bias < 0 else 'long'}"


def main(more):
    program = pathlib.Path(os.environ.get("BUSBAR_BUILD", ROOT / "build")) / "busbar"
    kinds = {}
    for log in LOGS:
        errors = errors_of(log, program)
        kind = (transport(log) or "one node", "fitted" if log.get("fitted") else "not fitted")
        kinds.setdefault(kind, []).extend(errors.items())
        if "--rows" in more:
            print(f"{log['id']:60} {kind[1]:10} {' '.join(f'{size}:{100 * error:+.0f}%' for size, error in errors.items())}")
    for kind, errors in sorted(kinds.items()):
        print(f"{kind[0]:30} {kind[1]:10}", ", ".join(f"{name}: {rows:3} rows, mean {100 * mean:4.1f} %, bias {100 * bias:+5.1f} %"
                                                     for name, rows, mean, bias in by_size(errors)))


if __name__ == "__main__":
    main(sys.argv[1:])
