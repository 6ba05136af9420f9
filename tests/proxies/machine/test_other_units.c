/* test_other_units.c - a profile's figure that was typed in another unit is told, each by its name; machines as they
 * are, the oldest and the next ones among them, are not. */
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include "proxies/machine/cluster.h"

enum { RING_SIMPLE = 2 }; /* of H100's ways */

/* Of an old GPU in a network of 1 Gb/s, of one that is yet to come, and of H100: times `wrong` its unit is another. */
static const struct figure {
    const char *name;
    size_t at;
    double old, next, h100, wrong[2];
} figures[] = {
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
    {"achieved.gemm_float8", offsetof(struct bb_cluster, achieved.gemm_float8), 0.3, 1, 0.585, {100, 0.01}},
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
    {"inter.gbps", offsetof(struct bb_cluster, inter.gbps), 0.11, 400, 48.5, {1e3, 1e-3}},
    {"nccl.ring.Simple.base_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].base_us), 30, 0.5, 8.4, {1e3, 1e-3}},
    {"nccl.ring.Simple.intra_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].intra_us), 10, 0.1, 3.4, {1e3, 1e-3}},
    {"nccl.ring.Simple.inter_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].inter_us), 60, 0.1, 14, {1e3, 1e-4}},
    {"nccl.ring.Simple.gbps", offsetof(struct bb_cluster, variants[RING_SIMPLE].gbps), 1, 1800, 370, {1e3, 1e-3}},
    {"nccl.ring.Simple.nic", offsetof(struct bb_cluster, variants[RING_SIMPLE].nic), 0.1, 1, 1, {100, 1e-3}},
    {"nccl.ring.Simple.chunk_us", offsetof(struct bb_cluster, variants[RING_SIMPLE].chunk_us), 30, 0.5, 5, {1e3, 1e-3}},
};

static void set(struct bb_cluster *c, const struct figure *f, double value)
{
    *(double *)(void *)((char *)c + f->at) = value;
}

static void said_is(const struct bb_cluster *c, const struct figure *f)
{
    struct capture said;
    char words[128] = "";

    capture_begin(&said);
    bb_cluster_warn_units(c);
    capture_end(&said);
    if (f)
        snprintf(words, sizeof(words), "busbar: warning: cluster 'h100-sxm-ib': '%s' is ", f->name);
    if (strncmp(said.text, words, strlen(words)) != 0 ||
        strchr(said.text, '\n') != (f ? strrchr(said.text, '\n') : NULL))
        fail_msg("%s: %s", f ? f->name : "none", said.text);
}

static void each_in_another_unit_is_told(void **state)
{
    struct bb_cluster h100, c;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &h100), 0);
    said_is(&h100, NULL);
    for (size_t i = 0; i < ROWS(figures); i++)
        for (size_t k = 0; k < ROWS(figures[i].wrong); k++) {
            c = h100;
            set(&c, &figures[i], figures[i].h100 * figures[i].wrong[k]);
            said_is(&c, &figures[i]);
        }
}

static void what_there_is_is_not_told(void **state)
{
    struct bb_cluster old, next;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &old), 0);
    next = old;
    for (size_t i = 0; i < ROWS(figures); i++) {
        set(&old, &figures[i], figures[i].old);
        set(&next, &figures[i], figures[i].next);
    }
    said_is(&old, NULL);
    said_is(&next, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_in_another_unit_is_told),
                                       cmocka_unit_test(what_there_is_is_not_told)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
