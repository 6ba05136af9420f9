"""bootstrap/results/README.md documents every field of every schema: each command runs on emulated GPUs, each key in its results has a
row in the reference with the type of the value, and each row occurs in a result (except fields that require hardware). Each key in the
field tables and json_pack calls of the code has a row too, also if no command of this test writes the key, and each row a key in the code.
The JSON Schemas in profiles/schemas/ are generated from the same rows; --rewrite-golden writes them."""
import json
import re

import jsonschema
import pytest
from conftest import BUILD, ROOT
from result_schemas import REFERENCE, STATS, documents, file_of, rows_of, section_schema, sections as sections_of_reference, text_of

SCHEMAS = REFERENCE.parents[2] / "profiles" / "schemas"
# require NVML, an invalid program, a shared GPU, a signal, a failed threshold
HARDWARE = re.compile(r"results\[\]\.gpu\.|checks\.faults$|shared_gpu$|^ended_by$|^phase$|^reason$|^nccl_ras$|^lost_ranks$|^below\[\]\.")
# compare has no ranks; only plans have --ops
EMPTY = {"`busbar.compare/1`": "devices[].", "`busbar.compare/1`: several files": "devices[].", "`busbar.proxy/1`": "roles[].program"}
NVML = {"EMU_NVML": str(BUILD / "tests/nvml/libnvidia-ml.so.1"), "NVML_STUB_ANY": "1", "NVML_STUB_LANES_1": "8"}
H100 = REFERENCE.parents[2] / "profiles" / "clusters" / "h100-sxm-ib.json"

