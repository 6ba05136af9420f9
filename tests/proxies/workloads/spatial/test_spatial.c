/* test_spatial.c - steps of `spatial`: traffic against independent counts, orders, and rejected layouts. */
#include "layouts.h"

#include <math.h>

#define TILES(...) .tiles = {__VA_ARGS__}

/* ---- ResNet-110-v2 at 1024^2, one sample, 2 splits, 4 tiles ---- */

static void halo_traffic_of_resnet_strips(void **state)
{
    static const char *const slices[] = {"vertical", "horizontal"};
    struct bb_step step;

    (void)state;
    for (int s = 0; s < 2; s++) {
        VALID_LINE(&step, "spatial", .ranks = 5, TILES(.slice = slices[s], .spatial_parts = "4"));
        assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASE_FORWARD), 37, 1526784);
        assert_sum(sum_of(&step, 3, BB_OP_RECV, "halo", BB_PHASE_FORWARD), 37, 1526784);
        assert_sum(sum_of(&step, 1, BB_OP_SEND, "halo", BB_PHASE_FORWARD), 74, 3053568);
        assert_sum(sum_of(&step, 2, BB_OP_RECV, "halo", BB_PHASE_FORWARD), 74, 3053568);
        assert_sum(sum_of_all(&step, BB_OP_SEND, "halo", BB_PHASES), 222, 36642816 / 4);
        bb_step_release(&step);
    }
}

static void traffic_of_resnet_squares(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.slice = "square", .spatial_parts = "4"));
    for (int r = 0; r < 4; r++) {
        assert_sum(sum_of(&step, r, BB_OP_SEND, "halo", BB_PHASES), 111, 1528787);
        assert_sum(sum_of(&step, r, BB_OP_RECV, "halo", BB_PHASES), 111, 1528787);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "spatial", BB_PHASE_GRADIENTS), 1, 837152);
        assert_sum(sum_of(&step, r, BB_OP_SEND, "join", BB_PHASE_FORWARD), 1, 33554432 / 4);
        assert_sum(sum_of(&step, r, BB_OP_RECV, "join", BB_PHASE_BACKWARD), 1, 33554432 / 4);
    }
    assert_sum(sum_of_all(&step, BB_OP_SEND, "halo", BB_PHASES), 444, 24460592 / 4);
    assert_sum(sum_of(&step, 4, BB_OP_RECV, "join", BB_PHASE_FORWARD), 4, 134217728 / 4);
    assert_true(step.roles[step.role_of[4]].training_bytes[BB_USE_PARAMETERS] == 4 * 8944650.0);
    assert_true(step.roles[step.role_of[0]].training_bytes[BB_USE_OPTIMIZER] == 4 * 837152.0);
    bb_step_release(&step);
}

/* ---- backward, fused, several micro-batches and replicas ---- */

static void halo_bwd_dx_doubles_the_halos(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.spatial_parts = "4", .halo_bwd = "dx"));
    assert_sum(sum_of_all(&step, BB_OP_SEND, "halo", BB_PHASE_FORWARD), 444, 24460592 / 4);
    assert_sum(sum_of_all(&step, BB_OP_SEND, "halo", BB_PHASE_BACKWARD), 444, 24460592 / 4);
    bb_step_release(&step);
}

/* dy: gradients of the output channels on output tiles. Blocks of 16 at 1024^2, one of 64 at stride 2, 5 of 64 at
 * 512^2; the first convolution needs no gradient of its input. */
static void halo_bwd_dy_exchanges_output_gradients(void **state)
{
    const size_t strip = 2 * 12 * 16 * 1024 + 2 * 6 * 64 * 512;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.slice = "vertical", .spatial_parts = "4", .halo_bwd = "dy"));
    assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASE_BACKWARD), 36, strip);
    assert_sum(sum_of(&step, 1, BB_OP_RECV, "halo", BB_PHASE_BACKWARD), 72, 2 * strip);
    bb_step_release(&step);
}

static void fused_halos_are_fewer_and_wider_messages(void **state)
{
    const size_t first = 2 * 16 + 11 * 2 * 64, last = 3 * 64, rest = 5 * 2 * 128; /* H x channels */
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.slice = "vertical", .spatial_parts = "4", .halo_d2 = true));
    assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASES), 19, 3072 + (first + last) * 1024 + rest * 512);
    bb_step_release(&step);
}

static double flops_of(const struct bb_step *step, double *us)
{
    double sum = 0;

    *us = 0;
    for (int r = 0; r < step->layout.ranks; r++) {
        const struct bb_program *p = bb_step_program(step, r);

        for (size_t i = 0; i < p->n_ops; i++) {
            sum += p->ops[i].flops;
            *us += p->ops[i].compute_us;
        }
    }
    return sum;
}

/* Redundant compute takes time but does not count as the model's FLOPs: three times the forward pass, less the
 * gradient of the image. */
