/*
 * world.c - start and end of the ranks, reductions, and waits. MPI is used only to find the ranks, for bcast, allgather
 * and barrier, and to end the job. All waits poll non-blocking requests with the timeout of world.h.
 */
#include "bootstrap/world/world.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/start/deadline.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/hydra.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/siblings.h"
#include "bootstrap/start/speaker.h"
#include "bootstrap/start/unknown_launcher.h"
#include "bootstrap/watchdog/watchdog.h"
#include "bootstrap/world/exchange.h"
#include "bootstrap/world/nodes.h"

#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- waiting ---- */

static const double STOPPED_S = 1.5; /* a longer time in seconds between two polls (normally a few ms) shows that the
                                        process was suspended */

enum {
    YIELD_US = 200,
    YIELD_PROMPT_US = 1000000,
    SLEEP_FIRST_US = 20,
    SLEEP_LAST_US = 1000,
    SAY_US = 50000,
    RANKS_PER_PROCESSOR = 16
};

/* Pauses between two polls: yields for the first yield_us microseconds, because most waits are short and the peer
 * may need this core, then sleeps for intervals that grow to last_us. */
static void pause_after(double waited_s, int yield_us, long last_us, long *sleep_us)
{
    struct timespec pause;

    if (waited_s < 1e-6 * yield_us) {
        sched_yield();
        return;
    }
    pause = (struct timespec){.tv_nsec = 1000 * *sleep_us};
    nanosleep(&pause, NULL);
    *sleep_us = *sleep_us * 3 / 2 < last_us ? *sleep_us * 3 / 2 : last_us;
}

/* Returns the waiting time so far, without the time during which the process was suspended (for example by a
 * scheduler). start_s: start of the wait; moved forward by the length of a suspension. before_s: result of the
 * previous call. */
static double waited_since(double *start_s, double before_s)
{
    const double waited_s = bb_now_s() - *start_s;

    if (waited_s - before_s < STOPPED_S)
        return waited_s;
    *start_s += waited_s - before_s;
    return before_s;
}

static int tell_timeout(struct bb_world *w, const char *what)
{
    if (w->watchdog)
        return bb_watchdog_expired(w->watchdog, what);
    return bb_err(BB_ETIMEOUT, "timeout: %s did not end within %g s", what, w->timeout_s);
}

int bb_world_wait(struct bb_world *w, const char *what, bb_ready *ready, void *arg)
{
    double start_s = bb_now_s(), waited_s = 0;
    const int yield_us = w->prompt ? YIELD_PROMPT_US : YIELD_US;
    long sleep_us = SLEEP_FIRST_US;
    bool said = false;
    int rc;

    if (w->watchdog)
        bb_watchdog_moved(w->watchdog);
    while ((rc = ready(arg)) == 0 && (rc = bb_world_ending(w)) == 0) {
        if (waited_s > w->timeout_s)
            return tell_timeout(w, what);
        if (w->watchdog && !said && waited_s > 1e-6 * SAY_US) {
            bb_watchdog_waiting(w->watchdog, what);
            said = true;
        }
        pause_after(waited_s, yield_us, (1 + w->crowd) * SLEEP_LAST_US, &sleep_us);
        waited_s = waited_since(&start_s, waited_s);
    }
    if (said && rc > 0)
        bb_watchdog_waiting(w->watchdog, NULL);
    else if (w->watchdog)
        bb_watchdog_moved(w->watchdog);
    return rc < 0 ? rc : 0;
}

void bb_world_prompt(struct bb_world *w, bool on)
{
    w->prompt = on && w->local_size <= sysconf(_SC_NPROCESSORS_ONLN);
}

void bb_world_guard(struct bb_world *w, const char *what)
{
    if (w->watchdog)
        bb_watchdog_guard(w->watchdog, what);
}

void bb_world_unguard(struct bb_world *w)
{
    if (w->watchdog)
        bb_watchdog_guard(w->watchdog, NULL);
}

