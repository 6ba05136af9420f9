/*
 * test_pipe.c - pipeline schedules with their messages, as steps without other communication: every step matches and
 * has no deadlock, also with all streams serialised; predicted without communication times, the step time matches the
 * formulas.
 */
#include "tests/proxies/made.h"
#include "tests/proxies/workloads/transformer/bubble.h"

#include "proxies/simulation/simulate/predict.h"
#include "proxies/simulation/simulate/step_check.h"
#include "proxies/workloads/transformer/pipe.h"

static const struct bb_cluster instant = {
    .name = "instant", .gpus_per_node = 1024, .memory_gbps = 1e9, .intra = {.gbps = 1e9}, .inter = {.gbps = 1e9}};

static const struct bb_proxy_config config = {.dtype = "float", .compute = "timed"};

struct times {
    double us[3]; /* one chunk and micro-batch: forward, backward, weights */
};

static void write_stage(struct bb_step *step, const struct bb_schedule *s, int stage, const int comms[BB_PIPE_FLOWS],
                        const struct times *times)
{
    static const char *const names[] = {"F", "B", "W"};
    struct bb_script script;
    struct bb_pipe pipe;

    bb_script_init(&script, &step->roles[stage].program, &config);
    bb_pipe_open(&pipe, s, &script, &step->layout, comms, stage, 16, 1);
    for (int t = 0; t < pipe.n_slots; t++) {
        const struct bb_slot *slot = &pipe.slots[t];

        script.micro_batch = slot->micro_batch;
        script.layer = slot->chunk;
        if (slot->kind == BB_SLOT_WEIGHTS) {
            bb_script_compute(&script, names[2], times->us[2], 0, BB_NONE, BB_NONE);
        } else {
            int in = bb_pipe_input(&pipe, t), out = bb_pipe_output(&pipe, t);

            bb_script_compute(&script, names[slot->kind], times->us[slot->kind], 0, in, out);
        }
        bb_pipe_slot_done(&pipe, t);
    }
    bb_pipe_close(&pipe);
    assert_int_equal(bb_script_result(&script), 0);
}

static void make_pipeline(struct bb_step *step, const struct bb_schedule *s, const struct times *times)
{
    const struct bb_axis axis = {"pp", s->stages};
    int comms[BB_PIPE_FLOWS];

    *step = (struct bb_step){.proxy = "pipeline"};
    assert_int_equal(bb_layout_init(&step->layout, s->stages, &axis, 1), 0);
    bb_pipe_comms(&step->layout, bb_layout_add_group(&step->layout, "pp", 1), bb_schedule_is_bidirectional(s), comms);
    assert_int_equal(bb_step_add_roles(step, s->stages), 0);
    for (int r = 0; r < s->stages; r++) {
        step->roles[r].name = "stage";
        step->role_of[r] = r;
        write_stage(step, s, r, comms, times);
    }
}

static void assert_valid(const struct bb_step *step)
{
    struct bb_checks checks;

    assert_int_equal(bb_step_check(step, &checks), 0);
    assert_true(checks.matched);
    assert_true(checks.deadlock_free);
    assert_true(checks.safe_serialised);
    bb_checks_release(&checks);
}

/* The next message of this kind on comm between rank and peer, starting at operation *at; NULL: none. */
static const struct bb_op *next_message(const struct bb_step *step, int rank, int peer, int comm, enum bb_op_kind kind,
                                        size_t *at)
{
    const struct bb_program *p = &step->roles[rank].program;

    for (; *at < p->n_ops; ++*at) {
        const struct bb_op *op = &p->ops[*at];

        if (op->kind == kind && op->comm == comm && bb_op_peer(op, rank, step->layout.ranks) == peer)
            return &p->ops[(*at)++];
    }
    return NULL;
}

