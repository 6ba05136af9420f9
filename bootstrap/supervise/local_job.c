/* local_job.c - finds the other supervisors of the job on this host in /proc, and exchanges signals with them. */
#include "bootstrap/supervise/local_job.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_TEXT = 64, STATUS_TEXT = 4096, VALUE_BITS = 24 };

int bb_local_signal(void)
{
    return SIGRTMIN + 7;
}

/* Reads /proc/PID/status into `text`. Returns whether it could be read. */
static bool read_status(pid_t pid, char text[STATUS_TEXT])
{
    char path[PATH_TEXT];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    n = fread(text, 1, STATUS_TEXT - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

/* Returns the number after `key` in the text of /proc/PID/status, in the given base; 0 if it is absent. */
static unsigned long long status_number(const char *text, const char *key, int base)
{
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

static bool has_same_program(pid_t pid)
{
    char path[PATH_TEXT], its[PATH_MAX], ours[PATH_MAX];
    ssize_t n_its, n_ours = readlink("/proc/self/exe", ours, sizeof(ours));

    snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
    n_its = readlink(path, its, sizeof(its));
    return n_ours > 0 && n_its == n_ours && memcmp(its, ours, (size_t)n_ours) == 0;
}

/* Returns whether the process is a supervisor with this parent. It must block the signal, because the signal's default
 * action ends a process: a process that has just started does not block it yet. */
static bool is_supervisor(pid_t pid, pid_t launcher)
{
    char text[STATUS_TEXT];

    return read_status(pid, text) && (pid_t)status_number(text, "\nPPid:", 10) == launcher &&
           status_number(text, "\nUid:", 10) == getuid() &&
           (status_number(text, "\nSigBlk:", 16) >> (bb_local_signal() - 1) & 1) && has_same_program(pid);
}

typedef void visit_fn(pid_t pid, void *arg);

static void visit_supervisors(pid_t launcher, visit_fn *visit, void *arg)
{
    DIR *processes = opendir("/proc");

    for (struct dirent *entry; processes && (entry = readdir(processes)) != NULL;) {
        const pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atol(entry->d_name) : 0;

        if (pid > 0 && pid != getpid() && is_supervisor(pid, launcher))
            visit(pid, arg);
    }
    if (processes)
        closedir(processes);
}

static void send_value(pid_t pid, void *arg)
{
    (void)sigqueue(pid, bb_local_signal(), *(const union sigval *)arg);
}

void bb_local_tell(pid_t launcher, enum bb_local_kind kind, int value)
{
    union sigval both = {.sival_int = (int)kind << VALUE_BITS | (value & ((1 << VALUE_BITS) - 1))};

    visit_supervisors(launcher, send_value, &both);
}

bool bb_local_read(const struct signalfd_siginfo *info, enum bb_local_kind *kind, int *value)
{
    *kind = (enum bb_local_kind)(info->ssi_int >> VALUE_BITS);
    *value = info->ssi_int & ((1 << VALUE_BITS) - 1);
    return (int)info->ssi_signo == bb_local_signal() && info->ssi_code == SI_QUEUE && info->ssi_uid == getuid();
}

static void count_one(pid_t pid, void *arg)
{
    (void)pid;
    ++*(int *)arg;
}

int bb_local_count(pid_t launcher)
{
    int n = 1;

    visit_supervisors(launcher, count_one, &n);
    return n;
}
