"""The table of environment variables (bootstrap/base/environment.def) agrees with the source, and with the help."""
import re

import pytest
from conftest import ROOT

TABLE = (ROOT / "bootstrap/base/environment.def").read_text()
READ = dict(re.findall(r'^READ\((\w+),\s+"(.*)"\)$', TABLE, re.M))
OF_LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "MPI_LOCAL", "SLURM_", "SLURMD_")


def sources(*folders):
    return {path: path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.[ch]*")}


def variables_read(source):
    """Names in getenv("NAME"), in functions of the source that pass a parameter to getenv(), and in constants."""
    readers = re.findall(r"(\w+)\(const char \*(\w+)[^{]*\)\n\{\n[^}]*?\bgetenv\(\2\)", source)
    calls = "|".join(["getenv", *(name for name, _ in readers)])
    names = set(re.findall(rf'\b(?:{calls})\("(\w+)"', source))
    return names | set(re.findall(r'VARIABLE\[\] = "(\w+)"', source))


def test_every_variable_that_the_code_reads_is_in_the_table():
    """Otherwise neither results nor the manual page would contain it."""
    product = {name for text in sources("bootstrap", "collectives", "cuda", "proxies").values() for name in variables_read(text)}
    emulator = set(re.findall(r'"(EMU_\w+)"', "".join(sources("tests/emulator").values())))
    assert {"BUSBAR_RANK", "BUSBAR_PROGRESS", "NCCL_TESTS_MIN_BW", "NCCL_TUNER_PLUGIN"} <= product and len(emulator) > 20
    known = {*READ, "COLUMNS", *re.findall(r"^INTERNAL\((\w+)\)$", TABLE, re.M)}  # the width of the help changes no result
    assert sorted(name for name in product | emulator if name not in known and not name.startswith(OF_LAUNCHERS)) == []


def test_every_row_is_a_variable_of_the_code_or_of_a_script():
    code = "".join(sources("bootstrap", "collectives", "cuda", "proxies", "tests/emulator").values())
    scripts = "".join(path.read_text() for path in (ROOT / "profiles").rglob("*.sh"))
    assert [name for name in READ if f'"{name}"' not in code and f"${{{name}:" not in scripts] == []


def test_emulated_gpus_document_the_same_variables():
    documented = set(re.findall(r"^\| `(EMU_\w+)` \|", (ROOT / "tests/emulator/README.md").read_text(), re.M))
    assert documented == {name for name in READ if name.startswith("EMU_")}


def test_every_variable_of_emulated_gpus_and_nccl_is_recorded():
    text = "".join(sources("tests/emulator").values())
    read = set(re.findall(r'getenv\("((?:NCCL|CUDA)_\w+)"', text))
    assert len(read) > 5 and [name for name in read if not re.search(rf"^\w+\({name}[,)]", TABLE, re.M)] == []


def test_help_lists_the_variables(busbar):
    text = busbar.run("help", "environment", emulated=False).stdout
    assert re.findall(r"^  ((?:NCCL|CUDA|NVIDIA|BUSBAR|EMU)_\w+)", text, re.M) == list(READ)
    page = busbar.run("--help=man", emulated=False).stdout
    section = re.search(r"^\.SH ENVIRONMENT\n(.*?)^\.SH", page, re.M | re.S).group(1)
    assert re.findall(r"^\.B (\w+)$", section, re.M) == list(READ)
    prefixes = re.findall(r'^    \{"(\w+_\w*)", "', (ROOT / "bootstrap/start/launcher.c").read_text(), re.M)
    assert len(prefixes) > 5 and all(f"{prefix}*" in text and f"{prefix}*" in section for prefix in prefixes)


@pytest.mark.parametrize("words", [["EMU_FAULT"], ["environment", "EMU_FAULT"], ["environment", "BUSBAR_PROGRESS"]])
def test_help_prints_one_variable(busbar, words):
    done = busbar.run("help", *words, emulated=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and lines[0].split()[0] == words[-1] and len(lines) < 8 and not re.search(r"^  [A-Z]", "\n".join(lines[1:]), re.M)
    assert words[-1] != "EMU_FAULT" or "KIND:rank=R,call=K,name=FUNCTION" in re.sub(r"\s+", " ", done.stdout)
    assert "busbar help environment" in busbar.run("help", "NCCL_ALGO", emulated=False).stdout
    assert "unknown command 'EMU_FAULTS'" in busbar.run("help", "EMU_FAULTS", emulated=False).stderr


def test_variables_of_nccl_are_in_alphabetical_order():
    names = re.findall(r"^\w+\((NCCL_\w+)", TABLE.split("/* nccl-tests */")[0], re.M)
    assert names == sorted(names)
