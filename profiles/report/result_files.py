"""Result files: read, refused where they are none of ours, and told apart by what they hold.

A Result is one file with its kind (KINDS), a name that is short and unlike those of the others, and its stamps: what
has to stand on every chart of it, since the figures are no measurement of hardware or are not all there.
"""
import difflib
import json
import pathlib
import re

# Kind -> what the report calls it.
KINDS = {
    "collectives": "bench", "p2p": "bench p2p", "comm": "bench comm", "overlap": "bench overlap",
    "compute": "bench compute", "proxy": "proxy", "proxies": "proxy all", "plan": "plan", "compare": "compare",
    "sweep": "sweep", "trace": "trace", "calibration": "calibrate",
}
# Of busbar.bench/1: a field that only rows of this kind have; the last one fits none of the others.
ROW_FIELDS = (("p2p", "metric"), ("comm", "step"), ("overlap", "compute_alone_us"), ("compute", "section"),
              ("collectives", "collective"))
SCHEMAS = {"busbar.bench/1": None, "busbar.proxy/1": "proxy", "busbar.proxies/1": "proxies", "busbar.plan/1": "plan",
           "busbar.compare/1": "compare", "busbar.sweep/1": "sweep", "busbar.trace/1": "trace",
           "busbar.calibration/1": "calibration"}
LARGEST_BYTES = 1 << 30


class Unreadable(Exception):
    """What is wrong with a file, in a line."""


class Result:
    def __init__(self, path, kind, data):
        self.path, self.kind, self.data = str(path), kind, data
        self.name = pathlib.Path(path).name
        self.rows = [row for row in data.get("results") or [] if isinstance(row, dict)]

    def word(self, key):
        """A text of the top level, or nothing."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    @property
    def stamps(self):
        """Texts; nothing for figures that were measured, all of them, on GPUs of their own."""
        data, stamps = self.data, []
        source = str((data.get("otherData") or {}).get("times", ""))
        if data.get("emulated") or source.startswith("emulated"):
            stamps.append("emulated GPUs: modelled times")
        planned = self.kind == "plan" or is_plan(data)
        if planned and data.get("predicted"):
            stamps.append(f"predicted for {data['predicted'].get('cluster')}")
        elif planned:
            stamps.append("on paper")
        elif source.startswith("predicted"):
            stamps.append(source)
        elif self.kind == "sweep" and any(is_plan(c.get("result")) for c in data.get("combinations") or []):
            stamps.append("predicted")
        if data.get("shared_gpu"):
            stamps.append("ranks share a GPU: times mean nothing")
        if self.word("status") not in ("", "ok"):
            stamps.append(f"the run ended with: {self.word('status')}")
        return stamps


def is_plan(data):
    return isinstance(data, dict) and data.get("schema") == "busbar.plan/1"


def read(path):
    """The Result in a file, or Unreadable."""
    try:
        if pathlib.Path(path).stat().st_size > LARGEST_BYTES:
            raise Unreadable("is larger than 1 GiB")
        data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        reason = "a text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error) or "too deep"
        raise Unreadable(f"is no JSON: {reason}") from error
    kind = kind_of(data)
    try:
        if kind == "collectives" and "schema" not in data:
            data = from_nccl_tests(data)
        result = Result(path, kind, data)
        check_header(result)
        return result
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreadable(f"holds what no result of busbar has: {type(error).__name__}, {error}") from error


def check_header(result):
    """What every page says of a file can be said."""
    devices, nccl, data = result.data.get("devices") or [], result.data.get("nccl") or {}, result.data
    wrong = [key for key, value, kind in (("devices", devices, list), ("nccl", nccl, dict)) if not isinstance(value, kind)]
    wrong += [key for key in ("ranks", "nodes") if data.get(key) is not None and not isinstance(data[key], int)]
    wrong += [key for key in ("results", "roles", "groups", "combinations") if not isinstance(data.get(key) or [], list)]
    if wrong:
        raise TypeError(f"'{wrong[0]}'")
    assert isinstance(result.stamps, list)


def kind_of(data):
    if not isinstance(data, dict):
        raise Unreadable("is no result of busbar: expected an object with a schema")
    if "schema" not in data and "nccl_version" in data and isinstance(data.get("results"), list):
        return "collectives"
    if "schema" not in data and isinstance(data.get("otherData"), dict):
        return kind_of(data["otherData"]) if "schema" in data["otherData"] else reject_schema(None)
    schema = data.get("schema")
    if not isinstance(schema, str) or schema not in SCHEMAS:
        reject_schema(schema)
    if schema == "busbar.plan/1" and "results" in data:  # of a collective: the table of bench
        return kind_of_bench(data)
    return SCHEMAS[schema] or kind_of_bench(data)


def reject_schema(schema):
    if not isinstance(schema, str):
        raise Unreadable("is no result of busbar: it has no schema")
    near = difflib.get_close_matches(schema, SCHEMAS, 1)
    known = f"nearest: {near[0]}" if near else "known: " + ", ".join(SCHEMAS)
    raise Unreadable(f"has the schema '{schema}', which this report does not know; {known}")


def kind_of_bench(data):
    """By the first row; of a run without one by the words of its command."""
    rows = data.get("results")
    if not isinstance(rows, list):
        raise Unreadable("is no whole result of busbar: 'results' is no list")
    first = rows[0] if rows and isinstance(rows[0], dict) else {}
    for kind, field in ROW_FIELDS:
        if field in first:
            return kind
    words = data.get("command") if isinstance(data.get("command"), list) else []
    return next((kind for kind, _ in ROW_FIELDS if kind in words), "collectives")


def from_nccl_tests(data):
    """The file that `all_reduce_perf -J` writes, as rows of busbar.bench/1."""
    program = next((w for w in data.get("args") or [] if re.search(r"(\w+)_perf", w)), "nccl-tests")
    name = re.sub(r"_perf$", "", pathlib.PurePath(program).name)
    rows = []
    for row in data["results"]:
        for placement in ("out_of_place", "in_place"):
            side = row.get(placement)
            if side:
                rows.append({
                    "collective": name, "bytes": row.get("size"), "dtype": row.get("type"), "op": row.get("redop"),
                    "placement": placement, "mode": "stream", "busbw_gbps": side.get("bus_bw"),
                    "algbw_gbps": side.get("alg_bw"), "wrong": side.get("nwrong"),
                    "time_us": {"p50": side.get("time", side.get("cpu_time")), "ci95": None}})
    devices = (data.get("config") or {}).get("devices") or []
    return {**data, "results": rows, "ranks": len(devices) or None, "command": data.get("args") or [],
            "started": data.get("start_time")}


def make_names_unique(results):
    """Files of one name are called by as much of their paths as tells them apart."""
    for result in results:
        parts, n = pathlib.PurePath(result.path).parts, 1
        while n < len(parts) and any(other is not result and pathlib.PurePath(other.path).parts[-n:] == parts[-n:]
                                     for other in results):
            n += 1
        result.name = "/".join(parts[-n:]).replace("//", "/")