static void redundant_compute_adds_no_model_flops(void **state)
{
    const double forward = 2 * 884.4e9, first = 2.0 * 27 * 16 * 1024 * 1024;
    double plain, fused, real, plain_us, fused_us, real_us;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.spatial_parts = "4"));
    plain = flops_of(&step, &plain_us);
    bb_step_release(&step);
    VALID_LINE(&step, "spatial", .ranks = 5, TILES(.spatial_parts = "4", .halo_d2 = true, .fused_layers = 3));
    fused = flops_of(&step, &fused_us);
    bb_step_release(&step);
    VALID_LINE(&step, "spatial", .ranks = 5, .compute = "gemm", TILES(.spatial_parts = "4", .halo_d2 = true));
    real = flops_of(&step, &real_us);
    bb_step_release(&step);
    assert_true(fabs(plain / (3 * forward - first) - 1) < 1e-3);
    assert_true(fabs(fused / plain - 1) < 1e-9 && fabs(real / plain - 1) < 1e-9);
    assert_true(fused_us > 1.01 * plain_us);
}

static void traffic_scales_with_micro_batches_and_replicas(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 15, .micro_batches = 3, .micro_batch_size = 2,
               TILES(.spatial_parts = "4", .splits = 2));
    for (int r = 0; r < 15; r += 5) {
        assert_sum(sum_of(&step, r, BB_OP_SEND, "halo", BB_PHASES), 3 * 111, 6 * 1528787);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "spatial", BB_PHASES), 1, 837152);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "dp", BB_PHASES), 1, 837152);
        assert_sum(sum_of(&step, r + 4, BB_OP_COLLECTIVE, "dp", BB_PHASES), 1, 8944650);
        assert_sum(sum_of(&step, r + 4, BB_OP_RECV, "join", BB_PHASES), 3 * 4, 6 * 134217728UL / 4);
    }
    assert_true(step.samples == 18);
    bb_step_release(&step);
}

/* ---- transfer between splits ---- */

static void amoebanet_transfers_two_tensors(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 5, .model = "amoebanet_d", TILES(.spatial_parts = "4", .splits = 2));
    assert_sum(sum_of(&step, 4, BB_OP_RECV, "join", BB_PHASE_FORWARD), 8, 109051904 / 4);
    assert_sum(sum_of(&step, 4, BB_OP_SEND, "join", BB_PHASE_BACKWARD), 8, 109051904 / 4);
    assert_sum(sum_of(&step, 2, BB_OP_SEND, "join", BB_PHASE_FORWARD), 2, 109051904 / 16);
    bb_step_release(&step);
}

/* Elements that a strip sends to one side, by the operations of the cell: h rows, c channels, c / 4 of them in 1x7
 * and 3x3. */
static size_t normal_cell(size_t c, size_t h)
{
    return 3 * c * h + 2 * 3 * (c / 4) * h;
}

static size_t reduction_cell(size_t c, size_t h)
{
    return (c + c / 4) * h + (3 * (c / 4) + 2 * c) * h / 2;
}

static void halo_traffic_of_amoebanet(void **state)
{
    const size_t reductions = reduction_cell(208, 512) + reduction_cell(416, 256) + reduction_cell(832, 128);
    const size_t unfused = 3 * 1024 + reductions + 6 * normal_cell(416, 128) + 2 * normal_cell(832, 64);
    const size_t fused = 3 * 1024 + reductions + 6 * 5 * 416 * 128 + 2 * 5 * 832 * 64;
    struct bb_proxy_config c = {
        .ranks = 5, .model = "amoebanet_d", TILES(.spatial_parts = "4", .slice = "vertical", .splits = 2)};
    struct bb_step step;

    (void)state;
    make_valid(&step, "spatial", c);
    assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASES), 1 + 3 * 5 + 8 * 5, unfused);
    assert_sum(sum_of(&step, 2, BB_OP_SEND, "halo", BB_PHASES), 2 * (1 + 3 * 5 + 8 * 5), 2 * unfused);
    bb_step_release(&step);
    c.tiles.halo_d2 = true; /* two messages per cell, in one group call */
    make_valid(&step, "spatial", c);
    assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASES), 1 + 3 * 5 + 8 * 2, fused);
    bb_step_release(&step);
}

/* MLPerf's CosmoFlow on two strips: faces (depth x height) of the inputs of conv 0 to 3. */
static void halo_traffic_of_cosmoflow(void **state)
{
    const size_t faces = 4 * 128 * 128 + 32 * 64 * 64 + 64 * 32 * 32 + 128 * 16 * 16;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 3, .model = "cosmoflow", .micro_batch_size = 8,
               TILES(.spatial_parts = "2", .splits = 2));
    for (int r = 0; r < 2; r++)
        assert_sum(sum_of(&step, r, BB_OP_SEND, "halo", BB_PHASES), 4, 8 * faces);
    assert_sum(sum_of(&step, 2, BB_OP_RECV, "join", BB_PHASE_FORWARD), 2, 8 * 256 * 8 * 8 * 8);
    bb_step_release(&step);
}

/* 3 splits, 2 of them spatial, on 4 and 2 tiles: ranks 0-3, 4-5, 6. */
static void strips_are_merged_two_to_one(void **state)
{
    const size_t between = 64 * 1024 * 1024, last = 128 * 512 * 512;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 7, TILES(.spatial_parts = "4,2", .splits = 3, .slice = "vertical"));
    for (int r = 0; r < 4; r++)
        assert_sum(sum_of(&step, r, BB_OP_SEND, "join", BB_PHASE_FORWARD), 1, between / 4);
    for (int r = 4; r < 6; r++) {
        assert_sum(sum_of(&step, r, BB_OP_RECV, "join", BB_PHASE_FORWARD), 2, between / 2);
        assert_sum(sum_of(&step, r, BB_OP_SEND, "join", BB_PHASE_FORWARD), 1, last / 2);
    }
    assert_sum(sum_of(&step, 6, BB_OP_RECV, "join", BB_PHASE_FORWARD), 2, last);
    assert_sum(sum_of(&step, 0, BB_OP_RECV, "halo of 4", BB_PHASES), 23, 3072 + 32 * 1024 + 10 * 80 * 1024);
    bb_step_release(&step);
}

