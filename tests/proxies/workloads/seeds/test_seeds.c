/*
 * test_seeds.c - the published mini-applications except gpt2_large and bert_large: orders and dependencies, traffic,
 * groups, memory and compute as recorded from the originals, tensors by independently written rules, and rejected
 * configurations.
 */
#include "tests/proxies/made.h"

#include "proxies/form/models/profile.h"
#include "proxies/form/models/residual.h"
#include "proxies/form/models/transformer_model.h"
#include "proxies/simulation/simulate/step_check.h"

#include <math.h>
#include <unistd.h>

/* ---- golden orders ---- */

static const struct {
    const char *line;
    int ranks, rank;
    const char *order;
} orders[] = {
    {"resnet50", 3, 1,
     "G all_reduce world 3104745; G all_reduce world 4461568; G all_reduce world 4462592; "
     "G all_reduce world 4986880; G all_reduce world 4468736; G all_reduce world 4074560"},
    {"resnet50_ring", 3, 1,
     "G send world 3104745 +1; & G recv world 3104745 -1; G send world 4461568 +1; & G recv world 4461568 -1; "
     "G send world 4462592 +1; & G recv world 4462592 -1; G send world 4986880 +1; & G recv world 4986880 -1; "
     "G send world 4468736 +1; & G recv world 4468736 -1; G send world 4074560 +1; & G recv world 4074560 -1"},
    {"resnet152", 3, 1,
     "F compute 119000; B compute 23800; G all_reduce world 6511592 <1; "
     "B compute 23800; G all_reduce world 6567936 <3; B compute 23800; "
     "G all_reduce world 5905920 <5; B compute 23800; G all_reduce world 6113280 <7; "
     "B compute 23800; G all_reduce world 6176256 <9; B compute 23800; "
     "G all_reduce world 6112768 <11; B compute 23800; G all_reduce world 6176256 <13; "
     "B compute 23800; G all_reduce world 6112768 <15; B compute 23800; "
     "G all_reduce world 5321216 <17; B compute 23800; G all_reduce world 5194816 <19"},
    {"cosmoflow", 8, 4,
     "F compute 6567; F send mp 2097152 +1 <0; & F send mp 2097152 +2; & F recv mp 2097152 +1; "
     "& F recv mp 2097152 +2; F compute 13135 <4; F send mp 1048576 +1 <5; & F send mp 1048576 +2; "
     "& F recv mp 1048576 +1; & F recv mp 1048576 +2; F compute 6567 <9; F send mp 524288 +1 <10; "
     "& F send mp 524288 +2; & F recv mp 524288 +1; & F recv mp 524288 +2; F compute 3283 <14; "
     "F send mp 262144 +1 <15; & F send mp 262144 +2; & F recv mp 262144 +1; & F recv mp 262144 +2; "
     "F compute 1641 <19; F all_gather mp 65536 <20; F compute 5 <21; F all_gather mp 256 <22; F compute 3 <23; "
     "F all_gather mp 128 <24; F compute 1 <25; B compute 2; B reduce_scatter mp 128 <27; B compute 6 <28; "
     "B reduce_scatter mp 256 <29; B compute 10 <30; B reduce_scatter mp 65536 <31; "
     "G all_reduce dense_dp 1050737 <32; B compute 3283 <32; B send mp 131072 +1 <34; & B send mp 131072 +2; "
     "& B recv mp 131072 +1; & B recv mp 131072 +2; G all_reduce world 3539456 <38; "
     "B compute 6567 <38; B send mp 262144 +1 <40; & B send mp 262144 +2; & B recv mp 262144 +1; "
     "& B recv mp 262144 +2; G all_reduce world 884992 <44; B compute 13135 <44; B send mp 524288 +1 <46; "
     "& B send mp 524288 +2; & B recv mp 524288 +1; & B recv mp 524288 +2; "
     "G all_reduce world 221312 <50; B compute 26270 <50; B send mp 1048576 +1 <52; & B send mp 1048576 +2; "
     "& B recv mp 1048576 +1; & B recv mp 1048576 +2; G all_reduce world 55360 <56; "
     "B compute 13135 <56; G all_reduce world 3488 <58"},
    {"dlrm", 4, 3,
     "F compute 95; F alltoall world exchange 65536 <0; F compute 341 <1; F compute 209; F compute 455; "
     "B compute 910; G all_reduce world gradients 728065 <5; B compute 209; B compute 682; "
     "G all_reduce world gradients 49536 <8; B alltoall world exchange 65536 <8; B compute 190 <10"},
    {"gpt3 3 1", 24, 12,
     "F0 compute 15915; F0 send pp 0 25165824 +1 <0; F0 all_reduce tp 25165824 <0; F0 all_reduce tp 25165824; "
     "F1 compute 15915 <3 <1; F1 send pp 1 25165824 +1 <4; F1 all_reduce tp 25165824 <4; F1 all_reduce tp 25165824; "
     "F2 compute 15915 <7 <5; F2 send pp 0 25165824 +1 <8; F2 all_reduce tp 25165824 <8; F2 all_reduce tp 25165824; "
     "B0 recv pp 0 25165824 +1 <11; B0 compute 31830 <12; B0 all_reduce tp 25165824 <13; B0 all_reduce tp 25165824; "
     "B1 recv pp 1 25165824 +1 <15; B1 compute 31830 <16; B1 all_reduce tp 25165824 <17; B1 all_reduce tp 25165824; "
     "B2 recv pp 0 25165824 +1 <19; B2 compute 31830 <20; B2 all_reduce tp 25165824 <21; B2 all_reduce tp 25165824; "
     "G all_reduce dp 452984832 <23"},
    {"gpt3 3 1", 24, 13,
     "F0 recv pp 0 25165824 -1; F0 compute 15915 <0; F0 send pp 0 25165824 +1 <1; F0 all_reduce tp 25165824 <1; "
     "F0 all_reduce tp 25165824; F1 recv pp 1 25165824 -1 <4; F1 compute 15915 <5 <2; F1 send pp 1 25165824 +1 <6; "
     "F1 all_reduce tp 25165824 <6; F1 all_reduce tp 25165824; F2 recv pp 0 25165824 -1 <9; "
     "F2 compute 15915 <10 <7; F2 send pp 0 25165824 +1 <11; F2 all_reduce tp 25165824 <11; "
     "F2 all_reduce tp 25165824; B0 recv pp 0 25165824 +1 <14; B0 compute 31830 <15; B0 send pp 0 25165824 -1 <16; "
     "B0 all_reduce tp 25165824 <16; B0 all_reduce tp 25165824; B1 recv pp 1 25165824 +1 <19; "
     "B1 compute 31830 <20 <17; B1 send pp 1 25165824 -1 <21; B1 all_reduce tp 25165824 <21; "
     "B1 all_reduce tp 25165824; B2 recv pp 0 25165824 +1 <24; B2 compute 31830 <25 <22; "
     "B2 send pp 0 25165824 -1 <26; B2 all_reduce tp 25165824 <26; B2 all_reduce tp 25165824; "
     "G all_reduce dp 452984832 <29"},
    {"gpt3 3 1", 24, 23,
     "F0 recv pp 0 25165824 -1; F0 compute 15915 <0; F0 all_reduce tp 25165824 <1; F0 all_reduce tp 25165824; "
     "F1 recv pp 1 25165824 -1 <3; F1 compute 15915 <4; F1 all_reduce tp 25165824 <5; F1 all_reduce tp 25165824; "
     "F2 recv pp 0 25165824 -1 <7; F2 compute 15915 <8; F2 all_reduce tp 25165824 <9; F2 all_reduce tp 25165824; "
     "B0 compute 31830 <11; B0 send pp 0 25165824 -1 <12; B0 all_reduce tp 25165824 <12; B0 all_reduce tp 25165824; "
     "B1 compute 31830 <15 <13; B1 send pp 1 25165824 -1 <16; B1 all_reduce tp 25165824 <16; "
     "B1 all_reduce tp 25165824; B2 compute 31830 <19 <17; B2 send pp 0 25165824 -1 <20; "
     "B2 all_reduce tp 25165824 <20; B2 all_reduce tp 25165824; G all_reduce dp 452984832 <23"},
    {"gpt3_moe 2 1", 32, 0,
     "F0 compute 22367; F0 compute 2580; F0 send pp 0 25165824 +1 <1; F0 alltoall moe_ep 1572864 <1; "
     "F0 alltoall moe_ep 1572864; F1 compute 22367 <4 <2; F1 compute 2580; F1 send pp 1 25165824 +1 <6; "
     "F1 alltoall moe_ep 1572864 <6; F1 alltoall moe_ep 1572864; B0 recv pp 0 25165824 +1 <9; B0 compute 44734 <10; "
     "B0 compute 5161; B0 alltoall moe_ep 1572864 <12; B0 alltoall moe_ep 1572864; "
     "B1 recv pp 1 25165824 +1 <14; B1 compute 44734 <15; B1 compute 5161; B1 alltoall moe_ep 1572864 <17; "
     "B1 alltoall moe_ep 1572864; G all_reduce moe_dp 75497472 <19; G all_reduce dp 603979776 <20"},
    {"gpt3_moe 2 1", 32, 31,
     "F0 recv pp 0 25165824 -1; F0 compute 22367 <0; F0 compute 2580; F0 alltoall moe_ep 1572864 <2; "
     "F0 alltoall moe_ep 1572864; F1 recv pp 1 25165824 -1 <4; F1 compute 22367 <5; F1 compute 2580; "
     "F1 alltoall moe_ep 1572864 <7; F1 alltoall moe_ep 1572864; B0 compute 44734 <9; B0 compute 5161; "
     "B0 send pp 0 25165824 -1 <11; B0 alltoall moe_ep 1572864 <11; B0 alltoall moe_ep 1572864; "
     "B1 compute 44734 <14 <12; B1 compute 5161; B1 send pp 1 25165824 -1 <16; B1 alltoall moe_ep 1572864 <16; "
     "B1 alltoall moe_ep 1572864; G all_reduce moe_dp 75497472 <19; G all_reduce dp 603979776 <20"},
    {"gpt3_one_pipe_step 2", 8, 4,
     "F recv pp backward 25165824 +1; F compute 15915; F all_reduce tp 25165824 <1; F all_reduce tp 25165824; "
     "F send pp forward 25165824 +1 <3"},
    {"gpt3_one_pipe_step 4", 16, 3,
     "B recv pp forward 25165824 -1; B compute 31830; B all_reduce tp 25165824 <1; B all_reduce tp 25165824; "
     "B send pp backward 25165824 -1 <3"},
    {"gpt3_moe_one_pipe_step 2", 32, 30,
     "F recv pp backward 25165824 +1; F compute 22367; F compute 2580; F alltoall moe_ep 1572864 <2; "
     "F alltoall moe_ep 1572864; F send pp forward 25165824 +1 <4"},
    {"gpt3_moe_one_pipe_step 2", 32, 1,
     "B recv pp forward 25165824 -1; B compute 44734; B compute 5161; B alltoall moe_ep 1572864 <2; "
     "B alltoall moe_ep 1572864; B send pp backward 25165824 -1 <4"},
};

