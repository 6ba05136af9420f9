/* supervisor.h - state of a supervisor, and the interfaces between its files: loop and actions (supervisor.c), its own
 * ranks (ranks.c), the other supervisors (peers.c) and error lines (verdict.c). */
#ifndef BB_BOOTSTRAP_SUPERVISE_SUPERVISOR_H
#define BB_BOOTSTRAP_SUPERVISE_SUPERVISOR_H

#include "bootstrap/supervise/child.h"
#include "bootstrap/supervise/star.h"
#include "bootstrap/supervise/state_machine.h"

/* Maximum length of an error line. */
#define BB_VERDICT_LINE 1800

/* The ranks of the job, as far as they are known. */
struct bb_job {
    int rank, size;              /* rank: first rank of this supervisor */
    int nodes;                   /* number of machines; 0: not known yet */
    char host[BB_HOST_TEXT];     /* this host */
    char (*hosts)[BB_HOST_TEXT]; /* [size] host of each rank; NULL: not known yet; owned */
    int *node_of;                /* [size] node of each rank; owned */
};

/* A rank, as the other supervisors know it. */
struct bb_peer {
    struct bb_seen seen;
    bool joined, hung, answered; /* answered: has answered ASK, or cannot answer */
    bool ended;                  /* all processes of the rank have ended */
    bool stopped;                /* suspended by a signal */
    enum bb_cause cause;         /* BB_CAUSE_LOST: lost */
};

/* Connections to the other supervisors. */
struct bb_star {
    struct bb_siphash_key token;
    struct bb_peer *peers; /* [n_peers] servers: all ranks of the job; other supervisors: rank 0 */
    int n_peers;
    struct bb_star_link *links; /* [n_links] connections to the servers, [BB_STAR_SERVERS]; then accepted ones */
    int n_links;
    int listen_fds[BB_STAR_ADDRESSES], n_listen;
    struct bb_star_dial dial; /* attempt to connect to a server */
    int dialing;              /* index of that server; -1: none */
    int self;                 /* index of this supervisor among the servers; -1: it is none */
    bool fell_back;           /* the server does not answer, so the backup server decides */
    struct bb_star_endpoint own, endpoints[BB_STAR_SERVERS]; /* own: addresses at which this supervisor listens */
    double first_end_s; /* time at which the first rank of the job ended in order; 0: none has */
    double state_s;     /* time at which the states were last sent */
};

/* Trouble of a rank: what is reported, and what the error line is about. */
struct bb_trouble {
    enum bb_cause cause; /* BB_CAUSE_NONE: none */
    int rank;            /* rank in trouble */
    int signal;          /* BB_CAUSE_SIGNAL, BB_CAUSE_LOST: signal or other cause (signals.h) */
    int code;            /* exit code of the job */
};

/* The process that writes the results. */
struct bb_writer {
    pid_t pid;                       /* 0: none */
    bool ended;                      /* the process is reaped */
    struct bb_rank_receiver control; /* fd -1: no writer was started */
    char *path;                      /* JSON file; NULL: none, or not known yet */
    bool finished, lost;             /* finished: has written the final results, or is lost; lost: has ended before */
    int code;                        /* result of the final write, 0 or negative */
};

struct bb_supervisor {
    struct bb_rank_program program;
    struct bb_job job;
    struct bb_child *children; /* [n_children] */
    int n_children;
    struct {
        int alive, done, ended; /* number of children whose main() has begun, that ended in order, that ended at all */
    } counts;
    enum bb_state state;
    enum bb_role role;
    double due_s;     /* time at which BB_EVENT_TIMER occurs; 0: no timer */
    double timeout_s; /* time limit of every wait of the ranks */
    double round_s;   /* time of the last iteration of the loop */
    double ending_s;  /* time at which the job started to end; 0: it does not end */
    struct bb_star star;
    struct bb_trouble report;  /* of the event that is being handled */
    struct bb_trouble trouble; /* the trouble that will be reported */
    struct bb_writer writer;
    pid_t launcher; /* parent process at the start */
    int launcher_fd, signal_fd;
    sigset_t mask;       /* signal mask of the ranks and of the writer */
    pid_t signal_sender; /* process that sent the last SIGTERM; 0: none */
    double claimed_s;    /* time until which another supervisor of this host is expected to print the error line */
    int code;            /* exit code of the job */
    bool joining;        /* a rank of this supervisor has asked to be connected */
    bool launched;       /* false: this is certainly the only process of the job */
    char line[BB_VERDICT_LINE]; /* the error line that this supervisor has printed; "": none */
};

