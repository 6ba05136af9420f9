"""Result files: no other file is written, a killed run leaves a valid file, the status matches the exit status, no file has secrets."""
import json
import os
import re
import shutil
import stat
import subprocess

import pytest
from conftest import ROOT

BENCH = ["bench", "all_reduce", "-b", "8", "-e", "64", "-n", "2", "--repeats", "2"]
PROXY = ["proxy", "gpt2_large", "4", "2", "2", "--scale-counts", "1e-4", "--steps", "2", "--warmup", "1"]
PLAN = ["plan", "gpt2_large", "4", "2", "2", "--ranks", "2"]
STATUS = {0: "ok", 1: "failed", 2: "failed", 3: "wrong data", 4: "timeout"}


def busbar_lines(text):
    return [line for line in text.splitlines() if line.startswith("busbar: ")]


def test_does_not_write_through_symbolic_links(busbar, tmp_path):
    """Writing does not follow a symbolic link with the name of the file or with the likely name of a temporary file."""
    other_file = tmp_path / "precious"
    other_file.write_text("mine")
    for name in "out.json", "out.json.tmp", "trace.json", "trace.json.tmp":
        (tmp_path / name).symlink_to(other_file)
    done = busbar.run(*PLAN, "--json", tmp_path / "out.json", "--trace", tmp_path / "trace.json", "--cluster", "h100-sxm-ib")
    assert done.returncode == 0, done.stderr
    assert other_file.read_text() == "mine"
    for name in "out.json", "trace.json":
        assert not (tmp_path / name).is_symlink() and json.loads((tmp_path / name).read_text())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.json", "out.json.tmp", "precious", "trace.json", "trace.json.tmp"]


@pytest.mark.parametrize("command, message", [
    ("bench all_reduce --json x.json --csv ./x.json", "--json x.json: --csv names the same file"),
    ("bench all_reduce --expect ./x.json --json x.json", "--json x.json: --expect names the same file"),
    ("bench all_reduce --min-busbw link:90% --csv x.json", "--csv x.json: --min-busbw names the same file"),
    ("health --expect link --json x.json", "--json x.json: --expect names the same file"),
    ("proxy gpt2_large 4 2 2 --json new.json --trace new.json", "--trace new.json: --json names the same file"),
    ("plan gpt2_large 4 2 2 --ranks 2 --json new.json --csv new.json", "--json new.json: --csv names the same file"),
    ("plan transformer --ranks 2 --model ./x.json --json x.json", "--json x.json: --model names the same file"),
    ("plan all_reduce --ranks 2 --cluster ./link --csv x.json", "--csv x.json: --cluster names the same file"),
    ("compare x.json y.json --json ./y.json", "--json ./y.json: argument y.json names the same file"),
    ("calibrate x.json -o x.json", "--output x.json: argument x.json names the same file"),
    ("sweep x.json --json x.json", "--json x.json: argument x.json names the same file"),
    ("report x.json -o x.json", "--output x.json: argument x.json names the same file"),
    ("calibrate all_reduce=x.json -o ./x.json", "--output ./x.json: argument all_reduce=x.json names the same file"),
    ("plan transformer --ranks 2 --model model --csv model/config.json", "--csv model/config.json: --model names the same file"),
    ("plan gpt2_large 4 2 2 --ranks 2 --cluster ./x.json --export goal x.json", "--export x.json: --cluster names the same file"),
    ("plan gpt2_large 4 2 2 --ranks 2 --json new --export goal new", "--json new: argument new names the same file"),
    ("plan gpt2_large 4 2 2 --ranks 2 --json new.0.et --export chakra new", "--export chakra writes new.0.et"),
    ("plan gpt2_large 4 2 2 --ranks 2 --csv ./new.1.et --export chakra new", "--export chakra writes ./new.1.et"),
    ("plan gpt2_large 4 2 2 --ranks 2 --json new.groups.json --export chakra ./new", "--export chakra writes new.groups.json"),
    ("sweep study.json --csv x.json", "--csv x.json: this file of the study would be replaced"),
    ("sweep study.json -o . --csv ./sweep.json", "/sweep.json: the table (--csv) has the same name"),
    ("sweep study.json -o new --csv new/sweep.json", "/new/sweep.json: the table (--csv) has the same name"),
    ("sweep sweep.json -o .", "/sweep.json: this file of the study would be replaced"),
])
def test_refuses_to_write_a_file_over_another(busbar, tmp_path, command, message):
    study = json.dumps({"command": "plan all_reduce --ranks 2", "options": {"cluster": "./x.json"}})
    texts = {"x.json": "{}", "y.json": "{}", "model/config.json": "{}", "study.json": study, "sweep.json": study}
    (tmp_path / "model").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "link").symlink_to("x.json")
    done = busbar.run(*command.split(), cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "try: another file name" in done.stderr, done.stderr
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"link", "model", *texts}
    assert all((tmp_path / name).read_text() == text for name, text in texts.items())


