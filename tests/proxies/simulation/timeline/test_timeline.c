/*
 * test_timeline.c - traces against times chosen by hand and against the prediction: valid JSON, threads without
 * overlapping slices, arrows that connect a send and its receive, counters that return to zero, omitted ranks.
 */
#include "tests/proxies/made.h"

#include "bootstrap/base/outfile.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/simulation/timeline/timeline.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

/* ---- reading ---- */

static json_t *write_and_parse(const struct bb_timeline *t)
{
    json_error_t error;
    size_t size;
    char *text;
    FILE *out = open_memstream(&text, &size);
    json_t *root;

    bb_timeline_write(t, out);
    fclose(out);
    root = json_loads(text, 0, &error);
    if (!root)
        fail_msg("%s at line %d of\n%s", error.text, error.line, text);
    free(text);
    return root;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));

    return text ? text : "";
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static bool is_at(const json_t *event, const char *phase, int pid, int tid)
{
    return strcmp(text_of(event, "ph"), phase) == 0 && (int)number_of(event, "pid") == pid &&
           (tid < 0 || (int)number_of(event, "tid") == tid);
}

/* The k-th event of this phase on a thread (tid -1: on any thread of the rank), or NULL. */
static json_t *nth(const json_t *root, const char *phase, int pid, int tid, int k)
{
    json_t *event;
    size_t i;

    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        if (is_at(event, phase, pid, tid) && k-- == 0)
            return event;
    }
    return NULL;
}

static void assert_slice(const json_t *event, const char *name, double ts, double dur)
{
    assert_non_null(event);
    assert_string_equal(text_of(event, "name"), name);
    assert_true(fabs(number_of(event, "ts") - ts) < 1e-9);
    assert_true(fabs(number_of(event, "dur") - dur) < 1e-9);
}

static void assert_arg(const json_t *args, const char *key, const char *text, double number)
{
    const json_t *value = json_object_get(args, key);

    assert_non_null(value);
    if (text)
        assert_string_equal(json_string_value(value), text);
    else
        assert_true(json_number_value(value) == number);
}

/* ---- invariants of every trace ---- */

static bool is_slice_part(const json_t *event)
{
    const char *cat = text_of(event, "cat");

    return strcmp(cat, "wait") == 0 || strcmp(cat, "transfer") == 0;
}

/* The slices of a thread are in order and do not overlap; those of the streams are within the step. The parts of a
 * slice are within it, one after another. */
static void assert_threads(const json_t *root)
{
    json_t *event, *step;
    double from[8][8] = {0}, end[8][8] = {0};
    size_t i;

    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        if (strcmp(text_of(event, "ph"), "X") != 0)
            continue;
        int pid = (int)number_of(event, "pid"), tid = (int)number_of(event, "tid");
        double ts = number_of(event, "ts"), dur = number_of(event, "dur");

        assert_true(pid < 8 && tid < 8 && dur >= 0);
        if (tid == 0 && strcmp(text_of(event, "name"), "step") != 0)
            continue; /* the exposed communication inside the step: test_trace.py */
        if (is_slice_part(event)) {
            assert_true(ts >= from[pid][tid] - 1e-6 && ts + dur <= end[pid][tid] + 1e-6);
            from[pid][tid] = ts + dur;
            continue;
        }
        assert_true(ts >= end[pid][tid] - 1e-6);
        from[pid][tid] = ts;
        end[pid][tid] = ts + dur;
        step = nth(root, "X", pid, 0, 0);
        assert_true(ts + dur <= number_of(step, "dur") + 1e-6);
    }
}

/* Each arrow has a start and an end with one id and category, and does not go back in time. Returns the number of
 * arrows. */
static int assert_arrows(const json_t *root)
{
    json_t *event, *all = json_object_get(root, "traceEvents");
    int starts = 0, ends = 0;
    json_t *at[64] = {0};
    size_t i;

    json_array_foreach(all, i, event)
    {
        if (strcmp(text_of(event, "ph"), "s") == 0)
            at[(int)number_of(event, "id")] = event, starts++;
    }
    json_array_foreach(all, i, event)
    {
        if (strcmp(text_of(event, "ph"), "f") != 0)
            continue;
        const json_t *start = at[(int)number_of(event, "id")];

        ends++;
        assert_non_null(start);
        assert_string_equal(text_of(start, "cat"), text_of(event, "cat"));
        assert_true(number_of(start, "ts") <= number_of(event, "ts"));
    }
    assert_int_equal(starts, ends);
    return starts;
}

