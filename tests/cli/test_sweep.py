"""busbar sweep: studies with stubs of mpirun, srun and sbatch, and some studies on emulated GPUs."""
import csv
import json
import os
import re
import resource
import stat
import subprocess
import sys

import pytest
from conftest import MPI_ENVIRONMENT

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPECIAL_CHARACTERS = "a b'c\"d$HOME`x`\\n\n#;& é %A*"

# Stub of mpirun and srun: appends the name of the result file to "ran", then behaves as the environment variable ACT selects.
LAUNCHER_STUB = """#!{python} -SE
import json, os, signal, sys, time
words = sys.argv[1:]
where = words[words.index("--json") + 1]
ran = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ran"), "a")
ran.write(os.path.basename(where) + "\\n")
ran.close()
act, ranks = os.environ.get("ACT", "ok"), int(words[words.index("-n") + 1])
result = {{"schema": "busbar.proxy/1", "proxy": "toy", "words": words, "program": os.path.basename(sys.argv[0]),
          "environment": {{k: os.environ.get(k) for k in ("TEXT", "ACT", "GONE")}}, "step_us": {{"p50": 100.0 / ranks}},
          "samples_per_s": 10.0 * ranks, "status": "ok"}}
once = where + ".once"
if act == "fail":
    sys.stderr.write("first\\nbusbar: it went wrong\\n-----\\nmpirun noticed\\n")
    sys.exit(3)
if act == "hang":
    time.sleep(60)
if act == "killed" and not os.path.exists(once):
    open(once, "w").close()
    with open(where, "w") as f:
        f.write('{{"schema": "busbar.proxy/1", "status": "running"}}')
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
if act == "slow end" and not os.path.exists(once):  # replaces the result after the sweep was killed, as a run may that gets SIGTERM
    open(once, "w").close()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1)
    open(where + ".ended", "w").close()
    result["status"] = "interrupted"
if act == "signal" and not os.path.exists(once):
    open(once, "w").close()
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)
if act == "hang up":
    os.kill(os.getppid(), signal.SIGHUP)
if act == "half":
    with open(where, "w") as f:
        f.write('{{"schema": "busbar.pro')
    sys.exit(0)
with open(where, "w") as f:
    json.dump(result, f)
"""

# Stub of sbatch: reads the #SBATCH lines of the script, then runs the array tasks one after another.
SBATCH_STUB = """#!{python} -SE
import re, subprocess, sys, os, shlex
(script,) = sys.argv[1:]
lines = [line[8:].strip() for line in open(script) if line.startswith("#SBATCH ")]
options = dict((shlex.split(line)[0].split("=", 1) + [None])[:2] for line in lines)
first, last, at_once = re.fullmatch(r"(\\d+)-(\\d+)(%\\d+)?", options["--array"]).groups()
print(repr(options))
for task in range(int(first), int(last) + 1):
    done = subprocess.run(["sh", script], env=dict(os.environ, SLURM_ARRAY_TASK_ID=str(task)))
    print(task, done.returncode)
"""


