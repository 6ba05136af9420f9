/* supervisor.c - the loop of a supervisor, and the actions of its state machine (state_machine.h). */
#include "bootstrap/supervise/supervisor.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/results/serve.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/signals.h"
#include "bootstrap/supervise/local_job.h"
#include "bootstrap/supervise/supervise.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Durations in seconds.
 * GATHER: the server waits between the first report and its decision, because further reports may explain more: after
 * a hang for the states of all ranks (MORE is added if some ranks do not answer), after a lost rank for further lost
 * ranks, after a signal for a lost rank as the cause of the signal.
 * CLAIM: a supervisor without a server waits for a claim (local_job.h) of a supervisor of this host with a lower rank,
 * which then prints the error line. EARLY applies while ranks load their libraries and parse the command line, HANG to
 * a timeout on ranks other than 0, because ranks that start at different times fail at different times.
 */
static const double GATHER_HANG_S = 0.3, GATHER_MORE_S = 0.7, GATHER_LOST_S = 0.05, GATHER_SIGNAL_S = 0.05;
static const double CLAIM_S = 0.1, CLAIM_EARLY_S = 0.5, CLAIM_HANG_S = 1.5;
static const double DEFER_S = 2;         /* longest wait for the line that another supervisor has claimed to print */
static const double SERVER_S = 0.5;      /* longest wait of a member for the server's or the backup server's decision */
static const double REASON_S = 0.2;      /* longest wait for the error line of another rank, for the results */
static const double RECORD_S = 0.1;      /* longest wait for the final results before the error line is printed */
static const double SLOW_RECORD_S = 0.3; /* further wait after the error line, unless the launcher is Open MPI 5's */
static const double ALONE_RECORD_S = 2;  /* the same without a launcher, which would kill this process */
static const double RESCUE_S = 0.5; /* longest wait for the completion of a results file after its writer was killed */
static const double UNWIND_S = 0.4; /* time for the ranks to end on their own before they are killed */
static const double LINGER_S = 1.0; /* longest wait for killed ranks and other supervisors after the end has begun */
static const double LAUNCHER_S = 5; /* launchers that end the job after a loss do so within this time */
static const double SUSPENDED_S = 1.5; /* a longer pause between two iterations shows that the process was suspended */
static const double SOON_S = 0.01;     /* longest sleep of the loop while a decision or the end of the job is near */
static const double TICK_S = 0.1;      /* longest sleep of the loop otherwise */

/* ---- actions ---- */

/* Sets the timer of the current state, unless it already expires earlier. */
static void set_timer(struct bb_supervisor *s, double seconds)
{
    const double due_s = bb_now_s() + seconds;

    if (s->due_s == 0 || due_s < s->due_s)
        s->due_s = due_s;
}

/* Returns whether the server requests the states of all ranks after a report with this cause: after a hang, and after an
 * error in a run that can go on without lost nodes, because NCCL may notice the loss of a node before the supervisors do. */
static bool asks_states(enum bb_cause cause)
{
    return cause == BB_CAUSE_HANG || cause == BB_CAUSE_PRINTED;
}

/* Returns how long this supervisor waits after a report with this cause before it decides, in seconds. A member waits
 * longer for the server's decision about a hang than about other causes, because the server first collects states. */
static double delay_of(struct bb_supervisor *s, enum bb_cause cause)
{
    if (s->role == BB_ROLE_SERVER && s->job.size > s->n_children)
        return asks_states(cause) ? GATHER_HANG_S : cause == BB_CAUSE_LOST ? GATHER_LOST_S : GATHER_SIGNAL_S;
    if (s->role == BB_ROLE_SERVER || !s->launched)
        return cause == BB_CAUSE_HANG || s->n_children == 1 ? 0 : GATHER_LOST_S;
    if (s->role == BB_ROLE_MEMBER)
        return asks_states(cause) ? 2 + s->job.size / 512.0 : SERVER_S;
    if (s->children[0].page->error.muted || !s->children[0].alive)
        return CLAIM_EARLY_S;
    return cause == BB_CAUSE_HANG && s->job.rank > 0 ? CLAIM_HANG_S : CLAIM_S;
}

/* Returns whether this host may have supervisors that no message of the server reaches, so that they must be informed
 * by signals (local_job.h). */
static bool has_strangers(const struct bb_supervisor *s)
{
    return s->launched && (s->role == BB_ROLE_ALONE || (s->role == BB_ROLE_SERVER && !bb_peers_joined(s)));
}

