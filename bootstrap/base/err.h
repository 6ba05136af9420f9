/*
 * err.h - error codes, error messages and exit statuses.
 *
 * A function that can fail returns 0 or a negative BB_E... code. The function that detects an error (a failed call of
 * CUDA, NCCL, MPI or the C library, or an invalid value) prints one error line with bb_err(). Its callers only return
 * the code (TRY). main() converts the code to the exit status with bb_exit_code().
 */
#ifndef BB_BOOTSTRAP_BASE_ERR_H
#define BB_BOOTSTRAP_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bb_error {
    BB_EFAIL = 1,    /* the run failed: CUDA, NCCL, MPI, I/O or memory */
    BB_EUSAGE = 2,   /* invalid usage or invalid input */
    BB_EDATA = 3,    /* verification of the results found wrong data */
    BB_ETIMEOUT = 4, /* a wait timed out, or a peer rank was lost */
    BB_EBELOW = 5,   /* a result is worse than a threshold that the user requested */
    BB_EWARN = 6,    /* health --nagios: a warning, and no failure */
};

#define BB_MUST_CHECK __attribute__((warn_unused_result))

/* Evaluates expr and stores its value in the local variable `rc` of the calling function. If the value is not 0,
 * jumps to the function's label `out`. */
#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        if ((rc = (expr)) != 0)                                                                                        \
            goto out;                                                                                                  \
    } while (0)

/*
 * bb_err - print one error line to stderr.
 *   fmt      starts in lower case with what is wrong, and has no full stop at the end
 *   Returns  -code, so that a caller can write `return bb_err(BB_EUSAGE, ...)`
 * The line is "busbar: rank 3 (node17, GPU 1): nccl.json: ranks=4: <message>". bb_err_identify() sets the rank, and
 * bb_err_context() sets "nccl.json: ranks=4: "; both are optional. Control characters in the line are replaced by
 * blanks, and the line is cut at the last word within 2,047 bytes.
 */
int bb_err(enum bb_error code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Static analyzers do not see that bb_err() returns -code. When an analyzer runs, this macro makes the value
 * visible. */
#if defined(__clang_analyzer__) || defined(BB_ANALYSER)
#define bb_err(code, ...) (bb_err(code, __VA_ARGS__), -(int)(code))
#endif

/*
 * bb_err_call - print one error line about a failed call of a library: "cudaMalloc: out of memory: .. (FILE:LINE)".
 *   call     source text of the call; only the function's name is printed
 *   error    the library's description of the error
 *   detail   more about the error, NULL or "": none
 *   Returns  -BB_EFAIL
 */
int bb_err_call(const char *call, const char *error, const char *detail, const char *file, int line);

/*
 * bb_err_job - like bb_err(), but the line does not begin with the name of the printing rank. Use this function for
 * messages about the whole job: errors that all ranks detect and only rank 0 prints (BB_WORLD_ERR in world.h), and
 * errors that one rank reports about other ranks.
 */
int bb_err_job(enum bb_error code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * bb_err_job_scope - make bb_err() print messages without the printing rank, like bb_err_job(). Used for code that all
 * ranks execute with the same input and whose errors only rank 0 prints, such as the construction of a training step.
 *   on       1: omit the rank from now on; 0: print the rank again
 */
void bb_err_job_scope(int on);

/*
 * bb_err_job_nonblocking - like bb_err_job(), for a process that must not block. The line is dropped if stderr is not
 * writable within 200 ms, for example because the terminal's output is stopped (Ctrl-S) or because stderr is a full
 * pipe.
 */
void bb_err_job_nonblocking(enum bb_error code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* bb_warn - print a warning line to stderr: "busbar: warning: <message>", with the context but without the printing
 * rank. The run continues. */
void bb_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * bb_warn_hold - keep the lines of bb_warn(), equal ones once, until the input has been checked (1), and print them
 * (0). A usage error (BB_EUSAGE) drops them, so that invalid input has one line; any other error prints them first.
 */
void bb_warn_hold(int on);

/* bb_name_program - replace "busbar" by "busbar-emulated" in the commands that line[size] contains, if that program runs, so
 * that a suggested command begins with the program that the user started. The lines of bb_err and bb_warn are so. */
void bb_name_program(char *line, size_t size);

/*
 * bb_err_identify - set the rank, host and GPU that bb_err() prints at the beginning of all later lines.
 *   rank     negative: none (a single process, or before MPI_Init)
 *   host     host name; copied
 *   gpu      negative: no GPU selected yet
 *   Threads  call before other threads exist
 */
void bb_err_identify(int rank, const char *host, int gpu);

/*
 * bb_err_context - set a text that precedes each later message, for example the file and the row that the message is
 * about: "nccl.json: ranks=4: ". The text is copied; NULL: no text.
 */
void bb_err_context(const char *text);

/*
 * bb_err_mute - suppress all errors and warnings of this process from now on (1), only the warnings (BB_MUTE_WARNINGS),
 * or print them again (0). While the command line is parsed, all ranks except rank 0 are muted; otherwise, every rank
 * would print the same error.
 * bb_err_is_mute - returns 1 while this process is muted, else 0.
 */
enum { BB_MUTE_WARNINGS = 2 };
void bb_err_mute(int on);
int bb_err_is_mute(void);

/* The error that explains why this process fails: its first error. Two errors give way to a later one: a result below a
 * threshold (BB_EBELOW) to an error of another kind, because it has the lowest precedence in the exit status, and an error
 * that was muted to a printed one, because an internal attempt explains nothing. */
enum { BB_ERROR_TEXT = 512 };
struct bb_err_record {
    int code;                 /* enum bb_error; 0: no error */
    int muted;                /* 1: the error was not printed (bb_err_mute) */
    int call;                 /* 1: a call of a GPU library or of NCCL failed (bb_err_call) */
    char text[BB_ERROR_TEXT]; /* the line without "busbar: " */
};

/* bb_err_record_in - keep the record in *record, which must outlive the process's errors; NULL: in this process.
 * bb_err_record - return the record. */
void bb_err_record_in(struct bb_err_record *record);
const struct bb_err_record *bb_err_record(void);

/*
 * bb_err_speculative - start (1) or end (0) speculative evaluation, in which many threads may try invalid
 * configurations. During speculative evaluation, usage errors (BB_EUSAGE) and warnings are not printed, and only the
 * first of all other errors (such as out of memory) is printed.
 */
void bb_err_speculative(int on);

/* bb_exit_code - exit status of a return code: 0 for rc >= 0, else -rc. */
int bb_exit_code(int rc);

#ifdef __cplusplus
}
#endif

/* bb_plural - return the ending of a noun after a number: "" for 1, otherwise "s". */
static inline const char *bb_plural(unsigned long long n)
{
    return n == 1 ? "" : "s";
}

#endif