@pytest.fixture
def sweep(busbar, tmp_path):
    """sweep(study, *args) runs busbar sweep in an empty folder with the stubs first in PATH. sweep.ran() is the number of started runs."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name, text in (("mpirun", LAUNCHER_STUB), ("srun", LAUNCHER_STUB), ("sbatch", SBATCH_STUB)):
        (bin_dir / name).write_text(text.format(python=sys.executable))
        (bin_dir / name).chmod(stat.S_IRWXU)

    def run(study, *args, env=None, real=False, timeout=90):
        (tmp_path / "study.json").write_text(study if isinstance(study, str) else json.dumps(study))
        path = {} if real else {"PATH": f"{bin_dir}:{os.environ['PATH']}"}
        return busbar.run("sweep", "study.json", *args, emulated=real, cwd=tmp_path, env={**path, **(env or {})}, timeout=timeout)

    run.dir, run.bin, run.busbar = tmp_path / "study.sweep", bin_dir, busbar.build / "busbar"
    run.ran = lambda: len((bin_dir / "ran").read_text().splitlines()) if (bin_dir / "ran").exists() else 0
    run.json = lambda: json.loads((run.dir / "sweep.json").read_text())
    run.results = lambda: [c["result"] for c in run.json()["combinations"]]
    return run


def study(**kw):
    return {"command": ["proxy", "resnet50"], "ranks": 2, **kw}


def table(done):
    return [re.split(r"  +", line.strip()) for line in done.stdout.splitlines() if line.startswith(" ")]


# ---- running --------------------------------------------------------------------------------------------------------

def test_runs_every_combination_once_in_order(sweep):
    done = sweep(study(ranks=[2, 4], options={"dtype": ["float", "half"]}, environment={"GONE": [None, "here"]}), env={"GONE": "there"})
    assert done.returncode == 0, done.stderr
    assert sweep.ran() == 8 and done.stderr == ""
    data = sweep.json()
    assert data["status"] == "ok" and "reason" not in data
    assert data["schema"] == "busbar.sweep/1" and data["counts"] == {"complete": 8, "failed": 0, "to_do": 0, "below_threshold": 0}
    assert data["axes"] == {"dtype": ["float", "half"], "GONE": [None, "here"], "ranks": [2, 4]}
    assert [c["settings"] for c in data["combinations"]] == [
        {"dtype": d, "GONE": g, "ranks": n} for d in ("float", "half") for g in (None, "here") for n in (2, 4)]
    for c in data["combinations"]:
        args, settings = c["result"]["words"], c["settings"]
        assert args[:2] == ["-n", str(settings["ranks"])] and f"--dtype={settings['dtype']}" in args
        assert c["result"]["environment"]["GONE"] == settings["GONE"]
        assert ("-x" in args) == (settings["GONE"] is not None)
    assert table(done)[0] == ["float", "-", "2", "50", "20", "ok"] and "# in every row: proxy toy" in done.stdout


def test_table_of_health_has_a_row_for_each_test(sweep):
    """Not for each value of a GPU, unless the study asks for them; the columns of the CSV that identify a run agree with the rows."""
    runs = {"command": "health", "options": {"only": ["gpu", "node"], "quick": True}, "ranks": 4}
    done = sweep(runs, real=True, env={"EMU_DATA": "off"})
    assert [row[:3] for row in table(done)] == [["gpu", "gpu", "GEMM"], ["gpu", "gpu", "memory copy"], ["node", "node", "all_reduce in the node"]], done
    for row in table(done):
        assert float(row[3]) == pytest.approx(float(row[4]), rel=0.01) and row[5] in ("TFLOP/s", "GB/s")
    with open(sweep.dir / "sweep.csv", newline="") as f:
        assert [row["test"] for row in csv.DictReader(f)] == ["GEMM", "memory copy", "all_reduce in the node"]
    assert len(table(sweep({**runs, "columns": ["test", "value"]}, real=True, env={"EMU_DATA": "off"}))) == 12


def test_the_studies_of_the_help_are_valid(busbar, sweep):
    text = busbar.run("sweep", "--help", emulated=False).stdout
    studies = [json.JSONDecoder().raw_decode(text[at.end() - 1:])[0] for at in re.finditer(r"\n  \{", text)]
    assert [n for n, it in enumerate(studies) if "relative_to" in str(it)] == [2]
    (sweep.dir.parent / "my_program").touch(mode=0o755)
    for it in studies:
        done = sweep(it, "--list")
        assert done.returncode == 0, done.stderr


@pytest.mark.smoke
def test_table_csv_and_json_match_the_single_results(sweep):
    done = sweep(study(ranks=[1, 2, 4], columns=["step_us.p50", {"name": "speed-up", "value": "samples_per_s", "relative_to": {"ranks": 1}},
                                                "environment.TEXT"], environment={"TEXT": 'x,"y" z'}))
    assert done.returncode == 0, done.stderr
    data = sweep.json()
    single = [json.loads((sweep.dir / f"{c['id']}.json").read_text()) for c in data["combinations"]]
    assert [c["result"] for c in data["combinations"]] == single
    assert data["columns"] == ["ranks", "step_us", "speed-up", "environment.TEXT", "state"]
    assert data["rows"] == [[n, 100 / n, n, 'x,"y" z', "ok"] for n in (1, 2, 4)]
    with open(sweep.dir / "sweep.csv", newline="") as f:
        rows = list(csv.reader(f))
    assert rows[0] == data["columns"] + ["command", "started", "host", "nodes", "busbar", "nccl.runtime", "cuda.runtime", "emulated",
                                         "shared_gpu"]
    assert [[float(r[1]), float(r[2]), r[3]] for r in rows[1:]] == [[100 / n, n, 'x,"y" z'] for n in (1, 2, 4)]
    gathered = sweep((sweep.dir.parent / "study.json").read_text(), "--gather", "--json", "-")
    assert json.loads(gathered.stdout) == data and sweep.ran() == 3


def test_writes_results_into_the_new_folder_of_the_study(sweep):
    done = sweep(study(), "--json", sweep.dir / "all.json", "--csv", sweep.dir / "all.csv")
    assert done.returncode == 0, done.stderr
    assert json.loads((sweep.dir / "all.json").read_text())["schema"] == "busbar.sweep/1" and (sweep.dir / "all.csv").exists()


@pytest.mark.smoke
def test_failed_combination_is_recorded_and_the_sweep_continues(sweep):
    failing = study(environment={"ACT": ["fail", "ok", "half"]})
    done = sweep(failing)
    assert done.returncode == 1 and sweep.ran() == 3
    assert "ACT=fail: failed with exit status 3: busbar: it went wrong" in done.stderr
    assert "2 of 3 combinations failed" in done.stderr.splitlines()[-1]
    assert sweep.json()["status"] == "failed" and done.stderr.splitlines()[-1] == "busbar: " + sweep.json()["reason"]
    failed, good, half = sweep.json()["combinations"]
    assert (failed["state"], failed["exit_status"], failed["result"]) == ("failed", 3, None)
    assert failed["stderr"] == ["busbar: it went wrong"]
    assert good["state"] == "complete" and (half["state"], half["exit_status"]) == ("failed", 0)
    assert [row[-1] for row in table(done)] == ["failed (3)", "ok", "failed (0)"]
    assert "#   busbar: it went wrong" in done.stdout
    assert sweep(failing).returncode == 1 and sweep.ran() == 3
    assert sweep(failing, "--retry-failed").returncode == 1 and sweep.ran() == 5
    assert sweep(failing, "--restart").returncode == 1 and sweep.ran() == 8


def test_resumes_after_sigkill(sweep):
    stopped = study(ranks=[1, 2, 3], cases=[{"name": "a"}, {"name": "b", "environment": {"ACT": "killed"}, "ranks": 9},
                                            {"name": "c", "options": {"dtype": "half"}}])
    assert sweep(stopped).returncode in (-9, 137)
    assert sweep.ran() == 4
    listed = sweep(stopped, "--list")
    assert [line.split()[3] for line in listed.stdout.splitlines() if line.startswith("# ")] == ["complete:"] * 3 + ["to"] * 4
    done = sweep(stopped)
    assert done.returncode == 0, done.stderr
    assert sweep.ran() == 8 and sweep.json()["counts"]["complete"] == 7


def test_resume_after_sigkill_awaits_the_end_of_the_previous_run(sweep):
    slow = study(environment={"ACT": "slow end"})
    assert sweep(slow).returncode in (-9, 137)
    done = sweep(slow)
    assert done.returncode == 0 and sweep.ran() == 2, done.stdout + done.stderr
    assert list(sweep.dir.glob("*.ended")), "the new run must start after the end of the previous run"
    assert [result["status"] for result in sweep.results()] == ["ok"]


def test_resumes_after_sigterm(sweep):
    stopped = study(environment={"ACT": ["ok", "signal", None]})
    done = sweep(stopped)
    assert done.returncode == 1 and "stopped by Terminated after 1 of 3" in done.stderr and done.stdout == ""
    done = sweep(stopped)
    assert done.returncode == 0 and sweep.ran() == 4


def test_ignores_sighup_under_nohup(sweep):
    (sweep.bin.parent / "study.json").write_text(json.dumps(study(environment={"ACT": ["hang up", "ok"]})))
    command = [str(sweep.busbar), "sweep", "study.json"]
    done = subprocess.run(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command], cwd=sweep.bin.parent, capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PATH": f"{sweep.bin}:{os.environ['PATH']}"})
    assert done.returncode == 0 and sweep.ran() == 2, done.stderr


def test_prints_progress_on_a_terminal(sweep):
    (sweep.bin.parent / "study.json").write_text(json.dumps(study(ranks=[1, 2])))
    master, terminal = os.openpty()
    done = subprocess.run([str(sweep.busbar), "sweep", "study.json"], cwd=sweep.bin.parent, stdout=subprocess.PIPE, stderr=terminal,
                          timeout=60, env={**os.environ, "PATH": f"{sweep.bin}:{os.environ['PATH']}"})
    os.close(terminal)
    seen = ""
    try:
        while chunk := os.read(master, 65536).decode():
            seen += chunk
    except OSError:  # reading a closed terminal at its end raises OSError
        pass
    assert done.returncode == 0 and "1/2, 0 failed  ranks=1  0 s" in seen and seen.endswith("\r\033[K")


def test_warns_about_a_misspelled_environment_variable(sweep):
    done = sweep(study(environment={"NCCL_AGLO": "Ring", "NCCL_PROTO": "LL", "NCCL_GIN_ENABLE": 0, "MY_AGLO": 1}))
    assert done.returncode == 0
    assert re.findall(r"environment\.(\w+) .* did you mean '(\w+)'", done.stderr) == [("NCCL_AGLO", "NCCL_ALGO")]


def test_added_values_run_without_repeating_old_ones(sweep):
    assert sweep(study(ranks=[1, 2])).returncode == 0
    done = sweep(study(ranks=[4, 2, 1], about="more"))
    assert done.returncode == 0 and sweep.ran() == 3
    assert [row[0] for row in table(done)] == ["4", "2", "1"]


def test_timeout_is_recorded(sweep):
    done = sweep(study(environment={"ACT": ["hang", "ok"]}, timeout_s=4))
    assert done.returncode == 1 and "ACT=hang: timeout, exit status 124" in done.stderr
    assert [row[-1] for row in table(done)] == ["timeout", "ok"]


def test_launcher_options_on_the_command_line(sweep):
    assert sweep(study(), "--launcher", "srun", "--hosts", "n1,n2", "--launch-arguments", "--mpi=pmix  -v", "--ranks", "2,6",
                 "--program", "/opt/my busbar").returncode == 0
    args = [r["words"] for r in sweep.results()]
    assert [w[:7] for w in args] == [["-n", n, "--nodelist", "n1,n2", "--mpi=pmix", "-v", "/opt/my busbar"] for n in "26"]
    assert {r["program"] for r in sweep.results()} == {"srun"}


def test_unknown_columns_are_rejected_before_the_first_run(sweep):
    """Names are checked with the schemas of the results; the second is a list of values, the third an object."""
    for column, text in (("step_us.p5", "; 'step_us' contains min p50 p90 p99 max mean; try: step_us.p50"), ("lost_ranks", ""), ("environment", "")):
        done = sweep(study(columns=["step_us.p50", column]))
        assert done.returncode == 2 and f"study.json: columns: no result can have '{column}'{text}" in done.stderr and sweep.ran() == 0
    done = sweep(study(command=["plan", "transformer"], options={"model": "gpt2_small", "cluster": "h100-sxm-ib"}, columns=["predicted.tokens_per_s_per_gpu"]))
    assert done.stderr.endswith("; try: predicted.tokens_per_s\n")  # a plan without --best-layout has no best_layout.explained
    valid = ["groups.12.bytes", "options.no-such-option", "environment.NCCL_ALGO", "scaling.images_per_s"]
    assert sweep(study(columns=valid), "--list").returncode == 0
    assert sweep({"command": "plan all_reduce --cluster h100-sxm-ib --sizes 1K", "ranks": 8, "columns": ["time_us.p50", "busbw_gbps"]}).stderr == ""


def test_name_in_the_heading_is_a_column(sweep):
    """The heading of step_us.p50 is step_us, which is accepted as a column, as --sort and --where accept it."""
    tables = [table(sweep({**SIX, "columns": [column, "samples_per_s"]}, "--sort", "step_us")) for column in ("step_us", "step_us.p50")]
    assert tables[0] == tables[1] and len(tables[0]) == 6 and all(float(row[-3]) > 0 for row in tables[0]), tables


def test_warns_about_a_column_that_no_result_has(sweep):
    done = sweep(study(columns=["step_us.p50", "graph.capture_ms"]))
    assert done.returncode == 0 and "no result has 'graph.capture_ms', so that column is empty" in done.stderr and len(done.stderr.splitlines()) == 1


def test_rejected_columns_suggest_the_nearest(sweep):
    """The trial's column, which is in another object, and a misspelled one."""
    runs = {"command": "plan gpt2_large --cluster h100-sxm-ib", "options": {"ranks": 8}}
    for column, near in (("exposed_transfer_us", "predicted.breakdown.exposed_transfer_us"), ("predicted.step_uss", "predicted.step_us"),
                         ("memory", "predicted.memory.needed_bytes"), ("mfu", "predicted.model_flop_utilisation")):
        assert sweep({**runs, "columns": [column]}, real=True).stderr.endswith(f"; try: {near}\n")
    runs = {"command": "bench all_reduce", "ranks": 2, "columns": ["busbw"]}
    assert sweep(runs, real=True).stderr.endswith("; try: busbw_gbps\n")


