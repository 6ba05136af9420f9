/*
 * world.c - start and end of the ranks, and reductions over all ranks. MPI is used only to determine the ranks, for
 * bcast, allgather and barrier, and to end the job. All waits poll non-blocking requests with the timeout of world.h.
 */
#include "bootstrap/world/world.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/world/exchange.h"
#include "bootstrap/world/nodes.h"
#include "bootstrap/world/siblings.h"

#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- gather, reductions and agreement of all ranks ---- */

void *bb_world_gather(struct bb_world *w, const void *own, size_t bytes, int *rc)
{
    char *all;

    BB_NEW(all, (size_t)w->size * bytes);
    *rc = bb_world_allgather(w, own, all, bytes);
    if (*rc == 0)
        return all;
    free(all);
    return NULL;
}

int bb_world_max(struct bb_world *w, double *values, size_t n)
{
    int rc;
    double *all = bb_world_gather(w, values, n * sizeof(*values), &rc);

    for (size_t i = 0; all && i < (size_t)w->size * n; i++)
        values[i % n] = fmax(values[i % n], all[i]);
    free(all);
    return rc;
}

int bb_world_min(struct bb_world *w, size_t *value)
{
    int rc;
    size_t *all = bb_world_gather(w, value, sizeof(*value), &rc);

    for (int r = 0; all && r < w->size; r++)
        if (all[r] < *value)
            *value = all[r];
    free(all);
    return rc;
}

int bb_world_sum(struct bb_world *w, unsigned long long *value)
{
    int rc;
    unsigned long long *all = bb_world_gather(w, value, sizeof(*value), &rc);

    for (int r = 0; all && r < w->size; r++)
        *value += r == w->rank ? 0 : all[r];
    free(all);
    return rc;
}

