/* test_compute_cases.c - the kernels that `bench compute` measures: GEMMs of published layers by their dimensions. */
#include "collectives/compute/compute_cases.h"
#include "tests/check.h"

struct row {
    const char *name;
    int64_t m, n, k, batch;
};

static void assert_gemms(bool quick, const struct row *rows, int n)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];

    assert_int_equal(bb_compute_gemms(BB_HALF, quick, cases), n);
    for (int i = 0; i < n; i++) {
        const struct bb_gemm_shape *s = &cases[i].shape;

        print_message("  %s\n", cases[i].name);
        assert_string_equal(cases[i].name, rows[i].name);
        assert_true(s->m == rows[i].m && s->n == rows[i].n && s->k == rows[i].k && s->batch == rows[i].batch);
        assert_int_equal(s->dtype, BB_HALF);
    }
}

/*
 * GPT-2 large: 8 samples of 1024 tokens, 20 heads of size 64. GPT-3 on 4 GPUs: 2048 tokens, 96 / 4 heads of size 128.
 * Convolutions as GEMMs: m = samples x output positions, n = filters, k = channels x window, for example
 * 128 x 112^2, 64, 3 x 7^2.
 */
static void gemms_match_published_layers(void **state)
{
    static const struct row rows[] = {
        {"square", 1024, 1024, 1024, 1},
        {"square", 2048, 2048, 2048, 1},
        {"square", 4096, 4096, 4096, 1},
        {"square", 8192, 8192, 8192, 1},
        {"gpt2_large qkv", 8192, 3840, 1280, 1},
        {"gpt2_large scores", 1024, 1024, 64, 160},
        {"gpt2_large context", 1024, 64, 1024, 160},
        {"gpt2_large out", 8192, 1280, 1280, 1},
        {"gpt2_large up", 8192, 5120, 1280, 1},
        {"gpt2_large down", 8192, 1280, 5120, 1},
        {"gpt3/4 qkv", 2048, 9216, 12288, 1},
        {"gpt3/4 scores", 2048, 2048, 128, 24},
        {"gpt3/4 context", 2048, 128, 2048, 24},
        {"gpt3/4 out", 2048, 12288, 3072, 1},
        {"gpt3/4 up", 2048, 12288, 12288, 1},
        {"gpt3/4 down", 2048, 12288, 12288, 1},
        {"resnet50 conv1", 128 * 112 * 112, 64, 3 * 7 * 7, 1},
        {"resnet50 conv4 3x3", 128 * 14 * 14, 256, 256 * 3 * 3, 1},
        {"cosmoflow/4 conv1", 8 * 64 * 32 * 32, 64, 32 * 3 * 3 * 3, 1},
    };
    static const struct row quick[] = {
        {"square", 64, 64, 64, 1},      {"square", 128, 128, 128, 1},    {"tiny qkv", 32, 192, 64, 1},
        {"tiny scores", 32, 32, 16, 4}, {"tiny context", 32, 16, 32, 4}, {"tiny out", 32, 64, 64, 1},
        {"tiny up", 32, 256, 64, 1},    {"tiny down", 32, 64, 256, 1},
    };

    (void)state;
    assert_gemms(false, rows, ROWS(rows));
    assert_gemms(true, quick, ROWS(quick));
}

/* Each kernel moves at most the requested bytes, and one more row would exceed them; the minimum is one row. */
static void memory_kernels_move_the_requested_bytes(void **state)
{
    struct bb_memory_kernel_case c;
    int n = 0;

    (void)state;
    for (; bb_compute_memory_kernel(n, BB_HALF, (size_t)256 << 20, &c); n++) {
        const size_t bytes = bb_memory_kernel_bytes(&c.memory_kernel);
        struct bb_memory_kernel larger = c.memory_kernel;

        assert_true(c.name && c.memory_kernel.dtype == BB_HALF && bytes > (size_t)250 << 20);
        larger.rows += 2; /* one row, and one more for a parameter table whose size does not depend on the rows */
        assert_true(bb_memory_kernel_bytes(&larger) > (size_t)256 << 20);
        assert_true(bb_compute_memory_kernel(n, BB_HALF, 0, &c) && c.memory_kernel.rows == 1);
    }
    assert_int_equal(n, 17);
    assert_false(bb_compute_memory_kernel(-1, BB_HALF, 1, &c));
    assert_true(bb_compute_memory_kernel(0, BB_FLOAT, 1, &c) && c.memory_kernel.kind == BB_MEMORY_KERNEL_COPY);
}

static void timed_kernels_vary_time_sms_and_traffic(void **state)
{
    static const double times[] = {10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
    struct bb_timed_case c;
    int n = 0, all_sms = 0, with_traffic = 0;

    (void)state;
    for (; bb_compute_timed(n, false, &c); n++) {
        if (n < 10)
            assert_true(c.requested_us == times[n] && c.sms == 1 && c.traffic == 0);
        all_sms += c.sms == 1;
        with_traffic += c.traffic > 0;
    }
    assert_true(n == 17 && all_sms == 14 && with_traffic == 5);
    assert_true(bb_compute_timed(10, false, &c) && c.requested_us == 1000 && c.sms == 0 && c.traffic == 0);
    assert_true(bb_compute_timed(16, false, &c) && c.sms == 0.5 && c.traffic == 0.25);
    for (n = 0; bb_compute_timed(n, true, &c);)
        n++;
    assert_int_equal(n, 4);
    assert_false(bb_compute_timed(-1, false, &c));
    assert_false(bb_compute_timed(-1, true, &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemms_match_published_layers),
        cmocka_unit_test(memory_kernels_move_the_requested_bytes),
        cmocka_unit_test(timed_kernels_vary_time_sms_and_traffic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
