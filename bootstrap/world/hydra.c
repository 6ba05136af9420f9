/* hydra.c - see hydra.h. */
#include "bootstrap/world/hydra.h"

#include "bootstrap/base/err.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/speaker.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOLD_MS = 1500, FILES_MAX = 4096 };

static int leash = -1; /* closes when this rank is gone; a byte in it: in order */
static pid_t holder;

/* srun --mpi=pmi2 has a PMI_FD, too, but leaves the ranks alone. */
bool bb_hydra_started_us(void)
{
    return getenv("MPI_LOCALNRANKS") && getenv("PMI_FD");
}

/* Hydra looks at the rank's output, too: it stays open with the connection, and nothing else does. */
static void close_all_but(int connection, int rank_end)
{
    for (int fd = 0; fd < FILES_MAX; fd++)
        if (fd != STDOUT_FILENO && fd != STDERR_FILENO && fd != connection && fd != rank_end)
            close(fd);
}

static void hold_connection(int connection, int rank_end)
{
    struct pollfd launcher = {.fd = connection}; /* an event only when it is gone */
    char byte, host[256] = "";

    (void)gethostname(host, sizeof(host) - 1);
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    close_all_but(connection, rank_end);
    if (read(rank_end, &byte, 1) <= 0 && poll(&launcher, 1, HOLD_MS) == 0 && bb_speaker_take() >= 0)
        bb_err(BB_ETIMEOUT, "rank %d (%s) is lost", bb_launcher_rank(), host); /* before the others knew of it */
    _exit(0);
}

void bb_hydra_hold(void)
{
    int ends[2];

    if (!bb_hydra_started_us() || leash >= 0 || pipe(ends))
        return;
    holder = fork();
    if (holder == 0)
        hold_connection(atoi(getenv("PMI_FD")), ends[0]);
    close(ends[0]);
    leash = ends[1];
}

void bb_hydra_let_go(void)
{
    if (leash < 0)
        return;
    if (holder > 0 && write(leash, "", 1) == 1)
        waitpid(holder, NULL, 0);
    close(leash);
    leash = -1;
}
