"""busbar sweep with programs other than busbar: an MPI program of the tests, nccl-tests, and scripts."""
import os
import re
import shutil
import subprocess

import pytest

from test_sweep import SPECIAL_CHARACTERS, study, submit, sweep, table  # noqa: F401 (sweep is a fixture)

HERE = os.path.dirname(os.path.abspath(__file__))
OSU = {"bytes": "^([0-9]+) +[0-9.]+$", "time_us": "^[0-9]+ +([0-9.]+)$"}
NCCL_TESTS = {"time_us": "^ +[0-9]+ +[0-9]+ +float +sum +-1 +([0-9.]+)",
              "busbw_gbps": "^ +[0-9]+ +[0-9]+ +float +sum +-1 +[0-9.]+ +[0-9.]+ +([0-9.]+)"}


@pytest.fixture(scope="module")
def osu(busbar, tmp_path_factory):
    """Path of the MPI program, compiled with the MPI that busbar was built with."""
    cache = (busbar.build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^MPI_C_COMPILER:\w+=(.+)$", cache, re.M)
    if not compiler or not shutil.which(compiler[1]):
        pytest.skip("no MPI compiler")
    program = tmp_path_factory.mktemp("osu") / "osu_allreduce"
    subprocess.run([compiler[1], os.path.join(HERE, "osu_allreduce.c"), "-o", program], check=True)
    return str(program)


def script(sweep, text):
    """Writes a shell script. Returns its path."""
    path = sweep.bin / "pro gram"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o700)
    return str(path)


@pytest.mark.smoke
def test_busbar_nccl_tests_and_an_mpi_program_give_one_table(sweep, busbar, osu):
    perf = str(busbar.build / "emulated" / "all_reduce_perf")
    done = sweep({"ranks": 2, "values": {"bytes": [1024, 65536]}, "choices": {"program": {
        "busbar": {"command": "bench all_reduce", "options": {"sizes": "{bytes}", "placement": "out_of_place", "repeats": 2}},
        "nccl-tests": {"command": [perf, "-b", "{bytes}", "-e", "{bytes}", "-n", "3"], "metrics": NCCL_TESTS},
        "OSU": {"command": [osu, "-m", "{bytes}:{bytes}"], "metrics": {"time_us": OSU["time_us"]}}}},
        "columns": ["time_us.p50", "busbw_gbps", {"name": "to busbar", "value": "time_us.p50", "relative_to": {"program": "busbar"}}]},
        real=True)
    assert done.returncode == 0, done.stderr
    rows = sweep.json()["rows"]
    assert sweep.json()["columns"] == ["program", "bytes", "time_us", "busbw_gbps", "to busbar", "state"]
    assert [row[:2] for row in rows] == [[p, n] for p in ("busbar", "nccl-tests", "OSU") for n in (1024, 65536)]
    assert all(row[2] > 0 and row[-1] == "ok" for row in rows) and [row[3] is None for row in rows] == [False] * 4 + [True] * 2
    assert [row[4] for row in rows] == [pytest.approx(row[2] / rows[i % 2][2]) for i, row in enumerate(rows)]  # ratio to busbar's row
    assert len(table(done)) == 6
    # the numbers are those that the program printed: the row of nccl-tests' table, for 2 ranks busbw = algbw = bytes / time
    for combination, row in list(zip(sweep.json()["combinations"], rows))[2:4]:
        printed = next(line.split() for line in (sweep.dir / f"{combination['id']}.out").read_text().splitlines()
                       if line.split()[:1] == [str(row[1])])
        assert [row[2], row[3]] == [float(printed[5]), float(printed[7])]
        assert row[3] == pytest.approx(row[1] / row[2] / 1e3, abs=0.006)
    assert sweep.json()["emulated"] and "# some results: emulated GPUs" in done.stdout


def test_lines_of_a_program_become_rows(sweep, osu):
    done = sweep({"command": [osu, "-m", "4:16"], "ranks": [1, 2], "metrics": {**OSU, "sum": "sum: ([0-9]+)"}}, real=True)
    assert done.returncode == 0, done.stderr
    assert sweep.json()["columns"] == ["ranks", "bytes", "time_us", "sum", "state"]
    assert [(row[0], row[1], row[3]) for row in sweep.json()["rows"]] == [(n, size, 4 * n) for n in (1, 2) for size in (4, 8, 16)]
    assert "emulated" not in done.stdout


