/*
 * test_launch.c - every collective delivers the data that case.c expects. Several ranks run under mpirun, with NCCL's
 * native calls and with the sends and receives that replace them in older NCCL versions, on blocking and nonblocking
 * communicators.
 */
#include "collectives/measure/bench_context.h"
#include "cuda/device/check.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

enum { COUNT = 1000, ROOT = 1 };

struct fixture {
    struct bb_world world;
    struct bb_device_info device;
    struct bb_comm comm;
    struct bb_native native;
    struct bb_mulsums mulsums;
    struct bb_bench_context ctx;
};

static void set_up(struct fixture *f, bool native, bool blocking)
{
    struct bb_bench_context *ctx = &f->ctx;
    int *members = calloc((size_t)f->world.size, sizeof *members);

    for (int r = 0; r < f->world.size; r++)
        members[r] = r;
    assert_int_equal(bb_comm_init(&f->comm, &f->world, "world", members, f->world.size,
                                  &(struct bb_comm_opts){.blocking = blocking}),
                     0);
    free(members);
    f->native = native ? bb_native_find() : (struct bb_native){0};
    *ctx = (struct bb_bench_context){
        .world = &f->world, .comm = &f->comm, .native = &f->native, .device = &f->device, .mulsums = &f->mulsums};
    assert_int_equal(bb_mulsums_make(&f->mulsums, &f->comm, (const int[]){BB_BFLOAT16}, 1), 0);
    assert_int_equal(BB_CUDA(cudaStreamCreate(&ctx->stream)), 0);
    assert_int_equal(BB_CUDA(cudaMalloc((void **)&ctx->verdicts, 2 * sizeof *ctx->verdicts)), 0);
    assert_int_equal(bb_guarded_init(&ctx->arena, 1 << 20, &bb_cuda_allocator, ctx->stream), 0);
}

static void tear_down(struct fixture *f)
{
    bb_guarded_release(&f->ctx.arena);
    bb_mulsums_release(&f->mulsums, &f->comm);
    assert_int_equal(BB_CUDA(cudaFree(f->ctx.verdicts)), 0);
    assert_int_equal(BB_CUDA(cudaStreamDestroy(f->ctx.stream)), 0);
    assert_int_equal(bb_comm_finalize(&f->comm), 0);
}

static const struct bb_alltoallv_counts max_imbalance = {.imbalance = 1};

static void run_case(struct fixture *f, int kind, int redop, bool in_place)
{
    bool reduces = bb_colls[kind].flags & BB_COLL_REDUCES;
    struct bb_case c = {.kind = (enum bb_coll_kind)kind,
                        .dtype = BB_BFLOAT16,
                        .redop = reduces ? redop : BB_COPY,
                        .root = ROOT,
                        .ranks = f->world.size,
                        .count = COUNT,
                        .alltoallv_counts = &max_imbalance,
                        .in_place = in_place};
    struct bb_metrics metrics = {0};

    if (!bb_case_possible(&c) || !bb_coll_possible(c.kind, c.ranks))
        return;
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_case_launch(&f->ctx, &c, bb_case_slots(&f->ctx, &c) - 1), 0);
    assert_int_equal(bb_verify(&f->ctx, &c, &metrics), 0);
    assert_true(metrics.checked);
    assert_int_equal(metrics.wrong, 0);
}

