"""Checks every README against the program: commands run and print the shown output, options and links exist, and modules include only
the modules that their tables list.

An indented block in a README is a list of commands. If its lines begin with "$ ", the block contains commands with their output, and
"..." marks omitted text. Commands with output run unchanged. The other commands run in a short form and without data. The comment
<!-- words only: why --> before a block means that the block is not run; the test only checks that its options are known and its files
exist. The comment <!-- try: COMMAND --> before a table appends each `-option` of the table to COMMAND and checks the result. "# exit N"
after a command is the expected exit status. Fenced blocks are studies (```json, saved as a file if the fence names one) or drawings
(```text).
"""
import graphlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
READMES = sorted(ROOT / line for line in subprocess.run(
    ["find", ".", "-name", "build*", "-prune", "-o", "-name", "README.md", "-print"], cwd=ROOT, capture_output=True, text=True,
    check=True).stdout.split())
NAMES = [str(path.relative_to(ROOT)) for path in READMES]
QUICK = {"proxy": "-n 1 --warmup 0 --traced-steps 0 --no-alone", "bench": "-n 1 -w 0 --repeats 1 -c 0 -f 1024",
         "p2p": "-n 1 -w 1 --repeats 1 -c 0", "comm": "-w 0 --repeats 1", "overlap": "-n 1 -w 0 --repeats 1 --gemms 1",
         "compute": "-n 1 -w 0 --repeats 1 --quick", "measure": "-n 1 -w 0 --repeats 1 -f 1024"}
PLACEHOLDER = re.compile(r"(?<![\w$])[A-Z][A-Z_]{2,}(?![\w=:])|\.\.\.")


class Block:
    def __init__(self, name, line, mark):
        self.name, self.line, self.mark = name, line, mark
        self.commands = []  # [text, [line of output, ...]]

    @property
    def has_output(self):
        return any(output is not None for _, output in self.commands)

    def read(self, lines):
        console = any(line.startswith("$ ") for line in lines)
        continued = False
        for line in lines:
            if continued:
                self.commands[-1][0] += " " + line.strip()
            elif not console and line:
                self.commands.append([line, None])
            elif line.startswith("$ "):
                self.commands.append([line[2:], []])
            elif console:
                self.commands[-1][1].append(line)
                continue
            continued = bool(self.commands) and self.commands[-1][0].endswith("\\")
            if continued:
                self.commands[-1][0] = self.commands[-1][0][:-1].rstrip()
        return self


def blocks_of(name):
    """The indented blocks of a README, and its fenced blocks as [(language, file name, text)]."""
    lines = (ROOT / name).read_text().split("\n")
    blocks, fences, i, mark = [], [], 0, None
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            end = lines.index("```", i + 1)
            word, _, file = line[3:].partition(" ")
            fences.append((word, file, "\n".join(lines[i + 1:end])))
            i = end + 1
        elif line.startswith("    "):
            start = i
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                i += 1
            blocks.append(Block(name, start + 1, mark).read([text[4:] for text in lines[start:i]]))
            mark = None
        else:
            found = re.match(r"<!-- (.*) -->", line)
            mark = found.group(1) if found else mark if not line.strip() else None
            i += 1
    return blocks, fences


BLOCKS = [block for name in NAMES for block in blocks_of(name)[0]]


def block_id(block):
    return f"{block.name}:{block.line}"