int bb_world_guarded(struct bb_world *w, int rc)
{
    bb_world_unguard(w);
    return rc;
}

int bb_world_ending(const struct bb_world *w)
{
    return w->watchdog ? bb_watchdog_ending(w->watchdog) : 0;
}

void bb_world_reached(struct bb_world *w, const char *fmt, ...)
{
    char step[128];
    va_list args;

    if (!w->watchdog)
        return;
    va_start(args, fmt);
    vsnprintf(step, sizeof(step), fmt, args);
    va_end(args);
    bb_watchdog_reached(w->watchdog, step);
}

int bb_world_at_end(struct bb_world *w, bb_at_end *fn, void *arg)
{
    return w->watchdog ? bb_watchdog_hook(w->watchdog, BB_WATCHDOG_STUCK, fn, arg) : 0;
}

void bb_world_forget(struct bb_world *w, bb_at_end *fn, void *arg)
{
    if (w->watchdog)
        bb_watchdog_forget(w->watchdog, fn, arg);
}

/* ---- gather, reductions and agreement of all ranks ---- */

void *bb_world_gather(struct bb_world *w, const void *own, size_t bytes, int *rc)
{
    void *all = malloc((size_t)w->size * bytes);

    *rc = all ? bb_world_allgather(w, own, all, bytes)
              : bb_err(BB_EFAIL, "out of memory for %zu bytes from each of %d ranks", bytes, w->size);
    if (*rc == 0)
        return all;
    free(all);
    return NULL;
}

typedef void combine_fn(void *into, const void *one, size_t n);

static int reduce_values(struct bb_world *w, void *values, size_t n, size_t each, combine_fn *add)
{
    int rc = 0;
    char *all = w->size > 1 && n > 0 ? bb_world_gather(w, values, n * each, &rc) : NULL;

    for (int r = 0; all && r < w->size; r++)
        if (r != w->rank)
            add(values, all + (size_t)r * n * each, n);
    free(all);
    return rc;
}

static void take_max(void *into, const void *one, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((double *)into)[i] = fmax(((double *)into)[i], ((const double *)one)[i]);
}

static void take_min(void *into, const void *one, size_t n)
{
    (void)n;
    if (*(const size_t *)one < *(size_t *)into)
        memcpy(into, one, sizeof(size_t));
}

static void add_sum(void *into, const void *one, size_t n)
{
    (void)n;
    *(unsigned long long *)into += *(const unsigned long long *)one;
}

static void add_bits(void *into, const void *one, size_t n)
{
    (void)n;
    *(unsigned *)into |= *(const unsigned *)one;
}

int bb_world_max(struct bb_world *w, double *values, size_t n)
{
    return reduce_values(w, values, n, sizeof(*values), take_max);
}

int bb_world_min(struct bb_world *w, size_t *value)
{
    return reduce_values(w, value, 1, sizeof(*value), take_min);
}

int bb_world_sum(struct bb_world *w, unsigned long long *value)
{
    return reduce_values(w, value, 1, sizeof(*value), add_sum);
}

int bb_world_any(struct bb_world *w, unsigned *bits)
{
    return reduce_values(w, bits, 1, sizeof(*bits), add_bits);
}

int bb_world_agree(struct bb_world *w, int rc, const char *what)
{
    int all[w->size];
    int failed = bb_exchange_all(w, what, &rc, all, sizeof(rc));

    if (failed)
        return rc ? rc : failed;
    for (int r = 0; r < w->size; r++)
        if (all[r]) {
            w->agreed = true;
            return all[r];
        }
    return 0;
}

/* ---- start ---- */

/* Returns an error if the launcher started several processes but MPI has only one. In that case the launcher belongs
 * to another MPI, and every process would run as a separate job. */
