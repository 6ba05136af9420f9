/*
 * progress.h - progress and remaining time on stderr. Only rank 0 prints, and not with --quiet. On a terminal the
 * progress is one line that is overwritten. Otherwise (under mpirun and srun) a thread prints one line every 10 s. Runs
 * shorter than 10 s thus print no progress, while long measurements still show it. The environment variable
 * BUSBAR_PROGRESS sets the seconds between lines; 0 disables them.
 */
#ifndef BB_BOOTSTRAP_CLI_PROGRESS_H
#define BB_BOOTSTRAP_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

enum { BB_PROGRESS_TEXT = 160 };

/* State of the progress display; zeroed: inactive. The struct must not be moved between bb_progress_init and
 * bb_progress_end. */
struct bb_progress {
    bool on, is_shown;
    double begin_s, last_s;
    /* A phase is the work announced by one call of bb_progress_expect. phase_start_s: bb_now_s() at the start of the
     * phase; advance_s: at the last bb_progress_advance; total: amount of work of the phase, in a unit of the caller's choice, 0 if unknown; done: completed
     * work in the same unit */
    double phase_start_s, advance_s, total, done;
    char text[BB_PROGRESS_TEXT]; /* current activity; "" for none */
    bool has_thread, stopping;   /* has_thread: a thread prints the progress lines, because stderr is not a terminal;
                                  stopping: the thread must exit */
    double period_s;             /* seconds between two lines of the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* protects all fields of the struct above `lock` while the thread runs */
    pthread_cond_t wake;
};

/* bb_progress_init - activate the progress display on rank 0, unless quiet. */
void bb_progress_init(struct bb_progress *p, int rank, bool quiet);

/* bb_progress_end - erase the progress line and stop the thread. Later calls of bb_progress functions have no
 * effect. */
void bb_progress_end(struct bb_progress *p);

/* bb_progress_show - set the text that describes the current activity. A terminal shows the text at once; calls
 * within 0.1 s after a shown text are ignored. */
void bb_progress_show(struct bb_progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* bb_progress_clear - erase the progress line on a terminal. Call before any other output. */
void bb_progress_clear(struct bb_progress *p);

/*
 * bb_progress_expect - start a phase with a total amount of work of `total`, in a unit of the caller's choice.
 * bb_progress_advance - add completed work in the same unit. The remaining time is extrapolated from the completed
 * fraction of the work, from a sixteenth on, and the time since the start of the phase.
 */
void bb_progress_expect(struct bb_progress *p, double total);
void bb_progress_advance(struct bb_progress *p, double amount);

#endif