def test_axis_among_the_columns_is_shown_once(sweep):
    assert sweep(study(ranks=[1, 2], columns=["ranks", "step_us.p50"])).returncode == 0
    assert sweep.json()["columns"] == ["ranks", "step_us", "state"]


def test_plan_of_collectives_has_the_columns_of_bench(sweep):
    assert sweep({"command": "plan all_reduce --cluster h100-sxm-ib -b 8 -e 8", "options": {"ranks": [2, 16]}}).returncode == 0
    columns, rows = sweep.json()["columns"], sweep.json()["rows"]
    assert {"collective", "bytes", "placement", "time_us", "busbw_gbps"} <= set(columns) and len(rows) == 4
    assert all(isinstance(row[columns.index("time_us")], float) for row in rows)


def test_an_option_given_several_times_is_one_text(sweep):
    done = sweep({"command": "plan all_reduce --cluster h100-sxm-ib -b 8 -e 8 --set inter.gbps=48 --set inter.latency_us=5", "ranks": 16,
                  "columns": ["options.set", "time_us"]}, real=True)
    data = sweep.json()
    assert done.stderr == "" and {row[data["columns"].index("options.set")] for row in data["rows"]} == {"inter.gbps=48 inter.latency_us=5"}
    assert data["combinations"][0]["result"]["options"]["set"] == ["inter.gbps=48", "inter.latency_us=5"]


def test_list_keeps_values_with_newlines_on_one_comment_line(sweep):
    listed = sweep(study(environment={"TEXT": ["x\ntouch y", "b"]}), "--list")
    assert all(line.startswith("# ") or line.startswith("env ") or line.startswith("touch y' ") for line in listed.stdout.splitlines())
    assert "TEXT=x touch y" in listed.stdout


def test_id_placeholder_is_replaced(sweep):
    assert sweep(study(options={"trace": "t-{id}.json"}, environment={"TEXT": "log/{id}"}, ranks=[1, 2])).returncode == 0
    for c in sweep.json()["combinations"]:
        assert f"--trace=t-{c['id']}.json" in c["result"]["words"] and c["result"]["environment"]["TEXT"] == f"log/{c['id']}"


def test_custom_launcher(sweep):
    launch = {"with": [str(sweep.bin / "mpirun"), "-n", "{ranks}", "--tag=x{ranks}y"]}
    assert sweep(study(launch=launch, launch_arguments=["--last word"])).returncode == 0
    assert sweep.results()[0]["words"][:4] == ["-n", "2", "--tag=x2y", "--last word"]


def test_failed_launcher_start_is_recorded(sweep):
    done = sweep(study(launch={"with": ["/nowhere/run", "{ranks}"]}))
    assert done.returncode == 1 and "cannot start /nowhere/run" in done.stderr
    assert sweep.json()["combinations"][0]["exit_status"] == 127


@pytest.mark.parametrize("real", [True, False])
def test_printed_commands_start_the_program_that_printed_them(sweep, real):
    """A command of busbar-emulated also works in a shell or a job without its environment."""
    listed = sweep({"command": "bench all_reduce -b 8 -e 8", "ranks": 2}, "--list", real=real)
    command = listed.stdout.splitlines()[-1]
    assert listed.returncode == 0 and f"{sweep.busbar}{'-emulated' if real else ''} bench all_reduce" in command
    if real:
        assert subprocess.run(["sh", "-c", command], env={**MPI_ENVIRONMENT, "PATH": os.environ["PATH"]}, capture_output=True, timeout=90).returncode == 0


