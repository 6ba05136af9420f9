/*
 * text.c - error texts: for ncclGetLastError, and on stderr with NCCL_DEBUG.
 */
#include "comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The latest error of the process: an error on a helper thread must be visible to the caller's thread. */
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[EN_TEXT_BYTES];

static void remember(ncclComm_t comm, const char *text)
{
    pthread_mutex_lock(&last_lock);
    snprintf(last_text, sizeof(last_text), "%s", text);
    pthread_mutex_unlock(&last_lock);
    if (comm == NULL)
        return;
    pthread_mutex_lock(&comm->lock);
    snprintf(comm->error, sizeof(comm->error), "%s", text);
    pthread_mutex_unlock(&comm->lock);
}

static void warn(const char *text)
{
    const char *level = getenv("NCCL_DEBUG");
    char host[64] = "?";

    if (level == NULL || strcasecmp(level, "VERSION") == 0 || strcasecmp(level, "NONE") == 0)
        return;
    gethostname(host, sizeof(host) - 1);
    fprintf(stderr, "%s:%ld NCCL WARN %s\n", host, (long)getpid(), text);
}

ncclResult_t en_fail(ncclComm_t comm, ncclResult_t rc, const char *format, ...)
{
    char text[EN_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    remember(comm, text);
    warn(text);
    return rc;
}

/* Another rank may be writing the text at this time, which takes microseconds: waits for it. */
static const char *shared_text(ncclComm_t comm)
{
    struct en_head *head = comm->region.head;

    for (int i = 0; i < 100 && atomic_load(&head->error) == 1; i++)
        usleep(1000);
    return head->error_text;
}

/* The text of a broken communicator also becomes the latest error of this process. */
ncclResult_t en_report_broken(ncclComm_t comm)
{
    return en_fail(NULL, ncclInvalidUsage, "%s", shared_text(comm));
}

void en_comm_break(ncclComm_t comm, const char *format, ...)
{
    char text[EN_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (en_break(&comm->region, text))
        fprintf(stderr, "emulated NCCL: %s\n", text);
    en_report_broken(comm);
}

const char *en_last_error(ncclComm_t comm)
{
    static _Thread_local char text[EN_TEXT_BYTES]; /* thread-local, so that the pointer stays valid when other
                                                      threads fail */

    if (comm != NULL && en_broken(&comm->region)) {
        snprintf(text, sizeof(text), "%s", shared_text(comm));
        return text;
    }
    bool own = comm != NULL && en_comm_async(comm) > ncclSuccess && en_comm_async(comm) != ncclInProgress;
    pthread_mutex_t *lock = own ? &comm->lock : &last_lock;
    pthread_mutex_lock(lock);
    snprintf(text, sizeof(text), "%s", own ? comm->error : last_text);
    pthread_mutex_unlock(lock);
    return text;
}
