/* pool.c - a thread pool (see pool.h). The calling thread also executes jobs, so all jobs are executed even if no
 * thread can be created. */
#include "proxies/offline/layouts/pool.h"

#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 256

struct pool {
    atomic_int next, done;
    int n;
    void (*do_one)(void *arg, int i);
    void *arg;
};

static bool do_next(struct pool *p)
{
    int i = atomic_fetch_add(&p->next, 1);

    if (i >= p->n)
        return false;
    p->do_one(p->arg, i);
    atomic_fetch_add(&p->done, 1);
    return true;
}

static void *work(void *arg)
{
    struct pool *p = arg;

    while (do_next(p))
        ;
    return NULL;
}

void bb_pool_run(int threads, int n, void (*do_one)(void *arg, int i), void *arg, const char *what,
                 struct bb_progress *progress)
{
    struct pool p = {.n = n, .do_one = do_one, .arg = arg};
    pthread_t thread[MAX_THREADS];
    int started = 0, printed = 0, wanted = threads > 0 ? threads : (int)sysconf(_SC_NPROCESSORS_ONLN);

    while (started < wanted - 1 && started < n - 1 && started < MAX_THREADS &&
           pthread_create(&thread[started], NULL, work, &p) == 0)
        started++;
    while (do_next(&p)) {
        int done = atomic_load(&p.done);

        bb_progress_advance(progress, done - printed);
        bb_progress_show(progress, "%s: %.0f%% done", what, 100 * progress->done / progress->total);
        printed = done;
    }
    while (started > 0)
        pthread_join(thread[--started], NULL);
    bb_progress_advance(progress, n - printed);
}
