#!/bin/sh
# demo.sh - installs dependencies, builds busbar and runs two examples on 4 ranks: a benchmark of collectives, and a
# training step whose communication partly overlaps with compute. The ranks use this machine's GPUs, or emulated GPUs if
# there are none. setup.sh prints all packages that it installs.
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
    echo "demo: $ranks ranks share $gpus GPU(s), so the times are meaningless"
else
    busbar=build/busbar-emulated
    echo "demo: no GPU found; $ranks ranks run on emulated GPUs, so the times are modelled, not measured"
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

demo: ran two examples on $ranks ranks. Next:
    . bootstrap/mpi.sh      # lets Open MPI start ranks as root, and more ranks than cores
    mpirun -n $ranks $busbar bench all -b 8 -e 1M -f 8$share
    mpirun -n $ranks $busbar proxy bert_large 8 2 4 --compute timed --trace timeline.json$share
    build/busbar plan transformer --model llama3_70b --ranks 512 --tp 8 --pp 4 --micro-batches 16 --cluster h100-sxm-ib      # needs no GPU
END
