/*
 * deadline.h - what the watchdog (bootstrap/watchdog) is to the ranks of a run, for the parts of a process's life when
 * there is none yet or none any more: while libraries are loaded, and while they are left. A signal that ends the
 * process, and a part that takes too long, are said in one line with the part's name.
 */
#ifndef BB_BOOTSTRAP_START_DEADLINE_H
#define BB_BOOTSTRAP_START_DEADLINE_H

#include <stdbool.h>

/*
 * bb_deadline_begin - `part` ("the loading of the GPU's libraries"; it must live) begins, and has timeout_s. When it
 * runs out: one line, exit 4. With `signals`, those of signals.h and an exit() of a library: one line, exit 1, which is
 * not for the way out: mpirun sends them to whoever leaves later than others. Replaces the part before. Of the ranks of a
 * host one speaks.
 */
void bb_deadline_begin(const char *part, double timeout_s, bool signals);

/* bb_deadline_begin_write - the last write of the results, without signals, but with an exit() of a library. When they
 * say what became of the run (bb_deadline_written) whatever ends it, ends it with the exit status of that. */
void bb_deadline_begin_write(double timeout_s);
void bb_deadline_written(int rc);

/* bb_deadline_begin_exit - the last part, of a run that is over: one that takes too long is said, and ends with the
 * run's own exit status, as its results say. */
void bb_deadline_begin_exit(double timeout_s, int rc);

/* bb_deadline_end - no part any more; signals do what they did before. */
void bb_deadline_end(void);

#endif
