"""After a timeout busbar asks NCCL's RAS service, prints its answer and records it. A service that does not answer delays nothing."""
import json
import socket
import threading
import time

import pytest

STATUS = "NCCL version 2.32.3\n\nWarnings\nRank 1 lags: AllReduce 12 of 13\n"


def serve(answer):
    """A service on a free port: reads the command and answers. answer None: accepts and stays silent; ...: writes without end."""
    listener = socket.create_server(("127.0.0.1", 0))
    commands = []

    def work():
        try:
            link, _ = listener.accept()
        except OSError:
            return  # the test has closed the service
        commands.append(link.recv(100).decode())
        try:
            while answer is ...:
                link.sendall(b"x")
                time.sleep(0.01)
            if answer is None:
                link.recv(1)  # until the client closes
            else:
                link.sendall(answer.encode())
        except OSError:
            pass
        link.close()

    threading.Thread(target=work, daemon=True).start()
    return listener, commands


def hang(busbar, tmp_path, port, *options):
    path = tmp_path / "r.json"
    done = busbar.run("bench", "all_reduce", "-b", 8, "-e", 8, "-T", 3, "--json", path, *options, ranks=2,
                      env={"EMU_FAULT": "stall:rank=1,call=4,name=ncclAllReduce", "NCCL_RAS_ADDR": f"localhost:{port}"})
    assert done.returncode == 4 and done.stderr.count(" after 3 s: rank 1 (") == 1, done.stderr
    return done.stderr, json.loads(path.read_text())


def test_answer_of_ras_follows_the_error_line(busbar, tmp_path):
    listener, commands = serve(STATUS)
    stderr, run = hang(busbar, tmp_path, listener.getsockname()[1], "--ras")
    assert commands == ["VERBOSE STATUS\n"]
    lines = [line for line in stderr.splitlines() if line.startswith("busbar: ")]
    assert "did not return from" in lines[0] and lines[1:] == [f"busbar: NCCL RAS: {line}" for line in STATUS.splitlines() if line]
    assert run["nccl_ras"] == STATUS and run["environment"]["NCCL_RAS_ENABLE"] == "1"


@pytest.mark.parametrize("answer", [None, ..., "absent"])
def test_ras_that_does_not_answer_delays_the_end_by_half_a_second(busbar, tmp_path, answer):
    listener, _ = serve(None if answer == "absent" else answer)
    port = listener.getsockname()[1]
    if answer == "absent":
        listener.close()
    stderr, run = hang(busbar, tmp_path, port)
    assert run["status"] == "timeout" and ("nccl_ras" in run) == (answer is ...)
