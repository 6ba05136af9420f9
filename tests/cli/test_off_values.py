"""An option with the value that means "off" or "default" (--tp 1, -m 1, --jitter 0%) has no effect, and every command accepts it, so that loops
and studies may contain it. One command line holds all options of a command: an error line names the rejected option."""
import re

import pytest

CLUSTER = ("--cluster", "h100-sxm-ib")
ONES = "--tp 1 --pp 1 --cp 1 --ep 1 --etp 1 --vpp 1 --micro-batches 1 --fused-layers 1 --local-dp 1 --scale-counts 1".split()
# Options whose default is not a number in the help: --matrix is a file, and -G selects a mode of its own.
BENCH = "-G 0 -z 0 --min-ctas 0 --max-ctas 0 --max-p2p-peers 0 -I 0 -K 0 -M 0 -S 0 -x -1 --min-busbw 0 -C 0 -y 0 -R 0 -u 0 -N 1".split()


def defaults(busbar, *command):
    """[option, value, ...]: the options of a command whose help ends in "(default NUMBER)"."""
    text = busbar.run(*command, "--help", emulated=False).stdout
    rows = re.findall(r"(?m)^  (?:-\w, |    )(--[\w-]+)=(\S+(?:.*\n)(?: {20,}\S.*\n)*)", text)
    found = [(name, re.search(r"\(default (-?[\d.]+[KMG]?)\)$", " ".join(row.split()))) for name, row in rows]
    return [word for name, value in found if value for word in (name, value[1])]


def accept(busbar, *args, **kw):
    done = busbar.run(*args, **kw)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command,least,args", [
    (("bench", "all_reduce"), 15, (*BENCH, "-e", "8", "-n", "1", "--repeats", "1")), (("bench", "p2p"), 4, ("--bandwidth-sizes", "8", "-n", "1")),
    (("bench", "comm"), 1, ("--repeats", "1")), (("bench", "overlap"), 2, ("--repeats", "2", "--gemm", "256")),
    (("bench", "compute"), 3, ("-n", "1", "--repeats", "1"))])
def test_bench_accepts_all_defaults(busbar, command, least, args):
    given = defaults(busbar, *command)
    assert len(given) >= 2 * least
    accept(busbar, *command, *given, *args, "--quiet", ranks=2, env={"EMU_DATA": "off"})


@pytest.mark.parametrize("name", ["all_reduce", "alltoallv", "resnet50", "resnet152", "dlrm", "data_parallel --model gpt2_small",
                                  "transformer --model gpt2_small"])
def test_plan_accepts_sizes_of_1(busbar, name):
    """These steps divide no layer among ranks, so the sizes of all axes but the data-parallel axis are 1. The time is that without the options."""
    plan = ("plan", *name.split(), "--ranks", 4, *CLUSTER)
    extra = ONES[:-2] if name in ("all_reduce", "alltoallv") else ONES
    without, given = accept(busbar, *plan), accept(busbar, *plan, *extra)
    assert without.splitlines()[2:] == given.splitlines()[2:]


@pytest.mark.parametrize("name,option", [("gpt3", "tp"), ("gpt3_moe", "ep"), ("cosmoflow", "tp"), ("gpt2_large", "pp"), ("spatial", "pp")])
def test_plan_rejects_sizes_of_1_that_contradict_the_step(busbar, name, option):
    done = busbar.run("plan", name, "--ranks", 4, f"--{option}", 1)
    assert done.returncode == 2 and f"{name}: this proxy does not support --{option}" in done.stderr


@pytest.mark.parametrize("args", [
    "transformer --model gpt2_small --etp 1 --ep 1 --moe-imbalance 0", "spatial --fused-layers 1 --local-dp 1 --spatial-splits 1",
    "spatial --spatial-parts 1 --spatial-splits 1", "gems --fused-layers 1 --local-dp 1 --spatial-splits 1",
    "layer_parallel --spatial-parts 1 --spatial-splits 1 --fused-layers 1 --local-dp 1", "gems --spatial-parts 2 --local-dp 1",
    "dlrm --delay rank=1:0us", "all_reduce --jitter 0% --seed 3 --samples 50", "transformer --model gpt2_small --jitter 0% --seed 3 --samples 50"])
def test_plan_accepts_values_without_effect(busbar, args):
    """Each option is left out in the second run: the plans are equal except for the lines that repeat the command line."""
    off = r" --(?:etp|ep|moe-imbalance|fused-layers|local-dp|spatial-splits|jitter|seed|samples|delay) \S+"
    given, without = (accept(busbar, "plan", *text.split(), "--ranks", 4, *CLUSTER) for text in (args, re.sub(off, "", args)))
    assert [line for line in given.splitlines()[2:] if not re.search("^(#|  ) *(delay|injected): ", line)] == without.splitlines()[2:]


@pytest.mark.parametrize("args,equivalent", [
    ("--cp 1 --cp-comm a2a", ""), ("--tp 1 --sequence-parallel", ""), ("--vpp 1 --pp 2 --schedule interleaved", "--pp 2"),
    ("--pp 1 --vpp 2", ""), ("--pp 1 --schedule interleaved --microbatch-group-size 1", ""), ("--pp 1 --decoder-first-pipeline-num-layers 3", ""),
    ("--model mixtral_8x7b --ep 1 --moe-dispatch dedup --moe-node-limit 2 --fp8-dispatch", "--model mixtral_8x7b")])
def test_options_for_several_ranks_have_no_effect_with_one(busbar, args, equivalent):
    """A loop over the sizes of an axis may begin with 1. Without the size, the option is an error."""
    model = () if "--model" in args else ("--model", "gpt2_small")
    given, plain = (accept(busbar, "plan", "transformer", *model, *text.split(), "--ranks", 4, *CLUSTER) for text in (args, equivalent))
    assert given.replace("with the given options --ep 1, the next", "the next").splitlines()[2:] == plain.splitlines()[2:]
