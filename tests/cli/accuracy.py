"""Prints the error of predicted step times by kind of step, for the fitting and the testing half of the published steps.

    python3 tests/cli/accuracy.py [--rows] [OPTION OF busbar plan...]     (BUSBAR_BUILD: the build folder)

Rates may be chosen by the fitting half only. A step is in the testing half if the first byte of the MD5 sum of its publisher
(the text of `source` up to the first comma, colon or blank) and its model is odd, so all steps of one model of one publisher
are in the same half."""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent / "reference_data"
PUBLISHED, LATER, OUTSIDE = FILES = [json.loads((FOLDER / name).read_text()) for name in ("published.json", "later.json", "outside.json")]
MODELS = {name: config for file in FILES for name, config in file["models"].items()}
STEPS = [row for file in FILES for row in file["steps"]]
GENERATIONS = {"a": "Ampere", "h": "Hopper", "b": "Blackwell", "g": "Blackwell"}  # by the first letter of the profile
EXPERTS = ("qwen3", "deepseek", "llama4", "gpt_oss")


def half(row):
    publisher = re.split("[,: ]", row["source"])[0]
    return "testing" if hashlib.md5(f"{publisher} {row['model']}".encode()).digest()[0] % 2 else "fitting"


def kind(row):
    words = dict(re.findall(r"--(\S+) ([^-]\S*)", row["words"]))
    software = "torch" if words.get("dp-sync") in ("zero3", "hsdp") else "megatron"
    return (software, GENERATIONS[row["cluster"][0]], "experts" if row["model"].startswith(EXPERTS) else "dense",
            "8 bits" if row["fp8"] else "16 bits", "long context" if int(words.get("seq-length", 2048)) >= 32768 else "")


def arguments(row, folder):
    model = row["model"]
    if model in MODELS:
        model = folder / f"{row['model']}.json"
        model.write_text(json.dumps(MODELS[row["model"]]))
    return ["plan", "transformer", "--model", model, *row["words"].split(), *["--fp8"] * row["fp8"], "--cluster", row["cluster"],
            "--json", "-"]


def error_of(row, folder, more=()):
    program = pathlib.Path(os.environ["BUSBAR_BUILD"]) / "busbar"
    done = subprocess.run([program, *arguments(row, folder), *more], capture_output=True, text=True)
    return json.loads(done.stdout)["predicted"]["step_us"] / 1e6 / row["step_s"] - 1 if done.returncode == 0 else None


def summary(errors):
    if not errors:
        return "-"
    sizes = sorted(map(abs, errors))
    return (f"{len(errors):3} rows, mean {100 * statistics.mean(sizes):4.1f} %, bias {100 * statistics.mean(errors):+5.1f} %, "
            f"80 % within {100 * sizes[-(-len(sizes) * 4 // 5) - 1]:4.1f} %")


def main(more):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        for row in STEPS:
            arguments(row, pathlib.Path(folder))
        options = [word for word in more if word != "--rows"]
        errors = list(pool.map(lambda row: error_of(row, pathlib.Path(folder), options), STEPS))
    kinds = collections.defaultdict(lambda: {"fitting": [], "testing": []})
    for row, error in zip(STEPS, errors):
        if "--rows" in more or error is None:
            print(f"{half(row):8} {row['id']:50} {'refused' if error is None else f'{100 * error:+6.1f} %'}")
        for of in (kind(row), ("all",)) if error is not None else ():
            kinds[of][half(row)].append(error)
    for of in sorted(kinds):
        print(f"{' '.join(of):50} fitting {summary(kinds[of]['fitting']):60} testing {summary(kinds[of]['testing'])}")


if __name__ == "__main__":
    main(sys.argv[1:])
