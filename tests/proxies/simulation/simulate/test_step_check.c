/*
 * test_step_check.c - each injected fault is found by the check that is responsible for it, and valid steps have none.
 * The random valid steps give every rank its operations in one global order.
 */
#include "tests/proxies/made.h"

#include "proxies/simulation/simulate/graph/rank_classes.h"
#include "proxies/simulation/simulate/graph/task_graph.h"
#include "proxies/simulation/simulate/step_check.h"

static struct bb_checks checks;

static void run_checks(struct bb_step *step)
{
    bb_checks_release(&checks);
    assert_int_equal(bb_step_check(step, &checks), 0);
}

static void assert_verdicts(bool matched, bool deadlock_free, bool safe_serialised)
{
    for (int i = 0; i < checks.mismatches.n && i < BB_FAULTS_KEPT; i++)
        print_message("  mismatch: %s\n", checks.mismatches.text[i]);
    for (int i = 0; i < checks.deadlock.n && i < BB_FAULTS_KEPT; i++)
        print_message("  deadlock: %s\n", checks.deadlock.text[i]);
    assert_int_equal(checks.matched, matched);
    assert_int_equal(checks.deadlock_free, deadlock_free);
    assert_int_equal(checks.safe_serialised, safe_serialised);
}

static bool contains(const struct bb_faults *f, const char *text)
{
    for (int i = 0; i < f->n && i < BB_FAULTS_KEPT; i++)
        if (strstr(f->text[i], text))
            return true;
    return false;
}

/* ---- programs as text ---- */

/*
 * Adds one operation from a token. "sum0:100": an all-reduce of 100 elements on communicator c0. After the
 * communicator, in any order: ':' count; '>' peer or root (with a sign: an offset); '&' group call; '^' the operation
 * that it waits for; '@' a stream other than the communicator's.
 */
static void add_token(struct bb_step *step, int rank, const char *token)
{
    static const struct {
        const char *name;
        enum bb_op_kind kind;
        enum bb_coll_kind coll;
        enum bb_redop_id redop;
        enum bb_dtype_id dtype;
    } kinds[] = {
        {"sum", BB_OP_COLLECTIVE, BB_ALL_REDUCE, BB_SUM, BB_FLOAT},
        {"max", BB_OP_COLLECTIVE, BB_ALL_REDUCE, BB_MAX, BB_FLOAT},
        {"halfsum", BB_OP_COLLECTIVE, BB_ALL_REDUCE, BB_SUM, BB_HALF},
        {"gather", BB_OP_COLLECTIVE, BB_ALL_GATHER, BB_SUM, BB_FLOAT},
        {"cast", BB_OP_COLLECTIVE, BB_BROADCAST, BB_SUM, BB_FLOAT},
        {"send", BB_OP_SEND, BB_ALL_REDUCE, BB_SUM, BB_FLOAT},
        {"halfsend", BB_OP_SEND, BB_ALL_REDUCE, BB_SUM, BB_HALF},
        {"recv", BB_OP_RECV, BB_ALL_REDUCE, BB_SUM, BB_FLOAT},
    };
    size_t kind = 0, name_length = strcspn(token, "01");
    int wait = BB_NONE;
    struct bb_op op;
    char *at;

    while (strlen(kinds[kind].name) != name_length || strncmp(kinds[kind].name, token, name_length) != 0)
        assert_true(++kind < ROWS(kinds));
    op = made_op(kinds[kind].kind, (int)strtol(token + name_length, &at, 10));
    op.coll = kinds[kind].coll;
    op.redop = kinds[kind].redop;
    op.dtype = kinds[kind].dtype;
    while (*at) {
        char mark = *at++;
        bool is_signed = *at == '+' || *at == '-';
        int value = (int)strtol(at, &at, 10);

        switch (mark) {
        case ':':
            op.count = (size_t)value;
            break;
        case '>':
            op.peer = value;
            op.peer_kind = is_signed ? BB_PEER_OFFSET : BB_PEER_ABSOLUTE;
            break;
        case '&':
            op.call = value;
            break;
        case '^':
            wait = value;
            break;
        case '@':
            op.stream = value;
            break;
        default:
            fail_msg("'%s'", token);
        }
    }
    made_add(step, rank, &op, wait);
}

