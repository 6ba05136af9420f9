"""Kernels on emulated GPUs: run from their own source and by quick twins alike, and loaded before a step begins."""
import pytest

STEP = ("proxy", "gpt3_one_pipe_step", 2, "--warmup", 1, "--steps", 1, "--traced-steps", 0, "--no-alone", "--timeout", 20)


def test_no_kernel_is_loaded_within_a_step(busbar):
    """Each rank posts a receive and then launches its first kernel. If that waits for the receive, no rank goes on."""
    done = busbar.run(*STEP, ranks=8, env={"EMU_LAZY_LOADING": "1", "EMU_DATA": "off"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [("bench", "all_reduce", "alltoall", "-e", "64K", "-d", "half", "-n", 2),
                                   ("proxy", "resnet50", "--scale-counts", 0.001, "--steps", 1, "--check")])
def test_source_and_quick_twins_say_the_same(busbar, words):
    by_source, by_twins = (busbar.run(*words, ranks=2, env={"EMU_KERNELS": kernels}) for kernels in ("source", "fast"))
    assert by_source.returncode == by_twins.returncode == 0, by_source.stderr + by_twins.stderr
    assert figures(by_source.stdout) == figures(by_twins.stdout)


def figures(text):
    """What is modelled: the host's own time is this machine's."""
    return [line for line in text.splitlines() if not line.startswith("#") and "host issue" not in line]


def test_an_unknown_way_to_run_kernels_is_refused(busbar):
    done = busbar.run("bench", "all_reduce", "-e", "8", env={"EMU_KERNELS": "quick"})
    assert done.returncode == 2 and "EMU_KERNELS=quick: expected source or fast" in done.stderr
