"""The check of the project's language (tests/analysers/language.py) finds planted words, and only in texts."""
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def language():
    spec = importlib.util.spec_from_file_location("language", ROOT / "tests/analysers/language.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WORDS = [(re.compile(r"\b(?:tells?)\b", re.I), "reports")]


@pytest.mark.parametrize("path, source, lines", [
    ("a.c", "int tell; /* the rank\n * tells */\n", [2]),
    ("a.c", 'bb_err(1, "%s tells", tell);\n', [1]),
    ("a.c", 'char c = \'"\'; int tells; // told\n', []),
    ("a.h", "/* reports */ int tells(void);\n", []),
    ("a.py", 'tell = 1\n"""It tells."""\n', [2]),
    ("a.sh", "tell() {  # tells\n", [1]),
    ("README.md", "first\nIt tells.\n", [2]),
    ("a.png", "tells", []),
])
def test_finds_words_in_texts_and_not_in_code(language, path, source, lines):
    assert [line for line, _, _ in language.find_words(path, source, WORDS)] == lines


def test_every_row_of_the_tables_is_complete(language):
    assert len(language.read_table("language.words", 2)) > 30
    assert all(len(reason) > 10 for _, _, reason in language.read_table("language.exceptions", 3))


def test_a_stale_exception_is_an_error(language, monkeypatch, capsys):
    tables = {"language.words": [["planted", "x"]], "language.exceptions": [["nowhere", "planted", "a reason that is stale"]]}
    monkeypatch.setattr(language, "read_table", lambda name, columns: tables[name])
    assert language.main([]) == 1
    assert "'planted' in nowhere matches nothing" in capsys.readouterr().out