static void orders_match_the_originals(void **state)
{
    struct bb_step step;

    (void)state;
    for (size_t o = 0; o < ROWS(orders); o++) {
        assert_int_equal(MADE_LINE(&step, orders[o].line, .ranks = orders[o].ranks), 0);
        made_order_is(&step, orders[o].rank, MADE_TIMES, orders[o].order);
        bb_step_release(&step);
    }
}

/* Without kernels, the communication has the same order. */
static void compute_none_keeps_the_order(void **state)
{
    struct bb_step step, comm_only;

    (void)state;
    for (size_t o = 0; o < ROWS(orders); o++) {
        const struct bb_program *with, *without;
        size_t n = 0;

        assert_int_equal(MADE_LINE(&step, orders[o].line, .ranks = orders[o].ranks), 0);
        assert_int_equal(MADE_LINE(&comm_only, orders[o].line, .ranks = orders[o].ranks, .compute = "none"), 0);
        with = bb_step_program(&step, orders[o].rank);
        without = bb_step_program(&comm_only, orders[o].rank);
        for (size_t i = 0; i < with->n_ops; i++)
            if (bb_op_is_comm(&with->ops[i])) {
                assert_true(n < without->n_ops);
                assert_int_equal(with->ops[i].kind, without->ops[n].kind);
                assert_int_equal(with->ops[i].count, without->ops[n].count);
                assert_int_equal(with->ops[i].comm, without->ops[n].comm);
                assert_int_equal(with->ops[i].peer, without->ops[n++].peer);
            }
        assert_int_equal(n, without->n_ops);
        bb_step_release(&step);
        bb_step_release(&comm_only);
    }
}

