#!/bin/sh
# demo.sh - sets up, builds and runs what busbar is for on 4 ranks: a bench of collectives, and a training step of which a
# part of the communication is hidden behind compute. On this machine's GPUs, or on emulated ones where there is none. What
# is installed is said (setup.sh).
set -eu
cd "$(dirname "$0")/.."
sh bootstrap/setup.sh --demo
. bootstrap/mpi.sh

ranks=4
gpus=$(count_gpus)
busbar=build/busbar share=
if [ "$gpus" -ge $ranks ]; then
    echo "demo: $ranks ranks on $gpus GPUs"
elif [ "$gpus" -ge 1 ]; then
    share=' --share-gpu'
    echo "demo: $ranks ranks share $gpus GPU(s): this shows that it works, never how fast it is"
else
    busbar=build/busbar-emulated
    echo "demo: no GPU here: $ranks ranks on emulated GPUs; their times are modelled, not measured"
fi

run() {
    echo
    echo "\$ mpirun -n $ranks $busbar $*"
    # shellcheck disable=SC2086
    mpirun -n $ranks $busbar $*
}
run bench all_reduce all_gather reduce_scatter alltoall -b 1K -e 4M -f 16$share
run proxy transformer --model gpt2_small --layers 6 --tp 2 --dp 2 --compute timed --check$share

cat <<END

demo: tried $ranks ranks. Next:
    . bootstrap/mpi.sh      # lets Open MPI start ranks as root, and more than there are cores
    mpirun -n $ranks $busbar bench all -b 8 -e 1M -f 8$share
    mpirun -n $ranks $busbar proxy bert_large 8 2 4 --compute timed --trace timeline.json$share
    build/busbar plan transformer --model llama3_70b --ranks 512 --tp 8 --pp 4 --micro-batches 16 --cluster h100-sxm-ib      # needs no GPU
END
