"""Invalid commands end with status 2 and one error line, print nothing to stdout and create no file.

golden/refusals.txt has sections ("## TITLE") of commands ("$ [VARIABLE=VALUE...] [mpirun -n N] busbar|busbar-emulated ARGUMENTS"), each followed
by its exit status and error lines ("2 busbar: ..."). To add a command, write its line; `pytest -n 0 --rewrite-golden` completes the file.
"""
import re
import shlex
import socket

import pytest
from conftest import GOLDEN, ROOT

FILE = GOLDEN / "refusals.txt"
SECTIONS = re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", FILE.read_text(), re.M)


def commands_of(section):
    return re.findall(r"^\$ (.+)$", section, re.M)


def run(busbar, line, folder):
    """Runs a command of the file. Only busbar's lines count: mpirun adds a report of its own."""
    words = shlex.split(line)
    at = next(i for i, word in enumerate(words) if word in ("busbar", "busbar-emulated"))
    env = dict(word.split("=", 1) for word in words[:at] if "=" in word)
    ranks = int(words[at - 1]) if "mpirun" in words[:at] else 0
    args = [str(ROOT / word) if (ROOT / word).is_file() else word for word in words[at + 1:]]
    done = busbar.run(*args, ranks=ranks, env=env, emulated=words[at] == "busbar-emulated", cwd=folder)
    lines = [x for x in done.stderr.splitlines() if not ranks or x.startswith("busbar: ")]
    lines = [re.sub(rf"\b{re.escape(socket.gethostname())}\b", "HOST", x).replace(f"{ROOT}/", "") for x in lines]
    assert done.stdout == "" and not list(folder.iterdir()), line
    return "".join(f"{done.returncode} {x}\n" for x in lines)


@pytest.mark.parametrize("title,section", SECTIONS, ids=[title for title, _ in SECTIONS])
def test_refusals_print_their_line(busbar, tmp_path, request, title, section):
    text = "".join(f"$ {line}\n{run(busbar, line, tmp_path)}" for line in commands_of(section))
    if request.config.getoption("--rewrite-golden"):
        FILE.write_text(FILE.read_text().replace(f"## {title}\n{section}", f"## {title}\n{text}"))
    else:
        assert text == section


def test_every_refusal_has_status_2_and_one_line():
    for _, section in SECTIONS:
        for found in re.findall(r"^\$ .+\n((?:(?!\$ ).*\n)*)", section, re.M):
            assert found.startswith("2 busbar: ") and found.count("\n") == 1, found