def test_ratio_to_one_of_several_rows_is_empty(sweep):
    lines = script(sweep, 'for n in $1; do echo "$n"; done\n')
    done = sweep({"command": [lines, "{n}"], "values": {"n": ["2", "4", "2 4"]}, "metrics": {"t": "([0-9])"},
                  "columns": [{"name": "to 2", "value": "t", "relative_to": {"n": "2"}},
                              {"name": "to 2 4", "value": "t", "relative_to": {"n": "2 4"}}]})
    assert done.returncode == 0, done.stderr
    assert [row[1:3] for row in sweep.json()["rows"]] == [[1, None], [2, None], [1, None], [2, None]]


def test_program_receives_exactly_its_words(sweep):
    shown = script(sweep, 'for word; do printf "[%s]" "$word"; done; printf " %s %s\\nt: 1\\n" "$TEXT" "$RANKS"\n')
    words = [shown, "-x", "a={text}", "${n}{n}{id}", "{\"b\": 2}"]
    done = sweep({"command": words, "values": {"text": SPECIAL_CHARACTERS, "n": 3}, "options": {"long": "{n}", "s": 1, "json": "file"},
                  "environment": {"TEXT": "{text}", "RANKS": "{ranks}"}, "ranks": 1, "launch": {"with": "none"},
                  "metrics": {"t": "t: ([0-9]+)"}})
    assert done.returncode == 0, done.stderr
    (run,) = sweep.json()["combinations"]
    assert (sweep.dir / f"{run['id']}.out").read_text() == (
        f"[-x][a={SPECIAL_CHARACTERS}][${{n}}3{run['id']}][{{\"b\": 2}}][--long=3][-s][1][--json=file] {SPECIAL_CHARACTERS} 1\nt: 1\n")
    listed = sweep((sweep.dir.parent / "study.json").read_text(), "--list").stdout.split("\n", 1)[1]
    again = subprocess.run(["sh", "-c", listed], capture_output=True, text=True)
    assert again.stdout == (sweep.dir / f"{run['id']}.out").read_text()


def test_figures_from_the_json_file_of_a_program(sweep):
    writer = script(sweep, 'echo "{\\"speed\\": {\\"images\\": $1}, \\"note\\": \\"x\\"}" > "$2"\n')
    done = sweep({"command": [writer, "{n}", "{json}"], "values": {"n": [5, 7.5]}, "metrics": {"images_per_s": "speed.images"}})
    assert done.returncode == 0, done.stderr
    assert [row for row in sweep.json()["rows"]] == [[5, 5, "ok"], [7.5, 7.5, "ok"]]
    assert sweep.results()[0]["note"] == "x" and sweep.ran() == 0  # without "ranks" there is no launcher
    done = sweep({"command": [writer, "{n}", "{json}"], "values": {"n": [5, 7.5]}, "columns": ["speed.images", "note"]})
    assert [row[1:] for row in sweep.json()["rows"]] == [[5, "x", "ok"], [7.5, "x", "ok"]]


def test_complete_requires_exit_status_0_and_every_metric(sweep):
    failing = script(sweep, 'echo "a: 1"; [ "$1" = none ] || echo "b: $1"; echo "lost: device 3" >&2; exit "$2"\n')
    cases = [("fails", "2", 4), ("missing", "none", 0), ("text", "x", 0), ("good", "3", 0)]
    done = sweep({"command": [failing, "{b}", "{exit}"], "metrics": {"a": "a: (.*)", "b": "b: (.*)"},
                  "cases": [{"name": name, "values": {"b": b, "exit": status}} for name, b, status in cases]})
    assert done.returncode == 1
    assert [row[-1] for row in table(done)] == ["failed (4)", "failed (0)", "failed (0)", "ok"]
    assert "case=fails: failed with exit status 4: lost: device 3" in done.stderr
    assert "case=missing: failed with exit status 0: metric b: no line of the output matches 'b: (.*)'" in done.stderr
    assert "case=text: failed with exit status 0: metric b: 'x' is not a number" in done.stderr
    assert "# case=missing: exit status 0, but not all metrics were found\n#   metric b: no line" in done.stdout
    assert [c["result"] for c in sweep.json()["combinations"]] == [None] * 3 + [{"results": [{"a": 1, "b": 3}]}]