static void local_replicas_divide_the_batch(void **state)
{
    const size_t map = 128 * 512 * 512;
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 4 + 2 * 2, .micro_batch_size = 4,
               TILES(.spatial_parts = "4", .splits = 3, .local_dp = 2, .balance = "19,10,9"));
    for (int r = 0; r < 4; r++)
        assert_sum(sum_of(&step, r, BB_OP_SEND, "join", BB_PHASE_FORWARD), 2, 4 * map / 4);
    for (int r = 4; r < 6; r++) {
        assert_sum(sum_of(&step, r, BB_OP_RECV, "join", BB_PHASE_FORWARD), 4, 2 * map);
        assert_sum(sum_of(&step, r, BB_OP_SEND, "lp", BB_PHASE_FORWARD), 1, 2 * 256 * 256 * 256);
        assert_int_equal(sum_of(&step, r, BB_OP_COLLECTIVE, "local_dp", BB_PHASES).calls, 1);
    }
    bb_step_release(&step);
}

/* ---- order ---- */

/* One letter per operation: kernels c, halos sent h and received r, transfers between splits sent > and received <,
 * gradients G. */
static void op_letters(const struct bb_step *step, int rank, char *text, size_t capacity)
{
    const struct bb_program *p = bb_step_program(step, rank);
    size_t n = 0;

    for (size_t i = 0; i < p->n_ops && n + 2 < capacity; i++) {
        const struct bb_op *op = &p->ops[i];
        bool halo = op->comm != BB_NONE && strcmp(step->layout.comms[op->comm].name, "halo") == 0;
        char c = op->kind == BB_OP_COMPUTE      ? 'c'
                 : op->kind == BB_OP_COLLECTIVE ? 'G'
                 : op->kind == BB_OP_SEND       ? (halo ? 'h' : '>')
                                                : (halo ? 'r' : '<');

        if (n == 0 || text[n - 1] != c || c != 'c')
            text[n++] = c;
    }
    text[n] = '\0';
}

/* CosmoFlow in 4 splits of 2 modules; the first split, 2 convolutions and 2 pools, is on two strips. */
static void step_order_is_gpipe(void **state)
{
    const struct bb_proxy_config c = {.ranks = 5,
                                      .model = "cosmoflow",
                                      .micro_batches = 2,
                                      TILES(.spatial_parts = "2", .splits = 4, .halo_bwd = "dx")};
    struct bb_step step;
    char text[128];

    (void)state;
    make_valid(&step, "spatial", c);
    op_letters(&step, 0, text, sizeof(text));
    assert_string_equal(text, "hrchrc>hrchrc><chrchr<chrchrG");
    op_letters(&step, 2, text, sizeof(text));
    assert_string_equal(text, "<<c><<c><c>><c>>");
    op_letters(&step, 3, text, sizeof(text));
    assert_string_equal(text, "<c><c><c><c>");
    op_letters(&step, 4, text, sizeof(text));
    assert_string_equal(text, "<c<c>c>");
    bb_step_release(&step);
}

/* With overlap, the kernel of the interior is issued after the start of the exchange and does not wait for it. */
static void interior_overlaps_with_the_halo_exchange(void **state)
{
    const struct bb_proxy_config c = {
        .ranks = 5, .model = "cosmoflow", TILES(.spatial_parts = "2", .splits = 4, .halo_overlap = true)};
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    make_valid(&step, "spatial", c);
    p = bb_step_program(&step, 0);
    assert_int_equal(p->ops[0].kind, BB_OP_SEND);
    assert_int_equal(p->ops[1].kind, BB_OP_RECV);
    assert_int_equal(p->ops[0].call, p->ops[1].call);
    assert_int_equal(p->ops[2].kind, BB_OP_COMPUTE);
    assert_int_equal(p->ops[2].waits, 0);
    assert_int_equal(p->ops[3].kind, BB_OP_COMPUTE);
    assert_int_equal(p->ops[3].waits, 1);
    assert_int_equal(p->wait_list[p->ops[3].first_wait], 1);
    bb_step_release(&step);
}

/* Elements of the boxes that the kernels of this name copy. */
static size_t copied_elements(const struct bb_program *p, const char *name)
{
    size_t sum = 0;

    for (size_t i = 0; i < p->n_ops; i++)
        for (int k = 0; p->ops[i].work && k < p->ops[i].work->n; k++) {
            const struct bb_kernel_list_item *item = &p->ops[i].work->items[k];

            if (item->is_memory_kernel && strcmp(item->name, name) == 0)
                sum += item->memory_kernel.rows * bb_box_cells(&item->memory_kernel.box);
        }
    return sum;
}