void bb_note_trouble(struct bb_supervisor *s)
{
    if (s->report.cause == BB_CAUSE_NONE && s->role == BB_ROLE_MEMBER)
        s->role = BB_ROLE_ALONE; /* no server answers */
    if (s->report.cause > s->trouble.cause)
        s->trouble = s->report;
    if (s->role == BB_ROLE_SERVER && asks_states(s->report.cause) && s->due_s == 0)
        bb_peers_ask_states(s);
    if (has_strangers(s))
        (void)bb_local_tell(s->launcher, BB_LOCAL_CLAIM, s->job.rank);
    set_timer(s, delay_of(s, s->trouble.cause));
    if (s->claimed_s > bb_now_s())
        bb_supervisor_event(s, BB_EVENT_CLAIM);
}

void bb_warn_unreachable(struct bb_supervisor *s)
{
    bb_warn("rank 0 (%s) is unreachable from rank %d: the cause of a hang of rank %d will not be reported",
            s->job.hosts[0], s->job.rank, s->job.rank);
    bb_ranks_answer(s);
}

bool bb_supervisor_poll_writer(struct bb_supervisor *s)
{
    struct bb_writer *w = &s->writer;
    const int got = w->finished || w->control.fd < 0 ? 1 : bb_results_finish_poll(&w->control, &w->path, &w->code);

    if (got < 0) {
        w->lost = true;
        w->code = -BB_EFAIL;
    }
    w->finished = w->finished || got != 0;
    return w->finished;
}

/* Returns the error line that explains the end of the job; "": none is known. */
static const char *known_reason(const struct bb_supervisor *s)
{
    if (s->line[0] || s->printed[0])
        return s->line[0] ? s->line : s->printed;
    for (int i = 0; s->code && i < s->n_children; i++)
        if (s->children[i].page->error.text[0])
            return s->children[i].page->error.text;
    return "";
}

/* Server: waits for the error line of the rank that failed, if it is on another supervisor: rank 0 may end before. */
static void await_reason(struct bb_supervisor *s)
{
    const double end_s = bb_now_s() + REASON_S;

    while (s->role == BB_ROLE_SERVER && s->code && !known_reason(s)[0] && bb_now_s() < end_s) {
        (void)poll(NULL, 0, (int)(1e3 * SOON_S));
        bb_peers_read(s, bb_now_s());
    }
}

/* Returns how the job ends, for the results. phase: out, buffer to which the returned struct points. */
static struct bb_results_end describe_end(const struct bb_supervisor *s, char phase[BB_VERDICT_LINE])
{
    const char *reason = known_reason(s);

    phase[0] = '\0';
    if (s->trouble.cause != BB_CAUSE_NONE)
        bb_verdict_phase(s, phase);
    return (struct bb_results_end){.reason = reason,
                                   .phase = phase,
                                   .nccl_ras = s->ras,
                                   .lost = s->lost,
                                   .ended_by =
                                       s->trouble.cause == BB_CAUSE_SIGNAL ? bb_signal_name(s->trouble.signal) : NULL};
}

/* Starts the process that writes the results. Returns whether the process has started. */
static bool start_writer(struct bb_supervisor *s)
{
    int *rank_fd = &s->children[0].results_fd;

    s->writer.pid = bb_writer_start(*rank_fd, &s->program, &s->mask, &s->writer.control.fd);
    if (*rank_fd >= 0)
        close(*rank_fd);
    *rank_fd = -1;
    return s->writer.pid >= 0;
}

/* Sends FINISH to the process that writes the results: the exit code and the cause of an early end. The process starts
 * now if the run failed before rank 0 opened the results. */
static void record_end(struct bb_supervisor *s)
{
    char phase[BB_VERDICT_LINE];
    const struct bb_results_end end = describe_end(s, phase);

    if (s->program.opening && s->job.rank == 0 && s->code && s->writer.pid == 0)
        (void)start_writer(s);
    if (!bb_supervisor_poll_writer(s)) /* a failure to send is ignored: bb_supervisor_poll_writer detects its cause */
        (void)!bb_results_finish_send(s->writer.control.fd, -s->code, &end);
}

