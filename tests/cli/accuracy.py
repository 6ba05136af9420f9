"""Prints the error of predicted step times by kind of step, for the fitting and the testing half of the published steps.

    python3 tests/cli/accuracy.py [--rows] [--write] [OPTION OF busbar plan...]     (BUSBAR_BUILD: the build folder)

--write writes the error of each step (reference_data/errors.json), from which the tests read it because some predictions take seconds, and
the errors that a forecast reports (proxies/offline/plan/accuracy.def), and the penalties of --best-layout. Rates may be chosen by the fitting half only. A step is in the testing
half if the first byte of the MD5 sum of its publisher (the text of `source` up to the first comma, colon or blank) and its model is odd, so
all steps of one model of one publisher are in the same half. The steps of checking.json are in neither half: forecasts report their errors, and
nothing may be chosen by them."""
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent / "reference_data"
PUBLISHED, LATER, OUTSIDE, CHECKING = FILES = [json.loads((FOLDER / f"{name}.json").read_text()) for name in ("published", "later", "outside", "checking")]
MODELS = {name: config for file in FILES for name, config in file["models"].items()}
STEPS = [row for file in FILES[:3] for row in file["steps"]]
CHECKS = [{"id": f"{model} x{words.split()[1]} {cluster} {container}", "source": CHECKING["about"], "model": model, "cluster": cluster, "step_s": seconds,
           "words": words.replace("MEGATRON", CHECKING["megatron"]), "fp8": False, "checking": True}
          for model, cluster, words, by_container in CHECKING["rows"] for container, seconds in by_container.items()]
GENERATIONS = {"a": "Ampere", "h": "Hopper", "b": "Blackwell", "g": "Blackwell"}  # by the first letter of the profile
HALVES = ("fitting", "testing", "checking")
ERRORS = FOLDER / "errors.json"
CLUSTERS = pathlib.Path(__file__).parents[2] / "profiles/clusters"
TABLE = pathlib.Path(__file__).parents[2] / "proxies/offline/plan/accuracy.def"
EXPERTS = ("qwen3", "deepseek", "llama4", "gpt_oss", "kimi")
MAMBA = ("nemotron3_nano", "nemotron3_super")
LAYERS = {"dense": "DENSE", "many experts": "MANY_EXPERTS", "Mamba": "MAMBA"}  # in accuracy.def
PENALTIES = pathlib.Path(__file__).parents[2] / "proxies/offline/layouts/penalty.def"
SHARDED = ("WHOLE", "SHARDED_ON_NODE", "SHARDED_OVER_NODES")
CONTEXTS = ("SHORT_CONTEXT", "LONG_CONTEXT", "SHORT_CONTEXT_CP", "LONG_CONTEXT_CP")
EXPERTS_OF_GPU = ("NO_EXPERTS", "FEW_EXPERTS", "MANY_EXPERTS_PER_GPU")
LAYER_EXPERTS = {"qwen3_next": 512, "qwen3_": 128, "deepseek_v2": 160, "deepseek": 256, "llama4": 128, "gpt_oss": 128, "grok": 8, "mixtral": 8}


def half(row):
    if row.get("checking"):
        return "checking"
    publisher = re.split("[,: ]", row["source"])[0]
    return "testing" if hashlib.md5(f"{publisher} {row['model']}".encode()).digest()[0] % 2 else "fitting"


def generation(row):
    cluster = json.loads((CLUSTERS / f"{row['cluster']}.json").read_text())
    return GENERATIONS[cluster.get("base", row["cluster"])[0]]


def bits(row):
    low = "--fp8" in row["words"] or "--gemm-precision mxfp8" in row["words"]
    return "4 bits" if "--gemm-precision nvfp4" in row["words"] else "8 bits" if row["fp8"] or low else "16 bits"


def kind(row):
    words = dict(re.findall(r"--(\S+) ([^-]\S*)", row["words"]))
    sharded = words.get("dp-sync") in ("zero3", "hsdp")
    software = words.get("software") or ("torch" if sharded or "lora-rank" in words else
                                         "megatron-plain" if "--no-overlap" in row["words"] else "megatron")
    layers = "Mamba" if row["model"] in MAMBA else "many experts" if row["model"].startswith(EXPERTS) else "dense"
    return (software, GENERATIONS[row["cluster"][0]], layers,
            bits(row), *["long context"] * (int(words.get("seq-length", 2048)) >= 32768), *["LoRA"] * ("lora-rank" in words))


def arguments(row, folder):
    model = row["model"]
    if model in MODELS:
        model = folder / f"{row['model']}.json"
        if not model.exists():  # other predictions may be reading it
            model.write_text(json.dumps(MODELS[row["model"]]))
    return ["plan", "transformer", "--model", model, *row["words"].split(), *["--fp8"] * row["fp8"], "--cluster", row["cluster"],
            "--json", "-"]


