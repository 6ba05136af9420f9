"""How far a run is, on stderr: line by line under mpirun, and nothing with --quiet; a proxy's head before its steps."""
import re
import subprocess

import pytest

LINE = re.compile(r"# at \d+ s: (.*)")
REAL = {"EMU_TIME": "real", "EMU_DATA": "off", "BUSBAR_PROGRESS": "0.2"}
# About 4 ms an operation on the built-in profile, each for real: more than a second in all.
BENCH = ("bench", "all_reduce", "--sizes", "256M,512M", "-n", "40", "-c", "0", "--placement", "out_of_place")


def test_lines_under_mpirun_say_what_is_measured_and_what_is_left(busbar):
    done = busbar.run(*BENCH, ranks=2, env=REAL)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) >= 2 and all(LINE.fullmatch(line) for line in lines), done.stderr
    assert "all_reduce 512 MiB, about " in lines[-1] or "all_reduce 512 MiB" in lines[-1]
    assert not any("\r" in line or "\033" in line for line in lines)


@pytest.mark.parametrize("words,env", [(("--quiet",), {}), ((), {"BUSBAR_PROGRESS": "0"}), ((), {"BUSBAR_PROGRESS": "60"})])
def test_who_did_not_ask_reads_nothing(busbar, words, env):
    done = busbar.run(*BENCH, *words, ranks=2, env={**REAL, **env})
    assert done.returncode == 0 and done.stderr == ""


def test_programs_of_nccl_tests_say_what_nccl_tests_says(busbar):
    program = busbar.build / "emulated" / "all_reduce_perf"
    done = busbar.run_program(busbar.mpirun, "-n", "2", program, "-b", "256M", "-e", "256M", "-n", "40", "-c", "0", env=REAL)
    assert done.returncode == 0 and "# at " not in done.stderr


def test_the_head_of_a_proxy_stands_there_before_its_steps(busbar):
    command = busbar.command("proxy", "gpt2_large", "12", "4", "3", "--compute", "timed", "-n", "200", ranks=4)
    with subprocess.Popen(["timeout", "-k", "5", "60", *command], env=busbar.environment(REAL), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        head = [run.stdout.readline() for _ in range(3)]
        running = run.poll() is None
        rest, said = run.communicate(timeout=80)
    assert head[0].startswith("# busbar ") and "proxy gpt2_large" in head[0] and "4 ranks" in head[1]
    assert running and run.returncode == 0, said
    assert "step " in rest and "# busbar" not in rest  # the head stands there once
    steps = [LINE.fullmatch(line)[1] for line in said.splitlines()]
    assert any(re.match(r"step \d+ of 200, about \d+ s left", step) for step in steps), said