# Section of the reference -> [(arguments, ranks, environment)]
RUNS = {
    "`busbar.bench/1`: collectives": [
        ("bench all_reduce broadcast -b 8K -e 8K --mode all -n 2 --repeats 2 -w 1 --split MOD:2 -N 2 -S 1 -M 1 --delay 1:100 --expect auto --min-of-expected 1%", 4, {}),
        ("bench all_reduce --sizes 8K --sweep-algorithms --write-tuner t.csv", 2, {}), ("bench all_reduce --sizes 8K -n 4 --repeats 2 -I 1 --clock host", 2, {})],
    "`busbar.bench/1`: p2p": [
        ("bench p2p --bandwidth-sizes 1M -n 2 --repeats 2", 5, {"EMU_CLUSTER": "four_per_node.json", "EMU_NODES": "0"})],
    "`busbar.bench/1`: comm": [("bench comm --repeats 2", 2, {})],
    "`busbar.bench/1`: overlap": [("bench overlap --sizes 1M --ctas default,2:4 -n 2 --repeats 2", 2, {"EMU_DATA": "off", "EMU_SLOW": "rank=1:1.5"})],
    "`busbar.bench/1`: variants": [
        ("bench all_gather --sizes 8K --sweep-variants plain,registered,symmetric,graph --with-gemm --gemm 64 -n 2", 2,
         {"EMU_NCCL_WINDOW": "30", "EMU_SYMMETRIC_PERCENT": "70"})],
    "`busbar.bench/1`: compute": [("bench compute --quick -n 1 --repeats 2", 2, {"EMU_DATA": "off", "EMU_SLOW": "rank=1:1.5"})],
    "`busbar.bench/1`: copy": [("bench copy --size 1M -n 2 --repeats 2", 3,
                                {"EMU_DATA": "off", "EMU_CLUSTER": "h100-sxm-ib", "EMU_SLOW_LINKS": "pcie1:0.5,nvlink0-2:0.5"})],
    "`busbar.plan/1`: collectives": [("plan all -e 1K --ranks 8 --cluster h100-sxm-ib --jitter 3% --samples 4", 0, {})],
    "`busbar.plan/1`: compute": [("plan compute gemm:64x64x64 attention:1x1024x8x64 adam --cluster h100-sxm-ib", 0, {})],
    "`busbar.plan/1`: best layout": [
        ("plan transformer --model gpt2_small --ranks 8 --global-batch-size 16 --cluster h100-sxm-ib --best-layout "
         "--top 3 --slow rank=3:1.2 --jitter 3% --samples 2 --tokens 2T --mtbf-node 9d --checkpoint 1m --restart 5m", 0, {}),
        ("plan transformer --model gpt2_small --ranks 2 --global-batch-size 4 --cluster h100-sxm-ib --best-layout --explain --tp=2 --slow rank=1:1.2", 0, {}),
        ("plan transformer --model gpt2_small --ranks 2 --global-batch-size 4 --cluster h100-sxm-ib --best-layout --tp 1 --explain --tp=3", 0, {})],
    "`busbar.plan/1`": [
        ("plan gpt2_large 12 4 3 --ranks 8 --ops --cluster h100-sxm-ib", 0, {}),
        ("plan dlrm --ranks 4 --compute gemm --ops --gpu-memory 80G", 0, {}),
        ("plan scaling --ranks 4 --cluster h100-sxm-ib", 0, {}),
        ("plan transformer --model gpt3_1_3b --ranks 8 --cluster h100-sxm-ib --slow rank=1:1.1 --jitter 3% --samples 2 --dp-sync distributed "
         "--use-precision-aware-optimizer --optimizer-cpu-offload", 0, {}),
        ("plan transformer --model mixtral_8x7b --ranks 32 --tp 2 --ep 8 --pp 2 --sequence-parallel --gpus-per-node 8 --best-order "
         "--global-batch-size 64 --cluster h100-sxm-ib --tokens 15T --mtbf-node 1500d --checkpoint 40s --restart 10m", 0, {})],
    "`busbar.proxy/1`": [
        ("proxy bert_large 4 2 2 --compute gemm --scale-counts 0.01 --peak-tflops 989 --graph --start-barrier -n 2 --warmup 1 "
         "--traced-steps 1", 2, {"EMU_DATA": "off"}),
        ("proxy transformer --model gpt2_small --layers 2 --tp 2 --scale-counts 0.01 --compute timed --check -n 2 --warmup 1 --cluster "
         "h100-sxm-ib --trace trace.json", 4, {"EMU_NODES": "4", "EMU_SLOW": "link=node0-nic0:0.3"}),
        ("proxy scaling --model resnet18_cifar --batch 128 --epoch-steps 2 --images 1000 --no-alone", 1, {"EMU_DATA": "off"}),
        ("proxy scaling --model resnet18_cifar --batch 128 --epoch-steps 2 --images 1000 --baseline {before}", 2, {"EMU_DATA": "off"}),
        ("proxy scaling --model resnet18_cifar --batch 128 --format synthetic --no-alone", 2,
         {"EMU_DATA": "off", "EMU_SLOW": "rank=1:1.5"})],
    "`busbar.proxies/1`": [("proxy all --quick", 2, {"EMU_DATA": "off"})],
    "`busbar.health/1`": [("health --quick --only soak --soak 2s", 4, {"EMU_DATA": "off", "EMU_NODES": "2",
                                                                       "EMU_FAULT": "die:rank=2,call=40,name=cublasLtMatmul"}),
                          ("health --quick --soak 1ms", 4, {"EMU_DATA": "off", "EMU_NODES": "2", "EMU_SLOW": "link=node1-nic0:0.5", **NVML,
                                                              "NVML_STUB_PCIE_REPLAYS": "3+5"}),
                          ("health --quick --only bisection", 2, {"EMU_DATA": "off", "EMU_NODES": "2", "EMU_CLUSTER": "leaves.json"})],
    "`busbar.compare/1`": [("compare {a} {b} --threshold 50", 0, {}), ("compare {a} {p}", 0, {}), ("compare {s} {q}", 0, {}), ("compare {h} {i}", 0, {})],
    "`busbar.compare/1`: several files": [("compare {a} {b} {p}", 0, {}), ("compare {q} {q}", 0, {})],
    "`busbar.calibration/1`": [
        ("calibrate {a} -o mine.json", 0, {}), ("calibrate {c} -o mine.json --from h100-sxm-ib", 0, {})],
    "`busbar.sweep/1`": [("sweep {study}", 0, {})],
    "`busbar.list/1`": [("list", 0, {})],
    "nccl-tests' form": [("-b 1K -e 4K -f 4 -n 2 -I 1 -g 2", 0, {}), ("-b 1K -e 4K -i 1K -n 2 -C 1 -g 2", 0, {})],
}


def closed(schema):
    """The schema, but unknown fields are errors. (The schema files accept fields that later versions of busbar add.)"""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    extra = {"additionalProperties": False} if "properties" in schema and "type" in schema else {}
    return {**{key: closed(value) for key, value in schema.items()}, **extra}


def validator(section):
    """Returns the closed validator of a section."""
    return jsonschema.Draft202012Validator({**closed(section_schema(section)), "$defs": {"stats": STATS}})