@pytest.mark.parametrize("command", ["compare {} x.json", "calibrate {} -o p.json", "plan all_reduce --ranks 2 --cluster ./{}",
                                     "bench all_reduce --json {}", "report {} -o x.html", "sweep {}", "sweep x.json -o {}"])
def test_rejects_control_characters_in_arguments(busbar, tmp_path, command):
    """A report begins with its command line and names its files, so these must not steer the terminal."""
    for name in "a\x1b[31m", "a\x9bm":
        done = busbar.run(*command.format(name).split(), cwd=tmp_path)
        assert done.returncode == 2 and done.stdout == "" and list(tmp_path.iterdir()) == []
        assert "contains a control character; try: another name" in done.stderr and name not in done.stderr


def test_heads_have_one_line_for_a_name_with_a_newline(busbar, tmp_path):
    name = "a\nb.json"
    assert busbar.run("bench", "all_reduce", "--sizes", "1M,2M", "-n", 1, "--json", name, "-g", 2, cwd=tmp_path).returncode == 0
    for command in (["compare", name, name], ["compare", name, name, name], ["calibrate", name, "-o", f"{name}.json"], ["report", name, "-o", f"{name}.html"]):
        done = busbar.run(*command, emulated=False, cwd=tmp_path)
        assert done.returncode == 0 and "a b.json" in done.stdout and not re.search("(?m)a$|^b", done.stdout), done.stdout + done.stderr


def test_command_keeps_words_that_are_not_utf8(busbar, tmp_path):
    run = 'exec "$0" "$@" "$(printf \'bad\\377.json\')"'
    done = busbar.run_program("sh", "-c", run, *busbar.command(*BENCH, "--json", "x.json", "--csv"), cwd=tmp_path)
    assert done.returncode == 2 and "is not valid UTF-8; try: another file name" in done.stderr and list(tmp_path.iterdir()) == []
    done = busbar.run_program(busbar.mpirun, "-n", 2, "sh", "-c", run + " >/dev/null 2>&1", *busbar.command(*PROXY, "--json", "x.json", "--trace"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "x.json").read_text())
    assert result["command"][-2:] == ["--trace", "bad?.json"] and result["options"]["trace"] == "bad?.json"


def test_dev_stdout_is_written_as_a_stream(busbar):
    done = busbar.run(*PLAN, "--json", "/dev/stdout")
    assert done.returncode == 0 and '"schema": "busbar.plan/1"' in done.stdout


@pytest.mark.parametrize("args", [BENCH, PROXY, ["proxy", "all", "--quick"]], ids=["bench", "proxy", "all"])
def test_all_ranks_exit_when_the_result_file_cannot_be_opened(busbar, args):
    for _ in range(3):
        done = busbar.run(*args, "--json", "/nonexistent/x.json", "-T", 10, ranks=4)
        assert done.returncode == 2, done.stderr
        assert len(busbar_lines(done.stderr)) == 1 and "/nonexistent/x.json: No such file" in done.stderr and "MPI_ERR" not in done.stderr


