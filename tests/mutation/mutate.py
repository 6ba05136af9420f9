"""Changes random places of the product, one at a time, and says which changes no test notices (run.sh starts it).

A mutant is one comparison, sign, bound, constant, `&&`, `||`, `true`, `false` or negation, changed in one C file of the
product outside comments, strings and preprocessor lines. Folders take turns, so that each is judged alike.
Two copies of the tree, each with its own build (-O0), try mutants side by side. A mutant whose object is the same at -O2, or
that does not compile, is none. Of the others the unit tests of its folder are run, then those of its room, then all but slow
ones, then some of the black-box tests that concern it (CONCERNS), until one notices (`--again`: all of those); a hang is
noticed too. A test notices if it fails with the mutant and passes without it, so that a busy machine adds nothing to the rate.
`--together` plants all survivors at once and runs every black-box test; those that fail are then tried on each survivor alone.
`--sanitize` tries each survivor on the smoke tests under AddressSanitizer.

Results are lines of build/mutation/results.jsonl: folders that hold no judged mutant yet come first when a run goes on.
equivalent.txt lists survivors that change nothing anybody could see, each with its reason.
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
ROOMS = ("bootstrap", "collectives", "cuda", "proxies")
COPIES = 2
SOME_BLACK_BOX, MANY_BLACK_BOX, ALL_BLACK_BOX = (12, 40), (1000, 240), (10000, 3600)  # so many, seconds for all of them
PYTEST = (os.environ.get("PYTHON", "python3"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
SLOW_UNITS = ("test_world", "test_hangs", "test_comms", "test_siblings")  # a dozen jobs each: only their own folder waits for them
PRODUCT = ("busbar", "busbar_gpu", "emulator")

# The black-box files that concern a folder; of folders within one another the innermost counts.
CONCERNS = {
    ".": "front gpu_library packaging sweep",
    "bootstrap/base": "front result_files progress bench",
    "bootstrap/cli": "front packaging parity bench",
    "bootstrap/report": "report memory",
    "bootstrap/results": "result_files json_reference bench csv",
    "bootstrap/start": "start gpu_library front nccl_tests foreign_calls",
    "bootstrap/sweep": "sweep",
    "bootstrap/watchdog": "bench proxy mpi",
    "bootstrap/world": "start mpi bench",
    "collectives": "front packaging sweep bench parity figures nccl_tests compute p2p comm overlap",
    "collectives/comm": "comm",
    "collectives/compare": "compare answers",
    "collectives/compute": "compute",
    "collectives/nccl_tests": "nccl_tests",
    "collectives/overlap": "overlap",
    "collectives/p2p": "p2p",
    "collectives/session": "observe algorithms bench parity dangers result_files",
    "collectives/sweep": "bench parity algorithms figures nccl_tests",
    "cuda": "kernels compute bench transformer_layers",
    "cuda/device": "start bench dangers nsys",
    "proxies": "proxy plan dangers answers csv forecast",
    "proxies/bench_plan": "answers sharing emulated_machine",
    "proxies/calibrate": "calibrate",
    "proxies/export": "export",
    "proxies/layouts": "answers",
    "proxies/machine": "sharing forecast answers emulated_machine",
    "proxies/models": "models plan memory",
    "proxies/plan": "plan trace export models forecast",
    "proxies/registry": "front plan proxy models",
    "proxies/replicas": "replicas scaling",
    "proxies/run": "proxy trace emulated_machine answers",
    "proxies/scaling": "scaling",
    "proxies/seeds": "plan_seeds plan",
    "proxies/simulate": "sharing answers plan emulated_machine",
    "proxies/spatial": "spatial",
    "proxies/sync": "replicas plan_seeds",
    "proxies/timeline": "trace proxy",
    "proxies/transformer": "transformer transformer_layers models dispatch",
}

# What is changed into what: a pattern and its replacement, a word or a function of the match.
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "+=": "-=", "-=": "+=",
         "&&": "||", "||": "&&"}
CHANGES = [(re.compile(f"(?<= ){re.escape(old)}(?= |$)"), lambda m, new=new: [new]) for old, new in SWAPS.items()] + [
    (re.compile(r"\btrue\b"), lambda m: ["false"]),
    (re.compile(r"\bfalse\b"), lambda m: ["true"]),
    (re.compile(r"!(?=[\w(*])"), lambda m: [""]),
    (re.compile(r"(?<![\w.])\d+(?=[uUlL]*(?![\w.]))"), lambda m: [str(int(m[0]) + by) for by in (1, -1) if int(m[0]) + by >= 0]),
    (re.compile(r"(?<![\w.])\d+\.\d+"), lambda m: [str(float(m[0]) + 1)])]
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', re.S | re.M)
SIZES = re.compile(r"\b(?:char|bool)\s+\w+(?:\[\w+\])+|\{0\}")  # of text buffers, larger is no fault; and "all zero"

Mutant = collections.namedtuple("Mutant", "file line column before after")


def folder_of(file):
    return os.path.dirname(file) or "."


def mutants_of(file):
    """Per line that has any: its mutants."""
    text = (ROOT / file).read_text()
    blank = lambda m: re.sub(r"[^\n]", "\x01", m[0])
    code = SIZES.sub(blank, NO_CODE.sub(blank, text))
    found = []
    for number, (line, whole) in enumerate(zip(code.split("\n"), text.split("\n")), 1):
        here = [Mutant(file, number, m.start(), whole, whole[:m.start()] + new + whole[m.end():])
                for pattern, news in CHANGES for m in pattern.finditer(line) for new in news(m)]
        if here:
            found.append(here)
    return found


def product_files():
    listed = subprocess.run(["git", "ls-files", "*.c"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [f for f in listed if f == "busbar.c" or f.split("/")[0] in ROOMS]


def changed_since(revision):
    """Per file: its lines that are not those of that revision."""
    diff = subprocess.run(["git", "diff", "-U0", revision, "--", "*.c"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines, file = collections.defaultdict(set), None
    for line in diff.split("\n"):
        if line.startswith("+++ "):
            file = line[6:]
        elif line.startswith("@@ "):
            first, n = re.match(r"@@ \S+ \+(\d+)(?:,(\d+))? @@", line).groups()
            lines[file].update(range(int(first), int(first) + int(n or 1)))
    return lines


def in_turns(seed, only, since):
    """All mutants of the product: one of each folder, then the next of each, lines drawn before places in a line."""
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
    """A place survives changes elsewhere in its file."""
    return mutant["file"], " ".join(mutant["before"].split()), " ".join(mutant["after"].split())


def find_again(result):
    """The mutant, wherever its line is by now."""
    alike = [m for line in mutants_of(result["file"]) for m in line if key(m._asdict()) == key(result)]
    return min(alike, key=lambda m: abs(m.line - result["line"]), default=None)


def equivalents():
    """Blocks of four lines: file, line before, line after, reason."""
    blocks = re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n", "", (ROOT / "tests/mutation/equivalent.txt").read_text()).strip())
    return {tuple(" ".join(line.split()) for line in b.split("\n")[:3]) for b in blocks if b}


# ---- running ----------------------------------------------------------------------------------------------------------


def end_all(mark):
    """Kills what a test left behind, by the mark in its environment."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass


