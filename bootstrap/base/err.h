/*
 * err.h - the one way errors travel.
 *
 * A function that can fail returns 0 or a negative BB_E... code. Whoever turns a foreign code (CUDA, NCCL, MPI, errno)
 * or a bad value into ours prints one line with bb_err(); everybody else only passes the code on (TRY). main() turns
 * the code into the exit status, which is the code without its sign.
 */
#ifndef BB_BOOTSTRAP_BASE_ERR_H
#define BB_BOOTSTRAP_BASE_ERR_H

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bb_error {
    BB_EFAIL = 1,    /* the run failed: CUDA, NCCL, MPI, I/O, memory */
    BB_EUSAGE = 2,   /* usage or bad input                           */
    BB_EDATA = 3,    /* wrong data                                   */
    BB_ETIMEOUT = 4, /* timeout or a lost peer                       */
    BB_EBELOW = 5,   /* below a threshold that was asked for         */
};

#define BB_MUST_CHECK __attribute__((warn_unused_result))

/* Leaves for the label `out` with `rc` set, as soon as one step fails. */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        if ((rc = (expr)) != 0)                                                                                        \
            goto out;                                                                                                  \
    } while (0)

/*
 * bb_err - print "busbar: rank 3 (host, GPU 1): <message>" to stderr as one line and return -code, so that a caller
 * can write `return bb_err(BB_EUSAGE, ...)`. The text starts with what is wrong, in lower case, without a full stop.
 */
int bb_err(enum bb_error code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#if defined(__clang_analyzer__) || defined(BB_ANALYSER) /* what they cannot see: it never returns 0 */
#define bb_err(code, ...) (bb_err(code, __VA_ARGS__), -(int)(code))
#endif

/*
 * bb_err_nonblocking - the same line by one who ends the process whatever happens: left out where stderr does not take it
 * within a moment (a full pipe that nobody reads, a terminal that is held).
 */
void bb_err_nonblocking(enum bb_error code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* bb_warn - the same line with "warning:"; the run goes on. */
void bb_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * bb_err_identify - who speaks in later lines. rank < 0: nobody (a single process, or before MPI is up); gpu < 0: none
 * chosen yet. host is copied. Called once or twice at start, before other threads exist.
 */
void bb_err_identify(int rank, const char *host, int gpu);

/* bb_err_context - what later lines are about, put in front of them: "nccl.json: ranks=4: "; copied, NULL: nothing. */
void bb_err_context(const char *text);

/*
 * bb_err_mute - say nothing (true), or speak again. For the ranks of a launched job that are not the first while the
 * command line is read: all would say the same.
 */
void bb_err_mute(int on);
int bb_err_is_mute(void);

/*
 * bb_err_speculative - from now on (true) things are only tried, perhaps by many threads: that one cannot be (BB_EUSAGE) is not
 * said, nor are warnings; of what fails otherwise (no memory) the first is. False: all is said again.
 */
void bb_err_speculative(int on);

/* bb_exit_code - exit status for a return code: 0 for 0 and above, else the code without its sign. */
int bb_exit_code(int rc);

#ifdef __cplusplus
}
#endif
#endif
