/* supervisor.h - state of a supervisor, and the interfaces between its files: loop and actions (supervisor.c), its own
 * ranks (ranks.c), the other supervisors (peers.c) and error lines (verdict.c). */
#ifndef BB_BOOTSTRAP_SUPERVISE_SUPERVISOR_H
#define BB_BOOTSTRAP_SUPERVISE_SUPERVISOR_H

#include "bootstrap/supervise/child.h"
#include "bootstrap/supervise/star.h"
#include "bootstrap/supervise/state_machine.h"

/* Capacity for an error line in bytes. */
#define BB_VERDICT_LINE 1800
/* Capacity for the answer of NCCL's RAS in bytes. */
#define BB_RAS_TEXT 4096

/* The ranks of the job. Until the first rank of this supervisor has sent them, `rank` is the rank that the launcher set
 * and `size` is 1. */
struct bb_job {
    int rank, size;              /* rank: first rank of this supervisor; size: number of ranks of the job */
    int nodes;                   /* number of machines; 0: not known yet */
    char host[BB_HOST_TEXT];     /* this host */
    char (*hosts)[BB_HOST_TEXT]; /* [size] host of each rank; NULL: not known yet; owned */
    int *node_of;                /* [size] node index of each rank; NULL: not known yet; owned */
};

/* Bytes that arrive in parts. */
struct bb_block {
    char *data; /* [bytes], owned */
    size_t bytes;
};

/* What a server knows about a rank of the job. */
struct bb_peer {
    struct bb_seen seen;   /* progress that the rank's supervisor reported last */
    bool joined;           /* the rank's supervisor is connected, or is this one */
    bool hung;             /* a wait of the rank timed out */
    bool answered;         /* the rank's supervisor has answered ASK (star.h), or cannot answer */
    bool ended;            /* all processes of the rank have ended */
    bool stopped;          /* suspended by a signal */
    enum bb_cause cause;   /* reported cause of the highest precedence; BB_CAUSE_NONE: no trouble */
    bool left;             /* the rank is on a lost node, so the run goes on without it */
    bool ready;            /* its supervisor has sent READY, or its part of the current BB_RANK_GATHER */
    bool unsupervised;     /* the connection to its supervisor is lost */
    struct bb_block block; /* data of the ranks of the supervisor of which this is the first rank (BB_RANK_GATHER) */
};

/* Connections to the other supervisors. "Servers" are the server (index 0) and the backup server (index 1). */
struct bb_star {
    struct bb_siphash_key token; /* secret of the job, for authentication */
    struct bb_peer *peers;       /* [n_peers] on the servers: all ranks of the job; on other supervisors: rank 0 */
    int n_peers;
    struct bb_star_link *links; /* [n_links] first the connections to the servers, [BB_STAR_SERVERS]; then the
                                   connections that this supervisor accepted as a server */
    int n_links;
    int listen_fds[BB_STAR_ADDRESSES], n_listen;
    struct bb_star_dial dial;    /* current attempt to connect to a server */
    int dialing;                 /* index of the server of that attempt; -1: no attempt */
    int self;                    /* index of this supervisor among the servers; -1: it is not a server */
    bool fell_back;              /* the server does not answer, so reports are sent to the backup server */
    struct bb_star_endpoint own; /* addresses at which this supervisor listens */
    struct bb_star_endpoint endpoints[BB_STAR_SERVERS]; /* addresses of the servers */
    double first_end_s;       /* server: time at which it learned that a first rank of the job has ended; 0: none has */
    double state_s;           /* time at which STATE messages were last sent */
    struct bb_block gathered; /* member: result of the current BB_RANK_GATHER, so far */
};

/* Trouble of a rank (a hang, its loss, or its early end), which is reported and which the error line describes. */
struct bb_trouble {
    enum bb_cause cause; /* BB_CAUSE_NONE: no trouble */
    int rank;            /* rank in trouble */
    int signal;          /* with BB_CAUSE_SIGNAL, BB_CAUSE_LOST: signal or other cause (signals.h); 0: unknown */
    int code;            /* exit code of the job if it ends because of this trouble */
};

