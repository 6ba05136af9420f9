/* test_number_units.c - bb_cluster_warn_units warns about each profile number that is likely in another unit, and
 * does not warn about the numbers of real machines, including the oldest and the next generation. */
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include "proxies/form/models/profile.h"
#include "proxies/simulation/machine/cluster.h"

#include <math.h>

enum { RING_SIMPLE = 2 }; /* index of ring + Simple in the variants of h100-sxm-ib */

/* Plausible values of each number: an old GPU in a 1 Gb/s network, a future GPU, and H100. The H100 value times each
 * of `wrong` is a value in another unit. */
static const struct profile_number {
    const char *name;
    size_t offset;
    double old, next, h100, wrong[2];
} numbers[] = {
    {"launch_us", offsetof(struct bb_cluster, launch_us), 20, 0.5, 2.5, {1e3, 1e-3}},
    {"nccl_launch_us", offsetof(struct bb_cluster, nccl_launch_us), 50, 0.5, 5, {1e3, 1e-3}},
    {"kernel_us", offsetof(struct bb_cluster, kernel_us), 10, 0.5, 2, {1e3, 1e-3}},
    {"memory_gbps", offsetof(struct bb_cluster, memory_gbps), 160, 22e3, 3350, {1e3, 1e-3}},
    {"memory_bytes", offsetof(struct bb_cluster, memory_bytes), 4e9, 1e12, 84.9e9, {1e3, 1e-9}},
    {"tflops.float32", offsetof(struct bb_cluster, tflops_float32), 1, 400, 67, {1e3, 1e-3}},
    {"tflops.float16", offsetof(struct bb_cluster, tflops_float16), 1.5, 8e3, 989, {1e3, 1e-3}},
    {"tflops.bfloat16", offsetof(struct bb_cluster, tflops_bfloat16), 1.5, 8e3, 989, {1e3, 1e-3}},
    {"tflops.float8", offsetof(struct bb_cluster, tflops_float8), 30, 17e3, 1979, {1e3, 1e-3}},
    {"achieved.gemm", offsetof(struct bb_cluster, achieved.gemm), 0.3, 1, 0.66, {100, 0.01}},
    {"achieved.gemm_float8", offsetof(struct bb_cluster, achieved.gemm_float8), 0.3, 1, 0.55, {100, 0.01}},
    {"achieved.attention_forward", offsetof(struct bb_cluster, achieved.attention_forward), 0.1, 1, 0.58, {100, 0.01}},
    {"achieved.attention_backward",
     offsetof(struct bb_cluster, achieved.attention_backward),
     0.1,
     1,
     0.48,
     {100, 0.01}},
    {"achieved.memory", offsetof(struct bb_cluster, achieved.memory), 0.3, 1, 0.85, {100, 0.01}},
    {"intra.latency_us", offsetof(struct bb_cluster, intra.latency_us), 30, 0.5, 3, {1e3, 1e-3}},
    {"intra.gbps", offsetof(struct bb_cluster, intra.gbps), 1, 1800, 330, {1e3, 1e-3}},
    {"inter.latency_us", offsetof(struct bb_cluster, inter.latency_us), 60, 0.5, 6, {1e3, 1e-3}},
    {"inter.gbps", offsetof(struct bb_cluster, inter.gbps), 0.11, 145, 48.5, {8, 1e-3}},
    {"nccl.ring.Simple.base_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].base_us), 30, 0.5, 8.4, {1e3, 1e-3}},
    {"nccl.ring.Simple.intra_us",
     offsetof(struct bb_cluster, variants[RING_SIMPLE].intra_us),
     10,
     0.1,
     3.4,
     {1e3, 1e-3}},
    {"nccl.ring.Simple.inter_us",
     offsetof(struct bb_cluster, variants[RING_SIMPLE].inter_us),
     60,
     0.1,
     14,
     {1e3, 1e-4}},
    {"nccl.ring.Simple.gbps", offsetof(struct bb_cluster, variants[RING_SIMPLE].gbps), 1, 1800, 370, {1e3, 1e-3}},
    {"nccl.ring.Simple.nic", offsetof(struct bb_cluster, variants[RING_SIMPLE].nic), 0.1, 1, 1, {100, 1e-3}},
    {"nccl.ring.Simple.chunk_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].chunk_us), 30, 0.5, 5, {1e3, 1e-3}},
};

static void set(struct bb_cluster *c, const struct profile_number *f, double value)
{
    *(double *)(void *)((char *)c + f->offset) = value;
}

static void assert_warning(const struct bb_cluster *c, const struct profile_number *f)
{
    struct capture output;
    char expected[128] = "";

    capture_begin(&output);
    bb_cluster_warn_units(c);
    capture_end(&output);
    if (f)
        snprintf(expected, sizeof(expected), "busbar: warning: cluster 'h100-sxm-ib': '%s' is ", f->name);
    if (strncmp(output.text, expected, strlen(expected)) != 0 ||
        strchr(output.text, '\n') != (f ? strrchr(output.text, '\n') : NULL))
        fail_msg("%s: %s", f ? f->name : "none", output.text);
}

static void warns_about_each_number_in_another_unit(void **state)
{
    struct bb_cluster h100, c;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &h100), 0);
    assert_warning(&h100, NULL);
    for (size_t i = 0; i < ROWS(numbers); i++)
        for (size_t k = 0; k < ROWS(numbers[i].wrong); k++) {
            c = h100;
            set(&c, &numbers[i], numbers[i].h100 * numbers[i].wrong[k]);
            assert_warning(&c, &numbers[i]);
        }
}