/* Counts cannot show this: each message is received with the micro-batch and phase with which it was sent. */
static bool labels_match(const struct bb_step *step)
{
    int ranks = step->layout.ranks;

    for (int i = 0; i < ranks * ranks * step->layout.n_comms; i++) {
        int from = i % ranks, to = i / ranks % ranks, comm = i / ranks / ranks;
        size_t at_send = 0, at_recv = 0;

        for (;;) {
            const struct bb_op *s = next_message(step, from, to, comm, BB_OP_SEND, &at_send);
            const struct bb_op *r = next_message(step, to, from, comm, BB_OP_RECV, &at_recv);

            if (!s || !r)
                break;
            if (s->phase != r->phase || s->micro_batch != r->micro_batch)
                return false;
        }
    }
    return true;
}

static size_t messages(const struct bb_program *p, enum bb_op_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == kind;
    return n;
}

/* Each stage sends m v messages forward except from the end of the model, and m v backward except from its
 * beginning. */
static void assert_message_counts(const struct bb_step *step, const struct bb_schedule *s)
{
    int m = s->micro_batches, v = s->chunks;
    size_t all = 0;

    for (int r = 0; r < s->stages; r++) {
        int ends = (r == 0) + (r == s->stages - 1), each = s->stages > 1 ? 2 * m * v - m * ends : 0;

        assert_int_equal(messages(&step->roles[r].program, BB_OP_SEND), each);
        assert_int_equal(messages(&step->roles[r].program, BB_OP_RECV), each);
        all += messages(&step->roles[r].program, BB_OP_SEND);
    }
    assert_int_equal(all, 2 * m * (s->stages * v - 1));
}

static void check_schedule(struct bb_schedule s, double f, double b, double w, bool timed)
{
    struct times times = {{f / s.chunks, b / s.chunks, w / s.chunks}};
    double ideal = s.micro_batches * (f + b + w) * 1000;
    struct bb_prediction p;
    struct bb_step step;

    assert_int_equal(bb_schedule_validate(&s, 8, "test"), 0);
    make_pipeline(&step, &s, &times);
    assert_valid(&step);
    assert_true(labels_match(&step));
    assert_message_counts(&step, &s);
    if (timed) {
        assert_int_equal(bb_predict(&step, &instant, &p), 0);
        assert_float_equal((double)p.step_ns, ideal * (1 + bubble_of(&s)), 0.5);
        bb_prediction_release(&p);
    }
    bb_step_release(&step);
}

static const int stage_counts[] = {1, 2, 3, 4, 8}, micro_batch_counts[] = {1, 2, 3, 4, 8, 17};

static void flat_schedules_match_their_bubble_formula(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++) {
            int p = stage_counts[i], m = micro_batch_counts[j];

            check_schedule((struct bb_schedule){BB_GPIPE, p, m, 1, 0, false}, 12, 24, 0, true);
            check_schedule((struct bb_schedule){BB_1F1B, p, m, 1, 0, false}, 12, 24, 0, true);
            check_schedule((struct bb_schedule){BB_1F1B, p, m, 1, 0, false}, 36, 12, 0, true);
            check_schedule((struct bb_schedule){BB_ZB_H1, p, m, 1, 0, false}, 12, 12, 12, m >= p);
            check_schedule((struct bb_schedule){BB_ZB_H2, p, m, 1, 0, false}, 12, 12, 12, m >= 2 * p - 1);
        }
}

static void interleaved_schedules_match_their_bubble_formula(void **state)
{
    (void)state;
    for (int i = 1; i < 5; i++)
        for (int v = 2; v <= 4; v++)
            for (int k = 1; k <= 4; k *= 2)
                check_schedule((struct bb_schedule){BB_INTERLEAVED, stage_counts[i], k * stage_counts[i], v,
                                                    stage_counts[i], false},
                               12 * v, 24 * v, 0, true);
}

static void interleaved_schedules_with_wide_groups_are_valid(void **state)
{
    static const int cases[][4] = {{2, 6, 3, 2},  {2, 8, 4, 3},   {4, 12, 6, 2}, {4, 14, 5, 4},
                                   {3, 11, 4, 2}, {8, 24, 16, 2}, {2, 7, 5, 2},  {2, 17, 3, 3}};

    (void)state;
    for (size_t c = 0; c < ROWS(cases); c++)
        check_schedule((struct bb_schedule){BB_INTERLEAVED, cases[c][0], cases[c][1], cases[c][3], cases[c][2], false},
                       12, 24, 0, false);
}