/* Whether a chain of waits and stream order leads from one operation to another. A pipeline send is concurrent with
 * the two collectives of its micro-batch and with the next receive: no chain leads from the send to them. */
static bool leads_to(const struct bb_program *p, int from, int to)
{
    const struct bb_op *op = &p->ops[to];

    if (to <= from)
        return to == from;
    for (int w = 0; w < op->waits; w++)
        if (leads_to(p, from, p->wait_list[op->first_wait + w]))
            return true;
    for (int i = to - 1; i >= from; i--)
        if (p->ops[i].stream == op->stream)
            return leads_to(p, from, i);
    return false;
}

static void sends_overlap_as_in_the_originals(void **state)
{
    enum { RECV_1 = 5, COMPUTE_1 = 6, SEND_0 = 2, PAIR_0 = 4 }; /* operation indices of a middle stage */
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt3 3 1", .ranks = 24), 0);
    p = bb_step_program(&step, 13);
    assert_false(leads_to(p, SEND_0, PAIR_0));
    assert_false(leads_to(p, SEND_0, RECV_1));
    assert_true(leads_to(p, SEND_0, COMPUTE_1));
    assert_true(leads_to(p, PAIR_0, RECV_1));
    bb_step_release(&step);
    assert_int_equal(MADE_LINE(&step, "gpt3_one_pipe_step 2", .ranks = 8), 0);
    assert_false(leads_to(bb_step_program(&step, 0), 0, 4)); /* the receive is concurrent with everything */
    bb_step_release(&step);
    assert_int_equal(MADE_LINE(&step, "dlrm", .ranks = 4), 0);
    assert_false(leads_to(bb_step_program(&step, 0), 6, 11)); /* the top MLP's gradients are reduced during the
                                                                 all-to-all and the operations after it */
    assert_false(leads_to(bb_step_program(&step, 0), 9, 11));
    bb_step_release(&step);
}

/* ---- traffic ---- */

/* Operations of one kind that one rank runs on one group, summed over all counts; bytes are count x calls x 4, with
 * the count of the call. */
struct amount {
    const char *line;
    int ranks, rank;
    const char *kind, *group;
    size_t calls, bytes;
};

static const struct amount amounts[] = {
    {"resnet50", 5, 4, "all_reduce", "world", 6, 102236324},
    {"resnet50_ring", 5, 0, "send", "world", 6, 102236324},
    {"resnet50_ring", 1, 0, "recv", "world", 6, 102236324},
    {"resnet152", 64, 63, "all_reduce", "world", 10, 240771232},
    {"resnet152_scal", 2048, 7, "all_reduce", "world", 10, 240771232},
    {"cosmoflow", 8, 5, "send", "mp", 16, 47185920},
    {"cosmoflow", 8, 5, "recv", "mp", 16, 47185920},
    {"cosmoflow", 8, 6, "all_gather", "mp", 3, 263680},
    {"cosmoflow", 8, 6, "reduce_scatter", "mp", 3, 263680},
    {"cosmoflow", 8, 3, "all_reduce", "dense_dp", 1, 4202948},
    {"cosmoflow", 4, 3, "all_reduce", "dense_dp", 1, 4202948},
    {"cosmoflow", 60, 59, "all_reduce", "world", 5, 18818432},
    {"dlrm", 4, 0, "alltoall", "world", 2, 2 * 262144},
    {"dlrm", 3, 0, "alltoall", "world", 2, 2 * 4 * 87381},
    {"dlrm", 64, 0, "all_reduce", "world", 2, 2912260 + 198144},
    {"gpt3", 384, 0, "all_reduce", "tp", 768, 77309411328},
    {"gpt3", 384, 0, "send", "pp", 192, 192 * 100663296ul},
    {"gpt3", 384, 1, "send", "pp", 384, 384 * 100663296ul},
    {"gpt3", 384, 94, "recv", "pp", 384, 384 * 100663296ul},
    {"gpt3", 384, 95, "recv", "pp", 192, 192 * 100663296ul},
    {"gpt3", 384, 7, "all_reduce", "dp", 1, 1811939328},
    {"gpt3_one_pipe_step 8 2", 64, 5, "all_reduce", "tp", 2, 2 * 100663296ul},
    {"gpt3_one_pipe_step 8 2", 64, 5, "send", "pp", 1, 100663296},
    {"gpt3_moe", 1536, 1, "alltoall", "moe_ep", 768, 768 * 6291456ul},
    {"gpt3_moe", 1536, 1535, "recv", "pp", 192, 192 * 100663296ul},
    {"gpt3_moe", 1536, 1, "all_reduce", "moe_dp", 1, 301989888},
    {"gpt3_moe", 1536, 1, "all_reduce", "dp", 1, 2415919104},
    {"gpt3_moe_one_pipe_step 4", 64, 2, "alltoall", "moe_ep", 2, 2 * 6291456ul},
};

