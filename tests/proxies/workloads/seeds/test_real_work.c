/*
 * test_real_work.c - steps of the mini-applications with --compute gemm: FLOPs against independently written formulas
 * and published numbers, unchanged communication, order of gradient accumulation and optimizer, bytes of memory-bound
 * kernels, and the effect of --scale-counts.
 */
#include "tests/proxies/made.h"

#include "proxies/offline/plan/traffic.h"

#include <math.h>

#define MAX_OPS 400

static void make_step(struct bb_step *step, const char *line, int ranks, const char *compute, double scale)
{
    const struct bb_proxy_config config = {.ranks = ranks, .compute = compute, .scale_counts = scale};

    assert_int_equal(made_line_with(step, line, config), 0);
}

static const struct configuration {
    const char *line;
    int ranks;
    bool timed; /* the proxy accepts --compute timed */
} configurations[] = {
    {"gpt2_large 8 4 3", 8, true},
    {"gpt2_large 2 2 1", 2, true},
    {"bert_large 4 2 2", 4, true},
    {"resnet50", 3, false},
    {"resnet50_ring", 3, false},
    {"resnet152", 2, true},
    {"resnet152_scal", 256, true},
    {"cosmoflow", 8, true},
    {"dlrm", 4, true},
    {"gpt3 3 2", 24, true},
    {"gpt3_one_pipe_step 4", 16, true},
    {"gpt3_moe 2 2", 32, true},
    {"gpt3_moe_one_pipe_step 2", 32, true},
};

/* ---- FLOPs ---- */

static double flops_of(const struct bb_program *p, enum bb_phase phase)
{
    double sum = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        sum += p->ops[i].phase == phase ? p->ops[i].flops : 0;
    return sum;
}

/* Multiply-adds of one image in convolutions and head, from the architecture's table. */
static double image_macs(int classes, const int blocks[4])
{
    double sum = 112.0 * 112 * 64 * 147 + 2048.0 * classes, in = 64;

    for (int s = 0; s < 4; s++) {
        double c = 64 << s, edge = 56 >> s;

        for (int b = 0; b < blocks[s]; b++, in = 4 * c) {
            double before = b == 0 && s > 0 ? 2 * edge : edge;

            sum += before * before * in * c + edge * edge * (9 * c * c + 4 * c * c);
            sum += b == 0 ? edge * edge * in * 4 * c : 0;
        }
    }
    return sum;
}

/* Published: 4.0892 and 11.5136 GMAC per image with 1000 classes. The first layer's input needs no gradient. */
static void resnet_flops_match_published_numbers(void **state)
{
    const struct {
        const char *line;
        int ranks, images, classes, blocks[4];
        double gmac;
    } rows[] = {{"resnet50", 2, 128, 1001, {3, 4, 6, 3}, 4.0892 + 2048e-9},
                {"resnet50_ring", 2, 128, 1001, {3, 4, 6, 3}, 4.0892 + 2048e-9},
                {"resnet152", 2, 128, 1000, {3, 8, 36, 3}, 11.5136},
                {"resnet152_scal", 1024, 32, 1000, {3, 8, 36, 3}, 11.5136}};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        double macs = image_macs(rows[i].classes, rows[i].blocks), forward = 2 * macs * rows[i].images;
        double stem = 2.0 * 112 * 112 * 64 * 147 * rows[i].images;
        const struct bb_program *p;

        assert_true(fabs(macs / 1e9 - rows[i].gmac) < 1e-4);
        make_step(&step, rows[i].line, rows[i].ranks, "gemm", 0);
        p = bb_step_program(&step, 0);
        assert_true(flops_of(p, BB_PHASE_FORWARD) == forward);
        assert_true(flops_of(p, BB_PHASE_BACKWARD) == 2 * forward - stem);
        assert_true(step.samples == (double)rows[i].images * rows[i].ranks);
        bb_step_release(&step);
    }
}