static int refuse_foreign_launcher(int processes)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"};
    const char *claim = bb_launcher_claim();

    if (processes > 1)
        return 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const char *text = getenv(sizes[i]);

        if (text && atoi(text) > 1)
            return bb_err(BB_EUSAGE,
                          "the launcher sets %s=%s, but MPI has 1 process; try: the mpirun of the MPI that busbar was "
                          "built with, or srun --mpi=pmix",
                          sizes[i], text);
    }
    if (claim)
        return bb_err(BB_EUSAGE,
                      "a launcher sets %s, but MPI has 1 process; try: the mpirun of the MPI that busbar was built "
                      "with; for a run of one process, unset that variable",
                      claim);
    return 0;
}

/*
 * Sets two parameters of Open MPI, unless the user has set them.
 * reachable=weighted: Open MPI 5 queries the kernel for the network interface between two processes of one host, gets
 * "loopback", and prints three lines per rank because loopback is not in its list. The component "weighted" does not
 * query the kernel.
 * async_mpi_finalize: otherwise MPI_Finalize begins with a fence through the launcher, which is not needed because the
 * ranks have already synchronized. mpirun of Open MPI 4 hangs or crashes if ranks end during the fence.
 */
static void calm_open_mpi(void)
{
    (void)setenv("OMPI_MCA_reachable", "weighted", 0);
    (void)setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
}

