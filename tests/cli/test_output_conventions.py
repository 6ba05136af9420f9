"""Conventions of all text reports: the first line, the units of times, and the label of emulated GPUs."""
import json
import re

import pytest

NO_DATA = {"EMU_DATA": "off"}
FAST = ("-n", 2, "--repeats", 2)
PLAN = ("plan", "transformer", "--model", "llama3_8b", "--ranks", 8, "--tp", 2, "--pp", 2, "--micro-batches", 4)
CLUSTER = ("--cluster", "h100-sxm-ib")
# Name -> (command, ranks, whether the report is about emulated GPUs)
REPORTS = {
    "bench": (("bench", "all_reduce", "--sizes", "1M", *FAST), 2, True),
    "sweep-algorithms": (("bench", "all_reduce", "--sizes", "1M", "--sweep-algorithms", *FAST), 2, True),
    "variants": (("bench", "all_gather", "--sweep-variants", "plain,registered,symmetric,graph", "--with-gemm", *FAST), 2, True),
    "p2p": (("bench", "p2p", "--bandwidth-sizes", "1M", *FAST), 2, True),
    "comm": (("bench", "comm", "--repeats", 2), 2, True),
    "overlap": (("bench", "overlap", "--sizes", "1M", *FAST), 2, True),
    "compute": (("bench", "compute", "--quick", "-n", 1, "--repeats", 2), 0, True),
    "proxy": (("proxy", "gpt2_large", 8, 2, 2, "--compute", "timed", "--forward-us", 9000, "--backward-us", 18000, "--steps", 2,
               "--warmup", 1,
               *CLUSTER, "--full"), 2, True),
    "scaling": (("proxy", "scaling", "--model", "resnet18_cifar", "--batch", 128, "--epoch-steps", 2, "--images", 1000, "--no-alone"), 2,
                True),
    "proxies": (("proxy", "all", "--quick", "--steps", 2), 2, True),
    "plan": ((*PLAN, *CLUSTER, "--ops", "--full"), 0, False),
    "plan of seconds": ((*PLAN, "--micro-batch-size", 256, *CLUSTER, "--full"), 0, False),
    "plan of collectives": (("plan", "all_reduce", "-b", "1M", "-e", "4G", "-f", 64, "--ranks", 64, *CLUSTER), 0, False),
    "best-layout": (("plan", "transformer", "--model", "llama2_7b", "--ranks", 16, "--global-batch-size", 64, "--tp", 2, "--dp-sync", "zero1",
                     *CLUSTER, "--best-layout", "--top", 4), 0, False),
    "compare": (("compare", "a.json", "b.json"), 0, True),
    "calibrate": (("calibrate", "c.json", "-o", "mine.json"), 0, True),
    "sweep": (("sweep", "study.json", "--program", "PROGRAM"), 0, True),
}
EMULATED = re.compile(r"^# (?:[AB]: )?emulated GPUs: .*\b(none is a measurement of hardware|no measurement of NCCL)$", re.M)
TIME = re.compile(r"(?<![\w.(])(-?\d+(?:\.\d+)?) (us|ms|s)\b")
# Tables of operations have columns in us, like those of nccl-tests, without units in the rows.


@pytest.fixture
def report(busbar, tmp_path):
    """Returns report(name): the command line and stdout of a report. Creates the report's input files."""

    def bench(path, *args, ranks):
        done = busbar.run("bench", *args, *FAST, "--json", tmp_path / path, ranks=ranks, env=NO_DATA)
        assert done.returncode == 0, done.stderr

    def run(name):
        args, ranks, _ = REPORTS[name]
        if name == "compare":
            for path in ("a.json", "b.json"):
                bench(path, "all_reduce", "--sizes", "1M", ranks=2)
        if name == "calibrate":
            bench("c.json", "all_reduce", "all_gather", "-b", "8", "-e", "64M", "-f", 8, "-c", 0, ranks=4)
        study = {"command": "bench all_reduce", "ranks": 2, "options": {"sizes": "1M", "iters": 2, "repeats": 2},
                 "columns": ["bytes", "time_us.p50"]}
        (tmp_path / "study.json").write_text(json.dumps(study))
        args = [str(busbar.build / "busbar-emulated") if w == "PROGRAM" else str(w) for w in args]
        done = busbar.run(*args, ranks=ranks, env=NO_DATA, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return args, done.stdout

    return run


def assert_first_line_is_the_command(args, text):
    version, command = re.fullmatch(r"# busbar (\d+\.\d+\.\d+)  busbar (.*)", text.split("\n")[0]).groups()
    assert re.sub(r" -g \d+$", "", command) == " ".join(args) and text.count(f"# busbar {version}") == 1


def assert_emulated_gpus_have_the_usual_label(text, emulated):
    assert bool(EMULATED.search(text)) == emulated
    other_lines = [line for line in text.splitlines()[1:]
                   if re.search("emulated|simulated gpu", re.sub("Emulated GPU(?!s)|emulated-default", "", line), re.I)]
    assert all(EMULATED.match(line) for line in other_lines), other_lines


def assert_times_use_us_below_10_ms_then_ms_then_s(text):
    """A smaller time may have the unit of a larger one in its line."""
    least, most = {"us": 0, "ms": 10, "s": 10}, {"us": 1e4, "ms": 1e4, "s": 1e9}
    for line in text.splitlines():
        times = [(abs(float(number)), unit) for number, unit in TIME.findall(line)]
        assert all(max(t for t, of in times if of == unit) >= least[unit] and time < most[unit] for time, unit in times), line


def assert_predicted_times_have_three_digits(text):
    times = [time for time, unit in TIME.findall(text)]
    assert times and [time for time in times if abs(float(time)) >= 1000 or len(time.replace(".", "").lstrip("-0")) > 3] == []


def assert_table_uses_the_unit_of_its_largest_time(name, text):
    """HEADERS: report -> (header of a table, its unit, column of a time, range of this time)."""
    header, unit, column, low, high = HEADERS[name]
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if re.search(header, line))
    assert re.search(rf"\b{unit}\b", lines[at]) and "us" not in lines[at].replace("busy", "") and low <= float(lines[at + 1].split()[column]) < high