static void run_all_kinds(struct fixture *f, bool native, bool blocking)
{
    set_up(f, native, blocking);
    for (int kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        for (int variant = 0; variant < 4; variant++)
            run_case(f, kind, variant / 2 ? BB_MULSUM : BB_SUM, variant % 2);
    tear_down(f);
}

static void native_calls_deliver_expected_data(void **state)
{
    run_all_kinds(*state, true, true);
    run_all_kinds(*state, true, false);
}

static void sends_and_receives_deliver_expected_data(void **state)
{
    run_all_kinds(*state, false, true);
    run_all_kinds(*state, false, false);
}

/* The launch succeeds on ranks that exchange no data. */
static void empty_exchange_succeeds(void **state)
{
    struct fixture *f = *state;
    const struct bb_case c = {.kind = BB_ALLTOALLV,
                              .dtype = BB_FLOAT,
                              .redop = BB_COPY,
                              .ranks = f->world.size,
                              .count = 0,
                              .alltoallv_counts = &max_imbalance};

    set_up(f, true, true);
    assert_int_equal(bb_case_launch(&f->ctx, &c, 0), 0);
    assert_int_equal(bb_bench_context_wait(&f->ctx, "alltoallv"), 0);
    tear_down(f);
}

/* Without the operation the receive areas contain only canaries: on each rank all elements are wrong. */
static void detects_a_missing_operation(void **state)
{
    struct fixture *f = *state;
    struct bb_case c = {
        .kind = BB_ALL_GATHER, .dtype = BB_INT32, .redop = BB_COPY, .ranks = f->world.size, .count = COUNT};
    struct bb_metrics metrics = {0};

    set_up(f, true, true);
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_verify(&f->ctx, &c, &metrics), 0);
    assert_int_equal(metrics.wrong, (size_t)f->world.size * (size_t)f->world.size * COUNT);
    assert_true(metrics.first.rank == 0 && metrics.first.index == 0 && metrics.first.got == 0x5a5a5a5a);
    tear_down(f);
}

static void report_names_the_element_or_the_bytes_outside(void **state)
{
    static const struct {
        struct bb_metrics metrics;
        const char *line;
    } cases[] = {
        {{.wrong = 2, .first = {.rank = 1, .index = 3, .got = 0x5a5a, .want = 1}},
         "op: 2 wrong elements, first on rank 1 (b) element 3: got 0x5a5a, expected 0x0001\n"},
        {{.wrong = 1, .first = {.outside = true}}, "op: 1 byte overwritten outside the receive buffer of rank 0 (a)\n"},
    };
    char hosts[2][BB_HOST_TEXT] = {"a", "b"};
    const struct bb_world world = {.hosts = hosts};
    struct capture c;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        capture_begin(&c);
        bb_report_wrong_data(&world, &cases[i].metrics, BB_HALF, "op");
        assert_non_null(strstr(capture_end(&c), cases[i].line));
    }
}

/* A byte written after the receive area is counted and reported as outside. */
static void detects_a_write_after_the_receive_area(void **state)
{
    struct fixture *f = *state;
    struct bb_case c = {
        .kind = BB_BROADCAST, .dtype = BB_INT32, .redop = BB_COPY, .ranks = f->world.size, .count = COUNT};
    struct bb_metrics metrics = {0};
    struct bb_buffer_layout l;

    set_up(f, true, true);
    l = bb_buffer_layout_of(&c, f->world.rank);
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_case_launch(&f->ctx, &c, bb_case_slots(&f->ctx, &c) - 1), 0);
    assert_int_equal(bb_bench_context_wait(&f->ctx, "broadcast"), 0);
    if (f->world.rank == f->world.size - 1)
        assert_int_equal(BB_CUDA(cudaMemset(f->ctx.arena.area + (bb_case_slots(&f->ctx, &c) - 1) * l.slot_bytes +
                                                l.recv_offset + l.recv_bytes,
                                            0, 1)),
                         0);
    assert_int_equal(bb_verify(&f->ctx, &c, &metrics), 0);
    assert_true(metrics.wrong == 1 && metrics.first.outside && metrics.first.rank == f->world.size - 1);
    tear_down(f);
}

int main(void)
{
    struct fixture f = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(native_calls_deliver_expected_data, &f),
        cmocka_unit_test_prestate(sends_and_receives_deliver_expected_data, &f),
        cmocka_unit_test_prestate(empty_exchange_succeeds, &f),
        cmocka_unit_test_prestate(detects_a_missing_operation, &f),
        cmocka_unit_test_prestate(detects_a_write_after_the_receive_area, &f),
        cmocka_unit_test(report_names_the_element_or_the_bytes_outside),
    };
    int rc = bb_world_init(&f.world, 20);

    if (rc == 0)
        rc = bb_device_choose(&f.world, 0, false, &f.device);
    rc = rc ? rc : -cmocka_run_group_tests(tests, NULL, NULL);
    return bb_exit_code(bb_world_release(&f.world, rc));
}
