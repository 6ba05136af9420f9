/*
 * test_step_check.c - the checks find what is planted, each fault by the right check, and nothing in sound steps:
 * random ones, made sound by giving every rank its operations in one order that all share.
 */
#include "tests/proxies/made.h"

#include "proxies/simulate/rank_classes.h"
#include "proxies/simulate/step_check.h"
#include "proxies/simulate/task_graph.h"

static struct bb_checks checks;

static void run(struct bb_step *step)
{
    bb_checks_release(&checks);
    assert_int_equal(bb_step_check(step, &checks), 0);
}

static int enforce(struct bb_step *step)
{
    bb_checks_release(&checks);
    return bb_step_enforce(step, &checks);
}

static void answers_are(bool matched, bool deadlock_free, bool safe_serialised)
{
    for (int i = 0; i < checks.mismatches.n && i < BB_FAULTS_KEPT; i++)
        print_message("  mismatch: %s\n", checks.mismatches.text[i]);
    for (int i = 0; i < checks.deadlock.n && i < BB_FAULTS_KEPT; i++)
        print_message("  deadlock: %s\n", checks.deadlock.text[i]);
    assert_int_equal(checks.matched, matched);
    assert_int_equal(checks.deadlock_free, deadlock_free);
    assert_int_equal(checks.safe_serialised, safe_serialised);
}

static bool says(const struct bb_faults *f, const char *words)
{
    for (int i = 0; i < f->n && i < BB_FAULTS_KEPT; i++)
        if (strstr(f->text[i], words))
            return true;
    return false;
}

/* ---- planted: collectives ---- */

/* Three ranks, three all-reduces each. */
static void make_reduces(struct bb_step *step)
{
    made_init(step, 3, 2);
    for (int r = 0; r < 3; r++)
        for (size_t i = 0; i < 3; i++)
            made_reduce(step, r, 0, 100 + i, BB_NONE);
}

static void collectives_that_differ(void **state)
{
    struct bb_step step;

    (void)state;
    make_reduces(&step);
    run(&step);
    answers_are(true, true, true);
    assert_int_equal(checks.classes, 1 * 3); /* every rank is its own role here */

    step.roles[1].program.ops[1].count = 7;
    run(&step);
    answers_are(false, true, true);
    assert_true(says(&checks.mismatches, "rank 0 has all_reduce of 101 float sum (operation 1)"));
    assert_true(says(&checks.mismatches, "rank 1 has all_reduce of 7 float sum (operation 1)"));
    step.roles[1].program.ops[1].count = 101;

    step.roles[2].program.ops[0].redop = BB_MAX;
    run(&step);
    answers_are(false, true, true);
    step.roles[2].program.ops[0].redop = BB_SUM;

    step.roles[2].program.ops[0].dtype = BB_HALF;
    run(&step);
    answers_are(false, true, true);
    step.roles[2].program.ops[0].dtype = BB_FLOAT;

    step.roles[0].program.ops[2].coll = BB_ALL_GATHER;
    run(&step);
    answers_are(false, true, true);
    step.roles[0].program.ops[2].coll = BB_ALL_REDUCE;

    for (int r = 0; r < 3; r++) {
        step.roles[r].program.ops[0].coll = BB_BROADCAST;
        step.roles[r].program.ops[0].peer = r == 2;
    }
    run(&step);
    answers_are(false, true, true);
    assert_true(says(&checks.mismatches, "root 1"));
    bb_step_release(&step);
}

static void swapped_collectives(void **state)
{
    struct bb_step step;
    struct bb_op swap;

    (void)state;
    make_reduces(&step);
    swap = step.roles[1].program.ops[0];
    step.roles[1].program.ops[0] = step.roles[1].program.ops[1];
    step.roles[1].program.ops[1] = swap;
    run(&step);
    answers_are(false, true, true);
    assert_int_equal(checks.mismatches.n, 2);
    bb_step_release(&step);
}

static void a_collective_too_few(void **state)
{
    struct bb_step step;

    (void)state;
    make_reduces(&step);
    step.roles[2].program.n_ops--;
    run(&step);
    answers_are(false, false, false);
    assert_true(says(&checks.mismatches, "operation 2 of rank 0"));
    assert_true(says(&checks.deadlock, "waits for rank 2 whose program does not have it"));
    bb_step_release(&step);
}

