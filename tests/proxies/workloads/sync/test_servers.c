/*
 * test_servers.c - data parallelism with parameter servers: peers, bytes by formula, the incast in one group call,
 * concurrent servers, and memory.
 */
#include "../transformer/lines.h"

#include "proxies/offline/plan/traffic.h"
#include "proxies/simulation/simulate/step_check.h"

/* element counts of DDP's buckets of resnet18_cifar */
#define MODEL "data_parallel --model resnet18_cifar --sync "
static const size_t chunks[] = {2365450, 6623744, 2184768};
static const double parameters = 11173962;

static void make(struct bb_step *step, int ranks, const char *options)
{
    struct bb_checks checks;
    char line[200];

    snprintf(line, sizeof(line), "%s%s", MODEL, options);
    assert_int_equal(lines_make(step, ranks, line), 0);
    assert_int_equal(bb_step_check(step, &checks), 0);
    assert_true(checks.matched && checks.deadlock_free && checks.safe_serialised);
    bb_checks_release(&checks);
}

/* Checks the bytes that a rank sends and receives with messages. */
static void assert_message_bytes(const struct bb_step *step, int rank, double sent, double received)
{
    const struct bb_program *p = bb_step_program(step, rank);
    double tx = 0, rx = 0;

    for (size_t i = 0; i < p->n_ops; i++) {
        tx += p->ops[i].kind == BB_OP_SEND ? (double)bb_op_payload_bytes(&p->ops[i], 1) : 0;
        rx += p->ops[i].kind == BB_OP_RECV ? (double)bb_op_payload_bytes(&p->ops[i], 1) : 0;
    }
    assert_true(tx == sent);
    assert_true(rx == received);
}

/* With W workers, P parameters and e bytes per element a worker sends P e and receives P e, the server W P e each,
 * so 2 W P e in total. */
static void ps_p2p_bytes(void **state)
{
    struct bb_step step;

    (void)state;
    make(&step, 6, "ps_p2p");
    assert_message_bytes(&step, 0, 5 * parameters * 4, 5 * parameters * 4);
    for (int r = 1; r < 6; r++)
        assert_message_bytes(&step, r, parameters * 4, parameters * 4);
    assert_true(step.samples == 5 * 128);
    bb_step_release(&step);
}

/* Chunk i is on server i mod 2: chunks 0 and 2 on the first server, chunk 1 on the second. */
static void ps_sharded_bytes(void **state)
{
    double first = 4.0 * (double)(chunks[0] + chunks[2]), second = 4.0 * (double)chunks[1];
    struct bb_step step;

    (void)state;
    make(&step, 5, "ps_sharded --servers 2 --micro-batches 2");
    assert_message_bytes(&step, 0, 3 * first, 3 * first);
    assert_message_bytes(&step, 1, 3 * second, 3 * second);
    assert_message_bytes(&step, 4, parameters * 4, parameters * 4);
    assert_int_equal(step.n_roles, 3);
    assert_true(step.samples == 3 * 2 * 128);
    bb_step_release(&step);
}

/* Every rank reduces each chunk to rank 0 and receives it with a broadcast from rank 0. */
static void ps_bytes(void **state)
{
    struct bb_traffic traffic;
    struct bb_step step;

    (void)state;
    make(&step, 4, "ps");
    bb_traffic_init(&traffic, &step, false);
    for (int r = 0; r < traffic.n; r++) {
        double reduced = 0, broadcast = 0;

        for (int i = 0; i < traffic.roles[r].n_rows; i++) {
            reduced += traffic.roles[r].rows[i].coll == BB_REDUCE ? (double)traffic.roles[r].rows[i].bytes : 0;
            broadcast += traffic.roles[r].rows[i].coll == BB_BROADCAST ? (double)traffic.roles[r].rows[i].bytes : 0;
        }
        assert_true(reduced == parameters * 4 && broadcast == parameters * 4);
    }
    assert_true(step.samples == 4 * 128);
    bb_traffic_release(&traffic);
    bb_step_release(&step);
}

static bool waits_for(const struct bb_program *p, size_t op, size_t other)
{
    for (int w = 0; w < p->ops[op].waits; w++)
        if ((size_t)p->wait_list[p->ops[op].first_wait + w] == other)
            return true;
    return false;
}

static void assert_compute(const struct bb_op *op, const char *what)
{
    assert_int_equal(op->kind, BB_OP_COMPUTE);
    assert_string_equal(op->what, what);
}

/*
 * The program of a server with three workers. For each chunk: three receives in one group call, sum, update. Then the
 * sends of updated chunks, each of which waits only for its own update. The third chunk uses the receive buffers of the
 * first and waits for the first sum.
 */