/* Waits until the writer process has written the final results, limit_s at most, because its disk may hang. */
static void await_record(struct bb_supervisor *s, double limit_s)
{
    const double end_s = bb_now_s() + limit_s;
    struct pollfd p = {.fd = s->writer.control.fd, .events = POLLIN};

    while (!bb_supervisor_poll_writer(s) && bb_now_s() < end_s)
        (void)poll(&p, 1, (int)(1e3 * SOON_S));
}

/* Gives a slow writer more time, unless the launcher is prterun of Open MPI 5, which sends SIGKILL 250 ms after
 * SIGTERM. If the final results are not written then, or their write has failed, kills the writer process and completes
 * the JSON file in its place. */
static void complete_record(struct bb_supervisor *s)
{
    char phase[BB_VERDICT_LINE];
    struct bb_results_end end;

    if (!bb_launcher_is_prterun(s->launcher))
        await_record(s, s->launched ? SLOW_RECORD_S : ALONE_RECORD_S);
    if (s->writer.path && (!s->writer.finished || s->writer.code < 0)) {
        end = describe_end(s, phase);
        bb_writer_rescue(s->writer.pid, s->writer.ended, s->writer.path, s->began, -s->code, &end, RESCUE_S);
        s->writer.finished = true;
    }
}

/* Starts the early end of the job. The results are saved first, because stderr may be blocked, or closed by a launcher
 * that is ending; the error line follows, even if the results are not saved yet. line: whether this supervisor prints
 * the error line. */
static void start_ending(struct bb_supervisor *s, bool line)
{
    s->ending_s = bb_now_s();
    s->due_s = 0;
    if (line)
        bb_verdict_compose(s);
    bb_ranks_end(s);
    await_reason(s);
    record_end(s);
    bb_peers_end(s);
    await_record(s, RECORD_S);
    if (line)
        bb_verdict_print(s);
    complete_record(s);
    if (has_strangers(s))
        (void)bb_local_tell(s->launcher, BB_LOCAL_ENDED, s->code);
    set_timer(s, UNWIND_S);
    if (bb_ranks_gone(s))
        bb_supervisor_event(s, BB_EVENT_GONE);
}

/* Returns whether the job ends because of the loss after which it was restarted: the ranks do not start again, or the
 * launcher ends the job after the loss. */
static bool ends_by_loss(const struct bb_supervisor *s)
{
    return s->restart.at_s > 0 && s->role == BB_ROLE_SERVER &&
           (s->trouble.cause == BB_CAUSE_NONE ||
            (s->trouble.cause == BB_CAUSE_SIGNAL && bb_now_s() < s->restart.at_s + LAUNCHER_S));
}

void bb_judge(struct bb_supervisor *s)
{
    if (ends_by_loss(s))
        s->trouble = s->restart.loss;
    s->code = s->trouble.code;
    start_ending(s, !bb_peers_cut_off(s));
}

void bb_end_printed(struct bb_supervisor *s)
{
    s->code = s->report.code ? s->report.code : BB_EFAIL;
    if (s->report.cause != BB_CAUSE_NONE)
        s->trouble = s->report;
    start_ending(s, false);
}

void bb_fall_back(struct bb_supervisor *s)
{
    if (s->report.cause == BB_CAUSE_LOST) /* the server is lost, which the backup server also detects */
        s->trouble = s->report;
    else
        bb_peers_fall_back(s);
    set_timer(s, SERVER_S);
}

/* Kills the ranks that have not ended on their own. A process in an uninterruptible system call survives SIGKILL, so
 * the supervisor stops waiting for its ranks after LINGER_S. */
void bb_kill_ranks(struct bb_supervisor *s)
{
    bb_ranks_kill(s);
    set_timer(s, UNWIND_S);
    if (bb_now_s() > s->ending_s + LINGER_S)
        bb_supervisor_event(s, BB_EVENT_GONE);
}

void bb_linger(struct bb_supervisor *s)
{
    set_timer(s, s->ending_s + LINGER_S - bb_now_s());
    bb_peers_bye(s);
}

void bb_close_results(struct bb_supervisor *s)
{
    record_end(s);
    set_timer(s, s->timeout_s);
    if (bb_supervisor_poll_writer(s) && !s->writer.lost)
        bb_supervisor_event(s, BB_EVENT_WRITTEN);
}