/* Two communicators in opposite order: matches, but only streams of their own keep it alive. */
static void crossed_communicators(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 2);
    made_reduce(&step, 0, 0, 5, BB_NONE);
    made_reduce(&step, 0, 1, 5, BB_NONE);
    made_reduce(&step, 1, 1, 5, BB_NONE);
    made_reduce(&step, 1, 0, 5, BB_NONE);
    run(&step);
    answers_are(true, true, false);
    assert_true(says(&checks.serialised, "a circle of 2 ranks"));
    assert_int_equal(enforce(&step), 0);
    bb_step_release(&step);
}

/* The same with an event that ties the streams together: a true deadlock, told as a circle. */
static void crossed_and_tied(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 2);
    for (int r = 0; r < 2; r++)
        made_reduce(&step, r, !r, 5, made_reduce(&step, r, r, 5, BB_NONE));
    run(&step);
    answers_are(true, false, false);
    assert_true(
        says(&checks.deadlock, "rank 0 is in operation 0, all_reduce of 5 float on 'c0', and waits for rank 1"));
    assert_true(
        says(&checks.deadlock, "rank 1 is in operation 0, all_reduce of 5 float on 'c1', and waits for rank 0"));
    assert_true(says(&checks.deadlock, "a circle of 2 ranks"));
    assert_int_equal(enforce(&step), -BB_EFAIL);
    bb_step_release(&step);
}

/* ---- planted: messages ---- */

static void messages_that_differ(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 1);
    for (int i = 0; i < 3; i++) {
        made_send(&step, 0, 0, 1, 10);
        made_recv(&step, 1, 0, 0, 10);
    }
    run(&step);
    answers_are(true, true, true);

    step.roles[1].program.ops[1].count = 11;
    run(&step);
    answers_are(false, true, true);
    assert_true(
        says(&checks.mismatches, "message 1 from rank 0 to rank 1 on 'c0': rank 0 sends 10 float (operation 1)"));
    assert_true(says(&checks.mismatches, "rank 1 receives 11 float (operation 1)"));
    step.roles[1].program.ops[1].count = 10;

    step.roles[0].program.ops[2].dtype = BB_HALF;
    run(&step);
    answers_are(false, true, true);
    step.roles[0].program.ops[2].dtype = BB_FLOAT;

    step.roles[1].program.n_ops--; /* a receive is dropped */
    run(&step);
    answers_are(false, false, false);
    assert_true(says(&checks.mismatches, "operation 2 of rank 0 is the first without a receive"));
    assert_true(says(&checks.deadlock, "rank 0 is in operation 2"));
    bb_step_release(&step);
}

/* Two words for one peer share one channel: absolute 1 and offset +1 of rank 0, in turn. */
static void two_words_for_one_peer(void **state)
{
    struct bb_op near = made_op(BB_OP_SEND, 0);
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 1);
    near.peer_kind = BB_PEER_OFFSET;
    near.peer = 1;
    for (size_t i = 0; i < 4; i += 2) {
        made_send(&step, 0, 0, 1, 10 + i);
        near.count = 11 + i;
        made_add(&step, 0, &near, BB_NONE);
        made_recv(&step, 1, 0, 0, 10 + i);
        made_recv(&step, 1, 0, 0, 11 + i);
    }
    run(&step);
    answers_are(true, true, true);
    step.roles[0].program.ops[1].peer = -1; /* the same rank still */
    run(&step);
    answers_are(true, true, true);
    bb_step_release(&step);
}

