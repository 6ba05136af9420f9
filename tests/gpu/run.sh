#!/bin/sh
# run.sh [FOLDER [PATTERN]] - what can be proven on real GPUs, with one rank and with several that share one:
# correctness, error paths, the timed kernel against the GPU's clock. Ranks that share a GPU prove nothing about speed.
# Output is kept in FOLDER (default build/gpu-results); PATTERN ("transformer*") chooses cases by their names.
# NCCL_TESTS_BUILD names a build of nccl-tests to be held against. Exit status 77 where there is no GPU. Needs a built
# build/busbar.
set -u
cd "$(dirname "$0")/../.."
. bootstrap/mpi.sh
folder=${1:-build/gpu-results}
busbar=${BUSBAR:-build/busbar}
mkdir -p "$folder"
gpus=$(count_gpus)
[ "$gpus" -ge 1 ] || { echo "gpu tests: SKIPPED: no GPU here"; exit 77; }
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv >"$folder/gpus.txt" 2>&1 || true
pattern=${2:-*}
passed=0 failed=0 skipped=0

# expect STATUS NAME COMMAND... - runs with a time limit, keeps the output, compares the exit status.
expect() {
    want=$1 name=$2
    shift 2
    # shellcheck disable=SC2254
    case $name in $pattern) ;; *) return ;; esac
    began=$(date +%s)
    timeout -k 10 "${limit:-150}" "$@" >"$folder/$name.txt" 2>&1
    status=$?
    if [ $status = "$want" ]; then
        passed=$((passed + 1)); word=passed
    else
        failed=$((failed + 1)); word="FAILED (exit $status, expected $want)"
        tail -n 25 "$folder/$name.txt"
    fi
    echo "$name: $word, $(($(date +%s) - began)) s"
}

share() { echo --share-gpu; }
collectives="all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv"
small="-b 8 -e 1M -f 32 -n 5 -w 2"