def run(command, limit_s, cwd, mark, environment=(), log=None):
    """Exit status, or None after `limit_s`. Whatever it started has ended afterwards."""
    def last_in_line():
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")

    with open(log or os.devnull, "w") as out:
        job = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                               preexec_fn=last_in_line, env={**os.environ, **dict(environment), "MUTANT": mark})
        try:
            return job.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end_all("MUTANT=" + mark)
            job.wait()


class Copy:
    """One copy of the tree and its build."""

    def __init__(self, name, black_box):
        self.root = WORK / f"copy{name}"
        self.build, self.mark = self.root / "build", f"{self.root}."
        self.log = WORK / f"copy{name}.log"
        self.n_black_box, self.black_box_s = black_box
        self.broken = set()  # tests that fail without a mutant too
        self.take_over()

    def prepare(self, preset="debug"):
        if not (self.build / "build.ninja").exists():
            self.need(["cmake", "--preset", preset, "-B", self.build, "-DBUSBAR_TESTS=ON", "-DCMAKE_C_FLAGS_DEBUG=-O0",
                       "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold", "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=gold"])
        self.need(["ninja", "-C", self.build])
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True, capture_output=True, text=True).stdout
        self.units = {t["name"]: t for t in json.loads(listed)["tests"]}
        self.program_of = {n: pathlib.Path(w) for n, t in self.units.items() for w in t["command"] if w.endswith("/" + n)}
        sources = {p.stem: os.path.relpath(p.parent, ROOT / "tests") for p in (ROOT / "tests").rglob("test_*.c*")}
        self.folder_of_test = {n: sources.get(n, "?") for n in self.program_of}
        self.digests = {n: self.digest(n) for n in self.program_of}
        compiles = json.loads((self.build / "compile_commands.json").read_text())
        self.compiles = {os.path.relpath(c["file"], self.root): c for c in compiles}

        return self

    def need(self, command):
        if run(list(map(str, command)), 1800, self.root, self.mark, log=self.log) != 0:
            sys.exit(f"mutants: {shlex.join(map(str, command))} failed: {self.log} says why")

    def take_over(self):
        """Makes the copy like the tree, touching only what differs."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
        names = {n for n in listed.stdout.splitlines() if (ROOT / n).is_file()}
        for name in names:
            here = self.root / name
            if not here.exists() or here.read_bytes() != (ROOT / name).read_bytes():
                here.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, here)
        for old in (f for folder in (*ROOMS, "tests") for f in (self.root / folder).rglob("*")):
            if old.is_file() and os.path.relpath(old, self.root) not in names:
                old.unlink()

    @functools.cache
    def whole(self, file):
        """The text of a file as it was when the copy was made."""
        return (self.root / file).read_text()

    def object_of(self, file):
        """The file compiled as for a release; None if it does not compile."""
        out = WORK / f"{self.root.name}.o"
        compile_ = self.compiles[file]
        words = shlex.split(compile_["command"])
        words[words.index("-o") + 1] = str(out)
        done = run(words + ["-O2", "-g0"], 120, compile_["directory"], self.mark, log=self.log)
        return out.read_bytes() if done == 0 else None

    def built(self, targets):
        return run(["ninja", "-k", "0", "-C", str(self.build), *targets], 600, self.root, self.mark, log=self.log) == 0

    def unit_passes(self, name):
        test = self.units[name]
        properties = {p["name"]: p["value"] for p in test["properties"]}
        environment = [e.split("=", 1) for e in properties.get("ENVIRONMENT", [])]
        status = run(test["command"], properties["TIMEOUT"], properties["WORKING_DIRECTORY"], self.mark, environment, self.log)
        return status in (0, properties.get("SKIP_RETURN_CODE"))

    def black_box(self, words, limit_s):
        """The tests that failed. Out of time, none did: each has a limit of its own for hangs."""
        status = run([*PYTEST, *words], limit_s, self.root, self.mark, {"BUSBAR_BUILD": str(self.build)}.items(), self.log)
        failed = re.findall(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self.log.read_text())
        if status not in (0, None) and not failed:
            sys.exit(f"mutants: pytest ended with {status}: {self.log} says why")
        return failed

    @functools.cache
    def black_box_tests(self, *words):
        self.need([*PYTEST, "--collect-only", *words, "tests/cli"])
        return ["tests/cli/" + t for t in re.findall(r"(?m)^test_.*::.*$", self.log.read_text())]  # from where pytest.ini is

    def digest(self, name):
        return hashlib.sha256((self.program_of[name]).read_bytes()).digest()


# ---- which tests ------------------------------------------------------------------------------------------------------


def unit_stages(copy, file):
    """Unit tests of the folder; the others, those of the room first."""
    folder, room = folder_of(file), file.split("/")[0]
    place = {name: os.path.relpath(os.path.dirname(program), copy.build / "tests") for name, program in copy.program_of.items()}
    near = [n for n in place if (folder + "/").startswith(copy.folder_of_test[n] + "/")]
    others = [n for n in place if n not in near and n not in SLOW_UNITS]
    return [sorted(near, key=lambda n: n in SLOW_UNITS), sorted(others, key=lambda n: not place[n].startswith(room))]


def concerned(file):
    """The black-box files of its folder."""
    folder = folder_of(file)
    while folder not in CONCERNS:
        folder = os.path.dirname(folder) or "."
    return [f"tests/cli/test_{name}.py" for name in CONCERNS[folder].split()]


def some_black_box(copy, mutant):
    """Tests of the files that concern it, drawn by the mutant itself."""
    files = concerned(mutant.file)
    tests = [t for t in copy.black_box_tests() if t.split("::")[0] in files and t not in copy.broken]
    return random.Random(str(mutant)).sample(tests, min(copy.n_black_box, len(tests)))


def unit_notices(copy, mutant, names):
    """The first test that fails with the mutant and passes without it. Programs that it does not change are not run."""
    copy.built(names)
    for name in names:
        if name not in copy.broken and copy.digest(name) != copy.digests[name] and not copy.unit_passes(name):
            restore(copy, mutant)
            copy.built([name])
            if copy.unit_passes(name):
                return name
            copy.broken.add(name)
            plant(copy, mutant)
            copy.built(names)
    return None


def black_box_notices(copy, mutant, tests, limit_s):
    """The first of them that fails with the mutant and passes without it; the mutant may then be gone from the copy."""
    while tests:
        copy.built(PRODUCT)
        failed = copy.black_box(["-x", *tests], limit_s)
        if not failed:
            return None
        restore(copy, mutant)
        copy.built(PRODUCT)
        if not copy.black_box(failed, limit_s):
            return failed[0]
        copy.broken.add(failed[0])
        tests = [t for t in tests if t not in copy.broken]
        plant(copy, mutant)
    return None


def verdict(copy, mutant):
    """"same", "no C", "survived", or which test noticed."""
    whole = copy.object_of(mutant.file)
    plant(copy, mutant)
    changed = copy.object_of(mutant.file)
    if changed is None or changed == whole:
        return "same" if changed else "no C"
    for names in unit_stages(copy, mutant.file):
        noticed = unit_notices(copy, mutant, names)
        if noticed:
            return noticed
    return black_box_notices(copy, mutant, some_black_box(copy, mutant), copy.black_box_s) or "survived"


def plant(copy, mutant):
    lines = copy.whole(mutant.file).split("\n")
    assert lines[mutant.line - 1] == mutant.before
    lines[mutant.line - 1] = mutant.after
    (copy.root / mutant.file).write_text("\n".join(lines))


def restore(copy, mutant):
    (copy.root / mutant.file).write_text(copy.whole(mutant.file))


def try_one(copies, mutant):
    copy = copies.get()
    began = time.time()
    try:
        return verdict(copy, mutant), round(time.time() - began, 1)
    finally:
        restore(copy, mutant)
        copies.put(copy)


# ---- results ----------------------------------------------------------------------------------------------------------


def read_results():
    """The latest verdict about each mutant."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {key(r): r for r in map(json.loads, lines)}