def predict(row, folder, more=()):
    program = pathlib.Path(os.environ["BUSBAR_BUILD"]) / "busbar"
    done = subprocess.run([program, *arguments(row, folder), *more], capture_output=True, text=True)
    return json.loads(done.stdout)["predicted"] if done.returncode == 0 else None


def passes(row):
    """Number of forward passes of micro-batches through pipeline stages, by which the time of a prediction grows."""
    words = {key: int(value) for key, value in re.findall(r"--(\S+) (\d+)(?= |$)", row["words"])}
    stages, width = words.get("pp", 1), words.get("tp", 1) * words.get("cp", 1)
    replicas = words["ranks"] // (stages * width)
    batches = words.get("micro-batches") or words.get("global-batch-size", replicas) // (replicas * words.get("micro-batch-size", 1))
    return stages * words.get("vpp", 1) * batches


def predict_all(rows, more=()):
    """Returns the prediction of each row, None where the words are refused. Steps of several containers are predicted once."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        of = {tuple(map(str, arguments(row, pathlib.Path(folder)))): row for row in rows}
        predictions = dict(zip(of, pool.map(lambda row: predict(row, pathlib.Path(folder), more), of.values())))
        return [predictions[tuple(map(str, arguments(row, pathlib.Path(folder))))] for row in rows]


def error_of(row, prediction):
    return prediction["step_us"] / 1e6 / row["step_s"] - 1


def written_errors():
    """Returns each step with its written error; None: the words are refused."""
    return list(zip(STEPS + CHECKS, json.loads(ERRORS.read_text()), strict=True))


def layout_errors(errors):
    """Returns the mean absolute error of each layout: of steps that differ only in the container, which are not independent."""
    layouts = {}
    for row, error in errors:
        layouts.setdefault((row["model"], row["cluster"], row["words"], row["fp8"]), []).append(abs(error))
    return [statistics.mean(of) for of in layouts.values()]


def band_of(errors, of):
    """Returns the error that 80 % of further steps of a kind do not exceed, and the number of layouts that it comes from: those of the
    kind, or of the software (with Mamba layers: of those with it) if they are fewer than 4; then the band is at least the largest error of the kind. A kind of fewer than 12
    layouts has at least the band of its software, because the rates may have been chosen by these steps. Split conformal prediction: the
    ceil(0.8 (n + 1))-th smallest error of n layouts."""
    alike = [(row, error) for row, error in errors if kind(row)[0] == of[0] and (kind(row)[2] == "Mamba") == (of[2] == "Mamba")]
    own, software = layout_errors([(row, error) for row, error in alike if kind(row) == of]), layout_errors(alike)
    bands = [sorted(sizes)[min(len(sizes), math.ceil(0.8 * (len(sizes) + 1))) - 1] for sizes in (own, software) if sizes]
    if len(own) < 4:
        return max([bands[-1], *own]), len(software)
    return (max(bands) if len(own) < 12 else bands[0]), len(own)


def table(errors):
    """Returns the rows of proxies/offline/plan/accuracy.def, without the steps that train adapters (LoRA)."""
    lines, errors = [], [(row, error) for row, error in errors if "LoRA" not in kind(row)]
    for of in sorted({kind(row) for row, _ in errors}):
        its = [error for row, error in errors if kind(row) == of]
        band, steps = band_of(errors, of)
        flags = ", ".join((LAYERS[of[2]], of[3].split()[0], str(len(of) > 4).lower()))
        lines.append(f'{{"{of[0]}", BB_{of[1].upper()}, {flags}, {len(its)}, {statistics.mean(map(abs, its)):.3f}, '
                     f'{statistics.mean(its):.3f}, {band:.3f}, {steps}}},\n')
    return "".join(lines)


def layout_of(row):
    """Returns the kind of layout for the penalties of --best-layout: (experts, tp, whether pp, sharded parameters), and (context, cp)."""
    words = dict(re.findall(r"--(\S+) ([^-]\S*)", row["words"]))
    size = {name: int(words.get(name, 1)) for name in ("tp", "cp", "pp", "ep")}
    cluster = json.loads((CLUSTERS / f"{row['cluster']}.json").read_text())
    sharded = words.get("dp-sync") in ("zero3", "hsdp")
    experts = next((count for model, count in LAYER_EXPERTS.items() if row["model"].startswith(model)), 0)
    layout = (experts and 1 + (experts // size["ep"] >= 8), size["tp"], size["pp"] > 1, sharded and 1 + (int(words["ranks"]) > cluster["gpus_per_node"]))
    return layout, CONTEXTS[2 * (size["cp"] > 1) + ("long context" in kind(row))]


def penalties(errors):
    """Returns the rows of proxies/offline/layouts/penalty.def, by kind of layout: by how much steps of Megatron-LM took longer than
    predicted, compared with the other steps of their kind(), because all layouts of a search are of one kind(). The mean includes two
    steps that took as long as predicted, so that a single step has a third of the weight. Kinds of fewer than four
    steps have the mean of all steps with their tp, pp, sharding and experts, with any cp and length of samples, if these are four or more."""
    errors = [(row, error) for row, error in errors if kind(row)[0].startswith("megatron") and "--dp-sync zero2" not in row["words"]
              and half(row) != "checking"]
    means = {of: statistics.mean(error for row, error in errors if kind(row) == of) for of in {kind(row) for row, _ in errors}}
    rows = [(layout_of(row), (1 + means[kind(row)]) / (1 + error) - 1, abs(error)) for row, error in errors]
    lines = []
    for of in sorted({layout for (layout, _), *_ in rows}):
        experts, tp, pp, sharded = of
        known = sum(layout == of for (layout, _), *_ in rows) >= 4
        for context in (*CONTEXTS, *["ANY_CONTEXT"] * known):
            its = [longer for (layout, length), longer, _ in rows if layout == of and context in (length, "ANY_CONTEXT")]
            if len(its) >= (4 if known else 1):
                lines.append(f"{{{tp}, {str(pp).lower()}, {SHARDED[sharded]}, {EXPERTS_OF_GPU[experts]}, {context}, {len(its)}, "
                             f"{max(0, sum(its) / (len(its) + 2)):.3f}}},\n")
    for experts, name in enumerate(EXPERTS_OF_GPU):
        its = sorted(size for (of, _), _, size in rows if of[0] == experts)
        lines.append(f"{{0, false, WHOLE, {name}, ANY_CONTEXT, {len(its)}, {its[math.ceil(0.8 * (len(its) + 1)) - 1]:.3f}}},\n")
    return "".join(lines)


def share_within(errors, of="testing", by=("fitting",)):
    """Returns the share of the steps of half `of` whose error is within the band that the halves `by` give their kind; without those whose
    software they do not have, and without Mamba layers, which neither half has."""
    fitting = [(row, error) for row, error in errors if half(row) in by and "LoRA" not in kind(row)]
    softwares = {kind(row)[0] for row, _ in fitting}
    held = [abs(error) <= band_of(fitting, kind(row))[0] for row, error in errors
            if half(row) == of and kind(row)[0] in softwares and "Mamba" not in kind(row)]
    return sum(held) / len(held)


def checked(errors):
    """Returns the steps of checking.json by group: number, mean error and bias in percent, as in profiles/clusters/README.md."""
    groups = {}
    for row, error in errors:
        if half(row) == "checking":
            container, of = row["id"].split()[-1], kind(row)
            year = f"Megatron-Bridge, containers of 20{container[:2]}" if container[0].isdigit() else container
            if "Mamba" in of:
                groups.setdefault(f"Mamba, {of[1]}", []).append(error)
                continue
            groups.setdefault(year, []).append(error)
            group = "LoRA" if "LoRA" in of else "NVFP4" if of[3] == "4 bits" else "dense" if of[2] == "dense" else f"{of[2]}, {of[0]}, {of[1]}"
            groups.setdefault(group, []).append(error)
    return {name: (len(of), 100 * statistics.mean(map(abs, of)), 100 * statistics.mean(of)) for name, of in groups.items()}


def summary(errors):
    if not errors:
        return "-"
    sizes = sorted(map(abs, errors))
    return (f"{len(errors):3} rows, mean {100 * statistics.mean(sizes):4.1f} %, bias {100 * statistics.mean(errors):+5.1f} %, "
            f"80 % within {100 * sizes[-(-len(sizes) * 4 // 5) - 1]:4.1f} %")


def main(more):
    rows = STEPS + CHECKS
    predictions = predict_all(rows, [word for word in more if word not in ("--rows", "--write")])
    errors = [(row, error_of(row, p)) for row, p in zip(rows, predictions) if p]
    for row, prediction in zip(rows, predictions):
        if "--rows" in more or not prediction:
            error = f"{100 * error_of(row, prediction):+6.1f} %" if prediction else "refused"
            print(f"{half(row):8} {row['id']:50} {error}")
    for of in sorted({kind(row) for row, _ in errors}) + [("all",)]:
        halves = [summary([e for row, e in errors if half(row) == one and of in (kind(row), ("all",))]) for one in HALVES]
        print(f"{' '.join(of):50}", *(f"{one} {text:60}" for one, text in zip(HALVES, halves)))
    for name, (number, mean, bias) in sorted(checked(errors).items()):
        print(f"| {name} | {number} | {mean:.1f} % | {bias:+.1f} % |")
    print(f"{100 * share_within(errors):.0f} % of the testing half is within the band of its kind in the fitting half")
    print(f"{100 * share_within(errors, 'checking', HALVES[:2]):.0f} % of the steps of checking.json are within the band of their kind in both halves")
    if "--write" in more:
        TABLE.write_text(table(errors))
        PENALTIES.write_text(penalties(errors))
        lines = [f"{error_of(row, p):.5f}" if p else "null" for row, p in zip(rows, predictions)]
        ERRORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
