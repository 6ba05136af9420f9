/*
 * test_without_memory.c - a prediction in which any single allocation fails returns -BB_EFAIL and writes nothing out of
 * bounds. The steps contain kernels, messages and collectives with contention. The linker redirects the allocations of
 * the program itself to the wrappers below (--wrap), so a sanitizer detects writes past an array that could not grow.
 */
#include "tests/proxies/simulate/predicted.h"
#include "tests/proxies/transformer/lines.h"

static int until_failure; /* fail the n-th allocation from now; 0: none fails */

static bool fails_now(void)
{
    return until_failure > 0 && --until_failure == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t line, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t line, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails_now() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails_now() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return fails_now() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t line, size_t bytes)
{
    return fails_now() ? NULL : __real_aligned_alloc(line, bytes);
}

static void load_fabric(struct bb_cluster *c)
{
    assert_int_equal(bb_cluster_load("h100-sxm-ib", c), 0);
    c->gpus_per_node = c->nics_per_node = 2;
    c->fabric = (struct bb_fabric){.rails = true, .nodes = {1, 2}, .oversubscription = {4, 2}};
}

static void reports_any_failed_allocation(void **state)
{
    static const struct {
        const char *line;
        int ranks;
    } rows[] = {{"transformer --model gpt2_small --layers 2 --dp-sync zero3 --micro-batches 2 --compute gemm", 2},
                {"transformer --model gpt2_small --layers 4 --tp 2 --micro-batches 2 --compute gemm", 4},
                {"transformer --model gpt2_small --dp-sync zero1 --compute gemm", 2},
                {"transformer --model llama2_7b --layers 2 --sequence-parallel --tp 2 --compute gemm", 4},
                {"transformer --model mixtral_8x7b --layers 2 --ep 4 --moe-imbalance 1 --compute gemm", 4},
                {"transformer --model deepseek_v3 --layers 5 --ep 2 --moe-imbalance 1 --compute gemm", 4},
                {"resnet50_ring", 4}};
    struct bb_cluster c;

    (void)state;
    load_fabric(&c);
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_step step;
        int64_t whole_ns, step_ns = 0;
        int n = 0, rc;

        assert_int_equal(lines_make(&step, rows[i].ranks, rows[i].line), 0);
        assert_int_equal(bb_predict_step_ns(&step, &c, NULL, &whole_ns), 0);
        do {
            until_failure = ++n;
            rc = bb_predict_step_ns(&step, &c, NULL, &step_ns);
            if (until_failure == 0 && rc != -BB_EFAIL)
                fail_msg("row %zu: returned %d when allocation %d failed", i, rc, n);
        } while (until_failure == 0);
        until_failure = 0;
        assert_int_equal(rc, 0);
        assert_int_equal(step_ns, whole_ns);
        assert_true(n > 50);
        bb_step_release(&step);
    }
    bb_err_mute(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reports_any_failed_allocation)};

    return cmocka_run_group_tests(tests, NULL, release_prediction);
}