/* Sent elements are packed, received elements are unpacked; received gradients of a halo are added. */
static void halo_kernels_copy_the_message_elements(void **state)
{
    static const char *const models[] = {"resnet110_v2", "amoebanet_d", "cosmoflow"}, *const gradient_modes[] = {
                                                                                          "none", "dx", "dy"};
    struct bb_step step;

    (void)state;
    for (int i = 0; i < 9; i++) {
        bool fused = i % 3 == 1; /* fused together with dx */

        VALID_LINE(&step, "spatial", .ranks = 5, .model = models[i / 3], .compute = "gemm", .micro_batches = 2,
                   .micro_batch_size = 3,
                   TILES(.image_size = 128, .spatial_parts = "4", .halo_bwd = gradient_modes[i % 3], .halo_d2 = fused));
        for (int r = 0; r < 4; r++) {
            const struct bb_program *p = bb_step_program(&step, r);
            size_t sent = sum_of(&step, r, BB_OP_SEND, "halo", BB_PHASES).elements;
            size_t back = sum_of(&step, r, BB_OP_RECV, "halo", BB_PHASE_BACKWARD).elements;

            assert_true(sent > 0);
            assert_int_equal(copied_elements(p, "halo pack"), sent);
            assert_int_equal(copied_elements(p, "halo add"), fused ? back : 0);
            assert_int_equal(copied_elements(p, "halo unpack") + copied_elements(p, "halo add"),
                             sum_of(&step, r, BB_OP_RECV, "halo", BB_PHASES).elements);
        }
        bb_step_release(&step);
    }
}

/* ---- rejected options ---- */

static void rejects_invalid_options(void **state)
{
    const struct bb_proxy_config rows[] = {
        {.ranks = 5, TILES(.image_size = 1000)},
        {.ranks = 4, TILES(.spatial_parts = "3")},
        {.ranks = 9, TILES(.spatial_parts = "8", .slice = "square")},
        {.ranks = 6, TILES(.spatial_parts = "4", .splits = 2)},
        {.ranks = 5, TILES(.spatial_parts = "4", .splits = 1)},
        {.ranks = 5, TILES(.spatial_parts = "4", .splits = 2, .spatial_splits = 2)},
        {.ranks = 43, TILES(.spatial_parts = "4", .splits = 39)},
        {.ranks = 7, TILES(.spatial_parts = "2,4", .splits = 3)},
        {.ranks = 21, TILES(.spatial_parts = "16,4", .slice = "square", .splits = 3)},
        {.ranks = 9, TILES(.spatial_parts = "4,4,4", .spatial_splits = 2, .splits = 3)},
        {.ranks = 5, TILES(.spatial_parts = "4x")},
        {.ranks = 5, TILES(.spatial_parts = "4,")},
        {.ranks = 5, TILES(.spatial_parts = "")},
        {.ranks = 5, TILES(.spatial_parts = "4", .balance = "19,20")},
        {.ranks = 5, TILES(.spatial_parts = "4", .balance = "19,19", .splits = 3)},
        {.ranks = 6, .micro_batch_size = 3, TILES(.spatial_parts = "4", .splits = 2, .local_dp = 2)},
        {.ranks = 5, TILES(.fused_layers = 2)},
        {.ranks = 5,
         TILES(.spatial_parts = "4", .splits = 2, .halo_d2 = true, .fused_layers = 19)}, /* in the first half: 18 */
        {.ranks = 5, .model = "amoebanet_d", TILES(.halo_d2 = true, .fused_layers = 2)},
        {.ranks = 5, TILES(.halo_d2 = true, .halo_bwd = "dy")},
        {.ranks = 5, TILES(.halo_d2 = true, .halo_overlap = true)},
        {.ranks = 5, TILES(.replications = 2)},
        {.ranks = 5, TILES(.comm_opt = true)},
        {.ranks = 65, TILES(.spatial_parts = "64", .splits = 2, .image_size = 32, .slice = "vertical")},
        {.ranks = 5, TILES(.spatial_parts = "4", .image_size = 32, .halo_d2 = true, .fused_layers = 12)},
        {.ranks = 13, .model = "cosmoflow", TILES(.spatial_parts = "4", .spatial_splits = 3, .splits = 4)},
        {.ranks = 5, .layers = 100},
        {.ranks = 5, .model = "gpt3"},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (made_line_with(&step, "spatial", rows[i]) != -BB_EUSAGE)
            fail_msg("row %zu is not rejected", i);
}

/* Without options for the layout, the smallest layout that fits is used. */
static void default_layout_follows_from_the_ranks(void **state)
{
    static const int rows[][3] = {{3, 2, 3}, {4, 2, 4}, {5, 4, 5}, {6, 4, 6}, {8, 4, 8}, {10, 4, 5}, {35, 4, 5}};
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        VALID_LINE(&step, "spatial", .ranks = rows[i][0]);
        assert_int_equal(step.layout.groups[0].size, rows[i][1]);
        assert_int_equal(step.layout.axes[0].size, rows[i][2]);
        bb_step_release(&step);
    }
    assert_int_equal(MADE_LINE(&step, "spatial", .ranks = 2), -BB_EUSAGE);
}

/* ---- layer_parallel: pipelines without tiles ---- */

/* The messages of a rank in program order, as "<-1 F0 128": received from the rank before, forward of micro-batch 0, 128
 * elements. '&' begins each message that shares an NCCL group call with the message before. */
