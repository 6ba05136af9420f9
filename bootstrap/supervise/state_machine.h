/*
 * state_machine.h - state machine of a supervisor: a table of rows {states, events, roles, action, next state}. The
 * first row that matches the state, the event and the role decides the action and the next state; supervisor.c, ranks.c
 * and peers.c define the actions. An event that matches no row is ignored.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_STATE_MACHINE_H
#define BB_BOOTSTRAP_SUPERVISE_STATE_MACHINE_H

#include <stddef.h>

enum bb_state {
    BB_STATE_LOADING,    /* the rank's program loads its libraries */
    BB_STATE_STARTING,   /* main() of the rank runs; the ranks exchange host names through MPI, and the supervisors are
                           not connected yet */
    BB_STATE_RUNNING,    /* the supervisors are connected */
    BB_STATE_JUDGING,    /* a rank is in trouble; waiting a moment for further reports, or for the server's decision */
    BB_STATE_RESTARTING, /* nodes are lost; waiting until the ranks of all other nodes have ended, which are then started
                            again; on a lost node: waiting for the end of the job */
    BB_STATE_DEFERRING,  /* another supervisor of this host will print the error line */
    BB_STATE_ASKING,     /* the server is lost or does not answer; waiting for the decision of the backup server */
    BB_STATE_ENDING,     /* the job ends early; waiting for the end of this supervisor's ranks */
    BB_STATE_LINGERING, /* the job ends early and this supervisor's ranks have ended; waiting for the other supervisors,
                           because launchers kill the rest of the job when the first process exits */
    BB_STATE_LEAVING,   /* this supervisor's ranks have ended in order; waiting for the other ranks of the job */
    BB_STATE_CLOSING,   /* all ranks have ended in order; the final results are being written */
    BB_STATE_OVER       /* the supervisor exits */
};
enum { BB_STATES = BB_STATE_OVER + 1 };

enum bb_event {
    BB_EVENT_ALIVE,       /* main() of all ranks of this supervisor runs */
    BB_EVENT_JOINED,      /* all ranks of this supervisor are connected */
    BB_EVENT_UNREACHABLE, /* the server cannot be reached */
    BB_EVENT_HANG,        /* a wait of a rank timed out */
    BB_EVENT_SIGNAL,      /* a signal, the loss of the launcher, or a library's call of exit() ends a rank */
    BB_EVENT_LOST,        /* a rank was killed or crashed, or the connection to its supervisor was lost */
    BB_EVENT_FAILED,      /* a rank has printed its error and ends */
    BB_EVENT_DONE,        /* all ranks of this supervisor have ended in order */
    BB_EVENT_GONE,        /* all ranks of this supervisor have ended */
    BB_EVENT_ALL_ENDED,   /* all ranks of the job have ended */
    BB_EVENT_RESTART,     /* nodes are lost, and the run goes on without them */
    BB_EVENT_START,       /* the ranks of all nodes that are left have ended */
    BB_EVENT_END,         /* the server, or another supervisor of this host, has ended the job and printed the line */
    BB_EVENT_CLAIM,       /* another supervisor of this host, with a lower rank, is about to print the error line */
    BB_EVENT_SERVER_LOST, /* the connection to the server was lost */
    BB_EVENT_WRITTEN,     /* the final results are written */
    BB_EVENT_TIMER        /* the time limit of the state has passed */
};
enum { BB_EVENTS = BB_EVENT_TIMER + 1 };

/* Role of a supervisor: who decides how the job ends. The supervisor of rank 0 changes from ALONE to SERVER when it
 * receives the ranks of the job, the others from ALONE to MEMBER when they are connected to a server. A MEMBER becomes
 * ALONE if no server answers; the backup server becomes SERVER if the server is lost or does not answer. */
enum bb_role {
    BB_ROLE_ALONE = 1,  /* not connected: the supervisors of one host decide together (local_job.h) */
    BB_ROLE_MEMBER = 2, /* connected to a server, which decides */
    BB_ROLE_SERVER = 4  /* decides for all ranks of the job */
};
enum { BB_ROLE_ANY = BB_ROLE_ALONE | BB_ROLE_MEMBER | BB_ROLE_SERVER };

/* Type of an action. An action finds the report that raised the event in s->report. If it raises another event, it does
 * so last, because that event changes the state again. */
struct bb_supervisor;
typedef void bb_action(struct bb_supervisor *s);

bb_action bb_ranks_answer;     /* inform the ranks of this supervisor that they are connected */
bb_action bb_warn_unreachable; /* warn that the causes of hangs will not be reported, and answer the ranks */
bb_action bb_note_trouble;     /* store the report in s->trouble unless a report of higher precedence is stored there.
                                  A server requests the states of all ranks after a hang; a supervisor alone sends a
                                  claim to print the error line to the other supervisors of its host */
bb_action bb_defer;            /* wait until the supervisor with the claim has printed the error line */
bb_action bb_judge;            /* print the error line and end the job */
bb_action bb_end_printed;      /* end the job without an error line, because the line is already printed */
bb_action bb_fall_back;        /* report to the backup server */
bb_action bb_peers_bye;        /* inform the server that all processes of this supervisor's ranks have ended */
bb_action bb_kill_ranks;       /* kill the ranks of this supervisor */
bb_action bb_linger;           /* like bb_peers_bye, and wait for the other supervisors */
bb_action bb_close_results;    /* write the final results */
bb_action bb_report_write;     /* report that the final results could not be written in time, or were interrupted */
bb_action bb_stop_ranks;    /* kill the ranks of this supervisor, after the server has informed the other supervisors */
bb_action bb_ranks_stopped; /* inform the server that the ranks have ended */
bb_action bb_start_ranks;   /* start the ranks again, which then go on without the lost nodes */
bb_action bb_dismiss;       /* server: inform all supervisors that all ranks have ended */

struct bb_machine_row {
    int states, events, roles; /* states, events: bit 1 << n for value n; roles: bits of enum bb_role */
    bb_action *action;         /* NULL: none */
    enum bb_state next;
};

/* The table; bb_machine_rows is its number of rows. */
extern const struct bb_machine_row bb_machine[];
extern const size_t bb_machine_rows;

/* bb_machine_row_of - return the row for this state, event and role; NULL: the event is ignored. */
const struct bb_machine_row *bb_machine_row_of(enum bb_state state, enum bb_event event, enum bb_role role);

#endif
