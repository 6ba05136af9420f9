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
    "p2p": (("bench", "p2p", "--bandwidth-sizes", "1M", *FAST), 2, True),
    "comm": (("bench", "comm", "--repeats", 2), 2, True),
    "overlap": (("bench", "overlap", "--sizes", "1M", *FAST), 2, True),
    "compute": (("bench", "compute", "--quick", "-n", 1, "--repeats", 2), 0, True),
    "proxy": (("proxy", "gpt2_large", 8, 2, 2, "--compute", "timed", "--forward-us", 9000, "--backward-us", 18000, "--steps", 2,
               "--warmup", 1,
               *CLUSTER), 2, True),
    "scaling": (("proxy", "scaling", "--model", "resnet18_cifar", "--batch", 128, "--epoch-steps", 2, "--images", 1000, "--no-alone"), 2,
                True),
    "proxies": (("proxy", "all", "--quick", "--steps", 2), 2, True),
    "plan": ((*PLAN, *CLUSTER, "--ops"), 0, False),
    "plan of seconds": ((*PLAN[:-1], 4096, *CLUSTER), 0, False),
    "plan of collectives": (("plan", "all_reduce", "-b", "1M", "-e", "4G", "-f", 64, "--ranks", 64, *CLUSTER), 0, False),
    "best-layout": (("plan", "transformer", "--model", "llama3_8b", "--ranks", 64, "--global-batch-size", 512, *CLUSTER, "--best-layout",
                     "--top", 4), 0, False),
    "compare": (("compare", "a.json", "b.json"), 0, True),
    "calibrate": (("calibrate", "c.json", "-o", "mine.json"), 0, True),
    "sweep": (("sweep", "study.json", "--program", "PROGRAM"), 0, True),
}
EMULATED = re.compile(r"^# (?:[AB]: )?emulated GPUs: .*\b(none is a measurement of hardware|no measurement of NCCL)$", re.M)
TIME = re.compile(r"(?<![\w.(])(-?\d+(?:\.\d+)?) (us|ms|s)\b")
# Tables of operations have columns in us, like those of nccl-tests, without units in the rows.


@pytest.fixture(scope="module")
def reports(busbar, tmp_path_factory):
    """Returns {name: (command line, stdout)}."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "study.json").write_text(json.dumps({"command": "bench all_reduce", "ranks": 2,
                                                   "options": {"sizes": "1M", "iters": 2, "repeats": 2},
                                                   "columns": ["bytes", "time_us.p50"]}))
    for name in "ab":
        done = busbar.run("bench", "all_reduce", "--sizes", "1M", *FAST, "--json", folder / f"{name}.json", ranks=2, env=NO_DATA)
        assert done.returncode == 0, done.stderr
    done = busbar.run("bench", "all_reduce", "all_gather", "-b", "8", "-e", "64M", "-f", 8, "-c", 0, *FAST, "--json", folder / "c.json",
                      ranks=4, env=NO_DATA)
    assert done.returncode == 0, done.stderr
    texts = {}
    for name, (args, ranks, _) in REPORTS.items():
        args = [str(busbar.build / "busbar-emulated") if w == "PROGRAM" else str(w) for w in args]
        done = busbar.run(*args, ranks=ranks, env=NO_DATA, cwd=folder)
        assert done.returncode == 0, (name, done.stderr)
        texts[name] = (args, done.stdout)
    return texts


@pytest.mark.parametrize("name", REPORTS)
def test_first_line_is_the_command(reports, name):
    args, text = reports[name]
    version, command = re.fullmatch(r"# busbar (\d+\.\d+\.\d+)  busbar (.*)", text.split("\n")[0]).groups()
    assert command == " ".join(args) and text.count(f"# busbar {version}") == 1


@pytest.mark.parametrize("name", REPORTS)
def test_emulated_gpus_have_the_same_label_everywhere(reports, name):
    _, text = reports[name]
    assert bool(EMULATED.search(text)) == REPORTS[name][2]
    other_lines = [line for line in text.splitlines()[1:]
                   if re.search("emulated|simulated gpu", re.sub("Emulated GPU(?!s)|emulated-default", "", line), re.I)]
    assert all(EMULATED.match(line) for line in other_lines), other_lines


@pytest.mark.parametrize("name", REPORTS)
def test_times_use_us_below_10_ms_then_ms_then_s(reports, name):
    _, text = reports[name]
    violations = [" ".join(t) for t in TIME.findall(text)
                  if not {"us": 0, "ms": 10, "s": 10}[t[1]] <= abs(float(t[0])) < {"us": 1e4, "ms": 1e4, "s": 1e9}[t[1]]]
    assert violations == []


def test_table_uses_the_unit_of_its_largest_time(reports):
    def column(name, header):
        lines = reports[name][1].splitlines()
        index = next(i for i, line in enumerate(lines) if re.search(header, line))
        return lines[index], lines[index + 1].split()
    header, row = column("plan", r"role +rank +step (ms|us|s)")
    assert "step ms" in header and "us" not in header and 10 <= float(row[3]) < 1e4
    header, row = column("plan of seconds", r"role +rank +step (ms|us|s)")
    assert "step s " in header and float(row[3]) >= 10
    header, row = column("proxy", r"^# (us|ms|s) +min +p50")
    assert header.startswith("# ms ") and 10 <= float(row[1]) < 1e4
    assert "where the time goes (ms)" in reports["proxy"][1] and "by group (ms;" in reports["proxy"][1]