static void assert_amount(const struct bb_step *step, const struct bb_traffic_role *role, const struct amount *a)
{
    size_t calls = 0, bytes = 0;

    for (int i = 0; i < role->n_rows; i++) {
        const struct bb_traffic_row *row = &role->rows[i];

        if (strcmp(bb_op_kind_name(row->kind, row->coll), a->kind) == 0 &&
            strcmp(step->layout.groups[row->group].name, a->group) == 0) {
            calls += row->calls;
            bytes += row->calls * row->count * 4;
        }
    }
    assert_int_equal(calls, a->calls);
    assert_int_equal(bytes, a->bytes);
}

static void traffic_matches_the_recorded_amounts(void **state)
{
    struct bb_traffic traffic;
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(amounts); i++) {
        assert_int_equal(MADE_LINE(&step, amounts[i].line, .ranks = amounts[i].ranks), 0);
        bb_traffic_init(&traffic, &step, false);
        assert_amount(&step, made_role_of(&traffic, amounts[i].rank), &amounts[i]);
        bb_traffic_release(&traffic);
        bb_step_release(&step);
    }
}

static void compute_times_and_memory_match_the_tables(void **state)
{
    const struct {
        const char *line;
        int ranks, rank;
        double us;
        size_t bytes; /* all buffers */
    } rows[] = {
        {"resnet50", 2, 0, 0, 2 * 102236324},
        {"resnet152", 2, 0, 357000, 2 * 240771232},
        {"resnet152_scal", 256, 0, 357000, 2 * 240771232},
        {"resnet152_scal", 512, 0, 189000, 2 * 240771232},
        {"resnet152_scal", 1024, 0, 108000, 2 * 240771232},
        {"resnet152_scal", 2048, 0, 82997, 2 * 240771232},
        {"cosmoflow", 4, 2, 31202 + 62408, 2 * 47185920 + 2 * 5 * 263680 + 2 * (4202948 + 18818432)},
        {"dlrm", 4, 0, 3091, 4 * 1048576 + 2 * (2912260 + 198144)},
        {"gpt3", 384, 1, 192 * 47745.0, 2 * 1811939328ul + 12 * 100663296ul},
        {"gpt3_moe", 1536, 1, 192 * (22367 + 2580 + 44734 + 5161.0), 2 * (2415919104 + 301989888ul) + 12 * 100663296ul},
        {"gpt3_one_pipe_step 2", 8, 0, 15915, 6 * 100663296ul},
        {"gpt3_one_pipe_step 2", 8, 1, 31830, 6 * 100663296ul},
        {"gpt3_moe_one_pipe_step 2", 32, 0, 24947, 6 * 100663296ul},
        {"gpt3_moe_one_pipe_step 2", 32, 1, 49895, 6 * 100663296ul},
    };
    struct bb_traffic traffic;
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_traffic_role *role;
        size_t bytes = 0;

        assert_int_equal(MADE_LINE(&step, rows[i].line, .ranks = rows[i].ranks), 0);
        bb_traffic_init(&traffic, &step, false);
        role = made_role_of(&traffic, rows[i].rank);
        for (int u = 0; u < BB_USES; u++)
            bytes += role->memory_bytes[u];
        assert_int_equal(llround(role->compute_us * 1000), llround(rows[i].us * 1000));
        assert_int_equal(bytes, rows[i].bytes);
        bb_traffic_release(&traffic);
        bb_step_release(&step);
    }
}

static void samples_and_parameters_match_the_originals(void **state)
{
    const struct {
        const char *line;
        int ranks;
        double samples, parameters;
    } rows[] = {
        {"resnet50", 4, 0, 25559081},
        {"resnet152", 256, 32768, 60192808},
        {"resnet152_scal", 1024, 32768, 60192808},
        {"cosmoflow", 4096, 8192, 8907556},
        {"dlrm", 4, 2048, 49536 + 728065 + 4 * 80000 * 128.0},
        {"gpt3", 768, 768 * 2 / 4, 173946175488},
        {"gpt3 8", 64, 64 * 2 / 4, 8 * 1811939328.0}, /* the number of micro-batches follows the number of stages */
        {"gpt3_moe", 1536, 1536 * 2, 173946175488},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_int_equal(MADE_LINE(&step, rows[i].line, .ranks = rows[i].ranks), 0);
        assert_true(step.samples == rows[i].samples);
        assert_true(step.parameters == rows[i].parameters);
        bb_step_release(&step);
    }
}

