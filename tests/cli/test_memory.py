"""The memory that training needs, against published peaks (reference_data/memory.json).

Nothing of Megatron-LM's formulas is fitted. torch has one fitted factor, from FITTED; the other peaks test it, among them all with
--recompute ops. cp1 to cp4 of 405B gather parameters in 8 bits (torchtitan, train_configs/llama3_405b.toml), cp8 cannot (float8.py requires
dp_shard > 1). 3D is stated with 16 bits, which the source does not say: 3D 1F1B has the tensors of "4D cp1" (also in the code that PyTorch 2.6
generates for a layer, with one or four samples), but 7.2 GiB more, and cp8 has 7.8 GiB more than cp4. IN_8_BITS: the errors with 8 bits."""
import json
import pathlib
import statistics

import pytest
from accuracy import MODELS

DATA = json.loads((pathlib.Path(__file__).parent / "reference_data/memory.json").read_text())
FITTED = {"titan 70B x256 2D fp8", "titan 8B x8 cp1 32K fp8"}
IN_8_BITS = {"titan 405B x512 3D 1F1B fp8": -0.127, "titan 405B x512 3D interleaved fp8": -0.070}


@pytest.fixture(scope="module")
def errors(busbar, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    found = {}
    in_8_bits = [{**row, "id": row["id"] + " gather", "words": row["words"] + " --fp8-param-gather"} for row in DATA["peaks"]
                 if row["id"] in IN_8_BITS]
    for row in DATA["peaks"] + in_8_bits:
        model = row["model"]
        if model in MODELS:
            model = folder / f"{model}.json"
            model.write_text(json.dumps(MODELS[row["model"]]))
        forecast = ("--cluster", "h100-sxm-ib", "--software", row["software"]) if "software" in row else ("--compute", "gemm")
        done = busbar.run("plan", "transformer", "--model", model, *row["words"].split(), *forecast, "--gpu-memory", "1000G", "--json", "-",
                          emulated=False)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        found[row["id"]] = plan.get("predicted", plan)["memory"]["needed_bytes"] / 2**30 / row["gib"] - 1
    return found


def test_peaks_of_megatron(errors):
    rows = [error for name, error in errors.items() if name.startswith("SimuMax")]
    assert len(rows) == 12 and max(map(abs, rows)) < 0.02 and abs(statistics.mean(rows)) < 0.01


def test_peaks_of_torch(errors):
    rows = {name: error for name, error in errors.items() if name.startswith("titan")}
    for name, error in IN_8_BITS.items():
        assert rows.pop(name + " gather") == pytest.approx(error, abs=0.005)
    assert abs(statistics.mean(rows.pop(name) for name in FITTED)) < 0.005
    operations = [rows[row["id"]] for row in DATA["peaks"] if "--recompute ops" in row["words"]]
    assert len(operations) == 11 and max(map(abs, operations)) < 0.08 and statistics.mean(map(abs, operations)) < 0.025
    pipelines = [error for name, error in rows.items() if "405B" in name]
    assert len(pipelines) == 6 and max(map(abs, pipelines)) < 0.055
    compiled = [rows[row["id"]] for row in DATA["peaks"] if row.get("software") == "torch-compile" and "--loss" not in row["words"]]
    assert len(compiled) == 15 and max(map(abs, compiled)) < 0.055  # the model is compiled, the loss is not
    assert len(rows) == 22 and all(abs(error) < 0.08 for error in rows.values())