static void server_program_of_ps_p2p(void **state)
{
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    make(&step, 4, "ps_p2p");
    p = bb_step_program(&step, 0);
    assert_int_equal(p->n_ops, 3 * 5 + 3 * 3);
    for (size_t c = 0; c < 3; c++) {
        size_t first_op = 5 * c, first_send = 15 + 3 * c;

        for (size_t w = 0; w < 3; w++) {
            assert_int_equal(p->ops[first_op + w].kind, BB_OP_RECV);
            assert_int_equal(p->ops[first_op + w].count, chunks[c]);
            assert_int_equal(p->ops[first_op + w].call, p->ops[first_op].call);
            assert_int_equal(bb_op_peer(&p->ops[first_op + w], 0, 4), w + 1);
            assert_int_equal(p->ops[first_send + w].kind, BB_OP_SEND);
            assert_int_equal(p->ops[first_send + w].call, p->ops[first_send].call);
            assert_int_equal(bb_op_peer(&p->ops[first_send + w], 0, 4), w + 1);
        }
        assert_compute(&p->ops[first_op + 3], "sum");
        assert_compute(&p->ops[first_op + 4], "update");
        assert_true(waits_for(p, first_op + 3, first_op + 2));
        /* the sum starts with the buffer of the first worker */
        assert_int_equal(p->ops[first_op + 3].src, p->ops[first_op].dst);
        for (size_t w = 0; w < 3; w++) {
            /* two sets of buffers, used alternately */
            assert_int_equal(p->ops[first_op + w].dst, p->ops[first_op % 10 + w].dst);
            assert_int_equal(p->ops[first_op + w].dst, p->ops[first_op].dst + (int)w);
        }
        assert_true(waits_for(p, first_send, first_op + 4));
    }
    assert_int_equal(p->ops[5].waits, 0);
    assert_true(waits_for(p, 10, 3));
    bb_step_release(&step);
}

/* A worker pushes a chunk as soon as its last layer is done, and pulls after the backward pass. */
static void worker_pushes_during_backward(void **state)
{
    const struct bb_program *p;
    struct bb_step step;
    size_t order[2] = {0, 0}, last_backward = 0;

    (void)state;
    make(&step, 4, "ps_p2p");
    p = bb_step_program(&step, 2);
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].phase == BB_PHASE_BACKWARD)
            last_backward = i;
    for (size_t i = 0; i < p->n_ops; i++)
        if (bb_op_is_comm(&p->ops[i])) {
            bool pulls = p->ops[i].kind == BB_OP_RECV;

            assert_int_equal(p->ops[i].count, chunks[order[pulls]++]);
            assert_int_equal(bb_op_peer(&p->ops[i], 2, 4), 0);
            assert_true(pulls || order[0] == 3 ? i > last_backward : i < last_backward);
        }
    assert_int_equal(order[0], 3);
    assert_int_equal(order[1], 3);
    bb_step_release(&step);
}

/* Chunks of different servers are independent: each server has its own communicators, up to twelve servers. */
static void each_server_has_separate_communicators(void **state)
{
    struct bb_step step;

    (void)state;
    make(&step, 5, "ps_sharded --servers 3");
    assert_int_equal(step.layout.n_comms, 6);
    assert_string_equal(step.layout.comms[5].name, "pull 2");
    bb_step_release(&step);
    make(&step, 20, "ps_sharded --servers 14 --bucket-mb 0.5");
    assert_int_equal(step.layout.n_comms, 24);
    bb_step_release(&step);
}

/* SGD with momentum in float: 8 bytes per parameter on a worker and on the server, and two sets of W buffers of the
 * largest chunk. */
static void training_memory_of_server_and_worker(void **state)
{
    const double *server, *worker;
    struct bb_step step;

    (void)state;
    make(&step, 4, "ps_p2p");
    server = step.roles[0].training_bytes;
    worker = step.roles[1].training_bytes;
    assert_true(server[BB_USE_PARAMETERS] == 4 * parameters && server[BB_USE_OPTIMIZER] == 4 * parameters);
    assert_true(server[BB_USE_GRADIENTS] == 0 && server[BB_USE_ACTIVATIONS] == 0);
    assert_true(server[BB_USE_COMMUNICATION] == 2 * 3 * 4 * (double)chunks[1]);
    assert_true(worker[BB_USE_PARAMETERS] == 4 * parameters && worker[BB_USE_GRADIENTS] == 4 * parameters);
    assert_true(worker[BB_USE_OPTIMIZER] == 0 && worker[BB_USE_ACTIVATIONS] == 2.0 * 614400 * 128 * 4);
    bb_step_release(&step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ps_p2p_bytes),
        cmocka_unit_test(ps_sharded_bytes),
        cmocka_unit_test(ps_bytes),
        cmocka_unit_test(server_program_of_ps_p2p),
        cmocka_unit_test(worker_pushes_during_backward),
        cmocka_unit_test(each_server_has_separate_communicators),
        cmocka_unit_test(training_memory_of_server_and_worker),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
