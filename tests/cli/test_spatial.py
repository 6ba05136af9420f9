"""Proxies layer_parallel, spatial and gems: executed traffic equals the plan, emulated time equals the prediction, data are correct, and invalid layouts
are rejected with one line."""
import collections
import json
import pathlib

import pytest

QUICK = ("--warmup", 1, "--steps", 2, "--traced-steps", 1, "--no-alone")
NO_DATA = {"EMU_DATA": "off"}
ROUND = pathlib.Path(__file__).resolve().parents[1] / "proxies" / "round.json"
FREE = {"name": "free", "_source": "made up for tests: only compute takes time", "gpus_per_node": 8, "launch_us": 0, "nccl_launch_us": 0,
        "kernel_us": 0, "memory_gbps": 1e9, "memory_bytes": 80e9,
        "tflops": {"float32": 1, "float16": 1, "bfloat16": 1, "float64": 1}, "sm_count": 100, "clock_khz": 1000000,
        "intra": {"latency_us": 0, "gbps": 1e9}, "inter": {"latency_us": 0, "gbps": 1e9}}

LAYOUTS = [
    ("spatial --image-size 64 --halo-bwd dx", 5),
    ("spatial --image-size 64 --slice vertical --halo-overlap --halo-bwd dy --micro-batches 2 --spatial-parts 2 --splits 3", 4),
    ("spatial --image-size 64 --spatial-parts 4,2 --splits 3 --slice horizontal", 7),
    ("spatial --image-size 64 --local-dp 2 --micro-batch-size 2 --spatial-parts 2 --compute gemm", 4),
    ("spatial --model amoebanet_d --layers 3 --filters 32 --image-size 256 --halo-d2 --spatial-gradients mean", 5),
    ("spatial --model cosmoflow --image-size 32 --halo-d2 --fused-layers 2 --spatial-parts 2 --dtype bfloat16", 3),
    ("spatial --image-size 64 --splits 3 --micro-batches 4 --schedule 1f1b", 6),
    ("layer_parallel --image-size 64 --stages 3 --micro-batches 4 --schedule 1f1b", 6),
    ("layer_parallel --model amoebanet_d --layers 3 --filters 32 --image-size 256 --splits 4 --micro-batches 2 --compute gemm", 4),
    ("layer_parallel --model cosmoflow --image-size 32 --local-dp 2 --splits 2 --micro-batch-size 2", 4),
    ("layer_parallel --image-size 64 --stages 2 --micro-batch-size 3,1 --micro-batches 2 --schedule 1f1b", 4),
    ("spatial --image-size 64 --spatial-parts 2 --sync-bn --micro-batches 2 --splits 2 --layers 20", 6),
    ("gems --image-size 64 --replications 1 --micro-batches 2", 2),
    ("gems --image-size 64 --replications 4 --micro-batches 2", 4),
    ("gems --image-size 64 --comm-opt --splits 3 --compute gemm --layers 20", 3),
    ("gems --image-size 64 --comm-opt --odd-step --spatial-parts 2 --splits 3", 4),
]
IDS = [f"{line.split()[0]}{i}" for i, (line, _) in enumerate(LAYOUTS)]


def recorded(tmp_path, rank, ranks):
    recorded_calls = collections.Counter()
    for call in (tmp_path / f"calls.{rank}").read_text().splitlines():
        function, size, _own, _peer, count, _dtype = call.split()
        recorded_calls[function, int(size), int(count)] += 1
    del recorded_calls["ncclAllReduce", ranks, 1]  # the barrier at the start of each step
    return recorded_calls


