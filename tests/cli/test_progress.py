"""Progress on stderr: separate lines under mpirun, nothing with --quiet. A proxy prints its header before its steps."""
import itertools
import re
import subprocess

import pytest

LINE = re.compile(r"# at \d+ s: (.*)")
REAL = {"EMU_TIME": "real", "EMU_DATA": "off", "BUSBAR_PROGRESS": "0.2"}
# With EMU_TIME=real an operation takes about 4 ms of wall-clock time on the built-in profile, so the run takes more than a second.
BENCH = ("bench", "all_reduce", "--sizes", "256M,512M", "-n", "40", "-c", "0", "--placement", "out_of_place")


def first_lines(busbar, command, pattern, env, n=1):
    """Returns the first n lines of stderr with the pattern, and ends the run."""
    with subprocess.Popen(["timeout", "-k", "5", "60", *command], env=busbar.environment(env), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        lines = list(itertools.islice((line for line in run.stderr if re.search(pattern, line)), n))
        run.terminate()
    return lines


def test_progress_lines_under_mpirun_name_measurement_and_time_left(busbar):
    done = busbar.run(*BENCH, ranks=2, env=REAL)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) >= 2 and all(LINE.fullmatch(line) for line in lines), done.stderr
    assert "all_reduce 512 MiB, about " in lines[-1] or "all_reduce 512 MiB" in lines[-1]
    assert not any("\r" in line or "\033" in line for line in lines)


def test_time_left_counts_the_bytes_of_rows(busbar):
    """In real time the largest of six sizes takes three quarters of the run, also without data."""
    bench = busbar.command("bench", "all_reduce", "-b", "1M", "-e", "1G", "-f", 4, "-n", 20, "-w", 1, "-g", 2)
    (line,) = first_lines(busbar, bench, "1 GiB", REAL)
    assert re.search(r"1 GiB, about \d+ s left$", line), line


@pytest.mark.parametrize("args,env", [(("--quiet",), {}), ((), {"BUSBAR_PROGRESS": "0"}), ((), {"BUSBAR_PROGRESS": "60"})])
def test_prints_no_progress_when_disabled(busbar, args, env):
    done = busbar.run(*BENCH, *args, ranks=2, env={**REAL, **env})
    assert done.returncode == 0 and done.stderr == ""


def test_progress_names_the_warm_up_of_communicators(busbar):
    done = busbar.run("bench", "comm", "--repeats", 3, ranks=2, env={"EMU_DATA": "off", "BUSBAR_PROGRESS": "0.002"})
    lines = list(dict.fromkeys(LINE.findall(done.stderr)))
    assert done.returncode == 0 and lines == ["2 ranks, warm-up life cycle 1 of 1"] + [f"2 ranks, life cycle {i} of 3" for i in (1, 2, 3)], lines


def test_nccl_tests_programs_print_no_progress(busbar):
    program = busbar.build / "emulated" / "all_reduce_perf"
    done = busbar.run_program(busbar.mpirun, "-n", "2", program, "-b", "256M", "-e", "256M", "-n", "40", "-c", "0", env=REAL)
    assert done.returncode == 0 and "# at " not in done.stderr


