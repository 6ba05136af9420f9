"""Read result files, reject other files, and determine the kind of each.

A Result is one file with its kind (KINDS), a short unique name, and stamps. A stamp is a warning that is printed on
every chart of the file: the values are not measurements of hardware, or the run is incomplete.
"""
import difflib
import json
import math
import pathlib
import re


# Kind -> type in the table of files.
KINDS = {
    "collectives": "bench", "p2p": "bench p2p", "comm": "bench comm", "overlap": "bench overlap",
    "compute": "bench compute", "copy": "bench copy", "proxy": "proxy", "proxies": "proxy all", "plan": "plan", "compare": "compare",
    "sweep": "sweep", "trace": "trace", "calibration": "calibrate",
    "health": "health",
}
# busbar.bench/1: (kind, a field that identifies its rows), tested in this order.
ROW_FIELDS = (("p2p", "metric"), ("comm", "step"), ("overlap", "compute_alone_us"), ("compute", "section"), ("copy", "engine"),
              ("collectives", "collective"))
SCHEMAS = {"busbar.bench/1": None, "busbar.proxy/1": "proxy", "busbar.proxies/1": "proxies", "busbar.plan/1": "plan",
           "busbar.compare/1": "compare", "busbar.sweep/1": "sweep", "busbar.trace/1": "trace",
           "busbar.calibration/1": "calibration", "busbar.health/1": "health"}
LARGEST_BYTES = 1 << 30


class Unreadable(Exception):
    """The message describes the problem with the file in one line."""


class Result:
    def __init__(self, path, kind, data):
        self.path, self.kind, self.data = str(path), kind, data
        self.name = pathlib.Path(path).name
        self.rows = [row for row in data.get("results") or [] if isinstance(row, dict)]

    def text(self, key):
        """The string of a top-level key; "" if the key is missing or no string."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def of_step(self, key):
        """A field of a step: predicted by a plan, or measured."""
        value = (self.data.get("predicted") or {}).get(key)
        return self.data.get(key) if value is None else value

    @property
    def type(self):
        """The command that wrote the file, for example "plan COLLECTIVE"."""
        data = self.data
        if self.kind == "collectives" and is_plan(data):
            return "plan COLLECTIVE"
        return f"{KINDS[self.kind]} --best-layout" if "best_layout" in data else KINDS[self.kind]

    @property
    def failure(self):
        """The status if it is not "ok"; else "". Files of nccl-tests have no status, but rows with wrong data."""
        status = self.text("status") or ("wrong data" if any(row.get("wrong") for row in self.rows) else "ok")
        return "" if status == "ok" else status

    @property
    def problems(self):
        """Reasons not to use the values: ranks that share a GPU, and a run that failed."""
        shared = ["ranks share a GPU: times are not meaningful"] if self.data.get("shared_gpu") else []
        return shared + ([f"status of the run: {self.failure}"] if self.failure else [])

    @property
    def stamps(self):
        """Warnings; empty for a complete measurement with one GPU per rank."""
        data, stamps = self.data, []
        source = str((data.get("otherData") or {}).get("times", ""))
        if data.get("emulated") or source.startswith("emulated"):
            stamps.append("emulated GPUs: modelled times")
        planned = self.kind == "plan" or is_plan(data)
        if planned and data.get("predicted"):
            stamps.append(f"predicted for {data['predicted'].get('cluster')}")
        elif planned:
            stamps.append("planned offline, without times")
        elif source.startswith("predicted"):
            stamps.append(source)
        elif self.kind == "sweep" and any(is_plan(c.get("result")) for c in data.get("combinations") or []):
            stamps.append("predicted")
        return stamps + self.problems


def is_plan(data):
    return isinstance(data, dict) and data.get("schema") == "busbar.plan/1"


def unique(pairs):
    """Returns the dict of an object's keys and values; raises ValueError for a key that is given twice."""
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(name for name in names if names.count(name) > 1)!r} is given twice")
    return data


def read(path):
    """Read a file as a Result; raises Unreadable. PATH=/dev/fd/N: busbar converted the file at PATH to JSON."""
    path, converted = re.fullmatch(r"(?s)(.*?)(?:=(/dev/fd/\d+))?", str(path)).groups()
    try:
        return parse(path, converted or path)
    except Unreadable as error:
        raise Unreadable(f"{path} {error}") from error


def parse(name, path):
    try:
        if pathlib.Path(path).stat().st_size > LARGEST_BYTES:
            raise Unreadable("is larger than 1 GiB")
        text = pathlib.Path(path).read_text(encoding="utf-8-sig")
        data = json.loads(text, object_pairs_hook=unique, parse_constant=reject_constant)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or "nested too deeply"
        raise Unreadable(f"is not valid JSON: {reason}") from error
    kind = kind_of(data)
    try:
        if kind == "collectives" and "schema" not in data:
            data = from_nccl_tests(data)
        result = Result(name, kind, data)
        check_header(result)
        return result
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"does not match its schema: {type(error).__name__}, {error}") from error


