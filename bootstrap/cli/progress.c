/* progress.c - see progress.h. */
#include "bootstrap/cli/progress.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- printing; the caller holds the lock of struct bb_progress ---- */

enum { TIME_LEFT_TEXT = 96, LONG_S = 30, MAX_FACTOR = 16 };

/* Returns ", about 40 s left", or "" if the remaining time is unknown: less than 1 / MAX_FACTOR of the work is done. The
 * rate is that until the last advance, so that the estimate does not grow during a step. */
static const char *format_time_left(const struct bb_progress *p, char text[TIME_LEFT_TEXT])
{
    double s = p->done > 0 && MAX_FACTOR * p->done >= p->total && p->done < p->total
                   ? (p->advance_s - p->phase_start_s) * (p->total - p->done) / p->done - (bb_now_s() - p->advance_s)
                   : 0;
    const char *data = getenv("EMU_DATA");

    text[0] = '\0';
    if (s >= 7200)
        snprintf(text, TIME_LEFT_TEXT, ", about %.1f h left", s / 3600);
    else if (s >= 120)
        snprintf(text, TIME_LEFT_TEXT, ", about %.0f min left", s / 60);
    else if (s >= 1)
        snprintf(text, TIME_LEFT_TEXT, ", about %.0f s left", s);
    if (s > LONG_S && bb_environment_is_emulated() && (!data || strcmp(data, "off") != 0))
        snprintf(text + strlen(text), TIME_LEFT_TEXT - strlen(text), " (faster without data: EMU_DATA=off)");
    return text;
}

/* ---- thread that prints one line every period_s seconds ---- */

static struct timespec time_after(double seconds)
{
    struct timespec t;
    long long ns;

    clock_gettime(CLOCK_MONOTONIC, &t);
    ns = t.tv_nsec + (long long)(seconds * 1e9);
    return (struct timespec){.tv_sec = t.tv_sec + ns / 1000000000, .tv_nsec = ns % 1000000000};
}

/* Prints the progress as comment lines ('#'), so that a table remains readable when stdout and stderr go to the same
 * file. */
static void *write_lines(void *arg)
{
    struct bb_progress *p = arg;
    char left[TIME_LEFT_TEXT];

    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        const struct timespec next = time_after(p->period_s);
        int rc = 0;

        while (rc == 0 && !p->stopping)
            rc = pthread_cond_timedwait(&p->wake, &p->lock, &next);
        if (p->stopping || !p->text[0])
            continue;
        fprintf(stderr, "# at %.0f s: %s%s\n", bb_now_s() - p->begin_s, p->text, format_time_left(p, left));
        fflush(stderr);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Starts the thread that prints the lines. All signals are blocked in that thread, so that the main thread receives
 * the signals. Returns false if the thread cannot be started; then no progress is printed. */
static bool start_thread(struct bb_progress *p)
{
    pthread_condattr_t monotonic;
    sigset_t all, before;
    int rc;

    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&p->thread, NULL, write_lines, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

static void lock(struct bb_progress *p)
{
    if (p->has_thread)
        pthread_mutex_lock(&p->lock);
}

static void unlock(struct bb_progress *p)
{
    if (p->has_thread)
        pthread_mutex_unlock(&p->lock);
}

/* ---- start and end ---- */

static double read_period(void)
{
    enum { DEFAULT_S = 10 };
    const char *text = getenv("BUSBAR_PROGRESS");
    double seconds = DEFAULT_S;

    if (text && (bb_parse_double(text, &seconds) != 0 || seconds < 0 || seconds > 1e6)) {
        bb_warn("BUSBAR_PROGRESS='%s' is invalid, expected seconds from 0 to 1e6; using %d", text, DEFAULT_S);
        seconds = DEFAULT_S;
    }
    return seconds;
}

void bb_progress_init(struct bb_progress *p, int rank, bool quiet)
{
    const bool wanted = rank == 0 && !quiet, terminal = wanted && isatty(STDERR_FILENO);

    *p = (struct bb_progress){.on = terminal, .begin_s = bb_now_s()};
    p->period_s = wanted && !terminal ? read_period() : 0;
    if (p->period_s > 0)
        p->on = p->has_thread = start_thread(p);
}

void bb_progress_end(struct bb_progress *p)
{
    if (!p->on)
        return;
    bb_progress_clear(p);
    if (p->has_thread) {
        pthread_mutex_lock(&p->lock);
        p->stopping = true;
        pthread_cond_signal(&p->wake);
        pthread_mutex_unlock(&p->lock);
        pthread_join(p->thread, NULL);
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->lock);
    }
    p->on = p->has_thread = false;
}

/* ---- updates by the caller ---- */

void bb_progress_show(struct bb_progress *p, const char *fmt, ...)
{
    char left[TIME_LEFT_TEXT];
    va_list args;

    if (!p->on || (p->is_shown && bb_now_s() - p->last_s < 0.1))
        return;
    lock(p);
    va_start(args, fmt);
    vsnprintf(p->text, sizeof p->text, fmt, args);
    va_end(args);
    if (!p->has_thread) { /* a terminal: overwrite the line */
        fprintf(stderr, "\r\033[K%s%s", p->text, format_time_left(p, left));
        fflush(stderr);
        p->is_shown = true;
        p->last_s = bb_now_s();
    }
    unlock(p);
}

void bb_progress_clear(struct bb_progress *p)
{
    if (!p->on)
        return;
    lock(p);
    p->text[0] = '\0';
    if (p->is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        p->is_shown = false;
    }
    unlock(p);
}

void bb_progress_expect(struct bb_progress *p, double total)
{
    if (!p->on)
        return;
    lock(p);
    p->total = total;
    p->done = 0;
    p->phase_start_s = bb_now_s();
    unlock(p);
}

void bb_progress_advance(struct bb_progress *p, double amount)
{
    if (!p->on)
        return;
    lock(p);
    p->done += amount;
    p->advance_s = bb_now_s();
    unlock(p);
}