static void assert_counters(const json_t *root)
{
    json_t *event, *other;
    size_t i, k;

    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        bool later = false;

        if (strcmp(text_of(event, "ph"), "C") != 0)
            continue;
        assert_true(number_of(json_object_get(event, "args"), "bytes") >= 0);
        json_array_foreach(json_object_get(root, "traceEvents"), k, other)
        {
            if (k > i && is_at(other, "C", (int)number_of(event, "pid"), -1) &&
                strcmp(text_of(other, "name"), text_of(event, "name")) == 0) {
                assert_true(number_of(other, "ts") > number_of(event, "ts"));
                later = true;
            }
        }
        assert_true(later || number_of(json_object_get(event, "args"), "bytes") == 0);
    }
}

/* ---- times chosen by hand ---- */

static void set(struct bb_timeline *t, int i, int op, int64_t begin_ns, int64_t end_ns)
{
    t->ops[i][op] = (struct bb_timed_op){begin_ns, end_ns, 0};
    t->step_ns[i] = end_ns > t->step_ns[i] ? end_ns : t->step_ns[i];
}

/* Two ranks: a kernel on each, a message of 400 bytes from rank 0 to rank 1, one of 800 bytes back. */
static void make_pair(struct bb_step *step, struct bb_timeline *t)
{
    made_init(step, 2, 1);
    made_compute(step, 0, 5, BB_NONE);
    made_send(step, 0, 0, 1, 100);
    made_recv(step, 0, 0, 1, 200);
    made_compute(step, 1, 7, BB_NONE);
    made_recv(step, 1, 0, 0, 100);
    made_send(step, 1, 0, 0, 200);
    bb_timeline_init(t, step, NULL, 0);
    assert_int_equal(t->n, 2);
    set(t, 0, 0, 0, 5000);
    set(t, 0, 1, 1001, 3002);
    set(t, 0, 2, 3002, 9009);
    set(t, 1, 0, 100, 7100);
    set(t, 1, 1, 2000, 3002);
    set(t, 1, 2, 3002, 9000);
}

