"""Generates the JSON Schemas of busbar's results (profiles/schemas/) from the tables of bootstrap/results/README.md."""
import json
import pathlib
import re

REFERENCE = pathlib.Path(__file__).resolve().parents[2] / "bootstrap" / "results" / "README.md"
ROW = re.compile(r"^\| (`[^|]*`) \| ([^|]*) \| (.*) \|$", re.M)
TYPES = {"text": "string", "boolean": "boolean", "integer": "integer", "number": "number", "object": "object", "map": "object"}
NUMBER_OR_NULL = {"type": ["number", "null"]}
STATS = {"type": "object", "description": "distribution over samples", "additionalProperties": False,
         "required": ["min", "p50", "p90", "p99", "max", "mean", "ci95"],
         "properties": {**dict.fromkeys(["min", "p50", "p90", "p99", "max", "mean"], NUMBER_OR_NULL),
                        "ci95": {"type": ["array", "null"], "items": {"type": "number"}, "minItems": 2, "maxItems": 2}}}


class Row:
    """A field of the reference: its type and its meaning."""

    def __init__(self, kind, meaning):
        kind, self.optional = re.subn(", optional$", "", kind)
        self.kind, self.nullable = re.subn(" or null$", "", kind)
        self.meaning = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning)

    def schema(self):
        """The schema of the value, without the fields of an object."""
        item = self.kind.removesuffix("[]")
        value = {"$ref": "#/$defs/stats"} if item == "stats" else {"type": TYPES[item]} if item in TYPES else {}
        if self.kind.endswith("[]"):
            value = {"type": "array", **({"items": value} if value else {})}
        if self.nullable and "type" in value:
            value["type"] = [value["type"], "null"]
        elif self.nullable and value:
            value = {"anyOf": [value, {"type": "null"}]}
        return {"description": self.meaning, **value}


def rows_in(text):
    """Returns {field: Row} of the tables in a part of the reference."""
    rows = {}
    for fields, kind, meaning in ROW.findall(text):
        names, meanings = re.findall(r"`([^`]+)`", fields), meaning.split("; ")
        for name, own in zip(names, meanings if len(meanings) == len(names) else [meaning] * len(names)):
            rows[name] = Row(kind, own)
    return rows


def rows_of(section):
    """Returns {field: Row} of a section of the reference, including the sections to which it refers."""
    part = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", REFERENCE.read_text(), re.M | re.S).group(1)
    rows = rows_of("The head") if "All of [the head]" in part else {}
    rows |= rows_of("Checks") if "[checks](#checks)" in part else {}
    for field in re.findall(r"`(\w+)`", "".join(re.findall(r"and of `busbar.plan/1`:(.*?);", part))):
        rows |= {k: v for k, v in rows_of("`busbar.plan/1`").items() if re.split(r"[.\[]", k)[0] == field}
    return rows | rows_in(part)


def object_schema(rows, prefix=""):
    """The schema of the object whose fields are the rows `prefix`NAME."""
    properties = {}
    for path, row in rows.items():
        name = path.removeprefix(prefix)
        if not path.startswith(prefix) or re.search(r"[.\[]", name):
            continue
        properties[name] = row.schema()
        if row.kind == "object":
            properties[name] |= object_schema(rows, path + ".")
        elif row.kind == "object[]":
            properties[name]["items"] = {"type": "object", **object_schema(rows, path + "[].")}
    return {"properties": properties, "required": [name for name in properties if not rows[prefix + name].optional]}


def section_schema(section):
    """The schema of a section. With a head, a run that ended early may lack the fields that are not in the head."""
    rows, head = rows_of(section), rows_of("The head")
    schema = {"type": "object", **object_schema(rows)}
    if "schema" in rows:
        schema["properties"]["schema"] = {"const": section.split("`")[1]}
    if "started" in rows:
        of_run = [name for name in schema["required"] if name not in head]
        schema["required"] = [name for name in schema["required"] if name in head]
        schema |= {"if": {"properties": {"status": {"const": "ok"}}}, "then": {"required": of_run}}
    return schema


def sections():
    return [title for title in re.findall(r"^## (.*)", REFERENCE.read_text(), re.M) if title.startswith("`busbar.") or title.startswith("nccl-tests")]


def file_of(section):
    """busbar.bench-1.json for "`busbar.bench/1`: collectives"."""
    return section.split("`")[1].replace("/", "-") + ".json" if "`" in section else "nccl-tests-3.json"


def documents():
    """Returns {file name: schema}. A file of several sections describes alternatives."""
    files = {}
    for section in sections():
        files.setdefault(file_of(section), {})[section.partition(": ")[2].replace(" ", "_") or "document"] = section_schema(section)
    return {name: {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Results of busbar: {name.removesuffix('.json')}",
                   "anyOf": [{"$ref": f"#/$defs/{part}"} for part in parts], "$defs": {**parts, "stats": STATS}}
            for name, parts in files.items()}


def text_of(value, indent=""):
    """The JSON text: an object is on one line if it is short or contains no other object, such as most fields of a result."""
    line, inner = json.dumps(value), indent + " "
    if not isinstance(value, dict) or len(line) < 120 or not any(isinstance(item, dict) for item in value.values()):
        return line
    return "{\n" + ",\n".join(f"{inner}{json.dumps(key)}: {text_of(item, inner)}" for key, item in value.items()) + "\n" + indent + "}"