def test_list_prints_commands_for_the_shell_and_starts_nothing(sweep):
    special = study(environment={"TEXT": SPECIAL_CHARACTERS, "GONE": None}, options={"trace": SPECIAL_CHARACTERS})
    listed = sweep(special, "--list", env={"GONE": "x"})
    assert listed.returncode == 0 and sweep.ran() == 0 and not sweep.dir.exists()
    comment, command = listed.stdout.split("\n", 1)
    command = command.rstrip("\n") + f" --json {sweep.bin}/r.json"
    assert comment.startswith("# 1 ") and command.startswith("env ")
    subprocess.run(["sh", "-c", command], check=True, env={"PATH": f"{sweep.bin}:{os.environ['PATH']}", "GONE": "x"})
    result = json.loads((sweep.bin / "r.json").read_text())
    assert f"--trace={SPECIAL_CHARACTERS}" in result["words"] and result["environment"]["TEXT"] == SPECIAL_CHARACTERS
    assert result["environment"]["GONE"] is None


# ---- Slurm ----------------------------------------------------------------------------------------------------------

def cpu_s_of_ended_processes():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_expansion_time_is_linear_in_the_number_of_cases(sweep):
    n = 4000  # 0.5 s of CPU time; a copy of all cases for each case takes more than 20 s
    cases = [{"name": f"c{i}", "options": {"minbytes": 1024 + i, "maxbytes": 1024 + i}} for i in range(n)]
    before_s = cpu_s_of_ended_processes()
    done = sweep({"command": "bench all_reduce", "ranks": 2, "cases": cases}, "--list", f"--max-combinations={n}")
    assert done.stdout.count("--minbytes=") == n and cpu_s_of_ended_processes() - before_s < 10


def submit(done, sweep, env=None):
    """Runs the printed sbatch commands. Returns the #SBATCH options of each script and the exit status of each task."""
    ran = subprocess.run(["sh", "-e"], input=done.stdout, capture_output=True, text=True, timeout=60,
                         env={**os.environ, "PATH": f"{sweep.bin}:{os.environ['PATH']}", **(env or {})})
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    return [eval(line) for line in lines if line.startswith("{")], [int(line.split()[1]) for line in lines if not line.startswith("{")]


@pytest.mark.smoke
def test_slurm_scripts_keep_special_characters(sweep):
    special = study(environment={"TEXT": [SPECIAL_CHARACTERS, "plain"], "GONE": None}, options={"trace": [SPECIAL_CHARACTERS, "./-", "a=b"]},
                    launch_arguments=["--comment=" + SPECIAL_CHARACTERS],
                    slurm={"lines": ["--partition=gpu", "--comment=\"two words\""], "setup": ["GONE=1"], "at_once": 2})
    done = sweep(special, "--slurm")
    assert done.returncode == 0 and done.stderr == "" and sweep.ran() == 0
    options, statuses = submit(done, sweep, {"GONE": "there"})
    assert statuses == [0] * 6
    assert options[0]["--array"] == "1-6%2" and options[0]["--ntasks"] == "2" and options[0]["--comment"] == "two words"
    assert options[0]["--output"] == f"{sweep.dir}/slurm-%A_%a.out"
    gathered = sweep(special, "--gather")
    assert gathered.returncode == 0, gathered.stderr
    for c in sweep.json()["combinations"]:
        assert f"--trace={c['settings']['trace']}" in c["result"]["words"] and "--comment=" + SPECIAL_CHARACTERS in c["result"]["words"]
        assert c["result"]["environment"] == {"TEXT": c["settings"]["TEXT"], "GONE": None, "ACT": None}
        assert c["result"]["program"] == "srun" and c["exit_status"] == 0


def test_slurm_list_prints_the_scripts_and_writes_none(sweep):
    many = study(repeats=3, slurm={"tasks_per_array": 2})
    shown = sweep(many, "--slurm", "--list")
    assert shown.returncode == 0 and not sweep.dir.exists() and sweep(many, "--submit", "--list").stdout == shown.stdout
    assert sweep(many, "--slurm").returncode == 0
    scripts = [sweep.dir / "study-1.slurm", sweep.dir / "study-2.slurm"]
    assert shown.stdout == "".join(f"# file: {path}\n{path.read_text()}" for path in scripts)


def test_launch_options_name_kept_failures(sweep):
    failing = study(environment={"ACT": "fail"})
    sweep(failing)
    assert "not run with the given" not in sweep(failing).stderr
    done = sweep(failing, "--launch-arguments", "--quiet")
    assert "1 combination failed in an earlier sweep and is not run with the given launch options; try: --retry-failed" in done.stderr
    assert sweep.ran() == 1


def test_slurm_folder_with_odd_characters(sweep):
    odd = sweep.dir.parent / "a b'%j\"$x"
    done = sweep(study(), "--slurm", "-o", odd)
    options, statuses = submit(done, sweep)
    assert statuses == [0] and options[0]["--output"] == str(odd).replace("%", "%%") + "/slurm-%A_%a.out"
    assert sweep(study(), "--gather", "-o", odd).returncode == 0


def test_slurm_script_has_the_command_that_gathers_its_results(sweep):
    """From any folder, without options of the user, and not the results of another folder."""
    assert sweep(study(), "--slurm").returncode == 0  # NAME.sweep
    submit(sweep(study(), "--slurm", "-o", "a b'", "--ranks", "4,8"), sweep)
    script = (sweep.dir.parent / "a b'" / "study.slurm").read_text()
    line = next(line for line in script.splitlines() if line.endswith("--ranks=4,8"))
    done = subprocess.run(line.lstrip("# ").replace("busbar sweep", f"{sweep.busbar} sweep"), shell=True, cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in table(done)] == ["4", "8"]
    assert sweep(study(repeats=1001), "--slurm", "--max-combinations", "2000", "-o", "x\ny").returncode == 0
    script = (sweep.dir.parent / "x\ny" / "study-1.slurm").read_text()  # a line break would end the comment
    assert "x y' --max-combinations=2000\nset -u\n" in script


def test_slurm_failures_and_time(sweep):
    failing = study(cases=[{"name": "bad", "environment": {"ACT": "fail"}},
                           {"name": "late", "environment": {"ACT": "hang"}, "timeout_s": 0.2}, {"name": "good"}])
    _, statuses = submit(sweep(failing, "--slurm"), sweep)
    assert statuses == [3, 124, 0]
    done = sweep(failing, "--gather")
    assert done.returncode == 1 and [row[-1] for row in table(done)] == ["failed (3)", "timeout", "ok"]
    assert sweep.json()["combinations"][0]["stderr"][-1] == "busbar: it went wrong"
    left = sweep(failing, "--slurm")
    assert left.stdout == "" and "all combinations have run" in left.stderr
    options, statuses = submit(sweep(failing, "--slurm", "--retry-failed"), sweep)
    assert options[0]["--array"] == "1-2" and statuses == [3, 124]


def test_slurm_array_limit(sweep):
    many = study(repeats=5, slurm={"tasks_per_array": 2})
    options, statuses = submit(sweep(many, "--slurm"), sweep)
    assert [o["--array"] for o in options] == ["1-2", "1-2", "1-1"] and statuses == [0] * 5
    assert sweep(many, "--gather").returncode == 0 and sweep.json()["counts"]["complete"] == 5