def test_rejects_patterns_that_capture_a_part_of_a_number(sweep):
    """Each pattern on one of the lines 13.7 GB/s, 1.5e-03 s, 1024,7.5: the whole number, or the part that would have been the result."""
    echo = script(sweep, 'echo "bw: 13.7 GB/s"; echo "t: 1.5e-03 s."; echo "csv 1024,7.5,x"; echo "end 12."\n')
    patterns = {"([0-9.]+) GB/s": 13.7, "bw: ([0-9]+)": "'13'", "([0-9]+) GB/s": "'7'", ".*([0-9.]+) GB": "'7'", "t: ([0-9.]+)": "'1.5'",
                "t: ([-+0-9.e]+)": 0.0015, "csv ([0-9]+)": 1024, ",([0-9.]+)": 7.5, "bw: ([0-9])": "'1'", "end ([0-9]+)": 12}
    done = sweep({"command": [echo, "{n}"], "cases": [{"name": str(i), "values": {"n": i}, "metrics": {"a": pattern}} for i, pattern in enumerate(patterns)]})
    results = [c["result"] and c["result"]["results"][0]["a"] or re.search(r"('.*?') is only a part of the number in '", c["stderr"][0]).group(1)
               for c in sweep.json()["combinations"]]
    assert done.returncode == 1 and results == list(patterns.values())


def test_prints_no_control_characters_of_a_program(sweep):
    escapes = script(sweep, "printf 'a: \\033[31m7\\302\\233m\\n'\n")
    done = sweep({"command": [escapes], "metrics": {"a": "a: (.*)"}})
    assert "metric a: ' [31m7  m' is not a number" in done.stdout and "metric a: ' [31m7  m' is not a number" in done.stderr