/* Bucket 0 of ResNet-50 has the head and, of the last block, the last two convolutions but one: 3104745 elements. */
static void bucket_computes_its_layers(void **state)
{
    struct bb_step step;
    const struct bb_op *op;

    (void)state;
    make_step(&step, "resnet50", 2, "gemm", 0);
    op = &bb_step_program(&step, 0)->ops[1];
    assert_int_equal(op->phase, BB_PHASE_BACKWARD);
    assert_true(op->flops == 2 * 2 * 128 * (2048.0 * 1001 + 49 * 512 * 2048.0));
    bb_step_release(&step);
}

/* Published: 34.43 GMAC per sample; 8 samples over 4 shards. */
static void cosmoflow_flops_match_published_numbers(void **state)
{
    double forward = 0, first = 0;
    struct bb_step step;

    (void)state;
    make_step(&step, "cosmoflow", 4, "gemm", 0);
    for (int r = 0; r < 4; r++) {
        const struct bb_program *p = bb_step_program(&step, r);

        forward += flops_of(p, BB_PHASE_FORWARD);
        first += p->ops[0].flops;
        assert_true(flops_of(p, BB_PHASE_BACKWARD) == 2 * flops_of(p, BB_PHASE_FORWARD) - p->ops[0].flops);
    }
    assert_true(first == 2.0 * 8 * 27 * 4 * 32 * 128 * 128 * 128);
    assert_true(fabs(forward / 2 / 8 / 1e9 - 34.43) < 0.01);
    bb_step_release(&step);
}

/* MLPs 128-128-128-128 and 138-512-512-512-256-1 for 512 samples, and 5 x 5 dot products of 128. */
static void dlrm_flops_match_the_formula(void **state)
{
    const double bottom = 3 * 128 * 128, top = 138 * 512 + 2 * 512 * 512 + 512 * 256 + 256, dots = 25 * 128;
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    for (int ranks = 2; ranks <= 8; ranks += 2) { /* the same for every number of ranks, as in the published
                                                     mini-application */
        make_step(&step, "dlrm", ranks, "gemm", 0);
        p = bb_step_program(&step, 0);
        assert_true(flops_of(p, BB_PHASE_FORWARD) == 2 * 512 * (bottom + dots + top));
        assert_true(flops_of(p, BB_PHASE_BACKWARD) == 2 * 512 * (2 * (bottom + dots + top) - 128 * 128));
        bb_step_release(&step);
    }
}

static void gpt3_flops_match_the_formula(void **state)
{
    const double s = 2048, h = 12288, attention = 8 * s * h * h + 4 * s * s * h, mlp = 16 * s * h * h;
    const struct {
        const char *line;
        int ranks, rank, micro_batches;
        double layer;
    } rows[] = {{"gpt3 2 2", 8, 0, 4, (attention + mlp) / 4},
                {"gpt3 3 1", 12, 1, 3, (attention + mlp) / 4},
                {"gpt3_moe 2 2", 32, 1, 4, attention + mlp / 16}};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_program *p;

        make_step(&step, rows[i].line, rows[i].ranks, "gemm", 0);
        p = bb_step_program(&step, rows[i].rank);
        assert_true(flops_of(p, BB_PHASE_FORWARD) == rows[i].micro_batches * rows[i].layer);
        assert_true(flops_of(p, BB_PHASE_BACKWARD) == 2 * rows[i].micro_batches * rows[i].layer);
        bb_step_release(&step);
    }
    make_step(&step, "gpt3_one_pipe_step 2", 8, "gemm", 0);
    assert_true(flops_of(bb_step_program(&step, 0), BB_PHASE_FORWARD) == (attention + mlp) / 4);
    assert_true(flops_of(bb_step_program(&step, 1), BB_PHASE_BACKWARD) == (attention + mlp) / 2);
    bb_step_release(&step);
}

/* ---- order ---- */

/* before[j][i]: operation i ends before operation j starts. */
typedef bool before_t[MAX_OPS][MAX_OPS];

