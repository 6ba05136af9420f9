"""The top-level command line: help, version, lists, unknown arguments, and the MPI functions that the binary may import."""
import json
import re
import subprocess

import pytest
from conftest import ROOT


def lines_of(done):
    return [line for line in done.stderr.splitlines() if line.startswith("busbar:")]


def test_help_requires_no_libraries(busbar, golden):
    done = busbar.run("--help", emulated=False)
    assert done.returncode == 0 and done.stderr == ""
    golden("help.txt", done.stdout)


def test_suggested_commands_begin_with_the_started_program(busbar):
    """For each command of the help: "busbar help COMMAND X Y" is refused with the name of the program."""
    source = (ROOT / "bootstrap/base/err.c").read_text()
    known = re.search(r'commands\[\] = "([^"]+)"', source)[1].split()
    assert known == re.findall(r"(?m)^  (\w+)  ", busbar.run("--help", emulated=False).stdout)
    for emulated, program in ((True, "busbar-emulated"), (False, "busbar")):
        assert f"try: {program} bench p2p\n" in busbar.run("plan", "p2p", emulated=emulated).stderr


def test_man_page_lists_the_commands_of_the_help(busbar):
    page, text = (busbar.run(word, emulated=False).stdout for word in ("--help=man", "--help"))
    commands = re.findall(r"(?m)^  (\w+)  ", text)
    assert "bench" in commands and re.findall(r"(?m)^\.TP\n\.B (\w+)$", page.split(".SH EXIT")[0]) == commands


def test_missing_command_prints_help_as_an_error(busbar):
    done = busbar.run(emulated=False)
    assert done.returncode == 2 and done.stdout == "" and "Usage: busbar COMMAND" in done.stderr


def test_version(busbar):
    assert re.fullmatch(r"busbar \d+\.\d+\.\d+\n", busbar.run("--version", emulated=False).stdout)


@pytest.mark.parametrize("args", [["-V"], ["version"], ["bench", "--version"], ["plan", "-V"], ["sweep", "--version"]])
def test_version_with_every_command(busbar, args):
    done = busbar.run(*args, emulated=False)
    assert done.returncode == 0 and done.stdout == busbar.run("--version", emulated=False).stdout


@pytest.mark.parametrize("args", ["bench", "bench p2p", "proxy", "plan", "calibrate", "compare", "sweep"])
def test_every_option_is_listed_once(busbar, args):
    for option, row in (("--help", r"^  (?:-\w, |    )--([\w-]+)"), ("--help=man", r"^\.B.*?\\-\\-([\w\\-]+)"),
                        ("--complete=--", r"^--([\w-]+)")):
        names = re.findall(row, busbar.run(*args.split(), option, emulated=False).stdout, re.M)
        assert len(names) > 1 and sorted(names) == sorted(set(names)), option


@pytest.mark.parametrize("args,equivalent", [
    (["help"], ["--help"]), (["help", "bench"], ["bench", "--help"]), (["help", "bench", "p2p"], ["bench", "p2p", "--help"]),
    (["help", "plan"], ["plan", "--help"]), (["help", "list"], ["list", "--help"]), (["help", "help"], ["--help"])])
def test_help_command_equals_the_help_option(busbar, args, equivalent):
    done, other = (busbar.run(*w, emulated=False) for w in (args, equivalent))
    assert done.returncode == other.returncode == 0 and done.stdout == other.stdout and "Usage:" in done.stdout


