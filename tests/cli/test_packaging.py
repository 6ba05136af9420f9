"""Installation and packages. Manual pages and shell completion contain the same options as the option tables."""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import types

import pytest

from conftest import ROOT
from test_rank_program import empty_paths, is_elf

SCRIPTS = ROOT / "cmake" / "packaging"
PAGES = {"busbar": (), "busbar-bench": ("bench",), "busbar-bench-p2p": ("bench", "p2p"), "busbar-bench-comm": ("bench", "comm"),
         "busbar-bench-overlap": ("bench", "overlap"), "busbar-bench-compute": ("bench", "compute"),
         "busbar-bench-copy": ("bench", "copy"), "busbar-bench-rails": ("bench", "rails"), "busbar-proxy": ("proxy",),
         "busbar-health": ("health",), "busbar-plan": ("plan",), "busbar-compare": ("compare",), "busbar-sweep": ("sweep",),
         "busbar-calibrate": ("calibrate",), "busbar-report": ("report",), "busbar-list": ("list",)}
# The exit statuses of each command (README.md, Exit status).
EXITS = {"busbar": "012345", "busbar-bench": "012345", "busbar-bench-p2p": "012345", "busbar-bench-comm": "01234",
         "busbar-bench-overlap": "01234", "busbar-bench-compute": "012345", "busbar-bench-copy": "012345",
         "busbar-bench-rails": "012345", "busbar-proxy": "01234", "busbar-health": "012345", "busbar-plan": "0125",
         "busbar-compare": "0125", "busbar-sweep": "0125", "busbar-calibrate": "012", "busbar-report": "012", "busbar-list": "012"}


