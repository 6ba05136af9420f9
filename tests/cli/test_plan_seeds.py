"""The published mini-applications (proxies/workloads/seeds): traffic of each rank equals the formulas in this file, both in plans and in runs. The
predicted step time equals the emulated step time, and invalid rank counts are rejected."""
import collections
import json
import pathlib

import pytest

QUICK = ("--warmup", 1, "--steps", 2, "--traced-steps", 1, "--no-alone")
NO_DATA = {"EMU_DATA": "off"}
PIPE, DP3, TP = 2048 * 12288, 12 * 12288**2 // 4, 4


def plan(busbar, line, ranks, *options):
    done = busbar.run("plan", *line.split(), "--ranks", ranks, *options, "--json", "-", emulated=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rank_rows(plan_, rank):
    """Planned traffic of one rank: {(kind, group, count): (calls, {offset of the peer: calls} or None)}."""
    (role,) = [r for r in plan_["roles"] if rank in r["ranks"]]
    rows = {}
    for row in role["traffic"]:
        key = row["kind"], row["group"], row["count"]
        assert key not in rows
        rows[key] = row["calls"], row.get("peers") or None
    return rows


# ---- traffic per rank --------------------------------------------------------------------------------------------------

RESNET50 = [3104745, 4461568, 4462592, 4986880, 4468736, 4074560]
RESNET152 = [6511592, 6567936, 5905920, 6113280, 6176256, 6112768, 6176256, 6112768, 5321216, 5194816]


def calls(counts, kind, group, peers=None):
    return {(kind, group, c): (n, {k: n * v for k, v in peers.items()} if peers else None)
            for c, n in collections.Counter(counts).items()}


def resnet50(rank, ranks):
    return calls(RESNET50, "all_reduce", "world")


def resnet50_ring(rank, ranks):
    return {**calls(RESNET50, "send", "world", {"+1": 1}), **calls(RESNET50, "recv", "world", {"-1": 1})}


def resnet152(rank, ranks):
    return calls(RESNET152, "all_reduce", "world")


def cosmoflow(rank, ranks):
    batch, m = 8, rank % 4
    faces = [batch * (32 * 2**l) * (128 // 2**l) * (128 // 2**l // 2) for l in range(5)]
    halos = faces[:4] + faces[1:]
    partners = {f"{p - m:+d}": 1 for p in (m ^ 1, m ^ 2)}
    rows = {}
    for kind in ("send", "recv"):
        for count, n in collections.Counter(halos).items():
            rows[kind, "mp", count] = (2 * n, {k: n for k in partners})
    channels = [4, 32, 64, 128, 256, 512]
    for cin, cout in zip(channels, channels[1:]):
        rows["all_reduce", "world", 27 * cin * cout + cout] = (1, None)
    dense = [32768, 128, 64, 4]
    rows["all_reduce", "dense_dp", sum(i * o + o for i, o in zip(dense, dense[1:])) // 4] = (1, None)
    for width in dense[:3]:
        rows["all_gather", "mp", batch * width // 4] = (1, None)
        rows["reduce_scatter", "mp", batch * width // 4] = (1, None)
    return rows


def dlrm(rank, ranks):
    widths = [128, 128, 128, 128], [128 + 5 * 4 // 2, 512, 512, 512, 256, 1]
    rows = {("alltoall", "world", 2048 * 128 // ranks): (2, None)}
    for w in widths:
        rows["all_reduce", "world", sum(i * o + o for i, o in zip(w, w[1:]))] = (1, None)
    return rows


def chain(stage, stages, m):
    """Sends and receives of one pipeline stage: activations with the next stage, gradients with the previous stage."""
    peers = {k: m for k, there in (("+1", stage < stages - 1), ("-1", stage > 0)) if there}
    return {(kind, "pp", PIPE): (sum(peers.values()), peers) for kind in ("send", "recv")}


def gpt3(rank, ranks, stages, m):
    return {**chain(rank % stages, stages, m), ("all_reduce", "tp", PIPE): (4 * m, None),
            ("all_reduce", "dp", DP3): (1, None)}


def gpt3_moe(rank, ranks, stages, m):
    return {**chain(rank % stages, stages, m), ("alltoall", "moe_ep", PIPE // 16): (4 * m, None),
            ("all_reduce", "moe_dp", 8 * 12288**2 // 16): (1, None), ("all_reduce", "dp", 4 * 12288**2): (1, None)}


def one_step(rank, ranks, stages, m):
    peer = {"+1": 1} if rank % stages % 2 == 0 else {"-1": 1}
    return {("send", "pp", PIPE): (1, peer), ("recv", "pp", PIPE): (1, peer)}


def gpt3_one_pipe_step(rank, ranks, stages, m):
    return {**one_step(rank, ranks, stages, m), ("all_reduce", "tp", PIPE): (2, None)}


def gpt3_moe_one_pipe_step(rank, ranks, stages, m):
    return {**one_step(rank, ranks, stages, m), ("alltoall", "moe_ep", PIPE // 16): (2, None)}


@pytest.mark.parametrize("line,ranks,expected_rows,arguments", [
    ("resnet50", 3, resnet50, ()), ("resnet50_ring", 3, resnet50_ring, ()), ("resnet152", 5, resnet152, ()),
    ("resnet152_scal", 1024, resnet152, ()), ("cosmoflow", 4, cosmoflow, ()), ("cosmoflow", 24, cosmoflow, ()),
    ("dlrm", 3, dlrm, ()), ("dlrm", 4, dlrm, ()), ("dlrm", 100, dlrm, ()),
    ("gpt3 2 1", 8, gpt3, (2, 2)), ("gpt3 5", 40, gpt3, (5, 10)), ("gpt3", 384, gpt3, (96, 192)),
    ("gpt3_moe 3 3", 96, gpt3_moe, (3, 9)), ("gpt3_moe", 1536, gpt3_moe, (96, 192)),
    ("gpt3_one_pipe_step 4", 32, gpt3_one_pipe_step, (4, 8)),
    ("gpt3_moe_one_pipe_step 2", 32, gpt3_moe_one_pipe_step, (2, 4)),
])
def test_planned_traffic_of_every_rank(busbar, line, ranks, expected_rows, arguments):
    planned = plan(busbar, line, ranks)
    assert planned["checks"]["matched"] is True and planned["checks"]["deadlock_free"] is True
    assert planned["checks"]["safe_serialised"] is ("one_pipe_step" not in line)
    assert sorted(r for role in planned["roles"] for r in role["ranks"]) == list(range(ranks))
    for rank in {0, 1, 2, 3, ranks // 2, ranks - 2, ranks - 1} & set(range(ranks)):
        assert rank_rows(planned, rank) == expected_rows(rank, ranks, *arguments), rank


def test_ranks_with_equal_programs_share_a_role(busbar):
    assert [r["name"] for r in plan(busbar, "gpt3", 98304)["roles"]] == ["first stage", "middle stage", "last stage"]
    assert len(plan(busbar, "cosmoflow", 4096)["roles"]) == 4


# ---- emulated runs -----------------------------------------------------------------------------------------------------

# test_proxy.py runs each mini-application with a common number of ranks.
RUNS = [("resnet50_ring", 1), ("resnet50_ring", 5), ("dlrm", 3), ("gpt3 3 1", 12)]


@pytest.mark.parametrize("line,ranks", RUNS)
def test_run_matches_the_plan_and_the_predicted_time(busbar, tmp_path, line, ranks):
    expected = plan(busbar, line, ranks, "--cluster", "emulated-default")
    run = busbar.json("proxy", *line.split(), *QUICK, ranks=ranks, env=NO_DATA, tmp_path=tmp_path)
    assert run["roles"] == expected["roles"]
    assert run["step_us"]["p50"] == pytest.approx(expected["predicted"]["step_us"], abs=1)


@pytest.mark.parametrize("line,ranks", [("resnet50_ring", 3), ("cosmoflow", 8), ("gpt3 2 1", 8)])
def test_nccl_calls_match_the_plan(busbar, tmp_path, line, ranks):
    env = {**NO_DATA, "NCCL_RECORD": str(tmp_path / "calls"),
           "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    names = {"send": "ncclSend", "recv": "ncclRecv", "all_reduce": "ncclAllReduce", "all_gather": "ncclAllGather",
             "reduce_scatter": "ncclReduceScatter"}
    run = busbar.json("proxy", *line.split(), *QUICK, ranks=ranks, env=env, tmp_path=tmp_path)
    for role in run["roles"]:
        for rank in role["ranks"]:
            planned, called = collections.Counter(), collections.Counter()
            for row in role["traffic"]:
                planned[names[row["kind"]], row["group_size"], row["count"]] += row["calls"] * 4
            for call in pathlib.Path(tmp_path / f"calls.{rank}").read_text().splitlines():
                function, size, _own, _peer, count, _dtype = call.split()
                called[function, int(size), int(count)] += 1
            del called["ncclAllReduce", ranks, 1]  # the barrier at the start of each step
            assert called == planned, rank


@pytest.mark.parametrize("line,ranks", [("cosmoflow", 4), ("dlrm", 4), ("resnet50_ring", 3), ("gpt3 2 1", 8)])
@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_scaled_counts_pass_the_data_check(busbar, tmp_path, line, ranks, dtype):
    run = busbar.json("proxy", *line.split(), *QUICK, "--scale-counts", 0.0001, "--dtype", dtype, "--check", ranks=ranks,
                      tmp_path=tmp_path)
    assert run["check"] == {"enabled": True, "wrong": 0, "flags": []}


def test_scaled_counts_are_reported(busbar, tmp_path):
    args = ("gpt3", 2, "--scale-counts", 0.001)
    done = busbar.run("plan", *args, "--ranks", 8, emulated=False)
    assert "counts scaled by 0.001" in done.stdout
    planned = plan(busbar, "gpt3 2", 8, "--scale-counts", 0.001)
    assert planned["options"]["scale_counts"] == 0.001
    assert {row["count"] for role in planned["roles"] for row in role["traffic"]} == {25165, 452984}
    done = busbar.run("proxy", *args, *QUICK, ranks=8)
    assert done.returncode == 0 and "counts scaled by 0.001" in done.stdout


# ---- rejected input ----------------------------------------------------------------------------------------------------


def test_list_proxies_contains_every_mini_application(busbar):
    listed = busbar.run("list", "proxies", emulated=False).stdout.split()
    for name in ("resnet50 resnet50_ring resnet152 resnet152_scal cosmoflow dlrm gpt3 gpt3_one_pipe_step gpt3_moe "
                 "gpt3_moe_one_pipe_step gpt2_large bert_large").split():
        assert name in listed


@pytest.mark.parametrize("line,ranks,parameters,samples", [
    ("gpt2_large 64 8 8", 32, 1389327360, 32), ("bert_large", 8, 367480636, 128), ("dlrm", 8, 49536 + 728065, None), ("dlrm", 4, 49536 + 728065, 2048),
    ("gpt3", 1536, 173946175488, 768), ("cosmoflow", 8, 8907556, 16), ("resnet50", 4, 25559081, None)])
def test_plan_has_the_numbers_that_the_programs_print(busbar, line, ranks, parameters, samples):
    planned = plan(busbar, line, ranks)
    assert planned["samples"] == samples and planned["summary"]
    assert planned["parameters"] == parameters or line == "dlrm" and planned["parameters"] > parameters  # dlrm: also the tables' rows


def test_samples_per_second_of_dlrm_need_as_many_ranks_as_tables(busbar):
    """The MLPs of each rank process a quarter of the batch on any number of ranks, each table the whole batch."""
    for ranks, throughput in ((4, "samples per second, 0.767 TFLOP/s per GPU"), (8, "  0.767 TFLOP/s per GPU")):
        done = busbar.run("plan", "dlrm", "--ranks", ranks, "--cluster", "h100-sxm-ib", emulated=False)
        line, = [text for text in done.stdout.splitlines() if "throughput" in text]
        assert line.endswith(throughput) and (" samples " in line) == (ranks == 4)
