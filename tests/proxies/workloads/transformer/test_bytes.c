/*
 * test_bytes.c - bytes of a transformer's plan against the closed formulas of its parallelisms and against numbers
 * computed for published models. Wire bytes are the minimum that one rank sends: in a group of n ranks 2 (n-1)/n of the
 * payload for all_reduce, (n-1)/n for all_gather, reduce_scatter and alltoall, and the payload of each sent message.
 */
#include "tests/proxies/workloads/transformer/lines.h"

#include "proxies/workloads/transformer/arch/arch.h"

#include <math.h>

/* ---- counting ---- */

static double factor(const struct bb_traffic_row *row)
{
    double part = (row->group_size - 1.0) / row->group_size;

    if (row->kind == BB_OP_COLLECTIVE)
        return row->coll == BB_ALL_REDUCE ? 2 * part : part;
    return row->kind == BB_OP_SEND ? 1 : 0;
}

/* Bytes that a rank sends on the groups of these names ("tp", "dp,ep"), in operations of one type (ANY: all types). */
static double wire_bytes(const struct bb_step *step, int rank, const char *groups, int dtype)
{
    const struct bb_traffic_role *role;
    struct bb_traffic t;
    double bytes = 0;

    bb_traffic_init(&t, step, false);
    role = made_role_of(&t, rank);
    for (int i = 0; i < role->n_rows; i++) {
        const char *name = step->layout.groups[role->rows[i].group].name, *at = strstr(groups, name);
        size_t n = strlen(name);

        if (at && (at == groups || at[-1] == ',') && (at[n] == ',' || at[n] == '\0') &&
            (dtype < 0 || dtype == (int)role->rows[i].dtype))
            bytes += factor(&role->rows[i]) * (double)role->rows[i].bytes;
    }
    bb_traffic_release(&t);
    return bytes;
}

static double wire_bytes_of_line(const char *line, int ranks, int rank, const char *groups, int dtype)
{
    struct bb_step step;
    double bytes;

    assert_int_equal(lines_make(&step, ranks, line), 0);
    bytes = wire_bytes(&step, rank, groups, dtype);
    bb_step_release(&step);
    return bytes;
}

static double r(int n)
{
    return (n - 1.0) / n;
}

#define ANY        (-1)
#define SAME(a, b) assert_float_equal(a, b, 0.5)

/* ---- numbers computed for published models ---- */

/* GPT-3 175B, tp 8, one layer and micro-batch: 8 R S, and 10 R S with sequence parallelism; R = (n-1)/n, S =
 * 50331648 bytes. */
static void gpt3_tensor_parallel_layer_bytes(void **state)
{
    const char *two = "transformer --model gpt3_175b --tp 8 --layers 2 --micro-batches 1 --dp 1";
    const char *one = "transformer --model gpt3_175b --tp 8 --layers 1 --micro-batches 1 --dp 1";
    char two_sp[128], one_sp[128];

    (void)state;
    snprintf(two_sp, sizeof(two_sp), "%s --sequence-parallel", two);
    snprintf(one_sp, sizeof(one_sp), "%s --sequence-parallel", one);
    SAME(wire_bytes_of_line(two, 8, 0, "tp", BB_BFLOAT16) - wire_bytes_of_line(one, 8, 0, "tp", BB_BFLOAT16),
         352321536);
    SAME(wire_bytes_of_line(two_sp, 8, 0, "tp", BB_BFLOAT16) - wire_bytes_of_line(one_sp, 8, 0, "tp", BB_BFLOAT16),
         440401920);
    /* gradients of the second layer's norms and biases: 2 R of 6 h floats */
    SAME(wire_bytes_of_line(two_sp, 8, 0, "tp", BB_FLOAT) - wire_bytes_of_line(one_sp, 8, 0, "tp", BB_FLOAT),
         2 * 7 / 8.0 * 6 * 12288 * 4);
}

