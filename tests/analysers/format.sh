#!/bin/sh
# format.sh - checks that clang-format would change no source file. Exit status 77: no clang-format.
command -v clang-format >/dev/null || { echo "clang-format not found"; exit 77; }
cd "$(dirname "$0")/../.." || exit 1
git ls-files '*.c' '*.h' '*.cu' | xargs -n 50 -P "$(getconf _NPROCESSORS_ONLN)" clang-format --dry-run -Werror
