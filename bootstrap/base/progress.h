/*
 * progress.h - how far a run is, on stderr, for who waits: what it is at, and how long it may take yet. Rank 0 alone,
 * not with --quiet. On a terminal it is one line that is overwritten; elsewhere (under mpirun and srun) a line of its
 * own every 10 s, so that short runs say nothing, written by a thread, so that one long row does not fall silent.
 * BUSBAR_PROGRESS in the environment sets the seconds between lines; 0: none.
 */
#ifndef BB_BOOTSTRAP_BASE_PROGRESS_H
#define BB_BOOTSTRAP_BASE_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

enum { BB_PROGRESS_TEXT = 160 };

/* Zeroed is off. It must not move from init to end. */
struct bb_progress {
    bool on, is_shown;
    double begin_s, last_s;
    double expected_s, total, done; /* since when, of how much, how much is done; total 0: unknown */
    char text[BB_PROGRESS_TEXT];    /* what the run is at, "" for nothing */
    bool has_thread, stopping;             /* stderr is no terminal: there is a thread */
    double period_s;
    pthread_t thread;
    pthread_mutex_t lock; /* of all above, while there is a thread */
    pthread_cond_t wake;
};

void bb_progress_init(struct bb_progress *p, int rank, bool quiet);

/* bb_progress_end - takes the line away; nothing is said afterwards. */
void bb_progress_end(struct bb_progress *p);

/* bb_progress_show - what the run is at; on a terminal at once, at most ten times a second. */
void bb_progress_show(struct bb_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* bb_progress_clear - take the line away; before any other output. */
void bb_progress_clear(struct bb_progress *p);

/* bb_progress_expect - so much is to be done from now on, in any unit; bb_progress_advance - so much of it was. From these
 * comes the time left. */
void bb_progress_expect(struct bb_progress *p, double total);
void bb_progress_advance(struct bb_progress *p, double amount);

#endif
