"""What is installed beside the program, and packages: manual pages and completion say what the option tables say."""
import os
import re
import shutil
import subprocess
import sys
import tarfile
import types

import pytest

from conftest import ROOT

SCRIPTS = ROOT / "cmake" / "packaging"
PAGES = {"busbar": (), "busbar-bench": ("bench",), "busbar-bench-p2p": ("bench", "p2p"), "busbar-bench-comm": ("bench", "comm"),
         "busbar-bench-overlap": ("bench", "overlap"), "busbar-bench-compute": ("bench", "compute"), "busbar-proxy": ("proxy",),
         "busbar-plan": ("plan",), "busbar-compare": ("compare",), "busbar-sweep": ("sweep",),
         "busbar-calibrate": ("calibrate",)}


def run(*words, **more):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **more)


def need(program):
    if not shutil.which(program):
        pytest.skip(f"no {program} on this machine")


@pytest.fixture(scope="module")
def installed(busbar, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    assert run("cmake", "--install", busbar.build, "--prefix", prefix).returncode == 0
    return prefix


# ---- manual pages ----


def test_there_is_a_page_for_every_command_and_mode(installed):
    pages = {p.stem for p in (installed / "share/man/man1").iterdir()}
    assert pages >= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_options_of_the_help(busbar, installed, page):
    text = (installed / "share/man/man1" / f"{page}.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"(?m)^ {2,6}(?:-\w, )?--([\w-]+)", run(busbar.build / "busbar", *PAGES[page], "--help").stdout)) - {"help"}
    assert options or not page.removeprefix("busbar")
    assert options == set(re.findall(r"(?m)^\.B (?:-\w, )?--([\w-]+)", text))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_sound_roff(installed, page):
    need("groff")
    done = run("groff", "-ww", "-man", "-Tascii", "-P-bcu", installed / "share/man/man1" / f"{page}.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "NAME" in done.stdout and "SYNOPSIS" in done.stdout


# ---- completion: (the words so far, what is among the offers, what is not) ----
OFFERS = [
    ("busbar ", {"bench", "plan", "sweep"}, {"all_reduce"}),
    ("busbar be", {"bench"}, {"plan"}),
    ("busbar bench ", {"all_reduce", "p2p", "all"}, {"gpt2_large"}),
    ("busbar bench p2p --dir", {"--direction="}, {"--minbytes="}),
    ("busbar bench all_reduce --datatype=bf", {"bfloat16"}, {"float"}),
    ("busbar bench all_reduce -d bf", {"bfloat16"}, {"float"}),
    ("busbar plan transformer --model llama3_7", {"llama3_70b"}, {"llama3_8b"}),
    ("busbar proxy bert", {"bert_large"}, {"resnet50"}),
    ("busbar list co", {"collectives", "columns"}, {"models"}),
    ("busbar nonsense ", set(), {"bench"}),
]


def last_part(word):
    """bash and fish may offer a whole word or what stands after the equals sign."""
    return word if word.endswith("=") else word.rpartition("=")[2]


def offers(shell, line, path):
    if shell == "fish":
        words = run("fish", "--no-config", "-c", f"source {SCRIPTS}/busbar.fish; complete -C '{line}'", env={"PATH": path, "HOME": "/"})
        return {last_part(w.split("\t")[0]) for w in words.stdout.splitlines()}
    script = f"""source {SCRIPTS}/busbar.bash; COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS=$' \\t\\n='
compopt() {{ :; }}; _busbar; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return {last_part(w) for w in run("bash", "--norc", "-c", script, env={"PATH": path}).stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_a_shell_is_offered(busbar, shell):
    need(shell)
    for line, there, not_there in OFFERS:
        got = offers(shell, line, f"{busbar.build}:/usr/bin:/bin")
        assert there <= got and not not_there & got, line


def test_zsh_reads_its_script(busbar):
    need("zsh")
    done = run("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -D -u; functions[_busbar]=$(<{SCRIPTS}/busbar.zsh); whence -w _busbar")
    assert done.stdout.strip() == "_busbar: function", done.stderr


# ---- what is installed ----


def test_what_the_readme_names_is_installed(installed):
    there = {str(p.relative_to(installed)) for p in installed.rglob("*") if p.is_file()}
    assert there >= {"share/doc/busbar/README.md", "share/doc/busbar/LICENSE", "share/doc/busbar/CHANGES.md", "share/busbar/mpi.sh",
                     "share/doc/busbar/bootstrap/results/README.md", "share/busbar/profiles/studies/scaling.json",
                     "share/busbar/profiles/nsys/slurm.sh", "share/busbar/profiles/clusters/h100-sxm-ib.json"}
    links = re.findall(r"\]\(([^)#:]+)\)", (installed / "share/doc/busbar/README.md").read_text())
    for link in links:
        if link.endswith("README.md"):
            assert (installed / "share/doc/busbar" / link).is_file(), link


def test_the_installed_report_finds_its_script(busbar, installed, tmp_path):
    """With the Python of the PATH: either a page, or the line that plotly is missing there."""
    (tmp_path / "r.json").write_text('{"schema": "busbar.bench/1", "command": ["bench"], "results": []}')
    path = f"{busbar.build}/python/bin:{os.environ['PATH']}"
    done = run(installed / "bin" / "busbar", "report", tmp_path / "r.json", "-o", tmp_path / "r.html", env={**os.environ, "PATH": path})
    assert done.returncode == 0 or "needs the Python package plotly" in done.stderr, done.stderr
    assert (tmp_path / "r.html").exists() == (done.returncode == 0)


def test_the_installed_emulated_gpus_run(busbar, installed):
    done = run(installed / "bin" / "busbar-emulated", "bench", "all_reduce", "-b", "8", "-e", "8", env=busbar.environment())
    assert done.returncode == 0, done.stderr
    assert "Emulated GPU" in done.stdout and "# Out of bounds values : 0 OK" in done.stdout


def test_packages_hold_a_program_that_runs(busbar, tmp_path):
    assert run("cpack", "--config", busbar.build / "CPackConfig.cmake", "-B", tmp_path).returncode == 0
    roots = []
    for package in tmp_path.glob("*.tar.gz"):
        with tarfile.open(package) as archive:
            archive.extractall(tmp_path / "tar", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        roots += [next((tmp_path / "tar").iterdir())]
    for package in tmp_path.glob("*.deb"):
        assert run("dpkg-deb", "-x", package, tmp_path / "deb").returncode == 0
        assert "jansson" in run("dpkg-deb", "-f", package, "Depends").stdout
        roots += [tmp_path / "deb" / "usr"]
    assert len(roots) >= 1
    for root in roots:
        done = run(root / "bin" / "busbar", "plan", "gpt2_large", "--ranks", "4", cwd=tmp_path)
        assert done.returncode == 0 and "busbar plan gpt2_large" in done.stdout, done.stderr


def test_the_container_runs_what_is_there():
    text = (SCRIPTS / "Containerfile").read_text()
    steps = re.findall(r"(?m)^(FROM|COPY|RUN|WORKDIR|ENV|CMD) ", text)
    assert steps[0] == "FROM" and steps[-1] == "CMD"
    for script in re.findall(r"\bsh (\S+\.sh)", text):
        assert (ROOT / script).is_file(), script
    told = dict(re.findall(r"(OMPI_\w+)=(\S+)", text))
    assert told and all(f"{name}={value}" in (ROOT / "bootstrap/mpi.sh").read_text() for name, value in told.items())


# ---- the recipe for Spack, read with a stand-in for its language ----


def read_recipe(monkeypatch, said):
    def directive(name):
        return lambda *words, **more: said.append((name, words, more)) or _Nothing()

    class _Nothing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={value}"

        def define_from_variant(self, name, variant):
            assert any(n == "variant" and w[0] == variant for n, w, _ in said), variant
            return f"-D{name}=from {variant}"

    module = types.ModuleType("spack.package")
    for name in ("license", "version", "variant", "depends_on", "when"):
        setattr(module, name, directive(name))
    module.CMakePackage = CMakePackage
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", module)
    scope = {}
    exec(compile((SCRIPTS / "spack/package.py").read_text(), "package.py", "exec"), scope)
    return scope["Busbar"]


def test_the_recipe_asks_for_what_cmake_asks_for(monkeypatch):
    said = []
    recipe = read_recipe(monkeypatch, said)()
    recipe.spec = types.SimpleNamespace(variants={"cuda_arch": types.SimpleNamespace(value=("90",))})
    cmake = (ROOT / "CMakeLists.txt").read_text()
    options = re.findall(r"-D(\w+)=", " ".join(recipe.cmake_args()))
    assert "BUSBAR_GPU" in options and all(o in cmake or o == "CMAKE_CUDA_ARCHITECTURES" for o in options)
    depends = " ".join(w[0] for n, w, _ in said if n == "depends_on")
    assert re.search(r"cmake_minimum_required\(VERSION (\S+)\)", cmake)[1] in depends
    assert re.search(r"find_package\(NCCL (\S+) ", cmake)[1] in depends
    assert "Apache-2.0" in [w[0] for n, w, _ in said if n == "license"]


def test_the_recipe_is_in_spacks_style(monkeypatch):
    """What `spack audit packages` and `spack style` ask of a recipe, as far as it can be asked without Spack: a variant has a description
    and a default among its values, when= names variants of the package, lines end by column 99."""
    said = []
    read_recipe(monkeypatch, said)
    variants = {w[0]: more for n, w, more in said if n == "variant"}
    assert variants and all(v["description"] and v["default"] in v.get("values", (True, False)) for v in variants.values())
    conditions = [more["when"] for _, _, more in said if "when" in more] + [w[0] for n, w, _ in said if n == "when"]
    assert conditions and all(c.lstrip("+~") in variants for c in conditions)
    assert max(map(len, (SCRIPTS / "spack/package.py").read_text().splitlines())) <= 99


def test_the_container_has_what_hadolint_asks_for():
    need("hadolint")
    done = run("hadolint", SCRIPTS / "Containerfile")
    assert (done.returncode, done.stdout) == (0, "")