def test_help_finds_an_option(busbar):
    """An option is a topic of the help, with all commands and benchmarks that have the option."""
    def topic(name):
        done = busbar.run("help", name, emulated=False)
        return done.returncode, re.findall(r"(?m)^(busbar .+):$", done.stdout), re.findall(r"(?m)^  (-[^=\s]+(?: \S+?)?)[=\s]", done.stdout)
    assert topic("tp") == topic("--tp") == (0, ["busbar proxy", "busbar plan"], ["--tp"] * 2)
    assert topic("metrics") == (0, ["busbar bench p2p"], ["--metrics"])
    assert topic("b") == topic("-b") == topic("minbytes") == (0, ["busbar bench", "busbar plan"], ["-b, --minbytes"] * 2)
    assert topic("json")[1] == [f"busbar {name}" for name in (
        "bench", "proxy", "health", "plan", "compare", "calibrate", "sweep", "list", "bench compute", "bench copy", "bench rails", "bench p2p", "bench comm", "bench overlap")]
    assert topic("tpx") == (2, [], [])
    assert topic("tp")[1] and busbar.run("help", "plan", "--jitter", emulated=False).stdout == busbar.run("plan", "--help=jitter", emulated=False).stdout
    one = busbar.run("plan", "--help=tp", emulated=False)
    assert one.returncode == 0 and one.stdout.startswith("busbar plan:\n  --tp=") and "tensor-parallel size" in one.stdout
    assert busbar.run("plan", "--help=tpx", emulated=False).returncode == 2


@pytest.mark.parametrize("args,rc", [("help plan nope", 2), ("help proxy nope", 2), ("plan nope --help", 2), ("help plan all_reduce", 0), ("help proxy gems", 0)])
def test_help_of_an_unknown_name_is_an_error(busbar, args, rc):
    done = busbar.run(*args.split(), emulated=False)
    assert done.returncode == rc and (done.stderr.startswith("busbar: unknown name 'nope', expected one of: ") and not done.stdout) == (rc == 2), done.stderr


def test_examples_of_plans_fit_in_memory(busbar):
    """The examples of the first help page and of `plan --help`, for steps on a cluster. A search omits layouts that do not fit; it gets
    a small part of its space here."""
    text = busbar.run("--help", emulated=False).stdout + busbar.run("plan", "--help", emulated=False).stdout
    examples = re.findall(r"(?m)^ +busbar (plan transformer .*--cluster.*)$", text)
    assert len(examples) > 3
    for example in examples:
        done = busbar.run(*example.split(), *(["--tp", "8", "--cp", "1", "--schedule", "1f1b"] if "--best-layout" in example else ["--must-fit"]), emulated=False)
        assert done.returncode == 0 and done.stderr == "" and "\n  batch " not in done.stdout, (example, done.stderr)


@pytest.mark.parametrize("topic,printed", [
    ("MFU", r"  MFU +model FLOP utilization: "), ("all-reduce", r"collectives:\n  all_reduce .*\nOptions: busbar help plan, "), ("llama3_8b", r"models:\n  llama3_8b "),
    ("transformer", r"proxies:\n  transformer "), ("bfloat16", r"dtypes:\n  bfloat16 "), ("h100_sxm_ib", r"clusters:\n  h100-sxm-ib "),
    ("zero3", "  zero3 +values of --dp-sync: "), ("ci95", "  ci95 .*of the median"),
    ("bubble", "  bubble +exposed time in which "), ("wall", "  wall +time of one operation by the host clock"), ("count", "  count +elements "), ("busbw", r"  busbw +bus bandwidth: (?:.*\n *)+.*all NICs of a node"), ("overlap_efficiency", "  overlap_efficiency +time saved "),
    ("pipeline bubble", "  pipeline-bubble +exposed time in which "), ("oversubscription", "  oversubscription +rate of the NICs below a leaf"), ("#wrong", "  #wrong +elements "),
    ("plan goodput", "  goodput +plan: part of"), ("bench leaf", "  leaf +a switch"), ("plan pipeline bubble", "  pipeline-bubble +exposed time "), ("bench rails", "Usage: busbar bench rails"), ("bench all", "Usage: busbar bench COLLECTIVE"),
    ("latency", "  latency +part of the time "), ("bandwidth", "  bandwidth +bytes / time"), ("role", "  role +ranks with the same program")])
def test_help_explains_names_and_terms(busbar, topic, printed):
    command = topic.split()[0] in ("plan", "bench")
    for words in {(topic,), tuple(topic.split())} - ({(topic,)} if command else set()):
        done = busbar.run("help", *words, emulated=False)
        assert done.returncode == 0 and re.match(printed, done.stdout) and not done.stderr


@pytest.mark.parametrize("topic,printed", [
    ("torchrun", "-g GPUS starts"), ("ddp", "--dp-sync all_reduce"), ("fsdp", "--dp-sync zero3"), ("deepspeed", "--dp-sync zero3"), ("megatron", "transformer --model llama3_8b")])
