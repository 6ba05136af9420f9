"""Real NCCL beside its headers, without a GPU: the oldest that busbar supports, the one it is built with, and the newest of
the package index (fetched by real_nccl.sh). Every function, constant, struct and variable that busbar and its stand-ins use
must be there and mean the same; functions that need no GPU are called.
"""
import ctypes
import functools
import json
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import BUILD, ROOT

FETCHED = ROOT / "build/real_nccl"
VERSIONS = ("oldest", "built", "newest")
PRODUCT = {p: p.read_text() for room in ("bootstrap", "cuda", "collectives", "proxies") for p in (ROOT / room).rglob("*.[ch]")}
STAND_INS = {p: p.read_text() for p in (ROOT / "tests/emulator/nccl").glob("*.[ch]") if not p.name.startswith("test_")}
NEWER = PRODUCT[ROOT / "bootstrap/world/nccl_newer.h"]


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def kind_of(parameter):
    """What the calling convention sees: "const void* sendbuff" -> "pointer", "size_t count" -> "size_t"."""
    words = re.sub(r"\b(const|extern|typedef)\b", "", parameter).replace("*", " * ").split()
    return "pointer" if "*" in words or words[0] in ("ncclComm_t", "ncclWindow_t", "cudaStream_t") else words[0]


def prototypes_in(text, name=r"\bp?nccl[A-Z]\w+"):
    """Kinds of the result and of all parameters of every function or function type."""
    found = re.findall(rf"(\w[\w \*]*?)\s*({name})\s*\(([^()]*)\)\s*;", text)
    return {name: (kind_of(result), *map(kind_of, (parameters.strip() or "void").split(","))) for result, name, parameters in found}


class Nccl:
    """One NCCL: its header and its library."""

    def __init__(self, include, library):
        self.include, self.library = pathlib.Path(include), pathlib.Path(library).resolve()
        self.text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (self.include / "nccl.h").read_text(), flags=re.S)
        self.prototypes = prototypes_in(self.text)
        self.handle = ctypes.CDLL(str(self.library))
        self.handle.ncclGetErrorString.restype = self.handle.ncclGetLastError.restype = ctypes.c_char_p

    def has(self, symbol):
        return hasattr(self.handle, symbol)

    def enumerators(self):
        bodies = re.findall(r"enum\s*\w*\s*\{(.*?)\}", self.text, re.S)
        return {name for body in bodies for name in re.findall(r"\b(nccl\w+)\s*(?:=|,|\s*$)", body, re.M)}

    def members(self, struct):
        body = re.search(rf"\{{([^}}]*)\}}\s*{struct};", self.text, re.S)
        return re.findall(r"(\w+)(?:\[\w+\])?\s*;", body.group(1)) if body else []

    @functools.cached_property
    def facts(self):
        """Constants, offsets and sizes as a compiler sees them with this header."""
        wanted = [*sorted(self.enumerators()), "NCCL_UNIQUE_ID_BYTES", "sizeof(ncclUniqueId)", "NCCL_VERSION_CODE"]
        for struct in ("ncclConfig_t", "ncclSimInfo_t"):
            wanted += [f"offsetof({struct}, {member})" for member in self.members(struct)]
        for macro in ("NCCL_SPLIT_NOCOLOR", "NCCL_CONFIG_UNDEF_INT", "NCCL_WIN_COLL_SYMMETRIC", "NCCL_SHRINK_DEFAULT"):
            wanted += [macro] if f"define {macro} " in self.text else []
        lines = [f'    printf("%s=%lld\\n", "{name}", (long long)({name}));' for name in wanted]
        source = ["#include <nccl.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void)", "{",
                  "    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;", '    printf("magic=%u\\n", config.magic);', *lines, "    return 0;", "}"]
        program = FETCHED / f"facts-{self.include.parent.name}-{BUILD.name}"
        program.parent.mkdir(parents=True, exist_ok=True)
        _, command = next(commands(r"bootstrap/world/comms\.c$"))
        includes = [word for flag, word in zip(command, command[1:]) if flag == "-isystem"]
        # Older headers show bfloat16 only beside CUDA's header of it.
        subprocess.run(["cc", "-xc", "-", "-D__CUDA_BF16_TYPES_EXIST__", f"-I{self.include}", *(f"-I{folder}" for folder in includes), "-o", program],
                       input="\n".join(source), text=True, check=True, timeout=60)
        said = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
        program.unlink()
        return {name: int(value) for name, value in (line.rsplit("=", 1) for line in said.splitlines())}

    @functools.cached_property
    def strings(self):
        return {text.decode() for text in re.findall(rb"[A-Za-z0-9_]{5,60}(?=\0)", self.library.read_bytes())}


