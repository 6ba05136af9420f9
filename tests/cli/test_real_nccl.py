"""Real NCCL libraries and their headers, without a GPU: the oldest supported version, the version of the build, and the newest version of
the package index (both fetched by real_nccl.sh). Every function, constant, struct and environment variable that busbar and its emulated
libraries use must exist and must have the same meaning. Functions that need no GPU are called.
"""
import ctypes
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

from conftest import BUILD, ROOT

FETCHED = ROOT / "build/real_nccl"
VERSIONS = ("oldest", "built", "newest")
SOURCES = {p: p.read_text() for folder in ("bootstrap", "cuda", "collectives", "proxies") for p in (ROOT / folder).rglob("*.[ch]")}
EMULATED_SOURCES = {p: p.read_text() for p in (ROOT / "tests/emulator/nccl").glob("*.[ch]") if not p.name.startswith("test_")}
OPTIONAL_API = SOURCES[ROOT / "bootstrap/world/nccl_newer.h"]


def cached(name):
    found = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found.group(1) if found else ""


def nccl_header():
    """Version of the header with which the build was made."""
    code = dict(re.findall(r"#define NCCL_(MAJOR|MINOR|PATCH) +(\d+)", pathlib.Path(cached("NCCL_INCLUDE_DIR"), "nccl.h").read_text()))
    return int(code["MAJOR"]), int(code["MINOR"]), int(code["PATCH"])


def type_class(parameter):
    """Type class of a parameter in the calling convention: "const void* sendbuff" -> "pointer", "size_t count" -> "size_t"."""
    words = re.sub(r"\b(const|extern|typedef|NCCL_EXTERN_C|__host__)\b", "", parameter).replace("*", " * ").split()
    return "pointer" if "*" in words or words[0] in ("ncclComm_t", "ncclWindow_t", "cudaStream_t") else words[0]


def prototypes_in(text, name=r"\bp?nccl[A-Z]\w+"):
    """Type classes of the result and of all parameters of every function or function type."""
    found = re.findall(rf"(\w[\w \*]*?)\s*({name})\s*\(([^()]*)\)\s*;", text)
    return {name: (type_class(result), *map(type_class, (parameters.strip() or "void").split(","))) for result, name, parameters in found}


class Nccl:
    """An NCCL version: header and library."""

    def __init__(self, include, library):
        self.include, self.library = pathlib.Path(include), pathlib.Path(library).resolve()
        self.text = re.sub(r"/\*.*?\*/|//[^\n]*", "", (self.include / "nccl.h").read_text(), flags=re.S)
        self.device_text = "".join(path.read_text() for path in (self.include / "nccl_device").glob("*.h"))
        of_host = r"\bnccl(?:DevComm(?:Create|Destroy)|CommQueryProperties)\b"  # nccl_device.h declares these for the host
        self.prototypes = {**prototypes_in(self.text), **prototypes_in(self.device_text, of_host)}
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
        """Constants, offsets and sizes, from a C program that is compiled with this header."""
        wanted = [*sorted(self.enumerators()), "NCCL_UNIQUE_ID_BYTES", "sizeof(ncclUniqueId)", "NCCL_VERSION_CODE"]
        for struct in ("ncclConfig_t", "ncclSimInfo_t", "ncclCollConfig_t"):
            wanted += [f"offsetof({struct}, {member})" for member in self.members(struct)]
        for macro in ("NCCL_SPLIT_NOCOLOR", "NCCL_CONFIG_UNDEF_INT", "NCCL_WIN_COLL_SYMMETRIC", "NCCL_SHRINK_DEFAULT"):
            wanted += [macro] if f"define {macro} " in self.text else []
        lines = [f'    printf("%s=%lld\\n", "{name}", (long long)({name}));' for name in wanted]
        source = ["#include <nccl.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void)", "{",
                  "    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;", '    printf("magic=%u\\n", config.magic);', *lines,
                  "    return 0;", "}"]
        program = FETCHED / f"facts-{self.include.parent.name}-{BUILD.name}-{os.getpid()}"  # tests run in several processes
        program.parent.mkdir(parents=True, exist_ok=True)
        _, command = next(commands(r"bootstrap/world/comms\.c$"))
        includes = [word for flag, word in zip(command, command[1:]) if flag == "-isystem"]
        # Older headers define ncclBfloat16 only if CUDA's bfloat16 header is included. The macro of that header replaces the include.
        flags = ["-D__CUDA_BF16_TYPES_EXIST__", f"-I{self.include}", *(f"-I{folder}" for folder in includes)]
        subprocess.run(["cc", "-xc", "-", *flags, "-o", program], input="\n".join(source), text=True, check=True, timeout=60)
        output = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
        program.unlink()
        return {name: int(value) for name, value in (line.rsplit("=", 1) for line in output.splitlines())}

    @functools.cached_property
    def strings(self):
        """The words at the ends of the strings of the sections without code: device code is nearly all of the file."""
        listed = subprocess.run(["readelf", "-SW", self.library], capture_output=True, text=True, check=True).stdout
        parts = re.findall(r" \.(?:rodata|data|debug_str|strtab) +\w+ +\w+ (\w+) (\w+)", listed)
        assert len(parts) > 1
        data = self.library.read_bytes()
        parts = [data[int(offset, 16):int(offset, 16) + int(size, 16)] for offset, size in parts]
        return {text.decode() for part in parts for text in re.findall(rb"[A-Za-z0-9_]{5,60}(?=\0)", part)}


