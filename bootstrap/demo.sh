#!/bin/sh
# demo.sh - sets up, builds and runs the main job: a bench sweep of five collectives and the gpt2_large proxy on 4 ranks, on
# this machine's GPUs, or on emulated ones where there is none. Everything that it installs is said (setup.sh).
set -eu
cd "$(dirname "$0")/.."
sh bootstrap/setup.sh
. bootstrap/mpi.sh

ranks=4
gpus=$(count_gpus)
share=
if [ "$gpus" -ge $ranks ]; then
    busbar=build/busbar
    echo "demo: $ranks ranks on $gpus GPUs"
elif [ "$gpus" -ge 1 ]; then
    busbar=build/busbar share=--share-gpu
    echo "demo: $ranks ranks share $gpus GPU(s): this shows that it works, never how fast it is"
else
    busbar=build/busbar-emulated
    echo "demo: no GPU here: $ranks ranks on emulated GPUs; their times are modelled, not measured"
fi

run() {
    echo
    echo "\$ mpirun -n $ranks $busbar $*"
    mpirun -n $ranks $busbar "$@"
}
# shellcheck disable=SC2086
run bench all_reduce all_gather reduce_scatter broadcast sendrecv -b 1K -e 4M -f 16 $share
# shellcheck disable=SC2086
run proxy gpt2_large $share
