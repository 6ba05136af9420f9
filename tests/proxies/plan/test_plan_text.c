/* test_plan_text.c - a plan as people read it, line by line, of a step made by hand. */
#include "tests/proxies/made.h"

#include "proxies/plan/plan.h"

#include <stdlib.h>

static char *printed(const struct bb_step *step, bool ops)
{
    struct bb_plan plan;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(bb_plan_count(&plan, step, false), 0);
    bb_plan_print(&plan, NULL, ops, out);
    assert_int_equal(fclose(out), 0);
    bb_plan_release(&plan);
    return text;
}

static void assert_part(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

/* One operation of each kind; only messages name their peer, neighbours by their sign. */
static void operations_of_every_kind(void **state)
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
    text = printed(&step, true);
    assert_part(text, "operations of the rank, as the host issues them (/ | one group call)\n"
                      "       0   compute        12.500 us            forward, \n"
                      "       1 / send           c0 1 KiB             +1 forward 0, activations, after 0\n"
                      "       2 | recv           c0 1 KiB             -1 backward 7, activations\n"
                      "       3   send           c0 2 KiB             1 forward, \n"
                      "       4   all_reduce     c1 4 KiB             gradients, gradients, after 3\n");
    free(text);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_every_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
