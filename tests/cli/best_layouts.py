"""Prints the place of twelve published recipes in the answer of `plan --best-layout`.

    python3 tests/cli/best_layouts.py [NUMBER...] [--write]     (BUSBAR_BUILD: the build folder)

--write writes reference_data/recipes.json, from which test_best_layouts.py reads, because the searches take minutes. place: of the grid (tp,
cp, ep, pp) of the recipe among the fastest layouts, null if it is not in the first ten; slower: forecast of the recipe with its penalty
relative to the first layout found; cpu_s: of all threads, with the search of --explain; memory: of the first layout, as a part of that of the GPU."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

from accuracy import FOLDER, MODELS

RESULTS = FOLDER / "recipes.json"
GRID = ("tp", "cp", "ep", "pp")
# model, cluster, ranks, global batch size, tokens per sample, more options, recipe
RECIPES = [
    ("llama3_8b", "h100-sxm-ib", 8, 128, 8192, "--fp8", "--tp 1 --pp 1 --cp 1 --micro-batch-size 1 --dp-sync zero3 --software megatron"),
    ("llama3_70b", "h100-sxm-ib", 64, 128, 8192, "--fp8", "--tp 4 --pp 8 --cp 1 --vpp 5 --micro-batch-size 1 --dp-sync distributed"),
    ("llama2_70b", "h100-sxm-ib", 64, 128, 4096, "--fp8", "--tp 4 --pp 4 --cp 1 --vpp 20 --micro-batch-size 1 --dp-sync distributed"),
    ("nemotron3_22b", "h100-sxm-ib", 64, 256, 4096, "--fp8", "--tp 2 --pp 4 --cp 1 --vpp 10 --micro-batch-size 2 --dp-sync distributed"),
    ("megatron_gpt3_175b", "h100-sxm-ib", 128, 256, 2048, "--fp8",
     "--tp 4 --pp 8 --cp 1 --vpp 6 --micro-batch-size 1 --dp-sync distributed"),
    ("llama2_7b", "h100-sxm-ib", 128, 32, 131072, "--fp8", "--tp 4 --pp 1 --cp 4 --micro-batch-size 1 --dp-sync distributed"),
    ("nemotron4_340b", "h100-sxm-ib", 256, 64, 4096, "", "--tp 8 --pp 8 --cp 1 --vpp 12 --micro-batch-size 1 --dp-sync distributed"),
    ("qwen3_235b_a22b", "h100-sxm-ib", 256, 2048, 4096, "",
     "--tp 2 --pp 8 --cp 1 --ep 32 --vpp 4 --micro-batch-size 1 --dp-sync distributed"),
    ("llama3_70b", "gb200-nvl72", 64, 256, 8192, "--fp8", "--tp 1 --pp 1 --cp 1 --micro-batch-size 2 --dp-sync zero3 --software megatron"),
    ("llama3_405b", "gb200-nvl72", 256, 1536, 8192, "--fp8",
     "--tp 4 --pp 16 --cp 1 --vpp 4 --micro-batch-size 1 --dp-sync distributed"),
    ("llama3_405b", "h100-sxm-ib", 1024, 1536, 8192, "--fp8", "--tp 8 --pp 8 --cp 2 --vpp 8 --micro-batch-size 1 --dp-sync distributed"),
    ("megatron_gpt3_175b", "a100-sxm-ib", 1024, 768, 2048, "",
     "--tp 8 --pp 8 --cp 1 --vpp 6 --micro-batch-size 1 --dp-sync distributed"),
]


def search(recipe, folder):
    model, cluster, ranks, batch, tokens, more, layout = recipe
    if model in MODELS:
        path = folder / f"{model}.json"
        path.write_text(json.dumps(MODELS[model]))
        model = path
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([pathlib.Path(os.environ["BUSBAR_BUILD"]) / "busbar", "plan", "transformer", "--model", model, "--cluster", cluster,
                           "--ranks", str(ranks), "--global-batch-size", str(batch), "--seq-length", str(tokens), *more.split(),
                           "--grad-dtype", "bfloat16", "--best-layout", "--threads", "2", "--explain", layout, "--json", "-"],
                          capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = {"model": recipe[0], "cluster": cluster, "ranks": ranks, "recipe": layout,
              "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)}
    if done.returncode:
        return {**answer, "error": done.stderr.strip().splitlines()[-1]}
    best = json.loads(done.stdout)["best_layout"]
    if "explained_reason" in best:
        return {**answer, "error": best["explained_reason"]}
    first, explained = best["layouts"][0], best["explained"]
    step_us, first_us = (row["step_us"] * (1 + row["penalty"]) for row in (explained, first))
    places = [i + 1 for i, row in enumerate(best["layouts"]) if all(row[key] == explained[key] for key in GRID)]
    return {**answer, "place": places[0] if places else None, "slower": round(step_us / first_us - 1, 4),
            "memory": round(first["memory_bytes"] / best["available_bytes"], 3),
            "first": " ".join(f"{key} {first[key]}" for key in (*GRID, "vpp", "micro_batch_size", "recompute", "dp_sync"))}


def main(words):
    chosen = [int(word) - 1 for word in words if word.isdigit()] or range(len(RECIPES))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for i in chosen:
            rows.append(search(RECIPES[i], pathlib.Path(folder)))
            print(json.dumps(rows[-1]), flush=True)
    places = [row.get("place") for row in rows]
    print(f"in the first five: {sum(1 for place in places if place and place <= 5)} of {len(rows)}")
    if "--write" in words:
        RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
