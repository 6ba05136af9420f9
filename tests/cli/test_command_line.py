"""The top-level command line: help, version, lists, unknown arguments, and the MPI functions that the binary may import."""
import re
import subprocess

import pytest


def lines_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("busbar:")]


def test_help_requires_no_libraries(busbar, golden):
    done = busbar.run("--help", emulated=False)
    assert done.returncode == 0 and done.stderr == ""
    golden("help.txt", done.stdout)


def test_man_page_lists_the_commands_of_the_help(busbar):
    page, text = (busbar.run(word, emulated=False).stdout for word in ("--help=man", "--help"))
    commands = re.findall(r"(?m)^  busbar (\w+)", text)
    assert "bench" in commands and re.findall(r"(?m)^\.TP\n\.B (\w+)$", page) == commands


def test_missing_command_prints_help_as_an_error(busbar):
    done = busbar.run(emulated=False)
    assert done.returncode == 2 and done.stdout == "" and "Usage: busbar COMMAND" in done.stderr


def test_version(busbar):
    assert re.fullmatch(r"busbar \d+\.\d+\.\d+\n", busbar.run("--version", emulated=False).stdout)


@pytest.mark.parametrize("args", [["-V"], ["bench", "--version"], ["plan", "-V"], ["sweep", "--version"]])
def test_version_with_every_command(busbar, args):
    done = busbar.run(*args, emulated=False)
    assert done.returncode == 0 and done.stdout == busbar.run("--version", emulated=False).stdout


@pytest.mark.parametrize("args", ["bench", "bench p2p", "proxy", "plan", "calibrate", "compare", "sweep"])
def test_every_option_is_listed_once(busbar, args):
    for option, row in (("--help", r"^  (?:-\w, |    )--([\w-]+)"), ("--help=man", r"^\.B.*?\\-\\-([\w\\-]+)"),
                        ("--complete=--", r"^--([\w-]+)")):
        names = re.findall(row, busbar.run(*args.split(), option, emulated=False).stdout, re.M)
        assert len(names) > 1 and sorted(names) == sorted(set(names)), option


@pytest.mark.parametrize("args,equivalent", [
    (["help"], ["--help"]), (["help", "bench"], ["bench", "--help"]), (["help", "bench", "p2p"], ["bench", "p2p", "--help"]),
    (["help", "plan"], ["plan", "--help"]), (["help", "list"], ["list", "--help"]), (["help", "help"], ["--help"])])
def test_help_command_equals_the_help_option(busbar, args, equivalent):
    done, other = (busbar.run(*w, emulated=False) for w in (args, equivalent))
    assert done.returncode == other.returncode == 0 and done.stdout == other.stdout and "Usage:" in done.stdout


@pytest.mark.parametrize("topic", ["collectives", "dtypes", "ops", "proxies", "models", "clusters", "columns"])
def test_list_contains_every_topic(busbar, topic):
    one, complete = busbar.run("list", topic, emulated=False), busbar.run("list", emulated=False)
    assert one.returncode == 0 and len(one.stdout.splitlines()) > 2
    assert one.stdout in complete.stdout


@pytest.mark.parametrize("args",
                         ["list", "list dtypes", "plan gpt2_large 4 2 2 --ranks 2 --json -",
                          "plan gpt2_large 12 4 3 --ranks 8 --json /dev/full",
                                   "plan gpt2_large 4 2 2 --ranks 2 --cluster h100-sxm-ib --trace /dev/full",
                                   "plan all_reduce --ranks 2 --cluster h100-sxm-ib --csv -"])
def test_full_disk_fails_the_run(busbar, args):
    """The error is reported for outputs of one write and of many writes, wherever the disk is full."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(busbar.command(*args.split(), emulated=False), stdout=full, stderr=subprocess.PIPE, text=True)
    (line,) = lines_of(done)
    assert done.returncode == 1 and "cannot write" in line and "No space left on device" in line


def test_mpi_carries_no_payload(busbar):
    """MPI starts the ranks and distributes ids. The binary imports no function that could transfer data between ranks."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(busbar.build / "busbar")], capture_output=True, text=True,
                             check=True).stdout
    imported = {name.split("@")[0] for name in re.findall(r"\bU (P?MPI_\w+)", symbols)}
    assert imported <= {"MPI_Init_thread", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_set_errhandler", "MPI_Error_string", "MPI_Ibcast",
                    "MPI_Iallgather", "MPI_Ibarrier", "MPI_Test", "MPI_Abort", "MPI_Finalize"}


def test_first_gpu_out_of_range_is_reported_once(busbar):
    """NCCL_TESTS_DEVICE shifts the GPU numbers; 4 ranks from GPU 6 on exceed 8 GPUs."""
    program = str(busbar.build / "emulated" / "all_reduce_perf")
    done = subprocess.run([busbar.mpirun, "-n", "4", program, "-b", "8", "-e", "8"], env=busbar.environment({"NCCL_TESTS_DEVICE": "6"}),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 2
    (line,) = lines_of(done)
    assert "need GPUs 6 to 9" in line and "GPUs 0 to 7" in line