static void messages_of(const struct bb_step *step, int rank, char *text, size_t size)
{
    const struct bb_program *p = bb_step_program(step, rank);
    int call = BB_NONE;

    text[0] = 0;
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];

        if (op->kind != BB_OP_SEND && op->kind != BB_OP_RECV)
            continue;
        snprintf(text + strlen(text), size - strlen(text), "%s%s%c%+d %c%d %zu", *text ? " " : "",
                 op->call != BB_NONE && op->call == call ? "&" : "", op->kind == BB_OP_SEND ? '>' : '<', op->peer,
                 op->phase == BB_PHASE_FORWARD ? 'F' : 'B', op->micro_batch, op->count);
        call = op->call;
    }
}

static void assert_messages(const struct bb_step *step, int rank, const char *expected)
{
    char text[2000];

    messages_of(step, rank, text, sizeof(text));
    assert_string_equal(text, expected);
}

/* MPI4DL's benchmark_resnet_lp.py --image-size 1024 --split-size 4 --batch-size 4 --parts 2: splits of 9, 9, 9 and 11 of
 * 38 modules end in block 7 (64 channels of 1024^2), 16 (128 of 512^2) and 25 (256 of 256^2). train_model.run_step runs
 * the forwards of both parts of 2 images, then the backwards in the same order. */
static void messages_of_resnet_stages_match_mpi4dl(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 4, .stages = 4, .micro_batches = 2, .micro_batch_size = 2);
    assert_messages(&step, 0, ">+1 F0 134217728 >+1 F1 134217728 <+1 B0 134217728 <+1 B1 134217728");
    assert_messages(&step, 1,
                    "<-1 F0 134217728 >+1 F0 67108864 <-1 F1 134217728 >+1 F1 67108864 "
                    "<+1 B0 67108864 >-1 B0 134217728 <+1 B1 67108864 >-1 B1 134217728");
    assert_messages(&step, 2,
                    "<-1 F0 67108864 >+1 F0 33554432 <-1 F1 67108864 >+1 F1 33554432 "
                    "<+1 B0 33554432 >-1 B0 67108864 <+1 B1 33554432 >-1 B1 67108864");
    assert_messages(&step, 3, "<-1 F0 33554432 <-1 F1 33554432 >-1 B0 33554432 >-1 B1 33554432");
    bb_step_release(&step);
}

/* benchmark_amoebanet_lp.py: cells return (output, input), so both are sent with tags 0 and 1. 24 modules in splits of 6
 * end in the normal cells 2 (1664 channels of 128^2, as cell 1), 7 (3328 of 64^2, as cell 6) and 12 (6656 of 32^2, after
 * a reduction cell with 4992). A split after the first stem sends one tensor, after the second stem both stems' outputs. */
static void messages_of_amoebanet_stages_match_mpi4dl(void **state)
{
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 4, .model = "amoebanet_d", TILES(.splits = 4));
    assert_messages(&step, 0, ">+1 F0 27262976 &>+1 F0 27262976 <+1 B0 27262976 &<+1 B0 27262976");
    assert_messages(&step, 2,
                    "<-1 F0 13631488 &<-1 F0 13631488 >+1 F0 6815744 &>+1 F0 5111808 "
                    "<+1 B0 6815744 &<+1 B0 5111808 >-1 B0 13631488 &>-1 B0 13631488");
    bb_step_release(&step);
    VALID_LINE(&step, "layer_parallel", .ranks = 3, .model = "amoebanet_d", TILES(.balance = "1,1,22"));
    assert_messages(
        &step, 1, "<-1 F0 27262976 >+1 F0 40894464 &>+1 F0 27262976 <+1 B0 40894464 &<+1 B0 27262976 >-1 B0 27262976");
    bb_step_release(&step);
}

/* Megatron-LM's 1F1B with 2 stages and 3 micro-batches: between a forward and a backward, a send and the receive of the
 * opposite direction form one group call. CosmoFlow's modules 0 to 3 end with 256 channels of 8^3. */
static void one_forward_one_backward_groups_sends_and_receives(void **state)
{
    static const char *const orders[4] = {"F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5", "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
                                          "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"};
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 2, .model = "cosmoflow", .micro_batches = 3,
               .transformer = {.schedule = "1f1b"}, TILES(.balance = "4,4"));
    assert_messages(&step, 0, ">+1 F0 131072 >+1 F1 131072 &<+1 B0 131072 >+1 F2 131072 &<+1 B1 131072 <+1 B2 131072");
    assert_messages(&step, 1, "<-1 F0 131072 >-1 B0 131072 &<-1 F1 131072 >-1 B1 131072 &<-1 F2 131072 >-1 B2 131072");
    bb_step_release(&step);
    VALID_LINE(&step, "layer_parallel", .ranks = 4, .micro_batches = 6, .transformer = {.schedule = "1f1b"});
    for (int r = 0; r < 4; r++) {
        const struct bb_program *p = bb_step_program(&step, r);
        char text[200] = "", slot[16], before[16] = "";

        for (size_t i = 0; i < p->n_ops; i++) {
            if (p->ops[i].kind != BB_OP_COMPUTE)
                continue;
            snprintf(slot, sizeof(slot), "%c%d", p->ops[i].phase == BB_PHASE_FORWARD ? 'F' : 'B',
                     p->ops[i].micro_batch);
            if (strcmp(slot, before) != 0)
                snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", *text ? " " : "", slot);
            strcpy(before, slot);
        }
        assert_string_equal(text, orders[r]);
    }
    bb_step_release(&step);
}

