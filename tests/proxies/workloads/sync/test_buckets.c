/*
 * test_buckets.c - gradient buckets by each bucket rule: of published networks against lists computed from the rules,
 * of tensors chosen by hand, and of random tensors against the invariants of the rule.
 */
#include "tests/proxies/made.h"

#include "proxies/workloads/replicas/network.h"
#include "proxies/workloads/sync/sync.h"

#define MIB 1048576.0

static const struct bb_bucket_rule ddp = {.kind = BB_BUCKETS_DDP, .first_bytes = MIB, .cap_bytes = 25 * MIB};

/* The gradient buckets of a published network in float. */
static struct bb_buckets buckets_of(const char *model, const struct bb_bucket_rule *rule)
{
    struct bb_network net;
    struct bb_sync_unit *units;
    struct bb_gradient_arrival *arrivals;
    struct bb_buckets made;
    int n;

    assert_int_equal(bb_network_load(&(struct bb_proxy_config){.model = model}, &net), 0);
    units = calloc((size_t)net.n, sizeof(*units));
    for (int u = 0; u < net.n; u++)
        units[u] = (struct bb_sync_unit){.tensors = net.units[u].tensors, .n = net.units[u].n};
    n = bb_sync_arrivals(units, net.n, false, &arrivals);
    assert_int_equal(n, net.n_tensors);
    bb_buckets_make(&made, rule, arrivals, n, 4, 8);
    free(arrivals);
    free(units);
    bb_network_release(&net);
    return made;
}

static void assert_counts(struct bb_buckets *made, const size_t *counts, int n)
{
    assert_int_equal(made->n, n);
    for (int b = 0; b < n; b++)
        assert_int_equal(made->list[b].count, counts[b]);
    bb_buckets_release(made);
}

/* PyTorch DDP's rule over the reversed registration order, first bucket 1 MiB, then 25 MiB. */
static void ddp_buckets_of_published_networks(void **state)
{
    static const struct {
        const char *model;
        int n;
        size_t counts[10];
    } rows[] = {
        {"resnet18_cifar", 3, {2365450, 6623744, 2184768}},
        {"resnet18", 3, {513000, 7213056, 3963456}},
        {"resnet50", 5, {2049000, 7875584, 6563840, 6637568, 2431040}},
        {"resnet152", 10, {2049000, 7875584, 6563840, 6965760, 6703104, 6703104, 6703104, 6703104, 6639104, 3287104}},
        /* the dense layer of 10 + 2621440; a norm of 512, 11 x 476672 + 361984 and 8 x 119552; the rest of 9781802 */
        {"resnet110_v2", 3, {2621450, 6562304, 598048}},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_buckets made = buckets_of(rows[i].model, &ddp);

        assert_counts(&made, rows[i].counts, rows[i].n);
    }
}

/* Horovod with an infinite cycle: the current fusion threshold and the one before v0.21. */
static void fusion_buffers_of_published_networks(void **state)
{
    static const struct {
        const char *model;
        double mib;
        int n;
    } rows[] = {{"resnet50", 128, 1}, {"resnet50", 64, 2}, {"resnet152", 128, 2}, {"resnet152", 64, 4}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = rows[i].mib * MIB};
        struct bb_buckets made = buckets_of(rows[i].model, &rule);

        assert_int_equal(made.n, rows[i].n);
        bb_buckets_release(&made);
    }
}

/* ---- tensors chosen by hand ---- */

/* The buckets of these tensors as text: members and element count, "0 1:30 2:8". */
static const char *text_of(const struct bb_bucket_rule *rule, const struct bb_gradient_arrival *arrivals, int n,
                           size_t bytes)
{
    static char text[256];
    struct bb_buckets made;
    size_t at = 0;

    text[0] = '\0';
    bb_buckets_make(&made, rule, arrivals, n, bytes, 8);
    for (int b = 0; b < made.n; b++) {
        for (int i = 0; i < made.list[b].n; i++)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", b || i ? " " : "",
                                   made.members[made.list[b].first + i]);
        at += (size_t)snprintf(text + at, sizeof(text) - at, ":%zu", made.list[b].count);
    }
    bb_buckets_release(&made);
    return text;
}

static void ddp_bucket_may_exceed_its_cap_by_its_last_tensor(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_DDP, .first_bytes = 40, .cap_bytes = 80};
    const struct bb_gradient_arrival arrivals[] = {{.count = 9},   {.count = 1},  {.count = 1},
                                                   {.count = 500}, {.count = 20}, {.count = 3}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 6, 4), "0 1:10 2 3:501 4:20 5:3");
}

static void megatron_bucket_size_depends_on_replicas_and_is_padded(void **state)
{
    struct bb_bucket_rule rule = {.kind = BB_BUCKETS_MEGATRON, .pad = 65536};
    const struct bb_gradient_arrival arrivals[] = {{.count = 39999999}, {.count = 1}, {.count = 5}};
    struct bb_buckets made;

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 3, 4), "0 1:40042496 2:65536");
    rule.pad = 0;
    bb_buckets_make(&made, &rule, arrivals, 3, 2, 41); /* bucket size for 41 replicas: 41e6
                                                                               elements */
    assert_int_equal(made.n, 1);
    bb_buckets_release(&made);
}

static void deepspeed_bucket_never_exceeds_its_elements(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_DEEPSPEED, .elements = 10};
    const struct bb_gradient_arrival arrivals[] = {
        {.count = 4}, {.count = 6}, {.count = 7}, {.count = 4}, {.count = 30}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 5, 4), "0 1:10 2:7 3:4 4:30");
}

