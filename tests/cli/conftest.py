"""Starts busbar as a black box: on emulated GPUs, with or without mpirun, always with a time limit.

BUSBAR_BUILD names the build folder (default: build). `--rewrite-golden` rewrites the golden files.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUSBAR_BUILD", ROOT / "build")).resolve()
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"

# The variables that bootstrap/mpi.sh exports for Open MPI. OMPI_MCA_pml selects the message layer: without it each rank of every job first
# searches for absent networks for a quarter of a second.
MPI_ENVIRONMENT = dict(re.findall(r"([A-Z]\w*)=(\S+)", "".join(
    line for line in (ROOT / "bootstrap/mpi.sh").read_text().splitlines(True) if line.lstrip().startswith("export ")))) | {
        "OMPI_MCA_pml": "ob1"}


# Files whose tests share a slow fixture of the module: one worker runs them, so that it runs once.
ONE_WORKER = {f"test_{name}.py" for name in ("calibrate", "gpu_kit", "memory", "packaging", "published", "report", "scaling", "sweep_programs")}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distributes the tests of ONE_WORKER by file, and all others one by one. Marks of pytest-xdist do the same, but not with pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFileOrTest(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::")[0]
            return path if path.rsplit("/")[-1] in ONE_WORKER else nodeid

    return ByFileOrTest(config, log)


def mpirun_of(build):
    """Returns the launcher of the MPI with which a build folder was configured; None without a build."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^MPIEXEC_EXECUTABLE:\w+=(.+)$", cache.read_text(), re.M) if cache.exists() else None
    return found.group(1) if found else None


def pytest_addoption(parser):
    parser.addoption("--rewrite-golden", action="store_true", help="rewrite the files of tests/cli/golden")
    parser.addoption("--quick", action="store_true", help="leave out longest_tests.txt; of each other test, run only the first parameters")


# The tests of longest_tests.txt (of several seconds each, slowest first) start first, so that all workers end at about the same time.
def pytest_collection_modifyitems(config, items):
    longest = (pathlib.Path(__file__).parent / "longest_tests.txt").read_text().split()
    items.sort(key=lambda item: item.originalname not in longest)
    if config.getoption("--quick"):
        kept = {item.nodeid.split("[")[0]: item for item in reversed(items) if item.originalname not in longest}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept.values()])
        items[:] = [item for item in items if item in kept.values()]


class Busbar:
    """Starts busbar. `ranks`: -g, which takes a fifth of the CPU time of mpirun; 0: without the option. `mpirun`: starts the ranks
    with mpirun and these options of it. `launched`: always with mpirun. `env`: added to the environment of one run, or of all. Does not
    raise on a nonzero exit status. For short runs, kernels run as loops (test_kernels and test_kernel_sources compare them with the
    kernels' sources), and runs that verify nothing (proxy without --check, -c 0) move no data, unless `env` asks for it."""

    def __init__(self, build=BUILD, launched=False, env=None):
        self.build, self.mpirun, self.launched = build, mpirun_of(build) or "mpirun", launched
        self.defaults = {"EMU_QUIET": "1", "EMU_KERNELS": "fast", "BUSBAR_PROGRESS": "0", **(env or {})}

    def environment(self, env=None):
        merged = {k: v for k, v in os.environ.items() if not k.startswith(("EMU_", "NCCL_", "BUSBAR_", "COLUMNS"))}
        return {**merged, **MPI_ENVIRONMENT, **self.defaults, **(env or {})}

    def command(self, *args, ranks=0, emulated=True, mpirun=None):
        program = [str(self.build / ("busbar-emulated" if emulated else "busbar")), *map(str, args)]
        if ranks and mpirun is None and not self.launched:
            return [*program, "-g", str(ranks)]
        return ([self.mpirun, *(mpirun or ()), "-n", str(ranks)] if ranks else []) + program

    def run(self, *args, ranks=0, env=None, emulated=True, mpirun=None, timeout=90, cwd=None):
        return self.run_program(*self.command(*args, ranks=ranks, emulated=emulated, mpirun=mpirun), env=env, timeout=timeout, cwd=cwd)

    def run_program(self, *command_line, env=None, timeout=90, cwd=None):
        command = ["timeout", "-k", "5", str(timeout), *map(str, command_line)]
        if "proxy" in command and "--check" not in command or "-c 0" in " ".join(command):
            env = {"EMU_DATA": "off", **(env or {})}
        return subprocess.run(command, env=self.environment(env), cwd=cwd, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout + 20)

    def json(self, *args, tmp_path, **kw):
        """Runs with --json into a file, asserts success and returns the parsed file."""
        path = tmp_path / "result.json"
        done = self.run(*args, "--json", path, **kw)
        assert done.returncode == 0, done.stderr + done.stdout
        return json.loads(path.read_text())


@pytest.fixture(scope="session")
def busbar():
    return Busbar()


@pytest.fixture(scope="session")
def times_only():
    """For tests of times and files: operations move no data, so large sizes take no time on the host."""
    return Busbar(env={"EMU_DATA": "off"})


@pytest.fixture
def golden(request):
    """Returns golden(name, text): asserts that text equals tests/cli/golden/<name>; --rewrite-golden writes the file."""

    def compare(name, text):
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: run pytest with --rewrite-golden and check the new file"
        assert text == path.read_text()

    return compare
