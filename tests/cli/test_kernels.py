"""Kernels on emulated GPUs: their source and their fast native versions give the same results, and all kernels load before a step
begins."""
import pytest

STEP = ("proxy", "gpt3_one_pipe_step", 2, "--warmup", 1, "--steps", 1, "--traced-steps", 0, "--no-alone", "--timeout", 20)


def test_kernels_are_loaded_before_the_step(busbar):
    """Each rank posts a receive and then launches its first kernel. If loading the kernel waited for the receive, the ranks would
    deadlock."""
    done = busbar.run(*STEP, ranks=8, env={"EMU_LAZY_LOADING": "1", "EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("args", [("bench", "all_reduce", "alltoall", "-e", "64K", "-d", "half", "-n", 2),
                                   ("proxy", "resnet50", "--scale-counts", 0.001, "--steps", 1, "--check")])
def test_source_and_native_kernels_give_the_same_results(busbar, args):
    source, native = (busbar.run(*args, ranks=2, env={"EMU_KERNELS": kernels}) for kernels in ("source", "fast"))
    assert source.returncode == native.returncode == 0, source.stderr + native.stderr
    assert modelled_lines(source.stdout) == modelled_lines(native.stdout)


def modelled_lines(text):
    """Returns the lines with modelled times, without the host time of this machine."""
    return [line for line in text.splitlines() if not line.startswith("#") and "host issue" not in line]


def test_rejects_unknown_emu_kernels(busbar):
    done = busbar.run("bench", "all_reduce", "-e", "8", env={"EMU_KERNELS": "quick"})
    assert done.returncode == 2 and "EMU_KERNELS=quick: expected fast or source" in done.stderr
