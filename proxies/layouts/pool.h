/* pool.h - runs independent jobs on several threads. */
#ifndef BB_PROXIES_LAYOUTS_POOL_H
#define BB_PROXIES_LAYOUTS_POOL_H

#include "bootstrap/base/progress.h"

/*
 * bb_pool_run - calls do_one(arg, 0) .. do_one(arg, n - 1) in any order and returns when all calls are done.
 *   threads  0: one per processor
 *   do_one   is called by several threads at once, so each call writes only to its own data
 */
void bb_pool_run(int threads, int n, void (*do_one)(void *arg, int i), void *arg, struct bb_progress *progress);

#endif