HEADERS = {"plan": (r"role +rank +step (ms|us|s)", "step s", 3, 1, 1e3),
           "plan of seconds": (r"role +rank +step (ms|us|s)", "step s", 3, 1, 1e3),
           "proxy": (r"^# (us|ms|s) +min +p50", "ms", 1, 10, 1e4)}


@pytest.mark.parametrize("name", REPORTS)
def test_report_follows_the_conventions(report, name):
    args, text = report(name)
    assert_first_line_is_the_command(args, text)
    assert_emulated_gpus_have_the_usual_label(text, REPORTS[name][2])
    if name in ("plan", "plan of seconds", "best-layout"):
        assert_predicted_times_have_three_digits(text)
    else:
        assert_times_use_us_below_10_ms_then_ms_then_s(text)
    if name in HEADERS:
        assert_table_uses_the_unit_of_its_largest_time(name, text)
    if name == "proxy":
        assert "where the time goes (ms)" in text and "by group (ms;" in text


UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "GiB": 2.0**30, "MiB": 2.0**20, "KiB": 2.0**10, "B": 1.0}


def sums_of(text):
    """[(left side, right side, rounding error)] of each line "a = b + c - d" in the same or in printed units."""
    found = []
    for line in re.sub(r" \((?:ms|us)\):", ":", re.sub(r"B,\n\s+", "B, ", text)).splitlines():
        if not re.search(r"(step  |lost to communication on rank \d+|buffers of busbar proxy:|training needs: ).* = ", line):
            continue
        line = re.sub(r"\(.*?\)|; rank.*|^.*on rank \d+:|( without recomputation,)? if it fitted in memory", "", line)
        unit, sides = 1.0, []
        for side in line.split(" = "):
            total = error = 0.0
            for sign, number, name in re.findall(r"([-+,] )?[A-Za-z: ]*?([\d,]*\d(?:\.\d+)?)(?: (s|ms|us|[GMK]iB|B)\b)?", side):
                unit = UNITS.get(name, unit)
                total += (-1 if sign == "- " else 1) * float(number.replace(",", "")) * unit
                error += 0.5001 * 10.0 ** -len(number.partition(".")[2]) * unit
            sides.append((total, error))
        found += [(*a, *b) for a, b in zip(sides, sides[1:])]
    return found


LAYOUTS = ["--model llama3_70b --ranks 64 --tp 8 --pp 4", "--model llama3_8b --ranks 8", "--model gpt2_small --ranks 4 --pp 4", "--model llama3_8b --ranks 64 --tp 4 --dp-sync zero3",
           "--model mixtral_8x7b --ranks 64 --ep 8 --tp 2 --sequence-parallel", "--model gpt3_1_3b --ranks 8 --pp 4 --micro-batches 8", "--model gpt2_small --ranks 2",
           "--model llama3_8b --ranks 16 --cp 4 --cp-comm ring", "--model gpt3_13b --ranks 32 --tp 4 --pp 4 --vpp 2 --micro-batches 8 --schedule interleaved"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_of_a_plan_add_up_as_printed(busbar, layout):
    done = busbar.run("plan", "transformer", *layout.split(), "--cluster", "h100-sxm-ib", "--full", emulated=False)
    sums = sums_of(done.stdout)
    assert done.returncode == 0 and len(sums) > 2, done.stderr
    for a, error_a, b, error_b in sums:
        assert abs(a - b) <= error_a + error_b, (a, b, done.stdout)
    exposed = re.search(r"(?m)^  exposed +(.+)$", done.stdout)
    step = re.search(r"(?m)^  step .* \+ exposed ([\d.]+) (\w+)", done.stdout)
    if exposed:
        parts = re.findall(r"([\d.,]+) (s|ms|us) ", re.sub(r"\(.*?\)", "", exposed[1]))
        error = 0.5001 * sum(10.0 ** -len(x.partition(".")[2]) * UNITS[u] for x, u in [*parts, step.groups()])
        assert abs(sum(float(x.replace(",", "")) * UNITS[u] for x, u in parts) - float(step[1]) * UNITS[step[2]]) <= error, done.stdout


@pytest.mark.parametrize("layout", ["--pp 4 --micro-batches 4", "--tp 2 --pp 2", "--tp 4"])
def test_sums_of_a_proxy_add_up_as_printed(busbar, layout):
    done = busbar.run("proxy", "transformer", "--model", "gpt2_small", "--layers", 4, *layout.split(), "-n", 2, "-w", 1, ranks=4, env={"EMU_DATA": "off"})
    sums = sums_of(done.stdout)
    assert done.returncode == 0 and len(sums) == 2, done.stdout
    for a, error_a, b, error_b in sums:
        assert abs(a - b) <= error_a + error_b, (a, b, done.stdout)