enum { MOST_PROGRAMS = 3 };

/* Rank r runs program r; ranks after the last program run the last program. */
static void make_programs(struct bb_step *step, int ranks, const char *const programs[MOST_PROGRAMS])
{
    int n = 0;

    made_init(step, ranks, 2);
    for (; n < MOST_PROGRAMS && programs[n]; n++) {
        char text[200];

        snprintf(text, sizeof(text), "%s", programs[n]);
        for (char *token = strtok(text, " "); token; token = strtok(NULL, " "))
            add_token(step, n, token);
    }
    for (int r = 0; r < ranks; r++)
        step->role_of[r] = r < n ? r : n - 1;
}

/* ---- injected faults ---- */

#define SUMS  "sum0:100 sum0:101 sum0:102"
#define SENDS "send0>1:10 send0>1:10 send0>1:10"
#define RECVS "recv0>0:10 recv0>0:10 recv0>0:10"

static const struct row {
    const char *name;
    int ranks;
    const char *programs[MOST_PROGRAMS];
    const char *verdicts;                               /* matched, deadlock-free, safe when serialised: y or n */
    int mismatches, classes;                            /* expected numbers; 0: not checked */
    const char *mismatch[2], *deadlock[3], *serialised; /* expected parts of the printed lines */
} rows[] = {
    {"equal collectives", 3, {SUMS, SUMS, SUMS}, .verdicts = "yyy", .classes = 3}, /* each rank has its own role */
    {"another count",
     3,
     {SUMS, "sum0:100 sum0:7 sum0:102", SUMS},
     .verdicts = "nyy",
     .mismatch = {"rank 0 has all_reduce of 101 float sum (operation 1)",
                  "rank 1 has all_reduce of 7 float sum (operation 1)"}},
    {"another operation", 3, {SUMS, SUMS, "max0:100 sum0:101 sum0:102"}, .verdicts = "nyy"},
    {"another type", 3, {SUMS, SUMS, "halfsum0:100 sum0:101 sum0:102"}, .verdicts = "nyy"},
    {"another collective", 3, {"sum0:100 sum0:101 gather0:102", SUMS, SUMS}, .verdicts = "nyy"},
    {"another root", 3, {"cast0>0:100", "cast0>0:100", "cast0>1:100"}, .verdicts = "nyy", .mismatch = {"root 1"}},
    {"swapped collectives", 3, {SUMS, "sum0:101 sum0:100 sum0:102", SUMS}, .verdicts = "nyy", .mismatches = 2},
    {"a missing collective",
     3,
     {SUMS, SUMS, "sum0:100 sum0:101"},
     .verdicts = "nnn",
     .mismatch = {"operation 2 of rank 0"},
     .deadlock = {"waits for rank 2 whose program does not contain this operation"}},

    /* Two communicators in opposite order match, but end only because their streams are separate. An event that
     * orders the streams makes it a true deadlock, reported as a cycle. */
    {"crossed", 2, {"sum0:5 sum1:5", "sum1:5 sum0:5"}, .verdicts = "yyn", .serialised = "a cycle of 2 ranks"},
    {"crossed, ordered by an event",
     2,
     {"sum0:5 sum1:5^0", "sum1:5 sum0:5^0"},
     .verdicts = "ynn",
     .deadlock = {"rank 0 is in operation 0, all_reduce of 5 float on 'c0', and waits for rank 1",
                  "rank 1 is in operation 0, all_reduce of 5 float on 'c1', and waits for rank 0",
                  "a cycle of 2 ranks"}},
    /* Rank 0's current operation leads to the collective on c1 through the second of its two successors. */
    {"crossed, ordered by an event of a later operation",
     2,
     {"sum0:4 sum0:5 sum0:6 sum1:5^1", "sum0:4 sum1:5^0 sum0:5^1 sum0:6"},
     .verdicts = "ynn",
     .deadlock = {"rank 0 is in operation 1, all_reduce of 5 float on 'c0', and waits for rank 1",
                  "rank 1 is in operation 1, all_reduce of 5 float on 'c1', and waits for rank 0",
                  "a cycle of 2 ranks"}},

    {"equal messages", 2, {SENDS, RECVS}, .verdicts = "yyy"},
    {"a message with another count",
     2,
     {SENDS, "recv0>0:10 recv0>0:11 recv0>0:10"},
     .verdicts = "nyy",
     .mismatch = {"message 1 from rank 0 to rank 1 on 'c0': rank 0 sends 10 float (operation 1)",
                  "rank 1 receives 11 float (operation 1)"}},
    {"a message with another type", 2, {"send0>1:10 send0>1:10 halfsend0>1:10", RECVS}, .verdicts = "nyy"},
    {"a missing receive",
     2,
     {SENDS, "recv0>0:10 recv0>0:10"},
     .verdicts = "nnn",
     .mismatch = {"operation 2 of rank 0 is the first send without a receive"},
     .deadlock = {"rank 0 is in operation 2"}},

    /* Peers given as absolute rank 1 and as offset +1 (or -1, the same) of rank 0 share one channel, in program
     * order. */
    {"one peer, absolute and relative",
     2,
     {"send0>1:10 send0>+1:11 send0>1:12 send0>+1:13", "recv0>0:10 recv0>0:11 recv0>0:12 recv0>0:13"},
     .verdicts = "yyy"},
    {"one peer, absolute and two offsets",
     2,
     {"send0>1:10 send0>-1:11 send0>1:12 send0>+1:13", "recv0>0:10 recv0>0:11 recv0>0:12 recv0>0:13"},
     .verdicts = "yyy"},
    {"a receive without a send",
     3,
     {"send0>1:10", "recv0>2:10", ""},
     .verdicts = "nnn",
     .mismatch = {"rank 0 sends 1 messages to rank 1", "rank 1 receives 1 messages from rank 2"}},
    {"no such peer",
     2,
     {"send0>2:10", ""},
     .verdicts = "nnn",
     .mismatch = {"rank 0: peer 2 does not exist on communicator 'c0'"}},

    /* Every rank has one program that sends to the next rank and then receives: a cycle of all ranks unless the two
     * are grouped. */
    {"grouped ring of 2", 2, {"send0>+1:3&0 recv0>-1:3&0"}, .verdicts = "yyy", .classes = 1},
    {"grouped ring of 5", 5, {"send0>+1:3&0 recv0>-1:3&0"}, .verdicts = "yyy", .classes = 1},
    {"ring of 2", 2, {"send0>+1:3 recv0>-1:3"}, .verdicts = "ynn", .classes = 1, .deadlock = {"a cycle of 2 ranks"}},
    {"ring of 5", 5, {"send0>+1:3 recv0>-1:3"}, .verdicts = "ynn", .classes = 1, .deadlock = {"a cycle of 5 ranks"}},
    {"ring of 1000",
     1000,
     {"send0>+1:3 recv0>-1:3"},
     .verdicts = "ynn",
     .classes = 1,
     .deadlock = {"the ranks for which it waits are not shown"}},

    {"to itself, grouped", 1, {"send0>0:4&0 recv0>0:4&0"}, .verdicts = "yyy"},
    {"to itself", 1, {"send0>0:4 recv0>0:4"}, .verdicts = "ynn"},

    /* Both ranks receive first. On one communicator this deadlocks, on two it ends. Two streams do not help: one
     * communicator runs its operations one after another, also on two streams. (This is the hazard of a pipeline
     * step with one communicator.) */
    {"both receive first", 2, {"recv0>1:5 send0>1:5", "recv0>0:5 send0>0:5"}, .verdicts = "ynn"},
    {"both receive first, two communicators", 2, {"recv0>1:5 send1>1:5", "recv1>0:5 send0>0:5"}, .verdicts = "yyn"},
    {"both receive first, two streams", 2, {"send0>1:0@1 recv0>1:0@2", "send0>0:0@1 recv0>0:0@2"}, .verdicts = "ynn"},

    /* Ranks 1 to 3 have one program, but rank 0 expects a different count from rank 3: rank 3 is in its own class. */
    {"equal programs, different peer",
     4,
     {"recv0>1:10 recv0>2:10 recv0>3:11", "send0>0:10"},
     .verdicts = "nyy",
     .mismatches = 1,
     .mismatch = {"rank 3 sends 10 float"}},
};

