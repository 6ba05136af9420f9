/*
 * child.h - the processes that a supervisor starts: one rank (busbar-rank), or N ranks with the option -g N of
 * nccl-tests' programs; and the process that writes the results.
 *
 * A rank keeps the process group of the supervisor, because launchers suspend and kill process groups, and the file
 * descriptors that the launcher opened, including the PMI connection: Hydra ends the job when the last process closes
 * that connection. A rank ignores SIGTERM, SIGINT and SIGHUP, because the supervisor reacts to them. When the
 * supervisor dies, the kernel sends the rank a signal that ends it (bb_rank_orphan_signal).
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_CHILD_H
#define BB_BOOTSTRAP_SUPERVISE_CHILD_H

#include "bootstrap/rank/rank_page.h"
#include "bootstrap/results/writer.h"

#include <limits.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

struct bb_child {
    pid_t pid; /* 0: the process has ended */
    int rank; /* rank in the job; until a rank has sent BB_RANK_WORLD, the rank according to the launcher's variables */
    struct bb_rank_page *page;
    struct bb_rank_receiver socket;
    int stderr_fd;    /* read end of the pipe that is the rank's stderr while it loads its libraries; -1: closed */
    int results_fd;   /* socket on which the rank sends its results; -1: the writer process has it */
    int journal_fd;   /* memory file of the rank's records (journal.h), which remain if the rank is restarted */
    char loader[512]; /* error message of the dynamic loader, or error that the rank did not print; "": none */
    unsigned signs;   /* value of page->signs (number of signs of life) in the last iteration of the loop */
    double due_s;     /* time at which the rank counts as hanging unless it gives a sign of life before */
    bool alive;       /* main() of the rank runs */
    bool joined;      /* the rank waits for the answer to BB_RANK_JOIN */
    bool stopped;     /* suspended by a signal */
    bool failed;      /* the rank has sent BB_RANK_FAIL: it has printed its error and ends early */
    bool left;        /* the rank is on a lost node, so the run goes on without it */
    bool stopping;    /* the rank is killed, to be restarted or because it is on a lost node */
    bool done;        /* the rank has sent BB_RANK_DONE: it ends in order */
    int code;         /* exit code that the rank sent with BB_RANK_DONE */
};

/* Program and arguments of the ranks. */
struct bb_rank_program {
    const char *command; /* name in messages: "bench", "all_reduce_perf" */
    const char *entry;   /* entry point in busbar-rank */
    char path[PATH_MAX]; /* path of busbar-rank */
    int argc;
    char **argv;
    json_t
        *opening; /* opens the results of a run that fails before rank 0 opens them (bb_results_opening); NULL: none */
    bb_results_at_end *at_end; /* of struct bb_results_head */
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
 *   children  [n] out; release each with bb_child_release, also after a failure
 *   first     rank of children[0] in the job according to the launcher's variables
 *   mask      signal mask of the ranks
 *   Returns   0, or -BB_EFAIL after printing one error line
 */
int bb_children_start(struct bb_child *children, int n, int first, const struct bb_rank_program *program,
                      const sigset_t *mask) BB_MUST_CHECK;

/* bb_children_restart - start the ranks again, after all have ended, except those on lost nodes. Returns as
 * bb_children_start. */
int bb_children_restart(struct bb_child *children, int n, const struct bb_rank_program *program,
                        const sigset_t *mask) BB_MUST_CHECK;

/* bb_child_read_stderr - read what the rank prints to stderr while it loads its libraries. The error of the dynamic
 * loader is stored in child->loader, because the supervisor prints a clearer message; other text goes to stderr. */
void bb_child_read_stderr(struct bb_child *child);

/* bb_writer_start - fork the process that writes the results (serve.h). results_fd: socket from which the new process
 * reads the rank's requests, -1: none; opening: as in struct bb_rank_program; mask: signal mask of the new process;
 * control_fd: out, socket to the new process. Returns the process id, or -1 if the process cannot be started. */
pid_t bb_writer_start(int results_fd, const struct bb_rank_program *program, const sigset_t *mask, int *control_fd);

/* bb_writer_rescue - kill the process `writer` unless it has `ended`, and complete its JSON file with the final status
 * (bb_results_rescue). A new process does this, because the disk may hang; waits limit_s seconds at most for it.
 * began: start of the run */
void bb_writer_rescue(pid_t writer, bool ended, const char *path, time_t began, int rc,
                      const struct bb_results_end *end, double limit_s);

/* bb_children_kill_strays - kill all children of the supervisor that do not end on their own within 20 ms. The
 * supervisor is a subreaper, so processes that a rank leaves become its children. Returns when no child is left, or
 * after 1 s, because a process in an uninterruptible system call does not end. */
void bb_children_kill_strays(void);

void bb_child_release(struct bb_child *child);

#endif
