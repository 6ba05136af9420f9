/* test_state_machine.c - walks every row of the supervisor's table, and checks the table as a whole. */
#include "bootstrap/supervise/state_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROLES = 3 };
static const enum bb_role roles[ROLES] = {BB_ROLE_ALONE, BB_ROLE_MEMBER, BB_ROLE_SERVER};

/* Each row is found by each of its states, events and roles; two rows never apply to the same case. */
static void each_row_is_found(void **state)
{
    int n = 0, n_found = 0;

    (void)state;
    for (size_t i = 0; i < bb_machine_rows; i++)
        for (int s = 0; s < BB_STATES; s++)
            for (int e = 0; e < BB_EVENTS; e++)
                for (int r = 0; r < ROLES; r++) {
                    const struct bb_machine_row *row = &bb_machine[i];

                    if (!(row->states >> s & 1) || !(row->events >> e & 1) || !(row->roles & (int)roles[r]))
                        continue;
                    n++;
                    n_found += bb_machine_row_of((enum bb_state)s, (enum bb_event)e, roles[r]) == row;
                }
    assert_int_equal(n, n_found);
    assert_int_equal(n, 197); /* combinations of a state, an event and a role */
}

/* Marks the states that can be reached from `from`, for a supervisor with this role. */
static void mark_reachable(enum bb_state from, enum bb_role role, bool reached[BB_STATES])
{
    if (reached[from])
        return;
    reached[from] = true;
    for (int e = 0; e < BB_EVENTS; e++) {
        const struct bb_machine_row *row = bb_machine_row_of(from, (enum bb_event)e, role);

        if (row)
            mark_reachable(row->next, role, reached);
    }
}

static void every_state_can_be_reached_and_leads_to_the_end(void **state)
{
    bool any[BB_STATES] = {false};

    (void)state;
    for (int r = 0; r < ROLES; r++) {
        bool reached[BB_STATES] = {false};

        mark_reachable(BB_STATE_LOADING, roles[r], reached);
        assert_true(reached[BB_STATE_OVER]);
        for (int s = 0; s < BB_STATES; s++) {
            bool from_here[BB_STATES] = {false};

            any[s] = any[s] || reached[s];
            mark_reachable((enum bb_state)s, roles[r], from_here);
            assert_true(from_here[BB_STATE_OVER]);
        }
    }
    for (int s = 0; s < BB_STATES; s++)
        assert_true(any[s]);
}

/* A rank that dies, hangs or prints an error is never ignored before the job ends. */
static void trouble_is_never_ignored(void **state)
{
    static const enum bb_event trouble[] = {BB_EVENT_HANG, BB_EVENT_SIGNAL, BB_EVENT_LOST, BB_EVENT_FAILED,
                                            BB_EVENT_END};
    static const enum bb_state running[] = {BB_STATE_LOADING, BB_STATE_STARTING, BB_STATE_RUNNING, BB_STATE_LEAVING,
                                            BB_STATE_JUDGING};

    (void)state;
    for (size_t s = 0; s < sizeof(running) / sizeof(*running); s++)
        for (size_t e = 0; e < sizeof(trouble) / sizeof(*trouble); e++)
            for (int r = 0; r < ROLES; r++)
                assert_non_null(bb_machine_row_of(running[s], trouble[e], roles[r]));
}

/* The error line is printed, or known to be printed, on every way to an early end, and at most once. */
static void an_early_end_has_one_line(void **state)
{
    const int ending = 1 << BB_STATE_ENDING, late = ending | 1 << BB_STATE_LINGERING;

    (void)state;
    for (size_t i = 0; i < bb_machine_rows; i++) {
        const struct bb_machine_row *row = &bb_machine[i];
        const bool enters = row->next == BB_STATE_ENDING && !(row->states & ending);

        assert_int_equal(enters, row->action == bb_judge || row->action == bb_end_printed);
        if (row->states & late)
            assert_true(row->action == bb_kill_ranks || row->action == bb_linger || row->action == bb_dismiss);
    }
}

