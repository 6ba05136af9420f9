/*
 * state_machine.h - state machine of a supervisor: a table of rows {state, event, roles, action, next state}. The table
 * decides what happens; supervisor.c carries the actions out. An event without a row is ignored.
 */
#ifndef BB_BOOTSTRAP_SUPERVISE_STATE_MACHINE_H
#define BB_BOOTSTRAP_SUPERVISE_STATE_MACHINE_H

#include <stddef.h>

enum bb_state {
    BB_STATE_LOADING,   /* the rank's program loads its libraries */
    BB_STATE_STARTING,  /* main() of the rank runs; the supervisors are not connected yet */
    BB_STATE_RUNNING,   /* the supervisors are connected */
    BB_STATE_JUDGING,   /* a rank is in trouble; waiting a moment for further reports, or for the server's decision */
    BB_STATE_DEFERRING, /* another supervisor of this host will print the error line */
    BB_STATE_ASKING,    /* waiting for the decision of the backup server */
    BB_STATE_ENDING,    /* the job ends early; waiting for the end of this supervisor's ranks */
    BB_STATE_LINGERING, /* the ranks have ended; waiting for the other supervisors, because launchers kill the rest of
                           the job when the first process exits */
    BB_STATE_LEAVING,   /* the ranks have ended in order; waiting for the other ranks of the job */
    BB_STATE_CLOSING,   /* all ranks have ended in order; the final results are being written */
    BB_STATE_OVER       /* the supervisor exits */
};
enum { BB_STATES = BB_STATE_OVER + 1 };

enum bb_event {
    BB_EVENT_ALIVE,       /* main() of all ranks of this supervisor runs */
    BB_EVENT_JOINED,      /* all ranks of this supervisor are connected */
    BB_EVENT_UNREACHABLE, /* the server cannot be reached */
    BB_EVENT_HANG,        /* a wait of a rank timed out */
    BB_EVENT_SIGNAL,      /* a signal, the loss of the launcher, or exit() called by a library ends a rank */
    BB_EVENT_LOST,        /* a rank was killed or crashed, or the connection to its supervisor was lost */
    BB_EVENT_FAILED,      /* a rank has printed its error and ends */
    BB_EVENT_DONE,        /* all ranks of this supervisor have ended in order */
    BB_EVENT_GONE,        /* all ranks of this supervisor have ended */
    BB_EVENT_ALL_ENDED,   /* the ranks of all supervisors have ended */
    BB_EVENT_END,         /* the server, or another supervisor of this host, has ended the job and printed the line */
    BB_EVENT_CLAIM,       /* another supervisor of this host, of a lower rank, is about to print the error line */
    BB_EVENT_SERVER_LOST, /* the connection to the server was lost */
    BB_EVENT_WRITTEN,     /* the final results are written */
    BB_EVENT_TIMER        /* the time limit of the state has passed */
};
enum { BB_EVENTS = BB_EVENT_TIMER + 1 };

/* Role of a supervisor. It changes from ALONE to MEMBER or SERVER when its ranks are connected, and back to ALONE when
 * the server is lost. */
enum bb_role {
    BB_ROLE_ALONE = 1,  /* not connected: shares the decision with the supervisors of its host only */
    BB_ROLE_MEMBER = 2, /* connected to the server, which decides */
    BB_ROLE_SERVER = 4  /* supervisor of rank 0, or of all ranks of the job */
};
enum { BB_ROLE_ANY = BB_ROLE_ALONE | BB_ROLE_MEMBER | BB_ROLE_SERVER };

enum bb_action {
    BB_DO_NOTHING,
    BB_DO_ANSWER,    /* inform the ranks of this supervisor that they are connected */
    BB_DO_NOTE,      /* record the report; it replaces a weaker one. A server asks all ranks for their state; a member
                           informs the server; a supervisor alone claims the error line among those of its host */
    BB_DO_DEFER,     /* wait for the error line of the supervisor that has claimed it */
    BB_DO_WARN,      /* warn that the causes of hangs will not be reported, and answer the ranks */
    BB_DO_JUDGE,     /* print the error line and end the job */
    BB_DO_END,       /* end the job without a line: it is printed already */
    BB_DO_LEAVE,     /* inform the server that the ranks of this supervisor have ended in order */
    BB_DO_FALL_BACK, /* report to the backup server */
    BB_DO_KILL,      /* kill the ranks of this supervisor */
    BB_DO_PART,      /* inform the server that the ranks of this supervisor have ended */
    BB_DO_CLOSE,     /* write the final results */
    BB_DO_REPORT_WRITE, /* report that the final results could not be written in time, or were interrupted */
    BB_DO_WRITER_LOST,  /* print that the process that writes the results is lost, and end the job */
    BB_DO_DISMISS       /* server: inform all supervisors that all ranks have ended */
};
enum { BB_ACTIONS = BB_DO_DISMISS + 1 };

struct bb_machine_row {
    enum bb_state state;
    enum bb_event event;
    int roles; /* bits of enum bb_role */
    enum bb_action action;
    enum bb_state next;
};

/* The table; bb_machine_rows is its number of rows. */
extern const struct bb_machine_row bb_machine[];
extern const size_t bb_machine_rows;

/* bb_machine_row_of - return the row for this state, event and role; NULL: the event is ignored. */
const struct bb_machine_row *bb_machine_row_of(enum bb_state state, enum bb_event event, enum bb_role role);

/* Names for logs and tests. */
const char *bb_state_name(enum bb_state state);
const char *bb_event_name(enum bb_event event);

#endif
