"""fake_srun.py - `fake_srun.py -n N PROGRAM...` replaces Slurm's srun on one host, for an MPI that connects its ranks with PMI-1 (MPICH).

Like srun(1) and slurmstepd: each task gets SLURM_* variables and a connection for PMI, and its output is copied to the output of srun. A
signal is forwarded to all tasks; SIGINT has the effect of two SIGINTs, so SIGCONT and SIGTERM follow. The death of a task is reported and
does not end the other tasks. MPI_Abort ends all tasks with SIGCONT, SIGTERM, and SIGKILL after KILL_WAIT_S. The exit status is the
maximum over the tasks; a task killed by a signal counts as 128 + the signal.
"""
import os
import signal
import socket
import subprocess
import sys
import threading
import time

KILL_WAIT_S = 5  # the default of Slurm is 30
FORWARDED_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Step:
    """A job step: the tasks, and the values that they exchange through PMI."""

    def __init__(self, size, command):
        self.values = {"PMI_process_mapping": f"(vector,(0,1,{size}))"}
        self.waiting, self.lock = [], threading.Lock()
        self.size = size
        self.tasks = [self.start(rank, command) for rank in range(size)]

    def start(self, rank, command):
        ours, theirs = socket.socketpair()
        environment = dict(os.environ, SLURM_JOB_ID=str(os.getpid()), SLURM_STEP_ID="0", SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank),
                           SLURM_NTASKS=str(self.size), SLURM_STEP_NUM_TASKS=str(self.size), SLURM_NTASKS_PER_NODE=str(self.size),
                           SLURM_GTIDS=",".join(map(str, range(self.size))),
                           PMI_FD=str(theirs.fileno()), PMI_RANK=str(rank), PMI_SIZE=str(self.size))
        task = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        threading.Thread(target=self.serve, args=(ours,), daemon=True).start()
        task.readers = [threading.Thread(target=forward, args=pair, daemon=True) for pair in ((task.stdout, 1), (task.stderr, 2))]
        for reader in task.readers:
            reader.start()
        return task

    def serve(self, connection):
        with connection, connection.makefile("r", encoding="ascii") as lines:
            for line in lines:
                fields = dict(field.split("=", 1) for field in line.split() if "=" in field)
                reply = self.answer(connection, fields)
                if reply:
                    connection.sendall((reply + "\n").encode())
            with self.lock:  # a closed connection leaves the barrier
                self.waiting = [each for each in self.waiting if each is not connection]

    def answer(self, connection, fields):
        command_name = fields.get("cmd")
        if command_name == "barrier_in":
            return self.enter_barrier(connection)
        if command_name == "put":
            self.values[fields["key"]] = fields["value"]
        if command_name == "abort":
            self.end()
        value = self.values.get(fields.get("key"))
        return {"init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
                "get_universe_size": f"cmd=universe_size size={self.size}",
                "get_appnum": "cmd=appnum appnum=0",
                "get_my_kvsname": "cmd=my_kvsname kvsname=step",
                "put": "cmd=put_result rc=0 msg=success",
                "get": f"cmd=get_result rc=0 msg=success value={value}" if value
                else "cmd=get_result rc=-1 msg=key_not_found value=unknown",
                "finalize": "cmd=finalize_ack"}.get(command_name)

    def enter_barrier(self, connection):
        with self.lock:
            self.waiting.append(connection)
            if len(self.waiting) == self.size:
                for each in self.waiting:
                    try:
                        each.sendall(b"cmd=barrier_out\n")
                    except OSError:
                        pass  # the task ended after it entered the barrier
                self.waiting = []

    def send(self, number):
        for task in self.tasks:
            if task.poll() is None:
                try:
                    os.killpg(task.pid, number)
                except OSError:
                    pass

    def end(self):
        """The termination sequence of slurmstepd."""
        self.send(signal.SIGCONT)
        self.send(signal.SIGTERM)
        timer = threading.Timer(KILL_WAIT_S, self.send, [signal.SIGKILL])
        timer.daemon = True
        timer.start()

    def interrupt(self, number, _frame):
        self.send(number)
        self.end()

    def status(self):
        """Waits for all tasks; returns the exit status of the step."""
        codes, reported = {}, set()
        while len(codes) < self.size:
            for rank, task in enumerate(self.tasks):
                if rank not in codes and task.poll() is not None:
                    codes[rank] = task.returncode if task.returncode >= 0 else 128 - task.returncode
                    if codes[rank] and codes[rank] not in reported:
                        reported.add(codes[rank])
                        print(f"srun: error: {socket.gethostname()}: task {rank}: exit code {codes[rank]}", file=sys.stderr, flush=True)
            time.sleep(0.02)
        for task in self.tasks:
            for reader in task.readers:
                reader.join(1)
        return max(codes.values())


def forward(stream, to):
    while True:
        text = os.read(stream.fileno(), 65536)
        if not text:
            return
        os.write(to, text)


def main(arguments):
    step = Step(int(arguments[1]), arguments[2:])
    for number in FORWARDED_SIGNALS:
        signal.signal(number, lambda n, _: step.send(n))
    signal.signal(signal.SIGINT, step.interrupt)
    sys.stderr.flush()
    os._exit(step.status())


if __name__ == "__main__":
    main(sys.argv[1:])