/* Contacts by all kinds of words, some for the same rank: found as by asking each of them whom it means. */
static void contacts_are_found_by_rank(void **state)
{
    enum { MANY = 11, COMMS = 2 };
    unsigned seed = 7;
    struct bb_task_graph shape;
    struct bb_step step;
    int found = 0;

    (void)state;
    made_init(&step, MANY, COMMS);
    for (int i = 0; i < 60; i++) {
        struct bb_op op = made_op(i % 3 ? BB_OP_SEND : BB_OP_RECV, rand_r(&seed) % COMMS);

        op.peer_kind = rand_r(&seed) % 2 ? BB_PEER_OFFSET : BB_PEER_ABSOLUTE;
        op.peer = op.peer_kind == BB_PEER_OFFSET ? rand_r(&seed) % (5 * MANY) - 3 * MANY : rand_r(&seed) % MANY;
        made_add(&step, 0, &op, BB_NONE);
    }
    assert_int_equal(bb_task_graph_init(&shape, &step.roles[0].program), 0);
    for (int i = 0; i < COMMS * MANY * MANY; i++) {
        int comm = i % COMMS, from = i / COMMS % MANY, to = i / COMMS / MANY, meant = 0, told = 0;
        struct bb_meaning m = bb_meaning(&step.layout, &shape, comm, from, to);

        for (int c = 0; c < shape.n_contacts; c++)
            meant += shape.contacts[c].comm == comm && bb_channel_rank(&step.layout, &shape.contacts[c], from) == to;
        for (int c; (c = bb_meaning_next(&m)) != BB_NONE; told++)
            assert_true(shape.contacts[c].comm == comm &&
                        bb_channel_rank(&step.layout, &shape.contacts[c], from) == to);
        assert_int_equal(told, meant);
        found += told;
    }
    assert_int_equal(found, MANY * shape.n_contacts); /* each contact means one rank to each */
    bb_task_graph_release(&shape);
    bb_step_release(&step);
}

static void a_receive_from_nobody(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 3, 1);
    made_send(&step, 0, 0, 1, 10);
    made_recv(&step, 1, 0, 2, 10); /* should be 0 */
    run(&step);
    answers_are(false, false, false);
    assert_true(says(&checks.mismatches, "rank 0 sends 1 messages to rank 1"));
    assert_true(says(&checks.mismatches, "rank 1 receives 1 messages from rank 2"));
    bb_step_release(&step);
}

static void peers_that_do_not_exist(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 2, 1);
    made_send(&step, 0, 0, 2, 10);
    run(&step);
    answers_are(false, false, false);
    assert_true(says(&checks.mismatches, "rank 0: peer 2 on 'c0' does not exist"));
    bb_step_release(&step);
}

/* Every rank sends to the next and only then receives: a circle of all of them. */
static void ring(int ranks, bool grouped)
{
    struct bb_op op = made_op(BB_OP_SEND, 0);
    struct bb_step step;

    made_init(&step, ranks, 1);
    op.peer_kind = BB_PEER_OFFSET;
    op.call = grouped ? 0 : BB_NONE;
    op.peer = 1;
    op.count = 3;
    made_add(&step, 0, &op, BB_NONE);
    op.kind = BB_OP_RECV;
    op.peer = -1;
    made_add(&step, 0, &op, BB_NONE);
    made_share(&step);
    run(&step);
    answers_are(true, grouped, grouped);
    assert_int_equal(checks.classes, 1); /* all alike */
    if (!grouped && ranks <= 8) {
        char words[64];

        snprintf(words, sizeof(words), "a circle of %d ranks", ranks);
        assert_true(says(&checks.deadlock, words));
    }
    bb_step_release(&step);
}

static void rings(void **state)
{
    (void)state;
    ring(2, true);
    ring(5, true);
    ring(2, false);
    ring(5, false);
    ring(1000, false);
    assert_true(says(&checks.deadlock, "and so on"));
}

/* A chain of sends in one direction is safe without groups: its end begins. */
static void a_chain_is_no_ring(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 20, 1);
    for (int r = 0; r < 20; r++) {
        if (r < 19)
            made_send(&step, r, 0, r + 1, 3);
        if (r > 0)
            made_recv(&step, r, 0, r - 1, 3);
    }
    run(&step);
    answers_are(true, true, true);
    bb_step_release(&step);
}

/* Two messages to oneself need one call. */
static void messages_to_oneself(void **state)
{
    struct bb_step step;

    (void)state;
    for (int call = BB_NONE; call < 1; call++) {
        made_init(&step, 1, 1);
        made_message(&step, 0, BB_OP_SEND, 0, 0, 4, call);
        made_message(&step, 0, BB_OP_RECV, 0, 0, 4, call);
        run(&step);
        answers_are(true, call == 0, call == 0);
        bb_step_release(&step);
    }
}