def test_all_ranks_exit_when_one_cannot_build_the_step(busbar, tmp_path):
    """A model file exists only on one node, so rank 0 can build the step and rank 1 cannot."""
    for rank in "0", "1":
        (tmp_path / rank).mkdir()
    shutil.copy(ROOT / "profiles/models/gpt2_small.json", tmp_path / "0" / "m.json")
    args = busbar.command("proxy", "transformer", "--model", "./m.json", "--scale-counts", "1e-4", "-T", 10)
    in_own_folder = ["sh", "-c", 'cd "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" && exec "$0" "$@"']
    for _ in range(3):
        done = busbar.run_program(busbar.mpirun, "-n", 2, *in_own_folder, *args, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert len(busbar_lines(done.stderr)) == 1 and "rank 1" in done.stderr and "MPI_ERR" not in done.stderr


@pytest.mark.parametrize("fault,code", [
    ("fail:rank=1,name=ncclCommFinalize", 1), ("fail:rank=0,name=ncclCommFinalize", 1), ("stall:rank=1,name=ncclCommFinalize", 4),
    ("die:rank=1,name=ncclCommFinalize", 4), ("die:rank=1,name=ncclCommDestroy", 4), ("fail:rank=1,call=3,name=ncclAllReduce", 1),
    ("", 0)])
@pytest.mark.parametrize("args", [BENCH, PROXY], ids=["bench", "proxy"])
def test_status_matches_the_exit_status(busbar, tmp_path, args, fault, code):
    if args is PROXY and "AllReduce" in fault:
        fault = fault.replace("ncclAllReduce", "ncclSend")
    path = tmp_path / "x.json"
    done = busbar.run(*args, "--json", path, "-T", 5, ranks=2, env={"EMU_FAULT": fault} if fault else {})
    assert done.returncode in ({code, 137} if fault.startswith("die") else {code}), done.stderr
    assert json.loads(path.read_text())["status"] == STATUS[code]


@pytest.mark.parametrize("args,env,status,reason", [
    (BENCH, {"EMU_FAULT": "die:rank=1,call=5"}, "timeout", r"rank 1 \(.* is lost"),
    (["bench", "p2p"], {"EMU_FAULT": "die:rank=0,call=5"}, "timeout", r"rank 0 \(.* is lost"),
    (PROXY, {"EMU_FAULT": "fail:rank=1,name=cudaSetDevice"}, "failed", r"another rank failed|rank 1 \(.*cudaSetDevice"),
], ids=["lost", "first", "fails"])
def test_run_that_fails_in_setup_replaces_older_results(busbar, tmp_path, args, env, status, reason):
    for name in "x.json", "x.csv":
        (tmp_path / name).write_text('{"status": "ok"}')
    done = busbar.run(*args, "--json", "x.json", "--csv", "x.csv", "-T", 10, ranks=2, env=env, cwd=tmp_path)
    assert done.returncode not in (0, 2), done.stderr
    results = json.loads((tmp_path / "x.json").read_text())
    assert results["status"] == status and re.match(reason, results["reason"]), results["reason"]
    assert results["command"][:2] == args[:2] and results["devices"][0]["host"] and results["emulated"] and results["ranks"] == 2
    assert results["started"] > "2020" and not results.get("results")
    assert {"command", "started", "host"} <= set((tmp_path / "x.csv").read_text().splitlines()[0].split(","))


def test_usage_error_leaves_older_results(busbar, tmp_path):
    (tmp_path / "x.json").write_text("old")
    for args, env in (["bench", "broadcast", "-r", "7"], {}), (["proxy", "gpt2_large", "4", "3", "2"], {}), (BENCH, {"CUDA_VISIBLE_DEVICES": "0"}):
        assert busbar.run(*args, "--json", "x.json", ranks=2, env=env, cwd=tmp_path).returncode == 2
        assert (tmp_path / "x.json").read_text() == "old"


def test_killed_rank_0_leaves_every_printed_row(busbar, tmp_path):
    """Rank 0 dies in an operation of the third size or later. The file contains every row that was printed before."""
    path = tmp_path / "x.json"
    for call in 60, 75, 90:
        done = busbar.run(*BENCH, "--json", path, "-T", 5, ranks=2, env={"EMU_FAULT": f"die:rank=0,call={call},name=ncclAllReduce"})
        assert done.returncode != 0
        rows = {r["bytes"] for r in json.loads(path.read_text())["results"]}
        printed = {int(line.split()[0]) for line in done.stdout.splitlines() if line[:1] == " "}
        assert printed and printed <= rows, (call, printed, rows)


def test_failed_trace_write_keeps_the_results(busbar, tmp_path):
    done = busbar.run(*PROXY, "--trace", "/dev/full", "--json", tmp_path / "x.json", ranks=2)
    assert done.returncode == 1, done.stderr
    assert len(busbar_lines(done.stderr)) == 1 and "No space left on device" in done.stderr
    assert "step" in done.stdout and json.loads((tmp_path / "x.json").read_text())["step_us"]


@pytest.mark.parametrize("failing", [("--trace", "/dev/full"), ("--export", "goal", "/dev/full"), ("--export", "perfetto", "/dev/full")])
def test_failed_export_keeps_the_results(busbar, tmp_path, failing):
    plan = ("plan", "gpt2_large", 4, 2, 2, "--ranks", 2, "--cluster", "h100-sxm-ib", "--json", tmp_path / "x.json", "--csv", tmp_path / "x.csv")
    done = busbar.run(*plan, *failing, emulated=False)
    assert done.returncode == 1 and len(busbar_lines(done.stderr)) == 1 and "No space left on device" in done.stderr
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["status"] == "failed" and "No space left on device" in data["reason"] and data["predicted"]["step_us"] > 0
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 2 and "checks" in done.stdout and "# wrote /dev/full" not in done.stdout


def test_full_disk_keeps_the_table(busbar):
    done = busbar.run(*BENCH, "--json", "/dev/full", ranks=2)
    assert done.returncode == 1 and len(busbar_lines(done.stderr)) == 1 and "No space left" in done.stderr
    assert len([line for line in done.stdout.splitlines() if line[:1] == " "]) == 4


SECRET = {"NCCL_FOO_TOKEN": "geheim-1", "CUDA_X_KEY": "geheim-2", "BUSBAR_PASSWORD": "geheim-3", "HF_TOKEN": "geheim-4"}


def test_results_contain_no_secrets(busbar, tmp_path):
    path = tmp_path / "x.json"
    done = busbar.run(*BENCH, "--json", path, env={**SECRET, "NCCL_PROTO": "LL"})
    assert done.returncode == 0 and "geheim" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    environment = json.loads(path.read_text())["environment"]
    assert environment["NCCL_PROTO"] == "LL" and "HF_TOKEN" not in environment
    assert environment["NCCL_FOO_TOKEN"] == environment["BUSBAR_PASSWORD"] == "set"


def test_sweep_results_contain_no_secrets(busbar, tmp_path):
    study = {"name": "s", "command": PLAN[:5], "ranks": 2, "environment": {"HF_TOKEN": "geheim-4", "NCCL_PROTO": "LL"},
             "choices": {"network": {"plain": {}, "key": {"environment": {"NCCL_FOO_TOKEN": "geheim-1"}}}}}
    (tmp_path / "s.json").write_text(json.dumps(study))
    done = busbar.run("sweep", "s.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "s.sweep" / "sweep.json").read_text()
    assert "geheim" not in text and "LL" in text
    data = json.loads(text)
    assert data["study"]["environment"] == {"HF_TOKEN": "set", "NCCL_PROTO": "LL"}
    assert [c["environment"].get("NCCL_FOO_TOKEN") for c in data["combinations"]] == [None, "set"]
    assert stat.S_IMODE((tmp_path / "s.sweep" / "sweep.json").stat().st_mode) == 0o600
    assert not any("geheim" in p.read_text() for p in (tmp_path / "s.sweep").iterdir() if p.suffix in (".json", ".csv"))


# ---- disks and folders that fail during a run ----


def table_rows(text):
    return [line for line in text.splitlines() if line[:1] == " "]


def test_file_size_limit_is_a_write_error(busbar, tmp_path):
    """RLIMIT_FSIZE causes a write error, not SIGXFSZ: busbar prints one line and leaves no file. (plan has no MPI, whose files exceed the
    limit.)"""
    args = busbar.command(*PLAN, "--json", tmp_path / "x.json", emulated=False)
    done = busbar.run_program("sh", "-c", 'ulimit -f 1; exec "$0" "$@"', *args)
    assert done.returncode == 1 and len(busbar_lines(done.stderr)) == 1 and "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_removed_folder_keeps_the_table(busbar, tmp_path):
    """The folder is removed as soon as the file exists. Later rows cannot be saved, but the printed table is complete."""
    folder = tmp_path / "inner"
    folder.mkdir()
    args = busbar.command("bench", "all_reduce", "-b", "8", "-e", "1M", "-n", "20", "--json", folder / "x.json")
    remove = 'until [ -s "$0/x.json" ]; do sleep 0.02; done; rm -r "$0"'
    done = busbar.run_program("sh", "-c", f'{{ {remove}; }} & "$@"', folder, *args)
    if (folder / "x.json").exists():
        pytest.skip("the run was over before the folder was gone")
    errors = [line for line in busbar_lines(done.stderr) if "warning:" not in line]
    assert done.returncode == 1 and len(errors) == 1 and "x.json: No such file" in errors[0]
    assert len(table_rows(done.stdout)) == 18


def test_shortened_file_keeps_all_rows(busbar, tmp_path):
    """Another process empties the file once during the run: no row is lost, and the run ends with exit status 1 and one line."""
    args = busbar.command("bench", "all_reduce", "-b", "8", "-e", "1M", "-n", "20", "--json", tmp_path / "x.json", ranks=2)
    empty = 'until grep -q \'"bytes": 64\' "$0" 2>/dev/null; do sleep 0.02; done; : > "$0"'
    done = busbar.run_program("sh", "-c", f'{{ {empty}; }} & "$@"; status=$?; wait; exit $status', tmp_path / "x.json", *args)
    data = json.loads((tmp_path / "x.json").read_text())
    if data["status"] == "ok":
        pytest.skip("the run was over before the file was emptied")
    assert done.returncode == 1 and data["status"] == "failed" and len(data["results"]) == 36
    assert ["x.json was shortened by another process" in line for line in busbar_lines(done.stderr)] == [True]


def test_two_runs_with_the_same_file(busbar, tmp_path):
    """Both runs succeed, and the file contains the complete result of one of them."""
    args = [str(w) for w in busbar.command(*BENCH, "--json", tmp_path / "x.json")]
    both = '"$@" > 1.txt & a=$!; "$@" > 2.txt & b=$!; wait $a && wait $b'
    for _ in range(2):
        done = busbar.run_program("sh", "-c", both, "sh", *args, cwd=tmp_path)
        assert done.returncode == 0 and busbar_lines(done.stderr) == []
        data = json.loads((tmp_path / "x.json").read_text())
        assert data["status"] == "ok" and len(data["results"]) == 8
        assert sorted(p.name for p in tmp_path.iterdir()) == ["1.txt", "2.txt", "x.json"]


# Command -> its outputs. "open": mode 0666 less the umask. "private": 0600, because the file contains values of environment variables.
OUTPUTS = {
    "bench all_reduce -b 8 -e 64M -f 2 -n 1 --repeats 1 --json private.bench.json --csv private.csv --junit open.xml --prometheus open.prom": 2,
    "proxy resnet50 -n 1 --warmup 0 --no-alone --json private.proxy.json --csv private.proxy.csv --trace open.trace.json": 1,
    "plan gpt2_large --ranks 4 --cluster h100-sxm-ib --json open.plan.json --csv open.csv --trace open.plan.trace.json": 0,
    "plan all_reduce -e 1K --ranks 4 --cluster h100-sxm-ib --json open.collective.json --csv open.collective.csv": 0,
    "plan gpt2_large --ranks 4 --cluster h100-sxm-ib --export goal open.goal": 0,
    "list --json open.list.json": 0,
    "calibrate private.bench.json -o open.profile.json --json open.calibration.json": 0,
    "compare private.bench.json private.bench.json --json private.compare.json --csv private.compare.csv": 0,
    "sweep study.json --json private.sweep.json --csv private.sweep.csv": 0,
    "report private.bench.json -o private.page.html": 0,
}


@pytest.mark.parametrize("mask,mode", [("000", 0o666), ("027", 0o640)])
def test_file_modes_are_the_documented_ones(busbar, tmp_path, mask, mode):
    """Of every output (bootstrap/results/README.md), also if the umask would permit more."""
    (tmp_path / "study.json").write_text(json.dumps({"name": "s", "command": PLAN[:5], "ranks": [2]}))
    for command, ranks in OUTPUTS.items():
        args = busbar.command(*command.split(), ranks=ranks, emulated=ranks > 0)
        done = busbar.run_program("sh", "-c", f'umask {mask}; exec "$0" "$@"', *args, cwd=tmp_path, env={"EMU_DATA": "off"})
        if "needs the Python package plotly" not in done.stderr:
            assert done.returncode == 0, done.stderr
    files = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir() if p.name.startswith(("open.", "private."))}
    expected = [word for command in OUTPUTS for word in command.split() if word.startswith(("open.", "private."))]
    assert {name for name in files} >= set(expected) - {"private.page.html"}
    assert [(name, oct(found)) for name, found in files.items() if found != (mode if name.startswith("open.") else 0o600)] == []
    of_study = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "s.sweep").iterdir() if p.name.endswith((".out", ".err", "run.json"))}
    assert len(of_study) == 3 and set(of_study.values()) == {0o600}, of_study