static void assert_contains(const struct bb_faults *faults, const char *const *text, int n)
{
    for (int i = 0; i < n && text[i]; i++)
        if (!contains(faults, text[i]))
            fail_msg("no line contains \"%s\"", text[i]);
}

static void finds_injected_faults(void **state)
{
    (void)state;
    for (const struct row *row = rows; row < rows + ROWS(rows); row++) {
        bool matched = row->verdicts[0] == 'y', ends = row->verdicts[1] == 'y';
        struct bb_step step;

        print_message("  %s\n", row->name);
        make_programs(&step, row->ranks, row->programs);
        run_checks(&step);
        assert_verdicts(matched, ends, row->verdicts[2] == 'y');
        assert_int_equal(bb_checks_report(row->name, &checks), matched && ends ? 0 : -BB_EFAIL);
        if (row->mismatches)
            assert_int_equal(checks.mismatches.n, row->mismatches);
        if (row->classes)
            assert_int_equal(checks.classes, row->classes);
        assert_contains(&checks.mismatches, row->mismatch, 2);
        assert_contains(&checks.deadlock, row->deadlock, 3);
        assert_contains(&checks.serialised, &row->serialised, 1);
        bb_step_release(&step);
    }
}

/* Channels with absolute and relative peers, some to the same rank: bb_channels_to finds the same channels as a
 * search through all of them. */