def faults_of(section, value):
    return [f"{error.json_path}: {error.message[:200]}" for error in validator(section).iter_errors(value)]


def paths_of(value, rows, prefix=""):
    """Yields the paths of all fields that the rows describe."""
    for item in value if isinstance(value, list) else [value]:
        for key, inner in item.items() if isinstance(item, dict) else ():
            path = prefix + key
            yield path
            if path in rows and rows[path].kind in ("object", "object[]"):
                yield from paths_of(inner, rows, path + rows[path].kind.removeprefix("object") + ".")


@pytest.fixture
def inputs(busbar, tmp_path):
    """Returns a function that creates the input files of a command and inserts their names."""

    def prepare(args):
        if "{a}" in args:
            for name, environment in (("a", {}), ("b", {"EMU_CLUSTER": str(H100)})):
                options = ["--sizes", "1K,2K" if name == "a" else "1K,4K", "-n", "2", "--json", tmp_path / f"{name}.json"]
                assert busbar.run("bench", "all_reduce", *options, ranks=2, env=environment).returncode == 0
            assert busbar.run("plan", "all_reduce", "--sizes", "1K,2K", "--ranks", 2, "--cluster", H100, "--json", tmp_path / "p.json",
                              emulated=False).returncode == 0
        if "{c}" in args:
            path = tmp_path / "c.json"
            assert busbar.run("bench", "all_reduce", "-b", "1K", "-e", "64M", "-f", "4", "--sweep-algorithms", "--json", path, ranks=2,
                              env={"EMU_DATA": "off"}).returncode == 0
            bench = json.loads(path.read_text())
            bench["results"][0]["time_us"]["p50"] *= 5  # an outlier
            path.write_text(json.dumps(bench))
        for name, nodes in (("h", 4), ("i", 2)):
            if "{h}" in args:
                assert busbar.run("health", "--quick", "--only", "whole", "--json", tmp_path / f"{name}.json", ranks=nodes,
                                  env={"EMU_DATA": "off", "EMU_NODES": str(nodes)}).returncode == 0
        if "{q}" in args:
            step = ["gpt2_large", "4", "2", "2", "--compute", "timed"]
            assert busbar.run("proxy", *step, "-n", 2, "--no-alone", "--json", tmp_path / "s.json", ranks=2, env={"EMU_DATA": "off"}
                              ).returncode == 0
            assert busbar.run("plan", *step, "--ranks", 2, "--cluster", H100, "--json", tmp_path / "q.json", emulated=False).returncode == 0
        four_per_node = json.loads(H100.read_text()) | {"gpus_per_node": 4}
        (tmp_path / "four_per_node.json").write_text(json.dumps(four_per_node))
        leaves = json.loads(H100.read_text()) | {"fabric": {"nodes_per_leaf": 1, "leaf_oversubscription": 2}}
        (tmp_path / "leaves.json").write_text(json.dumps(leaves))
        (tmp_path / "study.json").write_text('{"command": "plan gpt2_large", "ranks": 8, "options": {"layers": 12, "stages": [1, 4]}}')
        return args.format(before=tmp_path / "before.json", a=tmp_path / "a.json", b=tmp_path / "b.json", p=tmp_path / "p.json",
                           c=tmp_path / "c.json",
                           h=tmp_path / "h.json", i=tmp_path / "i.json",
                            s=tmp_path / "s.json", q=tmp_path / "q.json", study=tmp_path / "study.json")

    return prepare


@pytest.mark.parametrize("section", RUNS)
def test_reference_documents_all_result_fields(busbar, inputs, tmp_path, section):
    rows, seen, faults = rows_of(section), set(), []
    for args, ranks, environment in RUNS[section]:
        path = tmp_path / "result.json"
        args = inputs(args).split()
        if section.startswith("nccl"):
            path.unlink(missing_ok=True)
            done = busbar.run_program(busbar.build / "emulated" / "all_reduce_perf", *args, "-J", path)
        else:
            done = busbar.run(*args, "--json", path, ranks=ranks, env=environment, cwd=tmp_path, emulated=args[0] in ("bench", "proxy", "health"))
        assert path.exists(), done.stdout + done.stderr
        result = json.loads(path.read_text())
        faults += faults_of(section, result)
        seen |= set(paths_of(result, rows))
        published = jsonschema.Draft202012Validator(json.loads((SCHEMAS / file_of(section)).read_text()))
        assert published.is_valid({**result, "field_of_a_later_version": 1}) or faults
        path.replace(tmp_path / "before.json")
    assert sorted(set(faults)) == []
    missing = sorted(field for field in rows if field not in seen and not HARDWARE.search(field))
    assert [field for field in missing if not field.startswith(EMPTY.get(section, "-"))] == []


