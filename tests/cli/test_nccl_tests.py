"""busbar under the program names of nccl-tests (all_reduce_perf ...): options, output and exit statuses that scripts and parsers rely on.

The parsers here read the table as existing tools around nccl-tests do: by columns from the left, by columns from the right, and by
regular expression."""
import json
import os
import pathlib
import re
import subprocess

import pytest

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "gather", "scatter",
               "sendrecv", "hypercube"]
SMALL = ["-b", "1K", "-e", "4K", "-f", "2", "-n", "3"]

ROW = re.compile(r"^\s+(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>\w+)\s+(?P<redop>\w+)\s+(?P<root>-?\d+)"
                 r"\s+(?P<time>[\d.]+)\s+(?P<algbw>[\d.]+)\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\d+|N/A)"
                 r"\s+(?P<time_in>[\d.]+)\s+(?P<algbw_in>[\d.]+)\s+(?P<busbw_in>[\d.]+)\s+(?P<wrong_in>\d+|N/A)\s*$", re.M)
AVERAGE = re.compile(r"^# Avg bus bandwidth\s*:\s*([\d.eE+-]+)", re.M)
BOUNDS = re.compile(r"^# Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)\s*$", re.M)
DEVICE = re.compile(r"^#\s+Rank\s+(\d+)\s+Group\s+(\d+)\s+Pid\s+(\d+)\s+on\s+(\S+)\s+device\s+(\d+)\s+\[([0-9a-f:]+)\]\s+(.+)$", re.M)


@pytest.fixture
def perf(busbar):
    """perf(name, *arguments) runs NAME_perf on emulated GPUs."""

    def run(name, *arguments, env=None, ranks=0, launched=False, emulated=True):
        program = [str(busbar.build / ("emulated" if emulated else ".") / f"{name}_perf"), *map(str, arguments)]
        started = [busbar.mpirun, "-n", str(ranks)] if ranks else []
        if ranks and "-g" not in program and "-t" not in program and not launched:
            started, program = [], [*program, "-g", str(ranks)]
        command = ["timeout", "-k", "5", "90", *started, *program]
        return subprocess.run(command, env=busbar.environment(env), capture_output=True, text=True, stdin=subprocess.DEVNULL)

    run.program = lambda name, *arguments: [str(busbar.build / "emulated" / f"{name}_perf"), *map(str, arguments)]
    run.environment = busbar.environment
    return run


def columns_from_the_right(text):
    """Reads time, algbw and busbw by their distance from the right end of the heading, because some tables have empty cells on the left."""
    lines = text.splitlines()
    heading = next(line for line in lines if "time" in line and "busbw" in line and line.startswith("#"))[1:].split()
    out = {name: heading.index(name) - len(heading) for name in ("time", "algbw", "busbw")}
    rows = [line.split() for line in lines if re.match(r"\s*\d+", line)]
    return [(int(row[heading.index("size")]), *(float(row[i]) for i in out.values())) for row in rows]


