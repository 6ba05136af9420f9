#!/bin/sh
# node.sh RANKS NAME [OPTION...] - profiles the timed steps of a proxy on one node with Nsight Systems: one report per
# rank, each also exported to SQLite. NAME and OPTIONs are those of `busbar proxy`. Environment variables:
#     BUSBAR       the program (default: busbar on the PATH, else build/busbar)
#     BUSBAR_NSYS  folder for the reports (default: nsys-reports)
#     NSYS         the nsys program (default: nsys)
#     MPIRUN       the launcher with its options (default: mpirun)
set -eu
if [ $# -lt 2 ]; then
    echo "usage: $0 RANKS NAME [OPTION...], for example: $0 8 gpt2_large --compute timed --steps 5" >&2
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
