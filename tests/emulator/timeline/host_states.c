/*
 * host_states.c - the states of the hosts of a timeline. A running host bounds the simulated time. A waiting host runs
 * again when the end of its wait is known. A host whose process has ended releases all that it held. See timeline.h.
 */
#include "state.h"

#include "bootstrap/base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_S 0.25 /* longest sleep of a host without a wake-up */

static void set_host(struct emu_timeline *t, int host, enum tl_host_state state)
{
    struct tl_host *h = &t->hosts[host];

    t->b->n_live += (state != TL_GONE) - (h->state != TL_GONE);
    t->b->n_away += (state == TL_AWAY) - (h->state == TL_AWAY);
    h->state = state;
    h->active_s = bb_now_s();
    t->bounds[host] = state == TL_RUNNING ? t->clocks[host] : INFINITY;
}

/* Marks the start barriers of a waiting host for a check. */
void tl_check_start_barriers(struct emu_timeline *t, int host)
{
    if (t->hosts[host].start_barriers > 0 && t->hosts[host].state == TL_WAITING)
        t->b->start_barriers_due = t->b->start_barriers_due == 0 || t->b->start_barriers_due == host ? host : -1;
}

void tl_release_host(struct emu_timeline *t, int host, double when_ns)
{
    t->clocks[host] = fmax(t->clocks[host], when_ns);
    set_host(t, host, TL_RUNNING);
}

/* The simulated time may not pass this time, because a running host could still issue something. */
double tl_horizon_ns(const struct emu_timeline *t)
{
    double ns = INFINITY;

    for (int h = 1; h <= t->b->hosts.n; h++)
        ns = t->bounds[h] < ns ? t->bounds[h] : ns;
    return ns;
}

void emu_timeline_run_host(struct emu_timeline *t, int host, double clock_ns)
{
    tl_release_host(t, host, clock_ns);
}

static void resume_away_hosts(struct emu_timeline *t, bool only_polling)
{
    for (int h = 1; h <= t->b->hosts.n; h++)
        if (t->hosts[h].state == TL_AWAY && (t->hosts[h].polls || !only_polling))
            set_host(t, h, TL_RUNNING);
}

void emu_timeline_end_wait(struct emu_timeline *t, int host, double clock_ns)
{
    atomic_fetch_add(&t->b->returns, 1);
    resume_away_hosts(t, true);
    tl_release_host(t, host, clock_ns);
}

static void wait_for(struct emu_timeline *t, int host, int lane, double clock_ns)
{
    t->clocks[host] = fmax(t->clocks[host], clock_ns);
    set_host(t, host, TL_WAITING);
    t->hosts[host].lane = lane;
    t->hosts[host].any_step = false;
    tl_check_start_barriers(t, host);
}

void emu_timeline_wait_moment(struct emu_timeline *t, int host, int moment, double clock_ns)
{
    if (t->moments[moment].known)
        return;
    wait_for(t, host, TL_A_MOMENT, clock_ns);
    t->moments[moment].host = host;
}

void emu_timeline_wait_lane(struct emu_timeline *t, int host, int lane, double clock_ns)
{
    if (lane > 0 ? t->lanes[lane].first != 0 : t->hosts[host].n_steps > 0)
        wait_for(t, host, lane > 0 ? lane : TL_ALL_LANES, clock_ns);
}

void emu_timeline_wait_step(struct emu_timeline *t, int host, int lane, double clock_ns)
{
    emu_timeline_wait_lane(t, host, lane, clock_ns);
    t->hosts[host].any_step = t->hosts[host].state == TL_WAITING;
}

void emu_timeline_await_hosts(struct emu_timeline *t, int host, bool polls)
{
    set_host(t, host, TL_AWAY);
    t->hosts[host].polls = polls;
    if (t->b->n_away == t->b->n_live && t->b->n_live > 1)
        resume_away_hosts(t, false);
}