/* One unsharded layer takes 63,660 us at 119.8 TFLOP/s; backward takes twice as long. */
static void flops_match_the_recorded_times(void **state)
{
    const double layer = 24.0 * 2048 * 12288 * 12288 + 4.0 * 2048 * 2048 * 12288;
    const char *const lines[] = {"gpt3 2 1", "gpt3_moe 2 1"};
    struct bb_step step;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct bb_program *p;

        assert_int_equal(MADE_LINE(&step, lines[i], .ranks = 32), 0);
        p = bb_step_program(&step, 0);
        for (size_t o = 0; o < p->n_ops; o++)
            if (!bb_op_is_comm(&p->ops[o])) {
                double us = p->ops[o].flops / (layer / 63660);

                assert_true(us > p->ops[o].compute_us - 1.5 && us < p->ops[o].compute_us + 1.5);
            }
        bb_step_release(&step);
    }
}

/* FLOPs of the forward pass of one 224 x 224 image, summed over the convolutions. */
static double residual_flops(int classes, const int blocks[4])
{
    double sum = 7 * 7 * 3 * 64 * 112.0 * 112.0 + 2048.0 * classes;

    for (int s = 0; s < 4; s++) {
        double w = 64 << s, in = s ? 2 * w : 64, edge = 56 >> s, before = s ? 2 * edge : edge;

        sum += in * 4 * w * edge * edge;
        for (int b = 0; b < blocks[s]; b++, in = 4 * w, before = edge)
            sum += in * w * before * before + 9 * w * w * edge * edge + 4 * w * w * edge * edge;
    }
    return 2 * sum;
}

static double flops_of_rank_0(const char *line, int ranks)
{
    struct bb_step step;
    double sum = 0;

    assert_int_equal(MADE_LINE(&step, line, .ranks = ranks), 0);
    for (size_t i = 0; i < bb_step_program(&step, 0)->n_ops; i++)
        sum += bb_step_program(&step, 0)->ops[i].flops;
    bb_step_release(&step);
    return sum;
}

static void flops_match_the_shapes(void **state)
{
    const double image = residual_flops(1000, (const int[]){3, 8, 36, 3});
    const double mlps = 3 * 128 * 128 + 138 * 512 + 2 * 512 * 512 + 512 * 256 + 256, dots = 5 * 5 * 128;

    (void)state;
    assert_true(image > 2 * 11.51e9 && image < 2 * 11.52e9); /* the published number, in multiply-adds */
    assert_int_equal(llround(flops_of_rank_0("resnet152", 2) / 1e6), llround(3 * 128 * image / 1e6));
    assert_int_equal(llround(flops_of_rank_0("resnet152_scal", 2048) / 1e6), llround(3 * 16 * image / 1e6));
    assert_true(flops_of_rank_0("dlrm", 4) == 3 * 2 * 512 * (mlps + dots));
}

/* Forward times of the convolutions have the ratio of their FLOPs, 4:8:4:2:1; backward takes twice as long. */
static void convolution_times_are_proportional_to_flops(void **state)
{
    const struct bb_program *p;
    struct bb_step step;
    double rate = 0;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "cosmoflow", .ranks = 4), 0);
    p = bb_step_program(&step, 0);
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == BB_OP_COMPUTE && p->ops[i].compute_us > 1000) {
            double this_rate = p->ops[i].flops / p->ops[i].compute_us;

            rate = rate > 0 ? rate : this_rate;
            assert_true(this_rate > 0.999 * rate && this_rate < 1.001 * rate);
        }
    assert_true(rate > 0);
    bb_step_release(&step);
}

/* ---- groups ---- */

static int find_group(const struct bb_layout *l, const char *name)
{
    int g = 0;

    while (strcmp(l->groups[g].name, name) != 0)
        g++;
    return g;
}

/* The members of rank's instance of the group: first, first + stride, ... */
static void assert_members(const struct bb_step *step, const char *name, int rank, int first, int stride, int size)
{
    const struct bb_layout *l = &step->layout;
    int g = find_group(l, name);

    assert_int_equal(l->groups[g].size, size);
    for (int i = 0; i < size; i++) {
        assert_int_equal(bb_group_member(l, g, bb_group_instance(l, g, rank), i), first + i * stride);
        assert_int_equal(bb_group_index(l, g, first + i * stride), i);
    }
}

static void groups_match_the_specification(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "cosmoflow", .ranks = 24), 0);
    for (int r = 0; r < 24; r++) {
        assert_members(&step, "mp", r, r / 4 * 4, 1, 4);
        assert_members(&step, "dense_dp", r, r % 4, 4, 6);
        assert_members(&step, "world", r, 0, 1, 24);
    }
    bb_step_release(&step);
    assert_int_equal(MADE_LINE(&step, "gpt3 3", .ranks = 36), 0);
    for (int r = 0; r < 36; r++) {
        assert_members(&step, "pp", r, r / 3 * 3, 1, 3);
        assert_members(&step, "tp", r, r / 12 * 12 + r % 3, 3, 4);
        assert_members(&step, "dp", r, r % 12, 12, 3);
    }
    bb_step_release(&step);
    assert_int_equal(MADE_LINE(&step, "gpt3_moe 3", .ranks = 96), 0);
    for (int r = 0; r < 96; r++) {
        assert_members(&step, "pp", r, r / 3 * 3, 1, 3);
        assert_members(&step, "moe_ep", r, r / 48 * 48 + r % 3, 3, 16);
        assert_members(&step, "dp", r, r % 3, 3, 32);
        assert_members(&step, "moe_dp", r, r % 48, 48, 2);
    }
    bb_step_release(&step);
}