def judged(results):
    return [r for r in results if r["verdict"] not in ("same", "no C")]


def say(result):
    print(f"{result['verdict']:40} {result['seconds']:6.1f} s  {result['file']}:{result['line']}", flush=True)
    if result["verdict"] == "survived":
        print(f"    - {result['before'].strip()}\n    + {result['after'].strip()}", flush=True)


def say_rate(results):
    known = equivalents()
    left = [r for r in judged(results) if r["verdict"] == "survived"]
    equal = [r for r in left if key(r) in known]
    counted, survived = len(judged(results)) - len(equal), len(left) - len(equal)
    print("\nsurvivors")
    for r in left:
        if key(r) not in known:
            say(r)
    nothing = len(results) - len(judged(results))
    print(f"\n{len(results)} places changed: {nothing} do not compile or change no object, {len(equal)} are equivalent; of {counted} "
          f"others {counted - survived} were noticed, {survived} survived: {100 * (counted - survived) / max(counted, 1):.1f} %")


def try_all(chosen, wanted, done, black_box):
    """Tries mutants until `wanted` more have been judged."""
    WORK.mkdir(parents=True, exist_ok=True)
    alone = (WORK / "lock").open("w")
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"mutants: another run is at work in {WORK}")
    signal.signal(signal.SIGTERM, lambda *_: (end_all(f"MUTANT={WORK}/"), os._exit(1)))
    made = [Copy(n, black_box) for n in range(COPIES)]
    copies, lock = queue.Queue(), threading.Lock()
    for copy in made:
        copies.put(copy.prepare())

    def work():
        while True:
            with lock:
                mutant = next(chosen, None) if len(judged(fresh)) + len(under_way) < wanted else None
                if mutant is None:
                    return
                under_way.add(mutant)
            found, seconds = try_one(copies, mutant)
            under_way.discard(mutant)
            result = {**mutant._asdict(), "verdict": found, "seconds": seconds}
            with lock:
                fresh.append(result)
                keep(result, done)

    fresh, under_way = [], set()
    with concurrent.futures.ThreadPoolExecutor(COPIES) as pool:
        for worker in [pool.submit(work) for _ in range(COPIES)]:
            worker.result()


