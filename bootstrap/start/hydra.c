/* hydra.c - helper process that keeps a dead rank's connections to Hydra open. */
#include "bootstrap/start/hydra.h"

#include "bootstrap/base/err.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/start/speaker.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* HOLD_MS: see hydra.h. FILES_MAX: descriptors from this number on are not closed. SPEAK_MS: delay in milliseconds
 * before the helper process reports the lost rank. A rank that has reported it keeps the reporter lock for longer
 * than SPEAK_MS, so the helper process does not report it again. */
enum { HOLD_MS = 1500, SPEAK_MS = 1000, HOLD_ENDING_MS = 700, READ_MS = 200, FILES_MAX = 4096 };
enum { IN_ORDER = 'o', ENDING = 'e' };

static int death_pipe = -1; /* write end of the pipe to the helper process: a byte sets the state (IN_ORDER, ENDING);
                               EOF means that this rank died */
static pid_t helper;

/* Checks two variables, because srun --mpi=pmi2 also sets PMI_FD but does not kill the other ranks. */
bool bb_hydra_started_us(void)
{
    return getenv("MPI_LOCALNRANKS") && getenv("PMI_FD");
}

/* Closes all file descriptors except stdout, stderr, the PMI connection and rank_end (read end of the pipe from the
 * rank). Hydra monitors stdout, stderr and the PMI connection. */
static void close_all_but(int connection, int rank_end)
{
    for (int fd = 0; fd < FILES_MAX; fd++)
        if (fd != STDOUT_FILENO && fd != STDERR_FILENO && fd != connection && fd != rank_end)
            close(fd);
}

static void ignore_signals(void)
{
    for (int number = 1; number < BB_SIGNALS_END; number++)
        if (bb_signal_is_taken(number))
            signal(number, SIG_IGN);
}

/* Ends the job with the abort command of PMI. Waits READ_MS first, because after the abort command Hydra no longer
 * reads the output of the ranks. */
static void abort_job(int connection, int code)
{
    poll(NULL, 0, READ_MS);
    dprintf(connection, "cmd=abort exitcode=%d\n", code);
}

/* Reports the death of the rank unless another process has reported it, and ends the job. */
static void name_lost_rank(int connection, pid_t launcher)
{
    const int lock_fd = bb_speaker_take_of(launcher, BB_ETIMEOUT);
    char host[256] = "";

    if (lock_fd >= 0) {
        (void)gethostname(host, sizeof(host) - 1);
        bb_speaker_says(lock_fd);
        bb_err_job_nonblocking(BB_ETIMEOUT, "rank %d (%s) is lost", bb_launcher_rank(), host);
    }
    abort_job(connection, BB_ETIMEOUT);
}

static void hold_connection(int connection, int rank_end, pid_t launcher)
{
    struct pollfd end = {.fd = connection}; /* no events requested, so poll() reports only that the launcher has
                                               exited (POLLHUP) */
    char state = 0;                         /* last state byte that the rank sent; 0: none */

    close_all_but(connection, rank_end);
    while (state != IN_ORDER && read(rank_end, &state, 1) == 1)
        ;
    if (state == ENDING) {
        poll(&end, 1, HOLD_ENDING_MS);
    } else if (state != IN_ORDER && poll(&end, 1, SPEAK_MS) == 0) {
        name_lost_rank(connection, launcher);
        poll(&end, 1, HOLD_MS - SPEAK_MS);
    }
    _exit(0);
}

void bb_hydra_hold(void)
{
    const pid_t launcher = getppid();
    sigset_t all, before;
    int ends[2];

    if (!bb_hydra_started_us() || death_pipe >= 0 || pipe(ends))
        return;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* so that no signal handler of the rank runs in the helper process */
    helper = fork();
    if (helper == 0) {
        ignore_signals();
        sigprocmask(SIG_SETMASK, &before, NULL);
        hold_connection(atoi(getenv("PMI_FD")), ends[0], launcher);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[0]);
    death_pipe = ends[1];
}

static bool tell_holder(char state)
{
    return death_pipe >= 0 && helper > 0 && write(death_pipe, &state, 1) == 1;
}

void bb_hydra_ending(void)
{
    (void)tell_holder(ENDING);
}

void bb_hydra_abort(int code)
{
    if (bb_hydra_started_us())
        abort_job(atoi(getenv("PMI_FD")), code);
}

void bb_hydra_let_go(void)
{
    if (tell_holder(IN_ORDER))
        waitpid(helper, NULL, 0);
    if (death_pipe >= 0)
        close(death_pipe);
    death_pipe = -1;
}