def test_array_job_script_is_readable_only_by_its_owner(busbar, tmp_path):
    """The script of an array job contains the environment of its runs, so only the owner may read it."""
    (tmp_path / "s.json").write_text(json.dumps({"name": "s", "command": PLAN[:5], "ranks": 2, "environment": {"HF_TOKEN": "geheim"}}))
    done = busbar.run("sweep", "s.json", "--slurm", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    secret_files = [p for p in (tmp_path / "s.sweep").iterdir() if p.is_file() and "geheim" in p.read_text()]
    assert secret_files and all(stat.S_IMODE(p.stat().st_mode) == 0o600 for p in secret_files)


def test_failed_sync_leaves_no_file(busbar, tmp_path):
    """A file is synced to disk before it is renamed to its final name. If either call fails, no file remains."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not shim.exists() or b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the fault injection library is not available in this build")
    for function in "fsync", "rename":
        env = {"LD_PRELOAD": str(shim), "FAULT": f"fail:{function}:1:all", "FAULT_FROM_PROGRAM": "1"}
        done = busbar.run(*PLAN, "--json", tmp_path / "plan.json", env=env, emulated=False)
        assert done.returncode == 1 and len(busbar_lines(done.stderr)) == 1 and "Input/output error" in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_status_ok_is_written_after_the_rows_are_synced(busbar, tmp_path):
    """SIGKILL ends the process that writes the results in its first fsync, then in the second, and so on until the run has no further
    fsync. No such run leaves "ok" or "running" in the file. If the last fsync fails, or SIGQUIT arrives during it, the run fails."""
    shim = busbar.build / "tests/fault_injection/libfault_shim.so"
    if not shim.exists() or b"__asan_init" in (busbar.build / "busbar").read_bytes():
        pytest.skip("the fault injection library is not available in this build")
    args = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--json", str(tmp_path / "r.json"))

    def run_with_fault(fault, call):
        done = busbar.run_program("sh", "-c", 'ulimit -c 0; exec "$@"', "sh", *args,
                                  env={"LD_PRELOAD": str(shim), "FAULT": f"{fault}:fsync:{call}:all", "FAULT_FROM_PROGRAM": "1"})
        return done, json.loads((tmp_path / "r.json").read_text())["status"] if (tmp_path / "r.json").exists() else ""

    statuses = []
    while len(statuses) < 9 and "ok" not in statuses:
        done, status = run_with_fault("kill", len(statuses) + 1)
        statuses.append(status)
    assert statuses[-1] == "ok" and done.returncode == 0 and set(statuses[:-1]) <= {"", "timeout"} and statuses[-2] == "timeout"
    last = len(statuses) - 1
    done, status = run_with_fault("fail", last)
    assert done.returncode == 1 and status == "failed" and len(busbar_lines(done.stderr)) == 1 and "Input/output error" in done.stderr
    done, status = run_with_fault("quit", last)
    assert done.returncode == 1 and status == "interrupted" and "ended by SIGQUIT" in done.stderr


def test_result_file_does_not_reuse_closed_standard_streams(busbar, tmp_path):
    """The run starts with closed standard streams. The result file must not get descriptor 0, 1 or 2."""
    args = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "--json", str(tmp_path / "r.json"))
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *args], env=busbar.environment(), timeout=20, check=False)
    assert done.returncode == 1 and json.loads((tmp_path / "r.json").read_text())["status"] == "failed"


def test_closed_standard_streams_are_opened_as_dev_null(busbar, tmp_path):
    """busbar report execs python3. A stub python3 prints its descriptors 0, 1 and 2, which must be /dev/null."""
    python = tmp_path / "python/bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nseen=$(for fd in 0 1 2; do readlink "/proc/$$/fd/$fd"; done)\necho "$seen" > "${0%/*}/seen"\n')
    python.chmod(0o755)
    (tmp_path / "report").mkdir()
    (tmp_path / "report/report.py").touch()
    (tmp_path / "result.json").write_text("{}")
    program = shutil.copy(busbar.build / "busbar", tmp_path)
    args = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", program, "report", tmp_path / "result.json", "-o", tmp_path / "page.html"]
    done = subprocess.run(args, timeout=20, check=False)
    assert done.returncode == 0 and (python.parent / "seen").read_text().split() == ["/dev/null"] * 3


ENDLESS = ("bench", "all_reduce", "-b", "8", "-e", "16", "-n", "2", "-w", "1", "-N", "0")


def test_closed_stdout_ends_the_run(busbar):
    """As with `| head`: stdout is closed and there is no result file, so the run ends with an error."""
    with subprocess.Popen(busbar.command(*ENDLESS), env=busbar.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout.readline().startswith(b"# busbar")
        run.stdout.close()
        stderr = run.stderr.read().decode()
        assert run.wait(20) == 1 and len(busbar_lines(stderr)) == 1 and "cannot write to stdout" in stderr


def test_pipe_without_a_reader_is_reported(busbar, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    busbar.run(*PLAN, "--json", tmp_path / "plan.json")
    done = busbar.run("report", tmp_path / "plan.json", "-o", tmp_path / "pipe", timeout=20)
    assert done.returncode == 1 and f"{tmp_path / 'pipe'}: No such device or address" in done.stderr
    done = busbar.run("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1", "-T", "5", "--json", tmp_path / "pipe", timeout=20)
    assert done.returncode == 2 and f"no process reads FIFO {tmp_path / 'pipe'}" in done.stderr


def test_reader_of_a_pipe_may_start_at_the_same_time(busbar, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = busbar.run_program("sh", "-c", '(sleep 0.4; cat pipe >copy) & "$@" --json pipe && wait', "sh", *busbar.command(*PLAN), cwd=tmp_path)
    assert done.returncode == 0 and json.loads((tmp_path / "copy").read_text())["schema"] == "busbar.plan/1", done.stderr


@pytest.mark.parametrize("command,message", [
    ("plan transformer --ranks 8 --model -", "--model - is not stdin; try: --model /dev/stdin"),
    ("plan all_reduce --ranks 8 --cluster -", "--cluster - is not stdin; try: --cluster /dev/stdin"),
    ("report x.json -o -", "--output - is not stdout; try: --output /dev/stdout, or ./- for a file of this name"),
    ("report - -o x.html", "- is not stdin; try: /dev/stdin"),
])
def test_a_dash_is_no_file_name(busbar, tmp_path, command, message):
    done = busbar.run(*command.split(), cwd=tmp_path)
    assert done.returncode == 2 and busbar_lines(done.stderr) == ["busbar: " + message] and list(tmp_path.iterdir()) == []


def test_byte_order_marks(busbar, tmp_path):
    """That of UTF-8, which Windows tools write, is skipped; UTF-16 is named."""
    plan = busbar.run(*PLAN, "--cluster", "h100-sxm-ib", "--json", "-", emulated=False).stdout
    for code, status in (("utf-8-sig", 0), ("utf-16", 2)):
        (tmp_path / "a.json").write_bytes(plan.encode(code))
        for command in (("compare", "a.json", "a.json"), ("report", "a.json", "-o", "a.html")):
            done = busbar.run(*command, emulated=False, cwd=tmp_path)
            assert done.returncode == status and len(done.stderr.splitlines()) == bool(status), done.stderr
            assert status == 0 or "a.json: is UTF-16, expected UTF-8; to convert it: iconv -f UTF-16 -t UTF-8" in done.stderr or command[0] == "report"


def test_offline_commands_warn_of_misspelled_variables_once(busbar, tmp_path):
    env = {"BUSBAR_PROGRES": "1"}
    assert busbar.run(*PLAN, env=env).stderr.count("BUSBAR_PROGRES is unknown") == 1
    assert "unknown" not in busbar.run("plan", "--help", env=env).stderr


def test_emulated_busbar_starts_through_a_link(busbar, tmp_path):
    (tmp_path / "bb").symlink_to(busbar.build / "busbar-emulated")
    assert busbar.run_program(tmp_path / "bb", "--version").stdout.startswith("busbar ")


def test_one_process_runs_with_16_file_descriptors(busbar):
    """A run with one process does not start MPI, because MPI would end the process without an error line of busbar."""
    args = busbar.command("bench", "all_reduce", "-b", "8", "-e", "8", "-n", "2", "-w", "1")
    limited = ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", *args]
    done = subprocess.run(limited, env=busbar.environment(), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
