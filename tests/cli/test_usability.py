"""Regression tests for problems of new users that no other file covers."""
import json
import re

import pytest

NO_DATA = {"EMU_DATA": "off"}
H100 = ("--cluster", "h100-sxm-ib")


def test_nccl_tests_program_names_are_commands(busbar):
    done = busbar.run("all_reduce_perf", "-b", "1M", "-e", "1M", "-n", 1, "-w", 1, "-g", 2)
    assert done.returncode == 0 and "# Collective test starting: all_reduce_perf" in done.stdout
    assert "# Out of bounds values : 0 OK" in done.stdout


@pytest.mark.parametrize("args", [("bench", "--help"), ("proxy", "gpt2_large", "-h"), ("--version",)])
def test_prints_help_once_under_a_launcher(busbar, args):
    done = busbar.run(*args, ranks=3)
    assert done.returncode == 0 and len(re.findall(r"^(?:Usage: |busbar 0)", done.stdout, re.M)) == 1


def test_version_options_print_the_same(busbar):
    assert {busbar.run(*args).stdout for args in (("--version",), ("-V",), ("-v",), ("bench", "--version"))} == {"busbar 0.1.0\n"}


@pytest.mark.parametrize("tp,extra_args,warned", [(16, (), True), (8, (), False), (16, ("--gpus-per-node", 16), False)])
def test_warns_about_inter_node_tensor_parallelism(busbar, tmp_path, tp, extra_args, warned):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 4096}))
    done = busbar.run("plan", "transformer", "--model", tmp_path, "--ranks", 32, "--tp", tp, *H100, *extra_args)
    assert done.returncode == 0, done.stderr
    assert ("tensor parallelism of 16 ranks spans several nodes of 8 GPUs; to stay within a node, try: --tp 8" in done.stderr) == warned
    if tp == 8:
        spread = ("--tp", 2, "--order", "dp-tp-cp-ep-pp")
        done = busbar.run("plan", "transformer", "--model", tmp_path, "--ranks", 32, *spread, *H100)
        assert done.stderr.endswith("2 ranks spans several nodes of 8 GPUs; to stay within a node, begin --order with tp\n"), done.stderr
        done = busbar.run("plan", "gpt3", 8, "--ranks", 64, *H100)
        assert done.stderr.endswith("tensor parallelism of 4 ranks spans several nodes of 8 GPUs\n"), done.stderr


@pytest.mark.parametrize("max_positions,args,reported", [(131072, (), True), (131072, ("--seq-length", 65536), False), (8192, (), False)])
def test_reports_a_large_default_sequence_length(busbar, tmp_path, max_positions, args, reported):
    config = {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": max_positions}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = busbar.run("plan", "transformer", "--model", tmp_path, "--ranks", 2, *args)
    assert done.returncode == 0 and ("(the model's maximum; set --seq-length)" in done.stdout) == reported


def test_proxy_all_suggests_supported_rank_counts(busbar):
    done = busbar.run("proxy", "all", "--quick", "--steps", 1, ranks=2, env=NO_DATA)
    rank_counts = dict(re.findall(r"^  (\w+) +cannot run on 2 ranks; try: (\d+) ranks$", done.stdout, re.M))
    assert rank_counts["cosmoflow"] == "4" and rank_counts["gpt3"] == "8" and rank_counts["resnet152_scal"] == "256"
    assert done.stdout.count("cannot run on 2 ranks") == len(rank_counts)


def test_emulated_gpus_without_data_are_flagged_as_not_checked(busbar):
    done = busbar.run("bench", "all_reduce", "--sizes", "1K", "-n", 1, "--repeats", 1, ranks=2, env=NO_DATA)
    assert done.stdout.splitlines()[-1].startswith("# data not verified (EMU_DATA=off) in 2 of 2 results; ")


@pytest.mark.parametrize("args", [("proxy", "transformer", "--model", "llama3_8b", "-n", 1, "-w", 0, "--traced-steps", 0, "--no-alone"),
                                  ("bench", "all_reduce", "--sizes", "15G", "-n", 1, "--repeats", 1, "-w", 0)])
def test_rejects_data_of_emulated_gpus_that_exceeds_the_host_memory(busbar, args):
    available = int(re.search(r"MemAvailable: +(\d+) kB", open("/proc/meminfo").read()).group(1)) << 10
    if available > 110 << 30:
        pytest.skip("the host has memory for this data")
    done = busbar.run(*args, "-g", 4, timeout=15, env={"EMU_DATA": "on"})
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert re.match(r"busbar: the data of 4 emulated GPUs needs .* but .*; try: EMU_DATA=off \(no data\), or ", done.stderr)
    assert busbar.run(*args, "-g", 4, env=NO_DATA).returncode == 0


def test_reports_the_memory_of_an_emulated_gpu_before_that_of_the_host(busbar):
    done = busbar.run("proxy", "transformer", "--model", "llama3_70b", "-g", 4, timeout=15)
    assert done.returncode == 2 and "of GPU memory needed" in done.stderr and "EMU_DATA" not in done.stderr
