/* state_machine.c - the table of the supervisor's state machine (state_machine.h). */
#include "bootstrap/supervise/state_machine.h"

#define S(name) BB_STATE_##name
#define E(name) BB_EVENT_##name

enum { ALONE = BB_ROLE_ALONE, MEMBER = BB_ROLE_MEMBER, SERVER = BB_ROLE_SERVER, ANY = BB_ROLE_ANY };

const struct bb_machine_row bb_machine[] = {
    /* The rank's program is loading. */
    {S(LOADING), E(ALIVE), ANY, BB_DO_NOTHING, S(STARTING)},
    {S(LOADING), E(HANG), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LOADING), E(SIGNAL), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LOADING), E(LOST), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LOADING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(LOADING), E(END), ANY, BB_DO_END, S(ENDING)},

    /* The ranks exchange host names through MPI; the supervisors are not connected yet. */
    {S(STARTING), E(JOINED), ANY, BB_DO_ANSWER, S(RUNNING)},
    {S(STARTING), E(UNREACHABLE), ANY, BB_DO_WARN, S(RUNNING)},
    {S(STARTING), E(HANG), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(STARTING), E(SIGNAL), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(STARTING), E(LOST), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(STARTING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(STARTING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(STARTING), E(DONE), ANY, BB_DO_LEAVE, S(LEAVING)},

    /* The run. */
    {S(RUNNING), E(HANG), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(RUNNING), E(SIGNAL), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(RUNNING), E(LOST), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(RUNNING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(RUNNING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(RUNNING), E(SERVER_LOST), SERVER, BB_DO_NOTE, S(JUDGING)},
    {S(RUNNING), E(SERVER_LOST), MEMBER, BB_DO_FALL_BACK, S(ASKING)},
    {S(RUNNING), E(DONE), ANY, BB_DO_LEAVE, S(LEAVING)},

    /* The ranks of this supervisor have ended in order, others still run. */
    {S(LEAVING), E(HANG), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LEAVING), E(SIGNAL), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LEAVING), E(LOST), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(LEAVING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(LEAVING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(LEAVING), E(SERVER_LOST), SERVER, BB_DO_NOTE, S(JUDGING)},
    {S(LEAVING), E(SERVER_LOST), MEMBER, BB_DO_FALL_BACK, S(ASKING)},
    {S(LEAVING), E(ALL_ENDED), ANY, BB_DO_CLOSE, S(CLOSING)},

    /* A rank is in trouble. A member waits for the server's decision. */
    {S(JUDGING), E(HANG), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(JUDGING), E(SIGNAL), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(JUDGING), E(LOST), ANY, BB_DO_NOTE, S(JUDGING)},
    {S(JUDGING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(JUDGING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(JUDGING), E(CLAIM), ALONE, BB_DO_DEFER, S(DEFERRING)},
    {S(JUDGING), E(SERVER_LOST), SERVER, BB_DO_NOTE, S(JUDGING)},
    {S(JUDGING), E(SERVER_LOST), MEMBER, BB_DO_FALL_BACK, S(ASKING)},
    {S(JUDGING), E(ALL_ENDED), ANY, BB_DO_CLOSE, S(CLOSING)},
    {S(JUDGING), E(TIMER), ALONE | SERVER, BB_DO_JUDGE, S(ENDING)},
    {S(JUDGING), E(TIMER), MEMBER, BB_DO_FALL_BACK, S(ASKING)},

    /* Another supervisor of this host claimed the error line. */
    {S(DEFERRING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(DEFERRING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(DEFERRING), E(TIMER), ANY, BB_DO_JUDGE, S(ENDING)},

    /* The server is lost or does not answer; the backup server decides. If it does not, the supervisor is alone. */
    {S(ASKING), E(END), ANY, BB_DO_END, S(ENDING)},
    {S(ASKING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(ASKING), E(TIMER), ANY, BB_DO_NOTE, S(JUDGING)},

    /* The job ends early. */
    {S(ENDING), E(GONE), ANY, BB_DO_PART, S(LINGERING)},
    {S(ENDING), E(TIMER), ANY, BB_DO_KILL, S(ENDING)},
    {S(LINGERING), E(ALL_ENDED), ANY, BB_DO_DISMISS, S(OVER)},
    {S(LINGERING), E(SERVER_LOST), ANY, BB_DO_DISMISS, S(OVER)},
    {S(LINGERING), E(TIMER), ANY, BB_DO_DISMISS, S(OVER)},

    /* The job ends in order. */
    {S(CLOSING), E(WRITTEN), ANY, BB_DO_DISMISS, S(OVER)},
    {S(CLOSING), E(LOST), ANY, BB_DO_WRITER_LOST, S(ENDING)},
    {S(CLOSING), E(FAILED), ANY, BB_DO_END, S(ENDING)},
    {S(CLOSING), E(SIGNAL), ANY, BB_DO_REPORT_WRITE, S(OVER)},
    {S(CLOSING), E(TIMER), ANY, BB_DO_REPORT_WRITE, S(OVER)},
};
const size_t bb_machine_rows = sizeof(bb_machine) / sizeof(*bb_machine);

const struct bb_machine_row *bb_machine_row_of(enum bb_state state, enum bb_event event, enum bb_role role)
{
    for (size_t i = 0; i < bb_machine_rows; i++)
        if (bb_machine[i].state == state && bb_machine[i].event == event && (bb_machine[i].roles & (int)role))
            return &bb_machine[i];
    return NULL;
}

const char *bb_state_name(enum bb_state state)
{
    static const char *const names[BB_STATES] = {"loading", "starting",  "running", "judging", "deferring", "asking",
                                                 "ending",  "lingering", "leaving", "closing", "over"};

    return names[state];
}

const char *bb_event_name(enum bb_event event)
{
    static const char *const names[BB_EVENTS] = {"alive", "joined", "unreachable", "hang",    "signal",
                                                 "lost",  "failed", "done",        "gone",    "all ended",
                                                 "end",   "claim",  "server lost", "written", "timer"};

    return names[event];
}