/* GPT-3 175B, 16 stages, 32 micro-batches: 2 m (p - 1) M for each tensor-parallel rank, M = 50331648 bytes. */
static void gpt3_pipeline_bytes(void **state)
{
    struct bb_step step;
    double all = 0;

    (void)state;
    assert_int_equal(lines_make(&step, 16 * 8, "transformer --model gpt3_175b --tp 8 --pp 16 --micro-batches 32"), 0);
    for (int s = 0; s < 16; s++) {
        double sent = wire_bytes(&step, s * 8, "pp", ANY), m = 50331648;

        SAME(sent, 32 * m * (s == 0 || s == 15 ? 1 : 2));
        all += sent;
    }
    SAME(all, 48318382080);
    bb_step_release(&step);
}

/* LLaMA-2 7B, fully sharded over 8 ranks, all types 16-bit: R P (2 + 2 + 2) bytes. */
static void llama2_zero3_bytes(void **state)
{
    struct bb_step step;
    struct bb_traffic t;
    bool unit = false;

    (void)state;
    assert_int_equal(
        lines_make(&step, 8, "transformer --model llama2_7b --dp-sync zero3 --grad-dtype bfloat16 --micro-batches 1"),
        0);
    SAME(wire_bytes(&step, 0, "dp", BB_BFLOAT16), 35376681984);
    bb_traffic_init(&t, &step, false);
    for (int i = 0; i < t.roles[0].n_rows; i++) /* gather of one layer: 404766720 bytes */
        unit |= t.roles[0].rows[i].coll == BB_ALL_GATHER && t.roles[0].rows[i].count * 8 * 2 == 404766720;
    assert_true(unit);
    bb_traffic_release(&t);
    bb_step_release(&step);
}

/* Mixtral 8x7B, 4096 tokens, experts over 8 ranks: per layer four alltoalls of tokens and two of probabilities. */
static void mixtral_expert_parallel_bytes(void **state)
{
    const char *two = "transformer --model mixtral_8x7b --ep 8 --layers 2 --seq-length 4096 --micro-batches 1";
    const char *one = "transformer --model mixtral_8x7b --ep 8 --layers 1 --seq-length 4096 --micro-batches 1";

    (void)state;
    SAME(wire_bytes_of_line(two, 8, 0, "ep", BB_BFLOAT16) - wire_bytes_of_line(one, 8, 0, "ep", BB_BFLOAT16),
         234881024);
    /* the only other floats are those of the experts' gradient norm, equal in both steps */
    SAME(wire_bytes_of_line(two, 8, 0, "ep", BB_FLOAT) - wire_bytes_of_line(one, 8, 0, "ep", BB_FLOAT), 57344);
}

/*
 * DeepSeek-V3 as published: PP16 x EP64 x ZeRO-1 on 2048 GPUs, its 61 layers as 3, 4, ..., 4, 2; the first three are
 * dense. Alltoalls of tokens: to the experts and back, forward and backward. Latent attention, router and shared expert
 * have 128 replicas; the 4 experts of a layer on one rank have 2. Gradients are float, parameters bfloat16.
 */
static void deepseek_bytes_of_sixteen_stages(void **state)
{
    const char *line = "transformer --model deepseek_v3 --pp 16 --ep 64 --dp-sync zero1 --micro-batches 20 "
                       "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 2";
    const double tokens = 4096, wide = 7168, expert = 3 * wide * 2048;
    const double attention = wide * 1536 + 1536 + 1536.0 * 128 * 192 + wide * (512 + 64) + 512 + 512.0 * 128 * 256 +
                             128 * 128 * wide + 2 * wide;
    const double moe = attention + 256 * wide + 256 + expert, dense = attention + 3 * wide * 18432;
    const double table = 129280 * wide;
    const struct {
        int stage, experts, neighbours;
        double dense; /* number of parameters */
    } rows[] = {
        {0, 0, 1, table + 3 * dense}, {1, 4, 2, 4 * moe}, {14, 4, 2, 4 * moe}, {15, 2, 1, 2 * moe + wide + table}};
    struct bb_step step;

    (void)state;
    assert_int_equal(lines_make(&step, 2048, line), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        int rank = 128 * rows[i].stage + 5, layers = rows[i].experts;

        assert_float_equal(wire_bytes(&step, rank, "pp", BB_BFLOAT16), 20 * rows[i].neighbours * tokens * wide * 2,
                           0.5);
        assert_float_equal(wire_bytes(&step, rank, "ep", BB_BFLOAT16),
                           20.0 * layers * 4 * r(64) * tokens * 8 * wide * 2, 0.5);
        assert_float_equal(wire_bytes(&step, rank, "edp", ANY), r(2) * layers * 4 * expert * (4 + 2), 64);
        assert_float_equal(wire_bytes(&step, rank, "dp", ANY), r(128) * rows[i].dense * (4 + 2), rows[i].dense * 1e-5);
    }
    bb_step_release(&step);
}

