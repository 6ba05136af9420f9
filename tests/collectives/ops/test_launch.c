/*
 * test_launch.c - every launcher delivers what case.c expects, run by several ranks under mpirun: with NCCL's own calls
 * and with the sends and receives that take their place in older versions, blocking and not.
 */
#include "collectives/measure/bench_context.h"
#include "cuda/device/check.h"
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

static void make(struct fixture *f, bool native, bool blocking)
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

static void unmake(struct fixture *f)
{
    bb_guarded_release(&f->ctx.arena);
    bb_mulsums_release(&f->mulsums, &f->comm);
    assert_int_equal(BB_CUDA(cudaFree(f->ctx.verdicts)), 0);
    assert_int_equal(BB_CUDA(cudaStreamDestroy(f->ctx.stream)), 0);
    assert_int_equal(bb_comm_finalize(&f->comm), 0);
}

static const struct bb_alltoallv_counts even_to_far = {.imbalance = 1};

static void run_case(struct fixture *f, int kind, int redop, bool in_place)
{
    bool reduces = bb_colls[kind].flags & BB_COLL_REDUCES;
    struct bb_case c = {.kind = (enum bb_coll_kind)kind,
                        .dtype = BB_BFLOAT16,
                        .redop = reduces ? redop : BB_COPY,
                        .root = ROOT,
                        .ranks = f->world.size,
                        .count = COUNT,
                        .alltoallv_counts = &even_to_far,
                        .in_place = in_place};
    struct bb_metrics figures = {0};

    if (!bb_case_possible(&c) || !bb_coll_possible(c.kind, c.ranks))
        return;
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_case_launch(&f->ctx, &c, bb_case_slots(&f->ctx, &c) - 1), 0);
    assert_int_equal(bb_verify(&f->ctx, &c, &figures), 0);
    assert_true(figures.checked);
    assert_int_equal(figures.wrong, 0);
}

static void every_launcher(struct fixture *f, bool native, bool blocking)
{
    make(f, native, blocking);
    for (int kind = 0; kind < BB_COLL_KIND_COUNT; kind++)
        for (int variant = 0; variant < 4; variant++)
            run_case(f, kind, variant / 2 ? BB_MULSUM : BB_SUM, variant % 2);
    unmake(f);
}

static void native_calls_deliver(void **state)
{
    every_launcher(*state, true, true);
    every_launcher(*state, true, false);
}

static void sends_and_receives_take_their_place(void **state)
{
    every_launcher(*state, false, true);
    every_launcher(*state, false, false);
}

/* A rank that exchanges nothing with anybody has succeeded all the same. */
static void nothing_to_exchange(void **state)
{
    struct fixture *f = *state;
    const struct bb_case c = {.kind = BB_ALLTOALLV,
                              .dtype = BB_FLOAT,
                              .redop = BB_COPY,
                              .ranks = f->world.size,
                              .count = 0,
                              .alltoallv_counts = &even_to_far};

    make(f, true, true);
    assert_int_equal(bb_case_launch(&f->ctx, &c, 0), 0);
    assert_int_equal(bb_bench_context_wait(&f->ctx, "alltoallv"), 0);
    unmake(f);
}

/* Without the operation the receive area holds canaries: each rank must find its area wrong from the first element on.
 */
static void an_operation_that_did_nothing_is_seen(void **state)
{
    struct fixture *f = *state;
    struct bb_case c = {
        .kind = BB_ALL_GATHER, .dtype = BB_INT32, .redop = BB_COPY, .ranks = f->world.size, .count = COUNT};
    struct bb_metrics figures = {0};

    make(f, true, true);
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_verify(&f->ctx, &c, &figures), 0);
    assert_int_equal(figures.wrong, (size_t)f->world.size * (size_t)f->world.size * COUNT);
    assert_true(figures.first.rank == 0 && figures.first.index == 0 && figures.first.got == 0x5a5a5a5a);
    unmake(f);
}

/* A byte behind the receive area is counted, and said to be outside of it. */
static void a_write_behind_the_area_is_seen(void **state)
{
    struct fixture *f = *state;
    struct bb_case c = {
        .kind = BB_BROADCAST, .dtype = BB_INT32, .redop = BB_COPY, .ranks = f->world.size, .count = COUNT};
    struct bb_metrics figures = {0};
    struct bb_buffer_layout l;

    make(f, true, true);
    l = bb_buffer_layout_of(&c, f->world.rank);
    assert_int_equal(bb_verify_prepare(&f->ctx, &c), 0);
    assert_int_equal(bb_case_launch(&f->ctx, &c, bb_case_slots(&f->ctx, &c) - 1), 0);
    assert_int_equal(bb_bench_context_wait(&f->ctx, "broadcast"), 0);
    if (f->world.rank == f->world.size - 1)
        assert_int_equal(BB_CUDA(cudaMemset(f->ctx.arena.area + (bb_case_slots(&f->ctx, &c) - 1) * l.slot_bytes +
                                                l.recv_offset + l.recv_bytes,
                                            0, 1)),
                         0);
    assert_int_equal(bb_verify(&f->ctx, &c, &figures), 0);
    assert_true(figures.wrong == 1 && figures.first.outside && figures.first.rank == f->world.size - 1);
    unmake(f);
}

int main(void)
{
    struct fixture f = {0};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(native_calls_deliver, &f),
        cmocka_unit_test_prestate(sends_and_receives_take_their_place, &f),
        cmocka_unit_test_prestate(nothing_to_exchange, &f),
        cmocka_unit_test_prestate(an_operation_that_did_nothing_is_seen, &f),
        cmocka_unit_test_prestate(a_write_behind_the_area_is_seen, &f),
    };
    int rc = bb_world_init(&f.world, 20);

    if (rc == 0)
        rc = bb_device_choose(&f.world, 0, false, &f.device);
    rc = rc ? rc : -cmocka_run_group_tests(tests, NULL, NULL);
    return bb_exit_code(bb_world_release(&f.world, rc));
}