def commands(pattern):
    """(file, words) of each compilation of the build whose file matches."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if re.search(pattern, entry["file"]):
            yield pathlib.Path(entry["file"]), shlex.split(entry["command"])


@functools.cache
def load(version):
    if version == "built":
        return Nccl(cached("NCCL_INCLUDE_DIR"), cached("NCCL_LIBRARY"))
    folder = FETCHED / f"nccl-{version}"
    if not (folder / "wheel").exists():
        pytest.skip(f"the {version} NCCL was not fetched (tests/cli/real_nccl.sh)")
    return Nccl(folder / "include", folder / "lib/libnccl.so.2")


@pytest.fixture(params=VERSIONS)
def nccl(request):
    return load(request.param)


def used_by(sources):
    return set(re.findall(r"\bnccl[A-Z]\w*", re.sub(r"/\*.*?\*/", "", "".join(sources.values()), flags=re.S)))


def linked_symbols():
    """What the GPU library cannot start without."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", BUILD / "libbusbar-gpu.so"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\bnccl[A-Z]\w*", listed))


def test_library_and_header_are_of_one_version(nccl):
    version = ctypes.c_int()
    assert nccl.handle.ncclGetVersion(ctypes.byref(version)) == 0
    assert version.value == nccl.facts["NCCL_VERSION_CODE"] >= 21900


def test_functions_that_the_program_is_linked_with_are_there(nccl):
    linked = linked_symbols()
    assert {"ncclCommInitRankConfig", "ncclAllReduce", "ncclMemAlloc"} <= linked
    assert [name for name in linked if not nccl.has(name)] == []


def test_functions_looked_up_have_the_types_that_are_written_down(nccl):
    ours = {name.removesuffix("_fn"): kinds for name, kinds in prototypes_in(NEWER, r"nccl\w+_fn").items()}
    asked = set(re.findall(r'bb_nccl_symbol\(\s*"(nccl\w+)"', "".join(PRODUCT.values())))
    assert asked and asked <= set(ours)
    for name, kinds in ours.items():
        assert nccl.has(name) == (name in nccl.prototypes), name
        if nccl.has(name):
            assert tuple("pointer" if k.startswith("ncclConfig") else k for k in kinds) == tuple(nccl.prototypes[name]), name


def test_newest_has_all_that_is_looked_up():
    for name in re.findall(r"(nccl\w+)_fn", NEWER):
        assert load("built").has(name) and load("newest").has(name), name


def test_every_function_keeps_its_type(nccl):
    built = load("built").prototypes
    shared = set(built) & set(nccl.prototypes)
    assert len(shared) > 30
    assert {n: nccl.prototypes[n] for n in shared if nccl.prototypes[n] != built[n]} == {}


def test_constants_and_layouts_are_those_of_the_build(nccl):
    """A program built with one header meets the library of another: names that both have mean the same."""
    built = load("built").facts
    counts = r"nccl(Num\w+|\w*_count|MaxRedOp)$|^NCCL_VERSION_CODE|^ncclNumOps"
    shared = {name for name in set(built) & set(nccl.facts) if not re.search(counts, name)}
    assert {"ncclFloat32", "ncclSum", "ncclInProgress", "magic", "offsetof(ncclConfig_t, blocking)", "sizeof(ncclUniqueId)"} <= shared
    assert {n: (built[n], nccl.facts[n]) for n in shared if built[n] != nccl.facts[n]} == {}


def test_symmetric_windows_have_the_flag_that_is_passed():
    ours = int(re.search(r"BB_NCCL_WIN_COLL_SYMMETRIC = (\d+)", NEWER).group(1))
    assert [load(version).facts["NCCL_WIN_COLL_SYMMETRIC"] for version in ("built", "newest")] == [ours, ours]


def test_names_in_the_sources_are_in_the_header_they_are_built_with():
    built = load("built")
    known = set(re.findall(r"\bnccl\w+", built.text))
    own = r"_fn$|^nccl(Profiler|TunerPlugin)_v\d$"
    assert sorted(n for n in used_by(PRODUCT) if n not in known and not re.search(own, n)) == []


def test_stand_ins_define_what_the_real_library_has():
    """The emulated library may not offer a function that the real one of the same header does not."""
    listed = subprocess.run(["nm", "-D", "--defined-only", BUILD / "emulator/libnccl.so.2"], capture_output=True, text=True, check=True).stdout
    defined = set(re.findall(r"\bnccl[A-Z]\w*", listed)) - {n for n in re.findall(r"\bnccl\w+", listed) if "_v" in n}
    assert linked_symbols() <= defined
    assert [name for name in defined if not load("built").has(name)] == []