/* One definition of the stored activations for all kinds of parallelism: those of a replica are those of a pipeline of
 * one stage, and the stages, and the tiles of a stage, have parts of them. */
static void replicas_pipelines_and_tiles_store_the_same_activations(void **state)
{
    static const char *const models[] = {"resnet110_v2", "amoebanet_d", "cosmoflow"};

    (void)state;
    for (int m = 0; m < 3; m++) {
        struct bb_step steps[4];
        double sums[4] = {0};

        VALID_LINE(&steps[0], "data_parallel", .ranks = 1, .model = models[m], .micro_batch_size = 2);
        VALID_LINE(&steps[1], "layer_parallel", .ranks = 1, .model = models[m], .micro_batch_size = 2, .stages = 1);
        VALID_LINE(&steps[2], "layer_parallel", .ranks = 4, .model = models[m], .micro_batch_size = 2);
        VALID_LINE(&steps[3], "spatial", .ranks = 5, .model = models[m], .micro_batch_size = 2);
        for (int s = 0; s < 4; s++) {
            for (int r = 0; r < steps[s].layout.ranks; r++)
                sums[s] += steps[s].roles[steps[s].role_of[r]].training_bytes[BB_USE_ACTIVATIONS];
            assert_true(sums[s] > 1e6 && sums[s] == sums[0]);
            bb_step_release(&steps[s]);
        }
    }
}

/* GPipe stores the activations of all micro-batches, 1F1B those of p - r. */
static void schedule_limits_the_stored_activations(void **state)
{
    struct bb_step gpipe, alternating;

    (void)state;
    VALID_LINE(&gpipe, "layer_parallel", .ranks = 4, .micro_batches = 8);
    VALID_LINE(&alternating, "layer_parallel", .ranks = 4, .micro_batches = 8, .transformer = {.schedule = "1f1b"});
    for (int r = 0; r < 4; r++)
        assert_true(gpipe.roles[r].training_bytes[BB_USE_ACTIVATIONS] * (4 - r) ==
                    alternating.roles[r].training_bytes[BB_USE_ACTIVATIONS] * 8);
    bb_step_release(&gpipe);
    bb_step_release(&alternating);
}

/* MPI4DL's MP-Basic: ranks with the same stage sum their flat gradients in one all-reduce (SyncAllreduce). */
static void replicas_of_a_pipeline_reduce_each_stage(void **state)
{
    static const size_t stages[4] = {97184, 620416, 1675520, 7388682};
    struct bb_step step;

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 8, .micro_batches = 3, .stages = 4);
    for (int r = 0; r < 8; r++)
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "dp", BB_PHASE_GRADIENTS), 1, stages[r % 4]);
    assert_int_equal(bb_group_member(&step.layout, step.layout.comms[step.layout.n_comms - 1].group, 1, 1), 5);
    bb_step_release(&step);
    VALID_LINE(&step, "layer_parallel", .ranks = 8, .stages = 1);
    assert_sum(sum_of(&step, 7, BB_OP_COLLECTIVE, "dp", BB_PHASES), 1, 9781802);
    assert_sum(sum_of_all(&step, BB_OP_SEND, "lp", BB_PHASES), 0, 0);
    bb_step_release(&step);
    VALID_LINE(&step, "layer_parallel", .ranks = 8, .stages = 4, .micro_batch_size = 4, TILES(.local_dp = 2));
    assert_sum(sum_of(&step, 5, BB_OP_COLLECTIVE, "local_dp", BB_PHASES), 1, 1675520);
    assert_sum(sum_of(&step, 5, BB_OP_RECV, "lp", BB_PHASE_FORWARD), 1, 67108864);
    bb_step_release(&step);
}

/* Replica r has micro-batches of size[r % 2]; timed stages of the first size take the given time. */
static void replicas_have_their_own_batches(void **state)
{
    struct bb_step step;
    double us[8];

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 8, .stages = 2, .micro_batch_size = 4, .micro_batch_sizes = "4,1",
               .forward_us = 100, .backward_us = 300);
    for (int r = 0; r < 8; r++) {
        const struct bb_program *p = bb_step_program(&step, r);
        const size_t samples = r / 2 % 2 ? 1 : 4;

        us[r] = 0;
        for (size_t i = 0; i < p->n_ops; i++)
            us[r] += p->ops[i].compute_us;
        assert_true(fabs(us[r] - 100.0 * (double)samples) < 1e-6);
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "dp", BB_PHASES), 1, r % 2 ? 8944650 : 837152);
        assert_sum(sum_of(&step, r, BB_OP_SEND, "lp", BB_PHASES), 1, samples * 33554432);
    }
    assert_true(step.samples == 10);
    bb_step_release(&step);
    VALID_LINE(&step, "gems", .ranks = 8, .micro_batch_sizes = "2,1");
    assert_true(step.samples == 6 && step.n_roles == 8);
    bb_step_release(&step);
    VALID_LINE(&step, "spatial", .ranks = 15, .micro_batch_sizes = "2,1,2", TILES(.spatial_parts = "4", .splits = 2));
    assert_sum(sum_of(&step, 0, BB_OP_SEND, "halo", BB_PHASES), 111, 2 * 1528787);
    assert_sum(sum_of(&step, 5, BB_OP_SEND, "halo", BB_PHASES), 111, 1528787);
    bb_step_release(&step);
}

