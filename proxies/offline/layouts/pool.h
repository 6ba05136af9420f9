/* pool.h - runs independent jobs on several threads. */
#ifndef BB_PROXIES_OFFLINE_LAYOUTS_POOL_H
#define BB_PROXIES_OFFLINE_LAYOUTS_POOL_H

#include "bootstrap/cli/progress.h"

/*
 * bb_pool_run - calls do_one(arg, 0) to do_one(arg, n - 1) in any order and returns when all calls have returned.
 *   threads   number of threads; 0: one per processor
 *   do_one    called by several threads at the same time, so each call must write only to its own data
 *   what      text of the progress line, before the share of the work that is done
 *   progress  progress display; advanced by one for each call
 */
void bb_pool_run(int threads, int n, void (*do_one)(void *arg, int i), void *arg, const char *what,
                 struct bb_progress *progress);

#endif
