"""What real GPUs and NCCL do to a host, switched on in the emulated ones: busbar goes on, or says what the hang needs."""

ONE_PIPE = ("proxy", "gpt3_one_pipe_step", 2, "--scale-counts", "0.0001", "--compute", "timed", "-n", 2,
            "--traced-steps", 0, "--no-alone")


def test_a_step_that_needs_its_streams_side_by_side_has_queues_enough(busbar, tmp_path):
    run = busbar.json(*ONE_PIPE, "-T", 30, ranks=8, tmp_path=tmp_path,
                      env={"EMU_HARDWARE_QUEUES": "1", "EMU_RUNTIME_CONNECT": "1"})
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert run["environment"]["NCCL_RUNTIME_CONNECT"] == "0"


def test_its_hang_says_what_it_needs(busbar):
    done = busbar.run(*ONE_PIPE, "-T", 12, ranks=8,
                      env={"EMU_HARDWARE_QUEUES": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1"})
    assert done.returncode == 4
    assert "(needs its streams side by side: CUDA_DEVICE_MAX_CONNECTIONS=1) did not end within 12 s" in done.stderr


def test_a_step_whose_streams_may_be_serialised_leaves_nccl_as_it_is(busbar, tmp_path):
    run = busbar.json("proxy", "resnet50", "--scale-counts", "0.001", "-n", 1, "--traced-steps", 0, ranks=2, tmp_path=tmp_path)
    assert run["environment"]["CUDA_DEVICE_MAX_CONNECTIONS"] == "32"
    assert "NCCL_RUNTIME_CONNECT" not in run["environment"]