/* All ranks that hold a part of a batch share the statistics of a batch norm: tiles, local replicas and replicas. Of
 * ResNet-110's 109 norms, 25 of 16 channels (one after the first convolution), 24 of 64 and 5 of 128 are in the first of two
 * splits: 19 modules. */
static void batch_norms_exchange_statistics(void **state)
{
    const size_t first = 25 * 16 + 24 * 64 + 5 * 128, norms = 25 + 24 + 5;
    struct bb_step step;
    const struct bb_program *p;
    int computes = 0;

    (void)state;
    VALID_LINE(&step, "spatial", .ranks = 10, .micro_batches = 2, .sync = {.sync_bn = true},
               TILES(.spatial_parts = "4", .splits = 2, .halo_overlap = true));
    for (int r = 0; r < 10; r += 5) {
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "batch norm", BB_PHASE_FORWARD), 2 * norms,
                   2 * (2 * first + norms));
        assert_sum(sum_of(&step, r, BB_OP_COLLECTIVE, "batch norm", BB_PHASE_BACKWARD), 2 * norms, 4 * first);
        assert_int_equal(sum_of(&step, r + 4, BB_OP_COLLECTIVE, "batch norm of 2", BB_PHASE_FORWARD).calls, 2 * 55);
    }
    bb_step_release(&step);
    VALID_LINE(&step, "layer_parallel", .ranks = 4, .stages = 2, .dtype = "half", .sync = {.sync_bn = true});
    p = bb_step_program(&step, 3);
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == BB_OP_COLLECTIVE && p->ops[i].phase < BB_PHASE_GRADIENTS) {
            assert_int_equal(p->ops[i].dtype, BB_FLOAT);
            assert_int_equal(p->ops[i].coll, p->ops[i].phase == BB_PHASE_FORWARD ? BB_ALL_GATHER : BB_ALL_REDUCE);
            /* the pool that ends in the last norm has no time, so two exchanges follow each other */
            assert_true(p->ops[i + 1].kind == BB_OP_COLLECTIVE || p->ops[i + 1].waits > 0);
            computes += p->ops[i + 1].kind == BB_OP_COMPUTE;
        }
    assert_int_equal(computes, 2 * 55 - 2);
    bb_step_release(&step);
    VALID_LINE(&step, "spatial", .ranks = 14, .model = "amoebanet_d", .sync = {.sync_bn = true},
               TILES(.spatial_parts = "8,4", .splits = 4));
    /* norms of the first stem, a reduction cell (two inputs, eight convolutions) and a normal cell: 1, 10, 13 */
    assert_int_equal(sum_of(&step, 0, BB_OP_COLLECTIVE, "batch norm", BB_PHASE_FORWARD).calls, 1 + 2 * 10 + 3 * 13);
    assert_int_equal(sum_of(&step, 8, BB_OP_COLLECTIVE, "batch norm of 4", BB_PHASE_FORWARD).calls, 5 * 13 + 10);
    bb_step_release(&step);
}

/* One tile is the whole image, and one replication of GEMS is one pass of the direct replica. */
static void one_tile_and_one_replication_are_a_pipeline(void **state)
{
    struct bb_step step, same[3];

    (void)state;
    VALID_LINE(&step, "layer_parallel", .ranks = 4, .micro_batches = 2);
    VALID_LINE(&same[0], "spatial", .ranks = 4, .micro_batches = 2, TILES(.spatial_parts = "1"));
    VALID_LINE(&same[1], "gems", .ranks = 4, .micro_batches = 2, TILES(.replications = 1));
    VALID_LINE(&same[2], "gems", .ranks = 4, .micro_batches = 2, TILES(.replications = 1, .spatial_parts = "1"));
    for (int s = 0; s < 3; s++) {
        for (int r = 0; r < 4; r++) {
            const struct bb_program *a = bb_step_program(&step, r), *b = bb_step_program(&same[s], r);

            assert_int_equal(a->n_ops, b->n_ops);
            for (size_t i = 0; i < a->n_ops; i++)
                assert_true(a->ops[i].kind == b->ops[i].kind && a->ops[i].count == b->ops[i].count &&
                            a->ops[i].peer == b->ops[i].peer && a->ops[i].compute_us == b->ops[i].compute_us);
        }
        bb_step_release(&same[s]);
    }
    bb_step_release(&step);
}

