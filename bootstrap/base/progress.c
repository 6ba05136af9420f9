/* progress.c - the line that is overwritten. */
#include "bootstrap/base/progress.h"

#include "bootstrap/base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void bb_progress_init(struct bb_progress *p, int rank, bool quiet)
{
    *p = (struct bb_progress){.on = rank == 0 && !quiet && isatty(STDERR_FILENO)};
}

void bb_progress_show(struct bb_progress *p, const char *fmt, ...)
{
    va_list args;
    double now_s = bb_now_s();

    if (!p->on || (p->shown && now_s - p->last_s < 0.1))
        return;
    fputs("\r\033[K", stderr);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fflush(stderr);
    p->shown = true;
    p->last_s = now_s;
}

void bb_progress_clear(struct bb_progress *p)
{
    if (!p->shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->shown = false;
}