uint32_t emu_timeline_returns(const struct emu_timeline *t)
{
    return atomic_load(&t->b->returns);
}

void emu_timeline_lose_host(struct emu_timeline *t, int host)
{
    set_host(t, host, TL_LOST);
}

bool emu_timeline_is_running(const struct emu_timeline *t, int host)
{
    return t->hosts[host].state == TL_RUNNING;
}

bool emu_timeline_has_lost(const struct emu_timeline *t, int host)
{
    return t->hosts[host].state == TL_LOST;
}

enum emu_rank_claim emu_timeline_add_host(struct emu_timeline *t, int pid, int rank, int *host)
{
    for (int h = 1; h <= t->b->hosts.n; h++)
        if (t->hosts[h].rank == rank)
            return tl_has_ended(&t->hosts[h]) ? EMU_RANK_LEFT : EMU_RANK_TAKEN;
    *host = TL_TAKE(t, hosts, TL_HOSTS);
    t->hosts[*host].pid = pid;
    t->hosts[*host].rank = rank;
    set_host(t, *host, TL_RUNNING);
    return EMU_RANK_CLAIMED;
}

void emu_timeline_remove_host(struct emu_timeline *t, int host)
{
    while (t->hosts[host].first_lane != 0)
        emu_timeline_remove_lane(t, t->hosts[host].first_lane);
    set_host(t, host, TL_GONE);
}

bool emu_timeline_is_stuck(const struct emu_timeline *t)
{
    return t->b->n_events == 0 && tl_horizon_ns(t) == INFINITY;
}

uint32_t emu_timeline_wakeups(struct emu_timeline *t, int host)
{
    return atomic_load(&t->hosts[host].doorbell);
}

void emu_timeline_sleep(struct emu_timeline *t, int host, uint32_t seen)
{
    struct tl_host *h = &t->hosts[host];
    const struct timespec slice = {.tv_nsec = (long)(SLEEP_S * 1e9)};

    atomic_fetch_add(&h->asleep, 1);
    if (atomic_load(&h->doorbell) == seen)
        syscall(SYS_futex, (uint32_t *)&h->doorbell, FUTEX_WAIT, seen, &slice, NULL, 0);
    atomic_fetch_sub(&h->asleep, 1);
}

void emu_timeline_wake(struct emu_timeline *t, int host)
{
    struct tl_host *h = &t->hosts[host];

    atomic_fetch_add(&h->doorbell, 1);
    if (atomic_load(&h->asleep) > 0)
        syscall(SYS_futex, (uint32_t *)&h->doorbell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- start barriers: kernels that wait for the host ---- */

static bool is_inactive(const struct emu_timeline *t, int host)
{
    for (int lane = t->hosts[host].first_lane; lane != 0; lane = t->lanes[lane].next_of_host)
        if (t->lanes[lane].scheduled || tl_moves(t, lane))
            return false;
    return true;
}

/* A host that waits while none of its other operations can progress has released its start barrier: its start
 * barrier kernels end. */
static void open_start_barriers_of(struct emu_timeline *t, int host)
{
    if (t->hosts[host].start_barriers == 0 || t->hosts[host].state != TL_WAITING || !is_inactive(t, host))
        return;
    for (int lane = t->hosts[host].first_lane, next; lane != 0; lane = next) {
        next = t->lanes[lane].next_of_host;
        if (t->lanes[lane].phase != TL_AT_START_BARRIER)
            continue;
        t->hosts[host].start_barriers--;
        tl_finish(t, lane, fmax(t->lanes[lane].begun_ns, t->clocks[host]));
    }
}

void tl_open_start_barriers(struct emu_timeline *t)
{
    const int due = t->b->start_barriers_due;

    t->b->start_barriers_due = 0;
    if (due > 0)
        open_start_barriers_of(t, due);
    for (int h = 1; due < 0 && h <= t->b->hosts.n; h++)
        open_start_barriers_of(t, h);
}