def test_schema_files_are_up_to_date(golden):
    files = documents()
    assert {path.name for path in SCHEMAS.iterdir()} <= set(files)
    for name, schema in files.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        golden(f"../../../profiles/schemas/{name}", text_of(schema) + "\n")


def test_schemas_describe_every_name_in_the_code():
    names = set(re.findall(r'"(busbar\.\w+/\d+)"', "".join(sources(".c").values()))) - {"busbar.model/1", "busbar.trace/1"}
    assert {name.replace("/", "-") + ".json" for name in names} | {"nccl-tests-3.json"} == set(documents())


def test_schemas_reject_other_documents(busbar, tmp_path):
    """A missing field, an unknown field, another type or a null is an error; a run that ended early may lack its results."""
    args = ["bench", "all_reduce", "-b", 8, "-e", 8, "-n", 1, "--repeats", 1]
    section, run = "`busbar.bench/1`: collectives", busbar.json(*args, tmp_path=tmp_path)
    row = run["results"][0]
    assert faults_of(section, run) == []
    for changed, at in [({"results": [{**row, "bytes": "8"}]}, "$.results[0].bytes"), ({"results": [{**row, "size": 8}]}, "$.results[0]"),
                        ({"results": [{**row, "time_us": {"p50": 1.0}}]}, "$.results[0].time_us"), ({"ranks": None}, "$.ranks"),
                        ({"schema": "busbar.bench/2"}, "$.schema")]:
        assert {fault.split(":")[0] for fault in faults_of(section, {**run, **changed})} == {at}
    assert faults_of(section, {key: value for key, value in run.items() if key != "status"}) != []
    without = {key: value for key, value in run.items() if key != "results"}
    assert faults_of(section, without) != [] and faults_of(section, {**without, "status": "timeout"}) == []


def keys_of_field_tables(source):
    """Returns the JSON keys in the tables of struct bb_field, and the top-level keys that a C source sets."""
    keys = re.findall(r'bb_results_set\([^,]+,\s*"(\w+)"', source)
    for table in re.findall(r"struct bb_field \w+\[\] =\s*\{(.*?)\{0\}", source, re.S):
        keys += re.findall(r'\{\s*(?:\.key = )?"(\w+)"', table) + re.findall(r"\b(?:JSON|BB_NAMED)\((?:[\w ]+, )?(\w+)\)", table)
    return keys


def call_arguments(source, at):
    """Returns the arguments of the C call whose opening parenthesis ends before position `at`."""
    arguments, depth = [""], 1
    for token in re.findall(r'"(?:\\.|[^"\\])*"|[(),]|[^"(),]+', source[at:]):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if depth == 0:
            break
        if token == "," and depth == 1:
            arguments.append("")
        else:
            arguments[-1] += token
    return [argument.strip() for argument in arguments]


def keys_of_calls(source):
    """Returns the literal keys that a C source passes to json_pack and json_object_set."""
    keys = re.findall(r'json_object_set(?:_new)?\([^;]*?,\s*"(\w+)"', source)
    for call in re.finditer(r"\bjson_pack\(", source):
        form, *arguments = call_arguments(source, call.end())
        values, open_brackets, is_key = iter(arguments), [], False
        for letter in re.findall(r"[][{}a-zA-Z:,]", "".join(re.findall(r'"([^"]*)"', form))):
            if letter in "[{":
                open_brackets.append(letter)
            elif letter in "]}":
                open_brackets.pop()
            elif letter not in ":,n":
                keys += re.findall(r'^"(\w+)"$', next(values)) if is_key else next(values) and []
            is_key = letter == "{" or letter == "," and open_brackets[-1] == "{"
    return keys


def documented_fields():
    """Returns {key: types} of the last keys of all rows of the reference."""
    fields = {}
    for field, row in [item for title in ["The head", *sections_of_reference()] for item in rows_of(title).items()]:
        fields.setdefault(re.split(r"[.\]]", field)[-1], set()).add(row.kind)
    return fields