/* ---- closed formulas ---- */

struct shape {
    int t, c, p, d, m, b, layers, v;
    bool sequence_parallel;
};

static const double h = 4096, s = 512, kv_part = 8.0 / 32; /* Llama 3 8B, short samples */

static int write_line(const struct shape *x, const char *more, char line[512])
{
    snprintf(line, 512,
             "transformer --model llama3_8b --tp %d --cp %d --pp %d --dp %d --micro-batches %d --micro-batch-size %d "
             "--layers %d --seq-length 512%s %s",
             x->t, x->c, x->p, x->d, x->m, x->b, x->layers, x->sequence_parallel ? " --sequence-parallel" : "", more);
    return x->t * x->c * x->p * x->d;
}

/* X = s b h / c, in bytes. */
static double activations(const struct shape *x)
{
    return s * x->b * h / x->c * 2;
}

static void bytes_of_a_middle_stage(void **state)
{
    static const struct shape shapes[] = {
        {2, 1, 4, 1, 4, 1, 8, 1, false}, {4, 1, 4, 1, 8, 2, 8, 1, false}, {2, 2, 4, 1, 4, 1, 16, 1, false},
        {2, 1, 4, 2, 4, 3, 8, 1, true},  {4, 2, 4, 1, 8, 2, 12, 1, true}, {8, 2, 4, 2, 3, 1, 4, 1, true},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(shapes); i++) {
        const struct shape *x = &shapes[i];
        double of_stage = (double)x->m * x->layers / x->p, message = activations(x) / (x->sequence_parallel ? x->t : 1);
        struct bb_step step;
        char line[512];
        int rank = x->t * x->c * x->d; /* a rank of stage 1 */

        assert_int_equal(lines_make(&step, write_line(x, "", line), line), 0);
        SAME(wire_bytes(&step, rank, "tp", BB_BFLOAT16),
             of_stage * (x->sequence_parallel ? 10 : 8) * r(x->t) * activations(x));
        SAME(wire_bytes(&step, rank, "cp", BB_BFLOAT16),
             of_stage * 3 * (x->c - 1) * 2 * x->b * (s / x->c) * h * kv_part / x->t * 2);
        SAME(wire_bytes(&step, rank, "pp", ANY), 2 * x->m * message);
        if (x->sequence_parallel) /* two norms of h, no biases */
            SAME(wire_bytes(&step, rank, "tp", BB_FLOAT), 2 * r(x->t) * 2 * h * x->layers / x->p * 4);
        bb_step_release(&step);
    }
}

/* First stage: the embedding adds 2 R X. Last stage: the head adds 2 R X and three all-reduces of one float per
 * token. */
static void bytes_of_embedding_and_head(void **state)
{
    const struct shape x = {4, 1, 2, 1, 3, 2, 4, 1, false};
    double layers = (double)x.m * x.layers / x.p * 8 * r(x.t) * activations(&x), one = 2 * r(x.t) * activations(&x);
    struct bb_step step;
    char line[512];

    (void)state;
    assert_int_equal(lines_make(&step, write_line(&x, "", line), line), 0);
    SAME(wire_bytes(&step, 0, "tp", BB_BFLOAT16), layers + x.m * one);
    SAME(wire_bytes(&step, 4, "tp", BB_BFLOAT16), layers + x.m * one);
    SAME(wire_bytes(&step, 0, "tp", BB_FLOAT), 0);
    SAME(wire_bytes(&step, 4, "tp", BB_FLOAT), x.m * 3 * 2 * r(x.t) * s * x.b * 4);
    bb_step_release(&step);
}