static void pipelines_reject_invalid_options(void **state)
{
    static const struct bb_proxy_config rows[] = {
        {.ranks = 4, TILES(.spatial_parts = "4")},
        {.ranks = 4, TILES(.halo_d2 = true)},
        {.ranks = 4, TILES(.comm_opt = true)},
        {.ranks = 4, .stages = 2, TILES(.splits = 4)},
        {.ranks = 39, .stages = 39},
        {.ranks = 6, .stages = 4},
        {.ranks = 4, .transformer = {.schedule = "zb-h1"}},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        if (made_line_with(&step, "layer_parallel", rows[i]) != -BB_EUSAGE)
            fail_msg("row %zu is not rejected", i);
    assert_int_equal(MADE_LINE(&step, "gems", .ranks = 4, .transformer = {.schedule = "1f1b"}), -BB_EUSAGE);
}

/* ---- random layouts ---- */

static unsigned random_below(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static struct bb_proxy_config random_layout(unsigned *seed)
{
    static const char *const models[] = {"resnet110_v2", "amoebanet_d", "cosmoflow"};
    static const char *const parts[] = {"2", "4", "16", "8,8", "8,4", "4,2", "4,4"};
    static const int tiles[] = {2, 4, 16, 16, 12, 6, 8}, spatial[] = {1, 1, 1, 2, 2, 2, 2};
    static const char *const slices[] = {NULL, "vertical", "horizontal"}, *const gradient_modes[] = {"none", "dx",
                                                                                                     "dy"};
    static const char *const computes[] = {"none", "timed", "gemm"};
    unsigned p = random_below(seed, 7), model = random_below(seed, 3);
    int splits = spatial[p] + 1 + (int)random_below(seed, model == 2 ? 2 : 4), local = 1 + (int)random_below(seed, 2);
    struct bb_proxy_config c = {.model = models[model],
                                .micro_batches = 1 + (int)random_below(seed, 3),
                                .micro_batch_size = local * (1 + (int)random_below(seed, 2)),
                                .compute = computes[random_below(seed, 3)]};

    c.tiles = (struct bb_tiles_options){.image_size = 512,
                                        .slice = slices[random_below(seed, 3)],
                                        .spatial_parts = parts[p],
                                        .splits = splits,
                                        .halo_d2 = random_below(seed, 3) == 0,
                                        .halo_bwd = gradient_modes[random_below(seed, 3)],
                                        .local_dp = local};
    if (c.tiles.halo_d2 && strcmp(c.tiles.halo_bwd, "dy") == 0)
        c.tiles.halo_bwd = "dx";
    c.tiles.fused_layers = c.tiles.halo_d2 ? 1 + (int)random_below(seed, model == 1 ? 1 : 2) : 0;
    c.tiles.halo_overlap = !c.tiles.halo_d2 && random_below(seed, 2);
    c.ranks = (tiles[p] + (splits - spatial[p]) * local) * (1 + (int)random_below(seed, 2));
    c.transformer.schedule = random_below(seed, 2) ? "1f1b" : "gpipe";
    return c;
}

static void random_layouts_are_valid(void **state)
{
    unsigned seed = 7;
    struct bb_step step;

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct bb_proxy_config c = random_layout(&seed);
        struct sum sent, received;

        make_valid(&step, "spatial", c);
        sent = sum_of_all(&step, BB_OP_SEND, "join", BB_PHASE_FORWARD);
        received = sum_of_all(&step, BB_OP_RECV, "join", BB_PHASE_BACKWARD);
        assert_sum(sent, received.calls, received.elements);
        bb_step_release(&step);
        c.ranks = c.tiles.splits * c.tiles.local_dp * (1 + i % 2);
        c.tiles = (struct bb_tiles_options){.splits = c.tiles.splits, .local_dp = c.tiles.local_dp};
        make_valid(&step, "layer_parallel", c);
        sent = sum_of_all(&step, BB_OP_SEND, "lp", BB_PHASE_FORWARD);
        received = sum_of_all(&step, BB_OP_RECV, "lp", BB_PHASE_BACKWARD);
        assert_sum(sent, received.calls, received.elements);
        bb_step_release(&step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halo_traffic_of_resnet_strips),
        cmocka_unit_test(traffic_of_resnet_squares),
        cmocka_unit_test(halo_bwd_dx_doubles_the_halos),
        cmocka_unit_test(halo_bwd_dy_exchanges_output_gradients),
        cmocka_unit_test(fused_halos_are_fewer_and_wider_messages),
        cmocka_unit_test(redundant_compute_adds_no_model_flops),
        cmocka_unit_test(traffic_scales_with_micro_batches_and_replicas),
        cmocka_unit_test(amoebanet_transfers_two_tensors),
        cmocka_unit_test(halo_traffic_of_amoebanet),
        cmocka_unit_test(halo_traffic_of_cosmoflow),
        cmocka_unit_test(strips_are_merged_two_to_one),
        cmocka_unit_test(local_replicas_divide_the_batch),
        cmocka_unit_test(step_order_is_gpipe),
        cmocka_unit_test(interior_overlaps_with_the_halo_exchange),
        cmocka_unit_test(halo_kernels_copy_the_message_elements),
        cmocka_unit_test(rejects_invalid_options),
        cmocka_unit_test(default_layout_follows_from_the_ranks),
        cmocka_unit_test(messages_of_resnet_stages_match_mpi4dl),
        cmocka_unit_test(messages_of_amoebanet_stages_match_mpi4dl),
        cmocka_unit_test(one_forward_one_backward_groups_sends_and_receives),
        cmocka_unit_test(schedule_limits_the_stored_activations),
        cmocka_unit_test(replicas_pipelines_and_tiles_store_the_same_activations),
        cmocka_unit_test(replicas_of_a_pipeline_reduce_each_stage),
        cmocka_unit_test(replicas_have_their_own_batches),
        cmocka_unit_test(batch_norms_exchange_statistics),
        cmocka_unit_test(one_tile_and_one_replication_are_a_pipeline),
        cmocka_unit_test(pipelines_reject_invalid_options),
        cmocka_unit_test(random_layouts_are_valid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