/* The last restart of the run without the lost nodes (restart.c). */
struct bb_restart {
    double at_s;            /* time at which it began; 0: there was none */
    struct bb_trouble loss; /* server: its reason */
    int n_left, n_before;   /* number of ranks on lost nodes, and of those before the first rank of this supervisor */
};

/* The process that writes the results. */
struct bb_writer {
    pid_t pid;                       /* 0: not started */
    bool ended;                      /* the process has ended (waitpid) */
    struct bb_rank_receiver control; /* socket to the process; fd -1: not started */
    char *path;                      /* path of the JSON file; NULL: no file, or not known yet */
    bool finished;                   /* the process has written the final results, or is lost */
    bool lost;                       /* the process ended without an answer to the request for the final results */
    int code;                        /* result of writing the final results: 0 or a negative error */
};

/* State of a supervisor process. */
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
    time_t began;     /* start of the run */
    double round_s;   /* time of the last iteration of the loop */
    double ending_s;  /* time at which the early end of the job began; 0: it has not begun */
    struct bb_star star;
    struct bb_trouble report;  /* what is known about the event that is being handled */
    struct bb_trouble trouble; /* trouble of the highest precedence so far, which the error line will describe */
    struct bb_writer writer;
    struct bb_restart restart;
    pid_t launcher;      /* parent process at the start */
    int launcher_fd;     /* pidfd of the launcher */
    int signal_fd;       /* signalfd of the blocked signals */
    sigset_t mask;       /* signal mask of the ranks and of the writer */
    bool signalled;      /* a signal that ends the run was received */
    pid_t signal_sender; /* process that sent the last SIGTERM to this supervisor; 0: no SIGTERM was received */
    double claimed_s;    /* time until which another supervisor of this host is expected to print the error line */
    int code;            /* exit code of the job */
    bool joining;        /* a rank of this supervisor has requested the connection to the servers (BB_RANK_JOIN) */
    bool launched;       /* false: this is certainly the only process of the job */
    char line[BB_VERDICT_LINE];  /* error line of this supervisor; "": it prints none */
    json_t *lost;                /* list of the ranks that the line names as lost or late; NULL: none */
    char ras[BB_RAS_TEXT];       /* answer of NCCL's RAS after a hang; "": none */
    char printed[BB_ERROR_TEXT]; /* error line that the first rank that failed has printed; "": none */
};

/* bb_supervisor_raise - handle an event: enter the next state of the table's row (state_machine.h) and perform the
 * row's action. report: what is known about the event. bb_supervisor_event - the same for an event without a report. */
void bb_supervisor_raise(struct bb_supervisor *s, enum bb_event event, struct bb_trouble report);
static inline void bb_supervisor_event(struct bb_supervisor *s, enum bb_event event)
{
    bb_supervisor_raise(s, event, (struct bb_trouble){BB_CAUSE_NONE, 0, 0, 0});
}

/* bb_supervisor_poll_writer - returns whether the process that writes the results has written the final results or has
 * ended without doing so; true if there is no such process. */
bool bb_supervisor_poll_writer(struct bb_supervisor *s);

/* ---- own ranks (ranks.c) ---- */

void bb_ranks_read(struct bb_supervisor *s);  /* read the sockets of the ranks */
void bb_ranks_reap(struct bb_supervisor *s);  /* handle processes that have ended, stopped or continued */
void bb_ranks_check(struct bb_supervisor *s); /* report ranks that gave no sign of life for the time limit */
void bb_ranks_end(struct bb_supervisor *s);   /* inform the ranks that the job is ending early */
void bb_ranks_kill(struct bb_supervisor *s);
bool bb_ranks_gone(const struct bb_supervisor *s); /* returns whether all ranks of this supervisor have ended */
struct bb_child *bb_ranks_find(const struct bb_supervisor *s, int rank); /* NULL: not a rank of this supervisor */

/* ---- other supervisors (peers.c) ---- */

/* bb_peers_world - start to listen if this supervisor is a server; s->job is known. at: out, its addresses. Returns 0
 * or a negative error. */