void bb_report_write(struct bb_supervisor *s)
{
    const bool late = s->report.cause == BB_CAUSE_NONE;

    s->code = late ? BB_ETIMEOUT : BB_EFAIL;
    s->trouble = (struct bb_trouble){.cause = late ? BB_CAUSE_HANG : BB_CAUSE_SIGNAL, .signal = s->report.signal};
    if (late)
        snprintf(s->line, sizeof(s->line), "timeout: writing the final results did not end within %g s", s->timeout_s);
    else
        snprintf(s->line, sizeof(s->line), "ended by %s; last seen: writing the final results",
                 bb_signal_name(s->report.signal));
    await_record(s, RECORD_S);
    bb_err_job_nonblocking((enum bb_error)s->code, "%s", s->line);
    complete_record(s);
    bb_peers_dismiss(s);
}

void bb_dismiss(struct bb_supervisor *s)
{
    if (s->writer.code < 0 && s->code == 0)
        s->code = -s->writer.code;
    if (s->launched && s->job.rank == 0 && s->code == 0 && bb_local_is_suspended(s->launcher))
        bb_warn("the launcher (process %ld) is suspended; the run has ended with status 0, but the launcher may report "
                "another status, because it did not receive the end of MPI",
                (long)s->launcher);
    bb_peers_dismiss(s);
}

void bb_defer(struct bb_supervisor *s)
{
    set_timer(s, s->claimed_s - bb_now_s());
}

void bb_supervisor_raise(struct bb_supervisor *s, enum bb_event event, struct bb_trouble report)
{
    const struct bb_machine_row *row = bb_machine_row_of(s->state, event, s->role);

    if (!row)
        return;
    if (row->next != s->state)
        s->due_s = 0;
    s->state = row->next;
    s->report = report;
    if (row->action)
        row->action(s);
}

/* ---- observations ---- */

static void take_local_signal(struct bb_supervisor *s, const struct signalfd_siginfo *info)
{
    enum bb_local_kind kind;
    int value;

    if (!has_strangers(s) || !bb_local_read(info, &kind, &value))
        return;
    if (s->ending_s > 0 && kind == BB_LOCAL_CLAIM)
        (void)bb_local_tell(s->launcher, BB_LOCAL_ENDED, s->code); /* the sender started after the first ENDED */
    if (kind == BB_LOCAL_ENDED) {
        bb_supervisor_raise(s, BB_EVENT_END, (struct bb_trouble){.code = value});
    } else if (value < s->job.rank) {
        s->claimed_s = bb_now_s() + DEFER_S;
        bb_supervisor_event(s, BB_EVENT_CLAIM);
    } else if (s->state == BB_STATE_JUDGING) {
        (void)bb_local_tell(s->launcher, BB_LOCAL_CLAIM,
                            s->job.rank); /* the sender may have started after this supervisor's first claim */
    }
}

static void read_signals(struct bb_supervisor *s)
{
    struct signalfd_siginfo info;

    while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGTERM)
            s->signal_sender = (pid_t)info.ssi_pid;
        if (info.ssi_signo == SIGCHLD || info.ssi_signo == SIGCONT)
            continue;
        if ((int)info.ssi_signo == bb_local_signal()) {
            take_local_signal(s, &info);
            continue;
        }
        s->signalled = true;
        bb_peers_report(s, s->job.rank, BB_CAUSE_SIGNAL, (int)info.ssi_signo, BB_EFAIL);
    }
}

/* Detects the end of the launcher: an mpirun that was killed or that received a second Ctrl-C may send no signal to its
 * ranks. The pidfd of the launcher only wakes the loop. The report becomes s->trouble, and is not repeated except while
 * the final results are written, where it ends the wait for them. */
static void check_launcher(struct bb_supervisor *s)
{
    if (!s->launched || getppid() == s->launcher)
        return;
    if (s->launcher_fd >= 0)
        close(s->launcher_fd);
    s->launcher_fd = -1;
    if (s->trouble.cause < BB_CAUSE_SIGNAL || s->state == BB_STATE_CLOSING)
        bb_peers_report(s, s->job.rank, BB_CAUSE_SIGNAL, BB_LAUNCHER_LOST, BB_EFAIL);
}

/* The writer process starts when the rank sends the first message about its results. A rank that ends without results
 * closes its end of the socket. */