static void accepts_numbers_of_real_machines(void **state)
{
    struct bb_cluster old, next;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &old), 0);
    for (int w = 0; w < old.n_variants; w++) /* of links of 1 GB/s */
        old.variants[w].gbps = fmin(old.variants[w].gbps, 1);
    next = old;
    for (size_t i = 0; i < ROWS(numbers); i++) {
        set(&old, &numbers[i], numbers[i].old);
        set(&next, &numbers[i], numbers[i].next);
    }
    assert_warning(&old, NULL);
    assert_warning(&next, NULL);
}

/* NVLink of A100 has 300 GB/s, that of H100 450. Where NVSwitches reduce, each of eight GPUs sends 9/8 of the bytes, of which the
 * bus bandwidth counts 14/8. */
static void warns_about_variants_that_links_cannot_carry(void **state)
{
    static const struct {
        const char *cluster;
        double links, factor; /* of intra.gbps; of all variants' rates */
        bool calibrated;
        const char *named;
    } rows[] = {
        {"a100-sxm-ib", 1, 300. / 235, false, NULL}, /* the ring at the raw rate of the links */
        {"h100-sxm-ib", 1, 450. / 370, false, NULL},
        {"h100-sxm-ib", 1, 14. / 9 * 450 / 524, false, NULL}, /* NVLS at the raw rate */
        {"a100-sxm-ib", 120. / 195, 1, false, "'nccl.ring.Simple.gbps' is 235, but links of 120 GB/s"},
        {"h100-sxm-ib", 0.5, 1, false, "'nccl.ring.Simple.gbps' is 370, but links of 165 GB/s"},
        {"h100-sxm-ib", 0.5, 1, true, NULL},
        {"h100-sxm-sharp", 1, 2, false, "'nccl.ring.Simple.gbps' is 740, but links of 330 GB/s"},
        {"l40s-pcie-ib", 0.5, 1, false, "'nccl.ring.Simple.gbps' is 20, but links of 10 GB/s"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct capture output;
        struct bb_cluster c;

        assert_int_equal(bb_cluster_load(rows[i].cluster, &c), 0);
        c.intra.gbps *= rows[i].links;
        c.is_calibrated = rows[i].calibrated;
        for (int w = 0; w < c.n_variants; w++)
            c.variants[w].gbps *= rows[i].factor;
        capture_begin(&output);
        bb_cluster_warn_units(&c);
        capture_end(&output);
        if (rows[i].named ? !strstr(output.text, rows[i].named) || strchr(output.text, '\n')[1] : *output.text != '\0')
            fail_msg("row %zu: %s", i, output.text);
    }
}

static void no_shipped_profile_has_a_warning(void **state)
{
    const char *name;

    (void)state;
    for (size_t i = 0; (name = bb_cluster_name_at(i)); i++) {
        struct bb_cluster c;

        assert_int_equal(bb_cluster_load(name, &c), 0);
        assert_warning(&c, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(warns_about_each_number_in_another_unit),
                                       cmocka_unit_test(accepts_numbers_of_real_machines),
                                       cmocka_unit_test(warns_about_variants_that_links_cannot_carry),
                                       cmocka_unit_test(no_shipped_profile_has_a_warning)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