@pytest.mark.parametrize("line,ranks", LAYOUTS, ids=IDS)
def test_run_matches_plan_and_predicted_time(busbar, tmp_path, line, ranks):
    """The NCCL calls equal those of the plan, and the step time equals the predicted time."""
    names = {"send": "ncclSend", "recv": "ncclRecv", "all_reduce": "ncclAllReduce", "all_gather": "ncclAllGather"}
    env = {**NO_DATA, "EMU_CLUSTER": str(ROUND), "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    done = busbar.run("plan", *line.split(), "--ranks", ranks, "--cluster", ROUND, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["checks"] == {"matched": True, "deadlock_free": True, "safe_serialised": True}
    run = busbar.json("proxy", *line.split(), *QUICK, ranks=ranks, env=env, tmp_path=tmp_path)
    for run_role, role in zip(run["roles"], plan["roles"], strict=True):
        assert run_role.pop("compute_us") == pytest.approx(role.pop("compute_us"))
        assert run_role == role
    assert run["step_us"]["p50"] == pytest.approx(plan["predicted"]["step_us"], abs=1)
    for role in plan["roles"]:
        planned = collections.Counter()
        for row in role["traffic"]:
            planned[names[row["kind"]], row["group_size"], row["count"]] += row["calls"] * 4
        for rank in role["ranks"]:
            assert recorded(tmp_path, rank, ranks) == planned


@pytest.mark.parametrize("line,ranks", [(line, n) for line, n in LAYOUTS if "gemm" not in line])
def test_data_check_passes(busbar, tmp_path, line, ranks):
    run = busbar.json("proxy", *line.split(), *QUICK, "--compute", "none", "--check", "--scale-counts", 0.05, ranks=ranks,
                      tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}


@pytest.mark.parametrize("eta,splits,units", [(2, 4, 21), (4, 4, 39), (2, 5, 26), (6, 5, 70)])
def test_gems_makespan_matches_formula(busbar, tmp_path, eta, splits, units):
    """Makespan = eta S max(f, b) + S min(f, b) + (eta - 1) min(f, b), with forward time f = 1 ms, backward time b = 2 ms, S splits and eta
    replications."""
    assert units == eta * splits * 2 + splits + eta - 1
    cluster = tmp_path / "free.json"
    cluster.write_text(json.dumps(FREE))
    run = busbar.json("proxy", "gems", "--image-size", 32, "--layers", 20, "--splits", splits, "--replications", eta,
                      "--forward-us", 1000, "--backward-us", 2000, *QUICK, ranks=splits, tmp_path=tmp_path,
                      env={**NO_DATA, "EMU_CLUSTER": str(cluster)})
    assert run["step_us"]["p50"] == pytest.approx(1000 * units, abs=2)


@pytest.mark.parametrize("names,options,ranks,shown", [
    ("MAST", "--replications 2", 4, "2 replications: MAST,"),
    ("master", "--replications 4", 4, "4 replications: MASTER,"),
    ("MASTER --replications 6", "--replications 6", 4, "6 replications: MASTER,"),
    ("comm-opt", "--comm-opt", 4, "MAST comm-opt (even step"),
    ("Hybrid", "--splits 2", 4, "MAST Hybrid,"),
    ("Hybrid", "--splits 4", 12, "MAST Hybrid,"),
    ("MASTER comm-opt Hybrid", "--replications 4 --comm-opt", 8, "MASTER Hybrid comm-opt")])
def test_designs_of_gems_by_name(busbar, names, options, ranks, shown):
    """A name of the GEMS paper selects the same step as its options."""
    named, optioned = (busbar.run("plan", "gems", *args.split(), "--ranks", ranks, "--ops", emulated=False).stdout.split("\n", 1)[1]
                       for args in (names, options))
    assert named == optioned and shown in named


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("stages,micro_batches", [(4, 1), (4, 6), (2, 3)])
def test_pipeline_makespan_matches_formula(busbar, tmp_path, schedule, stages, micro_batches):
    """Makespan = (m + p - 1) (f + b) with p stages and m micro-batches, forward time f = 1 ms and backward time b = 2 ms of a stage."""
    cluster = tmp_path / "free.json"
    cluster.write_text(json.dumps(FREE))
    done = busbar.run("plan", "layer_parallel", "--image-size", 32, "--layers", 20, "--stages", stages, "--ranks", stages, "--schedule",
                      schedule, "--micro-batches", micro_batches, "--forward-us", 1000, "--backward-us", 2000, "--cluster", cluster,
                      "--json", "-", emulated=False)
    assert json.loads(done.stdout)["predicted"]["step_us"] == pytest.approx(3000 * (micro_batches + stages - 1), abs=2)


# ---- published totals ----------------------------------------------------------------------------------------------------


def halo_bytes(plan):
    return sum(len(role["ranks"]) * row["bytes"] for role in plan["roles"] for row in role["traffic"]
               if row["group"] == "halo" and row["kind"] == "send")


@pytest.mark.parametrize("slice_,total", [("vertical", 36642816), ("horizontal", 36642816), ("square", 24460592)])
def test_halo_bytes_of_resnet_with_1024_pixels(busbar, slice_, total):
    done = busbar.run("plan", "spatial", "--ranks", 5, "--slice", slice_, "--spatial-parts", 4, "--json", "-", emulated=False)
    assert halo_bytes(json.loads(done.stdout)) == total


def test_gems_pairs_mirrored_stages(busbar):
    done = busbar.run("plan", "gems", "--ranks", 4, "--splits", 4, "--json", "-", emulated=False)
    plan = json.loads(done.stdout)
    sums = {rank: sum(row["count"] for row in role["traffic"] if row["group"] == "pair")
            for role in plan["roles"] for rank in role["ranks"]}
    assert sums == {0: 7485866, 3: 7485866, 1: 2295936, 2: 2295936}
    assert {"name": "pair", "size": 2, "members": [[0, 3], [1, 2]]} in plan["groups"]


@pytest.mark.parametrize("options,row", [
    ("", "layer by layer, square tiles"), ("--slice vertical", "`--slice vertical`"), ("--halo-overlap", "`--halo-overlap`"),
    ("--halo-d2", "`--halo-d2`:"), ("--halo-d2 --fused-layers 4", "`--halo-d2 --fused-layers 4`"),
    ("--halo-bwd dx", "`--halo-bwd dx`"), ("--halo-bwd dy", "`--halo-bwd dy`"),
])
def test_readme_table_matches_predictions(busbar, options, row):
    done = busbar.run("plan", "spatial", "--ranks", 5, "--image-size", 4096, "--cluster", "h100-sxm-ib", *options.split(), "--json", "-",
                      emulated=False)
    (halo,) = [g for g in json.loads(done.stdout)["predicted"]["groups"] if g["name"] == "halo"]
    readme = (pathlib.Path(__file__).resolve().parents[2] / "proxies/workloads/spatial/README.md").read_text()
    (line,) = [text for text in readme.splitlines() if text.startswith("| " + row)]
    assert [cell.strip() for cell in line.split("|")[2:5]] == [
        f"{halo['busy_us']:.0f}", f"{halo['exposed_us']:.0f}", f"{halo['bytes'] / 2**20:.1f} MiB"]


# ---- rejected input --------------------------------------------------------------------------------------------------------


def test_proxy_all_includes_spatial_and_gems(busbar):
    done = busbar.run("proxy", "all", "--quick", "--steps", 2, "--warmup", 1, "--traced-steps", 1, ranks=4, env=NO_DATA)
    assert done.returncode == 0, done.stderr
    for name in ("layer_parallel", "spatial", "gems"):
        (row,) = [line for line in done.stdout.splitlines() if line.split()[:1] == [name]]
        assert "cannot run" not in row