static void trace_of_times_chosen_by_hand(void **state)
{
    struct bb_timeline t;
    struct bb_step step;
    json_t *root, *event;

    (void)state;
    make_pair(&step, &t);
    t.clock_error_us = 1.25;
    snprintf(t.location[1], sizeof(t.location[1]), "no\"de gpu 0");
    root = write_and_parse(&t);
    assert_threads(root);
    assert_slice(nth(root, "X", 0, 0, 0), "step", 0, 9.009);
    assert_slice(nth(root, "X", 0, 1, 0), "compute something", 0, 5);
    assert_slice(nth(root, "X", 0, 2, 0), "send c0 400 B", 1.001, 2.001);
    assert_slice(nth(root, "X", 1, 2, 1), "send c0 800 B", 3.002, 5.998);
    event = json_object_get(nth(root, "X", 1, 2, 0), "args");
    assert_arg(event, "kind", "recv", 0);
    assert_arg(event, "group", "all", 0);
    assert_arg(event, "dtype", "float", 0);
    assert_arg(event, "phase", "forward", 0);
    assert_arg(event, "bytes", NULL, 400);
    assert_arg(event, "count", NULL, 100);
    assert_arg(event, "peer", NULL, 0);
    assert_int_equal(assert_arrows(root), 2);
    event = nth(root, "f", 1, 2, 0);
    assert_true(fabs(number_of(event, "ts") - 3.001) < 1e-9); /* just before the end of the receive */
    assert_string_equal(text_of(json_object_get(nth(root, "M", 1, 0, 0), "args"), "name"),
                        "rank 1 (no\"de gpu 0, rank)");
    assert_true(number_of(json_object_get(json_object_get(root, "otherData"), "clock"), "error_us") == 1.25);
    json_decref(root);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* 400 from 1.001, 800 from 3.002, 0 from 9.009. Where one message ends and the next begins, the counter does not
 * drop to 0. */
static void counters_of_times_chosen_by_hand(void **state)
{
    static const double ts[] = {1.001, 3.002, 9.009}, bytes[] = {400, 800, 0};
    struct bb_timeline t;
    struct bb_step step;
    json_t *root;

    (void)state;
    make_pair(&step, &t);
    root = write_and_parse(&t);
    assert_counters(root);
    for (int k = 0; k < 3; k++) {
        json_t *event = nth(root, "C", 0, -1, k);

        assert_non_null(event);
        assert_true(fabs(number_of(event, "ts") - ts[k]) < 1e-9);
        assert_true(number_of(json_object_get(event, "args"), "bytes") == bytes[k]);
    }
    assert_string_equal(text_of(nth(root, "C", 0, -1, 3), "name"), "buffers"); /* memory, constant */
    assert_null(nth(root, "C", 0, -1, 4));
    json_decref(root);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* The receive of rank 1 lasts 1002 ns; it waits for 602 ns and transfers 400 bytes in the other 400 ns. Compute
 * hides the wait until 2200 ns. The rest is a pipeline bubble only between stages. */
static void waiting_is_a_separate_slice(void **state)
{
    static const char *const cause[] = {"waiting", "bubble"};
    struct bb_timeline t;
    struct bb_step step;
    json_t *root;

    (void)state;
    for (int stages = 0; stages < 2; stages++) {
        make_pair(&step, &t);
        step.layout.comms[0].between_stages = stages;
        t.ops[1][1].wait_ns = 602;
        t.ops[1][0].end_ns = 2200;
        root = write_and_parse(&t);
        assert_slice(nth(root, "X", 1, 2, 0), "recv c0 400 B", 2, 1.002);
        assert_slice(nth(root, "X", 1, 2, 1), "wait", 2, 0.602);
        assert_slice(nth(root, "X", 1, 2, 2), "transfer", 2.602, 0.4);
        assert_slice(nth(root, "X", 1, 2, 3), "send c0 800 B", 3.002, 5.998);
        assert_arg(json_object_get(nth(root, "X", 1, 2, 0), "args"), "wait_us", NULL, 0.602);
        assert_slice(nth(root, "X", 1, 0, 2), cause[stages], 2.2, 0.402);
        assert_slice(nth(root, "X", 1, 0, 1), "exposed transfer", 2.602, 6.398);
        assert_null(nth(root, "X", 1, 0, 3));
        assert_arg(json_object_get(nth(root, "X", 1, 2, 0), "args"), "busbw_gbps", NULL, 1);
        assert_arg(json_object_get(nth(root, "X", 1, 2, 3), "args"), "wait_us", NULL, 0);
        json_decref(root);
        bb_timeline_release(&t);
        bb_step_release(&step);
    }
}

/* The operations of one group call share one slice; each keeps its arrow. */
static void group_call_is_one_slice(void **state)
{
    struct bb_timeline t;
    struct bb_step step;
    json_t *root, *event;

    (void)state;
    made_init(&step, 2, 1);
    for (int rank = 0; rank < 2; rank++) {
        made_message(&step, rank, BB_OP_SEND, 0, 1 - rank, 256, 0);
        made_message(&step, rank, BB_OP_RECV, 0, 1 - rank, 256, 0);
    }
    bb_timeline_init(&t, &step, NULL, 0);
    for (int i = 0; i < 4; i++)
        set(&t, i / 2, i % 2, 10, 20);
    root = write_and_parse(&t);
    event = nth(root, "X", 0, 2, 0);
    assert_slice(event, "group c0 1 KiB", 0.01, 0.01);
    assert_int_equal(json_array_size(json_object_get(json_object_get(event, "args"), "operations")), 2);
    assert_null(nth(root, "X", 0, 2, 1));
    assert_int_equal(assert_arrows(root), 2);
    assert_counters(root);
    json_decref(root);
    bb_timeline_release(&t);
    bb_step_release(&step);
}

/* ---- predicted ---- */

/* The unions of a rank's slices give the times of the prediction. */
static void assert_same_times(const struct bb_timeline *t, const struct bb_prediction *p)
{
    for (int i = 0; i < t->n; i++) {
        const struct bb_program *program = bb_step_program(t->step, t->ranks[i]);
        const struct bb_overlap *want = &p->classes[p->class_of[t->ranks[i]]].all;
        struct bb_spans compute = {0}, comm = {0};
        struct bb_overlap got;

        for (size_t k = 0; k < program->n_ops; k++) {
            struct bb_spans *s = bb_op_is_comm(&program->ops[k]) ? &comm : &compute;

            bb_spans_add(s, t->ops[i][k].begin_ns, t->ops[i][k].end_ns);
        }
        bb_overlap_of(t->step_ns[i], &compute, &comm, &got);
        assert_int_equal(got.step_ns, want->step_ns);
        assert_int_equal(got.comm_ns, want->comm_ns);
        assert_int_equal(got.compute_ns, want->compute_ns);
        assert_int_equal(got.exposed_ns, want->exposed_ns);
        bb_spans_release(&compute);
        bb_spans_release(&comm);
    }
}

static void trace_of_a_prediction(void **state)
{
    struct bb_proxy_config config = {.ranks = 4, .layers = 4, .stages = 2, .micro_batches = 3, .compute = "timed"};
    struct bb_prediction p;
    struct bb_cluster cluster;
    struct bb_timeline t;
    struct bb_step step;
    json_t *root;

    (void)state;
    assert_int_equal(made_line_with(&step, "gpt2_large", config), 0);
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    assert_int_equal(bb_predict(&step, &cluster, &p), 0);
    bb_timeline_init(&t, &step, &p.classes[p.slowest].rank, 1);
    bb_predicted_timeline(&step, &p, &t);
    assert_same_times(&t, &p);
    root = write_and_parse(&t);
    assert_threads(root);
    assert_counters(root);
    assert_int_equal(assert_arrows(root), 2 * 2 * 3); /* replicas x directions x micro-batches */
    json_decref(root);
    bb_timeline_release(&t);
    bb_prediction_release(&p);
    bb_step_release(&step);
}

/* ---- many ranks ---- */

static bool contains_rank(const struct bb_timeline *t, int rank)
{
    for (int i = 0; i < t->n; i++)
        if (t->ranks[i] == rank)
            return true;
    return false;
}

static void trace_limits_the_number_of_ranks(void **state)
{
    const int expected[] = {777, BB_NONE};
    struct bb_timeline t;
    struct bb_step step;

    (void)state;
    made_init(&step, 1000, 1);
    made_share(&step);
    for (int r = 500; r < 1000; r++)
        step.role_of[r] = 1;
    for (int role = 0; role < 2; role++)
        made_reduce(&step, role, 0, 10, BB_NONE);
    bb_timeline_init(&t, &step, expected, 2);
    assert_int_equal(t.n, BB_TRACE_RANKS);
    const int shown[] = {0, 499, 500, 777, 999};
    for (size_t i = 0; i < ROWS(shown); i++)
        assert_true(contains_rank(&t, shown[i]));
    assert_int_equal(t.ranks[BB_TRACE_RANKS - 5], 59); /* the other ranks are the lowest */
    assert_false(contains_rank(&t, 300));
    bb_timeline_release(&t);
    bb_step_release(&step);
}

static void rejects_an_unwritable_path(void **state)
{
    (void)state;
    assert_int_equal(bb_outfile_check("/nowhere/at/all.json", "the trace"), -BB_EUSAGE);
    assert_int_equal(bb_outfile_check("/dev/null", "the trace"), 0);
    assert_int_equal(access("/dev/null", F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_of_times_chosen_by_hand),
        cmocka_unit_test(waiting_is_a_separate_slice),
        cmocka_unit_test(counters_of_times_chosen_by_hand),
        cmocka_unit_test(group_call_is_one_slice),
        cmocka_unit_test(trace_of_a_prediction),
        cmocka_unit_test(trace_limits_the_number_of_ranks),
        cmocka_unit_test(rejects_an_unwritable_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