static void another_type_starts_a_new_bucket(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_SINGLE};
    const struct bb_gradient_arrival arrivals[] = {
        {.count = 4}, {.count = 6}, {.count = 7, .type = 1}, {.count = 4, .type = 1}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 4, 4), "0 1:10 2 3:11");
}

/* Padding to 16 bytes: 4 elements in float, 8 in half. A tensor that is reduced alone is not padded. */
static void fused_tensors_are_padded(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = 64};
    const struct bb_gradient_arrival arrivals[] = {{.count = 5}, {.count = 3}, {.count = 5}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 3, 4), "0 1:12 2:5");
    assert_string_equal(text_of(&rule, arrivals, 3, 2), "0 1 2:24");
}

static void tensors_above_the_threshold_are_not_fused(void **state)
{
    struct bb_bucket_rule rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = 64};
    const struct bb_gradient_arrival arrivals[] = {{.count = 4}, {.count = 1000}, {.count = 4}, {.count = 4}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 4, 4), "0:4 1:1000 2 3:8");
    rule.threshold_bytes = 1;
    assert_string_equal(text_of(&rule, arrivals, 4, 4), "0:4 1:1000 2:4 3:4");
}

/* Fusion continues after a tensor of another type only while the skipped bytes would also fit into the buffer. */
static void fusion_skips_a_tensor_of_another_type(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = 64};
    const struct bb_gradient_arrival near[] = {{.count = 4}, {.count = 4, .type = 1}, {.count = 4}};
    const struct bb_gradient_arrival far[] = {{.count = 8}, {.count = 12, .type = 1}, {.count = 4}};
    const struct bb_gradient_arrival just[] = {{.count = 8}, {.count = 8, .type = 1}, {.count = 4}};

    (void)state;
    assert_string_equal(text_of(&rule, near, 3, 4), "0 2:8 1:4");
    assert_string_equal(text_of(&rule, far, 3, 4), "0:8 1:12 2:4");
    assert_string_equal(text_of(&rule, just, 3, 4), "0 2:12 1:8");
}

static void fuses_tensors_ready_in_the_same_cycle(void **state)
{
    const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_FUSION, .threshold_bytes = 1e9, .cycle_us = 1000};
    const struct bb_gradient_arrival arrivals[] = {{.count = 4, .ready_us = 10},
                                                   {.count = 4, .ready_us = 999},
                                                   {.count = 4, .ready_us = 1000},
                                                   {.count = 4, .ready_us = 5000},
                                                   {.count = 4, .ready_us = 5001}};

    (void)state;
    assert_string_equal(text_of(&rule, arrivals, 5, 4), "0 1:8 2:4 3 4:8");
}

static void no_tensors_give_no_buckets(void **state)
{
    (void)state;
    assert_string_equal(text_of(&ddp, NULL, 0, 4), "");
}

/* ---- random tensors ---- */

static uint32_t dice;

static size_t roll(size_t n)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % n;
}

/* DDP: each bucket but the last reaches its limit with its last tensor and not before; tensors keep their order and
 * none is lost. */
static void ddp_rule_holds_for_random_tensors(void **state)
{
    struct bb_gradient_arrival arrivals[200];

    (void)state;
    dice = 7;
    for (int round = 0; round < 200; round++) {
        const struct bb_bucket_rule rule = {.kind = BB_BUCKETS_DDP,
                                            .first_bytes = 4.0 * (double)(1 + roll(2000)),
                                            .cap_bytes = 4.0 * (double)(1 + roll(9000))};
        int n = 1 + (int)roll(200), next = 0;
        struct bb_buckets made;

        for (int i = 0; i < n; i++)
            arrivals[i] = (struct bb_gradient_arrival){.count = 1 + roll(3000)};
        bb_buckets_make(&made, &rule, arrivals, n, 4, 1);
        for (int b = 0; b < made.n; b++) {
            double limit = b ? rule.cap_bytes : rule.first_bytes, bytes = 0, before = 0;

            for (int i = 0; i < made.list[b].n; i++) {
                assert_int_equal(made.members[made.list[b].first + i], next);
                before = bytes;
                bytes += 4.0 * (double)arrivals[next++].count;
            }
            assert_true(bytes == 4.0 * (double)made.list[b].count);
            assert_true(before < limit && (bytes >= limit || b == made.n - 1));
        }
        assert_int_equal(next, n);
        bb_buckets_release(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ddp_buckets_of_published_networks),
        cmocka_unit_test(fusion_buffers_of_published_networks),
        cmocka_unit_test(ddp_bucket_may_exceed_its_cap_by_its_last_tensor),
        cmocka_unit_test(megatron_bucket_size_depends_on_replicas_and_is_padded),
        cmocka_unit_test(deepspeed_bucket_never_exceeds_its_elements),
        cmocka_unit_test(another_type_starts_a_new_bucket),
        cmocka_unit_test(fused_tensors_are_padded),
        cmocka_unit_test(tensors_above_the_threshold_are_not_fused),
        cmocka_unit_test(fusion_skips_a_tensor_of_another_type),
        cmocka_unit_test(fuses_tensors_ready_in_the_same_cycle),
        cmocka_unit_test(no_tensors_give_no_buckets),
        cmocka_unit_test(ddp_rule_holds_for_random_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