static void order_of(const struct bb_program *p, before_t before)
{
    int last[BB_MAX_STREAMS];

    assert_true(p->n_ops <= MAX_OPS);
    for (int s = 0; s < BB_MAX_STREAMS; s++)
        last[s] = BB_NONE;
    for (int j = 0; j < (int)p->n_ops; j++) {
        const struct bb_op *op = &p->ops[j];

        memset(before[j], 0, sizeof(before[j]));
        for (int w = -1; w < op->waits; w++) {
            int i = w < 0 ? last[op->stream] : p->wait_list[op->first_wait + w];

            for (int k = 0; i != BB_NONE && k < i; k++)
                before[j][k] |= before[i][k];
            if (i != BB_NONE)
                before[j][i] = true;
        }
        last[op->stream] = j;
    }
}

static int comms_of(const struct bb_program *p, int *list)
{
    int n = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        if (bb_op_is_comm(&p->ops[i]))
            list[n++] = (int)i;
    return n;
}

static void assert_same_message(const struct bb_op *a, const struct bb_op *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->coll, b->coll);
    assert_int_equal(a->redop, b->redop);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->stream, b->stream);
    assert_int_equal(a->comm, b->comm);
    assert_int_equal(a->peer, b->peer);
    assert_int_equal(a->peer_kind, b->peer_kind);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->phase, b->phase);
    assert_int_equal(a->micro_batch, b->micro_batch);
    assert_int_equal(a->call == BB_NONE, b->call == BB_NONE);
}

/* Both steps have the same communication operations in the same order; strict: also the same order constraints
 * between them. */
static void assert_same_communication(const struct bb_step *a, const struct bb_step *b, int rank, bool strict)
{
    static before_t before_a, before_b;
    const struct bb_program *p = bb_step_program(a, rank), *q = bb_step_program(b, rank);
    static int in_a[MAX_OPS], in_b[MAX_OPS];
    int n = comms_of(p, in_a);

    assert_int_equal(comms_of(q, in_b), n);
    order_of(p, before_a);
    order_of(q, before_b);
    for (int j = 0; j < n; j++) {
        assert_same_message(&p->ops[in_a[j]], &q->ops[in_b[j]]);
        for (int i = 0; strict && i < j; i++)
            assert_int_equal(before_a[in_a[j]][in_a[i]], before_b[in_b[j]][in_b[i]]);
    }
}

/* GEMM kernels replace the timed kernels: the traffic does not change, and no communication is delayed by another
 * operation than before. */
static void gemm_compute_keeps_the_communication(void **state)
{
    struct bb_step gemm_step, timed, none;

    (void)state;
    for (size_t w = 0; w < ROWS(configurations); w++) {
        make_step(&gemm_step, configurations[w].line, configurations[w].ranks, "gemm", 0);
        make_step(&none, configurations[w].line, configurations[w].ranks, "none", 0);
        for (int r = 0; r < configurations[w].ranks; r++)
            assert_same_communication(&gemm_step, &none, r, false);
        bb_step_release(&none);
        if (configurations[w].timed) {
            make_step(&timed, configurations[w].line, configurations[w].ranks, "timed", 0);
            for (int r = 0; r < configurations[w].ranks; r++)
                assert_same_communication(&gemm_step, &timed, r, true);
            bb_step_release(&timed);
        }
        bb_step_release(&gemm_step);
    }
}

static bool is_update(const struct bb_op *op)
{
    return op->phase == BB_PHASE_OPTIMIZER;
}

static bool accumulates(const struct bb_op *op)
{
    return op->work && op->work->n > 0 && op->work->items[0].is_memory_kernel &&
           op->work->items[0].memory_kernel.kind == BB_MEMORY_KERNEL_ACCUMULATE;
}

/* All gradients are complete before the first parameter update, and gradient accumulation delays no communication of
 * its micro-batch. */
