"""Error lines end with a suggestion. "try:" is followed by what to type, which must work, as must the command without what "leave out" names. "(for example ...)"
shows the form of what is missing. "possible:" is followed by numbers of ranks: a change of the machine is not what to try."""
import os
import re
import shlex
import time

import pytest
from conftest import ROOT
from test_refusals import SECTIONS, write_input

# Suggestions in words, which no program can apply.
WORDS = re.compile(r"another file name|files of the same|fewer |a smaller |a larger |remove one|\"choices\"|leave_out|FILE")
# Suggestions of the largest accepted number, or up to 1 % less, with which the command computes for minutes.
LIMITS = re.compile(r"--(samples|ranks|micro-batches) (\d{4,}|28|537)")
# Positional arguments that have no option, or whose option would be a second value: "try: 4 layers".
POSITIONS = {"layers": 2, "stages": 3, "gpt3 stages": 2}


def commands():
    """(title, lines that write input files, command, suggestion) of every refused offline command with a suggestion."""
    for title, section in SECTIONS:
        inputs = []
        for line in re.findall(r"^[$>2] .+$", section, re.M):
            if line.startswith("> "):
                inputs.append(line[2:])
            elif line.startswith("$ "):
                command = line[2:]
            elif re.match(r"busbar (?:plan|list|compare) ", command):
                for text in re.findall(r"(?:try|possible): ([^;]+)", line):
                    foreign = re.search(r"busbar: (--\S+) is --\S+(?: \S+)? here", line)
                    yield title, list(inputs), re.sub(rf" {foreign[1]}=?\S*", "", command) if foreign else command, text
                for option in re.findall(r"; leave out (--\S+) \S+$", line):
                    yield title, list(inputs), command, f"without {option}"


def alternatives(text):
    """["--pp 2", "--vpp 3"] of "--pp 2, or --vpp 3"; "--batch 64 or 66" and "4 or 8 ranks" are two alternatives, too."""
    for part in re.split(r",? or (?=--|busbar|transformer)|, or ", text):
        if found := re.fullmatch(r"(\d+)( \w+)? or (\d+)( \w+)", part):
            yield from (f"{found[1]}{found[2] or found[4]}", found[3] + found[4])
        else:
            option, _, last = part.rpartition(" or ")
            yield from [option, " ".join([*option.split()[:-1], last])] if option else [part]


def apply(command, suggestion):
    """The arguments of a command after the suggestion: a whole command, "4 ranks", positional arguments or options. With --explain, the
    options are those of the layout that it explains."""
    words = shlex.split(command)[1:]
    if "--explain" in words:
        at = words.index("--explain") + 1
        return [*words[:at], " ".join(apply(f"busbar x x {words[at]}", suggestion)[2:]), *words[at + 1:]]
    suggested = suggestion.replace("'", "").replace("instead of", "without").split()
    if suggested[0] == "busbar":
        return suggested[1:]
    if found := re.fullmatch(r"(\d+) (ranks|layers|stages)", suggestion):
        if found[2] != "ranks":
            return [*words[:(at := POSITIONS.get(f"{words[1][:4]} {found[2]}", POSITIONS[found[2]]))], found[1], *words[at + 1:]]
        suggested = ["--ranks", found[1]]
    if "with" in suggested:  # OPTIONS with N ranks
        suggested[suggested.index("with"):] = ["--ranks", suggested[-2]]
    while "without" in suggested:
        at = suggested.index("without")
        name = words.index(suggested[at + 1])
        words[name:name + (1 if words[name + 1:name + 2] == [] or words[name + 1].startswith("-") else 2)] = []
        suggested[at:at + 2] = []
    end = next((i for i, word in enumerate(suggested) if word.startswith("-")), len(suggested))
    if end:  # numbers replace the numbers of the command; a name replaces the name of the proxy
        first = 2 if suggested[0][0].isdigit() else 1
        last = next((i for i, word in enumerate(words) if i >= first and word.startswith("-")), len(words))
        words[first:last] = suggested[:end]
    for name, value in re.findall(r"(--?[a-z]\S*)((?: (?!--)\S+)?)", " ".join(suggested[end:])):
        while name in words:
            words[words.index(name):words.index(name) + (2 if value else 1)] = []
        words += [name, *value.split()]
    return words


ROWS = [(title, inputs, command, text) for title, inputs, command, suggestion in commands() for text in alternatives(suggestion)
        if not WORDS.search(text)]


def test_the_catalogue_has_suggestions():
    assert len(ROWS) > 100


@pytest.mark.parametrize("title,inputs,command,text", ROWS, ids=[f"{i}-{row[3][:40]}" for i, row in enumerate(ROWS)])
def test_the_suggestion_works(busbar, tmp_path, title, inputs, command, text):
    for line in inputs:
        write_input(tmp_path, line)

    def run(suggestion, **options):
        words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in apply(command, suggestion)]
        return busbar.run(*words, emulated=False, cwd=tmp_path, **options)
    limit = LIMITS.fullmatch(text)
    time_limit, started = 30, time.monotonic()
    if limit:  # a number above is refused, so a command that still computes after twice that time has been accepted
        assert run(f"--{limit[1]} {int(limit[2]) * 102 // 100 + 1}").returncode == 2
        time_limit = 2 * (time.monotonic() - started)
    done = run(text, timeout=time_limit)
    assert done.returncode in ((0, 124) if limit else (0, 5)), (text, done.stderr)


