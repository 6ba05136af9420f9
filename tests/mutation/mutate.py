"""mutate.py - mutation testing of the product: applies random mutants one at a time and reports those that no test kills.

A mutant is one change in one C file of the product, outside comments, strings and preprocessor lines: another comparison, sign, bound or
constant, `&&` for `||`, `true` for `false`, or a removed negation. The folders are visited in turn, so each has the same number of mutants.
Two copies of the source tree, each with a build (-O0), test mutants in parallel. A mutant that does not compile, or that does not change
the object file at -O2, is not counted. For the others these tests run, until one kills the mutant: the unit tests of the folder, then
those of the module, then all others except slow ones, then a sample of the black-box tests of the folder (BLACK_BOX_FILES; `--again`: all
of them). A hang counts as a failure. A test kills a mutant if it fails with the mutant and passes without it, so a busy machine does not
change the rate. `--together` applies all surviving mutants at once and runs every black-box test; the tests that fail then run on each
survivor. `--sanitize` runs the smoke tests under AddressSanitizer on each survivor.

Results are lines of build/mutation/results.jsonl. A repeated run continues with the folders that have no tested mutant yet.
equivalent.txt lists the survivors that change no observable behaviour, each with its reason. run.sh starts this program.
"""
import argparse
import collections
import concurrent.futures
import fcntl
import functools
import glob
import hashlib
import json
import os
import pathlib
import queue
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "build/mutation"
RESULTS = WORK / "results.jsonl"
MODULES = ("bootstrap", "collectives", "cuda", "proxies")
COPIES = 2
SOME_BLACK_BOX, MANY_BLACK_BOX, ALL_BLACK_BOX = (12, 40), (1000, 240), (10000, 3600)  # (tests, time limit in s)
PYTEST = (os.environ.get("PYTHON", "python3"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
SLOW_UNITS = ("test_world", "test_hangs", "test_comms", "test_siblings")  # start a dozen jobs each; only for mutants of their own folder
PRODUCT = ("busbar", "busbar_rank", "emulator")

# Folder -> test files tests/cli/test_*.py that cover it. The innermost folder with an entry applies.
BLACK_BOX_FILES = {
    ".": "command_line rank_program packaging sweep",
    "bootstrap/base": "command_line result_files progress bench",
    "bootstrap/cli": "command_line packaging nccl_tests_features bench",
    "bootstrap/report": "report allocation_failures",
    "bootstrap/results": "result_files json_reference bench csv",
    "bootstrap/start": "gpu_assignment rank_program command_line nccl_tests library_failures",
    "bootstrap/sweep": "sweep",
    "bootstrap/supervise": "bench library_failures mpi proxy rank_program",
    "bootstrap/world": "gpu_assignment mpi bench",
    "collectives": "command_line packaging sweep bench nccl_tests_features bench_measurement nccl_tests compute p2p comm overlap",
    "collectives/comm": "comm",
    "collectives/compare": "compare capacity_planning",
    "collectives/compute": "compute",
    "collectives/nccl_tests": "nccl_tests",
    "collectives/overlap": "overlap",
    "collectives/p2p": "p2p",
    "collectives/session": "nccl_choice algorithms bench nccl_tests_features hazards result_files",
    "collectives/sweep": "bench nccl_tests_features algorithms bench_measurement nccl_tests",
    "cuda": "kernels compute bench transformer_layers",
    "cuda/device": "gpu_assignment bench hazards nsys",
    "proxies": "proxy plan hazards capacity_planning csv forecast",
    "proxies/offline/bench_plan": "capacity_planning contention emulated_machine",
    "proxies/offline/calibrate": "calibrate",
    "proxies/offline/export": "export",
    "proxies/offline/layouts": "capacity_planning",
    "proxies/simulation/machine": "contention forecast capacity_planning emulated_machine",
    "proxies/form/models": "models plan allocation_failures",
    "proxies/offline/plan": "plan trace export models forecast",
    "proxies/workloads/registry": "command_line plan proxy models",
    "proxies/workloads/replicas": "replicas scaling",
    "proxies/runner/run": "proxy trace emulated_machine capacity_planning",
    "proxies/runner/scaling": "scaling",
    "proxies/workloads/seeds": "plan_seeds plan",
    "proxies/simulation/simulate": "contention capacity_planning plan emulated_machine",
    "proxies/workloads/spatial": "spatial",
    "proxies/workloads/sync": "replicas plan_seeds",
    "proxies/simulation/timeline": "trace proxy",
    "proxies/workloads/transformer": "transformer transformer_layers models moe_dispatch",
}

# The mutation operators: a pattern, and a function that returns the replacements of a match.
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "+=": "-=", "-=": "+=",
         "&&": "||", "||": "&&"}
CHANGES = [(re.compile(f"(?<= ){re.escape(old)}(?= |$)"), lambda m, new=new: [new]) for old, new in SWAPS.items()] + [
    (re.compile(r"\btrue\b"), lambda m: ["false"]),
    (re.compile(r"\bfalse\b"), lambda m: ["true"]),
    (re.compile(r"!(?=[\w(*])"), lambda m: [""]),
    (re.compile(r"(?<![\w.])\d+(?=[uUlL]*(?![\w.]))"), lambda m: [str(int(m[0]) + by) for by in (1, -1) if int(m[0]) + by >= 0]),
    (re.compile(r"(?<![\w.])\d+\.\d+"), lambda m: [str(float(m[0]) + 1)])]
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
IGNORED_CODE = re.compile(r"\b(?:char|bool)\s+\w+(?:\[\w+\])+|\{0\}")  # sizes of text buffers (larger is correct too); zero initializers

Mutant = collections.namedtuple("Mutant", "file line column before after")


def folder_of(file):
    return os.path.dirname(file) or "."


def mutants_of(file):
    """Returns a list per line that has mutants: all mutants of this line."""
    text = (ROOT / file).read_text()
    blank = lambda m: re.sub(r"[^\n]", "\x01", m[0])
    code = IGNORED_CODE.sub(blank, NOT_CODE.sub(blank, text))
    found = []
    for number, (line, original) in enumerate(zip(code.split("\n"), text.split("\n")), 1):
        here = [Mutant(file, number, m.start(), original, original[:m.start()] + new + original[m.end():])
                for pattern, news in CHANGES for m in pattern.finditer(line) for new in news(m)]
        if here:
            found.append(here)
    return found


def product_files():
    listed = subprocess.run(["git", "ls-files", "*.c"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [f for f in listed if f == "busbar.c" or f.split("/")[0] in MODULES]


def changed_since(revision):
    """Returns file -> line numbers that differ from this revision."""
    diff = subprocess.run(["git", "diff", "-U0", revision, "--", "*.c"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines, file = collections.defaultdict(set), None
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            file = line[6:]
        elif line.startswith("@@ "):
            first, n = re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line).groups()
            lines[file].update(range(int(first), int(first) + int(n or 1)))
    return lines


def mutants_in_random_order(seed, only, since):
    """Yields the mutants of the product: one of each folder, then the next of each. A line is drawn first, then one of its mutants."""
    changed = changed_since(since) if since else None
    draw = random.Random(seed)
    lines = collections.defaultdict(list)
    for file in product_files():
        if not only or file == only or file.startswith(only.rstrip("/") + "/"):
            lines[folder_of(file)] += [m for m in mutants_of(file) if changed is None or m[0].line in changed[file]]
    for folder in sorted(lines):
        draw.shuffle(lines[folder])
    while any(lines.values()):
        for folder in sorted(lines):
            if lines[folder]:
                yield draw.choice(lines[folder].pop())


def key(mutant):
    """Identifies a mutant independently of changes elsewhere in its file."""
    return mutant["file"], " ".join(mutant["before"].split()), " ".join(mutant["after"].split())


def locate_again(result):
    """Returns the mutant at the present line number, or None."""
    matches = [m for line in mutants_of(result["file"]) for m in line if key(m._asdict()) == key(result)]
    return min(matches, key=lambda m: abs(m.line - result["line"]), default=None)


def equivalents():
    """Returns the keys of equivalent.txt: blocks of file, line before, line after and reason."""
    blocks = re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n", "", (ROOT / "tests/mutation/equivalent.txt").read_text()).strip())
    return {tuple(" ".join(line.split()) for line in b.split("\n")[:3]) for b in blocks if b}


# ---- running ----------------------------------------------------------------------------------------------------------


def kill_processes(mark):
    """Kills the processes whose environment contains this mark."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass


def run(command, limit_s, cwd, mark, environment=(), log=None):
    """Returns the exit status, or None after `limit_s` seconds. Afterwards all processes that the command started have ended."""
    def prefer_as_oom_victim():
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")

    with open(log or os.devnull, "w") as out:
        job = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                               preexec_fn=prefer_as_oom_victim, env={**os.environ, **dict(environment), "MUTANT": mark})
        try:
            return job.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill_processes("MUTANT=" + mark)
            job.wait()


class Copy:
    """A copy of the source tree with its build."""

    def __init__(self, name, black_box):
        self.root = WORK / f"copy{name}"
        self.build, self.mark = self.root / "build", f"{self.root}."
        self.log = WORK / f"copy{name}.log"
        self.n_black_box, self.black_box_s = black_box
        self.broken = set()  # tests that fail without a mutant
        self.copy_tree()

    def prepare(self, preset="debug"):
        if not (self.build / "build.ninja").exists():
            self.require(["cmake", "--preset", preset, "-B", self.build, "-DBUSBAR_TESTS=ON", "-DCMAKE_C_FLAGS_DEBUG=-O0",
                       "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold", "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=gold"])
        self.require(["ninja", "-C", self.build])
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True, capture_output=True, text=True).stdout
        self.units = {t["name"]: t for t in json.loads(listed)["tests"]}
        self.program_of = {n: pathlib.Path(w) for n, t in self.units.items() for w in t["command"] if w.endswith("/" + n)}
        sources = {p.stem: os.path.relpath(p.parent, ROOT / "tests") for p in (ROOT / "tests").rglob("test_*.c*")}
        self.folder_of_test = {n: sources.get(n, "?") for n in self.program_of}
        self.digests = {n: self.digest(n) for n in self.program_of}
        compiles = json.loads((self.build / "compile_commands.json").read_text())
        self.compiles = {os.path.relpath(c["file"], self.root): c for c in compiles}

        return self

    def require(self, command):
        if run(list(map(str, command)), 1800, self.root, self.mark, log=self.log) != 0:
            sys.exit(f"mutate: {shlex.join(map(str, command))} failed; see {self.log}")

    def copy_tree(self):
        """Copies the files of the source tree that differ, and deletes the others."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
        names = {n for n in listed.stdout.splitlines() if (ROOT / n).is_file()}
        for name in names:
            here = self.root / name
            if not here.exists() or here.read_bytes() != (ROOT / name).read_bytes():
                here.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, here)
        for old in (f for folder in (*MODULES, "tests") for f in (self.root / folder).rglob("*")):
            if old.is_file() and os.path.relpath(old, self.root) not in names:
                old.unlink()

    @functools.cache
    def original(self, file):
        """Returns the text of a file at the time of the copy."""
        return (self.root / file).read_text()

    def object_of(self, file):
        """Returns the object file of a source file at -O2, or None if it does not compile."""
        out = WORK / f"{self.root.name}.o"
        compile_ = self.compiles[file]
        words = shlex.split(compile_["command"])
        words[words.index("-o") + 1] = str(out)
        done = run(words + ["-O2", "-g0"], 120, compile_["directory"], self.mark, log=self.log)
        return out.read_bytes() if done == 0 else None

    def build_targets(self, targets):
        return run(["ninja", "-k", "0", "-C", str(self.build), *targets], 600, self.root, self.mark, log=self.log) == 0

    def unit_passes(self, name):
        test = self.units[name]
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = [e.split("=", 1) for e in properties.get("ENVIRONMENT", [])]
        status = run(test["command"], properties["TIMEOUT"], properties["WORKING_DIRECTORY"], self.mark, environment, self.log)
        return status in (0, properties.get("SKIP_RETURN_CODE"))

    def black_box(self, words, limit_s):
        """Runs black-box tests and returns those that failed; none after `limit_s`, because each test has a limit for hangs."""
        status = run([*PYTEST, *words], limit_s, self.root, self.mark, {"BUSBAR_BUILD": str(self.build)}.items(), self.log)
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self.log.read_text())
        if status not in (0, None) and not failed:
            sys.exit(f"mutate: pytest exited with status {status}; see {self.log}")
        return failed

    @functools.cache
    def black_box_tests(self, *words):
        self.require([*PYTEST, "--collect-only", *words, "tests/cli"])
        # pytest prints names relative to the folder of pytest.ini.
        return ["tests/cli/" + t for t in re.findall(r"(?m)^test_.*::.*$", self.log.read_text())]

    def digest(self, name):
        return hashlib.sha256((self.program_of[name]).read_bytes()).digest()


# ---- selection of tests ------------------------------------------------------------------------------------------------------


def unit_stages(copy, file):
    """Returns two lists: the unit tests of the folder, and the others, those of the module first."""
    folder, module = folder_of(file), file.split("/")[0]
    folder_of_program = {name: os.path.relpath(os.path.dirname(program), copy.build / "tests") for name, program in copy.program_of.items()}
    nearby = [n for n in folder_of_program if (folder + "/").startswith(copy.folder_of_test[n] + "/")]
    others = [n for n in folder_of_program if n not in nearby and n not in SLOW_UNITS]
    return [sorted(nearby, key=lambda n: n in SLOW_UNITS), sorted(others, key=lambda n: not folder_of_program[n].startswith(module))]


def black_box_files_of(file):
    """Returns the black-box test files of the folder."""
    folder = folder_of(file)
    while folder not in BLACK_BOX_FILES:
        folder = os.path.dirname(folder) or "."
    return [f"tests/cli/test_{name}.py" for name in BLACK_BOX_FILES[folder].split()]


def sample_black_box_tests(copy, mutant):
    """Returns a sample of the tests in the files of the folder. The mutant is the seed."""
    files = black_box_files_of(mutant.file)
    tests = [t for t in copy.black_box_tests() if t.split("::")[0] in files and t not in copy.broken]
    return random.Random(str(mutant)).sample(tests, min(copy.n_black_box, len(tests)))


def find_killing_unit_test(copy, mutant, names):
    """Returns the first test that fails with the mutant and passes without it, or None. Unchanged programs are not run."""
    copy.build_targets(names)
    for name in names:
        if name not in copy.broken and copy.digest(name) != copy.digests[name] and not copy.unit_passes(name):
            revert_mutant(copy, mutant)
            copy.build_targets([name])
            if copy.unit_passes(name):
                return name
            copy.broken.add(name)
            apply_mutant(copy, mutant)
            copy.build_targets(names)
    return None


def find_killing_black_box_test(copy, mutant, tests, limit_s):
    """Returns the first test that fails with the mutant and passes without it, or None. The mutant may be reverted afterwards."""
    while tests:
        copy.build_targets(PRODUCT)
        failed = copy.black_box(["-x", *tests], limit_s)
        if not failed:
            return None
        revert_mutant(copy, mutant)
        copy.build_targets(PRODUCT)
        if not copy.black_box(failed, limit_s):
            return failed[0]
        copy.broken.add(failed[0])
        tests = [t for t in tests if t not in copy.broken]
        apply_mutant(copy, mutant)
    return None


def verdict(copy, mutant):
    """Returns "same", "no C" (does not compile), "survived", or the name of the test that kills the mutant."""
    original = copy.object_of(mutant.file)
    apply_mutant(copy, mutant)
    changed = copy.object_of(mutant.file)
    if changed is None or changed == original:
        return "same" if changed else "no C"
    for names in unit_stages(copy, mutant.file):
        killer = find_killing_unit_test(copy, mutant, names)
        if killer:
            return killer
    return find_killing_black_box_test(copy, mutant, sample_black_box_tests(copy, mutant), copy.black_box_s) or "survived"


def apply_mutant(copy, mutant):
    lines = copy.original(mutant.file).split("\n")
    assert lines[mutant.line - 1] == mutant.before
    lines[mutant.line - 1] = mutant.after
    (copy.root / mutant.file).write_text("\n".join(lines))


def revert_mutant(copy, mutant):
    (copy.root / mutant.file).write_text(copy.original(mutant.file))


def test_mutant(copies, mutant):
    copy = copies.get()
    began = time.time()
    try:
        return verdict(copy, mutant), round(time.time() - began, 1)
    finally:
        revert_mutant(copy, mutant)
        copies.put(copy)


# ---- results ----------------------------------------------------------------------------------------------------------


def read_results():
    """Returns the latest result of each mutant by its key."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key(r): r for r in map(json.loads, lines)}


def tested(results):
    return [r for r in results if r["verdict"] not in ("same", "no C")]


def print_result(result):
    print(f"{result['verdict']:40} {result['seconds']:6.1f} s  {result['file']}:{result['line']}", flush=True)
    if result["verdict"] == "survived":
        print(f"    - {result['before'].strip()}\n    + {result['after'].strip()}", flush=True)


def print_summary(results):
    known = equivalents()
    left = [r for r in tested(results) if r["verdict"] == "survived"]
    equal = [r for r in left if key(r) in known]
    counted, survived = len(tested(results)) - len(equal), len(left) - len(equal)
    print("\nsurvivors")
    for r in left:
        if key(r) not in known:
            print_result(r)
    not_counted = len(results) - len(tested(results))
    print(f"\n{len(results)} mutants: {not_counted} do not compile or change no object file, {len(equal)} are equivalent; of {counted} "
          f"others {counted - survived} were killed, {survived} survived: {100 * (counted - survived) / max(counted, 1):.1f} %")


def test_all(chosen, target, done, black_box):
    """Tests mutants until `target` more have a verdict."""
    WORK.mkdir(parents=True, exist_ok=True)
    lock_file = (WORK / "lock").open("w")
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutate: another run uses {WORK}")
    signal.signal(signal.SIGTERM, lambda *_: (kill_processes(f"MUTANT={WORK}/"), os._exit(1)))
    all_copies = [Copy(n, black_box) for n in range(COPIES)]
    copies, lock = queue.Queue(), threading.Lock()
    for copy in all_copies:
        copies.put(copy.prepare())

    def work():
        while True:
            with lock:
                mutant = next(chosen, None) if len(tested(new_results)) + len(running) < target else None
                if mutant is None:
                    return
                running.add(mutant)
            found, seconds = test_mutant(copies, mutant)
            running.discard(mutant)
            result = {**mutant._asdict(), "verdict": found, "seconds": seconds}
            with lock:
                new_results.append(result)
                save_result(result, done)

    new_results, running = [], set()
    with concurrent.futures.ThreadPoolExecutor(COPIES) as pool:
        for worker in [pool.submit(work) for _ in range(COPIES)]:
            worker.result()


def apply_all(copy, mutants):
    """Applies all mutants, at most one per line."""
    for file in {m.file for m in mutants}:
        lines = copy.original(file).split("\n")
        for m in mutants:
            if m.file == file:
                lines[m.line - 1] = m.after
        (copy.root / file).write_text("\n".join(lines))


def test_together(mutants, done):
    """Runs all black-box tests once with all survivors applied, then the tests that failed on each survivor. Few survivors of a sample of
    the tests are killed by the other tests, so this is faster than all tests on each survivor."""
    copy = Copy(0, ALL_BLACK_BOX).prepare()
    apply_all(copy, mutants)
    copy.build_targets(PRODUCT)
    failed = copy.black_box(["-n", str(COPIES), "tests/cli"], ALL_BLACK_BOX[1])
    for m in mutants:
        revert_mutant(copy, m)
    copy.build_targets(PRODUCT)
    failed = sorted(set(failed) - set(copy.black_box(failed, ALL_BLACK_BOX[1]))) if failed else []
    print(f"{len(failed)} black-box tests fail with all survivors applied", *failed, sep="\n    ", flush=True)
    for m in mutants:
        nearby = sorted(failed, key=lambda t: t.split("::")[0] not in black_box_files_of(m.file))
        apply_mutant(copy, m)
        found = find_killing_black_box_test(copy, m, nearby, ALL_BLACK_BOX[1])
        revert_mutant(copy, m)
        if found:
            save_result({**m._asdict(), "verdict": found, "seconds": 0}, done)


def test_sanitized(mutants, done):
    """Runs the unit tests of the folder and the smoke tests under AddressSanitizer, which detects accesses beyond the end of an array."""
    os.environ.update(ASAN_OPTIONS="detect_leaks=0:exitcode=99")
    copy = Copy("-sanitized", MANY_BLACK_BOX).prepare("sanitize")
    smoke = copy.black_box_tests("-m", "smoke")
    for m in mutants:
        apply_mutant(copy, m)
        found = (find_killing_unit_test(copy, m, unit_stages(copy, m.file)[0]) or
                 find_killing_black_box_test(copy, m, smoke, MANY_BLACK_BOX[1]))
        revert_mutant(copy, m)
        if found:
            save_result({**m._asdict(), "verdict": "sanitized " + found, "seconds": 0}, done)


def save_result(result, done):
    with RESULTS.open("a") as out:
        out.write(json.dumps(result) + "\n")
    done[key(result)] = result
    print_result(result)


def main():
    parser = argparse.ArgumentParser(prog="run.sh")
    parser.add_argument("n", type=int, nargs="?", default=0, help="total number of tested mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only mutants of this folder or file")
    parser.add_argument("--since", metavar="REV", help="only lines that have changed since this commit")
    parser.add_argument("--again", action="store_true", help="test the survivors again")
    parser.add_argument("--together", action="store_true", help="apply all survivors at once and run every black-box test")
    parser.add_argument("--sanitize", action="store_true", help="run the smoke tests under AddressSanitizer on each survivor")
    arguments = parser.parse_args()
    done = read_results()
    if arguments.again or arguments.together or arguments.sanitize:
        left = [r for r in done.values() if r["verdict"] == "survived" and key(r) not in equivalents()]
        chosen = [m for m in map(locate_again, left) if m]
        if arguments.together:
            test_together(chosen, done)
        elif arguments.sanitize:
            test_sanitized(chosen, done)
        else:
            test_all(iter(chosen), len(chosen), done, MANY_BLACK_BOX)
    else:
        chosen = (m for m in mutants_in_random_order(arguments.seed, arguments.only, arguments.since) if key(m._asdict()) not in done)
        target = arguments.n - len(tested(done.values()))
        if target > 0:
            test_all(chosen, target, done, SOME_BLACK_BOX)
    print_summary(list(done.values()))


if __name__ == "__main__":
    main()