def test_silent_failures_and_the_last_line_of_a_common_file(sweep):
    silent = script(sweep, 'exit "$1"\n')
    done = sweep({"command": [silent, "{n}"], "values": {"n": [7, 9]}, "metrics": {"t": "t: ([0-9]+)"}})
    assert "# n=7: exit status 7\n# n=9: exit status 9\n" in done.stdout  # without an error text there is no "same error"
    both = subprocess.run([sweep.busbar, "sweep", "study.json"], cwd=sweep.dir.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert both.stdout.splitlines()[-1] == "busbar: 2 of 2 combinations failed, 0 did not run; try: --retry-failed"


def test_refusal_of_root_by_mpirun_has_an_advice(sweep):
    refuses = script(sweep, "echo 'mpirun has detected an attempt to run as root.' >&2\n"
                     "echo 'or by setting two environment variables: OMPI_ALLOW_RUN_AS_ROOT=1' >&2\necho 'We reiterate our advice' >&2\nexit 1\n")
    done = sweep({"command": [refuses], "metrics": {"t": "t: ([0-9]+)"}})
    assert "mpirun does not start ranks as root; try: . " in done.stderr and "reiterate" not in done.stderr
    assert os.path.isfile(re.search(r"try: \. (\S+mpi\.sh) ", done.stderr)[1])


def test_too_few_slots_of_mpirun_have_an_advice(sweep):
    refuses = script(sweep, "echo 'There are not enough slots available in the system to satisfy the 4' >&2\n"
                     "echo 'number of available slots when deciding the number of processes to' >&2\necho 'launch.' >&2\nexit 1\n")
    done = sweep({"command": [refuses], "metrics": {"t": "t: ([0-9]+)"}})
    assert "mpirun has fewer slots than ranks (" in done.stderr and "(or --launch-arguments=--oversubscribe)" in done.stderr and "to launch" not in done.stderr
    assert os.path.isfile(re.search(r"try: \. (\S+mpi\.sh) ", done.stderr)[1])


def test_a_program_may_start_its_ranks_itself(sweep):
    start = script(sweep, 'echo "n: $1"\n')
    own = {"command": [start, "{ranks}"], "ranks": [2, 4], "metrics": {"n": "n: ([0-9]+)"}, "launch": {"with": "none"}}
    assert sweep(own).returncode == 0 and [row[1] for row in sweep.json()["rows"]] == [2, 4]
    done = sweep({**own, "command": [start, "1"]})
    assert done.returncode == 2 and "launcher none starts 1 rank, not 2" in done.stderr


@pytest.mark.parametrize("change,message", [
    ({"command": "./x {byte}"}, "unknown placeholder 'byte', did you mean 'bytes'?"),
    ({"command": "./x 4"}, "values.bytes is not used; try: {bytes} in the command"),
    ({"command": "osu_allreduce {bytes}", "metrics": None}, "unknown command 'osu_allreduce', expected bench, proxy, plan or health; to run another program, add \"metrics\", or write its path with a slash"),
    ({"command": "./x {bytes}", "metrics": {"t": "[0-9]+"}}, "metrics.t: '[0-9]+' has no group for the number"),
    ({"command": "./x {bytes}", "metrics": {"results": "([0-9]+)"}}, "'results' is the list of rows of a result; use another name"),
    ({"command": "bench all_reduce", "options": {"sizes": "{bytes}"}}, "metrics is only for programs other than busbar"),
])
def test_rejects_invalid_programs_with_one_line(sweep, change, message):
    invalid = {"ranks": 2, "values": {"bytes": [4, 8]}, "metrics": {"t": "([0-9]+)"}, **change}
    done = sweep({k: v for k, v in invalid.items() if v is not None})
    assert done.returncode == 2 and done.stdout == "" and sweep.ran() == 0
    (line,) = done.stderr.splitlines()
    assert message in line


def test_slurm_array_runs_programs(sweep):
    shown = script(sweep, 'echo "t: $1"\n')
    (sweep.bin / "srun").write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    programs = {"command": [shown, "{n}", SPECIAL_CHARACTERS], "values": {"n": [1, 2]}, "ranks": 2, "metrics": {"t": "t: ([0-9]+)"}}
    _, statuses = submit(sweep(programs, "--slurm"), sweep)
    assert statuses == [0, 0] and sweep(programs, "--gather").returncode == 0
    assert sweep.json()["rows"] == [[1, 1, "ok"], [2, 2, "ok"]]


# ---- --submit -------------------------------------------------------------------------------------------------------

def put_sbatch(sweep, text):
    (sweep.bin / "sbatch").write_text("#!/bin/sh\n" + text)


def test_submit_prints_the_ids_of_array_jobs(sweep):
    put_sbatch(sweep, 'echo "$@" >>"${0%/*}/submitted"\necho "$(wc -l <"${0%/*}/submitted");cluster"\n')
    many = study(repeats=3, slurm={"tasks_per_array": 2})
    done = sweep(many, "--submit", "-o", "a b")
    folder = sweep.dir.parent / "a b"
    assert done.returncode == 0 and done.stdout == (f"array job 1: 2 tasks, {folder}/study-1.slurm\n"
                                                    f"array job 2: 1 task, {folder}/study-2.slurm\n"), done.stderr
    assert (sweep.bin / "submitted").read_text() == "".join(f"--parsable {folder}/study-{i}.slurm\n" for i in (1, 2))
    assert " srun -n 2 " in (folder / "study-1.slurm").read_text()


@pytest.mark.parametrize("sbatch", ["echo 'sbatch: error: invalid partition' >&2; exit 1", "exit 0"])
def test_submit_reports_a_failure_of_sbatch(sweep, sbatch):
    put_sbatch(sweep, sbatch)
    done = sweep(study(), "--submit")
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"busbar: sbatch did not accept \S+/study.slurm \(exit status [01]\)", done.stderr.splitlines()[-1])
    assert ("invalid partition" in done.stderr) == ("invalid" in sbatch)


def test_rejects_submit_with_other_actions(sweep):
    done = sweep(study(), "--submit", "--gather")
    assert done.returncode == 2 and "--slurm, --submit and --gather are mutually exclusive" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option, value", [("launcher", "srun"), ("hosts", "a"), ("launch-arguments", "-v"), ("program", "x"), ("timeout", "5")])
def test_gather_rejects_options_of_runs(sweep, option, value):
    done = sweep(study(), "--gather", f"--{option}", value)
    assert done.returncode == 2
    assert done.stderr == f"busbar: --gather starts no runs, so --{option} has no effect; leave it out\n"