def test_help_says_how_to_start_what_other_tools_start(busbar, topic, printed):
    done = busbar.run("help", topic, emulated=False)
    assert done.returncode == 0 and not done.stderr and printed in " ".join(done.stdout.split())
    if topic != "torchrun":
        command = re.search("without GPUs: busbar (.*)", " ".join(done.stdout.split()))[1]
        assert busbar.run(*command.split(), emulated=False).returncode == 0


def test_help_finds_the_options_with_a_word(busbar):
    done = busbar.run("help", "plan", "bucket", emulated=False)
    assert done.returncode == 0 and not done.stderr and re.match(r"busbar plan has no --bucket, but:\n(?:.*\n)*  --bucket-mb=", done.stdout), done.stdout
    assert re.match("Usage: busbar bench p2p ", busbar.run("help", "bench", "p2p", emulated=False).stdout)
    for command in ("plan", "bench", "compare", "health"):
        unknown = busbar.run("help", command, "bukkit", emulated=False)
        assert unknown.returncode == 2 and not unknown.stdout and "'bukkit'" in unknown.stderr and unknown.stderr.count("\n") == 1


def test_terms_of_the_reports_are_topics_of_the_help(busbar):
    """The terms of README.md's table, by their first word or in full."""
    table = (ROOT / "README.md").read_text().split("| term | meaning |\n|---|---|\n")[1].split("\n\n")[0]
    words = re.findall(r"(?m)^\| ([\w ]+) \|", table)
    explained = [w for w in words if busbar.run("help", w.replace(" ", "-"), emulated=False).returncode == 0]
    assert len(words) > 6 and explained == [w for w in words if w not in ("compute", "comm")]  # names of benchmarks


@pytest.mark.parametrize("topic", ["collectives", "dtypes", "ops", "proxies", "models", "architectures", "clusters", "columns"])
def test_list_contains_every_topic(busbar, topic):
    one, complete = busbar.run("list", topic, emulated=False), busbar.run("list", emulated=False)
    assert one.returncode == 0 and len(one.stdout.splitlines()) > 2
    assert one.stdout in complete.stdout


def test_list_writes_the_same_rows_as_json(busbar):
    text, lists = busbar.run("list", emulated=False).stdout, json.loads(busbar.run("list", "--json", "-", emulated=False).stdout)
    assert lists.pop("schema") == "busbar.list/1" and lists.pop("busbar") in busbar.run("--version", emulated=False).stdout
    printed = re.findall(r"^  \S.*", text, re.M)
    assert re.findall(r"^\w+", text, re.M) == list(lists) and len(printed) == sum(map(len, lists.values())) > 100
    for line, row in zip(printed, [row for rows in lists.values() for row in rows]):
        assert all(str(value) in line for value in row.values() if value is not None), line
    pairs = [(row["name"], row["proxy"]) for row in lists["models"]]
    assert len(set(pairs)) == len(pairs) > len({name for name, _ in pairs})
    assert {proxy for name, proxy in pairs if proxy == name} <= {row["name"] for row in lists["proxies"]}
    for name, proxy in pairs[::4]:  # the command of the heading
        if proxy != name:
            assert busbar.run("plan", proxy, "--model", name, "--ranks", 8, emulated=False).returncode == 0, (name, proxy)
    one = json.loads(busbar.run("list", "models", "--quiet", "--json", "-", emulated=False).stdout)
    assert one["models"] == lists["models"] and "proxies" not in one
    assert busbar.run("list", "--quiet", emulated=False).stdout == ""


@pytest.mark.parametrize("args", ["bench", "bench p2p", "bench comm", "bench overlap", "bench compute", "proxy", "compare", "calibrate",
                                  "sweep", "report", "list"])
def test_every_command_has_the_option_quiet(busbar, args):
    assert "--quiet" in busbar.run(*args.split(), "--help", emulated=False).stdout


def test_help_of_sweep_names_no_file_that_is_not_installed(busbar):
    assert "profiles/" not in busbar.run("sweep", "--help", emulated=False).stdout