static void channels_to_matches_exhaustive_search(void **state)
{
    enum { MANY = 11, COMMS = 2 };
    unsigned seed = 7;
    struct bb_task_graph graph;
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
    bb_task_graph_init(&graph, &step.roles[0].program);
    for (int i = 0; i < COMMS * MANY * MANY; i++) {
        int comm = i % COMMS, from = i / COMMS % MANY, to = i / COMMS / MANY, expected = 0, listed = 0;
        struct bb_channels_to m = bb_channels_to(&step.layout, &graph, comm, from, to);

        for (int c = 0; c < graph.n_channels; c++)
            expected += graph.channels[c].comm == comm && bb_channel_rank(&step.layout, &graph.channels[c], from) == to;
        for (int c; (c = bb_channels_to_next(&m)) != BB_NONE; listed++)
            assert_true(graph.channels[c].comm == comm &&
                        bb_channel_rank(&step.layout, &graph.channels[c], from) == to);
        assert_int_equal(listed, expected);
        found += listed;
    }
    assert_int_equal(found, MANY * graph.n_channels); /* seen from each rank, each channel leads to exactly one rank */
    bb_task_graph_release(&graph);
    bb_step_release(&step);
}

/* A chain of sends in one direction is safe without group calls: the last rank begins. */
static void chain_of_sends_is_deadlock_free(void **state)
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
    run_checks(&step);
    assert_verdicts(true, true, true);
    bb_step_release(&step);
}

static void reports_a_rank_outside_its_group(void **state)
{
    struct bb_step step;
    int group;

    (void)state;
    made_init(&step, 3, 1);
    group = bb_layout_add_irregular(&step.layout, "two", (int[]){0, 1}, 1, 2);
    bb_layout_add_comm(&step.layout, "two", group);
    bb_program_add_stream(&step.roles[2].program, "two", 1);
    made_reduce(&step, 2, 1, 5, BB_NONE);
    run_checks(&step);
    assert_verdicts(false, false, false);
    assert_true(contains(&checks.mismatches, "rank 2 uses communicator 'two' but is not a member of group 'two'"));
    bb_step_release(&step);
}