/* Interleaved: v times the messages, 2 m (p v - 1) in total. */
static void bytes_of_interleaved_messages(void **state)
{
    struct bb_step step;
    double all = 0;

    (void)state;
    assert_int_equal(
        lines_make(&step, 4, "transformer --model llama3_8b --pp 4 --vpp 2 --micro-batches 8 --seq-length 512"), 0);
    for (int rank = 0; rank < 4; rank++)
        all += wire_bytes(&step, rank, "pp", ANY);
    SAME(all, 2.0 * 8 * (4 * 2 - 1) * s * h * 2);
    bb_step_release(&step);
}

/* Number of parameters of the whole model with that number of layers. */
static double parameters(int layers)
{
    struct bb_arch arch;

    assert_int_equal(bb_arch_load("llama3_8b", &arch), 0);
    assert_int_equal(bb_arch_with_layers(&arch, layers), 0);
    return bb_arch_parameters(&arch);
}

static void bytes_of_each_replica_synchronization(void **state)
{
    static const struct {
        const char *sync;
        double once, times; /* bytes for each parameter and R(d): once per step, and per micro-batch */
    } rows[] = {
        {"all_reduce", 8, 0},      {"horovod", 8, 0}, {"zero1", 4 + 2, 0},
        {"distributed", 4 + 2, 0}, {"zero2", 2, 4},   {"zero3", 0, 2 * 2 + 4},
    };
    const struct shape x = {1, 1, 1, 8, 3, 1, 2, 1, false};
    double p = parameters(x.layers);

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char more[64], line[512];
        int ranks;

        snprintf(more, sizeof(more), "--dp-sync %s", rows[i].sync);
        ranks = write_line(&x, more, line);
        /* padding to shards may add a few elements; the gradient norm adds one float */
        assert_float_equal(wire_bytes_of_line(line, ranks, 0, "dp", ANY),
                           r(8) * p * (rows[i].once + x.m * rows[i].times), r(8) * p * 1e-6);
    }
}

/* R(g) P (2 e_p + e_g) inside the node, 2 R(N) P / g e_g between nodes. */
static void bytes_of_hsdp(void **state)
{
    const struct shape x = {1, 1, 1, 8, 1, 1, 2, 1, false};
    double p = parameters(x.layers);
    char line[512];
    int ranks = write_line(&x, "--dp-sync hsdp --gpus-per-node 4", line);

    (void)state;
    assert_float_equal(wire_bytes_of_line(line, ranks, 0, "dp shard", ANY), r(4) * p * (2 * 2 + 4), p * 1e-6);
    assert_float_equal(wire_bytes_of_line(line, ranks, 0, "dp replica", ANY), 2 * r(2) * p / 4 * 4, p * 1e-6);
}

/* GPT-2 has tied embeddings: 2 R of V h / t floats between the first and the last stage, with the vocabulary padded
 * to a multiple of t. */
static void bytes_of_tied_embeddings(void **state)
{
    const char *line = "transformer --model gpt2_small --tp 2 --pp 2 --micro-batches 2 --seq-length 128";
    double share = (50257 + 1) / 2 * 768.0;

    (void)state;
    for (int rank = 0; rank < 4; rank += 2)
        SAME(wire_bytes_of_line(line, 4, rank, "embedding", BB_FLOAT), 2 * r(2) * share * 4);
    SAME(wire_bytes_of_line("transformer --model gpt2_small --pp 2 --dp 4 --dp-sync zero3 --seq-length 128", 8, 0,
                            "embedding", ANY),
         2 * r(2) * ceil(50257 * 768 / 4.0) * 4);
    SAME(wire_bytes_of_line("transformer --model llama3_8b --tp 2 --pp 2 --seq-length 128 --layers 2", 4, 0,
                            "embedding", ANY),
         0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt3_tensor_parallel_layer_bytes),
        cmocka_unit_test(gpt3_pipeline_bytes),
        cmocka_unit_test(llama2_zero3_bytes),
        cmocka_unit_test(mixtral_expert_parallel_bytes),
        cmocka_unit_test(bytes_of_a_middle_stage),
        cmocka_unit_test(bytes_of_embedding_and_head),
        cmocka_unit_test(bytes_of_interleaved_messages),
        cmocka_unit_test(bytes_of_each_replica_synchronization),
        cmocka_unit_test(bytes_of_hsdp),
        cmocka_unit_test(bytes_of_tied_embeddings),
        cmocka_unit_test(deepseek_bytes_of_sixteen_stages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