int bb_peers_world(struct bb_supervisor *s, struct bb_star_endpoint *at) BB_MUST_CHECK;
/* bb_peers_join - start to connect to the servers. endpoints: [BB_STAR_SERVERS] their addresses. */
void bb_peers_join(struct bb_supervisor *s, const struct bb_star_endpoint *endpoints);
void bb_peers_read(struct bb_supervisor *s, double now_s);               /* accept connections and read messages */
int bb_peers_polls(const struct bb_supervisor *s, struct pollfd *polls); /* fill in the sockets; returns their number */
/* bb_peers_report - a rank of this supervisor is in trouble: inform the server, and raise the event that belongs to the
 * cause. signal, code: as in struct bb_trouble. */
void bb_peers_report(struct bb_supervisor *s, int rank, enum bb_cause cause, int signal, int code);
void bb_peers_ask_states(struct bb_supervisor *s);     /* server: request the progress of all ranks (ASK) */
bool bb_peers_answered(const struct bb_supervisor *s); /* server: returns whether all ranks have answered ASK */
/* bb_peers_send_states - send STATE if the interval between two STATE messages has passed; now_s 0: at once. A member
 * sends its ranks' progress to the server, the server that of rank 0 to all. */
void bb_peers_send_states(struct bb_supervisor *s, double now_s);
/* bb_peers_check - server: report the first rank that has not ended within the time limit after another one ended. */
void bb_peers_check(struct bb_supervisor *s, double now_s);
void bb_peers_end(struct bb_supervisor *s);          /* server: send END to all: the job ends early */
bool bb_peers_joined(const struct bb_supervisor *s); /* server: returns whether all ranks are connected */
/* bb_peers_cut_off - returns whether the network of this node has probably failed, so that the server prints the error
 * line: in a job of three nodes or more, no other node answers this backup server, or neither the server nor the backup
 * server, which are on two other nodes, answers this member. */
bool bb_peers_cut_off(const struct bb_supervisor *s);
void bb_peers_dismiss(struct bb_supervisor *s); /* server: send BYE to all: all ranks have ended */
/* bb_peers_fall_back - member: report the trouble to the backup server, because the server is lost or does not
 * answer. */
void bb_peers_fall_back(struct bb_supervisor *s);
void bb_peers_send_all(struct bb_supervisor *s, struct bb_star_msg msg); /* server: send a message to all */
/* bb_peers_server - member: return the connection to the server, or to the backup server if the server is lost or does not
 * answer. */
struct bb_star_link *bb_peers_server(struct bb_supervisor *s);
void bb_peers_own_seen(struct bb_supervisor *s); /* server: copy the progress of its own ranks to star.peers */
void bb_peers_release(struct bb_supervisor *s);

/* ---- restart without lost nodes (restart.c) ---- */

/* bb_restart_is_possible - server: return whether the run can go on without the nodes of the ranks that are lost.
 * bb_restart_obey  - member: handle LEAVE, STOP, START or DATA from the server.
 * bb_restart_serve - server: handle READY or DATA from the supervisor of this connection.
 * bb_restart_gather - handle BB_RANK_GATHER of the ranks of this supervisor.
 * bb_restart_drop_data - free the data of all BB_RANK_GATHER that have not ended. */
bool bb_restart_is_possible(const struct bb_supervisor *s);
void bb_restart_obey(struct bb_supervisor *s, const struct bb_star_msg *msg);
void bb_restart_serve(struct bb_supervisor *s, const struct bb_star_link *link, const struct bb_star_msg *msg);
void bb_restart_gather(struct bb_supervisor *s, const void *data, size_t bytes);
void bb_restart_drop_data(struct bb_supervisor *s);

/* ---- error lines (verdict.c) ---- */

/* bb_verdict_compose - store the error line about s->trouble in s->line. bb_verdict_print - print the error line. */
void bb_verdict_compose(struct bb_supervisor *s);
void bb_verdict_print(const struct bb_supervisor *s);
/* bb_verdict_phase - phase: out, the last step of this supervisor's first rank and what the rank waited for. */
void bb_verdict_phase(const struct bb_supervisor *s, char phase[BB_VERDICT_LINE]);

#endif
