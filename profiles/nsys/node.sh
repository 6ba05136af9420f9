#!/bin/sh
# node.sh RANKS NAME [OPTION...] - Nsight Systems reports of the timed steps of a proxy on one node, one per rank, each
# also exported to SQLite. BUSBAR: the program (default: busbar on the path, else build/busbar); BUSBAR_NSYS: the folder
# of the reports; NSYS: nsys itself; MPIRUN: the launcher.
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 RANKS NAME [OPTION...], such as: $0 8 gpt2_large --compute timed --steps 5" >&2
    exit 2
fi
ranks=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
out=${BUSBAR_NSYS:-nsys-reports}
busbar=${BUSBAR:-$(command -v busbar || echo "$here/../../build/busbar")}
mkdir -p "$out"
${MPIRUN:-mpirun} -n "$ranks" "${NSYS:-nsys}" profile \
    -t cuda,nvtx -s none --cpuctxsw=none --cuda-graph-trace=node \
    --capture-range=cudaProfilerApi --capture-range-end=stop --kill=none \
    --force-overwrite=true -o "$out/rank.%q{OMPI_COMM_WORLD_RANK}" \
    "$busbar" proxy "$@" --json "$out/busbar.json"
sh "$here/export.sh" "$out"