@pytest.fixture
def folder(busbar, tmp_path):
    """A temporary folder with links to the tree. Its bin/ contains a busbar that runs on emulated GPUs, so README commands find it."""
    for name in ("bootstrap", "profiles", "tests", "CMakePresets.json"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").symlink_to(busbar.build)
    (tmp_path / "bin").mkdir()
    for name, program in {"busbar": busbar.build / "busbar-emulated", "all_reduce_perf": busbar.build / "emulated/all_reduce_perf",
                          "mpirun": shutil.which(busbar.mpirun)}.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def shell(busbar, folder, command, timeout=120, **env):
    env = busbar.environment(env)
    env["PATH"] = f"{folder / 'bin'}:{env['PATH']}"
    return subprocess.run(["timeout", "-k", "5", str(timeout), "bash", "-c", command], env=env, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=timeout + 20)


def split_command(text):
    """Splits a command without its comment: (words before the program, file name of the program, its arguments). The program is busbar or a
    program of nccl-tests."""
    args = shlex.split(text, comments=True)
    for i, word in enumerate(args):
        last = os.path.basename(word)
        if last in ("busbar", "busbar-emulated") or last.endswith("_perf") and not last.startswith("perf"):
            return args[:i], last, args[i + 1:]
    return args, None, []


def quick_form(text):
    _, program, args = split_command(text)
    if args[:1] == ["calibrate"] and "--" in args:
        kind = "measure"
    elif program is None or args[:1] in (["plan"], ["list"], ["sweep"], ["compare"], ["calibrate"]):
        kind = None
    elif program.endswith("_perf"):
        kind = "perf"
    else:
        kind = args[1] if args[0] == "bench" and args[1] in QUICK else args[0]
    plain = re.sub(r"\s+#.*", "", text)
    if kind not in (None, "proxy"):
        plain = re.sub(r"(mpirun -n|-g|--ranks) 8 ", r"\1 2 ", plain)
    return plain + " " + {None: "", "perf": "-n 1 -w 0 -c 0 -f 1024"}.get(kind, QUICK.get(kind, ""))


def assert_known(busbar, folder, lines):
    """Checks arguments of bench and proxy: `busbar sweep --list` must accept a study with these commands. It starts nothing."""
    cases = []
    for i, args in enumerate(lines):
        args = args[:args.index("--json")] + args[args.index("--json") + 2:] if "--json" in args else args
        if all(args != case["command"] for case in cases):
            cases.append({"name": str(i), "command": args})
    (folder / "words.json").write_text(json.dumps({"command": "bench all_reduce", "ranks": 8, "cases": cases}))
    done = shell(busbar, folder, "build/busbar sweep words.json --list")
    assert done.returncode == 0, done.stdout


def check_words(busbar, folder, text):
    """Checks a command without running it: its files exist and its options are known."""
    before, program, args = split_command(text)
    if program:
        assert_known(busbar, folder, [args])
    for word in before:
        if "/" in word and not PLACEHOLDER.search(word) and "*" not in word and "=" not in word and not word.startswith(("nsys-", "./")):
            assert (folder / word).exists(), f"{word} in {text}"
            if word.endswith(".sh"):
                assert shell(busbar, folder, f"sh -n {word}").returncode == 0


def matches(expected, printed):
    pattern = ".*".join(re.escape(" ".join(part.split())).replace(r"\ ", r"\s+") for part in expected.split("..."))
    return any(re.fullmatch(r"\s*" + pattern.replace(".*", r"\s*.*\s*") + r"\s*", line) for line in printed)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.has_output], ids=block_id)
def test_commands_print_the_shown_output(busbar, folder, block):
    for word, file, text in blocks_of(block.name)[1]:
        if file:
            (folder / file).write_text(text)
    for text, output in block.commands:
        verified = any("wrong" in line or "Out of bounds" in line for line in output)
        done = shell(busbar, folder, text, **({} if verified else {"EMU_DATA": "off"}))
        status = re.search(r"# exit (\d)", text)
        assert done.returncode == (int(status.group(1)) if status else 0), done.stdout
        printed = done.stdout.split("\n")
        missing = [line for line in output if line.strip(" #.") and not matches(line, printed)]
        assert missing == [], done.stdout


@pytest.mark.parametrize("block", [b for b in BLOCKS if not b.has_output], ids=block_id)
def test_commands_without_output_run(busbar, folder, block):
    for text, _ in block.commands:
        if (block.mark or "").startswith("words only") or "srun" in text or split_command(text)[1] is None or PLACEHOLDER.search(text):
            check_words(busbar, folder, text)
            continue
        if "config.json" in text:
            config = folder / "Meta-Llama-3-8B" / "config.json"
            config.parent.mkdir()
            config.write_text('{"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 128256}')
        done = shell(busbar, folder, quick_form(text), EMU_DATA="off")
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_options_in_text_and_tables_are_known(busbar, folder, name):
    """Checks commands inside sentences, and every option of the tables marked with <!-- try -->. --best-layout gets --pp 1 to keep the
    search short."""
    base, in_table, lines, plan_commands = None, False, [], []
    for line in (ROOT / name).read_text().split("\n"):
        found = re.match(r"<!-- try: (.*) -->", line)
        is_table_head = found is None and base is not None and not in_table
        in_table = line.startswith("|")
        base = found.group(1) if found else base if in_table else None
        if is_table_head:
            continue
        for span in [] if line.startswith("    ") else re.findall(r"`([^`]+)`", line):
            span = re.sub(r"\\\|\S+", "", span)
            if PLACEHOLDER.search(span):
                continue
            if re.match(r"busbar (bench|proxy) \S", span):
                lines.append(shlex.split(span.replace("bench --", "bench all_reduce --"))[1:])
            elif re.match(r"busbar plan \S", span) or re.match(r"busbar list\b", span):
                plan_commands.append(span)
            elif base == "sweep" and span.startswith("-"):
                assert span.split()[0] in shell(busbar, folder, "build/busbar sweep --help").stdout, span
            elif base and span.startswith("-"):
                lines.append(shlex.split(base + " " + span))
    if lines:
        assert_known(busbar, folder, lines)
    for span in plan_commands:
        done = shell(busbar, folder, "build/" + span + (" --ranks 8" if re.search(" plan (?!compute)", span) and "--ranks" not in span else "") +
                     " --pp 1" * ("--best-layout" in span))
        assert done.returncode == 0, span + done.stdout