int bb_world_any(struct bb_world *w, unsigned *bits)
{
    int rc;
    unsigned *all = bb_world_gather(w, bits, sizeof(*bits), &rc);

    for (int r = 0; all && r < w->size; r++)
        *bits |= all[r];
    free(all);
    return rc;
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

/* Returns -BB_EUSAGE after an error message if the launcher started several processes but MPI has only one. In that
 * case the launcher belongs to another MPI, and every process would run as a separate job. processes: size of
 * MPI_COMM_WORLD. */
static int refuse_foreign_launcher(int processes)
{
    const char *claim = processes > 1 ? NULL : bb_launcher_claim();

    if (claim)
        return bb_err(BB_EUSAGE,
                      "the launcher sets %s, but MPI has 1 process; try: the mpirun of the MPI that busbar was built "
                      "with, or srun --mpi=pmix; without MPI on one node: -g GPUS with that variable unset",
                      claim);
    return 0;
}

/*
 * Sets two parameters of Open MPI, unless the user has set them.
 * reachable=weighted: by default, Open MPI 5 queries the kernel for the network interface between two processes of one
 * host, gets "loopback", and prints three warnings per rank because loopback is not in its list of interfaces. The
 * component "weighted" does not query the kernel.
 * async_mpi_finalize: otherwise MPI_Finalize begins with a fence through the launcher, which is not needed because the
 * ranks have already synchronized. mpirun of Open MPI 4 hangs or crashes if ranks end during the fence.
 */
static void calm_open_mpi(void)
{
    (void)setenv("OMPI_MCA_reachable", "weighted", 0);
    (void)setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
}

static int start_mpi(struct bb_world *w)
{
    int had, rc;

    bb_world_guard(w, "MPI_Init_thread");
    if (bb_world_is_supervised(w))
        atomic_store(&w->supervised.page->mpi_used, true);
    TRY(bb_mpi_failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &had), "MPI_Init_thread"));
    w->mpi = true;
    TRY(bb_mpi_failed(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    TRY(bb_mpi_failed(MPI_Comm_rank(MPI_COMM_WORLD, &w->rank), "MPI_Comm_rank"));
    TRY(bb_mpi_failed(MPI_Comm_size(MPI_COMM_WORLD, &w->size), "MPI_Comm_size"));
    rc = refuse_foreign_launcher(w->size);
out:
    bb_world_unguard(w);
    return rc;
}

/* Determines rank and size. With several ranks per supervisor, only the first of them uses MPI. Ranks that are started
 * again do not, because MPI works only with all processes that the launcher started. A run with one launched process
 * does not use MPI, because MPI_Init would start a daemon and would end the process if that fails. */
static int start_ranks(struct bb_world *w)
{
    struct bb_siblings *s = w->siblings;
    int rc = 0;

    if (bb_supervised_world_left(&w->supervised, &w->rank, &w->size)) {
        w->restarted = w->relayed = true;
        w->rank += s ? s->place : 0;
        return 0;
    }
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

static int find_hosts(struct bb_world *w, const struct bb_machine *machine)
{
    struct bb_machine *all;
    int rc;

    memcpy(w->host, machine->host, sizeof(w->host));
    BB_NEW(w->hosts, w->size);
    BB_NEW(w->node_of, w->size);
    all = bb_world_gather(w, machine, sizeof(*machine), &rc);
    TRY(rc);
    for (int r = 0; r < w->size; r++)
        memcpy(w->hosts[r], all[r].host, sizeof(w->host));
    w->nodes = bb_nodes_number(all, w->size, w->node_of);
    find_place(w);
out:
    free(all);
    return rc;
}

/* Arguments of answer_ready. */
struct answer {
    struct bb_supervised *supervised;
    struct bb_star_endpoint *endpoint; /* out, content of the answer; NULL: the answer has no content */
};

/* Receives an answer of the supervisor; a function for bb_world_wait. */
static int answer_ready(void *arg)
{
    const struct answer *answer = arg;

    return bb_supervised_answer(answer->supervised, answer->endpoint, answer->endpoint ? sizeof(*answer->endpoint) : 0);
}

/* Connects the supervisors: each supervisor sends its rank the addresses at which it listens, MPI broadcasts the
 * addresses of the two servers (endpoint.h), and each rank passes these to its supervisor. */
static int connect_supervisors(struct bb_world *w)
{
    const int first = w->siblings ? w->siblings->count : 1;
    const int servers[BB_STAR_SERVERS] = {0, bb_star_backup(w->size, w->node_of, first)};
    struct bb_star_endpoint endpoints[BB_STAR_SERVERS] = {{.n = 0}}, own;
    struct answer answer = {.supervised = &w->supervised, .endpoint = &own};
    int rc = 0;

    if (!bb_world_is_supervised(w) || w->restarted) /* then they are connected */
        return 0;
    TRY(bb_supervised_world(&w->supervised, w->rank, w->size, w->nodes, w->node_of, w->hosts,
                            (size_t)w->size * sizeof(*w->hosts)));
    TRY(bb_world_wait(w, "the supervisor of this rank", answer_ready, &answer));
    for (int i = 0; i < BB_STAR_SERVERS && servers[i] >= 0 && w->size > 1; i++) {
        if (servers[i] == w->rank)
            endpoints[i] = own;
        TRY(bb_world_bcast(w, &endpoints[i], sizeof(endpoints[i]), servers[i]));
    }
    TRY(bb_supervised_join(&w->supervised, endpoints));
    answer.endpoint = NULL;
    TRY(bb_world_wait(w, "the connection between the supervisors", answer_ready, &answer));
out:
    return rc;
}

enum { RANKS_PER_PROCESSOR = 16 };

/* Returns w->crowd, by which waits sleep longer if this host has many ranks per processor: with a thousand ranks on two
 * processors, polling every millisecond would use all CPU time. */
static int count_crowd(const struct bb_world *w)
{
    const long here = w->siblings ? w->siblings->count : bb_launcher_local_size();

    return (int)(here / (RANKS_PER_PROCESSOR * sysconf(_SC_NPROCESSORS_ONLN)));
}

int bb_world_init(struct bb_world *w, double timeout_s)
{
    struct bb_machine machine;
    int rc;

    bb_machine_find(&machine);
    *w = (struct bb_world){.size = 1, .timeout_s = timeout_s, .supervised = {.socket.fd = -1, .results_fd = -1}};
    bb_err_mute(0);
    TRY(bb_siblings_take(&w->siblings));
    w->crowd = count_crowd(w);
    if (!bb_launched_alone()) /* until MPI is initialized, error lines name the rank in the launcher's variables */
        bb_err_identify(bb_launcher_rank(), machine.host, -1);
    calm_open_mpi();
    (void)bb_supervised_open(&w->supervised, timeout_s);
    bb_world_reached(w, "starting MPI");
    TRY(start_ranks(w));
    bb_world_reached(w, "the exchange of host names");
    TRY(find_hosts(w, &machine));
    bb_err_identify(w->restarted ? bb_launcher_rank() : w->size > 1 ? w->rank : -1, w->host, -1);
    TRY(connect_supervisors(w));
    bb_world_reached(w, "the start of the run");
out:
    return rc;
}

int bb_world_alone(struct bb_world *w, double timeout_s)
{
    struct bb_machine machine;

    bb_machine_find(&machine);
    *w = (struct bb_world){.size = 1, .timeout_s = timeout_s, .supervised = {.socket.fd = -1, .results_fd = -1}};
    return find_hosts(w, &machine);
}

/* ---- end ---- */

static int finalize_mpi(struct bb_world *w)
{
    int rc;

    bb_world_reached(w, "the end of MPI");
    bb_world_guard(w, "MPI_Finalize");
    rc = bb_mpi_failed(MPI_Finalize(), "MPI_Finalize");
    bb_world_unguard(w);
    w->mpi = false;
    return rc ? rc : bb_world_ending(w);
}

enum { RELAYED_MAX = 1024 }; /* ranks; the supervisor of rank 0 sends the data of all ranks to each of them */

int bb_world_restart_after_loss(struct bb_world *w)
{
    int rc = 0;

    TRY(bb_world_barrier(w, "the records of all ranks"));
    if (bb_launcher_ends_with_rank() && bb_world_is_supervised(w) && w->size <= RELAYED_MAX) {
        if (w->mpi)
            TRY(finalize_mpi(w));
        atomic_store(&w->supervised.page->mpi_used, false);
        w->relayed = true;
    }
    bb_supervised_restarts(&w->supervised, true);
out:
    return rc;
}

bool bb_world_can_leave(const struct bb_world *w)
{
    return bb_world_is_supervised(w) && (!bb_launcher_ends_with_rank() || w->size <= RELAYED_MAX);
}

int bb_world_leave(struct bb_world *w, const char *why)
{
    int rc;

    if (why && w->supervised.page)
        bb_rank_page_leave(w->supervised.page, why);
    TRY(bb_world_barrier(w, "the reasons of the ranks that leave")); /* rank 0 can restart, and they leave at once */
    if (why)
        (void)raise(SIGKILL); /* calls of MPI and NCCL have no other end while ranks of the job remain */
    rc = bb_world_barrier(w, "the restart without the ranks that leave");
out:
    return rc;
}

/*
 * Ends all ranks after an error. Returns only if there are no other ranks. With supervisors, these end the job, because
 * after MPI_Abort the launcher would kill all processes before the results are saved.
 */
static void end_everybody(struct bb_world *w, int rc)
{
    if (w->size == 1)
        return;
    if (bb_world_is_supervised(w))
        bb_supervised_fail(&w->supervised, bb_exit_code(bb_world_ending(w) ? bb_world_ending(w) : rc));
    fflush(stdout);
    if (w->mpi)
        MPI_Abort(MPI_COMM_WORLD, bb_exit_code(rc));
    _exit(bb_exit_code(rc));
}

int bb_world_release(struct bb_world *w, int rc)
{
    int end_rc;

    if (rc >= 0 && w->size > 1)
        rc = bb_world_barrier(w, "the end of the run");
    if (rc < 0)
        end_everybody(w, rc);
    if (w->mpi && (end_rc = finalize_mpi(w)) < 0 && rc >= 0) {
        rc = end_rc;
        end_everybody(w, rc);
    }
    bb_siblings_release(w->siblings);
    bb_supervised_close(&w->supervised);
    free(w->hosts);
    free(w->node_of);
    *w = (struct bb_world){.supervised = {.socket.fd = -1, .results_fd = -1}};
    return rc;
}