def plant_together(copy, mutants):
    """All of them, of each line one."""
    for file in {m.file for m in mutants}:
        lines = copy.whole(file).split("\n")
        for m in mutants:
            if m.file == file:
                lines[m.line - 1] = m.after
        (copy.root / file).write_text("\n".join(lines))


def try_together(mutants, done):
    """Few of the survivors of some black-box tests are noticed by the others: one run of all of them finds which tests could."""
    copy = Copy(0, ALL_BLACK_BOX).prepare()
    plant_together(copy, mutants)
    copy.built(PRODUCT)
    failed = copy.black_box(["-n", str(COPIES), "tests/cli"], ALL_BLACK_BOX[1])
    for m in mutants:
        restore(copy, m)
    copy.built(PRODUCT)
    failed = sorted(set(failed) - set(copy.black_box(failed, ALL_BLACK_BOX[1]))) if failed else []
    print(f"of all black-box tests {len(failed)} notice the survivors together", *failed, sep="\n    ", flush=True)
    for m in mutants:
        near = sorted(failed, key=lambda t: t.split("::")[0] not in concerned(m.file))
        plant(copy, m)
        found = black_box_notices(copy, m, near, ALL_BLACK_BOX[1])
        restore(copy, m)
        if found:
            keep({**m._asdict(), "verdict": found, "seconds": 0}, done)


