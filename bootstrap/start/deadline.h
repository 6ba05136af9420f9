/*
 * deadline.h - what the watchdog (bootstrap/watchdog) is to the ranks of a run, for the parts of a process's life when
 * there is none yet or none any more: while libraries are loaded, and while they are left. A signal that ends the
 * process, and a part that takes too long, are said in one line with the part's name.
 */
#ifndef BB_BOOTSTRAP_START_DEADLINE_H
#define BB_BOOTSTRAP_START_DEADLINE_H

/*
 * bb_deadline_begin - `part` ("loading the GPU half"; it must live) begins, and has timeout_s; rc is the exit status so
 * far, as an error code. When it runs out: one line, exit 4. SIGTERM, SIGINT, SIGUSR1: one line, exit 1. Replaces the
 * part before. Whose errors are muted (bb_err_mute) says nothing.
 */
void bb_deadline_begin(const char *part, double timeout_s);

/* bb_deadline_end - no part any more; signals do what they did before. */
void bb_deadline_end(void);

#endif