@pytest.mark.smoke
def test_slurm_allocations_by_size(sweep):
    sizes = study(ranks=[8, 16, 20], repeats=2, slurm={"lines": ["--nodes={nodes}", "--ntasks={ranks}"], "gpus_per_node": 8})
    options, statuses = submit(sweep(sizes, "--slurm"), sweep)
    assert [(o["--array"], o["--nodes"], o["--ntasks"]) for o in options] == [("1-2", "1", "8"), ("1-2", "2", "16"), ("1-2", "3", "20")]
    assert statuses == [0] * 6 and sweep(sizes, "--gather").returncode == 0


def test_slurm_gpus_per_node_requests_nodes_tasks_and_gpus(sweep):
    def requests(gpus_per_node, *lines):
        slurm = {"gpus_per_node": gpus_per_node, **({"lines": list(lines)} if lines else {})}
        options, statuses = submit(sweep(study(ranks=[4, 20], slurm=slurm), "--slurm", "--restart"), sweep)
        assert statuses == [0, 0]
        return [[o.get(key) for key in ("--nodes", "--ntasks", "--ntasks-per-node", "--gpus-per-node")] for o in options]
    assert requests(8) == [["1", "4", "4", "4"], ["3", "20", "8", "8"]]
    assert requests(8, "--gres=gpu:h100:8")[1] == ["3", "20", "8", None]  # the file requests GPUs in its own way
    assert requests(4, "--nodes={nodes}") == [["1", "4", None, None], ["5", "20", None, None]]


def test_launch_arguments_as_text(sweep):
    assert sweep(study(launch_arguments="--bind-to none", launch={"with": [str(sweep.bin / "mpirun"), "-n", "{ranks}"]})).returncode == 0
    assert sweep.results()[0]["words"][:4] == ["-n", "2", "--bind-to", "none"]


# ---- rejected input -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("change,messages", [  # the other refusals are in golden/refusals.txt; these lines list all names
    ({"command": "proxy gpt2_lrage"}, ["gpt2_lrage", "gpt2_large"]),
    ({"command": "proxy transformer", "options": {"model": ["gpt2_small", "gpt2_smal"]}}, ["gpt2_smal", "gpt2_small"]),
    ({"command": "plan transformer", "options": {"model": ["gpt2_small", "nope"]}}, ["nope", "expected one of"]),
    ({"command": "plan resnet50", "options": {"cluster": "h100"}}, ["h100", "h100-sxm-ib"]),
    ({"charts": [{"x": "state", "y": "step_su"}]}, ["charts", "step_su", "step_us"]),
    ({"charts": [{"y": "step_us", "lines": ["ranks"]}]}, ["charts", "'ranks'"]),
    ({"charts": [{"x": "proxy"}]}, ["charts[0]", "expected an object with the names of columns"]),
])
def test_rejects_invalid_studies_with_one_line(sweep, change, messages):
    done = sweep({**study(), **change})
    assert done.returncode == 2 and done.stdout == "" and sweep.ran() == 0 and not sweep.dir.exists()
    (line,) = done.stderr.splitlines()
    assert "study.json" in line and all(word in line for word in messages), line


@pytest.mark.parametrize("mode", ["p2p", "comm", "compute"])
def test_bench_modes_run_without_options(sweep, mode):
    listed = sweep({"command": ["bench", mode], "ranks": [2, 4]}, "--list")
    assert listed.returncode == 0 and listed.stdout.count(f" bench {mode}\n") == 2, listed.stderr


