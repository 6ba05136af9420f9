/*
 * child.h - the processes of a supervisor: the rank (busbar-rank) or, with -g N under nccl-tests' names, the N ranks;
 * and the process that writes the results.
 *
 * A rank keeps the process group and the file descriptors that the launcher gave, the PMI connection included, because
 * launchers suspend and kill process groups, and Hydra ends the job when the last process closes that connection. It
 * ignores SIGTERM, SIGINT and SIGHUP, to which the supervisor reacts. The kernel kills it when the supervisor dies.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_CHILD_H
#define BB_BOOTSTRAP_SUPERVISE_CHILD_H

#include "bootstrap/rank/rank_page.h"
#include "bootstrap/results/writer.h"

#include <limits.h>
#include <signal.h>
#include <sys/types.h>

/* Maximum number of ranks per supervisor, far above the number of GPUs of a host. */
enum { BB_CHILDREN_MAX = 1024 };

struct bb_child {
    pid_t pid; /* 0: reaped */
    int rank;  /* rank in the job; until it is known, the rank that the launcher gave */
    struct bb_rank_page *page;
    struct bb_rank_receiver socket;
    int stderr_fd;    /* read end of the pipe that is the rank's stderr while it loads its libraries; -1: closed */
    int results_fd;   /* socket on which the rank sends its results; -1: the writer process has it */
    char loader[512]; /* error message of the dynamic loader, or error that the rank did not print; "": none */
    unsigned signs;   /* number of signs of life when they were last compared */
    double due_s;     /* time at which the rank counts as hanging unless it gives a sign of life before */
    bool alive, joined, stopped; /* alive: main() runs; stopped: suspended by a signal */
    bool failed, done;           /* failed: has printed its error; done: has ended in order */
    int code;                    /* exit code that the rank sent when it failed or was done */
};

/* What to execute. */
struct bb_rank_program {
    const char *command; /* name in messages: "bench", "all_reduce_perf" */
    const char *entry;   /* entry point in busbar-rank */
    char path[PATH_MAX]; /* path of busbar-rank */
    int argc;
    char **argv;
};

/* bb_rank_program_find - find busbar-rank in the folder of the program or in ../lib/busbar (installation). path: out.
 * Returns 0, or -BB_EFAIL after printing one error line. */
int bb_rank_program_find(const char *command, char path[PATH_MAX]) BB_MUST_CHECK;

/* bb_rank_program_missing - print which library is missing and how to install it. loader: message of the dynamic
 * loader. Returns -BB_EFAIL. */
int bb_rank_program_missing(const char *command, const char *loader);

/* bb_rank_program_execute - replace this process by the program (execv). Returns errno, only after an error. */
int bb_rank_program_execute(const struct bb_rank_program *program);

/*
 * bb_children_start - start the ranks of this supervisor.
 *   children  [n] out
 *   first     rank of children[0] in the job, as far as it is known from the launcher
 *   mask      signal mask of the rank
 *   Returns   0, or -BB_EFAIL after printing one error line
 */
int bb_children_start(struct bb_child *children, int n, int first, const struct bb_rank_program *program,
                      const sigset_t *mask) BB_MUST_CHECK;

/* bb_child_read_stderr - read what the rank prints while it loads its libraries: the loader's error is kept, other text
 * is passed on. */
void bb_child_read_stderr(struct bb_child *child);

/* bb_writer_start - fork the process that writes the results. results_fd: socket to the rank; mask: its signal mask;
 * control_fd: out, socket to the writer. Returns its process id, or -1. */
pid_t bb_writer_start(int results_fd, const sigset_t *mask, int *control_fd);

/* bb_writer_rescue - kill the writer unless it has `ended`, and complete its JSON file in its place, in a process of
 * its own, because the disk may hang. Waits limit_s seconds at most. */
void bb_writer_rescue(pid_t writer, bool ended, const char *path, int rc, const struct bb_results_end *end,
                      double limit_s);

/* bb_children_kill_strays - kill all children of this process, which inherits the processes that a rank leaves,
 * until none is left, or for 0.1 s: a process in an uninterruptible call does not end. */
void bb_children_kill_strays(void);

void bb_child_release(struct bb_child *child);

#endif