/* States in which a supervisor waits for others end by a timer, so that no supervisor waits for ever. */
static void waiting_states_have_a_timer(void **state)
{
    static const enum bb_state waiting[] = {BB_STATE_JUDGING, BB_STATE_DEFERRING, BB_STATE_ASKING,
                                            BB_STATE_ENDING,  BB_STATE_LINGERING, BB_STATE_CLOSING};

    (void)state;
    for (size_t s = 0; s < sizeof(waiting) / sizeof(*waiting); s++)
        for (int r = 0; r < ROLES; r++)
            assert_non_null(bb_machine_row_of(waiting[s], BB_EVENT_TIMER, roles[r]));
}

/* The life of a supervisor, event by event, as the table must describe it. */
struct step {
    enum bb_event event;
    bb_action *action;
    enum bb_state next;
};

static void walk(enum bb_role role, const struct step *steps, size_t n)
{
    enum bb_state now = BB_STATE_LOADING;

    for (size_t i = 0; i < n; i++) {
        const struct bb_machine_row *row = bb_machine_row_of(now, steps[i].event, role);

        assert_non_null(row);
        assert_ptr_equal(row->action, steps[i].action);
        assert_int_equal(row->next, steps[i].next);
        now = row->next;
    }
    assert_int_equal(now, BB_STATE_OVER);
}

#define WALK(role, ...)                                                                                                \
    walk(role, (const struct step[]){__VA_ARGS__}, sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step))

static void lives_of_a_supervisor(void **state)
{
    (void)state;
    WALK(BB_ROLE_SERVER, {BB_EVENT_ALIVE, NULL, BB_STATE_STARTING},
         {BB_EVENT_JOINED, bb_ranks_answer, BB_STATE_RUNNING}, {BB_EVENT_DONE, bb_peers_bye, BB_STATE_LEAVING},
         {BB_EVENT_ALL_ENDED, bb_close_results, BB_STATE_CLOSING}, {BB_EVENT_WRITTEN, bb_dismiss, BB_STATE_OVER});
    WALK(BB_ROLE_SERVER, {BB_EVENT_ALIVE, NULL, BB_STATE_STARTING},
         {BB_EVENT_JOINED, bb_ranks_answer, BB_STATE_RUNNING}, {BB_EVENT_HANG, bb_note_trouble, BB_STATE_JUDGING},
         {BB_EVENT_LOST, bb_note_trouble, BB_STATE_JUDGING}, {BB_EVENT_TIMER, bb_judge, BB_STATE_ENDING},
         {BB_EVENT_TIMER, bb_kill_ranks, BB_STATE_ENDING}, {BB_EVENT_GONE, bb_linger, BB_STATE_LINGERING},
         {BB_EVENT_ALL_ENDED, bb_dismiss, BB_STATE_OVER});
    WALK(BB_ROLE_MEMBER, {BB_EVENT_ALIVE, NULL, BB_STATE_STARTING},
         {BB_EVENT_JOINED, bb_ranks_answer, BB_STATE_RUNNING}, {BB_EVENT_SERVER_LOST, bb_fall_back, BB_STATE_ASKING},
         {BB_EVENT_TIMER, bb_note_trouble, BB_STATE_JUDGING}, {BB_EVENT_END, bb_end_printed, BB_STATE_ENDING},
         {BB_EVENT_GONE, bb_linger, BB_STATE_LINGERING}, {BB_EVENT_TIMER, bb_dismiss, BB_STATE_OVER});
    WALK(BB_ROLE_ALONE, {BB_EVENT_LOST, bb_note_trouble, BB_STATE_JUDGING},
         {BB_EVENT_CLAIM, bb_defer, BB_STATE_DEFERRING}, {BB_EVENT_TIMER, bb_judge, BB_STATE_ENDING},
         {BB_EVENT_GONE, bb_linger, BB_STATE_LINGERING}, {BB_EVENT_ALL_ENDED, bb_dismiss, BB_STATE_OVER});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_found),
        cmocka_unit_test(every_state_can_be_reached_and_leads_to_the_end),
        cmocka_unit_test(trouble_is_never_ignored),
        cmocka_unit_test(an_early_end_has_one_line),
        cmocka_unit_test(waiting_states_have_a_timer),
        cmocka_unit_test(lives_of_a_supervisor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