static void updates_follow_all_gradients(void **state)
{
    static before_t before;
    struct bb_step step;

    (void)state;
    for (size_t w = 0; w < ROWS(configurations); w++) {
        make_step(&step, configurations[w].line, configurations[w].ranks, "gemm", 0);
        for (int r = 0; r < step.n_roles; r++) {
            const struct bb_program *p = &step.roles[r].program;

            order_of(p, before);
            for (int j = 0; j < (int)p->n_ops; j++)
                for (int i = 0; i < j; i++) {
                    const struct bb_op *a = &p->ops[i], *b = &p->ops[j];

                    if (is_update(b) && !is_update(a) && (a->phase == BB_PHASE_GRADIENTS || !bb_op_is_comm(a)))
                        assert_true(before[j][i]);
                    assert_false(is_update(a) && !is_update(b));
                    if (accumulates(a) && bb_op_is_comm(b) && b->micro_batch == a->micro_batch &&
                        b->phase == BB_PHASE_BACKWARD)
                        assert_false(before[j][i]);
                }
        }
        bb_step_release(&step);
    }
}

/* ---- memory-bound kernels of training ---- */

static double kernel_bytes(const struct bb_program *p, bool (*pick)(const struct bb_op *))
{
    double sum = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        sum += pick(&p->ops[i]) ? p->ops[i].work_times * bb_kernel_list_bytes(p->ops[i].work) : 0;
    return sum;
}

static enum bb_memory_kernel_kind kind_of_update(const struct bb_program *p)
{
    return p->ops[p->n_ops - 1].work->items[0].memory_kernel.kind;
}

/* In float, SGD with momentum reads the gradient and reads and writes parameter and momentum (20 B); Adam has a
 * second moment (28 B). Accumulating a gradient takes 12 B, for each of several micro-batches. */
static void optimizer_bytes_cover_all_parameters(void **state)
{
    const struct {
        const char *line;
        int ranks, rank;
        enum bb_memory_kernel_kind kind;
        double parameters;
        int sums; /* accumulated micro-batches */
    } rows[] = {
        {"resnet50", 2, 1, BB_MEMORY_KERNEL_SGD, 25559081, 0},
        {"resnet50_ring", 2, 0, BB_MEMORY_KERNEL_SGD, 25559081, 0},
        {"resnet152", 1, 0, BB_MEMORY_KERNEL_SGD, 60192808, 0},
        {"cosmoflow", 8, 3, BB_MEMORY_KERNEL_SGD, 1050737 + 3488 + 55360 + 221312 + 884992 + 3539456, 0},
        {"dlrm", 4, 2, BB_MEMORY_KERNEL_SGD, 49536 + 728065, 0},
        {"gpt3 2 2", 8, 3, BB_MEMORY_KERNEL_ADAM, 452984832, 4},
        {"gpt3_moe 2 2", 32, 3, BB_MEMORY_KERNEL_ADAM, 75497472 + 603979776, 4},
        {"gpt2_large 8 4 3", 8, 0, BB_MEMORY_KERNEL_ADAM, 85317120 + 19677440, 3},
        {"gpt2_large 8 4 3", 8, 2, BB_MEMORY_KERNEL_ADAM, 2 * 19677440, 3},
        {"gpt2_large 8 4 3", 8, 7, BB_MEMORY_KERNEL_ADAM, 84008960 + 19677440, 3},
        {"gpt2_large 2 2 1", 2, 0, BB_MEMORY_KERNEL_ADAM, 85317120,
         0}, /* one replica: no reduction, but all parameters are updated */
        {"bert_large 4 2 2", 4, 1, BB_MEMORY_KERNEL_ADAM, 45984572 + 12596224, 2},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_program *p;

        make_step(&step, rows[i].line, rows[i].ranks, "gemm", 0);
        p = bb_step_program(&step, rows[i].rank);
        assert_int_equal(kind_of_update(p), rows[i].kind);
        assert_true(kernel_bytes(p, is_update) ==
                    rows[i].parameters * (rows[i].kind == BB_MEMORY_KERNEL_SGD ? 20 : 28));
        assert_true(kernel_bytes(p, accumulates) == rows[i].parameters * 12 * rows[i].sums);
        bb_step_release(&step);
    }
}