# shellcheck disable=SC2086
{
    expect 0 one-rank-bench mpirun -n 1 $busbar bench $collectives $small --json "$folder/one-rank.json"
    for n in 2 3 4; do
        expect 0 shared-bench-$n mpirun -n $n $busbar bench $collectives $small $(share) --json "$folder/shared-$n.json"
    done
    for dtype in half bfloat16 int32 double uint8; do
        expect 0 shared-dtype-$dtype mpirun -n 2 $busbar bench all_reduce reduce_scatter -b 1K -e 64K -f 64 -n 3 -d $dtype $(share)
    done
    for op in prod min max avg mulsum; do
        expect 0 shared-op-$op mpirun -n 3 $busbar bench all_reduce reduce_scatter -b 1K -e 64K -f 64 -n 3 -o $op $(share)
    done
    expect 0 proxy-gpt2-check mpirun -n 2 $busbar proxy gpt2_large 4 2 2 --check --steps 3 --warmup 1 $(share) --json "$folder/gpt2-2.json"
    expect 0 proxy-gpt2-dp mpirun -n 4 $busbar proxy gpt2_large 2 2 2 --check --steps 2 --warmup 1 $(share)
    expect 0 proxy-bert mpirun -n 4 $busbar proxy bert_large 4 2 2 --check --steps 2 --warmup 1 --compute timed $(share) --json "$folder/bert-4.json"
    expect 0 modes mpirun -n 2 $busbar bench all_reduce sendrecv -b 1K -e 64K -f 64 -n 5 --mode all $(share) --json "$folder/modes.json"
    expect 0 p2p mpirun -n 3 $busbar bench p2p --bandwidth-sizes 256K -n 3 --repeats 2 $(share) --json "$folder/p2p.json"
    expect 0 comm mpirun -n 2 $busbar bench comm --repeats 2 $(share) --json "$folder/comm.json"
    expect 0 overlap mpirun -n 2 $busbar bench overlap --sizes 256K --ctas default,1 --gemm 1024 --repeats 3 $(share)
    expect 0 facade mpirun -n 1 "$(dirname "$busbar")/all_reduce_perf" -b 8 -e 64K -f 16 -n 5
    expect 0 proxy-graph mpirun -n 2 $busbar proxy gpt2_large 2 2 2 --graph --steps 2 --warmup 1 $(share)
    expect 0 proxy-gemm mpirun -n 2 $busbar proxy bert_large 2 2 2 --compute gemm --dtype bfloat16 --steps 2 --warmup 1 --trace "$folder/gemm-trace.json" $(share)
    expect 0 proxies-quick mpirun -n 4 $busbar proxy all --quick --check --steps 2 --warmup 1 $(share) --json "$folder/proxies.json"
    expect 0 proxies-gemm mpirun -n 4 $busbar proxy all --quick --compute gemm --dtype bfloat16 --steps 2 --warmup 1 $(share) --json "$folder/proxies-gemm.json"
    expect 0 proxy-one-step mpirun -n 8 $busbar proxy gpt3_one_pipe_step 2 --check --scale-counts 0.001 --steps 2 --warmup 1 $(share)
    step="--check --steps 2 --warmup 1 $(share)"
    gpt="--model gpt2_small --layers 4 --seq-length 128"
    expect 0 transformer-tp-pp mpirun -n 4 $busbar proxy transformer $gpt --tp 2 --pp 2 --sequence-parallel --micro-batches 4 $step
    expect 0 transformer-interleaved mpirun -n 4 $busbar proxy transformer $gpt --pp 2 --vpp 2 --micro-batches 4 --dp-sync zero1 $step
    expect 0 transformer-context mpirun -n 4 $busbar proxy transformer $gpt --cp 2 --micro-batches 2 --dp-sync zero3 $step
    expect 0 transformer-experts mpirun -n 4 $busbar proxy transformer --model mixtral_8x7b --layers 2 --seq-length 128 --ep 4 --moe-imbalance 1 --micro-batches 2 --scale-counts 0.001 $step
    expect 0 transformer-gemm mpirun -n 4 $busbar proxy transformer $gpt --pp 4 --schedule zb-h1 --micro-batches 8 --compute gemm $step --json "$folder/transformer.json"
    for sync in ps ps_p2p ps_sharded all_reduce horovod zero1 zero2 zero3; do
        expect 0 data-parallel-$sync mpirun -n 3 $busbar proxy data_parallel --model resnet18_cifar --sync $sync $step
    done
    expect 0 spatial mpirun -n 5 $busbar proxy spatial --model resnet110_v2 --image-size 64 --slice square --spatial-parts 4 --splits 2 --spatial-splits 1 --halo-bwd dx $step
    expect 0 gems mpirun -n 4 $busbar proxy gems --model resnet110_v2 --image-size 64 --splits 4 --replications 2 $step
    expect 0 scaling mpirun -n 2 $busbar proxy scaling --model resnet18_cifar --mode weak --batch 128 --epoch-steps 10 $(share)
    expect 4 stalled-rank sh -c "mpirun -n 2 $busbar bench all_reduce -b 8 -e 64K -n 2000 --repeats 2000 -T 10 $(share) >/dev/null & sleep 15; pkill -STOP -n -x busbar; wait \$!"
    expect 0 compute-limits $busbar bench compute --max-error 2 --json "$folder/compute.json"
    expect 2 too-few-gpus mpirun -n $((gpus + 1)) $busbar bench all_reduce -b 8 -e 8
}
# The same verdicts as nccl-tests, and with one rank the same rates, where there is a build of it (made with MPI=1).
if [ -n "${NCCL_TESTS_BUILD:-}" ]; then
    limit=400 expect 0 beside-nccl-tests python3 tests/gpu/beside_nccl_tests.py "$NCCL_TESTS_BUILD" --build "$(dirname "$busbar")" \
        --rounds 3 --ranks 2 --operations all_reduce,all_gather,reduce_scatter,alltoall,sendrecv
else
    echo "beside-nccl-tests: SKIPPED: NCCL_TESTS_BUILD names no build of nccl-tests"
    skipped=$((skipped + 1))
fi
# Every algorithm and protocol that NCCL offers here, and what it says of them.
expect 0 algorithms mpirun -n 2 "$busbar" bench all_reduce all_gather --sizes 1K,64K --sweep-algorithms --share-gpu --json "$folder/algorithms.json"
# The unit tests that need no emulation run on the GPU as well.
for program in build/tests/cuda/test_gpu_*; do
    [ -x "$program" ] && expect 0 "$(basename "$program")" "$program"
done
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