@pytest.mark.parametrize("version", ["oldest", "newest"])
def test_sources_compile_with_other_headers(version):
    """The product with the oldest and the newest; the stand-ins, which need 2.28, with the newest."""
    nccl = load(version)
    sources = {p for p, text in {**PRODUCT, **(STAND_INS if version == "newest" else {})}.items() if re.search(r"\bnccl[A-Z]", text)}
    tried = set()
    for path, words in commands(r"\.c$"):
        if path not in sources or path in tried:
            continue
        tried.add(path)
        kept = [w for w in words[:words.index("-o")] if version == "newest" or not w.startswith("-DBB_NCCL_HAS")]
        kept += words[words.index("-o") + 2:]
        done = subprocess.run([kept[0], f"-I{nccl.include}", "-fsyntax-only", *kept[1:]], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert len(tried) > 10


# Variables that busbar sets or asks, and the NCCL that has them first.
SINCE = {"NCCL_MULTI_RANK_GPU_ENABLE": 23003, "NCCL_RAS_ENABLE": 22400, "NCCL_PROFILER_PLUGIN": 22300, "NCCL_MNNVL_ENABLE": 22100,
         "NCCL_P2P_MAX_PEERS": 23000, "NCCL_RUNTIME_CONNECT": 22200, "NCCL_HOSTID": 0, "NCCL_CUMEM_HOST_ENABLE": 22300}
# Variables of nccl-tests.
OTHERS = r"NCCL_TESTS|NCCL_WHEELS"


def test_variables_that_are_set_are_read_by_the_library(nccl):
    table = ROOT / "bootstrap/base/environment.c"  # names that others may have set
    texts = "".join(text for path, text in PRODUCT.items() if path != table)
    named = {n for n in re.findall(r'"(NCCL_[A-Z0-9_]+)"', texts) if not re.match(OTHERS, n)}
    assert "NCCL_MAX_CTAS" in named
    # NCCL's own parameters stand in it without the prefix.
    read = {n for n in named if n in nccl.strings or n.removeprefix("NCCL_") in nccl.strings}
    version = nccl.facts["NCCL_VERSION_CODE"]
    assert sorted(n for n in named - read if SINCE.get(n, 0) <= version) == []
    assert sorted(n for n in read if SINCE.get(n, 0) > version) == []


def test_plugins_are_asked_for_by_these_names(nccl):
    exported = subprocess.run(["nm", "-D", "--defined-only", BUILD / "busbar"], capture_output=True, text=True, check=True).stdout
    exported += subprocess.run(["nm", "-D", "--defined-only", BUILD / "libbusbar-gpu.so"], capture_output=True, text=True, check=True).stdout
    ours = set(re.findall(r"\bnccl(?:Profiler|TunerPlugin)_v\d", exported))
    asked = {name for name in ours if name in nccl.strings}
    if nccl.facts["NCCL_VERSION_CODE"] < 22700:
        assert asked == set()
    else:
        wanted = 6 if nccl.facts["NCCL_VERSION_CODE"] >= 23000 else 5
        assert {f"ncclProfiler_v{wanted}", f"ncclTunerPlugin_v{wanted}"} <= asked
        assert "STATIC_PLUGIN" in nccl.strings


def test_calls_that_need_no_gpu(nccl):
    """An id that is not empty, words for every result, refusal of a communicator that is none, empty groups."""
    first, second = ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)
    assert nccl.handle.ncclGetUniqueId(first) == nccl.handle.ncclGetUniqueId(second) == 0
    assert first.raw != bytes(128) and first.raw != second.raw
    assert nccl.handle.ncclGroupStart() == nccl.handle.ncclGroupEnd() == 0
    refused = nccl.handle.ncclAllReduce(None, None, ctypes.c_size_t(1), nccl.facts["ncclFloat32"], nccl.facts["ncclSum"], None, None)
    assert refused == nccl.facts["ncclInvalidArgument"]
    assert nccl.handle.ncclGetLastError(None)


def test_stand_in_says_what_the_real_library_says():
    built = load("built")
    emulated = ("import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); n.ncclGetErrorString.restype = ctypes.c_char_p;"
                "print(*(n.ncclGetErrorString(i).decode() for i in range(9)), sep='\\n')")
    done = subprocess.run(["python3", "-c", emulated, BUILD / "emulator/libnccl.so.2"], capture_output=True, text=True, timeout=60,
                          env={"LD_LIBRARY_PATH": str(BUILD / "emulator"), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    real = [built.handle.ncclGetErrorString(i).decode() for i in range(9)]
    for ours, theirs in zip(done.stdout.splitlines(), real, strict=True):
        assert ours and theirs.startswith(ours)
