#!/bin/sh
# real_nccl.sh FOLDER - downloads the oldest and the newest NCCL of bootstrap/wheels.txt, for test_real_nccl.py, into
# FOLDER/NAME/{include,lib}. Versions that are already present are kept. Exits with status 77 if a download fails.
set -u
cd "$(dirname "$0")/../.."
folder=$1
. bootstrap/packages.sh
mkdir -p "$folder" || exit 1
for name in nccl-oldest nccl-newest; do
    wheel=$(list_wheels $name)
    [ "$(cat "$folder/$name/wheel" 2>/dev/null)" != "$wheel" ] || continue
    rm -rf "$folder/$name" "$folder/new"
    PYTHONPATH=$(find_pip) timeout 600 python3 -m pip install -q --no-deps --no-cache-dir --disable-pip-version-check \
        --target "$folder/new" "$wheel" >"$folder/pip.log" 2>&1 || { echo "cannot download $wheel"; exit 77; }
    mv "$folder/new/nvidia/nccl" "$folder/$name" && echo "$wheel" >"$folder/$name/wheel" || exit 1
    rm -rf "$folder/new"
done
