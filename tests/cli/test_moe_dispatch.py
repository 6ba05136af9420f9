"""--moe-dispatch dedup: a token is sent to each of its nodes once and is distributed inside the node. The tests count rows token by
token."""
import itertools
import json
import math
import re
import statistics

import pytest

MIXTRAL = {"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 8,
           "num_key_value_heads": 4, "num_hidden_layers": 1, "vocab_size": 101, "max_position_embeddings": 64,
           "num_local_experts": 16, "num_experts_per_tok": 4}
NODES = ("--gpus-per-node", 2, "--moe-dispatch", "dedup")


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "experts.json"
    path.write_text(json.dumps(MIXTRAL))
    return "--model", path


def operations(busbar, model, *args):
    done = busbar.run("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *args, "--ops", emulated=False)
    assert done.returncode == 0, done.stderr
    assert ": all operations match, no deadlock\n" in done.stdout
    rows = re.findall(r"^ +\d+ +(\w+) +(?:(ep(?: \w+)?) ([0-9.]+ \w+)|.*?) +((?:for|back)ward 0, [^,\n]*)", done.stdout, re.M)
    return [(kind, group, size, what.split(", ")[1], what[0]) for kind, group, size, what in rows if group or "node" in what]


def nodes_of_a_token(experts, nodes, top_k, limit):
    """The expected number of distinct nodes, by enumeration: each set of `limit` nodes is chosen equally often, and of their experts each set of top_k."""
    node_of = [expert // (experts // nodes) for expert in range(experts // nodes * limit)]
    return statistics.mean(len(set(chosen)) for chosen in itertools.combinations(node_of, top_k))


@pytest.mark.parametrize("limit", [None, 2, 3, 4])
def test_token_is_sent_to_the_expected_number_of_nodes(busbar, model, limit):
    """Without a limit a token reaches all nodes that hold one of its four experts, not as many nodes as experts."""
    done = operations(busbar, model, *NODES, *["--moe-node-limit", limit] * bool(limit), "--seq-length", 1024)
    sizes = [size for _, where, size, what, phase in done if (where, what, phase) == ("ep cross", "dispatch", "f")]
    rows = 1024 * nodes_of_a_token(16, 4, 4, limit or 4)
    assert 4 * [pytest.approx(rows * 128 / 1024 / 4, abs=1)] == [float(size.split()[0]) for size in sizes]


def rows_of_a_rank(tokens, top_k, limit, nodes, per_node):
    """Returns the inter-node and intra-node rows of a rank, counted token by token: all nodes and their ranks are chosen equally
    often. With 4 of the 8 experts of 2 nodes nearly every token needs both (1.97 on average, rounded to full rows)."""
    inter_node = intra_node = 0
    for token in range(tokens):
        chosen = {(token + i) % nodes for i in range(limit)}
        experts = [(node, (token + k) % per_node) for k in range(top_k // limit) for node in chosen]
        assert len(experts) == top_k
        inter_node += len({node for node, _ in experts})
        intra_node += len(experts)
    return inter_node, intra_node


def test_token_is_sent_once_per_node_and_distributed_inside(busbar, model):
    """64 tokens of 64 numbers of 2 bytes, 4 experts per token on 2 of 4 nodes. The rows are sent in four chunks, so that the inter-node
    transfer of a chunk overlaps the distribution of the previous chunk."""
    inter_node, intra_node = rows_of_a_rank(64, 4, 2, 4, 2)
    kib = {"cross": f"{inter_node * 128 // 1024 // 4} KiB", "local": f"{intra_node * 128 // 1024 // 4} KiB", "pairs": "1 KiB"}
    assert kib["cross"] == "4 KiB" and kib["local"] == "8 KiB"
    assert operations(busbar, model, *NODES, "--moe-node-limit", 2) == [
        ("all_gather", "ep", "512 B", "tokens per expert", "f"),
        *4 * [("alltoall", "ep cross", kib["cross"], "dispatch", "f")],
        ("alltoall", "ep cross", kib["pairs"], "probabilities", "f"),
        *4 * [("alltoall", "ep local", kib["local"], "dispatch", "f")],
        ("alltoall", "ep local", kib["pairs"], "probabilities", "f"),
        *4 * [("alltoall", "ep local", kib["local"], "combine", "f")],
        *4 * [("alltoall", "ep cross", kib["cross"], "combine", "f")],
        *4 * [("alltoall", "ep cross", kib["cross"], "combine gradients", "b")],
        *4 * [("alltoall", "ep local", kib["local"], "combine gradients", "b")],
        *4 * [("alltoall", "ep local", kib["local"], "dispatch gradients", "b")],
        *4 * [("alltoall", "ep cross", kib["cross"], "dispatch gradients", "b")],
        ("alltoall", "ep local", kib["pairs"], "probability gradients", "b"),
        ("alltoall", "ep cross", kib["pairs"], "probability gradients", "b"),
    ]


@pytest.mark.parametrize("tokens,parts", [(60, 2), (50, 1)])
def test_rows_that_do_not_divide_use_fewer_chunks(busbar, model, tokens, parts):
    """30 or 25 rows for each node."""
    inter_node, intra_node = rows_of_a_rank(tokens, 4, 2, 4, 2)
    done = operations(busbar, model, *NODES, "--moe-node-limit", 2, "--seq-length", tokens)
    for group, rows in (("ep cross", inter_node), ("ep local", intra_node)):
        sizes = [size for _, where, size, what, phase in done if (where, what, phase) == (group, "dispatch", "f")]
        assert len(sizes) == parts and float(sizes[0].split()[0]) == pytest.approx(rows * 128 / 1024 / parts, abs=0.05)


def test_distribution_inside_a_node_overlaps_inter_node_transfers(busbar, model, tmp_path):
    """Links inside a node are so much faster than inter-node links that only one of four chunks of an exchange is exposed on them: the
    last chunk of a distribution, or the first chunk of a combine. In the forward pass the distribution of the last chunk overlaps the
    transfer of the probabilities, and the distribution of the probabilities follows it. In the backward pass the distribution of the
    probability gradients overlaps the transfer of rows. With intra-node links of half the rate the step is longer by the exposed
    chunks. An alltoall of two ranks sends half of its buffer."""
    machine = {"name": "slow", "description": "-", "source": "-", "gpus_per_node": 2, "sm_count": 132, "clock_khz": 1000000, "launch_us": 0,
               "nccl_launch_us": 0, "kernel_us": 0, "memory_gbps": 1000, "memory_bytes": 8e10, "inter": {"latency_us": 0, "gbps": 0.01},
               "tflops": {"float32": 50, "float16": 900, "bfloat16": 900, "float64": 30}}
    steps = []
    for gbps in (1, 0.5):
        (tmp_path / "slow.json").write_text(json.dumps(machine | {"intra": {"latency_us": 0, "gbps": gbps}}))
        plan = busbar.json("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *NODES[2:], "--moe-node-limit", 2, "--compute", "none",
                           "--cluster", tmp_path / "slow.json", tmp_path=tmp_path, emulated=False)
        steps.append(plan["predicted"]["step_us"])
    assert steps[1] - steps[0] == pytest.approx(3 * 8 * 1.024 / 2 + 1.024 / 2, abs=0.01)


def test_permute_and_sum_kernels_move_the_expected_bytes(busbar, model):
    """With GEMM compute: M rows of a token on its own rank, and K / M rows for each of them on the node, forward and backward."""
    done = busbar.run("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *NODES, "--moe-node-limit", 2, "--compute", "gemm",
                      "--ops", emulated=False)
    kernels = re.findall(r"compute +([0-9.]+) KiB moved +(\w+) 0, (permute|unpermute|permute within node|sum within node)(?:, |$)",
                       done.stdout, re.M)
    # Rows have 128 bytes: 128 rows of 64 tokens, then 256 rows of these. permute reads and writes each row with an index of 4 bytes; sum
    # also reads a weight.
    forward = [("permute", 2 * 128 * 128 + 128 * 4), ("permute within node", 2 * 256 * 128 + 256 * 4),
               ("sum within node", (256 + 128) * 128 + 256 * 8), ("unpermute", (128 + 64) * 128 + 128 * 8)]
    assert [(what, pytest.approx(float(kib) * 1024, abs=60)) for kib, phase, what in kernels if phase == "forward"] == forward
    assert len(kernels) == 7  # in the backward pass the last sum is part of the gradient of the router


def test_deepseek_sends_half_of_the_rows_between_nodes(busbar, tmp_path):
    """Each token has eight experts on at most four nodes, on 3.63 on average as in DeepEP's test, with 64 ranks on 8 nodes."""
    args = ("--model", "deepseek_v3", "--layers", 4, "--ranks", 64, "--ep", 64, "--seq-length", 4096, "--gpus-per-node", 8)

    def rows(*more):
        plan = busbar.json("plan", "transformer", *args, *more, tmp_path=tmp_path, emulated=False)
        return {(t["group"], t["bytes"] // t["calls"]): t["calls"] for t in plan["roles"][0]["traffic"] if t["kind"] == "alltoall"}

    row, inter_node = 7168 * 2, 4 * round(4096 * 4 * (1 - math.comb(96, 8) / math.comb(128, 8)) / 8 / 4) * 8
    assert inter_node / 4096 == pytest.approx(3.63, abs=0.005)
    assert rows() == {("ep", 4096 * 8 * row): 4, ("ep", 4096 * 8 * 4): 2}
    assert rows("--moe-dispatch", "dedup", "--moe-node-limit", 4) == {
        ("ep cross", inter_node * row // 4): 16, ("ep local", 4096 * 2 * row): 16, ("ep cross", 4096 * 8 * 4): 2,
        ("ep local", 4096 * 8 * 4): 2}


def test_few_tokens_send_at_least_one_row_to_each_node(busbar):
    """8 tokens per rank on one of 32 nodes each: on average a quarter of a row per node."""
    done = busbar.run("plan", "transformer", "--model", "deepseek_v3", "--layers", 4, "--ranks", 64, "--ep", 64, "--gpus-per-node", 2,
                      "--seq-length", 8, "--moe-dispatch", "dedup", "--moe-node-limit", 1, "--compute", "gemm", "--full", emulated=False)
    assert done.returncode == 0, done.stderr
    assert re.search(rf"alltoall +ep cross +32 +7,168 bfloat16 +4 +{32 * 7168 * 2 // 1024} KiB ", done.stdout), done.stdout


def test_fp8_dispatch_halves_the_rows_to_experts(busbar, model):
    """Rows to the experts have 64 bytes and one scale of 4 bytes: tokens, and the gradients of expert outputs. Rows from the experts
    have 16-bit numbers."""
    to_experts, from_experts = 64 + 4, 128
    row = {"dispatch": to_experts, "combine": from_experts, "combine gradients": to_experts, "dispatch gradients": from_experts}
    sizes = {what: size for _, _, size, what, _ in operations(busbar, model, "--fp8-dispatch") if what in row}
    assert sizes == {what: f"{64 * 4 * width / 1024:g} KiB" for what, width in row.items()}
    dedup = operations(busbar, model, *NODES, "--moe-node-limit", 2, "--fp8-dispatch")
    for group, rows in (("ep cross", 64 * 2 // 4), ("ep local", 64 * 4 // 4)):
        sizes = {what: size for _, where, size, what, _ in dedup if what in row and where == group}
        assert sizes == {what: f"{int(rows * width / 102.4 + 0.5) / 10:g} KiB" for what, width in row.items()}


@pytest.mark.parametrize("more,advice", [
    ((), "exposed traffic of experts takes (\\d+)% of the step, each token is sent to each of its experts; try: --moe-dispatch dedup"),
    (("--moe-dispatch", "dedup"), "exposed traffic of experts takes (\\d+)% of the step; with a smaller --ep, more of it stays within nodes")])
def test_large_exposed_traffic_of_experts_has_advice(busbar, more, advice):
    """What is advised shortens the step: 2.65, 1.94 and, with 16 ranks per group, less."""
    args = "plan transformer --model qwen3_30b_a3b --ranks 64 --dp-sync distributed --global-batch-size 256 --cluster h100-sxm-ib".split()
    done = busbar.run(*args, "--ep", 32, *more, "--json", "-", emulated=False)
    predicted = json.loads(done.stdout)["predicted"]
    text = busbar.run(*args, "--ep", 32, *more, emulated=False).stdout
    exposed = max(group["exposed_us"] for group in predicted["groups"] if group["name"].startswith("ep"))
    assert abs(int(re.search(f"^  dispatch +{advice}$", text, re.M)[1]) - 100 * exposed / predicted["step_us"]) <= 1, text
    better = ("--ep", 16, *more) if more else ("--ep", 32, "--moe-dispatch", "dedup")
    assert json.loads(busbar.run(*args, *better, "--json", "-", emulated=False).stdout)["predicted"]["step_us"] < 0.95 * predicted["step_us"]
    assert "  dispatch " not in busbar.run(*args, "--ep", 8, emulated=False).stdout


@pytest.mark.parametrize("more", ["--moe-imbalance 0.5", "--seq-length 4095", "--fp8-dispatch", "--tp 2 --sequence-parallel --etp 2 --moe-dispatch all_gather"])
@pytest.mark.parametrize("step", ["qwen3_30b_a3b --layers 8 --ranks 64 --ep 32", "deepseek_v3 --layers 8 --ranks 128 --ep 64"])
def test_an_advised_dispatch_is_accepted(busbar, step, more):
    """dedup requires equal numbers of rows. all_gather has a communicator of its own with etp above 1, and experts on several nodes."""
    args = f"plan transformer --model {step} --dp-sync distributed --micro-batches 4 --cluster h100-sxm-ib {more}".split()
    line, = re.findall("^  dispatch +(.*)$", busbar.run(*args, emulated=False).stdout, re.M)
    advised = line.split("try: ")[1].split() if "try: " in line else []
    assert busbar.run(*args, *advised, "--quiet", emulated=False).returncode == 0
    assert ("dedup" in advised) == ("fp8" in more), line


def test_overlap_of_experts_is_advised_only_if_training_fits_with_it(busbar):
    """The overlap excludes the recomputation of experts with which training fits."""
    args = "plan transformer --model qwen3_30b_a3b --ranks 64 --ep 8 --micro-batch-size 2 --global-batch-size 512 --dp-sync distributed --cluster h100-sxm-ib".split()
    text, overlapped, larger = (busbar.run(*args, *more, emulated=False).stdout for more in (
        (), ("--overlap-moe-expert-parallel-comm",), ("--gpu-memory", "200G")))
    assert "--recompute-modules layernorm,moe" in text and "  dispatch " not in text and "DOES NOT FIT" in overlapped
    assert re.search("  dispatch +exposed traffic of experts takes ..% of the step; try: --overlap-moe-expert-parallel-comm\n", larger)


@pytest.mark.parametrize("micro_batches,advised", [(1, False), (2, True)])
def test_overlap_of_experts_is_advised_only_if_it_shortens_the_step(busbar, micro_batches, advised):
    """The traffic of one micro-batch overlaps the GEMMs of another one."""
    args = "plan transformer --model qwen3_30b_a3b --ranks 8 --ep 8 --seq-length 2048 --gpu-memory 500G --cluster a100-pcie-ib --micro-batches".split()
    done = [busbar.run(*args, micro_batches, *more, "--json", "-", emulated=False) for more in ((), ("--overlap-moe-expert-parallel-comm",))]
    without, overlapped = (json.loads(d.stdout)["predicted"]["step_us"] for d in done)
    assert (overlapped < without) == advised
    assert ("  dispatch " in (text := busbar.run(*args, micro_batches, emulated=False).stdout)) == ("try: --overlap-moe-expert-parallel-comm" in text) == advised