/* The hazard of one_pipe_step: both partners receive first. On one communicator it hangs, on two it runs. */
static void both_receive_first(void **state)
{
    (void)state;
    for (int comms = 1; comms <= 2; comms++) {
        struct bb_step step;

        made_init(&step, 2, comms);
        for (int r = 0; r < 2; r++) {
            made_recv(&step, r, (comms - 1) * r, !r, 5);
            made_send(&step, r, (comms - 1) * !r, !r, 5);
        }
        run(&step);
        answers_are(true, comms == 2, false);
        bb_step_release(&step);
    }
}

/* One communicator runs its operations one after another even on two streams. */
static void streams_do_not_help_one_communicator(void **state)
{
    struct bb_step step;
    struct bb_op send = made_op(BB_OP_SEND, 0), recv = made_op(BB_OP_RECV, 0);

    (void)state;
    made_init(&step, 2, 2);
    for (int r = 0; r < 2; r++) {
        send.peer = recv.peer = !r;
        send.stream = 1;
        recv.stream = 2;
        made_add(&step, r, &send, BB_NONE);
        made_add(&step, r, &recv, BB_NONE);
    }
    run(&step);
    answers_are(true, false, false);
    bb_step_release(&step);
}

static void a_rank_outside_its_group(void **state)
{
    struct bb_step step;
    int group;

    (void)state;
    made_init(&step, 3, 1);
    group = bb_layout_add_irregular(&step.layout, "two", (int[]){0, 1}, 1, 2);
    bb_layout_add_comm(&step.layout, "two", group);
    bb_program_add_stream(&step.roles[2].program, "two", 1);
    made_reduce(&step, 2, 1, 5, BB_NONE);
    run(&step);
    answers_are(false, false, false);
    assert_true(says(&checks.mismatches, "rank 2 uses communicator 'two' but is no member of group 'two'"));
    bb_step_release(&step);
}

/* ---- sound steps ---- */

enum { RANKS = 12, EVENTS = 60 };

/* Something that happens between some ranks; each of them gets its part at this place of its program. */
static void random_event(struct bb_step *step, unsigned *seed, int call)
{
    int comm = rand_r(seed) % 3, a = rand_r(seed) % RANKS, b = rand_r(seed) % RANKS, wait;
    size_t count = 1 + (size_t)(rand_r(seed) % 5);

    switch (rand_r(seed) % 4) {
    case 0:
        for (int r = 0; r < RANKS; r++) {
            wait = step->roles[r].program.n_ops ? rand_r(seed) % (int)step->roles[r].program.n_ops : BB_NONE;
            made_reduce(step, r, comm, count, wait);
        }
        break;
    case 1:
        made_compute(step, a, 3, step->roles[a].program.n_ops ? (int)step->roles[a].program.n_ops - 1 : BB_NONE);
        break;
    case 2: /* an exchange between two, in one call each */
        made_message(step, a, BB_OP_SEND, comm, b, count, call);
        made_message(step, a, BB_OP_RECV, comm, b, count + 1, call);
        if (a != b) {
            made_message(step, b, BB_OP_SEND, comm, a, count + 1, call);
            made_message(step, b, BB_OP_RECV, comm, a, count, call);
        } else {
            step->roles[a].program.ops[step->roles[a].program.n_ops - 1].count = count;
        }
        break;
    default:
        if (a == b)
            break;
        made_send(step, a, comm, b, count);
        made_recv(step, b, comm, a, count);
    }
}

static void make_random(struct bb_step *step, unsigned *seed)
{
    made_init(step, RANKS, 3);
    for (int e = 0; e < EVENTS; e++)
        random_event(step, seed, e);
}

static void random_steps_are_sound(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct bb_step step;

        make_random(&step, &seed);
        run(&step);
        answers_are(true, true, true);
        bb_step_release(&step);
    }
}