/* Corners are not exchanged: shard m exchanges with m xor 1 and m xor 2. */
static void halos_are_exchanged_with_two_peers(void **state)
{
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "cosmoflow", .ranks = 8), 0);
    for (int r = 0; r < 8; r++) {
        const struct bb_program *p = bb_step_program(&step, r);

        for (size_t i = 0; i < p->n_ops; i++)
            if (p->ops[i].kind == BB_OP_SEND || p->ops[i].kind == BB_OP_RECV) {
                int peer = bb_op_peer(&p->ops[i], r % 4, 4);

                assert_true(peer == (r % 4 ^ 1) || peer == (r % 4 ^ 2));
            }
    }
    bb_step_release(&step);
}

/* ---- tensors ---- */

/* Tensor sizes by the specification: from the head to the stem, stages and blocks in reverse; the projection is the
 * last of its block if it was created first. */
static int specified_tensors(size_t classes, const int blocks[4], bool projection_created_first, size_t list[500])
{
    int n = 0;

    list[n++] = classes;
    list[n++] = 2048 * classes;
    for (int s = 4; s >= 1; s--)
        for (int b = blocks[s - 1] - 1; b >= 0; b--) {
            size_t w = 64ul << (s - 1), in = b > 0 ? 4 * w : s > 1 ? 2 * w : 64;
            const size_t convolutions[] = {4 * w, 4 * w, 4 * w * w, w, w, 9 * w * w, w, w, in * w};
            const size_t projection[] = {4 * w, 4 * w, 4 * w * in};

            if (b == 0 && !projection_created_first) {
                memcpy(list + n, projection, sizeof(projection));
                n += 3;
            }
            memcpy(list + n, convolutions, sizeof(convolutions));
            n += 9;
            if (b == 0 && projection_created_first) {
                memcpy(list + n, projection, sizeof(projection));
                n += 3;
            }
        }
    list[n++] = 64;
    list[n++] = 64;
    list[n++] = 9408;
    return n;
}

static void assert_tensors(const char *line, const size_t *list, int n)
{
    const struct bb_program *p;
    struct bb_step step;
    int reduced = 0;

    assert_int_equal(MADE_LINE(&step, line, .ranks = 2, .per_tensor = true), 0);
    p = bb_step_program(&step, 0);
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == BB_OP_COLLECTIVE || p->ops[i].kind == BB_OP_SEND) {
            assert_true(reduced < n);
            assert_int_equal(p->ops[i].count, list[reduced++]);
        }
    assert_int_equal(reduced, n);
    bb_step_release(&step);
}

static void resnet_tensors_match_the_specification(void **state)
{
    size_t list[500];
    int n;

    (void)state;
    n = specified_tensors(1001, (const int[]){3, 4, 6, 3}, true, list);
    assert_int_equal(n, 161);
    assert_tensors("resnet50", list, n);
    assert_tensors("resnet50_ring", list, n);
    n = specified_tensors(1000, (const int[]){3, 8, 36, 3}, false, list);
    assert_int_equal(n, 467);
    assert_tensors("resnet152", list, n);
}

static void rejects_models_of_another_family(void **state)
{
    struct bb_residual residual;
    struct bb_model model;

    (void)state;
    assert_int_equal(bb_residual_load("gpt2_large", &residual), -BB_EUSAGE);
    assert_int_equal(bb_model_load("resnet50", &model), -BB_EUSAGE);
}