def test_rejects_a_concurrent_sweep_in_the_same_folder(sweep):
    assert sweep(study()).returncode == 0
    lock_holder = subprocess.Popen(["flock", str(sweep.dir / "lock"), "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    lock_holder.stdin.write(b"x")
    lock_holder.stdin.flush()
    assert lock_holder.stdout.read1(1) == b"x"
    done = sweep(study())
    assert done.returncode == 2 and "another sweep" in done.stderr
    assert sweep(study(), "--gather").returncode == 0
    lock_holder.communicate()
    assert sweep(study()).returncode == 0


def test_rejects_sweep_under_mpirun(sweep):
    done = sweep(study(), env={"OMPI_COMM_WORLD_SIZE": "2"})
    assert done.returncode == 2 and "without mpirun" in done.stderr


# ---- table view: --sort, --where, --top -----------------------------------------------------------------------------

SIX = study(ranks=[1, 2, 4], options={"dtype": ["float", "half"]})  # step_us is 100 / ranks, samples_per_s is 10 x ranks


@pytest.mark.parametrize("args,rows", [
    ((), ["float 1", "float 2", "float 4", "half 1", "half 2", "half 4"]),
    (("--sort", "step_us"), ["float 4", "half 4", "float 2", "half 2", "float 1", "half 1"]),
    (("--sort", "-step_us.p50"), ["float 1", "half 1", "float 2", "half 2", "float 4", "half 4"]),
    (("--sort=-dtype", "--top", "2"), ["half 1", "half 2"]),
    (("--where", "ranks>=2,dtype=half"), ["half 2", "half 4"]),
    (("--where", "step_us < 100 , samples_per_s!=20"), ["float 4", "half 4"]),
    (("--where", "ranks==4,state=ok", "--top", "9"), ["float 4", "half 4"]),
    (("--where", "ranks>1K"), []),
    (("--where", "dtype!=half", "--sort", "-ranks", "--top", "1"), ["float 4"]),
])
def test_filters_and_sorts_rows(sweep, args, rows):
    assert sweep(SIX, "--quiet").returncode == 0
    done = sweep(SIX, "--gather", *args)
    assert done.returncode == 0, done.stderr
    assert [" ".join(row[:2]) for row in table(done)] == rows
    assert ("# shown: %d of 6 rows" % len(rows) in done.stdout) == (len(rows) < 6)
    lines = sweep(SIX, "--gather", "--csv", "-", *args).stdout.splitlines()[1:]
    assert [" ".join(line.split(",")[:2]) for line in lines] == rows
    assert len(sweep.json()["rows"]) == 6 and len((sweep.dir / "sweep.csv").read_text().splitlines()) == 7  # files contain all rows


@pytest.mark.parametrize("args,messages", [
    (("--sort", "step_su"), ["--sort", "step_su", "step_us"]), (("--where", "rnaks>1"), ["--where", "rnaks", "ranks"]),
])
def test_rejects_invalid_view_before_any_run(sweep, args, messages):
    done = sweep(SIX, *args)
    assert done.returncode == 2 and done.stdout == "" and sweep.ran() == 0
    (line,) = done.stderr.splitlines()
    assert all(word in line for word in messages), line


def test_sorts_by_a_ratio_column_without_a_name(sweep):
    ratio = study(ranks=[1, 2, 4], columns=[{"value": "step_us.p50", "relative_to": {"ranks": 1}}])
    done = sweep(ratio, "--sort", "step_us.p50 over ranks=1")
    assert done.returncode == 0, done.stderr
    assert [row[0] for row in table(done)] == ["4", "2", "1"]


def test_sorts_by_a_truth_value(sweep):
    fits = {"command": "plan gpt2_large 4 2 --ranks 2", "options": {"gpu-memory": ["80G", "1M"]}, "columns": ["memory.fits"]}
    done = sweep(fits, "--sort=-memory.fits")
    assert done.returncode == 0, done.stderr
    assert [row[1] for row in table(done)] == ["yes", "no"]


def test_plan_that_may_not_fit_has_a_column(sweep):
    """The proxy's buffers need 6471680 bytes, that is 96 %, 94 % and 106 % of the memory."""
    memory = {"command": "plan gpt2_large 4 2 --ranks 2 --cluster h100-sxm-ib", "options": {"gpu-memory": [6741333, 6884766, 6105358]}}
    done = sweep(memory, "--csv", "-")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [(row["predicted.memory.fits"], row["predicted.memory.tight"]) for row in rows] == [("true", "true"), ("true", "false"), ("false", "false")], done.stdout + done.stderr


def test_a_column_without_its_section_is_suggested(sweep):
    done = sweep({"command": "plan gpt2_large 4 2 --ranks 2 --cluster h100-sxm-ib", "options": {"gpu-memory": ["80G", "1M"]}}, "--sort=-tokens_per_s")
    assert done.returncode == 2 and done.stderr.endswith("unknown column for --sort: 'tokens_per_s', did you mean 'predicted.tokens_per_s'?\n"), done.stderr


def test_rejects_columns_of_another_command_before_the_runs(sweep, tmp_path):
    for option in ("--sort=busbw_gbps", "--where=busbw_gbps>1"):
        done = sweep(SIX, option)
        assert done.returncode == 2 and f"unknown column for {option[:option.index('=')]}: 'busbw_gbps', expected one of: " in done.stderr
        assert not (tmp_path / "study.sweep").exists()
    done = sweep({"command": "plan all_reduce --cluster h100-sxm-ib --sizes 1K", "ranks": 8}, "--where", "bytes>=4")
    assert "sweep study.json --where 'bytes>=4'\n" in done.stdout  # can be pasted into a shell
    done = sweep({"command": "plan all_reduce --cluster h100-sxm-ib --sizes 1K", "ranks": 8}, "--sort", "predicted.step_us")
    assert done.returncode == 2 and "no result has 'predicted.step_us'; try: --gather --sort COLUMN" in done.stderr


def test_an_empty_column_does_not_sort(sweep):
    """The first rows of an unsorted table would be a wrong answer. The results are written nevertheless."""
    empty = study(ranks=[1, 2, 4], columns=["step_us.p50", "tokens_per_s"])
    done = sweep(empty, "--sort=-tokens_per_s", "--top", "2")
    assert done.returncode == 2 and "shown:" not in done.stdout and "so that column is empty" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("busbar: --sort: no result has 'tokens_per_s'; try: --gather --sort COLUMN, with a column of")
    assert len(sweep.json()["rows"]) == 3
    done = sweep(empty, "--gather", "--sort=-step_us", "--top", "2")
    assert done.returncode == 0 and [row[0] for row in table(done)] == ["1", "2"]


def test_prints_at_most_25_lines_by_default(sweep):
    study = {"command": "plan all_reduce --cluster h100-sxm-ib -b 1K -e 64M", "ranks": [8, 16]}
    lines = sweep(study).stdout.splitlines()
    assert 20 <= len(lines) <= 25 and any(line.endswith(" of 68 rows; all: --full") for line in lines), lines
    assert len(sweep(study, "--full").stdout.splitlines()) > 68 and "--full" not in sweep(study, "--top", 30).stdout


@pytest.mark.parametrize("p50,cell", [(9999, "9999"), (9985.8123, "9985.81"), (2.5e6, "2500000"), (266035123.4, "266035123")])
def test_table_has_the_unit_of_the_column_name(sweep, p50, cell):
    for name in ("mpirun", "srun"):
        (sweep.bin / name).write_text((sweep.bin / name).read_text().replace("100.0 / ranks", str(float(p50))))
    done = sweep(study(columns=["step_us.p50"]))
    head = [line for line in done.stdout.splitlines() if line.startswith("#  ")][-1]
    assert re.split(r"  +", head.lstrip("# "))[0] == "step_us" and table(done)[0][0] == cell
    assert sweep.json()["rows"][0][0] == p50


def test_below_threshold_has_its_own_state_and_exit_status(sweep):
    runs = {"command": "bench all_reduce", "options": {"sizes": "64K", "repeats": 2, "min-busbw": [0.001, 1e6]}, "ranks": 2, "columns": ["compute_alone_us.p50", "restricted_by"]}
    done = sweep(runs, real=True)
    assert done.returncode == 5 and done.stderr.splitlines()[-1] == "busbar: 1 of 2 combinations are below their threshold"
    assert "# 2 combinations: 1 complete, 0 failed, 0 to do, 1 below threshold" in done.stdout and table(done)[-1][-1] == "below threshold"
    data = sweep.json()
    assert data["counts"] == {"complete": 1, "failed": 0, "to_do": 0, "below_threshold": 1}
    assert (data["status"], data["reason"]) == ("below threshold", "1 of 2 combinations are below their threshold")
    assert "no result has 'compute_alone_us.p50', so that column is empty" in done.stderr
    assert "no result has a value of 'restricted_by' (null), so that column is empty\n" in done.stderr


def test_usage_errors_are_not_retried(sweep):
    """One of two combinations has an invalid layout: the warning about the empty column is printed, the advice to retry is not."""
    done = sweep({"command": "plan gpt2_large 4 {stages} 2", "values": {"stages": [2, 3]}, "ranks": 2, "columns": ["predicted.step_us"]}, real=True)
    assert done.returncode == 1 and "no result has 'predicted.step_us', so that column is empty" in done.stderr
    assert done.stderr.splitlines()[-1] == "busbar: 1 of 2 combinations failed, 0 did not run"


def test_refuses_to_replace_the_records_of_its_runs(sweep):
    assert sweep(study()).returncode == 0
    ids = [c["id"] for c in sweep.json()["combinations"]]
    for name in "lock", *(ids[-1] + ending for ending in (".json", ".run.json", ".out", ".err")):
        before = (sweep.dir / name).read_bytes()
        done = sweep(study(), "--csv", sweep.dir / name)
        assert done.returncode == 2 and f"{name}: this file of the study would be replaced" in done.stderr
        assert (sweep.dir / name).read_bytes() == before


# ---- emulated GPUs --------------------------------------------------------------------------------------------------

def test_bench_sweep_on_emulated_gpus(sweep):
    done = sweep({"command": ["bench", ["all_reduce", "broadcast"]], "options": {"sizes": "1K,64K", "placement": "in_place", "repeats": 2},
                  "environment": {"NCCL_ALGO": ["Ring", "Tree"]}, "ranks": 2, "leave_out": [{"command": "broadcast", "NCCL_ALGO": "Tree"}],
                  "columns": ["collective", "bytes", "time_us.p50",
                              {"name": "to Ring", "value": "time_us.p50", "relative_to": {"NCCL_ALGO": "Ring"}}]},
                 real=True)
    assert done.returncode == 0, done.stderr
    assert "emulated GPUs: " in done.stdout
    data = sweep.json()
    assert data["emulated"] is True and len(data["rows"]) == 6
    assert [r["environment"]["NCCL_ALGO"] for r in sweep.results()] == ["Ring", "Tree", "Ring"]
    rows = [(c["settings"], row) for c in data["combinations"] for row in c["result"]["results"]]
    ring = {row["bytes"]: row["time_us"]["p50"] for settings, row in rows if settings == {"command": "all_reduce", "NCCL_ALGO": "Ring"}}
    for (settings, row), cells in zip(rows, data["rows"]):
        assert cells[2:5] == [row["collective"], row["bytes"], row["time_us"]["p50"]]
        assert cells[5] == pytest.approx(row["time_us"]["p50"] / ring[row["bytes"]] if row["collective"] == "all_reduce" else 1)


def test_plans_run_without_a_launcher(sweep):
    done = sweep({"command": ["plan", ["resnet50", "resnet152"]], "ranks": [8, 64], "options": {"cluster": "h100-sxm-ib"}})
    assert done.returncode == 0 and sweep.ran() == 0, done.stderr
    assert [c["result"]["ranks"] for c in sweep.json()["combinations"]] == [8, 64, 8, 64]
    assert all(row[3] > 0 for row in sweep.json()["rows"])


def test_changed_input_files_make_combinations_be_run_again(sweep, tmp_path):
    """Edits of a profile and of a program's script change what the same command would give; files that a run writes do not."""
    profile, script = json.loads(open(f"{ROOT}/profiles/clusters/h100-sxm-ib.json").read()), tmp_path / "p.sh"
    cases = [{"name": "plan", "command": "plan resnet50", "options": {"cluster": "./mine.json"}, "ranks": 8},
             {"name": "named", "command": "plan resnet50", "options": {"cluster": "h100-sxm-ib"}, "ranks": 16},
             {"name": "program", "command": ["sh", "p.sh", "own.log"], "metrics": {"t": "([0-9]+)"}}]
    study = {"cases": cases, "columns": ["predicted.step_us", "t"]}
    for gbps, text in (48.5, "1"), (0.5, "2"):
        (tmp_path / "mine.json").write_text(json.dumps(profile | {"inter": profile["inter"] | {"gbps": gbps}, "gpus_per_node": 4, "nics_per_node": 4}))
        script.write_text(f"echo {text}; date +%N >>$1")
        if text == "2":
            done = sweep(study, "--gather")
            assert done.returncode == 1 and sweep.json()["counts"]["to_do"] == 2 and "warning: input files of 2 combinations have changed, first ./mine.json;" in done.stderr
        done = sweep(study, *["--slurm"][:text == "1"])
        assert done.returncode == 0, done.stderr
        if text == "1":
            (tmp_path / "own.log").touch()
            assert submit(done, sweep)[1] == [0] * 3 and sweep(study).stderr == ""
        step, t = sweep.json()["rows"][0][1], sweep.json()["rows"][2][-2]
        assert t == int(text)
        if text == "1":
            first = step
    assert step > 2 * first
    assert sweep(study).stderr == ""


def test_warns_of_other_variables_than_those_of_the_kept_results(sweep):
    assert sweep(study(ranks=[2, 4]), env={"NCCL_ALGO": "Ring", "NCCL_DEBUG": "WARN"}).stderr == ""
    for env in {"NCCL_ALGO": "Tree"}, {}:
        done = sweep(study(ranks=[2, 4]), env=env)
        assert done.returncode == 0 and "warning: NCCL_ALGO has another value than when 2 combinations ran; try: --restart" in done.stderr
    assert sweep(study(ranks=[2, 4], environment={"NCCL_ALGO": "Ring"})).stderr == "" and sweep.ran() == 4


def test_plans_that_do_not_fit_are_complete_and_last(sweep):
    """llama3_8b with Adam needs about 16 bytes x 8.03e9 / tp per GPU: 64 GB with tp 2 do not fit in 40 GB, 32 GB with tp 4 may."""
    plans = {"command": ["plan", "transformer"], "ranks": 8, "options": {"model": "llama3_8b", "tp": [1, 2, 4, 8],
                                                                         "cluster": "a100-40gb-sxm-ib"}}
    done = sweep(plans)
    assert done.returncode == 0 and "4 complete, 0 failed" in done.stdout, done.stderr
    ends = [line.split(None, 1)[0] + line[-18:] for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [end.split()[0][0] for end in ends] == ["4", "8", "1", "2"]
    assert all("does not fit" in end for end in ends[2:]) and not any("does not fit" in end for end in ends[:2])
    for args, tp in (("--sort", "predicted.step_us"), [8, 4, 2, 1]), (("--sort", "-predicted.tokens_per_s"), [8, 4, 1, 2]), \
            (("--where", "predicted.memory.fits=true"), [4, 8]), (("--where", "predicted.memory.fits=yes"), [4, 8]), \
            (("--where", "predicted.memory.fits!=true"), [1, 2]), (("--where", "predicted.memory.fits=no"), [1, 2]):
        lines = sweep(plans, "--gather", *args, "--csv", "-").stdout.splitlines()[1:]
        assert [int(line.split(",")[0]) for line in lines] == tp, args
        assert all(f"--tp={line.split(',')[0]} " in line for line in lines), "the command of another row"
    assert re.search(r" no +does not fit$", done.stdout, re.M)


def test_health_of_a_slow_part_is_below_threshold(sweep):
    """A study of health: one stage finds the slow NIC, the other one does not use it."""
    runs = {"command": "health --quick --expect h100-sxm-ib", "options": {"only": ["node", "pairs"]}, "ranks": 4,
            "environment": {"EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW": "link=node1-nic0:0.5", "EMU_DATA": "off"}, "columns": ["expected_by"]}
    done = sweep(runs, real=True)
    assert done.returncode == 5 and {(row[0], row[-1]) for row in table(done)} == {("node", "ok"), ("pairs", "below threshold")}, done.stdout + done.stderr


def test_assumptions_of_plans_are_columns_if_they_differ(sweep):
    """zero3 has the rates of PyTorch by default: rows then differ by more than the axis."""
    def columns(**more):
        options = {"model": "llama3_8b", "cluster": "h100-sxm-ib", "dp-sync": ["zero3", "distributed"], "sequence-parallel": True, "tp": 2, **more}
        done = sweep({"command": ["plan", "transformer"], "ranks": 16, "options": options, "columns": ["predicted.step_us"]}, "--csv", "-")
        return [line.split(",")[:4] for line in done.stdout.splitlines()]
    header, *rows = columns()
    assert header[2] == "predicted.compute.software" and [row[2] for row in rows] == ["torch", "megatron"]
    assert "predicted.compute.software" not in columns(software="torch")[0]


def test_names_the_peak_of_the_utilization_of_fewer_bits(sweep):
    note = "# MFU: of the peak of the GEMMs with the fewest bits (--gemm-precision)\n"

    def text(precision, column):
        options = {"model": "gpt2_small", "cluster": "b200-sxm-ib", **({"gemm-precision": precision} if precision else {})}
        return sweep({"command": ["plan", "transformer"], "ranks": 8, "options": options, "columns": [f"predicted.{column}"]}).stdout

    assert [note in text(*case) for case in (("mxfp8", "model_flop_utilisation"), (None, "model_flop_utilisation"), ("mxfp8", "step_us"))] == [True, False, False]


def test_plans_of_a_training_run_have_its_days_and_goodput(sweep):
    options = {"model": "gpt2_small", "cluster": "h100-sxm-ib", "tokens": "1T", "mtbf-node": ["100d", "900d"], "checkpoint": "40s", "restart": "10m"}
    header = sweep({"command": ["plan", "transformer"], "ranks": 8, "options": options}, "--csv", "-").stdout.splitlines()[0].split(",")
    assert {f"predicted.training.{name}" for name in ("days", "with_failures.days", "with_failures.goodput")} <= set(header)


def test_must_fit_does_not_change_the_order_of_plans(sweep):
    """With --must-fit such a plan ends with status 5; it is last, too, although it would be faster."""
    options = {"model": "llama3_8b", "tp": [1, 2, 4, 8], "cluster": "a100-40gb-sxm-ib"}
    done = sweep({"command": ["plan", "transformer", "--must-fit"], "ranks": 8, "options": options}, "--sort", "predicted.step_us")
    assert done.returncode == 5 and "2 below threshold" in done.stdout, done.stderr
    rows = [line.split(None, 1)[0] + line[-18:] for line in done.stdout.splitlines() if not line.startswith("#")]
    assert sorted(row[0] for row in rows[:2]) == ["4", "8"] and ["does not fit" in row for row in rows] == [False, False, True, True]
    assert sweep({"command": ["plan", "transformer", "--must-fit"], "ranks": 8, "options": options}, "--gather", "--sort=-predicted.step_us",
                 "--csv", "-").stdout.splitlines()[1][:2] in ("4,", "8,")


def test_failures_of_one_kind_are_printed_once(sweep):
    """tp 3, 5, 6 and 7 do not divide 8 ranks, for one reason with other numbers."""
    options = {"model": "llama3_8b", "tp": [1, 3, 5, 6, 7], "cluster": "h100-sxm-ib", "dp-sync": "zero3"}
    done = sweep({"command": ["plan", "transformer"], "ranks": 8, "options": options})
    assert done.returncode == 1 and "1 complete, 4 failed" in done.stdout
    assert done.stdout.count("exit status 2") == 1 and ": exit status 2, and 3 more with the same error\n" in done.stdout, done.stdout
    assert len([line for line in done.stderr.splitlines() if "failed with exit status 2" in line]) == 1, done.stderr
    for where, text in (("tp>=6", "# tp=6: exit status 2, and 1 more with the same error\n"), ("tp=1", None)):  # only failures of these rows
        done = sweep({"command": ["plan", "transformer"], "ranks": 8, "options": options}, "--gather", "--where", where)
        assert done.stdout.count("exit status 2") == bool(text) and (text or "") in done.stdout, done.stdout


def test_mpi4dl_study_has_four_figures_of_ten_parallelisms(sweep):
    """The study as plans, and two of its runs on emulated GPUs."""
    with open(os.path.join(ROOT, "profiles", "studies", "mpi4dl.json")) as f:
        text = f.read()
    predicted = text.replace('"proxy ', '"plan ').replace('"no-alone": true, "steps": 10', '"cluster": "h100-sxm-ib"')
    done = sweep(predicted.replace('"samples_per_s"', '"predicted.step_us"').replace('"step_us.p50", "breakdown.compute_us", "breakdown.exposed_us"',
                                                                                     '"predicted.step_us"'), "-o", "study.sweep")
    assert done.returncode == 0, done.stderr
    step = {tuple(row[:4]): row[4] for row in sweep.json()["rows"]}
    assert len(step) == 10 * 2 * 2 * 2
    # Compute alone: layer takes 8 stages of the whole batch, GPipe 8 + 7 of an eighth: 4.3 times faster. Communication reduces the ratio.
    assert 3 < step["layer", 8, "amoebanet_d", 1024] / step["pipeline", 8, "amoebanet_d", 1024] < 64 / 15
    # MASTER's second pair of passes of half the micro-batches adds another ramp; without all-reduce is at most as long as with.
    assert step["GEMS-MASTER", 8, "resnet110_v2", 1024] > step["GEMS-MAST", 8, "resnet110_v2", 1024]
    assert step["GEMS without all-reduce", 8, "amoebanet_d", 2048] <= step["GEMS-MAST", 8, "amoebanet_d", 2048]
    measured = json.loads(text)
    measured["choices"]["parallelism"] = {k: measured["choices"]["parallelism"][k] for k in ("pipeline", "GEMS-MAST")}
    measured["options"].update({"model": "amoebanet_d", "image-size": 1024, "steps": 2})
    measured["values"]["batch"] = 8
    measured["charts"][0].update({"lines": ["parallelism"], "for_each": ["parallelism"]})
    done = sweep(measured, "-o", "study.sweep", "--restart", real=True, env={"EMU_DATA": "off", "EMU_CLUSTER": os.path.join(ROOT, "profiles/clusters/h100-sxm-ib.json")})
    assert done.returncode == 0, done.stderr
    for name, rate, *_ in sweep.json()["rows"]:
        assert rate == pytest.approx(8e6 / step[name, 8, "amoebanet_d", 1024], rel=0.05)


def test_shipped_studies_are_valid(busbar, tmp_path):
    folder = os.path.join(ROOT, "profiles", "studies")
    studies = [name for name in sorted(os.listdir(folder)) if name.endswith(".json")]
    assert len(studies) >= 3
    for name in studies:
        done = busbar.run("sweep", os.path.join(folder, name), "--list", emulated=False, cwd=tmp_path)
        assert done.returncode == 0 and len(done.stdout.splitlines()) >= 4, done.stderr


def test_installed_studies_are_found_by_name(busbar, tmp_path):
    done = busbar.run("sweep", "nccl-choices", "--list", emulated=False, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.count("bench all_reduce") > 10 and "NCCL_ALGO=Ring" in done.stdout, done.stderr
    done = busbar.run("sweep", "nccl-choise", emulated=False, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr == ("busbar: unknown study 'nccl-choise', did you mean 'nccl-choices'? (one of: ctas "
                                                    "gpt2-layouts mpi4dl nccl-choices scaling)\n"), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_rows_in_place_and_out_of_place_are_labelled(busbar, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"command": "bench all_gather", "ranks": 2, "options": {"sizes": "1K"}, "columns": ["bytes", "busbw_gbps"],
                                                 "launch": {"program": str(busbar.build / "busbar-emulated")}}))
    done = busbar.run("sweep", "s.json", emulated=False, cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines() if "1024" in line]
    assert done.returncode == 0 and [row[0] for row in rows] == ["out_of_place", "in_place"], done.stdout + done.stderr


def test_unknown_key_of_a_chart_names_the_keys(sweep):
    done = sweep({"command": "plan all_reduce", "ranks": 2, "charts": [{"y": "time_us.p50", "series": ["op"]}]})
    assert done.returncode == 2 and done.stderr == "busbar: study.json: unknown key 'charts[0].series', expected one of: x y lines for_each\n"
