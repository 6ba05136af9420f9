/* local_job.c - finds the other supervisors of the job on this host in /proc, and exchanges signals with them. */
#include "bootstrap/supervise/local_job.h"

#include "bootstrap/start/launcher.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_TEXT = 64, STATUS_TEXT = 4096, VALUE_BITS = 24 };

int bb_local_signal(void)
{
    return SIGRTMIN + 7;
}

/* Returns the number after `key` in the text of /proc/PID/status; 0 if the key is absent. base: 10 or 16. */
static unsigned long long status_number(const char *text, const char *key, int base)
{
    const char *at = strstr(text, key);

    return at ? strtoull(at + strlen(key), NULL, base) : 0;
}

bool bb_local_is_suspended(pid_t pid)
{
    char text[STATUS_TEXT];

    bb_process_read(pid, "status", text, sizeof text);
    return strstr(text, "\nState:\tT") != NULL;
}

static bool has_same_program(pid_t pid)
{
    char path[PATH_TEXT];
    struct stat its, ours;

    snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
    return stat(path, &its) == 0 && stat("/proc/self/exe", &ours) == 0 && its.st_ino == ours.st_ino &&
           its.st_dev == ours.st_dev;
}

/* Returns whether process `pid` is a supervisor of this job: it has the parent `launcher`, this user and this program.
 * A supervisor that has just started and does not block the signal yet is skipped, because the signal would end it. */
static bool is_supervisor(pid_t pid, pid_t launcher)
{
    char text[STATUS_TEXT];

    bb_process_read(pid, "status", text, sizeof text);
    return (pid_t)status_number(text, "\nPPid:", 10) == launcher && status_number(text, "\nUid:", 10) == getuid() &&
           (status_number(text, "\nSigBlk:", 16) >> (bb_local_signal() - 1) & 1) && has_same_program(pid);
}

int bb_local_tell(pid_t launcher, enum bb_local_kind kind, int value)
{
    const union sigval both = {.sival_int = (int)kind << VALUE_BITS | (value & ((1 << VALUE_BITS) - 1))};
    DIR *processes = opendir("/proc");
    int n = 0;

    for (struct dirent *entry; processes && (entry = readdir(processes)) != NULL;) {
        const pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atol(entry->d_name) : 0;

        if (pid > 0 && pid != getpid() && is_supervisor(pid, launcher))
            n += sigqueue(pid, kind == BB_LOCAL_NOTHING ? 0 : bb_local_signal(), both) == 0;
    }
    if (processes)
        closedir(processes);
    return n;
}

bool bb_local_read(const struct signalfd_siginfo *info, enum bb_local_kind *kind, int *value)
{
    *kind = (enum bb_local_kind)(info->ssi_int >> VALUE_BITS);
    *value = info->ssi_int & ((1 << VALUE_BITS) - 1);
    return (int)info->ssi_signo == bb_local_signal() && info->ssi_code == SI_QUEUE && info->ssi_uid == getuid();
}