static void check_writer(struct bb_supervisor *s)
{
    struct bb_child *child = &s->children[0];
    char first;
    const ssize_t got = child->results_fd < 0 ? -1 : recv(child->results_fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

    if (got > 0 && !start_writer(s)) {
        bb_err(BB_EFAIL, "cannot start the process that writes the results: %s", strerror(errno));
        bb_peers_report(s, s->job.rank, BB_CAUSE_PRINTED, 0, BB_EFAIL);
    }
    if (got == 0) {
        close(child->results_fd);
        child->results_fd = -1;
    }
    if (s->writer.control.fd < 0 || !bb_supervisor_poll_writer(s) || s->writer.lost)
        return;
    if (s->state == BB_STATE_CLOSING)
        bb_supervisor_event(s, BB_EVENT_WRITTEN);
    else /* the writer process sends an answer without a request for the final results only after printing an error */
        bb_peers_report(s, s->job.rank, BB_CAUSE_PRINTED, 0, BB_EFAIL);
}

/* If this process was suspended (for example by a scheduler) since the last iteration, moves all deadlines later by the
 * length of the suspension. */
static void check_suspension(struct bb_supervisor *s, double now_s)
{
    const double pause_s = now_s - s->round_s;

    for (int i = 0; pause_s > SUSPENDED_S && i < s->n_children; i++)
        if (s->children[i].due_s > 0) /* else the time limit has not started */
            s->children[i].due_s += pause_s;
    if (pause_s > SUSPENDED_S && s->due_s > 0)
        s->due_s += pause_s;
    s->round_s = now_s;
}

/* Raises TIMER when the timer has expired. A server that judges a hang waits GATHER_MORE_S longer for missing states; after
 * an error twice as long, because silent ranks count as lost then. */
static void check_timer(struct bb_supervisor *s, double now_s)
{
    if (s->due_s == 0 || now_s < s->due_s)
        return;
    if (s->state == BB_STATE_JUDGING && s->role == BB_ROLE_SERVER && asks_states(s->trouble.cause) &&
        !bb_peers_answered(s) && now_s < s->due_s + (s->trouble.cause == BB_CAUSE_PRINTED ? 2 : 1) * GATHER_MORE_S)
        return;
    s->due_s = 0;
    bb_supervisor_event(s,
                        s->state == BB_STATE_JUDGING && bb_restart_is_possible(s) ? BB_EVENT_RESTART : BB_EVENT_TIMER);
}

/* Sleeps until a descriptor is readable, or for SOON_S or TICK_S. */
static void sleep_until_news(struct bb_supervisor *s)
{
    const int n_fixed = 3 + 3 * s->n_children;
    struct pollfd polls[n_fixed + s->star.n_listen + s->star.n_links + BB_STAR_ADDRESSES];
    const bool soon = s->state >= BB_STATE_JUDGING || s->star.dialing >= 0;
    int n = 0;

    polls[n++] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
    polls[n++] = (struct pollfd){.fd = s->launched ? s->launcher_fd : -1, .events = POLLIN};
    polls[n++] = (struct pollfd){.fd = s->writer.control.fd, .events = POLLIN};
    for (int i = 0; i < s->n_children; i++) {
        polls[n++] = (struct pollfd){.fd = s->children[i].socket.fd, .events = POLLIN};
        polls[n++] = (struct pollfd){.fd = s->children[i].stderr_fd, .events = POLLIN};
        polls[n++] = (struct pollfd){.fd = i == 0 ? s->children[i].results_fd : -1, .events = POLLIN};
    }
    n += bb_peers_polls(s, &polls[n]);
    (void)poll(polls, (nfds_t)n, (int)(1e3 * (soon ? SOON_S : TICK_S)));
}

static void run_loop(struct bb_supervisor *s)
{
    while (s->state != BB_STATE_OVER) {
        double now_s;

        sleep_until_news(s);
        now_s = bb_now_s();
        check_suspension(s, now_s);
        read_signals(s);
        bb_ranks_read(s);
        bb_ranks_reap(s);
        check_writer(s);
        bb_peers_read(s, now_s);
        check_launcher(s);
        bb_ranks_check(s);
        bb_peers_send_states(s, now_s);
        bb_peers_check(s, now_s);
        check_timer(s, bb_now_s());
    }
}

/* ---- start and end ---- */

static void block_signals(sigset_t *ours, sigset_t *before)
{
    sigemptyset(ours);
    for (int signal = 1; signal < BB_SIGNALS_END; signal++)
        if (bb_signal_is_taken(signal))
            sigaddset(ours, signal);
    sigaddset(ours, SIGCHLD);
    sigaddset(ours, SIGCONT); /* wakes the loop after a suspension; a blocked SIGCONT still resumes the process */
    sigaddset(ours, bb_local_signal());
    sigprocmask(SIG_BLOCK, ours, before);
    (void)signal(SIGPIPE, SIG_IGN);
}

static int start(struct bb_supervisor *s, int n)
{
    sigset_t ours;

    block_signals(&ours, &s->mask);
    s->began = time(NULL);
    s->round_s = bb_now_s();
    s->launched = !bb_launched_alone();
    s->launcher = getppid();
    s->launcher_fd = (int)syscall(SYS_pidfd_open, s->launcher, 0);
    s->job.rank = bb_launcher_rank() * n;
    s->job.size = 1;
    s->role = BB_ROLE_ALONE;
    s->writer.control.fd = -1;
    s->star.dialing = -1;
    (void)gethostname(s->job.host, sizeof(s->job.host) - 1);
    s->signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    BB_NEW(s->children, n);
    s->n_children = n;
    if (s->signal_fd < 0)
        return bb_err(BB_EFAIL, "cannot supervise %d ranks: %s", n, strerror(errno));
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return bb_children_start(s->children, n, s->job.rank, &s->program, &s->mask);
}

/* Kills the ranks and the processes that they have left, and then, after an early end, ends the job through the
 * launcher's PMI connection if there is one. */
static void finish(struct bb_supervisor *s)
{
    const bool restarted = s->restart.at_s > 0; /* the ranks have ended without MPI_Finalize */
    const bool mpi_used = restarted || (s->children[0].page && atomic_load(&s->children[0].page->mpi_used));

    bb_ranks_kill(s);
    bb_children_kill_strays();
    if ((s->ending_s > 0 || restarted) && s->launched)
        bb_launcher_abort(s->code, mpi_used);
}

static void release(struct bb_supervisor *s)
{
    bb_peers_release(s);
    for (int i = 0; s->children && i < s->n_children; i++)
        bb_child_release(&s->children[i]);
    bb_rank_receiver_release(&s->writer.control);
    free(s->writer.path);
    free(s->children);
    free(s->job.hosts);
    free(s->job.node_of);
}

/* Becomes the rank, without supervision. Returns only after an error. */
static int become_rank(const struct bb_rank_program *program)
{
    fflush(stdout);
    return bb_err(BB_EFAIL, "cannot execute %s: %s", program->path, strerror(bb_rank_program_execute(program)));
}

int bb_supervise_program(const struct bb_rank_program *program, double timeout_s, int ranks)
{
    struct bb_supervisor s = {.timeout_s = timeout_s, .program = *program};
    int rc;

    for (int i = 1; i < program->argc; i++)
        if (strcmp(program->argv[i], "--no-supervisor") == 0)
            return ranks == 1 ? become_rank(program)
                              : bb_err(BB_EUSAGE,
                                       "--no-supervisor runs one rank per process, -g %d starts %d; try: "
                                       "mpirun -n %d, without -g",
                                       ranks, ranks, ranks);
    TRY(start(&s, ranks));
    bb_err_mute(0);
    run_loop(&s);
    finish(&s);
    rc = -s.code;
out:
    release(&s);
    return rc;
}

/* Returns the request that opens the results of a run that fails early; NULL: none, as on other ranks than 0.
 * children: ranks per supervisor */
static json_t *early_results(const struct bb_results_head *results, int children, int argc, char **argv)
{
    const char *claim = bb_launcher_claim();
    const int ranks = children * (claim ? atoi(strchr(claim, '=') + 1) : 1),
              local = children * bb_launcher_local_size();
    struct bb_results_head head;

    if (!results || bb_launcher_rank() > 0)
        return NULL;
    head = *results;
    head.argc = argc;
    head.argv = argv;
    return bb_results_opening(&head, ranks, local > 0 && local < ranks ? (ranks + local - 1) / local : 1);
}

int bb_supervise(const char *command, const char *entry, double timeout_s, int ranks,
                 const struct bb_results_head *results, int argc, char **argv)
{
    struct bb_rank_program program = {.command = command,
                                      .entry = entry,
                                      .argc = argc,
                                      .argv = argv,
                                      .opening = early_results(results, ranks, argc, argv),
                                      .at_end = results ? results->at_end : NULL};
    int rc = bb_rank_program_find(command, program.path);

    bb_warn_hold(0);
    if (rc)
        bb_results_write_failure(json_incref(program.opening), rc);
    else
        rc = bb_supervise_program(&program, timeout_s, ranks);
    json_decref(program.opening);
    return rc;
}
