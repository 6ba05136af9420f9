"""The memory that training needs, against published peaks (reference_data/memory.json).

Nothing of Megatron-LM's formulas is fitted. torch has one fitted factor, from FITTED; the other peaks test it. WITHOUT lists the peaks
that the words of a row do not describe: torchtitan recomputed single operations, which no option of busbar does."""
import json
import pathlib
import statistics

import pytest
from accuracy import MODELS

DATA = json.loads((pathlib.Path(__file__).parent / "reference_data/memory.json").read_text())
FITTED = {"titan 70B x256 2D fp8", "titan 8B x8 cp1 32K fp8"}
WITHOUT = {"titan 8B x8 FSDP compile fp8", "titan 8B x32 H200 fp8", "titan 8B x64 H200 fp8"}
PIPELINE = "titan 405B x512 3D 1F1B fp8"  # -25 %: parameters, gradients and logits that FSDP keeps explain 62 of 82.5 GiB


@pytest.fixture(scope="module")
def errors(busbar, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for row in DATA["peaks"]:
        if row["id"] in WITHOUT:
            continue
        model = row["model"]
        if model in MODELS:
            model = folder / f"{model}.json"
            model.write_text(json.dumps(MODELS[row["model"]]))
        done = busbar.run("plan", "transformer", "--model", model, *row["words"].split(), "--compute", "gemm", "--gpu-memory", "1000G", "--json", "-",
                          emulated=False)
        assert done.returncode == 0, done.stderr
        found[row["id"]] = json.loads(done.stdout)["memory"]["needed_bytes"] / 2**30 / row["gib"] - 1
    return found


def test_peaks_of_megatron(errors):
    rows = [error for name, error in errors.items() if name.startswith("SimuMax")]
    assert len(rows) == 12 and max(map(abs, rows)) < 0.02 and abs(statistics.mean(rows)) < 0.01


def test_peaks_of_torch(errors):
    rows = {name: error for name, error in errors.items() if name.startswith("titan")}
    assert set(rows) == {*FITTED, "titan 8B x8 cp2 64K fp8", PIPELINE} and -0.27 < rows.pop(PIPELINE) < -0.23
    assert all(abs(error) < 0.03 for error in rows.values())