def reject_constant(text):
    """NaN and Infinity, which json.loads accepts."""
    raise ValueError(f"{text} is not a number")


FIELD_TYPES = {"devices": list, "nccl": dict, "ranks": int, "nodes": int, "results": list, "roles": list,
               "groups": list, "combinations": list}


def check_header(result):
    """Check the signs of sizes and times, and the types of fields that the page prints; raises TypeError."""
    for i, row in enumerate(result.rows):
        for key in ("bytes", "time_us", "measured_us"):
            value = row.get(key).get("p50") if isinstance(row.get(key), dict) else row.get(key)
            if isinstance(value, (int, float)) and not 0 <= value < math.inf:
                raise TypeError(f"results[{i}].{key} is {value}")
    wrong = [key for key, kind in FIELD_TYPES.items() if not isinstance(result.data.get(key) or kind(), kind)]
    if wrong:
        raise TypeError(f"'{wrong[0]}'")
    assert isinstance(result.stamps, list)


def kind_of(data):
    if not isinstance(data, dict):
        raise Unreadable("is not a result of busbar: expected an object with a schema")
    # nccl-tests: its JSON has the version of NCCL; output printed before 2.16.7 does not, but always has the words of its command.
    if "schema" not in data and ("nccl_version" in data or "args" in data) and isinstance(data.get("results"), list):
        return "collectives"
    if "schema" not in data and isinstance(data.get("otherData"), dict):
        return kind_of(data["otherData"]) if "schema" in data["otherData"] else reject_schema(None)
    schema = data.get("schema")
    if not isinstance(schema, str) or schema not in SCHEMAS:
        reject_schema(schema)
    if schema == "busbar.plan/1" and "results" in data:  # a plan of a collective has the rows of bench
        return kind_of_bench(data)
    return SCHEMAS[schema] or kind_of_bench(data)


def reject_schema(schema):
    if not isinstance(schema, str):
        raise Unreadable("is not a result of busbar: it has no key 'schema'")
    similar = difflib.get_close_matches(schema, SCHEMAS, 1, 0.9)
    hint = f"did you mean '{similar[0]}'?" if similar else "supported: " + ", ".join(SCHEMAS)
    raise Unreadable(f"has the unknown schema '{schema}'; {hint}")


def kind_of_bench(data):
    """The kind of a bench result, from its first row; without rows, from the command line in the file."""
    rows = data.get("results")
    if not isinstance(rows, list):
        raise Unreadable("is not a complete result of busbar: 'results' is not a list")
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    for kind, field in ROW_FIELDS:
        if field in first:
            return kind
    args = data.get("command") if isinstance(data.get("command"), list) else []
    return next((kind for kind, _ in ROW_FIELDS if kind in args), "collectives")


def from_nccl_tests(data):
    """Convert the JSON of nccl-tests (`all_reduce_perf -J`) to rows of busbar.bench/1."""
    program = next((w for w in data.get("args") or [] if re.search(r"(\w+)_perf", w)), "nccl-tests")
    name = re.sub(r"_perf$", "", pathlib.PurePath(program).name)
    rows = []
    for row in data["results"]:
        for placement in ("out_of_place", "in_place"):
            side = row.get(placement)
            if side:
                by_cpu = "cpu_time" in side  # -C 1: the host's time to enqueue, which has no bandwidth
                rows.append({
                    "collective": name, "bytes": row.get("size"), "dtype": row.get("type"), "op": row.get("redop"),
                    "placement": placement, "mode": "host" if by_cpu else "stream",
                    "busbw_gbps": None if by_cpu else side.get("bus_bw"), "algbw_gbps": None if by_cpu else side.get("alg_bw"), "wrong": side.get("nwrong"),
                    "time_us": {"p50": side.get("time", side.get("cpu_time")), "ci95": None}})
    devices = (data.get("config") or {}).get("devices") or []
    return {**data, "results": rows, "ranks": len(devices) or None, "command": data.get("args") or [],
            "started": data.get("start_time")}


def make_names_unique(results):
    """Name files with the same base name by the shortest path suffix that distinguishes them."""
    for result in results:
        parts, n = pathlib.PurePath(result.path).parts, 1
        while n < len(parts) and any(other is not result and pathlib.PurePath(other.path).parts[-n:] == parts[-n:]
                                     for other in results):
            n += 1
        result.name = "/".join(parts[-n:]).replace("//", "/")
