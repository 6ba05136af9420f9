/*
 * host_checks.c - finds the hosts whose process has ended, and the hosts that wait for something outside the timeline
 * without reporting it. See timeline.h.
 */
#include "state.h"

#include "bootstrap/base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { IDLE_CHECKS = 2 };

bool tl_has_ended(const struct tl_host *host)
{
    return host->state == TL_GONE || (kill(host->pid, 0) != 0 && errno == ESRCH);
}

/* Reads the state of the first thread of a process and the time for which it has run on a processor: proc_pid_stat(5),
 * fields 3, 14 and 15. Returns false if the process has ended or if /proc is not mounted. */
static bool read_first_thread(int pid, char *state, double *cpu_s)
{
    char path[64], line[1024] = "", *end;
    unsigned long user = 0, system = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, pid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    end = fgets(line, sizeof(line), file) != NULL ? strrchr(line, ')') : NULL; /* the name may contain spaces and ')' */
    fclose(file);
    if (end == NULL || sscanf(end, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", state, &user, &system) != 3)
        return false;
    *cpu_s = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    return true;
}

/*
 * Whether a running host waits without reporting it: it has called nothing since the last checks, and its first thread
 * was asleep at IDLE_CHECKS checks in a row, or has polled for patience_s of processor time. On a loaded machine a host
 * may be silent for seconds because it gets no processor (state R) or waits for a disk (state D). The checks are counted
 * because the clock also passes while the whole machine is suspended.
 */
static bool waits_unreported(struct tl_host *host, double patience_s)
{
    double cpu_s = 0;
    char state = 'S';

    if (!read_first_thread(host->pid, &state, &cpu_s))
        state = 'S';
    if (host->checked_active_s != host->active_s) {
        host->checked_active_s = host->active_s;
        host->first_cpu_s = host->cpu_s = cpu_s;
        host->idle_checks = 0;
        return false;
    }
    host->idle_checks = state == 'R' || state == 'D' || cpu_s != host->cpu_s ? 0 : host->idle_checks + 1;
    host->cpu_s = cpu_s;
    return host->idle_checks >= IDLE_CHECKS || cpu_s - host->first_cpu_s > patience_s;
}

void emu_timeline_check_hosts(struct emu_timeline *t, double patience_s)
{
    const double now_s = bb_now_s();

    if (now_s - t->b->checked_s < patience_s / IDLE_CHECKS)
        return;
    t->b->checked_s = now_s;
    for (int h = 1; h <= t->b->hosts.n; h++) {
        struct tl_host *host = &t->hosts[h];

        if (host->state == TL_GONE)
            continue;
        if (tl_has_ended(host))
            emu_timeline_remove_host(t, h);
        else if (host->state == TL_RUNNING && waits_unreported(host, patience_s))
            emu_timeline_lose_host(t, h);
    }
}
