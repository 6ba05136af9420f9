"""MPI starts the ranks, exchanges ids and gathers results; every measured byte goes through NCCL. nccl_recorder.so records the calls of
both libraries in their order."""
import shutil
import subprocess

import pytest

ELEMENT_BYTES = {"0": 1, "1": 1, "2": 4, "3": 4, "4": 8, "5": 8, "6": 2, "7": 4, "8": 8, "9": 2}  # by ncclDataType_t
PREPARATION = {"MPI_Init_thread", "MPI_Initialized", "MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_set_errhandler", "MPI_Error_string", "MPI_Test",
               "MPI_Finalize", "MPI_Abort"}
RECORDED = {"MPI_Ibarrier", "MPI_Iallgather", "MPI_Ibcast"}
STEP = ("bert_large", 4, 2, 2, "--scale-counts", 0.01)
PROXY = ("proxy", *STEP, "--warmup", 1, "--traced-steps", 0, "--no-alone", "--steps")
BENCH = ("bench", "all_reduce", "--sizes", "64K", "-n", 2, "-w", 1, "-c", 0, "--placement", "in_place", "--clock", "gpu", "--repeats")


def calls(busbar, tmp_path, ranks, *args):
    """The recorded calls of rank 0: [(function, bytes)]."""
    env = {"NCCL_RECORD": str(tmp_path / "calls"), "MPI_RECORD": "1", "LD_PRELOAD": str(busbar.build / "tests" / "nccl_recorder.so")}
    done = busbar.run(*args, ranks=ranks, mpirun=(), env=env)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in (tmp_path / "calls.0").read_text().splitlines()]
    return [(row[0], int(row[1]) if len(row) == 2 else int(row[4]) * ELEMENT_BYTES[row[5]]) for row in rows]


def total(rows, library):
    return sum(n for function, n in rows if function.startswith(library))


def test_the_program_calls_no_other_mpi_function(busbar):
    """The recorder sees each call that can send data, because the program has no other."""
    if not shutil.which("nm"):
        pytest.skip("nm not found")
    symbols = subprocess.run(["nm", "-D", "--undefined-only", busbar.build / "busbar-rank"], capture_output=True, text=True, check=True).stdout
    found = {word for word in symbols.split() if word.startswith(("MPI_", "PMPI_"))}
    assert found and found <= PREPARATION | RECORDED


@pytest.mark.parametrize("args,ranks", [(PROXY, 4), (BENCH, 2)], ids=["proxy", "bench"])
def test_mpi_sends_no_byte_between_timed_operations(busbar, tmp_path, args, ranks):
    rows = calls(busbar, tmp_path, ranks, *args, 4)
    of_nccl = [i for i, (function, _) in enumerate(rows) if function.startswith("nccl")]
    measured = rows[of_nccl[0]:of_nccl[-1] + 1]
    assert {function for function, _ in measured if function.startswith("MPI")} == {"MPI_Ibarrier"}
    assert total(measured, "MPI") == 0 < total(measured, "nccl") == total(rows, "nccl")


def test_nccl_sends_the_bytes_of_the_plan_and_mpi_a_few_results(busbar, tmp_path):
    """Four more steps: NCCL sends four times the bytes of the plan and of a one-element all-reduce (the common start), MPI a barrier per
    step and the times of the steps."""
    plan = busbar.json("plan", *STEP, "--ranks", 4, tmp_path=tmp_path)
    (role,) = [role for role in plan["roles"] if 0 in role["ranks"]]
    few, many = calls(busbar, tmp_path, 4, *PROXY, 2), calls(busbar, tmp_path, 4, *PROXY, 6)
    assert total(many, "nccl") - total(few, "nccl") == 4 * (sum(row["bytes"] for row in role["traffic"]) + 4)
    assert many.count(("MPI_Ibarrier", 0)) - few.count(("MPI_Ibarrier", 0)) == 4
    assert 0 < total(many, "MPI") - total(few, "MPI") <= 4 * 3 * 8


def test_mpi_of_bench_grows_by_results_only(busbar, tmp_path):
    few, many = calls(busbar, tmp_path, 2, *BENCH, 2), calls(busbar, tmp_path, 2, *BENCH, 6)
    assert total(many, "nccl") - total(few, "nccl") >= 4 * 2 * 65536
    assert total(many, "MPI") - total(few, "MPI") <= 4 * 64