MODELS = ("deepseek_v3", "gpt3_13b", "llama3_70b", "mixtral_8x7b", "qwen2_7b", "llama3_405b", "gpt3_175b", "qwen3_235b_a22b")
CLUSTERS = ("h100-sxm-ib", "aws-p4d", "b200-sxm-ib", "l40s-pcie-ib", "a100-40gb-sxm-ib", "gb200-nvl72", "a100-pcie-ib")
STEPS = ("--ranks 1 --optimizer sgd", "--ranks 64 --dp-sync hsdp", "--ranks 64 --tp 8 --pp 4 --global-batch-size 64", "--ranks 128 --pp 2 --dp-sync zero1 --recompute full",
         "--ranks 32 --micro-batch-size 4 --dp-sync zero2 --seq-length 8192 --cpu-offloading-num-layers 4", "--ranks 16 --micro-batches 8 --recompute none",
         "--ranks 64 --dp-sync zero3 --recompute-modules core_attn --seq-length 16384", "--ranks 64 --best-layout --global-batch-size 64 --dp-sync hsdp --seq-length 16384",
         "--ranks 64 --best-layout --global-batch-size 64 --micro-batch-size 4 --cpu-offloading-num-layers 4 --dp-sync zero2 --gpu-memory 24G")
PLANS = [f"busbar plan transformer --model {model} --cluster {CLUSTERS[(2 * m + s) % len(CLUSTERS)]} {step}" for m, model in enumerate(MODELS) for s, step in enumerate(STEPS)]
PLANS = PLANS if "ALL_PLANS" in os.environ else PLANS[4::5]  # every fifth: all models and all steps


def advice_of(line):
    """The alternatives of "; leave out --pp 2 ...; try: OPTIONS, or OPTIONS": what is left out is so in each alternative. Advice about the load of experts
    is for a job with that load."""
    left_out = re.search(r"; leave out ((?:--\S+ [^-; ]+ ?)+)", line)
    without = "".join(f" without {option}" for option in re.findall(r"--\S+", left_out[1])) if left_out else ""
    tried = re.sub(r", or, if the load.*", "", (re.findall(r"; try: ([^;]+)$", line) or [""])[0])
    found = [text for text in alternatives(tried) if text] or [""] * bool(without)
    found += re.findall(r"bubble takes .* chunks \((--vpp \d+)\)", line)
    return [f"{text}{without}".strip() for text in found if not WORDS.search(text) and "NAME" not in text]


@pytest.mark.parametrize("command", PLANS)
def test_every_advice_of_a_plan_works(busbar, command):
    """Training fits with the options that a plan advises because it does not fit, and the best layout, which only contains layouts that fit, is found."""
    done = busbar.run(*command.split()[1:], emulated=False)
    for line in {*done.stdout.splitlines(), *done.stderr.splitlines()}:
        memory = re.search("DOES NOT FIT  |does not fit in GPU memory|may not fit", line)
        if done.returncode == 2 and "no layout for" not in line or not re.search("try: |leave out|chunks", line):
            continue
        for text in advice_of(line):
            words = apply(command, text)
            words += ["--top", "1"] if "--best-layout" in words else ["--must-fit"] if memory else []
            tried = busbar.run(*words, emulated=False, timeout=100)
            assert tried.returncode == 0, (line, words, tried.stderr)


def test_nothing_to_try_changes_the_machine():
    changes = [row for row in ROWS for option in ("--gpus-per-node", "--cluster") if option in row[3] and option not in row[2]]
    assert not changes


@pytest.mark.parametrize("line, message", [
    ("--hosts 2", "busbar: --hosts is --ranks here; try: --ranks 16 (if a node has 8 GPUs); with --ranks, leave it out\n"),
    ("--nodes 3", "busbar: --nodes is --ranks here; try: --ranks 24 (if a node has 8 GPUs); with --ranks, leave it out\n"),
    ("", "busbar: transformer: plan requires --ranks N, the number of ranks of the job (for example --ranks 64)\n"),
    ("--ranks 12 --gpus-per-node 5", "busbar: warning: 12 ranks are not a multiple of --gpus-per-node 5, so the last node has 2; try: --ranks 10 "
                                     "or --ranks 15\n"),
    ("--ranks 15 --gpus-per-node 5", ""), ("--ranks 4 --gpus-per-node 5", "")])
def test_nodes_and_ranks_of_a_plan(busbar, line, message):
    done = busbar.run("plan", "transformer", "--model", "gpt2_small", "--cluster", "h100-sxm-ib", *line.split(), emulated=False)
    assert done.stderr == message and done.returncode == (0 if "warning" in message or not message else 2)
