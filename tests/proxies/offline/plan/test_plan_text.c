/* test_plan_text.c - the text of a plan, line by line, for hand-made steps. */
#include "tests/proxies/made.h"

#include "proxies/offline/plan/plan_export.h"

#include <stdlib.h>

static char *print_plan(const struct bb_step *step, bool ops)
{
    struct bb_plan plan;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(bb_plan_count(&plan, step, false), 0);
    bb_plan_print(&(struct bb_plan_report){.plan = &plan, .ops = ops}, true, out);
    assert_int_equal(fclose(out), 0);
    bb_plan_release(&plan);
    return text;
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* One operation of each kind. Only messages print a peer: relative peers with a sign, absolute peers without. */
static void prints_operations_of_every_kind(void **state)
{
    struct bb_step step;
    struct bb_op op;
    char *text;

    (void)state;
    made_init(&step, 2, 2);
    made_compute(&step, 0, 12.5, BB_NONE);
    op = made_op(BB_OP_SEND, 0);
    op.peer = 1;
    op.peer_kind = BB_PEER_OFFSET;
    op.count = 256;
    op.call = 3;
    op.what = "activations";
    op.micro_batch = 0;
    made_add(&step, 0, &op, 0);
    op.kind = BB_OP_RECV;
    op.peer = -1;
    op.phase = BB_PHASE_BACKWARD;
    op.micro_batch = 7;
    made_add(&step, 0, &op, BB_NONE);
    made_message(&step, 0, BB_OP_SEND, 0, 1, 512, BB_NONE);
    op = made_op(BB_OP_COLLECTIVE, 1);
    op.count = 1024;
    op.phase = BB_PHASE_GRADIENTS;
    op.what = "gradients";
    op.peer = 1;
    bb_program_add(&step.roles[0].program, &op, (int[]){0, 3}, 2);
    text = print_plan(&step, true);
    assert_contains(text, "operations of the rank, as the host issues them (/ | one group call)\n"
                          "       0   compute        12.5 us              forward, \n"
                          "       1 / send           c0 1 KiB             +1 forward 0, activations, after 0\n"
                          "       2 | recv           c0 1 KiB             -1 backward 7, activations\n"
                          "       3   send           c0 2 KiB             1 forward, \n"
                          "       4   all_reduce     c1 4 KiB             gradients, gradients, after 3\n");
    free(text);
    bb_step_release(&step);
}

/* Roles: at most three peers per row, compute and FLOPs only if there are any, and buffers by use. */
static void prints_roles_with_and_without_compute(void **state)
{
    struct bb_step step;
    char *text;

    (void)state;
    made_init(&step, 6, 1);
    made_compute(&step, 0, 0.25, BB_NONE);
    step.roles[0].program.ops[0].flops = 1234567;
    for (int peer = 1; peer < 6; peer++)
        made_send(&step, 1, 0, peer == 1 ? 0 : peer, 1000000);
    for (int peer = 3; peer < 6; peer++)
        made_recv(&step, 2, 0, peer, 1);
    bb_program_add_buffer(&step.roles[2].program, "g", BB_USE_GRADIENTS, 512, BB_FLOAT);
    bb_program_add_buffer(&step.roles[2].program, "c", BB_USE_COMMUNICATION, 256, BB_FLOAT);
    step.parameters = 1234567;
    step.samples = 1;
    step.tokens = 2048;
    step.summary = "a summary";
    text = print_plan(&step, false);
    assert_contains(text, "# made on 6 ranks: 1,234,567 parameters, 1 sample per step (2,048 tokens)\n# a summary\n\n"
                          "  checks        9 operations on 6 ranks: OPERATIONS DO NOT MATCH, DEADLOCK\n\ngroups\n"
                          "  all             6 ranks, 1 instance: [0-5]\n\n");
    assert_contains(text,
                    "rank, 1 rank: 0\n"
                    "  kind           group      ranks         count type      calls       size    payload  peers\n"
                    "  compute: 0.250 us\n  model FLOPs: 1,234,567 per rank\n  buffers of busbar proxy: 0 B\n\n");
    assert_contains(
        text,
        "rank, 1 rank: 1\n"
        "  kind           group      ranks         count type      calls       size    payload  peers\n"
        "  send           all            6     1,000,000 float         5    3.8 MiB   19.1 MiB  -1: 1 +1: 1 +2: 1 ...\n"
        "  buffers of busbar proxy: 0 B\n\n");
    assert_contains(
        text,
        "  recv           all            6             1 float         3        4 B       12 B  +1: 1 +2: 1 +3: 1\n"
        "  buffers of busbar proxy: 3 KiB = gradients 2 KiB, communication 1 KiB\n\n");
    assert_null(strstr(text, "operations of"));
    assert_contains(text, "checks of all 6 ranks (");
    assert_contains(text, "  every operation has its matching peers     NO\n    ");
    free(text);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_operations_of_every_kind),
        cmocka_unit_test(prints_roles_with_and_without_compute),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
