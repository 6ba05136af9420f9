"""bench --sweep-algorithms --write-tuner. The files are parsed by the rules that NCCL (plugins/tuner/example/README.md) and NCCLX
(comms/ncclx/meta/tuner/README.md) publish, and are used by a tuner plugin that was written from these rules (tests/emulator/nccl/tuner_from_file.c).
The fastest pairs follow from the factors in tests/emulator/nccl/README.md: TREE LL for small messages, RING SIMPLE, NCCL's choice, for large ones."""
import json
import re

import pytest
from conftest import BUILD

TIMES_ONLY = {"EMU_DATA": "off"}
PLUGIN = BUILD / "tests" / "emulator" / "nccl" / "libtuner_from_file.so"
ALGORITHMS = {"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"}


def sweep(busbar, tmp_path, *args, sizes="1K,4K,64M", ranks=2, env=TIMES_ONLY, code=0):
    done = busbar.run("bench", "all_reduce", "--sweep-algorithms", "--sizes", sizes, "--write-tuner", "tuner.csv", "--placement", "out_of_place",
                      "--json", "result.json", *args, ranks=ranks, env=env, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("# tuner file: ")]
    return lines, json.loads((tmp_path / "result.json").read_text())["tuner_file"]


def nccl_lines(path):
    """collective, min, max, algorithm, protocol, channels, nodes, ranks, pipeline operations, registered. The plugin reads 255 characters."""
    text = path.read_text()
    assert max(map(len, text.splitlines())) < 255
    lines = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    for line in lines:
        assert len(line) == 10 and line[3] in ALGORITHMS and line[4] in {"ll", "ll128", "simple"}
        assert line[0] in {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"}
    return [(line[0], int(line[1]), int(line[2]), line[3], line[4], *map(int, line[5:])) for line in lines]


def first_match(lines, collective, size, registered=0):
    return next(line[3:6] for line in lines if line[0] == collective and line[1] <= size <= line[2] and line[9] in (-1, registered))


def test_file_has_the_sure_gains_and_the_own_choices(busbar, tmp_path):
    printed, result = sweep(busbar, tmp_path, "-c", "0")
    lines = nccl_lines(tmp_path / "tuner.csv")
    assert printed == ["# tuner file: tuner.csv, 1 rule at least 3 % faster than NCCL's choice in two measurements"]
    assert lines == [("allreduce", 1024, 4096, "tree", "ll", 8, 1, 2, -1, 0),
                     ("allreduce", 0, 2**63 - 1, "ring", "simple", 8, 1, 2, -1, -1)]
    # another registration, sizes outside of the measured range and between two choices: NCCL's own choice
    assert {first_match(lines, "allreduce", size) for size in (0, 1023, 4097, 64 << 20, 1 << 40)} == {("ring", "simple", 8)}
    assert first_match(lines, "allreduce", 1024, registered=1) == ("ring", "simple", 8)
    assert result["path"] == "tuner.csv" and result["format"] == "nccl" and result["not_confirmed"] == 0
    (rule,) = result["rules"]
    assert (rule["collective"], rule["min_bytes"], rule["max_bytes"]) == ("all_reduce", 1024, 4096)
    assert not [path for path in tmp_path.iterdir() if path.name not in ("tuner.csv", "result.json")]


def test_run_with_the_file_shows_the_gain(busbar, tmp_path):
    _, result = sweep(busbar, tmp_path, "-c", "0")

    def times(plugin):
        env = {**TIMES_ONLY, "NCCL_TUNER_PLUGIN": str(plugin), "NCCL_TUNER_CONFIG_FILE": str(tmp_path / "tuner.csv")}
        run = busbar.json("bench", "all_reduce", "--sizes", "1K,4K,64M", "-c", "0", "--placement", "out_of_place", ranks=2, env=env,
                          tmp_path=tmp_path)
        return [row["time_us"]["p50"] for row in run["results"]]

    gains = [before / after for before, after in zip(times("none"), times(PLUGIN))]
    assert min(gains[:2]) == pytest.approx(result["rules"][0]["gain"], rel=1e-3) and gains[2] == 1


def test_no_file_without_a_gain(busbar, tmp_path):
    (tmp_path / "tuner.csv").write_text("before\n")
    printed, result = sweep(busbar, tmp_path, "-c", "0", sizes="64M")
    assert printed == ["# tuner file: not written, nothing is significantly and at least 3 % faster than NCCL's choice; the existing file is kept"]
    assert (tmp_path / "tuner.csv").read_text() == "before\n" and result["path"] is None and result["rules"] == []
    printed, _ = sweep(busbar, tmp_path, "-c", "0", "--tuner-gain", "300", sizes="1K")  # TREE LL is 3.3 times as fast
    assert printed == ["# tuner file: not written, nothing is significantly and at least 300 % faster than NCCL's choice; the existing file is kept"]


def test_gain_that_the_second_measurement_does_not_confirm_is_left_out(busbar, tmp_path):
    # 7 measurements of 152 operations precede the second measurement of TREE LL: NCCL's choice, five pairs, NCCL's choice (test_algorithms.py).
    fault = {"EMU_FAULT": "corrupt:rank=0,call=1195,name=ncclAllReduce"}
    printed, result = sweep(busbar, tmp_path, sizes="1K", env=fault, code=3)
    assert printed == ["# tuner file: not written, nothing is significantly and at least 3 % faster than NCCL's choice "
                       "(1 not confirmed by the second)"]
    assert result["not_confirmed"] == 1 and not (tmp_path / "tuner.csv").exists()


def test_ranks_that_share_a_gpu_have_no_gains(busbar, tmp_path):
    printed, _ = sweep(busbar, tmp_path, "--share-gpu", sizes="1K", env={"EMU_DEVICES": "1"})
    assert "not written" in printed[0] and not (tmp_path / "tuner.csv").exists()


def test_ncclx_selects_by_bytes_per_rank(busbar, tmp_path):
    sweep(busbar, tmp_path, "-c", "0", "--tuner-format", "ncclx", ranks=4)
    lines = [line for line in (tmp_path / "tuner.csv").read_text().splitlines() if not line.startswith("#")]
    # Commas inside brackets are part of an interval: collective, bytes / ranks, algorithm, protocol, channels, nodes, ranks per node
    assert [re.split(r",(?![^\[]*\])", line) for line in lines] == [["allreduce", "[256,1024]", "tree", "ll", "-1", "1", "4"]]


def test_one_pair_has_nothing_to_compare_with(busbar, tmp_path):
    (tmp_path / "tuner.csv").write_text("old")
    done = busbar.run("bench", "all_reduce", "--sweep-algorithms", "--sizes", "1K", "--write-tuner", "tuner.csv", "--repeats", "6", ranks=2,
                      env={**TIMES_ONLY, "NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}, cwd=tmp_path)
    assert "# no verdict on NCCL's choice: no other algorithm or protocol was measured\n" in done.stdout, done.stdout + done.stderr
    assert "faster than NCCL's choice; the existing file is kept\n" in done.stdout and (tmp_path / "tuner.csv").read_text() == "old"
