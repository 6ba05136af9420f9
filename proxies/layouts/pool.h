/* pool.h - independent pieces of work on all processors. */
#ifndef BB_PROXIES_LAYOUTS_POOL_H
#define BB_PROXIES_LAYOUTS_POOL_H

#include "bootstrap/base/progress.h"

/* bb_pool_run - do_one(arg, 0) .. do_one(arg, n - 1), in any order, on so many threads (0: one for each processor);
 * returns when all are done. Each writes to its own place. */
void bb_pool_run(int threads, int n, void (*do_one)(void *arg, int i), void *arg, struct bb_progress *progress);

#endif