/* ---- valid steps ---- */

enum { RANKS = 12, EVENTS = 60 };

/* An event between random ranks; each of these ranks appends its part to its program. */
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
    case 2: /* an exchange between two ranks, one group call on each */
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

static void valid_random_steps_pass(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct bb_step step;

        make_random(&step, &seed);
        run_checks(&step);
        assert_verdicts(true, true, true);
        bb_step_release(&step);
    }
}

/* One fault in a random step is always found, and by the matching check. */
static void finds_a_fault_in_random_steps(void **state)
{
    unsigned seed = 11;
    int injected = 0;

    (void)state;
    while (injected < 200) {
        struct bb_step step;
        struct bb_op *op;
        struct bb_program *p;

        make_random(&step, &seed);
        p = &step.roles[rand_r(&seed) % RANKS].program;
        op = &p->ops[rand_r(&seed) % (int)p->n_ops];
        if (bb_op_is_comm(op)) {
            injected++;
            if (injected % 2)
                op->count += 1000;
            else
                op->dtype = BB_DOUBLE;
            run_checks(&step);
            assert_false(checks.matched);
            assert_true(checks.deadlock_free);
        }
        bb_step_release(&step);
    }
}

/* ---- classes ---- */

/* Results and the number of executed classes of proxies at many sizes; the number of equal ranks does not change the
 * results. */
static void classes_do_not_grow_with_the_number_of_ranks(void **state)
{
    static const struct {
        const char *proxy;
        int ranks, layers, stages, classes;
    } rows[] = {{"gpt2_large", 4, 48, 4, 4},       {"gpt2_large", 4000, 48, 4, 4}, {"gpt2_large", 24, 48, 2, 2},
                {"gpt2_large", 98304, 96, 96, 96}, {"bert_large", 24, 24, 24, 24}, {"bert_large", 3000, 24, 3, 3}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (int timed = 0; timed < 2; timed++) {
            struct bb_step step;

            assert_int_equal(MADE_LINE(&step, rows[i].proxy, .ranks = rows[i].ranks, .layers = rows[i].layers,
                                       .stages = rows[i].stages, .compute = timed ? "timed" : "none"),
                             0);
            run_checks(&step);
            assert_verdicts(true, true, true);
            assert_int_equal(checks.classes, rows[i].classes);
            bb_step_release(&step);
        }
}

/* One of 1000 ranks has a faulty program: it gets its own class and is found. */
static void finds_one_faulty_rank_in_a_thousand(void **state)
{
    struct bb_step step;

    (void)state;
    made_init(&step, 1000, 1);
    made_reduce(&step, 0, 0, 10, BB_NONE);
    made_reduce(&step, 1, 0, 11, BB_NONE);
    made_share(&step);
    run_checks(&step);
    assert_verdicts(true, true, true);
    assert_int_equal(checks.classes, 1);
    step.role_of[777] = 1;
    run_checks(&step);
    assert_verdicts(false, true, true);
    assert_int_equal(checks.classes, 2);
    assert_true(contains(&checks.mismatches, "rank 777 has all_reduce of 11"));
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
        cmocka_unit_test(finds_injected_faults),
        cmocka_unit_test(channels_to_matches_exhaustive_search),
        cmocka_unit_test(chain_of_sends_is_deadlock_free),
        cmocka_unit_test(reports_a_rank_outside_its_group),
        cmocka_unit_test(valid_random_steps_pass),
        cmocka_unit_test(finds_a_fault_in_random_steps),
        cmocka_unit_test(classes_do_not_grow_with_the_number_of_ranks),
        cmocka_unit_test(finds_one_faulty_rank_in_a_thousand),
    };

    return cmocka_run_group_tests(tests, NULL, clean);
}
