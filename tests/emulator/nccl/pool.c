/*
 * pool.c - helper threads for non-blocking communicators. An idle thread takes the next work item; if none is idle, a
 * new thread is started, because an item may block for as long as a peer is missing.
 */
#include "group.h"

#include <errno.h>
#include <stdlib.h>

struct piece {
    struct piece *next;
    void (*fn)(void *);
    void *arg;
};

/* State of the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct piece *pieces;
static int idle;
static pthread_once_t forks = PTHREAD_ONCE_INIT;

/* A fork() child has none of the threads. */
static void start_over(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&more, NULL);
    pieces = NULL;
    idle = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, start_over);
}

static struct piece *next_piece(void)
{
    pthread_mutex_lock(&lock);
    idle++;
    while (pieces == NULL)
        pthread_cond_wait(&more, &lock);
    struct piece *p = pieces;
    pieces = p->next;
    pthread_mutex_unlock(&lock);
    return p;
}

static void *work(void *first)
{
    for (struct piece *p = first;; p = next_piece()) {
        p->fn(p->arg);
        free(p);
    }
    return NULL;
}

static int start_thread(struct piece *first)
{
    pthread_t thread;
    pthread_attr_t detached;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&thread, &detached, work, first);
    pthread_attr_destroy(&detached);
    return rc;
}

int en_pool_run(void (*fn)(void *), void *arg)
{
    struct piece *p = malloc(sizeof(*p));
    int rc = 0;

    pthread_once(&forks, watch_forks);
    if (p == NULL)
        return ENOMEM;
    *p = (struct piece){.fn = fn, .arg = arg};
    pthread_mutex_lock(&lock);
    if (idle > 0) {
        idle--;
        p->next = pieces;
        pieces = p;
        pthread_cond_signal(&more);
        p = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (p != NULL)
        rc = start_thread(p);
    if (rc)
        free(p);
    return rc;
}