def try_sanitized(mutants, done):
    """A step beyond an array's end is seen by AddressSanitizer, under which the smoke tests are run as well."""
    os.environ.update(ASAN_OPTIONS="detect_leaks=0:exitcode=99")
    copy = Copy("-sanitized", MANY_BLACK_BOX).prepare("sanitize")
    smoke = copy.black_box_tests("-m", "smoke")
    for m in mutants:
        plant(copy, m)
        found = unit_notices(copy, m, unit_stages(copy, m.file)[0]) or black_box_notices(copy, m, smoke, MANY_BLACK_BOX[1])
        restore(copy, m)
        if found:
            keep({**m._asdict(), "verdict": "sanitized " + found, "seconds": 0}, done)


def keep(result, done):
    with RESULTS.open("a") as out:
        out.write(json.dumps(result) + "\n")
    done[key(result)] = result
    say(result)


def main():
    words = argparse.ArgumentParser(prog="run.sh")
    words.add_argument("n", type=int, nargs="?", default=0, help="so many judged mutants in all")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default="", help="a folder or a file")
    words.add_argument("--since", metavar="REV", help="only lines that have changed since that commit")
    words.add_argument("--again", action="store_true", help="those that survived, once more")
    words.add_argument("--together", action="store_true", help="every black-box test on all of those at once")
    words.add_argument("--sanitize", action="store_true", help="the smoke tests under AddressSanitizer on each of those")
    asked = words.parse_args()
    done = read_results()
    if asked.again or asked.together or asked.sanitize:
        left = [r for r in done.values() if r["verdict"] == "survived" and key(r) not in equivalents()]
        chosen = [m for m in map(find_again, left) if m]
        if asked.together:
            try_together(chosen, done)
        elif asked.sanitize:
            try_sanitized(chosen, done)
        else:
            try_all(iter(chosen), len(chosen), done, MANY_BLACK_BOX)
    else:
        chosen = (m for m in in_turns(asked.seed, asked.only, asked.since) if key(m._asdict()) not in done)
        wanted = asked.n - len(judged(done.values()))
        if wanted > 0:
            try_all(chosen, wanted, done, SOME_BLACK_BOX)
    say_rate(list(done.values()))


if __name__ == "__main__":
    main()
