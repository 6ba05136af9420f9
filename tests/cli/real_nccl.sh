#!/bin/sh
# real_nccl.sh FOLDER - fetches the NCCLs of bootstrap/wheels.txt that test_real_nccl.py holds busbar against beside the one
# it is built with: FOLDER/NAME/{include,lib}. What is there already stays. Exit status 77 where none can be fetched.
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
        --target "$folder/new" "$wheel" >"$folder/pip.log" 2>&1 || { echo "$wheel cannot be fetched here"; exit 77; }
    mv "$folder/new/nvidia/nccl" "$folder/$name" && echo "$wheel" >"$folder/$name/wheel" || exit 1
    rm -rf "$folder/new"
done