def commands(pattern):
    """(file, command line as a list) of each entry of compile_commands.json whose file matches the pattern."""
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
    """Undefined NCCL symbols of busbar-rank."""
    listed = subprocess.run(["nm", "-D", "--undefined-only", BUILD / "busbar-rank"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\bnccl[A-Z]\w*", listed))


def test_library_and_header_have_the_same_version(nccl):
    version = ctypes.c_int()
    assert nccl.handle.ncclGetVersion(ctypes.byref(version)) == 0
    assert version.value == nccl.facts["NCCL_VERSION_CODE"] >= 21900


def test_linked_functions_exist(nccl):
    linked = linked_symbols()
    assert {"ncclCommInitRankConfig", "ncclAllReduce", "ncclMemAlloc"} <= linked
    assert [name for name in linked if not nccl.has(name)] == []


def test_functions_loaded_at_run_time_have_the_declared_types(nccl):
    ours = {name.removesuffix("_fn"): types for name, types in prototypes_in(OPTIONAL_API, r"nccl\w+_fn").items()}
    requested = set(re.findall(r'bb_nccl_symbol\(\s*"(nccl\w+)"', "".join(SOURCES.values())))
    assert requested and requested <= set(ours)
    for name, types in ours.items():
        assert nccl.has(name) == (name in nccl.prototypes), name
        if nccl.has(name):
            assert tuple("pointer" if k.startswith("ncclConfig") else k for k in types) == tuple(nccl.prototypes[name]), name


def test_newest_library_has_all_functions_loaded_at_run_time():
    for name in re.findall(r"(nccl\w+)_fn", OPTIONAL_API):
        assert (load("built").has(name) or name.endswith(("Config", "Properties"))) and load("newest").has(name), name


def test_configuration_of_a_call_matches_the_newest_header():
    """busbar's struct is that of NCCL 2.31, to which later versions append members. The library knows each name of a selection."""
    members = ["size", "magic", "version", "ext", "minCTAs", "maxCTAs", "nvlsCTAs", "cgaClusterSize", "algSelection", "forceAlgSelection",
               "CTAPolicy", "userProfilerTag"]
    newest = load("newest")
    assert newest.members("ncclCollConfig_t")[:len(members)] == members
    body = re.search(r"struct bb_nccl_coll_config \{(.*?)\};", re.sub(r"/\*.*?\*/", "", OPTIONAL_API), re.S).group(1)
    own = [name for line in body.split(";") for name in re.findall(r"(\w+)(?=,|$)", line.strip())]
    assert len(own) == len(members)
    offsets = [newest.facts[f"offsetof(ncclCollConfig_t, {member})"] for member in members]
    assert offsets == [0, 8, 12, 16, 24, 28, 32, 36, 40, 48, 52, 56]
    names = {"RING_SIMPLE", "RING_LL", "RING_LL128", "TREE_LL", "TREE_LL128", "NVLS_SIMPLE", "NVLSTREE_SIMPLE",
               "PAT_SIMPLE", "COLLNET_DIRECT_SIMPLE", "COLLNET_CHAIN_SIMPLE"}
    assert sorted(name for name in names if name not in newest.strings) == []


def test_properties_of_a_communicator_match_the_newest_header():
    """busbar's struct is that of NCCL 2.29, to which later versions append members."""
    def names(text, begin):
        body = re.sub(r"/\*.*?\*/|//[^\n]*", "", text[text.index(begin):].split("{", 1)[1].split("}", 1)[0], flags=re.S)
        return [name for line in body.split(";") for name in re.findall(r"(\w+)(?=,|$)", line.strip())]
    own, newest = names(OPTIONAL_API, "struct bb_nccl_properties {"), load("newest")
    assert len(own) == 13 and names(newest.device_text + newest.text, "struct ncclCommProperties {")[:13] == own


def test_function_types_match_those_of_the_build(nccl):
    built = load("built").prototypes
    shared = set(built) & set(nccl.prototypes)
    assert len(shared) > 30
    assert {n: nccl.prototypes[n] for n in shared if nccl.prototypes[n] != built[n]} == {}


def test_constants_and_struct_layouts_match_those_of_the_build(nccl):
    """A program may be built with one NCCL version and run with another, so names in both headers must have equal values and offsets."""
    built = load("built").facts
    counts = r"nccl(Num\w+|\w*_count|MaxRedOp)$|^NCCL_VERSION_CODE|^ncclNumOps"
    shared = {name for name in set(built) & set(nccl.facts) if not re.search(counts, name)}
    assert {"ncclFloat32", "ncclSum", "ncclInProgress", "magic", "offsetof(ncclConfig_t, blocking)", "sizeof(ncclUniqueId)"} <= shared
    assert {n: (built[n], nccl.facts[n]) for n in shared if built[n] != nccl.facts[n]} == {}


def test_symmetric_window_flag_matches_the_header():
    ours = int(re.search(r"BB_NCCL_WIN_COLL_SYMMETRIC = (\d+)", OPTIONAL_API).group(1))
    assert [load(version).facts["NCCL_WIN_COLL_SYMMETRIC"] for version in ("built", "newest")] == [ours, ours]


def test_names_in_the_sources_exist_in_the_header():
    known = set(re.findall(r"\bnccl\w+", load("built").text + load("newest").text + load("newest").device_text))
    own = r"_fn$|^nccl(Profiler|TunerPlugin)_v\d$"
    assert sorted(n for n in used_by(SOURCES) if n not in known and not re.search(own, n)) == []


def test_emulated_library_defines_only_functions_of_the_real_library():
    """The emulated library must not define a function that the real library of the same version lacks."""
    listed = subprocess.run(["nm", "-D", "--defined-only", BUILD / "emulator/libnccl.so.2"], capture_output=True, text=True,
                            check=True).stdout
    defined = set(re.findall(r"\bnccl[A-Z]\w*", listed)) - {n for n in re.findall(r"\bnccl\w+", listed) if "_v" in n}
    assert linked_symbols() <= defined
    assert [name for name in defined if not load("built").has(name) and not (
        name.endswith(("Config", "Properties", "DevicePointer")) and load("newest").has(name))] == []


@pytest.mark.parametrize("version", ["oldest", "newest"])
def test_sources_compile_with_other_headers(version):
    """busbar compiles with the oldest and the newest header. The emulated libraries need NCCL 2.28 and compile with the newest header."""
    nccl = load(version)
    sources = {p for p, text in {**SOURCES, **(EMULATED_SOURCES if version == "newest" else {})}.items() if re.search(r"\bnccl[A-Z]", text)}
    tried = set()
    for path, command in commands(r"\.c$"):
        if path not in sources or path in tried:
            continue
        tried.add(path)
        kept = [w for w in command[:command.index("-o")] if version == "newest" or not w.startswith("-DBB_NCCL_HAS")]
        kept += command[command.index("-o") + 2:]
        done = subprocess.run([kept[0], f"-I{nccl.include}", "-fsyntax-only", *kept[1:]], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert len(tried) > 10


# Environment variables that busbar sets or reads, and the first NCCL version code with each of them.
SINCE = {"NCCL_MULTI_RANK_GPU_ENABLE": 23003, "NCCL_RAS_ENABLE": 22400, "NCCL_PROFILER_PLUGIN": 22300, "NCCL_MNNVL_ENABLE": 22100,
         "NCCL_P2P_MAX_PEERS": 23000, "NCCL_RUNTIME_CONNECT": 22200, "NCCL_HOSTID": 0, "NCCL_CUMEM_HOST_ENABLE": 22300,
         "NCCL_LAUNCH_ORDER_IMPLICIT": 22600, "NCCL_WIN_ENABLE": 22700, "NCCL_RAS_ADDR": 22400, "NCCL_WORK_FIFO_BYTES": 22200}
# Variables of nccl-tests.
OTHERS = r"NCCL_TESTS|NCCL_WHEELS"


def test_environment_variables_are_read_by_the_library(nccl):
    named = {n for n in re.findall(r'"(NCCL_[A-Z0-9_]+)"', "".join(SOURCES.values())) if not re.match(OTHERS, n)}
    assert "NCCL_MAX_CTAS" in named
    # The library contains the names of NCCL_PARAM parameters without the prefix NCCL_.
    read = {n for n in named if n in nccl.strings or n.removeprefix("NCCL_") in nccl.strings}
    version = nccl.facts["NCCL_VERSION_CODE"]
    assert sorted(n for n in named - read if SINCE.get(n, 0) <= version) == []
    assert sorted(n for n in read if SINCE.get(n, 0) > version) == []


# Listed variables that the newest library does not read, because only older versions do, or only a plugin or NCCL's header does.
NOT_READ = {"NCCL_CREATE_THREAD_CONTEXT", "NCCL_GIN_COUNTER_POOL_SIZE", "NCCL_GIN_NCONTEXTS", "NCCL_GIN_SIGNAL_POOL_SIZE",
            "NCCL_HOME", "NCCL_INSPECTOR_ENABLE", "NCCL_MAX_CGA_CLUSTER_SIZE", "NCCL_SHM_MEMCPY_MODE", "NCCL_SHM_USE_CUDA_MEMCPY",
            "NCCL_TUNER_CONFIG_FILE",  # read by NCCL's example tuner plugin
            "NCCL_WIN_COLL_SYMMETRIC"}


def test_the_list_of_variables_has_those_of_the_newest_library():
    """NCCL_PARAM(NetOverhead, "NET_OVERHEAD", ...) defines the function ncclParamNetOverhead, which is in the library's symbol table, and
    a string with the variable's name. NCCL_PARAM names whose string is spelled differently are not compared.
    """
    newest = load("newest")
    listed = set(re.findall(r"^\w+\((NCCL_\w+)[,)]", (ROOT / "bootstrap/base/environment.def").read_text(), re.M))
    assert len(listed) > 280
    strings = re.findall(r"[A-Z0-9_]{5,60}$", "\n".join(newest.strings), re.M)
    named = {"NCCL_" + text.removeprefix("NCCL_") for text in strings}
    assert {n for n in listed - named if not re.match(OTHERS, n)} == NOT_READ
    symbols = subprocess.run(["nm", newest.library], capture_output=True, text=True, check=True).stdout
    parameters = {name.lower() for name in re.findall(r" _Z\d+ncclParam(\w+)v$", symbols, re.M)}
    assert len(parameters) > 200
    spelled = {}
    for name in named:
        spelled.setdefault(name.removeprefix("NCCL_").replace("_", "").lower(), set()).add(name)
    found = {name: spelled[name] for name in parameters if name in spelled}
    assert len(found) > 180
    assert [sorted(names) for names in found.values() if not names & listed] == []


def test_library_loads_the_exported_plugin_symbols(nccl):
    exported = "".join(subprocess.run(["nm", "-D", "--defined-only", BUILD / file], capture_output=True, text=True, check=True).stdout
                       for file in ("busbar", "busbar-rank"))
    ours = set(re.findall(r"\bnccl(?:Profiler|TunerPlugin)_v\d", exported))
    requested = {name for name in ours if name in nccl.strings}
    if nccl.facts["NCCL_VERSION_CODE"] < 22700:
        assert requested == set()
    else:
        newest = {kind: max(name for name in nccl.strings if re.fullmatch(rf"nccl{kind}_v\d", name)) for kind in ("Profiler", "TunerPlugin")}
        assert set(newest.values()) <= requested
        assert "STATIC_PLUGIN" in nccl.strings


def test_functions_that_need_no_gpu(nccl):
    """Unique ids differ and are not empty, empty groups succeed, and a NULL communicator is rejected with an error message."""
    first, second = ctypes.create_string_buffer(128), ctypes.create_string_buffer(128)
    assert nccl.handle.ncclGetUniqueId(first) == nccl.handle.ncclGetUniqueId(second) == 0
    assert first.raw != bytes(128) and first.raw != second.raw
    assert nccl.handle.ncclGroupStart() == nccl.handle.ncclGroupEnd() == 0
    refused = nccl.handle.ncclAllReduce(None, None, ctypes.c_size_t(1), nccl.facts["ncclFloat32"], nccl.facts["ncclSum"], None, None)
    assert refused == nccl.facts["ncclInvalidArgument"]
    assert nccl.handle.ncclGetLastError(None)


def test_emulated_error_strings_match_the_real_library():
    built = load("built")
    emulated = ("import ctypes, sys; n = ctypes.CDLL(sys.argv[1]); n.ncclGetErrorString.restype = ctypes.c_char_p;"
                "print(*(n.ncclGetErrorString(i).decode() for i in range(9)), sep='\\n')")
    done = subprocess.run(["python3", "-c", emulated, BUILD / "emulator/libnccl.so.2"], capture_output=True, text=True, timeout=60,
                          env={"LD_LIBRARY_PATH": str(BUILD / "emulator"), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    real = [built.handle.ncclGetErrorString(i).decode() for i in range(9)]
    for ours, theirs in zip(done.stdout.splitlines(), real, strict=True):
        assert ours and theirs.startswith(ours)