/* gpt3_one_pipe_step is one of many steady-state steps: odd stages accumulate gradients, and no stage runs the
 * optimizer. */
static void steady_state_step_has_no_optimizer(void **state)
{
    struct bb_step step;

    (void)state;
    make_step(&step, "gpt3_one_pipe_step 2", 8, "gemm", 0);
    assert_true(kernel_bytes(bb_step_program(&step, 0), is_update) == 0 &&
                kernel_bytes(bb_step_program(&step, 1), is_update) == 0);
    assert_true(kernel_bytes(bb_step_program(&step, 0), accumulates) == 0);
    assert_true(kernel_bytes(bb_step_program(&step, 1), accumulates) == 12 * 452984832.0);
    bb_step_release(&step);
}

static double kernel_bytes_named(const struct bb_program *p, const char *what)
{
    double sum = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].work && strcmp(p->ops[i].what, what) == 0)
            sum += bb_kernel_list_bytes(p->ops[i].work);
    return sum;
}

/* Two faces per exchange: packing reads and writes a face (8 B per float); accumulating reads the destination as
 * well (12 B). */
static void halo_kernels_move_the_faces(void **state)
{
    const double forward = 2097152 + 1048576 + 524288 + 262144, backward = 1048576 + 524288 + 262144 + 131072;
    struct bb_step step;

    (void)state;
    make_step(&step, "cosmoflow", 4, "gemm", 0);
    for (int r = 0; r < 4; r++) {
        const struct bb_program *p = bb_step_program(&step, r);

        assert_true(kernel_bytes_named(p, "halo pack") == 2 * 8 * (forward + backward));
        assert_true(kernel_bytes_named(p, "halo unpack") == 2 * (8 * forward + 12 * backward));
    }
    bb_step_release(&step);
}

/* 2048 rows of 128 floats, read and written, and their indices. */
static void embedding_lookup_moves_its_rows(void **state)
{
    struct bb_step step;

    (void)state;
    make_step(&step, "dlrm", 4, "gemm", 0);
    assert_true(bb_kernel_list_bytes(bb_step_program(&step, 0)->ops[0].work) == 2048 * (2 * 128 * 4 + 4));
    bb_step_release(&step);
}

/* ---- memory ---- */

/* ResNet-50: the largest input is that of the stem's weight gradient (positions x (filters + patch)); the largest
 * output is the data gradient of a 3x3 convolution of stage 1 (positions x patch). */
static void work_buffers_fit_the_largest_operands(void **state)
{
    const size_t positions = 128 * 112 * 112, read = positions * (64 + 147) * 4, written = positions / 4 * 576 * 4;
    struct bb_traffic with, without;
    struct bb_step gemm_step, none;

    (void)state;
    make_step(&gemm_step, "resnet50", 2, "gemm", 0);
    make_step(&none, "resnet50", 2, "none", 0);
    bb_traffic_init(&with, &gemm_step, false);
    bb_traffic_init(&without, &none, false);
    assert_int_equal(with.roles[0].work_bytes, read + written + (32 << 20));
    assert_int_equal(without.roles[0].work_bytes, 0);
    assert_int_equal(bb_traffic_memory(&with.roles[0]),
                     bb_traffic_memory(&without.roles[0]) + with.roles[0].work_bytes);
    bb_traffic_release(&with);
    bb_traffic_release(&without);
    bb_step_release(&gemm_step);
    bb_step_release(&none);
}

/* ---- smaller counts ---- */

static double all_flops(const struct bb_program *p)
{
    return flops_of(p, BB_PHASE_FORWARD) + flops_of(p, BB_PHASE_BACKWARD);
}

/* Kernels shrink with the messages: FLOPs by about the scale factor, memory by more than a factor of 20. The
 * messages equal those of a scaled step without compute. */
