"""`--moe-dispatch dedup`: a token crosses to each of its nodes once and is spread inside it. Rows are counted here, token by
token; what cannot be is one line."""
import json
import re

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


def operations(busbar, model, *words):
    done = busbar.run("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *words, "--ops", emulated=False)
    assert done.returncode == 0, done.stderr
    assert "every operation has its matching peers     yes" in done.stdout
    rows = re.findall(r"^ +\d+ +(\w+) +(?:(ep(?: \w+)?) ([0-9.]+ \w+)|.*?) +((?:for|back)ward 0, [^,\n]*)", done.stdout, re.M)
    return [(kind, group, size, what.split(", ")[1], what[0]) for kind, group, size, what in rows if group or "node" in what]


def rows_of_a_rank(tokens, top_k, limit, nodes, per_node):
    """Rows between nodes and inside one, counted token by token: every node and every rank of it alike often."""
    between = inside = 0
    for token in range(tokens):
        chosen = {(token + i) % nodes for i in range(limit)}
        experts = [(node, (token + k) % per_node) for k in range(top_k // limit) for node in chosen]
        assert len(experts) == top_k
        between += len({node for node, _ in experts})
        inside += len(experts)
    return between, inside


def test_a_token_crosses_once_and_is_spread(busbar, model):
    """64 tokens of 64 numbers of 2 bytes, 4 experts each on 2 of 4 nodes; rows go in four parts, so that one crosses while another is spread."""
    between, inside = rows_of_a_rank(64, 4, 2, 4, 2)
    kib = {"cross": f"{between * 128 // 1024 // 4} KiB", "local": f"{inside * 128 // 1024 // 4} KiB", "pairs": "1 KiB"}
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
def test_rows_that_do_not_divide_go_in_fewer_parts(busbar, model, tokens, parts):
    """30 or 25 rows for each node."""
    between, inside = rows_of_a_rank(tokens, 4, 2, 4, 2)
    done = operations(busbar, model, *NODES, "--moe-node-limit", 2, "--seq-length", tokens)
    for group, rows in (("ep cross", between), ("ep local", inside)):
        sizes = [size for _, where, size, what, phase in done if (where, what, phase) == (group, "dispatch", "f")]
        assert len(sizes) == parts and float(sizes[0].split()[0]) == pytest.approx(rows * 128 / 1024 / parts, abs=0.05)


def test_what_has_crossed_is_spread_while_more_crosses(busbar, model, tmp_path):
    """Links inside a node are so much quicker than those between nodes that of an exchange only one part of four waits for them: the last one
    spread, or the first one that comes back. Forward that last part is spread while probabilities cross, and they are spread behind it; backward
    theirs are spread while rows cross. With those links half as quick the step is longer by the rest; half of each alltoall of two is sent."""
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


def test_tokens_are_copied_and_summed_where_they_are(busbar, model):
    """With real work: M rows for a token at home, K / M for each of those on the node, forward and back."""
    done = busbar.run("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *NODES, "--moe-node-limit", 2, "--compute", "gemm",
                      "--ops", emulated=False)
    moved = re.findall(r"compute +([0-9.]+) KiB moved +(\w+) 0, (permute|unpermute|permute within node|sum within node)(?:, |$)",
                       done.stdout, re.M)
    # rows of 128 bytes: 128 of 64 tokens, then 256 of these, each read and written with an index of 4 bytes, or summed
    # with a weight too
    forward = [("permute", 2 * 128 * 128 + 128 * 4), ("permute within node", 2 * 256 * 128 + 256 * 4),
               ("sum within node", (256 + 128) * 128 + 256 * 8), ("unpermute", (128 + 64) * 128 + 128 * 8)]
    assert [(what, pytest.approx(float(kib) * 1024, abs=60)) for kib, phase, what in moved if phase == "forward"] == forward
    assert len(moved) == 7  # backward, the last sum belongs to the router's gradient


def test_deepseek_sends_half_between_nodes(busbar, tmp_path):
    """Four nodes for a token of eight experts on 64 ranks of 8 nodes."""
    words = ("--model", "deepseek_v3", "--layers", 4, "--ranks", 64, "--ep", 64, "--seq-length", 4096, "--gpus-per-node", 8)

    def rows(*more):
        plan = busbar.json("plan", "transformer", *words, *more, tmp_path=tmp_path, emulated=False)
        return {(t["group"], t["bytes"] // t["calls"]): t["calls"] for t in plan["roles"][0]["traffic"] if t["kind"] == "alltoall"}

    row = 7168 * 2
    assert rows() == {("ep", 4096 * 8 * row): 4, ("ep", 4096 * 8 * 4): 2}
    assert rows("--moe-dispatch", "dedup", "--moe-node-limit", 4) == {
        ("ep cross", 4096 * row): 16, ("ep local", 4096 * 2 * row): 16, ("ep cross", 4096 * 8 * 4): 2,
        ("ep local", 4096 * 8 * 4): 2}


def test_in_eight_bits_what_goes_is_halved(busbar, model):
    """64 bytes and one scale of 4 a row, to the experts: tokens, and the gradients of their answers. What comes back has 16
    bits."""
    gone, there = 64 + 4, 128
    row = {"dispatch": gone, "combine": there, "combine gradients": gone, "dispatch gradients": there}
    sizes = {what: size for _, _, size, what, _ in operations(busbar, model, "--fp8-dispatch") if what in row}
    assert sizes == {what: f"{64 * 4 * width / 1024:g} KiB" for what, width in row.items()}
    by_nodes = operations(busbar, model, *NODES, "--moe-node-limit", 2, "--fp8-dispatch")
    for group, rows in (("ep cross", 64 * 2 // 4), ("ep local", 64 * 4 // 4)):
        sizes = {what: size for _, where, size, what, _ in by_nodes if what in row and where == group}
        assert sizes == {what: f"{int(rows * width / 102.4 + 0.5) / 10:g} KiB" for what, width in row.items()}


@pytest.mark.parametrize("words, said", [
    (("--fp8-dispatch", "--moe-dispatch", "all_gather"), "--fp8-dispatch does not apply: it requires --moe-dispatch alltoall or dedup"),
    (NODES, "needs --moe-node-limit M, to how many nodes a token goes: 1 to 4 (4 experts of a token, 4 nodes), not 0; nearest: "
            "--moe-node-limit 4"),
    ((*NODES, "--moe-node-limit", 5), "not 5; try: --moe-node-limit 4"),
    (("--moe-node-limit", 2), "--moe-node-limit does not apply: it requires --moe-dispatch dedup"),
    ((*NODES, "--moe-node-limit", 2, "--moe-imbalance", 1), "and --moe-imbalance; try: --moe-dispatch alltoall"),
    ((*NODES, "--moe-node-limit", 1, "--seq-length", 62), "62 tokens per rank; try: --moe-dispatch alltoall"),
    (("--gpus-per-node", 8, *NODES[2:], "--moe-node-limit", 1), "all are on one node; try: --gpus-per-node 4"),
    (("--moe-dispatch", "dedupe"), "did you mean 'dedup'?"),
])
def test_what_cannot_be_is_refused(busbar, model, words, said):
    done = busbar.run("plan", "transformer", *model, "--ranks", 8, "--ep", 8, *words, emulated=False)
    assert done.returncode == 2 and said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_one_rank_of_experts_dispatches_nothing(busbar, model):
    done = busbar.run("plan", "transformer", *model, "--ranks", 2, *NODES, "--moe-node-limit", 1, emulated=False)
    assert done.returncode == 2 and "ep is 1, no token goes to another rank" in done.stderr
    done = busbar.run("plan", "transformer", *model, "--ranks", 2, "--fp8-dispatch", emulated=False)
    assert done.returncode == 2 and "--fp8-dispatch does not apply: no token goes to another rank" in done.stderr


def test_of_no_layout_the_search_says_so(busbar):
    """Eight experts on two nodes of eight: one of a node has all, or each stands alone."""
    done = busbar.run("plan", "transformer", "--model", "mixtral_8x7b", "--ranks", 16, "--ep", 8, "--tp", 1, "--pp", 1,
                      "--global-batch-size", 64, "--cluster", "h100-sxm-ib", "--moe-dispatch", "dedup", "--moe-node-limit", 2,
                      "--seq-length", 4096, "--best-layout", emulated=False)
    assert done.returncode == 2 and "can be simulated with the given options" in done.stderr, done.stderr