INVALID_FILES = [
    "compare missing.json missing.json", "calibrate missing.json -o x.json", "sweep missing.json", "report missing.json -o x.html",
    "plan transformer --model ./missing.json --ranks 2", "plan all_reduce --ranks 2 --cluster ./missing.json",
    "plan gpt2_large --ranks 4 --json no/x", "plan gpt2_large --ranks 4 --csv no/x",
    "plan gpt2_large --ranks 4 --cluster h100-sxm-ib --trace no/x", "plan all_reduce --ranks 4 --cluster h100-sxm-ib --csv no/x",
    "list --json no/x", "compare a.json a.json --json no/x", "compare a.json a.json --csv no/x", "calibrate a.json -o no/x.json",
    "calibrate a.json -o x.json --json no/x", "sweep s.json --json no/x", "sweep s.json --csv no/x", "report a.json -o no/x",
    "bench all_reduce --json no/x", "bench all_reduce --csv no/x", "proxy resnet50 --trace no/x", "proxy resnet50 --trace -",
    "plan gpt2_large --ranks 4 --cluster h100-sxm-ib --trace -", "plan gpt2_large --ranks 4 --cluster h100-sxm-ib --export goal -",
    "bench all_reduce --junit -"]


def test_unusable_files_end_every_command_with_status_2(busbar, tmp_path):
    """Before anything runs: an input that does not exist, and an output that cannot be created."""
    (tmp_path / "s.json").write_text('{"command": "plan gpt2_large", "ranks": [2, 4]}')
    done = busbar.run("plan", "all_reduce", "-e", "1K", "--ranks", 2, "--cluster", "h100-sxm-ib", "--json", "a.json", cwd=tmp_path, emulated=False)
    assert done.returncode == 0
    for args in INVALID_FILES:
        done = busbar.run(*args.split(), cwd=tmp_path, emulated=args.startswith(("bench", "proxy")))
        assert (done.returncode, len(lines_of(done)), done.stdout) == (2, 1, ""), args + done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "s.json", "s.sweep"]  # results may be written into the folder of the study


@pytest.mark.parametrize("args",
                         ["list", "list dtypes", "plan gpt2_large 4 2 2 --ranks 2 --json -",
                          "plan gpt2_large 12 4 3 --ranks 8 --json /dev/full", "plan gpt2_large 12 4 3 --ranks 8 --export goal-bin /dev/full",
                                   "plan gpt2_large 4 2 2 --ranks 2 --cluster h100-sxm-ib --trace /dev/full",
                                   "plan all_reduce --ranks 2 --cluster h100-sxm-ib --csv -"])
def test_full_disk_fails_the_run(busbar, args):
    """The error is reported for outputs of one write and of many writes, wherever the disk is full."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(busbar.command(*args.split(), emulated=False), stdout=full, stderr=subprocess.PIPE, text=True)
    (line,) = lines_of(done)
    assert done.returncode == 1 and "cannot write" in line and "No space left on device" in line


def test_mpi_carries_no_payload(busbar):
    """MPI starts the ranks and distributes ids. The binary imports no function that could transfer data between ranks."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", str(busbar.build / "busbar")], capture_output=True, text=True,
                             check=True).stdout
    imported = {name.split("@")[0] for name in re.findall(r"\bU (P?MPI_\w+)", symbols)}
    assert imported <= {"MPI_Init_thread", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_set_errhandler", "MPI_Error_string", "MPI_Ibcast",
                    "MPI_Iallgather", "MPI_Ibarrier", "MPI_Test", "MPI_Abort", "MPI_Finalize"}


