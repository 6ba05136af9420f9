"""Names of options and programs of other tools are answered with busbar's name, and each answer is a valid command."""
import re

import pytest
from conftest import ROOT

SOURCE = (ROOT / "proxies/workloads/registry/foreign_names.c").read_text()
OPTIONS, PROGRAMS = (re.findall(r'{"([^"]+)", (?:NULL|"([^"]+)"), "([^"]+)"}', part) for part in SOURCE.split("bb_foreign_programs[] =", 1))
RANKS = {"gpt2_large": 4, "gpt3": 16, "gpt3_moe": 64, "bert_large": 4}


def refusal(busbar, *args):
    done = busbar.run("plan", *args, "--ranks", 4, emulated=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    return done.stderr.removeprefix("busbar: ").rstrip("\n")


def test_the_tables_contain_the_names_of_mpi4dl():
    assert {"num-spatial-parts", "slice-method", "split-size", "spatial-size", "parts", "times", "enable-master-comm-opt"} <= {
        name for name, _, _ in OPTIONS}
    assert {"gpt-2", "gpt-3", "benchmark_amoebanet_sp", "benchmark_resnet_gems_master"} <= {name for name, _, _ in PROGRAMS}


def test_foreign_options_are_answered(busbar):
    for name, ours, text in OPTIONS:
        if name == "ranks":  # an option of plan, unknown to proxy
            continue
        line = refusal(busbar, "spatial", f"--{name}")
        assert line == (f"--{name} is {ours} here; try: {text}" if ours else f"--{name} has no counterpart here: {text}; leave it out")
        if ours:  # the suggested options exist: an unsupported option or an invalid layout is another error
            done = busbar.run("plan", "transformer", *text.split(), "--ranks", 4, emulated=False)
            assert not re.search("unknown|not valid|requires a value", done.stderr), (name, done.stderr)


def test_the_suggestion_has_the_number_of_the_user(busbar):
    assert refusal(busbar, "spatial", "--split-size", "3").endswith("is --splits here; try: --splits 3")
    assert refusal(busbar, "spatial", "--num-spatial-parts=8,4").endswith("try: --spatial-parts 8,4")
    assert refusal(busbar, "gems", "--times", "3").endswith("try: --replications 4")  # 3 passes there are 6 here: an example
    assert refusal(busbar, "gems", "--enable-master-comm-opt", "3").endswith("try: --comm-opt")
    assert refusal(busbar, "spatial", "--slice-method", "1").endswith("try: --slice vertical")


def test_foreign_programs_are_answered(busbar):
    for name, ours, text in PROGRAMS:
        assert refusal(busbar, f"./{name}.py") == f"./{name}.py is {ours} here; try: {text}"
        ranks = RANKS.get(text.split()[0], 8)
        done = busbar.run("plan", *text.split(), "--ranks", ranks, emulated=False)
        assert done.returncode == 0, (text, done.stderr)


def test_number_of_ranks_of_a_run_comes_from_mpirun(busbar):
    done = busbar.run("proxy", "gpt3", "--ranks=8")
    assert done.returncode == 2 and done.stderr == "busbar: --ranks is mpirun -n here; try: mpirun -n 8 busbar proxy ...\n"


@pytest.mark.parametrize("model,proxy", [("llama3_70b", "transformer"), ("resnet18", "data_parallel"), ("amoebanet_d", "spatial"),
                                         ("resnet110_v2", "spatial")])
def test_model_in_place_of_a_proxy(busbar, model, proxy):
    assert refusal(busbar, model) == f"{model} is a model, not a proxy; try: {proxy} --model {model}"