static void scaled_counts_shrink_the_kernels(void **state)
{
    struct bb_step whole, small, none;

    (void)state;
    for (size_t w = 0; w < ROWS(configurations); w++) {
        make_step(&whole, configurations[w].line, configurations[w].ranks, "gemm", 0);
        make_step(&small, configurations[w].line, configurations[w].ranks, "gemm", 1e-3);
        make_step(&none, configurations[w].line, configurations[w].ranks, "none", 1e-3);
        for (int r = 0; r < small.n_roles; r++) {
            const struct bb_program *p = &whole.roles[r].program, *q = &small.roles[r].program;
            double ratio = all_flops(q) / all_flops(p);

            assert_int_equal(p->n_ops, q->n_ops);
            if (strncmp(configurations[w].line, "dlrm", 4) != 0 && strncmp(configurations[w].line, "cosmo", 5) != 0)
                assert_true(ratio > 0.5e-3 && ratio < 2e-3);
            assert_true(bb_program_work_bytes(q) - (32 << 20) < bb_program_work_bytes(p) / 20);
        }
        for (int r = 0; r < configurations[w].ranks; r += 5)
            assert_same_communication(&small, &none, r, false);
        bb_step_release(&whole);
        bb_step_release(&small);
        bb_step_release(&none);
    }
}

static void scaled_gemms_keep_their_layout(void **state)
{
    static struct bb_kernel_list w;
    const struct bb_gemm_shape s = {1024, 4096, 100, 7, true, false, BB_HALF};

    (void)state;
    bb_kernel_list_add_gemm(&w, "gemm", &s);
    bb_kernel_list_accumulate(&w, 1000000, BB_FLOAT);
    bb_kernel_list_embedding(&w, 64, 32, 500, BB_FLOAT);
    bb_kernel_list_scale(&w, 1.0 / 64); /* a quarter of each edge, multiples of 8 where the edge was one; columns shrink
                                       where there are no rows to drop */
    assert_int_equal(w.items[0].gemm.m, 256);
    assert_int_equal(w.items[0].gemm.n, 1024);
    assert_int_equal(w.items[0].gemm.k, 25);
    assert_int_equal(w.items[0].gemm.batch, 7);
    assert_true(w.items[0].gemm.trans_a && w.items[0].gemm.dtype == BB_HALF);
    assert_int_equal(w.items[1].memory_kernel.rows, 1);
    assert_int_equal(w.items[1].memory_kernel.cols, 15625);
    assert_int_equal(w.items[2].memory_kernel.rows, 1);
    assert_int_equal(w.items[2].memory_kernel.cols, 32);
    assert_int_equal(w.items[2].memory_kernel.in_rows, 7);
    bb_kernel_list_scale(&w, 1e-12);
    assert_true(w.items[0].gemm.m == 8 && w.items[0].gemm.n == 8 && w.items[0].gemm.k == 1);
    assert_true(w.items[1].memory_kernel.cols == 1 && w.items[2].memory_kernel.in_rows == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resnet_flops_match_published_numbers),
        cmocka_unit_test(bucket_computes_its_layers),
        cmocka_unit_test(cosmoflow_flops_match_published_numbers),
        cmocka_unit_test(dlrm_flops_match_the_formula),
        cmocka_unit_test(gpt3_flops_match_the_formula),
        cmocka_unit_test(gemm_compute_keeps_the_communication),
        cmocka_unit_test(updates_follow_all_gradients),
        cmocka_unit_test(optimizer_bytes_cover_all_parameters),
        cmocka_unit_test(steady_state_step_has_no_optimizer),
        cmocka_unit_test(halo_kernels_move_the_faces),
        cmocka_unit_test(embedding_lookup_moves_its_rows),
        cmocka_unit_test(work_buffers_fit_the_largest_operands),
        cmocka_unit_test(scaled_counts_shrink_the_kernels),
        cmocka_unit_test(scaled_gemms_keep_their_layout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
