"""Invalid commands end with status 2 and one error line, print nothing to stdout and create no file.

golden/refusals.txt has sections ("## TITLE") of commands ("$ [VARIABLE=VALUE...] [mpirun -n N] busbar|busbar-emulated ARGUMENTS"), each followed
by its exit status and error lines ("2 busbar: ..."). A line "> NAME TEXT" writes an input file for the following commands of its section;
"\\n" in TEXT is a new line. If TEXT begins with the name of a JSON file of the project, the rest is a JSON merge patch (RFC 7396) of that file.
To add a command, write its line; `pytest -n 0 --rewrite-golden` completes the file.
"""
import json
import re
import shlex
import socket

import pytest
from conftest import GOLDEN, ROOT

FILE = GOLDEN / "refusals.txt"
SECTIONS = re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", FILE.read_text(), re.M)


def merge(value, patch):
    """Returns the value after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = {**(value if isinstance(value, dict) else {}), **{key: merge((value or {}).get(key), patch[key]) for key in patch}}
    return {key: inner for key, inner in merged.items() if inner is not None}


def write_input(folder, line):
    name, _, text = line.partition(" ")
    base, _, patch = text.partition(" ")
    if base and (ROOT / base).is_file():
        text = json.dumps(merge(json.loads((ROOT / base).read_text()), json.loads(patch)))
    (folder / name).write_text(text.replace("\\n", "\n"))


def run(busbar, line, folder):
    """Runs a command of the file. Only busbar's lines count: mpirun adds a report of its own."""
    words = shlex.split(line)
    at = next(i for i, word in enumerate(words) if word in ("busbar", "busbar-emulated"))
    env = dict(word.split("=", 1) for word in words[:at] if "=" in word)
    ranks = int(words[at - 1]) if "mpirun" in words[:at] else 0
    args = [str(ROOT / word) if (ROOT / word).is_file() else word for word in words[at + 1:]]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = busbar.run(*args, ranks=ranks, mpirun=(), env=env, emulated=words[at] == "busbar-emulated", cwd=folder)
    lines = [x for x in done.stderr.splitlines() if not ranks or x.startswith("busbar: ")]
    lines = [re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", x).replace(f"{ROOT}/", "") for x in lines]
    assert done.stdout == "" and {path: path.read_bytes() for path in folder.iterdir()} == before, line
    return "".join(f"{done.returncode} {x}\n" for x in lines)


@pytest.mark.parametrize("title,section", SECTIONS, ids=[title for title, _ in SECTIONS])
def test_refusals_print_their_line(busbar, tmp_path, request, title, section):
    text = ""
    for kind, line in re.findall(r"^([$>]) (.+)$", section, re.M):
        text += f"{kind} {line}\n"
        if kind == ">":
            write_input(tmp_path, line)
        else:
            text += run(busbar, line, tmp_path)
    if request.config.getoption("--rewrite-golden"):
        FILE.write_text(FILE.read_text().replace(f"## {title}\n{section}", f"## {title}\n{text}"))
    else:
        assert text == section


def test_every_refusal_has_status_2_and_one_line():
    for _, section in SECTIONS:
        for found in re.findall(r"^\$ .+\n((?:(?![$>] ).*\n)*)", section, re.M):
            assert found.startswith(("2 busbar: ", "2 emulated GPUs: ")) and found.count("\n") == 1, found
