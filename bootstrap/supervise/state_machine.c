/* state_machine.c - the table of the supervisor's state machine (state_machine.h). */
#include "bootstrap/supervise/state_machine.h"

#define S(name)  (1 << BB_STATE_##name)
#define E(name)  (1 << BB_EVENT_##name)
#define TO(name) BB_STATE_##name

enum { ALONE = BB_ROLE_ALONE, MEMBER = BB_ROLE_MEMBER, SERVER = BB_ROLE_SERVER, ANY = BB_ROLE_ANY };

/* RUNS: states before the early end of the job is decided. DECIDES: states in which another supervisor decides. */
enum {
    RUNS = S(LOADING) | S(STARTING) | S(RUNNING) | S(LEAVING) | S(JUDGING) | S(RESTARTING),
    DECIDES = S(DEFERRING) | S(ASKING)
};

const struct bb_machine_row bb_machine[] = {
    /* A job in which no rank is in trouble. */
    {S(LOADING), E(ALIVE), ANY, NULL, TO(STARTING)},
    {S(STARTING), E(JOINED), ANY, bb_ranks_answer, TO(RUNNING)},
    {S(STARTING), E(UNREACHABLE), ANY, bb_warn_unreachable, TO(RUNNING)},
    {S(STARTING) | S(RUNNING), E(DONE), ANY, bb_peers_bye, TO(LEAVING)},
    {S(LEAVING) | S(JUDGING), E(ALL_ENDED), ANY, bb_close_results, TO(CLOSING)},
    {S(CLOSING), E(WRITTEN), ANY, bb_dismiss, TO(OVER)},

    /* A rank is in trouble. A member waits for the server's decision. */
    {RUNS, E(HANG) | E(SIGNAL) | E(LOST), ANY, bb_note_trouble, TO(JUDGING)},
    {RUNS | DECIDES, E(FAILED) | E(END), ANY, bb_end_printed, TO(ENDING)},
    {S(JUDGING), E(CLAIM), ALONE, bb_defer, TO(DEFERRING)},
    {S(JUDGING), E(TIMER), ALONE | SERVER, bb_judge, TO(ENDING)},
    {S(DEFERRING), E(TIMER), ANY, bb_judge, TO(ENDING)},

    /* Nodes are lost, and the run goes on without them. */
    {RUNS | DECIDES, E(RESTART), MEMBER | SERVER, bb_stop_ranks, TO(RESTARTING)},
    {S(RESTARTING), E(GONE), ANY, bb_ranks_stopped, TO(RESTARTING)},
    {S(RESTARTING), E(START), ANY, bb_start_ranks, TO(LOADING)},
    {S(RESTARTING), E(TIMER), SERVER, bb_judge, TO(ENDING)},
    {S(RESTARTING), E(ALL_ENDED), ANY, bb_dismiss, TO(OVER)},

    /* The server is lost or does not answer. If the backup server does not decide either, the supervisor is alone. */
    {S(RUNNING) | S(LEAVING) | S(JUDGING) | S(RESTARTING), E(SERVER_LOST), SERVER, bb_note_trouble, TO(JUDGING)},
    {S(RUNNING) | S(LEAVING) | S(JUDGING) | S(RESTARTING), E(SERVER_LOST), MEMBER, bb_fall_back, TO(ASKING)},
    {S(JUDGING), E(TIMER), MEMBER, bb_fall_back, TO(ASKING)},
    {S(ASKING), E(TIMER), ANY, bb_note_trouble, TO(JUDGING)},

    /* The job ends early. */
    {S(ENDING), E(GONE), ANY, bb_linger, TO(LINGERING)},
    {S(ENDING), E(TIMER), ANY, bb_kill_ranks, TO(ENDING)},
    {S(LINGERING), E(ALL_ENDED) | E(SERVER_LOST) | E(TIMER), ANY, bb_dismiss, TO(OVER)},

    /* Trouble while the final results are written. */
    {S(CLOSING), E(LOST), ANY, bb_note_trouble, TO(JUDGING)},
    {S(CLOSING), E(FAILED), ANY, bb_end_printed, TO(ENDING)},
    {S(CLOSING), E(SIGNAL) | E(TIMER), ANY, bb_report_write, TO(OVER)},
};
const size_t bb_machine_rows = sizeof(bb_machine) / sizeof(*bb_machine);

const struct bb_machine_row *bb_machine_row_of(enum bb_state state, enum bb_event event, enum bb_role role)
{
    for (size_t i = 0; i < bb_machine_rows; i++) {
        const struct bb_machine_row *row = &bb_machine[i];

        if ((row->states >> state & 1) && (row->events >> event & 1) && (row->roles & (int)role))
            return row;
    }
    return NULL;
}