/* One fault in a random step: always found, and by the check that it belongs to. */
static void random_faults_are_found(void **state)
{
    unsigned seed = 11;
    int planted = 0;

    (void)state;
    while (planted < 200) {
        struct bb_step step;
        struct bb_op *op;
        struct bb_program *p;

        make_random(&step, &seed);
        p = &step.roles[rand_r(&seed) % RANKS].program;
        op = &p->ops[rand_r(&seed) % (int)p->n_ops];
        if (bb_op_is_comm(op)) {
            planted++;
            if (planted % 2)
                op->count += 1000;
            else
                op->dtype = BB_DOUBLE;
            run(&step);
            assert_false(checks.matched);
            assert_true(checks.deadlock_free);
        }
        bb_step_release(&step);
    }
}

/* ---- classes ---- */

/* The answers do not depend on how many ranks are alike: the proxies at many sizes, and how many had to be executed. */
static void proxies_at_many_sizes(void **state)
{
    static const struct {
        const char *proxy;
        int ranks, layers, stages, classes;
    } rows[] = {{"gpt2_large", 4, 48, 4, 4},       {"gpt2_large", 4000, 48, 4, 4}, {"gpt2_large", 24, 48, 2, 2},
                {"gpt2_large", 98304, 96, 96, 96}, {"bert_large", 24, 24, 24, 24}, {"bert_large", 3000, 24, 3, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int timed = 0; timed < 2; timed++) {
            struct bb_step step;

            assert_int_equal(made_proxy(&step, (struct bb_proxy_config){.proxy = rows[i].proxy,
                                                                        .ranks = rows[i].ranks,
                                                                        .layers = rows[i].layers,
                                                                        .stages = rows[i].stages,
                                                                        .compute = timed ? "timed" : "none"}),
                             0);
            run(&step);
            answers_are(true, true, true);
            assert_int_equal(checks.classes, rows[i].classes);
            bb_step_release(&step);
        }
}

/* One rank of 1000 has a program of its own with a fault: it must not hide among those that are alike. */
static void one_bad_rank_in_a_thousand(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1000, 1);
    made_reduce(&step, 0, 0, 10, BB_NONE);
    made_reduce(&step, 1, 0, 11, BB_NONE);
    made_share(&step);
    run(&step);
    answers_are(true, true, true);
    assert_int_equal(checks.classes, 1);
    step.role_of[777] = 1;
    run(&step);
    answers_are(false, true, true);
    assert_int_equal(checks.classes, 2);
    assert_true(says(&checks.mismatches, "rank 777 has all_reduce of 11"));
    bb_step_release(&step);
}

/* Ranks 1 to 3 have one program, but rank 0 expects something else of rank 3: they are not alike. */
static void equal_words_different_ears(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 4, 1);
    for (int r = 1; r < 4; r++) {
        made_recv(&step, 0, 0, r, r == 3 ? 11 : 10);
        step.role_of[r] = 1;
    }
    made_send(&step, 1, 0, 0, 10);
    run(&step);
    answers_are(false, true, true);
    assert_int_equal(checks.mismatches.n, 1);
    assert_true(says(&checks.mismatches, "rank 3 sends 10 float"));
    bb_step_release(&step);
}

static int clean(void **state)
{
    (void)state;
    bb_checks_release(&checks);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_that_differ),
        cmocka_unit_test(swapped_collectives),
        cmocka_unit_test(a_collective_too_few),
        cmocka_unit_test(crossed_communicators),
        cmocka_unit_test(crossed_and_tied),
        cmocka_unit_test(messages_that_differ),
        cmocka_unit_test(contacts_are_found_by_rank),
        cmocka_unit_test(two_words_for_one_peer),
        cmocka_unit_test(a_receive_from_nobody),
        cmocka_unit_test(peers_that_do_not_exist),
        cmocka_unit_test(rings),
        cmocka_unit_test(a_chain_is_no_ring),
        cmocka_unit_test(messages_to_oneself),
        cmocka_unit_test(both_receive_first),
        cmocka_unit_test(streams_do_not_help_one_communicator),
        cmocka_unit_test(a_rank_outside_its_group),
        cmocka_unit_test(random_steps_are_sound),
        cmocka_unit_test(random_faults_are_found),
        cmocka_unit_test(proxies_at_many_sizes),
        cmocka_unit_test(one_bad_rank_in_a_thousand),
        cmocka_unit_test(equal_words_different_ears),
    };

    return cmocka_run_group_tests(tests, NULL, clean);
}