/* bb_supervisor_raise - perform the action of the table's row for this event. report: what is known about it. */
void bb_supervisor_raise(struct bb_supervisor *s, enum bb_event event, struct bb_trouble report);
static inline void bb_supervisor_event(struct bb_supervisor *s, enum bb_event event)
{
    bb_supervisor_raise(s, event, (struct bb_trouble){BB_CAUSE_NONE, 0, 0, 0});
}

/* bb_supervisor_poll_writer - returns whether the writer has written the final results, or has ended before. */
bool bb_supervisor_poll_writer(struct bb_supervisor *s);

/* ---- own ranks (ranks.c) ---- */

void bb_ranks_read(struct bb_supervisor *s);  /* read the sockets of the ranks */
void bb_ranks_reap(struct bb_supervisor *s);  /* handle processes that have ended, stopped or continued */
void bb_ranks_check(struct bb_supervisor *s); /* check the signs of life */
void bb_ranks_end(struct bb_supervisor *s);   /* inform the ranks that the job is ending */
void bb_ranks_kill(struct bb_supervisor *s);
bool bb_ranks_gone(const struct bb_supervisor *s);
struct bb_child *bb_ranks_find(const struct bb_supervisor *s, int rank); /* NULL: not a rank of this supervisor */

/* ---- other supervisors (peers.c) ---- */

/* bb_peers_world - start to listen if this supervisor is a server. at: out, its addresses. */
int bb_peers_world(struct bb_supervisor *s, struct bb_star_endpoint *at) BB_MUST_CHECK;
/* bb_peers_join - connect to the servers. endpoints: [BB_STAR_SERVERS]. */
void bb_peers_join(struct bb_supervisor *s, const struct bb_star_endpoint *endpoints);
void bb_peers_read(struct bb_supervisor *s, double now_s);               /* accept connections and read messages */
int bb_peers_polls(const struct bb_supervisor *s, struct pollfd *polls); /* fill in the sockets; returns their number */
/* bb_peers_report - a rank of this supervisor is in trouble: inform the server, and raise the event. */
void bb_peers_report(struct bb_supervisor *s, int rank, enum bb_cause cause, int signal, int code);
void bb_peers_ask_states(struct bb_supervisor *s);
bool bb_peers_answered(const struct bb_supervisor *s); /* all ranks have answered bb_peers_ask_states */
void bb_peers_send_states(struct bb_supervisor *s, double now_s);
void bb_peers_check(struct bb_supervisor *s, double now_s); /* server: checks the time limit of the end of the run */
void bb_peers_end(struct bb_supervisor *s);                 /* server: send END to all */
bool bb_peers_joined(const struct bb_supervisor *s);        /* server: all ranks are connected */
void bb_peers_dismiss(struct bb_supervisor *s);             /* server: send BYE to all */
/* bb_peers_fall_back - member: report the trouble to the backup server, because the server is lost or does not
 * answer. */
void bb_peers_fall_back(struct bb_supervisor *s);
void bb_peers_own_seen(struct bb_supervisor *s); /* server: copy the progress of its own ranks to their entries */
void bb_peers_release(struct bb_supervisor *s);

/* ---- error lines (verdict.c) ---- */

/* bb_verdict_compose - compose the line about s->trouble in s->line; bb_verdict_print - print it. */
void bb_verdict_compose(struct bb_supervisor *s);
void bb_verdict_print(const struct bb_supervisor *s);
/* bb_verdict_phase - the last step of the first rank of this supervisor and what it waited for. */
void bb_verdict_phase(const struct bb_supervisor *s, char phase[BB_VERDICT_LINE]);

#endif