/* Loads resnet50.json with one text replaced. Returns the result of bb_residual_load. */
static int load_changed(const char *from, const char *to)
{
    char path[] = "/tmp/busbar_residual_XXXXXX.json";
    int file = mkstemps(path, 5), rc;
    struct bb_residual model;
    json_t *root;
    char *text, *at;

    assert_true(file >= 0);
    assert_int_equal(bb_profile_load("models", "resnet50", &root), 0);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    at = strstr(text, from);
    assert_non_null(at);
    assert_true(dprintf(file, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    close(file);
    free(text);
    rc = bb_residual_load(path, &model);
    if (rc == 0)
        bb_residual_release(&model);
    unlink(path);
    return rc;
}

static void rejects_modified_profiles(void **state)
{
    (void)state;
    assert_int_equal(load_changed("resnet50", "resnet50"), 0);
    assert_int_equal(load_changed("25559081", "25559082"), -BB_EUSAGE);
    assert_int_equal(load_changed("\"classes\":1001", "\"classes\":1000"), -BB_EUSAGE);
    assert_int_equal(load_changed("3104745", "3104744"), -BB_EUSAGE);
    assert_int_equal(load_changed("[7,13]", "[8,13]"), -BB_EUSAGE);
    assert_int_equal(load_changed("[68,160]", "[68,159]"), -BB_EUSAGE);
    assert_int_equal(load_changed("[68,160]", "[68,161]"), -BB_EUSAGE);
    assert_int_equal(load_changed("\"before\"", "\"beside\""), -BB_EUSAGE);
    assert_int_equal(load_changed("9*w^2", "9*v^2"), -BB_EUSAGE);
    assert_int_equal(load_changed("[3,4,6,3]", "[3,4,6]"), -BB_EUSAGE);
    /* layer table: its weights do not fit, */
    assert_int_equal(load_changed("\"w\",\"w\",\"3\"", "\"w\",\"w\",\"1\""), -BB_EUSAGE);
    assert_int_equal(load_changed("\"7\",\"image\"", "\"7\",\"image/2\""), -BB_EUSAGE); /* its FLOPs do not fit, */
    /* too few fields */
    assert_int_equal(load_changed("[\"weight\",\"in\",\"classes\"]", "[\"weight\",\"in\"]"), -BB_EUSAGE);
    assert_int_equal(load_changed("[\"weight\",\"in\",\"classes\"]", "[\"heavy\",\"in\",\"classes\"]"), -BB_EUSAGE);
}

/* ---- validity ---- */

static void assert_valid(const char *line, int ranks, const char *compute)
{
    bool serialised = strstr(line, "one_pipe_step") == NULL;
    struct bb_checks checks;
    struct bb_step step;

    assert_int_equal(MADE_LINE(&step, line, .ranks = ranks, .compute = compute), 0);
    assert_int_equal(bb_step_check(&step, &checks), 0);
    assert_true(checks.matched);
    assert_true(checks.deadlock_free);
    assert_int_equal(checks.safe_serialised, serialised); /* one_pipe_step receives before it sends, as its original
                                                             does */
    bb_checks_release(&checks);
    bb_step_release(&step);
}

static void valid_configurations_pass_the_checks(void **state)
{
    const struct {
        const char *line;
        int ranks[6];
    } configurations[] = {
        {"resnet50", {1, 2, 3, 8, 1000}},
        {"resnet50_ring", {1, 2, 3, 8, 1000}},
        {"resnet152", {1, 2, 7, 256}},
        {"resnet152_scal", {256, 512, 1024, 2048}},
        {"cosmoflow", {4, 8, 60, 4096}},
        {"dlrm", {1, 2, 3, 4, 64, 262144}},
        {"gpt3 2 1", {8, 16, 40}},
        {"gpt3 3 2", {12, 24}},
        {"gpt3 7 3", {28, 84}},
        {"gpt3", {384, 98304}},
        {"gpt3_one_pipe_step 2", {8, 24}},
        {"gpt3_one_pipe_step", {384}},
        {"gpt3_moe 2 1", {32, 96}},
        {"gpt3_moe 5 1", {80, 160}},
        {"gpt3_moe", {1536}},
        {"gpt3_moe_one_pipe_step 6", {96, 192}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(configurations); i++)
        for (int w = 0; w < 6 && configurations[i].ranks[w]; w++) {
            if (FEW_INPUTS && configurations[i].ranks[w] > 1000)
                continue;
            assert_valid(configurations[i].line, configurations[i].ranks[w], NULL);
            assert_valid(configurations[i].line, configurations[i].ranks[w], "none");
        }
}

/* With one communicator for both directions, as in the original, the step deadlocks; the proxy therefore uses two. */
static void one_communicator_for_both_directions_deadlocks(void **state)
{
    struct bb_checks checks;
    struct bb_step step;

    (void)state;
    assert_int_equal(MADE_LINE(&step, "gpt3_one_pipe_step 2", .ranks = 8), 0);
    for (int r = 0; r < step.n_roles; r++)
        for (size_t i = 0; i < step.roles[r].program.n_ops; i++) {
            struct bb_op *op = &step.roles[r].program.ops[i];

            if (op->kind == BB_OP_SEND || op->kind == BB_OP_RECV)
                op->comm = 0;
        }
    assert_int_equal(bb_step_check(&step, &checks), 0);
    assert_true(checks.matched);
    assert_false(checks.deadlock_free);
    bb_checks_release(&checks);
    bb_step_release(&step);
}

/* ---- the command line ---- */

static void rejects_invalid_configurations(void **state)
{
    const struct {
        const char *line;
        struct bb_proxy_config config;
    } rows[] = {
        {"resnet152_scal", {.ranks = 128}},
        {"resnet152_scal", {.ranks = 4096}},
        {"resnet152_scal", {.ranks = 768}},
        {"cosmoflow", {.ranks = 2}},
        {"cosmoflow", {.ranks = 6}},
        {"dlrm", {.ranks = 262145}},
        {"gpt3", {.ranks = 96}},
        {"gpt3 1", {.ranks = 4}},
        {"gpt3 3", {.ranks = 18}},
        {"gpt3 0", {.ranks = 16}},
        {"gpt3 4 0", {.ranks = 16}},
        {"gpt3 4 2 1", {.ranks = 16}},
        {"gpt3 four", {.ranks = 16}},
        {"gpt3 4", {.ranks = 16, .stages = 4}},
        {"gpt3 4 2", {.ranks = 16, .scale = 2}},
        {"gpt3 4 2", {.ranks = 16, .micro_batches = 7}},
        {"gpt3 4", {.ranks = 16, .layers = 8}},
        {"gpt3 4", {.ranks = 16, .per_tensor = true}},
        {"gpt3 1000000 2", {.ranks = 4000000}},
        {"gpt3_one_pipe_step 3", {.ranks = 12}},
        {"gpt3_one_pipe_step 1", {.ranks = 4}},
        {"gpt3_moe 2", {.ranks = 16}},
        {"gpt3_moe 2", {.ranks = 48}},
        {"gpt3_moe_one_pipe_step 5", {.ranks = 80}},
        {"resnet50 4", {.ranks = 2}},
        {"resnet50", {.ranks = 2, .stages = 2}},
        {"resnet50", {.ranks = 2, .micro_batches = 2}},
        {"resnet50", {.ranks = 2, .compute = "timed"}},
        {"resnet152", {.ranks = 2, .forward_us = 3}},
        {"dlrm", {.ranks = 2, .tflops = 100}},
        {"cosmoflow", {.ranks = 4, .per_tensor = true}},
        {"gpt2_large", {.ranks = 4, .scale = 2}},
    };
    struct bb_step step;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(made_line_with(&step, rows[i].line, rows[i].config), -BB_EUSAGE);
}

static size_t sends_of_rank_0(const char *line, struct bb_proxy_config config)
{
    const struct bb_program *p;
    struct bb_step step;
    size_t n = 0;

    config.ranks = 16;
    assert_int_equal(made_line_with(&step, line, config), 0);
    p = bb_step_program(&step, 0);
    for (size_t i = 0; i < p->n_ops; i++)
        n += p->ops[i].kind == BB_OP_SEND;
    bb_step_release(&step);
    return n;
}

/* The first stage sends once per micro-batch. */
static void micro_batches_follow_stages_and_the_scale_option(void **state)
{
    (void)state;
    assert_int_equal(sends_of_rank_0("gpt3 4", (struct bb_proxy_config){0}), 8);
    assert_int_equal(sends_of_rank_0("gpt3 4 3", (struct bb_proxy_config){0}), 12);
    assert_int_equal(sends_of_rank_0("gpt3 4", (struct bb_proxy_config){.scale = 5}), 20);
    assert_int_equal(sends_of_rank_0("gpt3", (struct bb_proxy_config){.layers = 2, .micro_batches = 7}), 7);
    assert_int_equal(sends_of_rank_0("gpt3", (struct bb_proxy_config){.stages = 2, .layers = 2}), 4);
    assert_int_equal(sends_of_rank_0("gpt3 2", (struct bb_proxy_config){.micro_batches = 1}), 1);
}

static void given_times_are_divided_in_the_ratio_of_the_tables(void **state)
{
    const struct bb_proxy_config config = {.ranks = 32, .forward_us = 2 * (22367 + 2580), .backward_us = 49895};
    const struct bb_program *p;
    struct bb_step step;

    (void)state;
    assert_int_equal(made_line_with(&step, "gpt3_moe 2 1", config), 0);
    p = bb_step_program(&step, 0);
    assert_true(p->ops[0].compute_us == 2 * 22367 && p->ops[1].compute_us == 2 * 2580);
    assert_true(p->ops[11].compute_us == 44734);
    bb_step_release(&step);
}

/* ---- smaller counts ---- */

static size_t buffer_count(const struct bb_program *p, int buffer)
{
    return buffer == BB_NONE ? SIZE_MAX : p->buffers[buffer].count;
}

static void scaled_counts_keep_the_operations(void **state)
{
    const char *const lines[] = {"resnet50_ring",        "resnet152",     "cosmoflow", "dlrm", "gpt3 2 1",
                                 "gpt3_one_pipe_step 2", "gpt2_large 4 2"};
    struct bb_step whole, small;

    (void)state;
    for (size_t l = 0; l < ROWS(lines); l++)
        for (double f = 0.25; f > 1e-12; f /= 1000) {
            const struct bb_program *a, *b;

            assert_int_equal(MADE_LINE(&whole, lines[l], .ranks = 8), 0);
            assert_int_equal(MADE_LINE(&small, lines[l], .ranks = 8, .scale_counts = f), 0);
            a = bb_step_program(&whole, 1);
            b = bb_step_program(&small, 1);
            assert_int_equal(a->n_ops, b->n_ops);
            for (size_t i = 0; i < a->n_ops; i++) {
                size_t expected = (size_t)((double)a->ops[i].count * f);
                bool sliced = b->ops[i].kind == BB_OP_COLLECTIVE && bb_colls[b->ops[i].coll].flags & BB_COLL_SLICED;

                if (!bb_op_is_comm(&a->ops[i]))
                    continue;
                assert_int_equal(b->ops[i].count, expected ? expected : 1);
                assert_true(buffer_count(b, b->ops[i].src) >= b->ops[i].count);
                assert_true(buffer_count(b, b->ops[i].dst) >= b->ops[i].count);
                if (sliced && b->ops[i].coll == BB_ALLTOALL)
                    assert_true(buffer_count(b, b->ops[i].dst) >= 8 * b->ops[i].count);
            }
            assert_non_null(strstr(small.summary, "counts scaled by"));
            bb_step_release(&whole);
            bb_step_release(&small);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_match_the_originals),
        cmocka_unit_test(compute_none_keeps_the_order),
        cmocka_unit_test(sends_overlap_as_in_the_originals),
        cmocka_unit_test(traffic_matches_the_recorded_amounts),
        cmocka_unit_test(compute_times_and_memory_match_the_tables),
        cmocka_unit_test(samples_and_parameters_match_the_originals),
        cmocka_unit_test(flops_match_the_recorded_times),
        cmocka_unit_test(flops_match_the_shapes),
        cmocka_unit_test(convolution_times_are_proportional_to_flops),
        cmocka_unit_test(groups_match_the_specification),
        cmocka_unit_test(halos_are_exchanged_with_two_peers),
        cmocka_unit_test(resnet_tensors_match_the_specification),
        cmocka_unit_test(rejects_models_of_another_family),
        cmocka_unit_test(rejects_modified_profiles),
        cmocka_unit_test(valid_configurations_pass_the_checks),
        cmocka_unit_test(one_communicator_for_both_directions_deadlocks),
        cmocka_unit_test(rejects_invalid_configurations),
        cmocka_unit_test(micro_batches_follow_stages_and_the_scale_option),
        cmocka_unit_test(given_times_are_divided_in_the_ratio_of_the_tables),
        cmocka_unit_test(scaled_counts_keep_the_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