/* Dualpipe: four flows; each micro-batch crosses each boundary once in each direction. The step matches and has no
 * deadlock; it is not safe with all streams serialised, which is therefore not checked. */
static void dualpipe_sends_each_micro_batch_in_both_directions(void **state)
{
    const struct times times = {{12, 12, 12}};

    (void)state;
    for (int p = 2; p <= 8; p += 2)
        for (int m = 2 * p; m <= 4 * p; m += 2) {
            const struct bb_schedule s = {BB_DUALPIPE, p, m, 2, p, false};
            struct bb_checks checks;
            struct bb_step step;
            size_t all = 0;

            make_pipeline(&step, &s, &times);
            assert_int_equal(bb_step_check(&step, &checks), 0);
            assert_true(checks.matched && checks.deadlock_free);
            bb_checks_release(&checks);
            assert_true(labels_match(&step));
            for (int r = 0; r < p; r++) {
                assert_int_equal(messages(&step.roles[r].program, BB_OP_SEND),
                                 messages(&step.roles[r].program, BB_OP_RECV));
                all += messages(&step.roles[r].program, BB_OP_SEND);
            }
            assert_int_equal(all, 2 * m * (p - 1));
            bb_step_release(&step);
        }
}

/* Injected fault: two messages with swapped micro-batches. */
static void finds_swapped_messages(void **state)
{
    const struct bb_schedule s = {BB_1F1B, 2, 3, 1, 0, false};
    const struct times times = {{1, 2, 0}};
    struct bb_op *sends[3] = {NULL};
    struct bb_step step;
    int n = 0;

    (void)state;
    make_pipeline(&step, &s, &times);
    assert_true(labels_match(&step));
    for (size_t i = 0; i < step.roles[0].program.n_ops; i++)
        if (step.roles[0].program.ops[i].kind == BB_OP_SEND)
            sends[n++] = &step.roles[0].program.ops[i];
    assert_int_equal(n, 3);
    sends[0]->micro_batch = 1;
    sends[1]->micro_batch = 0;
    assert_false(labels_match(&step));
    bb_step_release(&step);
}

/* A program as text: "r0" receive of micro-batch 0 (gradients: "R0"), "s0" send, "F0", "B0" compute; [] one group
 * call. */
static void write_text(const struct bb_program *p, char *text, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];
        bool first = op->call != BB_NONE && (i == 0 || p->ops[i - 1].call != op->call);
        bool last = op->call != BB_NONE && (i + 1 == p->n_ops || p->ops[i + 1].call != op->call);
        char letter = op->kind == BB_OP_COMPUTE       ? op->what[0]
                      : op->phase == BB_PHASE_FORWARD ? "sr"[op->kind == BB_OP_RECV]
                                                      : "SR"[op->kind == BB_OP_RECV];

        n += (size_t)snprintf(text + n, capacity - n, "%s%s%c%d%s", i ? " " : "", first ? "[" : "", letter,
                              op->micro_batch, last ? "]" : "");
    }
}

static void assert_text(struct bb_schedule s, int stage, const char *expected)
{
    const struct times times = {{1, 2, 1}};
    struct bb_step step;
    char text[2048];

    make_pipeline(&step, &s, &times);
    write_text(&step.roles[stage].program, text, sizeof(text));
    assert_string_equal(text, expected);
    bb_step_release(&step);
}

