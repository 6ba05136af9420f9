/*
 * world_probe.c - the program that test_world.c, test_hangs.c and test_siblings.c start: world_probe MODE RANK TIMEOUT.
 * RANK fails as MODE describes while the other ranks wait for it. PROBE_SIBLINGS: number of ranks per supervisor.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/results/results.h"
#include "bootstrap/world/world.h"
#include "tests/bootstrap/probe_main.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct probe {
    struct bb_world world;
    struct bb_results *results;
    const char *mode;
    int rank;
    double signal_s; /* time at which rank `rank` sends SIGTERM to its supervisor */
};

static int never(void *arg)
{
    (void)arg;
    return 0;
}

static int never_but_signal(void *arg)
{
    struct probe *p = arg;

    if (p->rank == p->world.rank && bb_now_s() > p->signal_s) {
        p->signal_s += 1000;
        kill(getppid(), SIGTERM);
    }
    return 0;
}

/* Ranks contribute 1 .. n: checks maximum, minimum, sum and bitwise or. */
static int check_reductions(struct bb_world *w)
{
    size_t n = (size_t)w->size, smallest = (size_t)w->rank + 1;
    double largest[2] = {(double)smallest, -(double)smallest};
    unsigned long long sum = smallest;
    unsigned bits = 1u << w->rank;
    int rc;

    TRY(bb_world_max(w, largest, 2));
    TRY(bb_world_min(w, &smallest));
    TRY(bb_world_sum(w, &sum));
    TRY(bb_world_any(w, &bits));
    if (largest[0] != (double)n || largest[1] != -1 || smallest != 1 || sum != n * (n + 1) / 2 || bits != (1u << n) - 1)
        rc = bb_err(BB_EDATA, "reductions: %g %g %zu %llu %x", largest[0], largest[1], smallest, sum, bits);
out:
    return rc;
}

static int check_exchanges(struct bb_world *w)
{
    int all[w->size], mine = 100 + w->rank, root = w->rank == w->size - 1 ? 7 : 0, rc;

    TRY(bb_world_allgather(w, &mine, all, sizeof(mine)));
    for (int r = 0; r < w->size; r++)
        if (all[r] != 100 + r)
            return bb_err(BB_EDATA, "allgather: %d at %d", all[r], r);
    TRY(check_reductions(w));
    TRY(bb_world_bcast(w, &root, sizeof(root), w->size - 1));
    if (root != 7)
        return bb_err(BB_EDATA, "bcast: %d", root);
    if (w->nodes != 1 || w->local_rank != w->rank || w->local_size != w->size || strcmp(w->hosts[0], w->host) != 0)
        return bb_err(BB_EDATA, "placement: %d nodes, local %d of %d", w->nodes, w->local_rank, w->local_size);
    rc = bb_world_agree(w, w->rank == 1 ? -BB_EDATA : 0, "a test");
    return rc == (w->size > 1 ? -BB_EDATA : 0) ? 0 : bb_err(BB_EDATA, "agree: %d", rc);
out:
    return rc;
}

/* Prints the mean duration of a barrier, for manual measurements; no test uses it. */
static int time_barriers(struct bb_world *w)
{
    enum { TIMES = 1000 };
    double start_s = bb_now_s();
    int rc = 0;

    for (int i = 0; i < TIMES; i++)
        TRY(bb_world_barrier(w, "a timed barrier"));
    if (w->rank == 0)
        printf("barrier %.1f us\n", 1e6 * (bb_now_s() - start_s) / TIMES);
out:
    return rc;
}

static int print_cpus(void)
{
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        printf("%d CPUs\n", CPU_COUNT(&cpus));
    return 0;
}

static void die(void)
{
    raise(SIGKILL);
}

/* Fails as the mode describes. Returns if the mode concerns the main thread's later operations. */
static int inject_fault(struct probe *p)
{
    usleep(250000); /* until the supervisor has sent this step to the server */
    if (strcmp(p->mode, "exit") == 0)
        _exit(0);
    (void)signal(SIGSEGV, SIG_DFL); /* AddressSanitizer handles it */
    if (strcmp(p->mode, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(p->mode, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(p->mode, "stall") == 0)
        pause();
    if (strcmp(p->mode, "stop") == 0) /* rank and supervisor, as a scheduler does */
        kill(getppid(), SIGSTOP);
    if (strncmp(p->mode, "stop", 4) == 0)
        raise(SIGSTOP);
    if (strcmp(p->mode, "killparent") == 0)
        kill(getppid(), SIGKILL);
    if (strcmp(p->mode, "late") == 0 && atexit(die))
        return bb_err(BB_EFAIL, "atexit");
    if (strcmp(p->mode, "fail") == 0)
        return bb_err(BB_EDATA, "injected failure");
    if (strncmp(p->mode, "guard", 5) == 0) {
        bb_world_guard(&p->world, "a call that hangs");
        pause();
    }
    return 0;
}

static int run(struct probe *p)
{
    struct bb_world *w = &p->world;
    int rc;

    bb_world_reached(w, "probe warm-up");
    TRY(check_exchanges(w));
    TRY(bb_world_barrier(w, "the first barrier"));
    TRY(bb_results_row(p->results, json_pack("{s:i}", "row", 1)));
    bb_world_reached(w, "probe all_reduce 4 MiB");
    if (strcmp(p->mode, "time") == 0)
        return time_barriers(w);
    if ((p->rank == w->rank) != (strcmp(p->mode, "guards") == 0)) /* guards: all ranks but that one */
        TRY(inject_fault(p));
    if (strcmp(p->mode, "operation") == 0)
        return bb_world_wait(w, "an operation without end", never, NULL);
    p->signal_s = bb_now_s() + 0.3;
    if (strcmp(p->mode, "term") == 0)
        return bb_world_wait(w, "a signal", never_but_signal, p);
    TRY(bb_world_barrier(w, "the second barrier"));
    bb_world_reached(w, "probe all_reduce 8 MiB");
out:
    return rc;
}

static int run_rank(int argc, char **argv)
{
    struct probe p = {.mode = argc > 1 ? argv[1] : "ok", .rank = argc > 2 ? atoi(argv[2]) : -1};
    struct bb_results_head head = {
        .schema = "busbar.bench/1", .path = getenv("PROBE_JSON"), .out = stdout, .argc = argc, .argv = argv};
    int rc;

    if (strcmp(p.mode, "early") == 0) /* on all ranks */
        return bb_exit_code(bb_err(BB_EFAIL, "injected before the ranks are connected"));
    if (strcmp(p.mode, "cpus") == 0)
        return print_cpus();
    TRY(bb_world_init(&p.world, argc > 3 ? atof(argv[3]) : 60));
    TRY(bb_results_open(&p.results, &head, &p.world));
    TRY(run(&p));
out:
    rc = bb_results_close(p.results, rc);
    return bb_exit_code(bb_world_release(&p.world, rc));
}

int main(int argc, char **argv)
{
    const char *siblings = getenv("PROBE_SIBLINGS");

    return probe_main(argc, argv, siblings ? atoi(siblings) : 1, run_rank);
}