/* Calls MPI_Abort. MPI_Abort may call exit() in this process, so the exit guard is removed first. */
static void abort_mpi(int code)
{
    bb_exit_guard(NULL, NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* Watchdog hook that ends the job with MPI_Abort when the main thread is stuck. MPI_Abort may block too, but only
 * the separate thread on which hooks run. */
static void abort_stuck(void *arg, int rc)
{
    const struct timespec others_have_saved = {.tv_nsec = 200000000};

    (void)arg;
    nanosleep(&others_have_saved, NULL);
    abort_mpi(bb_exit_code(rc));
}

static int start_mpi(struct bb_world *w)
{
    int had, rc;

    bb_world_guard(w, "MPI_Init_thread");
    TRY(bb_mpi_failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &had), "MPI_Init_thread"));
    w->mpi = true;
    if (bb_launcher_waits_for_all())
        TRY(bb_world_at_end(w, abort_stuck, w));
    TRY(bb_mpi_failed(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(bb_mpi_failed(MPI_Comm_rank(MPI_COMM_WORLD, &w->rank), "MPI_Comm_rank"));
    TRY(bb_mpi_failed(MPI_Comm_size(MPI_COMM_WORLD, &w->size), "MPI_Comm_size"));
    rc = refuse_foreign_launcher(w->size);
out:
    bb_world_unguard(w);
    return rc;
}

/* Determines rank and size. With several ranks per process, only the first rank of each process uses MPI. A
 * single-process run does not use MPI, because MPI_Init would start a daemon and, if that fails, end the process. */
static int start_ranks(struct bb_world *w)
{
    struct bb_siblings *s = w->siblings;
    int rc = 0;

    if ((!s || s->place == 0) && !bb_launched_alone())
        TRY(start_mpi(w));
    if (!s)
        return 0;
    w->rank *= s->count;
    w->size *= s->count;
    TRY(bb_exchange_places(w));
out:
    return rc;
}

/* Determines this rank's node, its index on the node and the number of ranks on the node. */
static void find_place(struct bb_world *w)
{
    w->node = w->node_of[w->rank];
    for (int r = 0; r < w->size; r++) {
        w->local_rank += r < w->rank && w->node_of[r] == w->node;
        w->local_size += w->node_of[r] == w->node;
    }
}

static int find_hosts(struct bb_world *w)
{
    struct bb_machine machine, *all;
    int rc;

    bb_machine_find(&machine);
    memcpy(w->host, machine.host, sizeof(w->host));
    w->hosts = calloc((size_t)w->size, sizeof(*w->hosts));
    w->node_of = calloc((size_t)w->size, sizeof(*w->node_of));
    if (!w->hosts || !w->node_of)
        return bb_err(BB_EFAIL, "out of memory for the names of %d ranks", w->size);
    all = bb_world_gather(w, &machine, sizeof(machine), &rc);
    TRY(rc);
    for (int r = 0; r < w->size; r++)
        memcpy(w->hosts[r], all[r].host, sizeof(w->host));
    w->nodes = bb_nodes_number(all, w->size, w->node_of);
    find_place(w);
out:
    free(all);
    return rc;
}

/* Each backup reporter starts to listen and broadcasts its addresses. */
static int exchange_deputies(struct bb_world *w, const struct bb_siphash_key *token)
{
    struct bb_watchdog_deputies deputies;
    int rc = 0;

    bb_watchdog_choose_deputies(&deputies, w->size, w->node_of);
    for (int i = 0; i < deputies.n; i++) {
        if (deputies.rank[i] == w->rank)
            bb_watchdog_deputise(w->watchdog, w->nodes == 1, token, &deputies.at[i]);
        TRY(bb_world_bcast(w, &deputies.at[i], sizeof(deputies.at[i]), deputies.rank[i]));
    }
    bb_watchdog_know_deputies(w->watchdog, &deputies);
out:
    return rc;
}

static int start_watchdog(struct bb_world *w)
{
    struct bb_watchdog_endpoint ticket;
    int rc = 0;

    if (w->size == 1)
        return 0;
    if (w->rank == 0)
        TRY(bb_watchdog_serve(w->watchdog, w->size, w->hosts, w->nodes == 1, &ticket));
    TRY(bb_world_bcast(w, &ticket, sizeof(ticket), 0));
    if (w->rank != 0)
        bb_watchdog_join(w->watchdog, w->rank, w->size, w->hosts, &ticket);
    TRY(exchange_deputies(w, &ticket.token));
out:
    return rc;
}

/* Returns the number of ranks on this host per 16 processors, rounded down (w->crowd). With a thousand ranks on two
 * processors, polling every millisecond would use all CPU time. */
static int count_crowd(const struct bb_world *w)
{
    const long here = w->siblings ? w->siblings->count : bb_launcher_local_size();

    return (int)(here / (RANKS_PER_PROCESSOR * sysconf(_SC_NPROCESSORS_ONLN)));
}

/* Sets the rank and the host with which error lines begin until MPI is initialized, from the launcher's variables. */
static void identify_early(void)
{
    struct bb_machine machine;

    if (bb_launched_alone())
        return;
    bb_machine_find(&machine);
    bb_err_identify(bb_launcher_rank(), machine.host, -1);
}

int bb_world_init(struct bb_world *w, double timeout_s)
{
    int rc;

    *w = (struct bb_world){.size = 1, .timeout_s = timeout_s};
    bb_err_mute(0);
    TRY(bb_siblings_take(&w->siblings));
    w->crowd = count_crowd(w);
    if (!w->siblings || w->siblings->place == 0)
        bb_hydra_hold();
    identify_early();
    calm_open_mpi(); /* setenv() must precede the creation of the watchdog's thread */
    TRY(bb_watchdog_start(&w->watchdog, timeout_s));
    if (!w->siblings)
        bb_watchdog_see_neighbours(w->watchdog);
    bb_deadline_end();
    bb_world_reached(w, "starting MPI");
    TRY(start_ranks(w));
    bb_world_reached(w, "the exchange of host names");
    TRY(find_hosts(w));
    bb_err_identify(w->size > 1 ? w->rank : -1, w->host, -1);
    TRY(start_watchdog(w));
    bb_watchdog_met(w->watchdog);
    bb_world_reached(w, "the start of the run");
out:
    if (rc && !w->watchdog && !bb_launched_alone())
        bb_speaker_says(
            bb_speaker_take(bb_exit_code(rc))); /* mpirun ends the other ranks, which then find that the error was
                                                   already reported */
    return rc;
}

int bb_world_alone(struct bb_world *w, double timeout_s)
{
    *w = (struct bb_world){.size = 1, .timeout_s = timeout_s};
    return find_hosts(w);
}

/* ---- end ---- */

static int finalize_mpi(struct bb_world *w)
{
    int rc;

    bb_world_reached(w, "the end of MPI");
    bb_world_forget(w, abort_stuck, w);
    bb_world_guard(w, "MPI_Finalize");
    rc = bb_mpi_failed(MPI_Finalize(), "MPI_Finalize");
    bb_world_unguard(w);
    w->mpi = false;
    if (rc || w->size == 1)
        return rc;
    bb_world_reached(w, "the end of MPI on all ranks");
    bb_watchdog_depart(w->watchdog); /* waits for the other ranks, because MPI_Finalize may return before they call
                                        it */
    return bb_world_ending(w);
}

/* Synchronizes all ranks at the end of the run. No rank exits before, so until then a closed connection means a lost
 * rank. */
static int leave_together(struct bb_world *w)
{
    int rc;

    TRY(bb_world_barrier(w, "the end of the run"));
    bb_watchdog_leave(w->watchdog);
    rc = bb_world_ending(w);
out:
    return rc;
}

/* Ends the job with MPI_Abort. Hydra reliably returns only the code of MPI_Abort as the job's exit status, and reads
 * no output after MPI_Abort, so this function waits first. */
static void abort_under_hydra(int code)
{
    const struct timespec output_is_read = {.tv_nsec = 200000000};

    nanosleep(&output_is_read, NULL);
    abort_mpi(code);
}

/*
 * Ends all ranks after an error. Returns only if there are no other ranks. Normally each rank exits on its own with the
 * same code. If one rank called MPI_Abort, mpirun would kill the other ranks before they have saved their results, so
 * MPI_Abort is called only under Hydra, or if the watchdog cannot reach some ranks.
 */
static void end_everybody(struct bb_world *w, int rc)
{
    bool told;
    int code;

    if (!w->mpi && w->size == 1)
        bb_hydra_abort(bb_exit_code(rc));
    if (w->size == 1)
        return;
    fflush(stdout);
    told = bb_watchdog_fail(w->watchdog, bb_exit_code(rc));
    code = bb_exit_code(bb_world_ending(w) ? bb_world_ending(w) : rc);
    if (w->rank == 0 && w->mpi && bb_hydra_started_us())
        abort_under_hydra(code);
    if (w->rank == 0 && told && bb_launcher_waits_for_all())
        told = bb_watchdog_all_ended(w->watchdog);
    if (!told && w->mpi)
        abort_mpi(code);
    if (w->watchdog)
        bb_watchdog_end_neighbours(w->watchdog);
    bb_exit_process(code);
}

static int end_siblings(struct bb_world *w)
{
    int rc;

    bb_world_guard(w, "the end of the other ranks of this process");
    rc = bb_siblings_end(w->siblings);
    bb_world_unguard(w);
    return rc;
}

int bb_world_release(struct bb_world *w, int rc)
{
    int end_rc;

    if (rc < 0 && w->watchdog)
        bb_watchdog_spoken(w->watchdog, bb_exit_code(rc));
    if (rc >= 0 && w->size > 1)
        rc = leave_together(w);
    if (rc < 0)
        end_everybody(w, rc);
    if (rc >= 0 && w->siblings)
        rc = end_siblings(w);
    if (w->mpi && (end_rc = finalize_mpi(w)) < 0 && rc >= 0) {
        rc = end_rc;
        end_everybody(w, rc);
    }
    bb_siblings_release(w->siblings);
    bb_hydra_let_go();
    bb_watchdog_stop(w->watchdog);
    if (w->watchdog)
        bb_deadline_begin_exit(w->timeout_s, rc);
    free(w->hosts);
    free(w->node_of);
    *w = (struct bb_world){0};
    return rc;
}