static void orders_include_messages(void **state)
{
    (void)state;
    assert_text((struct bb_schedule){BB_GPIPE, 3, 2, 1, 0, false}, 1, "r0 F0 s0 r1 F1 [s1 R0] B0 S0 R1 B1 S1");
    assert_text((struct bb_schedule){BB_1F1B, 3, 3, 1, 0, false}, 0, "F0 s0 F1 s1 F2 [s2 R0] B0 R1 B1 R2 B2");
    assert_text((struct bb_schedule){BB_1F1B, 3, 3, 1, 0, false}, 1,
                "r0 F0 s0 r1 F1 [s1 R0] B0 [r2 S0] F2 [s2 R1] B1 S1 R2 B2 S2");
    assert_text((struct bb_schedule){BB_1F1B, 3, 3, 1, 0, false}, 2, "r0 F0 B0 [r1 S0] F1 B1 [r2 S1] F2 B2 S2");
    assert_text((struct bb_schedule){BB_ZB_H1, 3, 3, 1, 0, false}, 1,
                "r0 F0 s0 r1 F1 [s1 R0] B0 [r2 S0] F2 [s2 R1] B1 S1 W0 R2 B2 S2 W1 W2");
    assert_text((struct bb_schedule){BB_ZB_H2, 3, 3, 1, 0, false}, 1,
                "r0 F0 [s0 r1] F1 [s1 r2] R0 F2 s2 B0 [S0 R1] B1 [S1 R2] B2 S2 W0 W1 W2");
    assert_text((struct bb_schedule){BB_INTERLEAVED, 2, 2, 2, 2, false}, 0,
                "F0 s0 F1 [s1 r0] F0 [s0 r1] F1 s1 R0 B0 [S0 R1] B1 [S1 R0] B0 R1 B1");
    assert_text((struct bb_schedule){BB_INTERLEAVED, 2, 2, 2, 2, false}, 1,
                "r0 F0 [s0 r1] F1 [s1 r0] F0 r1 B0 S0 F1 B1 [S1 R0] B0 [S0 R1] B1 S1");
}

/* The buffers of the messages of one kind and phase, in order; returns the number of messages. */
static int buffers_of(const struct bb_program *p, enum bb_op_kind kind, enum bb_phase phase, int *buffers, int capacity)
{
    int n = 0;

    for (size_t i = 0; i < p->n_ops && n < capacity; i++)
        if (p->ops[i].kind == kind && p->ops[i].phase == phase)
            buffers[n++] = kind == BB_OP_SEND ? p->ops[i].src : p->ops[i].dst;
    return n;
}

/* A middle stage has four kinds of messages; each alternates between two buffers and shares them with no other kind. */
static void messages_alternate_between_two_buffers(void **state)
{
    const struct bb_schedule s = {BB_1F1B, 3, 6, 1, 0, false};
    const struct times times = {{1, 2, 0}};
    bool used[8] = {false};
    struct bb_step step;

    (void)state;
    make_pipeline(&step, &s, &times);
    assert_int_equal(step.roles[1].program.n_buffers, 8);
    for (int b = 0; b < 8; b++)
        assert_true(step.roles[1].program.buffers[b].count == 16 &&
                    step.roles[1].program.buffers[b].use == BB_USE_COMMUNICATION);
    for (int i = 0; i < 4; i++) {
        int b[6];

        assert_int_equal(buffers_of(&step.roles[1].program, i % 2 ? BB_OP_SEND : BB_OP_RECV,
                                    i / 2 ? BB_PHASE_BACKWARD : BB_PHASE_FORWARD, b, 6),
                         6);
        assert_true(b[0] != b[1] && !used[b[0]] && !used[b[1]]);
        used[b[0]] = used[b[1]] = true;
        for (int k = 2; k < 6; k++)
            assert_int_equal(b[k], b[k - 2]);
    }
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_include_messages),
        cmocka_unit_test(finds_swapped_messages),
        cmocka_unit_test(messages_alternate_between_two_buffers),
        cmocka_unit_test(flat_schedules_match_their_bubble_formula),
        cmocka_unit_test(interleaved_schedules_match_their_bubble_formula),
        cmocka_unit_test(dualpipe_sends_each_micro_batch_in_both_directions),
        cmocka_unit_test(interleaved_schedules_with_wide_groups_are_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