def run(*args, **kwargs):
    return subprocess.run([str(w) for w in args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **kwargs)


def need(program):
    if not shutil.which(program):
        pytest.skip(f"no {program} on this machine")


@pytest.fixture(scope="module")
def installed(busbar, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    prefix.chmod(0o700)
    assert run("cmake", "--install", busbar.build, "--prefix", prefix, umask=0o077).returncode == 0
    return prefix


# ---- manual pages ----


def test_every_command_and_mode_has_a_manual_page(installed):
    pages = {p.stem for p in (installed / "share/man/man1").iterdir()}
    assert pages == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_manual_page_has_the_options_of_help(busbar, installed, page):
    text = (installed / "share/man/man1" / f"{page}.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"(?m)^ {2,6}(?:-\w, )?--([\w-]+)", run(busbar.build / "busbar", *PAGES[page], "--help").stdout)) - {"help"}
    assert options or not page.removeprefix("busbar")
    assert options == set(re.findall(r"(?m)^\.B (?:-\w, )?--([\w-]+)", text))


@pytest.mark.parametrize("page", PAGES)
def test_manual_page_is_valid_roff(installed, page):
    need("groff")
    done = run("groff", "-ww", "-man", "-Tascii", "-P-bcu", installed / "share/man/man1" / f"{page}.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "NAME" in done.stdout and "SYNOPSIS" in done.stdout


def section_of(page, title):
    return re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH|\Z)", page, re.M | re.S).group(1).replace("\\-", "-")


@pytest.mark.parametrize("name", PAGES)
def test_manual_page_has_the_usual_sections(busbar, installed, name):
    page = (installed / "share/man/man1" / f"{name}.1").read_text()
    assert re.findall(r"^\.SH (.*)", page, re.M)[-5:] == ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"]
    statuses = section_of(page, "EXIT STATUS")
    assert re.findall(r"^\.B (\d)$", statuses, re.M) == list(EXITS[name])
    if name != "busbar":
        options = run(busbar.build / "busbar", *PAGES[name], "--help").stdout
        printed = " ".join(options.partition("\nExit status: ")[2].split())
        assert printed == ", ".join(f"{number} {text}" for number, text in re.findall(r"^\.B (\d)\n(.*)", statuses, re.M))
        if name != "busbar-sweep":  # status 5 is that of its runs, not of an option
            assert ("5" in EXITS[name]) == bool(re.search(r"exit\s+(?:with\s+status\s+)?5|must-fit", options.partition("\nExit status")[0]))
    for reference in re.findall(r"\.BR (busbar\S*) \(1\)", section_of(page, "SEE ALSO")):
        assert reference in PAGES
    for path in re.findall(r"^\.B (\S+)", section_of(page, "FILES"), re.M):
        assert (installed / path).exists(), path


def test_examples_of_manual_pages_are_valid(busbar, installed, tmp_path):
    """plan and list run; a study with all commands of bench and proxy is accepted."""
    pages = {name: section_of((installed / "share/man/man1" / f"{name}.1").read_text(), "EXAMPLES") for name in PAGES}
    commands = [line.split("busbar ", 1)[1].split() for text in pages.values() for line in text.splitlines() if line.startswith("  ")]
    assert {"bench", "proxy", "health", "plan", "compare", "calibrate", "sweep", "report", "list"} == {args[0] for args in commands}
    cases = [{"name": str(i), "command": [w for w in args if not w.endswith("fabric.json") and w != "--json"]}
             for i, args in enumerate(commands) if args[0] in ("bench", "proxy")]
    (tmp_path / "cases.json").write_text(json.dumps({"command": "bench all_reduce", "ranks": 8, "cases": cases}))
    listed = run(busbar.build / "busbar", "sweep", "cases.json", "--list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    for args in commands:
        if args[0] in ("plan", "list") and "./mine.json" not in args:
            few = ["--tp", "8", "--cp", "1", "--schedule", "1f1b"] if "--best-layout" in args else []  # a small part of the space
            done = run(busbar.build / "busbar", *args, *few, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        options = run(busbar.build / "busbar", args[0], "--help").stdout
        assert args[0] == "bench" or all(word.split("=")[0] in options for word in args if word.startswith("--")), args


# ---- completion: (the command line so far, candidates that are offered, words that are not offered) ----
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
    ("busbar sweep ", {path.stem for path in (ROOT / "profiles/studies").glob("*.json")}, {"bench"}),
    ("busbar nonsense ", set(), {"bench"}),
]


def last_part(word):
    """bash and fish may offer the whole word or only the part after the equals sign."""
    return word if word.endswith("=") else word.rpartition("=")[2]


def offers(shell, line, path):
    if shell == "fish":
        done = run("fish", "--no-config", "-c", f"source {SCRIPTS}/busbar.fish; complete -C '{line}'", env={"PATH": path, "HOME": "/"})
        return {last_part(w.split("\t")[0]) for w in done.stdout.splitlines()}
    script = f"""source {SCRIPTS}/busbar.bash; COMP_LINE='{line}' COMP_POINT={len(line)} COMP_WORDBREAKS=$' \\t\\n='
compopt() {{ :; }}; _busbar; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return {last_part(w) for w in run("bash", "--norc", "-c", script, env={"PATH": path}).stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_completion_offers_candidates(busbar, shell):
    need(shell)
    for line, expected, unexpected in OFFERS:
        candidates = offers(shell, line, f"{busbar.build}:/usr/bin:/bin")
        assert expected <= candidates and not unexpected & candidates, line


def test_zsh_loads_its_completion_script(busbar):
    need("zsh")
    done = run("zsh", "-f", "-c", f"autoload -Uz compinit; compinit -D -u; functions[_busbar]=$(<{SCRIPTS}/busbar.zsh); whence -w _busbar")
    assert done.stdout.strip() == "_busbar: function", done.stderr


# ---- installed files ----


def test_all_users_can_read_an_installation_with_umask_077(installed):
    """A folder that existed keeps its mode."""
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in installed.rglob("*")}
    assert modes == {(True, 0o755), (False, 0o644), (False, 0o755)} and installed.stat().st_mode & 0o777 == 0o700


def test_files_named_in_the_readme_are_installed(installed):
    emulator = {"busbar-twins.so", "emu-hosts.so", "libcudart.so", "libcublasLt.so", "libnccl.so"}
    assert emulator <= {re.sub(r"\.so\..*", ".so", p.name) for p in (installed / "lib/busbar/emulator").iterdir()}
    assert files_of(installed) >= {"share/doc/busbar/README.md", "share/doc/busbar/LICENSE", "share/doc/busbar/CHANGES.md", "share/busbar/mpi.sh",
                        "share/doc/busbar/bootstrap/results/README.md", "share/busbar/profiles/studies/scaling.json",
                        "share/busbar/profiles/nsys/slurm.sh", "share/busbar/profiles/clusters/h100-sxm-ib.json", "bin/busbar",
                        "share/busbar/profiles/schemas/busbar.bench-1.json", "share/busbar/profiles/report/report.py",
                        "bin/busbar-emulated", "bin/all_reduce_perf", "share/man/man1/busbar.1",
                        "share/bash-completion/completions/busbar", "share/zsh/site-functions/_busbar",
                        "share/fish/vendor_completions.d/busbar.fish", "lib/busbar/busbar-rank"}
    links = re.findall(r"\]\(([^)#:]+)\)", (installed / "share/doc/busbar/README.md").read_text())
    for link in links:
        if link.endswith("README.md"):
            assert (installed / "share/doc/busbar" / link).is_file(), link


def test_installed_report_finds_its_script(busbar, installed, tmp_path):
    """report uses the Python of the PATH. It writes the page, or prints that plotly is missing."""
    (tmp_path / "r.json").write_text('{"schema": "busbar.bench/1", "command": ["bench"], "results": []}')
    path = f"{busbar.build}/python/bin:{os.environ['PATH']}"
    done = run(installed / "bin" / "busbar", "report", tmp_path / "r.json", "-o", tmp_path / "r.html", env={**os.environ, "PATH": path})
    assert done.returncode == 0 or "needs the Python package plotly" in done.stderr, done.stderr
    assert (tmp_path / "r.html").exists() == (done.returncode == 0)


def test_installed_emulated_gpus_run(busbar, installed):
    programs = ((installed / "bin" / "busbar-emulated", "bench", "all_reduce"), (installed / "lib/busbar/emulated/all_reduce_perf", "-g", "2"))
    for program in programs:
        done = run(*program, "-b", "8", "-e", "8", env=busbar.environment())
        assert done.returncode == 0, done.stderr
        assert "Emulated GPU" in done.stdout and re.search("row verified|# Out of bounds values : 0 OK", done.stdout)


def files_of(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink()}


def test_installed_programs_search_no_libraries_in_the_current_folder(installed):
    """cmake --install may rewrite the search path of a file and leave an empty entry."""
    files = [path for path in installed.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)]
    assert {"busbar", "busbar-rank", "busbar-twins.so", "emu-hosts.so"} <= {path.name for path in files}
    assert [str(path) for path in files if empty_paths(path)] == []


@pytest.mark.parametrize("foreign", [None, "share/man/man1/other.1"])
def test_uninstall_leaves_no_folder(busbar, tmp_path, foreign):
    """With the file of another program, this file and its folders remain."""
    prefix = tmp_path / "prefix"
    assert run("cmake", "--install", busbar.build, "--prefix", prefix).returncode == 0 and (prefix / "bin/busbar").exists()
    (tmp_path / "manifest").write_text("".join(f"{p}\n" for p in prefix.rglob("*") if p.is_symlink() or not p.is_dir()))  # as CMake's own
    if foreign:
        (prefix / foreign).write_text("")
    assert run("cmake", f"-DMANIFEST={tmp_path}/manifest", "-P", ROOT / "cmake/packaging/uninstall.cmake").returncode == 0
    assert {str(p.relative_to(prefix)) for p in prefix.rglob("*")} == ({foreign, "share/man/man1", "share/man", "share"} if foreign else set())
    assert prefix.exists() == bool(foreign)


def test_installation_fails_if_a_part_is_missing(busbar):
    """No part is optional: `cmake --install` prints which file was not built, instead of omitting it."""
    scripts = [path for path in busbar.build.rglob("cmake_install.cmake")]
    assert busbar.build / "cmake_install.cmake" in scripts
    assert [str(path) for path in scripts if re.search(r"\bOPTIONAL\b", path.read_text())] == []


def test_packages_contain_the_installed_files(busbar, installed, tmp_path):
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
        assert os.access(root / "lib/busbar/busbar-rank", os.X_OK)
        assert files_of(root) == files_of(installed)


def test_containerfile_names_existing_scripts():
    text = (SCRIPTS / "Containerfile").read_text()
    steps = re.findall(r"(?m)^(FROM|COPY|RUN|WORKDIR|ENV|CMD) ", text)
    assert steps[0] == "FROM" and steps[-1] == "CMD"
    for script in re.findall(r"\bsh (\S+\.sh)", text):
        assert (ROOT / script).is_file(), script
    exported = dict(re.findall(r"(OMPI_\w+)=(\S+)", text))
    assert exported and all(f"{name}={value}" in (ROOT / "bootstrap/mpi.sh").read_text() for name, value in exported.items())


# ---- the Spack recipe, executed with stubs of Spack's directives ----


def read_recipe(monkeypatch, directives):
    def directive(name):
        return lambda *args, **kwargs: directives.append((name, args, kwargs)) or _Nothing()

    class _Nothing:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    class CMakePackage:
        def define(self, name, value):
            return f"-D{name}={value}"

        def define_from_variant(self, name, variant):
            assert any(n == "variant" and w[0] == variant for n, w, _ in directives), variant
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


def test_spack_recipe_requires_the_same_versions_as_cmake(monkeypatch):
    directives = []
    recipe = read_recipe(monkeypatch, directives)()
    recipe.spec = types.SimpleNamespace(variants={"cuda_arch": types.SimpleNamespace(value=("90",))})
    cmake = (ROOT / "CMakeLists.txt").read_text()
    options = re.findall(r"-D(\w+)=", " ".join(recipe.cmake_args()))
    assert "BUSBAR_GPU" in options and all(o in cmake or o == "CMAKE_CUDA_ARCHITECTURES" for o in options)
    depends = " ".join(w[0] for n, w, _ in directives if n == "depends_on")
    assert re.search(r"cmake_minimum_required\(VERSION (\S+)\)", cmake)[1] in depends
    assert re.search(r"find_package\(NCCL (\S+) ", cmake)[1] in depends
    assert "Apache-2.0" in [w[0] for n, w, _ in directives if n == "license"]


def test_spack_recipe_follows_spack_style(monkeypatch):
    """The rules of `spack audit packages` and `spack style` that can be checked without Spack: each variant has a description and a default
    among its values, when= names variants of the package, and lines have at most 99 columns."""
    directives = []
    read_recipe(monkeypatch, directives)
    variants = {w[0]: kwargs for n, w, kwargs in directives if n == "variant"}
    assert variants and all(v["description"] and v["default"] in v.get("values", (True, False)) for v in variants.values())
    conditions = [kwargs["when"] for _, _, kwargs in directives if "when" in kwargs] + [w[0] for n, w, _ in directives if n == "when"]
    assert conditions and all(c.lstrip("+~") in variants for c in conditions)
    assert max(map(len, (SCRIPTS / "spack/package.py").read_text().splitlines())) <= 99


def test_containerfile_passes_hadolint():
    need("hadolint")
    done = run("hadolint", SCRIPTS / "Containerfile")
    assert (done.returncode, done.stdout) == (0, "")