def test_proxy_prints_its_header_before_its_steps(busbar):
    command = busbar.command("proxy", "gpt2_large", "12", "4", "3", "--compute", "timed", "--warmup", "100", "-n", "200", ranks=4)
    with subprocess.Popen(["timeout", "-k", "5", "60", *command], env=busbar.environment(REAL), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        header = [run.stdout.readline() for _ in range(3)]
        running = run.poll() is None
        rest, stderr = run.communicate(timeout=80)
    assert header[0].startswith("# busbar ") and "proxy gpt2_large" in header[0] and "4 ranks" in header[1]
    assert running and run.returncode == 0, stderr
    assert "step " in rest and "# busbar" not in rest  # the header is printed once
    steps = [LINE.fullmatch(line)[1] for line in stderr.splitlines()]
    assert any(re.match(r"step \d+ of 200, about \d+ s left", step) for step in steps), stderr
    assert any(step.startswith("warm-up") for step in steps) and not any(step.startswith("warm-up") and "left" in step for step in steps), stderr


@pytest.mark.parametrize("axis", ["--cp", "--tp"])
def test_a_search_prints_the_share_of_each_stage_that_is_done(busbar, axis):
    done = busbar.run("plan", "transformer", "--model", "llama2_7b", "--ranks", 16, "--global-batch-size", 64, "--cluster", "h100-sxm-ib",
                      "--best-layout", axis, 1, emulated=False, env={"BUSBAR_PROGRESS": "0.01"})
    assert ("estimates (faster with a given --tp): " in done.stderr) == (axis != "--tp")
    rows = [(int(stage), int(percent)) for stage, percent in re.findall(r"# at \d+ s: stage (\d) of 4, .*: (\d+)% done", done.stderr)]
    assert len(rows) > 5 and rows == sorted(rows) and rows[-1][0] == 4 and all(percent <= 100 for _, percent in rows)


def test_a_long_plan_prints_progress(busbar):
    args = ("plan", "transformer", "--model", "llama2_70b", "--ranks", 64, "--tp", 4, "--pp", 16, "--micro-batches", 128, "--cluster", "h100-sxm-ib")
    assert re.search(r"^# at \d+ s: planning 64 ranks$", busbar.run(*args, emulated=False, env={"BUSBAR_PROGRESS": "0.02"}).stderr, re.M)
    assert "planning" not in busbar.run(*args, "--quiet", emulated=False, env={"BUSBAR_PROGRESS": "0.02"}).stderr


def test_a_plan_with_many_samples_prints_the_time_left(busbar):
    command = busbar.command("plan", "transformer", "--model", "llama3_8b", "--ranks", 64, "--tp", 8, "--jitter", "3%", "--samples", 400, "--cluster",
                             "h100-sxm-ib", emulated=False)
    (line,) = first_lines(busbar, command, "left", {"BUSBAR_PROGRESS": "0.1"})
    assert re.fullmatch(r"# at \d+ s: simulating 400 steps with jitter, about \d+ (s|min) left\n", line)


def test_time_left_does_not_grow_during_a_row(busbar):
    """The CPU moves the data of emulated GPUs, so that the second row takes much longer than the first."""
    command = busbar.command("bench", "all_reduce", "--sizes", "8M,64M", "--placement", "in_place", ranks=2)
    lines = first_lines(busbar, command, "all_reduce 64 MiB, about", {"BUSBAR_PROGRESS": "0.2"}, 5)
    left = [float(number) * {"s": 1, "min": 60, "h": 3600}[unit]
            for number, unit in re.findall(r"all_reduce 64 MiB, about ([\d.]+) (s|min|h) left", "".join(lines))]
    assert len(left) == 5 and left == sorted(left, reverse=True), lines


# The estimate needs a sixteenth of the work: the first row. With data its share is that of its bytes, without data one of 12 rows.
# A slow NIC makes the operations long, which takes less CPU time than much data.
@pytest.mark.parametrize("data,sizes,n,env", [
    ("on", "2M,26M", 50, {"EMU_CLUSTER": "h100-sxm-ib", "EMU_NODES": "2", "EMU_SLOW": "link=node0-nic0:0.005"}),
    ("off", ",".join(f"{240 + i}M" for i in range(12)), 500, {})])
def test_long_estimates_of_emulated_gpus_name_how_to_leave_data_out(busbar, data, sizes, n, env):
    """Many operations of real duration; the run ends at its first estimate."""
    command = busbar.command("bench", "all_reduce", "--sizes", sizes, "-n", n, "--repeats", "9", "--placement", "out_of_place", ranks=2)
    (line,) = first_lines(busbar, command, "about .* left", {**REAL, "EMU_DATA": data, **env})
    assert re.search(r"about (\d+ min|[\d.]+ h|[3-9]\d s|1\d\d s) left", line)
    assert line.endswith(" left\n") if data == "off" else line.endswith(" left (faster without data: EMU_DATA=off)\n")
