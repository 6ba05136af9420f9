#!/bin/sh
# slurm.sh NAME [OPTION...] - profiles the timed steps of a proxy in a Slurm allocation with Nsight Systems, one report
# per rank:
#     sbatch -N 4 --ntasks-per-node=8 --gpus-per-node=8 profiles/nsys/slurm.sh gpt2_large --compute timed --steps 5
# Environment variables: BUSBAR, BUSBAR_NSYS and NSYS as in node.sh; SRUN, the launcher with its options (default: srun);
# BUSBAR_HOME, the clone of the repository (default: the folder in which the job was submitted), because sbatch runs a copy
# of this script from another folder.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: $0 NAME [OPTION...], for example: $0 gpt2_large --compute timed --steps 5" >&2
    exit 2
fi
home=${BUSBAR_HOME:-${SLURM_SUBMIT_DIR:-.}}
out=${BUSBAR_NSYS:-nsys-reports}
busbar=${BUSBAR:-$(command -v busbar || echo "$home/build/busbar")}
mkdir -p "$out"
${SRUN:-srun} "${NSYS:-nsys}" profile \
    -t cuda,nvtx -s none --cpuctxsw=none --cuda-graph-trace=node \
    --capture-range=cudaProfilerApi --capture-range-end=stop --kill=none \
    --force-overwrite=true -o "$out/rank.%q{SLURM_PROCID}" \
    "$busbar" proxy "$@" --json "$out/busbar.json"
sh "$home/profiles/nsys/export.sh" "$out"