@pytest.mark.smoke
def test_table_is_readable_by_nccl_tests_parsers(perf):
    done = perf("all_reduce", "-g", "4", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = [m.groupdict() for m in ROW.finditer(done.stdout)]
    assert [(r["size"], r["count"], r["type"], r["redop"], r["root"]) for r in rows] == [
        (str(s), str(s // 4), "float", "sum", "-1") for s in (1024, 2048, 4096)]
    assert columns_from_the_right(done.stdout) == [
        (int(r["size"]), float(r["time"]), float(r["algbw"]), float(r["busbw"])) for r in rows]
    assert BOUNDS.search(done.stdout).groups() == ("0", "OK")
    assert float(AVERAGE.search(done.stdout)[1]) > 0
    assert [m[1] for m in DEVICE.finditer(done.stdout)] == ["0", "1", "2", "3"]
    assert len({m[3] for m in DEVICE.finditer(done.stdout)}) == 4
    assert "# Collective test starting: all_reduce_perf" in done.stdout
    assert "# Collective test concluded: all_reduce_perf" in done.stdout
    assert re.search(r"^# nThread \d+ nGpus \d+ minBytes 1024 maxBytes 4096 step: 2\(factor\) warmup iters: 1 iters: 3 "
                     r"agg iters: 1 validation: 1 graph: 0 unalign: 0", done.stdout, re.M)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_has_times_for_both_placements(perf, name):
    """Both placements have times. As in nccl-tests, three collectives print N/A for #wrong in place."""
    done = perf(name, "-g", "4", *SMALL)
    assert done.returncode == 0, done.stderr
    rows = [m.groupdict() for m in ROW.finditer(done.stdout)]
    assert len(rows) == 3 and all(float(r["time"]) > 0 and r["wrong"] == "0" for r in rows)
    unchecked = name in ("alltoall", "alltoallv", "sendrecv")
    assert all(float(r["time_in"]) > 0 and r["wrong_in"] == ("N/A" if unchecked else "0") for r in rows)
    assert BOUNDS.search(done.stdout) and AVERAGE.search(done.stdout)


def test_defaults_match_nccl_tests(perf):
    done = perf("broadcast", ranks=2)
    assert "minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1 iters: 20 agg iters: 1 validation: 1" in done.stdout
    assert [m["size"] for m in ROW.finditer(done.stdout)] == ["33554432"] and "mean time of all ranks" in done.stdout


def test_one_gpu_has_zero_bus_bandwidth(perf):
    done = perf("all_reduce", "-b", "1M", "-e", "1M")
    assert ROW.search(done.stdout)["busbw"] == "0.00" and AVERAGE.search(done.stdout)[1] == "0"


def test_ranks_are_threads_times_gpus(perf):
    done = perf("all_gather", "-t", "2", "-g", "2", *SMALL)
    assert done.returncode == 0 and len(DEVICE.findall(done.stdout)) == 4
    assert len(DEVICE.findall(perf("all_gather", "--nthreads=3", *SMALL).stdout)) == 3


def test_does_not_consume_stdin(busbar):
    """A `while read` loop would run only once if the program consumed the loop's stdin."""
    script = f"while read n; do {busbar.build}/emulated/broadcast_perf -g $n -b 8 -e 8 -n 1 | grep -c 'Rank'; done"
    done = subprocess.run(["timeout", "60", "sh", "-c", script], env=busbar.environment(), capture_output=True, text=True, input="2\n3\n")
    assert done.stdout.split() == ["2", "3"], done.stderr


def test_time_includes_one_launch_as_in_nccl_tests(perf, tmp_path):
    """The host clock runs from before the first call to the end of the final wait, so one launch (3 us; 2 us for a graph) is included.
    An operation takes 16 us."""
    def time_of(*args):
        done = perf("all_reduce", "-g", "4", "-b", "8", "-e", "8", *args)
        assert done.returncode == 0 and "by the host clock from the first call to the end of the wait" in done.stdout, done.stderr
        return float(ROW.search(done.stdout)["time"])

    assert time_of("-n", "20") == pytest.approx(16 + 3 / 20, abs=0.006)
    assert time_of("-n", "1") == pytest.approx(19, abs=0.006)
    assert time_of("-n", "5", "-G", "3") == pytest.approx(16 + 2 / 15, abs=0.006)
    assert time_of("-n", "1", "-J", tmp_path / "r.json") == pytest.approx(19, abs=0.006)
    placed = json.loads((tmp_path / "r.json").read_text())["results"][0]["out_of_place"]
    assert placed["time"] == pytest.approx(19)


@pytest.mark.parametrize("args", [[], ["-z", "1"], ["-z", "3"]])
def test_calls_per_row_match_nccl_tests(perf, busbar, tmp_path, args):
    """nccl-tests runs one operation and waits for it before it starts the clock, also with -w 0. Each placement thus has 1 + n calls:
    the check is of the last timed operation, and no estimate of NCCL's is requested."""
    env = {"NCCL_RECORD": str(tmp_path / "calls"), "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    done = perf("all_reduce", "-b", "8", "-e", "16", "-f", "2", "-w", "0", "-n", "3", *args, ranks=2, env=env)
    assert done.returncode == 0, done.stderr
    counts = [line.split()[4] for line in (tmp_path / "calls.1").read_text().splitlines() if line.startswith("ncclAllReduce 2")]
    assert counts == ["2"] * 2 * (1 + 3) + ["4"] * 2 * (1 + 3)
    assert ("# Blocking Enabled: " in done.stdout) == bool(args)  # a reader of the log, as compare, then knows the mode


def test_clock_of_the_host_measures_without_events(perf, busbar):
    """With EMU_TIME=real the host clock works as on hardware: the time includes the operation (16 us) and the launch, and no CUDA event
    is recorded in it. busbar bench records events."""
    fault = {"EMU_TIME": "real", "EMU_FAULT": "fail:call=1,name=cudaEventRecord"}
    args = ("-b", "8", "-e", "8", "-n", "1")
    done = perf("all_reduce", "-g", "4", *args, env=fault)
    assert done.returncode == 0 and float(ROW.search(done.stdout)["time"]) >= 16, done.stderr
    done = busbar.run("bench", "all_reduce", *args, ranks=4, env=fault)
    assert done.returncode == 1 and "cudaEventRecord" in done.stderr, done.stderr


def test_several_gpus_per_process_of_a_job(perf):
    """mpirun -N 1 all_reduce_perf -g 8, as in the README of nccl-tests. Ranks are numbered process by process."""
    assert len(DEVICE.findall(perf("all_gather", *SMALL, ranks=2).stdout)) == 2
    done = perf("all_gather", "-g", "2", "-t", "2", *SMALL, ranks=2)
    assert done.returncode == 0, done.stderr
    assert [(m[1], m[5]) for m in DEVICE.finditer(done.stdout)] == [(str(r), str(r)) for r in range(8)]
    assert "# nThread 2 nGpus 2 minBytes" in done.stdout and len(ROW.findall(done.stdout)) == 3
    done = perf("all_gather", "-g", "5", *SMALL, ranks=2, env={"EMU_NODES": "0"})
    assert done.returncode == 2 and "10 ranks on this host but only 8 GPUs" in done.stderr


@pytest.mark.parametrize("ranks,args", [(0, ["-g", "4"]), (2, ["-g", "2"])])
def test_share_gpu_allows_several_ranks_per_gpu(perf, ranks, args):
    done = perf("all_reduce", *args, *SMALL, ranks=ranks, env={"EMU_DEVICES": "2"})
    assert done.returncode == 2 and "4 ranks on this host but only 2 GPUs" in done.stderr
    done = perf("all_reduce", *args, *SMALL, "--share-gpu", ranks=ranks, env={"EMU_DEVICES": "2"})
    assert done.returncode == 0 and "# ranks share a GPU: times are meaningless\n" in done.stdout, done.stderr
    assert [m[5] for m in DEVICE.finditer(done.stdout)] == ["0", "1", "0", "1"]


@pytest.mark.parametrize("env", [{"SLURM_STEP_NUM_TASKS": "1", "PMIX_RANK": "0", "SLURM_NTASKS": "8"}, {"PMI_SIZE": "1", "PMI_RANK": "0"}])
def test_one_task_job_step_is_not_a_multi_process_job(perf, env):
    """The shell of salloc is a job step with one task. In that shell, and on a host without mpirun, -g still starts the ranks."""
    done = perf("all_reduce", "-g", "3", *SMALL, env={**env, "PATH": "/nowhere:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert len(DEVICE.findall(done.stdout)) == 3


def test_json_contains_threads_and_gpus(perf, tmp_path):
    path = tmp_path / "r.json"
    assert perf("reduce", "-t", "2", "-g", "1", *SMALL, "-J", path).returncode == 0
    config = json.loads(path.read_text())["config"]
    assert (config["nthreads"], config["ngpus"], len(config["devices"])) == (2, 1, 2)


@pytest.mark.parametrize("args,min_bytes,max_bytes", [
    (["-b", "8KB", "-e", "16kb"], 8192, 16384), (["-b8K", "-e", "0.015625MB"], 8192, 16384), (["-b", "8 KiB", "-e8KB"], 8192, 8192),
    (["-b", "1e3", "-e", "1.0e3"], 1000, 1000), (["--minb", "1kb", "--maxb=2Kbytes"], 1024, 2048),
    (["--minbytes=1kb", "--max", "1k"], 1024, 1024)])
def test_parses_sizes_and_abbreviations_as_nccl_tests(perf, args, min_bytes, max_bytes):
    """nccl-tests parses sizes with sscanf("%lf %1s") and options with getopt_long, which accepts abbreviations."""
    done = perf("all_reduce", "-n", "1", "--stepf", "2", *args)
    assert done.returncode == 0, done.stderr
    assert f"minBytes {min_bytes} maxBytes {max_bytes} step: 2(factor)" in done.stdout and " iters: 1 agg" in done.stdout


@pytest.mark.parametrize("args,message", [
    (["-b", "8X"], "8X"), (["-b", "8GB5"], "8GB5"), (["-b", "GB"], "GB"), (["-b", "-1k"], "-1k"), (["-b", "8", "-e", "1e30"], "1e30"),
    (["--m", "8"], "--m"), (["--min-bus", "8"], "--min-bus")])
def test_rejects_invalid_sizes_and_options(perf, args, message):
    done = perf("all_reduce", *args)
    assert done.returncode == 2 and done.stdout == "" and message in done.stderr and done.stderr.count("\n") == 1


def test_accepts_every_nccl_tests_option(perf):
    done = perf("all_reduce", "-g", "2", *SMALL, "-w", "1", "-m", "2", "-N", "1", "-p", "1", "-c", "2", "-o", "mulsum", "-d", "half",
                "-r", "-1", "-z", "0", "-y", "0", "-T", "60", "-G", "2", "-C", "0", "-a", "3", "-R", "1", "-x", "0", "-M", "1", "-S", "1",
                "-u", "1", "-I", "0", "-K", "0", "-D", "0", "-V", "16")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\s+1024\s+512\s+half\s+mulsum .* \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", done.stdout, re.M)
    assert "# GPU memory usage     : Initialization" in done.stdout
    long = perf("all_reduce", "--ngpus", "2", "--minbytes", "8", "--maxbytes", "64", "--stepfactor", "2", "--iters", "2",
                "--warmup_iters", "1", "--agg_iters", "1", "--run_cycles", "1", "--check", "1", "--op", "max", "--datatype", "int8",
                "--root", "0", "--blocking", "1", "--stream_null", "0", "--timeout", "30", "--cudagraph", "0", "--report_cputime", "1",
                "--report_timestamps", "0", "--average", "0", "--local_register", "0", "--cta_policy", "0", "--memory", "0",
                "--unalign", "0", "--parallel_init", "0")
    assert long.returncode == 0 and "cputime" in long.stdout and len(ROW.findall(long.stdout)) == 4, long.stderr


def test_per_iteration_timing_columns(perf):
    done = perf("all_reduce", "-g", "2", "-b", "1K", "-e", "1K", "-n", "120", "-I", "1", "-K", "10")
    head = next(line for line in done.stdout.splitlines() if "i_min" in line)[1:].split()
    assert head[5:] == 2 * ["time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%"]
    row = next(line.split() for line in done.stdout.splitlines() if re.match(r"\s*\d", line))
    assert len(row) == 21 and float(row[12]) < 1
    assert [float(w) for w in row[9:12]] == pytest.approx(3 * [8], abs=0.02)  # all modelled times are equal
    assert float(row[5]) == pytest.approx(8 + 3 / 120, abs=0.01)  # includes the first launch


@pytest.mark.smoke
def test_json_output_follows_nccl_tests_schema(perf, tmp_path):
    """The file follows version 3 of the nccl-tests schema, with the same types, and ends with the values of the footer."""
    path = tmp_path / "r.json"
    done = perf("reduce", "-g", "2", *SMALL, "-J", path)
    run = json.loads(path.read_text())
    assert f"# Writing JSON output to {path}" in done.stdout
    assert list(run) == ["version", "start_time", "args", "env", "nccl_version", "config", "results", "emulated", "process_per_gpu",
                         "out_of_bounds", "average_bus_bandwidth", "errors", "end_time"]
    assert run["version"] == 3 and run["nccl_version"] > 21900 and run["args"][0].endswith("reduce_perf")
    assert {k: run["config"][k] for k in ("minimum_bytes", "maximum_bytes", "step_factor", "iterations", "blocking_collectives")} == {
        "minimum_bytes": 1024, "maximum_bytes": 4096, "step_factor": 2, "iterations": 3, "blocking_collectives": "false"}
    assert [(d["rank"], d["device_hex"]) for d in run["config"]["devices"]] == [(0, "0000:01:00"), (1, "0000:02:00")]
    assert len(run["results"]) == 3
    row, shown = run["results"][0], ROW.search(done.stdout)
    assert (row["size"], row["count"], row["type"], row["redop"], row["root"]) == (1024, 256, "float", "sum", "     0")
    assert row["out_of_place"]["time"] == pytest.approx(float(shown["time"]), abs=0.01) and row["in_place"]["nwrong"] == 0.0
    assert run["out_of_bounds"] == {"count": 0, "okay": "true"} and run["average_bus_bandwidth"]["okay"] == "unchecked"
    assert run["average_bus_bandwidth"]["bandwidth"] == pytest.approx(float(AVERAGE.search(done.stdout)[1]), rel=1e-4)
    assert not any(entry.startswith(("HOME=", "PATH=")) for entry in run["env"])


def test_existing_json_file_is_not_overwritten(perf, tmp_path):
    path = tmp_path / "r.json"
    for name in ("r.json", "r.json.0", "r.json.1"):
        assert f"# Writing JSON output to {tmp_path / name}\n" in perf("reduce", "-g", "2", *SMALL, "-J", path).stdout
        assert json.loads((tmp_path / name).read_text())["version"] == 3


def test_help_of_bench_names_the_command_with_the_time_of_each_iteration(busbar, tmp_path):
    text = " ".join(busbar.run("bench", "--help").stdout.split())
    name, *args = re.search(r"time of each iteration: (\S+_perf (?:-\S+ \S+ ?)+)", text)[1].split()
    path = tmp_path / "r.json"
    done = busbar.run(name, *(path if word == "FILE" else word for word in args), "-g", 2, "-b", "1K", "-e", "1K", "-n", 7)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(path.read_text())["results"][0]["out_of_place_per_iter"]["times_us"]) == 7


def test_json_with_per_iteration_times_and_without_check(perf, tmp_path):
    path = tmp_path / "r.json"
    env = {"NCCL_TESTS_MIN_BW": "1000"}
    done = perf("sendrecv", "-g", "2", "-b", "1K", "-e", "1K", "-n", "5", "-K", "1", "-I", "1", "-c", "0", "-J", path, env=env)
    assert done.returncode == 5
    run = json.loads(path.read_text())
    (row,) = run["results"]
    each = row["out_of_place_per_iter"]
    assert row["redop"] == "sum" and row["out_of_place"]["nwrong"] is None
    assert each["skipped_iterations"] == 1 and len(each["times_us"]) == 4 and len(each["per_process_max_times_us"]) == 2
    assert each["p95_us"] == pytest.approx(each["p50_us"]) and each["cv_pct"] == pytest.approx(0, abs=1e-6)
    assert run["average_bus_bandwidth"]["okay"] == "false" and run["config"]["per_iter_timing"] == "true"


def test_json_reports_sufficient_bandwidth(perf, tmp_path):
    path = tmp_path / "r.json"
    done = perf("sendrecv", "-g", "2", "-b", "1K", "-e", "1K", "-n", "2", "-J", path, env={"NCCL_TESTS_MIN_BW": "0.001"})
    assert done.returncode == 0 and json.loads(path.read_text())["average_bus_bandwidth"]["okay"] == "true"


def test_json_agrees_with_the_exit_status_on_a_shared_gpu(perf, tmp_path):
    """Ranks that share a GPU have meaningless times, so no bandwidth can be judged as sufficient."""
    path = tmp_path / "r.json"
    done = perf("all_reduce", *SMALL, "--share-gpu", "-J", path, ranks=2, env={"EMU_DEVICES": "1", "NCCL_TESTS_MIN_BW": "0.000001"})
    run = json.loads(path.read_text())
    assert done.returncode == 5 and "ranks share a GPU" in done.stderr, done.stderr
    assert run["shared_gpu"] is True and run["average_bus_bandwidth"]["bandwidth"] > 0.000001
    assert run["average_bus_bandwidth"]["okay"] == "false" and re.search(r"# Avg bus bandwidth +: \S+ FAILED\n", done.stdout)


def test_compare_reads_nccl_tests_json(busbar, perf, tmp_path):
    path = tmp_path / "r.json"
    for args in (["-I", "1", "-n", "20"], ["-C", "1"]):
        path.unlink(missing_ok=True)
        assert perf("all_gather", "-g", "2", "-b", "1K", "-e", "1K", *args, "-J", path).returncode == 0
        done = busbar.run("compare", path, path)
        assert done.returncode == 0 and done.stdout.count("all_gather") >= 2, done.stderr
    own = tmp_path / "own.json"
    assert busbar.run("bench", "all_gather", "-b", "1K", "-e", "1K", "--json", own, ranks=2).returncode == 0
    path.unlink()
    assert perf("all_gather", "-g", "2", "-b", "1K", "-e", "1K", "-I", "1", "-J", path).returncode == 0
    done = busbar.run("compare", own, path)
    assert done.stdout.count(" stream ") == 2 and "only in A 0, only in B 0" in done.stdout, done.stdout


def test_compare_knows_how_many_gpus_a_thread_drives(busbar, perf, tmp_path):
    """nccl-tests enqueues the operations of -g GPUs from one thread. The files of busbar state that each GPU has a process."""
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    done = perf("all_reduce", "-g", "4", *SMALL, "-J", ours)
    assert "# -g 4: a process for each GPU; nccl-tests enqueues on 4 GPUs from one thread" in done.stdout
    assert "# -g" not in perf("all_reduce", "-t", "2", *SMALL).stdout
    (tmp_path / "ours.txt").write_text(done.stdout)
    content = json.loads(ours.read_text())
    assert content.pop("process_per_gpu") is True
    theirs.write_text(json.dumps(content))
    (tmp_path / "theirs.txt").write_text(re.sub(r"(?m)^# -g.*\n", "", done.stdout))

    def differences(*files):
        compared = busbar.run("compare", *(tmp_path / file for file in files), "--json", "-", emulated=False)
        return [(d["what"], d["a"], d["b"]) for d in json.loads(compared.stdout)["provenance"] if d["what"] == "GPUs per thread"]

    assert differences("ours.json", "theirs.json") == differences("ours.txt", "theirs.txt") == [("GPUs per thread", "1", "4")]
    assert differences("ours.json", "ours.txt") == []


def test_killed_run_leaves_valid_json(perf, tmp_path):
    path = tmp_path / "r.json"
    perf("all_reduce", "-g", "2", *SMALL, "-J", path, env={"EMU_FAULT": "die:rank=1,call=12,name=ncclAllReduce"})
    run = json.loads(path.read_text())
    assert run["version"] == 3 and "end_time" not in run


def test_cycles_share_one_table(perf, tmp_path):
    path = tmp_path / "r.json"
    done = perf("all_reduce", "-g", "2", *SMALL, "-N", "2", "-J", path)
    assert len(ROW.findall(done.stdout)) == 6 and len(AVERAGE.findall(done.stdout)) == 1 and done.stdout.count("busbw") == 2
    assert len(json.loads(path.read_text())["results"]) == 6


def test_alltoallv_summary_lists_bytes_per_rank(perf, tmp_path):
    matrix = tmp_path / "matrix"
    matrix.write_text("0 1024\n512 0\n")
    summary_env = {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}
    done = perf("alltoallv", "-g", "2", "-b", "1K", "-e", "1K", env={**summary_env, "NCCL_TESTS_ALLTOALLV_MATRIX_FILE": str(matrix)})
    lines = re.findall(r"^#   rank=(\d) send_bytes=(\d+) recv_bytes=(\d+) alg_bw=[\d.]+ bus_bw=[\d.]+$", done.stdout, re.M)
    assert lines == 2 * [("0", "1024", "512"), ("1", "512", "1024")]
    assert "PRINT_SUMMARY: mode=matrix nranks=2 matrix_dim=2 scale=1.000 time_usec=" in done.stdout and len(ROW.findall(done.stdout)) == 1
    done = perf("alltoallv", "-g", "2", "-b", "1K", "-e", "1K", env=summary_env)
    assert "mode=generated nranks=2 total_bytes=1024 spread=1.000 time_usec=" in done.stdout
    done = perf("alltoallv", "-g", "2", "-b", "1K", "-e", "1K", env={"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "0"})
    assert "PRINT_SUMMARY" not in done.stdout


def shape(value):
    """Keys and value types of a JSON file, without the values."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, (int, float)) else type(value).__name__


@pytest.mark.parametrize("args", [[], ["-c", "0", "-C", "1"], ["-i", "1024", "-f", "1"]])
def test_json_has_the_same_keys_as_nccl_tests(busbar, perf, tmp_path, args):
    theirs = pathlib.Path(os.environ.get("NCCL_TESTS_BUILD", "/nowhere")) / "all_reduce_perf"
    if not theirs.exists():
        pytest.skip("NCCL_TESTS_BUILD does not name a build of nccl-tests")
    their_file, our_file = tmp_path / "theirs.json", tmp_path / "ours.json"
    args = ["-g", "2", *SMALL, *args, "-J"]
    subprocess.run([str(busbar.build / "emulator" / "run"), str(theirs), *args, their_file], stdout=subprocess.DEVNULL, timeout=60,
                   env=busbar.environment({"EMU_UNKNOWN_KERNELS": "pass"}), check=False)
    assert perf("all_reduce", *args, our_file).returncode == 0
    expected, got = json.loads(their_file.read_text()), json.loads(our_file.read_text())
    assert got.pop("emulated") is True and got.pop("process_per_gpu") is True
    assert shape(got) == shape(expected)


def test_wrong_data_exits_with_3(perf):
    done = perf("all_reduce", "-g", "2", "-b", "1K", "-e", "1K", "-n", "1", "-w", "0", env={"EMU_FAULT": "corrupt:rank=1,call=2"})
    assert done.returncode == 3 and BOUNDS.search(done.stdout).groups() == ("1", "FAILED")


def test_min_bandwidth_from_environment(perf):
    done = perf("all_reduce", "-g", "2", *SMALL, env={"NCCL_TESTS_MIN_BW": "1000"})
    assert done.returncode == 5 and re.search("# Avg bus bandwidth    : .* FAILED", done.stdout)
    mean = float(AVERAGE.search(done.stdout)[1])
    done = perf("all_reduce", "-g", "2", *SMALL, env={"NCCL_TESTS_MIN_BW": str(mean / 0.95)})  # nccl-tests accepts 90 % of the threshold
    assert done.returncode == 0 and re.search("# Avg bus bandwidth    : .* OK", done.stdout)


@pytest.mark.parametrize("env,groups", [
    ({"NCCL_TESTS_SPLIT_MASK": "0x1"}, "0101"), ({"NCCL_TESTS_SPLIT": "DIV 2"}, "0011"), ({"NCCL_TESTS_SPLIT": "%2"}, "0101"),
    ({"NCCL_TESTS_SPLIT": "and 0b10"}, "0022")])
def test_split_from_environment(perf, env, groups):
    done = perf("all_reduce", "-g", "4", *SMALL, env=env)
    assert done.returncode == 0 and "".join(m[2] for m in DEVICE.finditer(done.stdout)) == groups
    assert len(ROW.findall(done.stdout)) == 3  # only the rows of the first group are printed


def test_min_bandwidth_is_judged_in_each_group(perf):
    """The mean of both groups, about 42 GB/s, would hide the slow NIC of group 1. nccl-tests accepts 90 % of 44 GB/s: 39.6."""
    env = {"EMU_NODES": "2", "EMU_CLUSTER": "h100-sxm-ib", "EMU_DATA": "off", "EMU_SLOW": "link=node1-nic1:0.7", "NCCL_TESTS_SPLIT_MASK": "0x1",
           "NCCL_TESTS_MIN_BW": "44"}
    done = perf("sendrecv", "-g", "4", "-b", "64M", "-e", "64M", "-n", "2", env=env)
    assert done.returncode == 5 and re.search("# Avg bus bandwidth    : 4[01].* FAILED", done.stdout)
    assert re.search(r"mean bus bandwidth in group 1 \(ranks 1,3 on .*, .*\) is 33\..* below the required 39.6 GB/s \(as nccl-tests, 90 % of NCCL_TESTS_MIN_BW=44\); below in 1 of 2 groups; "
                     r"to find slow links: busbar-emulated bench p2p --max-slow 0 --min-gbps 39.6\n", done.stderr)
    done = perf("all_reduce", "-g", "4", "-b", "64M", "-e", "64M", "-n", "2", env=env | {"NCCL_TESTS_MIN_BW": "440"})  # of links, no limit is known
    assert done.returncode == 5 and done.stderr.endswith("; to find slow links: busbar-emulated health\n")


def test_alltoallv_matrix_from_environment(perf, tmp_path):
    matrix = tmp_path / "m"
    matrix.write_text("0 64 9\n32 0 9\n9 9 9\n")  # nccl-tests ignores the rows and columns of further ranks
    env = {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": str(matrix), "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "16"}
    done = perf("alltoallv", "-g", "2", "-b", "1K", "-e", "1K", env=env)
    assert ROW.search(done.stdout)["size"] == "1024" and ROW.search(done.stdout)["count"] == "0"
    env = {"NCCL_TESTS_ALLTOALLV_SPREAD": "0"}
    assert ROW.search(perf("alltoallv", "-g", "3", "-b", "3K", "-e", "3K", env=env).stdout)["size"] == "3072"


def test_first_device_from_environment(perf):
    done = perf("all_reduce", "-g", "2", *SMALL, env={"NCCL_TESTS_DEVICE": "3"})
    assert [m[5] for m in DEVICE.finditer(done.stdout)] == ["3", "4"]


def test_max_size_is_reduced_to_fit_memory(perf):
    done = perf("all_reduce", "-g", "2", "-b", "1G", "-e", "1T", "-f", "2", "-n", "1", "-c", "0", env={"EMU_DATA": "off"})
    assert done.returncode == 0 and len(re.findall("warning: the last size is reduced from 1099511627776", done.stderr)) == 1
    assert 1 <= len(ROW.findall(done.stdout)) < 10


@pytest.mark.parametrize("check,max_bytes,sizes", [("1", 24877096960, [17179869184]), ("0", 37315645440, [17179869184, 34359738368])])
def test_memory_limit_matches_nccl_tests(perf, check, max_bytes, sizes):
    """The limit is 80e9 bytes minus 4 GiB and 1 GiB, divided among three buffers (two without the check)."""
    done = perf("all_reduce", "-g", "2", "-b", "16G", "-e", "64G", "-f", "2", "-n", "1", "-c", check, env={"EMU_DATA": "off"})
    assert f"to {max_bytes} bytes" in done.stderr and [int(m["size"]) for m in ROW.finditer(done.stdout)] == sizes


@pytest.mark.parametrize("check, warned", [("1", True), ("0", False)])
def test_warns_if_a_requested_check_verifies_nothing(perf, check, warned):
    done = perf("all_reduce", "-g", "2", *SMALL, "-c", check, env={"EMU_DATA": "off"})
    assert "# Out of bounds values : 0 OK\n" in done.stdout  # as nccl-tests with -c 0
    assert f"# not verified ({'EMU_DATA=off' if warned else '-c 0'})\n" in done.stdout
    assert ("EMU_DATA=off moves no data, so nothing is verified" in done.stderr) == warned


def test_waits_forever_without_timeout(perf):
    """With -T 0, the default, the run waits for a stalled rank until the run is killed."""
    for args, status, limit_s in ((["-T", "2"], 4, 60), ([], 124, 8)):
        program = perf.program("all_reduce", "-g", "2", *SMALL, *args)
        done = subprocess.run(["timeout", str(limit_s), *program], env=perf.environment({"EMU_FAULT": "stall:rank=1,call=9,name=ncclAllReduce"}),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == status, done.stderr


def test_hypercube_skips_rank_counts_that_are_not_powers_of_two(perf):
    done = perf("hypercube", "-g", "3", *SMALL)
    assert done.returncode == 0 and "not a power of 2, skipping" in done.stdout and AVERAGE.search(done.stdout)


@pytest.mark.parametrize("line,message", [
    ("-d floaat", "did you mean 'float'"), ("-o plus", "unknown value for --op"), ("-b 8X", "'8X'"), ("-g 0", "from 1 to"),
    ("-D 3", "try: -D 4"), ("-I 1 -G 1", "cannot be combined with -I 1"),
    ("-I 1 -K 20", "skips all 20 iterations"), ("--iterz 3", "did you mean '--iters'"), ("all_gather", "unexpected argument 'all_gather'"),
    ("-g 1100", "from 1 to 1024"), ("-t 100 -g 100", "exceed the limit of 1024 ranks"), ("-b 2M -e 1M", "above the last size")])
def test_rejects_unknown_or_conflicting_options(perf, line, message):
    done = perf("all_reduce", *line.split(), emulated=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and message in done.stderr, done.stderr


def test_help_names_the_program(perf):
    done = perf("sendrecv", "--help", emulated=False)
    assert done.returncode == 0 and done.stdout.startswith("Usage: sendrecv_perf [OPTION...]")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_rows_match_nccl_tests(perf, busbar, name):
    """Sizes, counts, types and operations of all rows equal those of nccl-tests. NCCL_TESTS_BUILD names a build of nccl-tests."""
    theirs = pathlib.Path(os.environ.get("NCCL_TESTS_BUILD", "/nowhere")) / f"{name}_perf"
    if not theirs.exists():
        pytest.skip("NCCL_TESTS_BUILD does not name a build of nccl-tests")
    line = ["-g", "4", "-b", "40", "-e", "100000", "-f", "3", "-n", "2", "-d", "half", "-c", "0"]
    expected = subprocess.run(["timeout", "60", str(busbar.build / "emulator" / "run"), str(theirs), *line], capture_output=True, text=True,
                              env=busbar.environment({"EMU_UNKNOWN_KERNELS": "pass"}), stdin=subprocess.DEVNULL)

    def row_heads(text):  # nccl-tests leaves the redop of hypercube empty
        return [[w for w in x.split()[:5] if w != "none"] for x in text.splitlines() if re.match(r"\s*\d", x)]

    ours = row_heads(perf(name, *line).stdout)
    assert [row[:4] for row in ours] == [row[:4] for row in row_heads(expected.stdout)] and len(ours) == 8
