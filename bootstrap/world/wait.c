/* wait.c - waits with the timeout of the run, and the rank's reports about its progress (world.h). This file uses no
 * MPI, because the program busbar, which is not linked with MPI, also contains it. */
#include "bootstrap/base/clock.h"
#include "bootstrap/world/world.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static const double STOPPED_S = 1.5; /* a longer time in seconds between two polls (normally a few ms) shows that the
                                        process was suspended */

/* Microseconds. YIELD: waits poll without sleeping for this time, or with bb_world_prompt for YIELD_PROMPT; then they
 * sleep between polls, from SLEEP_FIRST up to SLEEP_LAST. SAY: a longer wait is reported to the supervisor by name. */
enum { YIELD_US = 200, YIELD_PROMPT_US = 1000000, SLEEP_FIRST_US = 20, SLEEP_LAST_US = 1000, SAY_US = 50000 };

/* Pauses between two polls. During the first yield_us microseconds of a wait, yields the CPU, because most waits are
 * short and the awaited process may need this core; then sleeps, for intervals that grow to last_us. waited_s: duration
 * of the wait so far; sleep_us: in and out, length of the next sleep. */
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

/* Reports that the wait `what` timed out. Returns the negative code with which the run ends. */
static int report_timeout(struct bb_world *w, const char *what)
{
    if (bb_world_is_supervised(w))
        return bb_supervised_expired(&w->supervised, what);
    return bb_err(BB_ETIMEOUT, "timeout: %s did not end within %g s", what, w->timeout_s);
}

int bb_world_wait(struct bb_world *w, const char *what, bb_ready *ready, void *arg)
{
    double start_s = bb_now_s(), waited_s = 0;
    const int yield_us = w->prompt ? YIELD_PROMPT_US : YIELD_US;
    long sleep_us = SLEEP_FIRST_US;
    bool said = false;
    int rc;

    bb_supervised_moved(&w->supervised);
    while ((rc = ready(arg)) == 0 && (rc = bb_world_ending(w)) == 0) {
        if (waited_s > w->timeout_s)
            return report_timeout(w, what);
        if (!said && waited_s > 1e-6 * SAY_US) {
            bb_supervised_waiting(&w->supervised, what, false);
            said = true;
        }
        pause_after(waited_s, yield_us, (1 + w->crowd) * SLEEP_LAST_US, &sleep_us);
        waited_s = waited_since(&start_s, waited_s);
    }
    if (said && rc > 0)
        bb_supervised_waiting(&w->supervised, NULL, false);
    else
        bb_supervised_moved(&w->supervised);
    return rc < 0 ? rc : 0;
}

void bb_world_prompt(struct bb_world *w, bool on)
{
    w->prompt = on && w->local_size <= sysconf(_SC_NPROCESSORS_ONLN);
}

void bb_world_guard(struct bb_world *w, const char *what)
{
    bb_supervised_waiting(&w->supervised, what, true);
}

void bb_world_unguard(struct bb_world *w)
{
    bb_supervised_waiting(&w->supervised, NULL, false);
}

int bb_world_guarded(struct bb_world *w, int rc)
{
    bb_world_unguard(w);
    return rc;
}

int bb_world_ending(const struct bb_world *w)
{
    return bb_supervised_ending(&w->supervised);
}

void bb_world_reached(struct bb_world *w, const char *fmt, ...)
{
    char step[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(step, sizeof(step), fmt, args);
    va_end(args);
    bb_supervised_reached(&w->supervised, step);
}