@pytest.mark.parametrize("name", [n for n in NAMES if any(word == "json" for word, _, _ in blocks_of(n)[1])])
def test_studies_are_accepted(busbar, folder, name):
    for word, _, text in blocks_of(name)[1]:
        if word == "json":
            (folder / "study.json").write_text(text)
            done = shell(busbar, folder, "build/busbar sweep study.json --list")
            assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_links_exist(name):
    text = (ROOT / name).read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert ((ROOT / name).parent / target).exists(), target


@pytest.mark.parametrize("args", [["bench"], ["proxy"], ["plan"], ["compare"], ["sweep"], ["calibrate"]])
def test_every_option_is_documented(busbar, args):
    """Each option of a command is mentioned in a README, by its long name or its letter."""
    text = "\n".join(path.read_text() for path in READMES)
    help_text = busbar.run(*args, "--help", emulated=False).stdout
    options = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)", help_text, re.M)
    assert len(options) > 3
    missing = [long for letter, long in options
               if long != "--help" and long not in text and not (letter and re.search(rf"[`\s]{letter} ", text))]
    assert missing == []


def test_top_readme_has_at_most_200_lines():
    assert len((ROOT / "README.md").read_text().split("\n")) <= 200


# ---- modules ---------------------------------------------------------------------------------------------------------------


def modules_of(top):
    """{module: {folders that it may include}} from the table in the README of the top folder. A "/" at the end includes subfolders."""
    rows = re.findall(r"^\| `([\w./]+)` \|[^|]*\|([^|]*)\|[^|]*\|$", (ROOT / top / "README.md").read_text(), re.M)
    everywhere = {"bootstrap": set(), "proxies": {"bootstrap/", "cuda/work/"}}.get(top, {"bootstrap/"})
    modules = {}
    for module, text in rows:
        named = re.findall(r"`([\w./]+)`", text)
        uses = {top if u == "." else f"{u.rstrip('/')}/" if u.split("/")[0] in ("bootstrap", "cuda", "collectives") else f"{top}/{u}/"
                for u in named}
        own = {f"{top}/"} if re.search("every module", text) else set()
        modules[top if module == "." else f"{top}/{module.rstrip('/')}"] = uses | everywhere | own
    return modules


@pytest.mark.parametrize("top", ["bootstrap", "cuda", "collectives", "proxies"])
def test_modules_include_only_the_modules_in_their_table(top):
    modules, wrong = modules_of(top), set()
    for path in (ROOT / top).rglob("*.*"):
        folder = str(path.parent.relative_to(ROOT))
        module = max((r for r in modules if f"{folder}/".startswith(f"{r}/")), key=len, default=None)
        if path.suffix not in (".c", ".h", ".cu", ".cuh"):
            continue
        assert module, f"{folder} has no row in {top}/README.md"
        for used in re.findall(r'#include "([^"]+)/[^"/]+"', path.read_text()):
            inside = used == module or used.startswith(f"{module}/")
            if (ROOT / used).is_dir() and not inside and used not in modules[module] and not any(
                    a.endswith("/") and f"{used}/".startswith(a) for a in modules[module]):
                wrong.add(f"{folder} -> {used}")
    assert wrong == set()


def test_modules_include_each_other_without_cycles():
    """The test of the tables above accepts a cycle that the tables declare. Modules are folders here, as in the tables."""
    includes = {}
    for top in ("bootstrap", "cuda", "collectives", "proxies"):
        for path in (ROOT / top).rglob("*.*"):
            if path.suffix in (".c", ".h", ".cu", ".cuh"):
                folder = str(path.parent.relative_to(ROOT))
                used = set(re.findall(r'#include "([^"]+)/[^"/]+"', path.read_text()))
                includes.setdefault(folder, set()).update(u for u in used - {folder} if (ROOT / u).is_dir())
    assert len(includes) > 40
    graphlib.TopologicalSorter(includes).prepare()  # raises CycleError with the modules of a cycle


def test_folders_of_proxies_depend_in_one_direction():
    """The folders of modules in proxies/README.md."""
    below = {"form": set(), "workloads": {"form"}, "simulation": {"form"}, "offline": {"form", "workloads", "simulation"},
             "runner": {"form", "workloads", "simulation", "offline"}}
    for folder, allowed in below.items():
        for path in (ROOT / "proxies" / folder).rglob("*.[ch]"):
            used = set(re.findall(r'#include "proxies/(\w+)/', path.read_text()))
            assert used <= allowed | {folder}, path


def test_file_comments_contain_the_file_name():
    """The first line of a source file contains the file's name. This finds comments that kept the name of a renamed file."""
    names = {path: re.match(r"/\*\s*(?:\n \* )?([\w.]+\.(?:c|h|cu|cuh)) - ", path.read_text())
             for top in ("bootstrap", "cuda", "collectives", "proxies", "tests") for path in (ROOT / top).rglob("*.*")
             if path.suffix in (".c", ".h", ".cu", ".cuh")}
    assert [str(path) for path, name in names.items() if name and name.group(1) != path.name] == []
