#!/usr/bin/env python3
"""Finds words of busbar's former jargon in comments, strings and documentation (CONTRIBUTING.md, "Language").

    python3 tests/analysers/language.py [PATH...]     default: every tracked file; exit status 0: none found, 1: some found

Reads `language.words` (a regular expression and what to write instead) and `language.exceptions` (path, word, reason).
An exception that matches nothing is an error, so the file cannot grow stale.
"""
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
C_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|/\*.*?\*/|//[^\n]*", re.S)
SCRIPT_TEXT = re.compile(r'"""(?:.|\n)*?"""' r'|"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|#[^\n]*")
KINDS = [
    (re.compile(r"\.(c|h|cu|cuh|def)$"), C_TEXT),
    (re.compile(r"\.(py|sh|cmake|yaml)$|(^|/)CMakeLists\.txt$"), SCRIPT_TEXT),
    (re.compile(r"\.md$"), re.compile(r".+", re.S)),
    (re.compile(r"(^|/)CMakePresets\.json$|^profiles/(clusters|models|studies)/.*\.json$"), re.compile(r'"(?:\\.|[^"\\\n])*"')),
]


def read_table(name, columns):
    """The rows of a table: columns separated by tabs, lines that begin with # are comments."""
    rows = [line.split("\t") for line in (HERE / name).read_text().splitlines() if line and not line.startswith("#")]
    wrong = [row for row in rows if len(row) != columns or not all(row)]
    if wrong:
        sys.exit(f"{name}: expected {columns} columns separated by one tab: {wrong[0]}")
    return rows


def texts_of(path, source):
    """(offset, text) of each comment, string or page of documentation of a file."""
    for kind, pattern in KINDS:
        if kind.search(path):
            return [(m.start(), m[0]) for m in pattern.finditer(source) if not m[0].startswith("'") or not path.endswith((".c", ".h"))]
    return []


def find_words(path, source, words):
    """[(line, word found, what to write instead)] of one file."""
    found = []
    for start, text in texts_of(path, source):
        for pattern, instead in words:
            found += [(source.count("\n", 0, start + m.start()) + 1, m[0], instead) for m in pattern.finditer(text)]
    return sorted(found)


def main(paths):
    words = [(re.compile(rf"\b(?:{word})\b", re.I), instead) for word, instead in read_table("language.words", 2)]
    exceptions = [(re.compile(path), word.lower(), reason) for path, word, reason in read_table("language.exceptions", 3)]
    used, left, lines = set(), 0, 0
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for path in listed.splitlines():
        planted = path.startswith(("tests/analysers/language", "tests/cli/test_language"))  # the word list and its test
        if planted or not (ROOT / path).is_file() or not any(kind.search(path) for kind, _ in KINDS):
            continue
        source = (ROOT / path).read_text()
        lines += source.count("\n")
        for line, word, instead in find_words(path, source, words):
            excused = [i for i, (file, text, _) in enumerate(exceptions) if file.search(path) and text == " ".join(word.lower().split())]
            used.update(excused)
            if not excused:
                left += 1
                print(f"{path}:{line}: '{' '.join(word.split())}': write: {instead}")
    stale = [] if paths else [exceptions[i] for i in range(len(exceptions)) if i not in used]
    for file, word, _ in stale:
        print(f"language.exceptions: '{word}' in {file.pattern} matches nothing: remove the row")
    print(f"language: {left} words in {lines} lines, {len(stale)} stale exceptions")
    return 1 if left or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
