/* test_script_fork.c - two logical threads of one rank (bb_script_fork and bb_script_join). Their operations
 * alternate so that one thread computes while the other communicates. Each thread keeps its order, and operations
 * after the join can wait for operations inside the threads by their index. */
#include "proxies/form/author/script.h"
#include "tests/check.h"

struct fork_test {
    struct bb_layout layout;
    struct bb_program program;
    struct bb_script script;
    struct bb_script_lane lane;
};

static void begin(struct fork_test *w)
{
    static const struct bb_proxy_config config = {.dtype = "float", .compute = "timed"};
    const struct bb_axis axis = {"all", 2};

    *w = (struct fork_test){0};
    assert_int_equal(bb_layout_init(&w->layout, 2, &axis, 1), 0);
    bb_program_init(&w->program);
    bb_script_init(&w->script, &w->program, &config);
    w->lane = bb_script_lane(&w->script, &w->layout,
                             bb_layout_add_comm(&w->layout, "all", bb_layout_add_group(&w->layout, "all", 1)));
}

static void end(struct fork_test *w)
{
    assert_int_equal(bb_script_result(&w->script), 0);
    bb_script_release(&w->script);
    bb_program_release(&w->program);
    bb_layout_release(&w->layout);
}

static void compute(struct fork_test *w, const char *what)
{
    bb_script_compute(&w->script, what, 1, 0, BB_NONE, BB_NONE);
}

static int reduce(struct fork_test *w, const char *what)
{
    return bb_script_collective(&w->script, w->lane, what, BB_ALL_REDUCE, 1, BB_NONE, BB_NONE);
}

/* Writes n operations: kernels a1, a2, a3, and between them messages that the thread waits for. */
static void write_thread(struct fork_test *w, const char *const names[], int n)
{
    for (int i = 0; i < n; i += 2) {
        compute(w, names[i]);
        if (i + 1 < n)
            bb_script_wait(&w->script, reduce(w, names[i + 1]));
    }
}

static const char *op_order(const struct fork_test *w, char text[256])
{
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < w->program.n_ops; i++)
        n += (size_t)snprintf(text + n, 256 - n, "%s%s", i ? " " : "", w->program.ops[i].what);
    return text;
}

static bool waits_for(const struct fork_test *w, int op, int on)
{
    const struct bb_op *o = &w->program.ops[op];

    for (int i = 0; i < o->waits; i++)
        if (w->program.wait_list[o->first_wait + i] == on)
            return true;
    return false;
}

static const char *const first[] = {"a1", "A1", "a2", "A2", "a3"}, *const second[] = {"b1", "B1", "b2", "B2", "b3"};

static void threads_alternate_at_waits(void **state)
{
    struct fork_test w;
    char text[256];

    (void)state;
    begin(&w);
    compute(&w, "before");
    bb_script_fork(&w.script);
    write_thread(&w, first, 5);
    bb_script_fork_second(&w.script);
    write_thread(&w, second, 5);
    bb_script_join(&w.script);
    compute(&w, "after");
    assert_string_equal(op_order(&w, text), "before a1 A1 b1 B1 a2 A2 b2 B2 a3 b3 after");
    assert_true(waits_for(&w, 5, 2) && !waits_for(&w, 5, 4)); /* a2 waits for A1, not for B1 */
    assert_true(waits_for(&w, 7, 4) && !waits_for(&w, 7, 6));
    end(&w);
}

/* A thread without waits ends at its first turn. The longer thread continues alone. */
static void shorter_thread_ends_first(void **state)
{
    struct fork_test w;
    char text[256];

    (void)state;
    begin(&w);
    bb_script_fork(&w.script);
    write_thread(&w, first, 1);
    bb_script_fork_second(&w.script);
    write_thread(&w, second, 5);
    bb_script_join(&w.script);
    assert_string_equal(op_order(&w, text), "a1 b1 B1 b2 B2 b3");
    bb_script_fork(&w.script);
    bb_script_fork_second(&w.script);
    bb_script_join(&w.script);
    assert_int_equal(w.program.n_ops, 6);
    end(&w);
}

/* Group calls of the two threads stay separate. Operations after the join wait for exactly the operation that they
 * name. */
static void group_calls_and_operation_indices_are_kept(void **state)
{
    struct fork_test w;
    int sent, reduced;

    (void)state;
    begin(&w);
    bb_script_fork(&w.script);
    compute(&w, "a1");
    for (int call = 0; call < 2; call++) {
        bb_script_group_start(&w.script);
        bb_script_send(&w.script, w.lane, "send", 1, 1, BB_NONE);
        sent = bb_script_recv(&w.script, w.lane, "recv", 1, 1, BB_NONE);
        bb_script_group_end(&w.script);
    }
    bb_script_fork_second(&w.script);
    reduced = reduce(&w, "B1");
    bb_script_join(&w.script);
    assert_int_equal(w.program.ops[1].call, w.program.ops[2].call);
    assert_int_equal(w.program.ops[3].call, w.program.ops[4].call);
    assert_int_not_equal(w.program.ops[1].call, w.program.ops[3].call);
    assert_int_equal(w.program.ops[1].call, 1); /* as outside a fork, the call has the index of its first operation */
    bb_script_wait(&w.script, sent);
    compute(&w, "after one");
    bb_script_wait(&w.script, reduced);
    compute(&w, "after both");
    assert_true(waits_for(&w, 6, 4) && !waits_for(&w, 6, 5));
    assert_true(waits_for(&w, 7, 5));
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_alternate_at_waits),
        cmocka_unit_test(shorter_thread_ends_first),
        cmocka_unit_test(group_calls_and_operation_indices_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