def test_first_gpu_out_of_range_is_reported_once(busbar):
    """NCCL_TESTS_DEVICE shifts the GPU numbers; 4 ranks from GPU 6 on exceed 8 GPUs."""
    program = str(busbar.build / "emulated" / "all_reduce_perf")
    done = subprocess.run([busbar.mpirun, "-n", "4", program, "-b", "8", "-e", "8"], env=busbar.environment({"NCCL_TESTS_DEVICE": "6"}),
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 2
    (line,) = lines_of(done)
    assert "need GPUs 6 to 9" in line and "GPUs 0 to 7" in line


def help_options(busbar, *args):
    return re.findall(r"(?m)^  (?:-\w, |    )--([\w-]+)", busbar.run(*args, "--help", emulated=False).stdout)


def test_help_about_one_subject_has_its_options_only(busbar):
    """An option is listed if and only if the proxy or the collective accepts it."""
    every = help_options(busbar, "plan")
    for subject, absent, present in (("gpt2_large", "tp model minbytes best-layout graph servers halo-d2", "stages layers per-tensor"),
                                     ("transformer", "minbytes halo-d2 stages scale", "tp best-layout graph dp-sync"),
                                     ("all_reduce", "tp layers dtype tokens ops", "minbytes jitter slow ranks")):
        shown = help_options(busbar, "plan", subject)
        assert set(shown) < set(every) and len(shown) == len(set(shown)) and not set(absent.split()) & set(shown), subject
        assert set(present.split()) <= set(shown)
        for option in sorted(set(every) - set(shown))[::5]:
            line = busbar.run("plan", subject, "--ranks", 4, f"--{option}", 2, emulated=False)
            assert line.returncode == 2 and re.search("applies only to|does not support|requires --best-layout|requires --cluster|requires a value|requires tiles|no counterpart|expected", line.stderr), (
                subject, option, line.stderr)
    assert busbar.run("help", "plan", "transformer", emulated=False).stdout == busbar.run("plan", "transformer", "--help", emulated=False).stdout


@pytest.mark.parametrize("command", ["plan", "proxy", "bench"])
def test_help_begins_with_examples_and_everyday_options(busbar, command):
    text = busbar.run(command, "--help", emulated=False).stdout
    examples = re.search(r"\nExamples:\n((?:  .*\n)+)\nEveryday options:\n((?: .*\n)+)\n", text)
    assert len(examples[1].splitlines()) == 5 and 10 <= len(re.findall(r"(?m)^  (?:-\w, |    )--", examples[2])) <= 12
    lines = [line for line in text.splitlines() if not line.startswith("  ") and not line.startswith("Usage:")]
    assert max(map(len, lines)) <= 80


def test_the_commands_of_the_front_page_are_valid(busbar, tmp_path):
    """Offline commands run. The arguments of the others are validated before a GPU is looked for, which is missing here."""
    text = busbar.run("--help", emulated=False).stdout
    lines = re.findall(r"(?m)^  (?:mpirun -n \d+ )?busbar (.+)$", text)
    assert len(lines) == 6
    for line in lines:
        done = busbar.run(*line.split(), emulated=False, cwd=tmp_path, timeout=3)
        assert done.returncode in (0, 124) or "no usable GPU" in done.stderr, (line, done.stderr)  # 124: computing


def test_plan_of_a_benchmark_suggests_a_command_without_the_options_of_plan(busbar):
    done = busbar.run("plan", "p2p", "--cluster", "h100-sxm-ib", "--ranks", 4, emulated=False)
    assert (done.returncode, done.stderr) == (2, "busbar: p2p is a benchmark; try: busbar bench p2p\n")


@pytest.mark.parametrize("typed", ["gpt3_1_3b", "gpt3-1.3b", "gpt3_1.3b"])
def test_a_model_is_not_taken_for_one_of_ten_times_its_size(busbar, typed):
    done = busbar.run("plan", typed, "--ranks", 8, emulated=False)
    assert done.returncode == 2 and "--model gpt3_1_3b --ranks 8" in done.stderr
    done = busbar.run("plan", "transformer", "--model", typed.replace("_1_", "_1."), "--ranks", 8, emulated=False)
    assert done.returncode == 2 and "did you mean 'gpt3_1_3b'" in done.stderr


def test_help_finds_options_in_capitals(busbar):
    """A word in any case; a letter is an option of its own: -g sets the ranks, -G captures a graph."""
    for words, option in ((("TP",), "--tp="), (("plan", "Tp"), "--tp="), (("bench", "G"), "--cudagraph="), (("bench", "g"), "--gpus=")):
        done = busbar.run("help", *words, emulated=False)
        assert done.returncode == 0 and option in done.stdout, words
    assert "--cudagraph" not in busbar.run("help", "bench", "g", emulated=False).stdout