def sources(*suffixes):
    return {path: path.read_text() for folder in ("bootstrap/**", "collectives/**", "cuda/**", "proxies/**", ".")
            for path in REFERENCE.parents[2].glob(f"{folder}/*") if path.suffix in suffixes}


# keys of other documents: columns of CSV, forecasts, messages to the writer process, study files, cluster profiles
OTHER = {"flat_table.c": {"low", "high"}, "results.c": {"csv", "foreign", "path", "junit", "prometheus", "nagios"}, "collect.c": {"relative_to"},
         "expand.c": {"json", "repeat"}, "profile.c": {"transport", "nics_per_node"}, "calibrated_profile.c": {"choice", "description", "doubtful", "factor", "left_out", "source"}, "measure_machine.c": {"cases", "EMU_NODES"},
         "table.c": set(STATS["required"]), "provenance.c": {"seq_length"},
         "foreign_line.c": {"model_type", "bidirectional", "first_k_dense_replace", "max_position_embeddings", "num_hidden_layers", "num_experts_per_tok", "vocab_size"},
         "expectation.c": {"gemm_tflops", "oversubscription", "tiers", "peer_gbps", "peer_kernel_gbps", "pcie_gbps", "other_nodes", "node_gpus", "node_nics", "domain_nodes"}}


@pytest.mark.parametrize("keys_of", [keys_of_field_tables, keys_of_calls])
def test_reference_documents_the_keys_of_the_code(keys_of):
    keys = {(path.name, key) for path, source in sources(".c").items() for key in keys_of(source)}
    assert len(keys) > 100
    documented = documented_fields()
    assert sorted((name, key) for name, key in keys if key not in documented and key not in OTHER.get(name, ())) == []


def test_code_contains_the_documented_keys():
    """Also of fields that no command of this test writes, such as those that require hardware."""
    code = "".join(sources(".c", ".h", ".def").values())
    words = set(re.findall(r'"(\w+)"', code)) | set(re.findall(r"\b(?:BB_NAMED|JSON)\((?:[^(),]*, )?(\w+)\)", code))
    assert sorted(key for key in documented_fields() if not {key, key.removesuffix("_us")} & words) == []


def test_units_of_keys_agree_with_the_types_of_the_reference():
    of_units = {r"_(us|ms|s|percent|gbps|mhz|ratio|tflops)$": {"number", "number[]", "stats", "integer"}, r"bytes$": {"integer"}}
    objects = {("memory_bytes", "object"), ("training_memory_bytes", "object"), ("step_us", "object"), ("per_process_max_times_us", "any[]")}
    wrong = [(key, kind) for key, kinds in documented_fields().items() for kind in kinds for unit, allowed in of_units.items()
             if re.search(unit, key) and kind not in allowed and (key, kind) not in objects]
    assert wrong == []


def siphash(data):
    """SipHash-2-4 with a key of zeros (Aumasson and Bernstein 2012)."""
    v = [0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573]

    def add(a, b, left):
        v[a] = (v[a] + v[b]) % 2**64
        v[b] = (v[b] << left | v[b] >> 64 - left) % 2**64 ^ v[a]

    def rounds(n):
        for _ in range(n):
            for a, b, left in ((0, 1, 13), (2, 3, 16)):
                add(a, b, left)
            v[0] = (v[0] << 32 | v[0] >> 32) % 2**64
            for a, b, left in ((0, 3, 21), (2, 1, 17)):
                add(a, b, left)
            v[2] = (v[2] << 32 | v[2] >> 32) % 2**64

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i:i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def canonical(value):
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{canonical(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(canonical, value))}]"
    if isinstance(value, float):
        text = f"{value:.17g}".replace("e+", "e")
        return text if set(text) & set(".e") else f"{text}.0"
    return json.dumps(value, ensure_ascii=False)


def test_checksums_of_profiles_are_those_of_the_reference(busbar, tmp_path):
    plan = busbar.json("plan", "transformer", "--model", "gpt2_small", "--ranks", 8, "--cluster", "h100-sxm-ib", emulated=False, tmp_path=tmp_path)
    for kind, name in (("cluster", "h100-sxm-ib"), ("model", "gpt2_small")):
        profile = json.loads((ROOT / f"profiles/{kind}s/{name}.json").read_text())
        assert plan["profiles"][kind] == f"{siphash(canonical(profile).encode()) >> 16:012x}"
