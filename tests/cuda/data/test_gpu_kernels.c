/*
 * test_gpu_kernels.c - the kernels of test data against the same arithmetic on the host. On emulated GPUs the CPU twins
 * run; on a real GPU (tests/gpu) the kernels run.
 */
#include "cuda/data/buffers.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/device.h"
#include "tests/check.h"

enum { COUNT = 1000 };

struct fixture {
    cudaStream_t stream;
    struct bb_guarded buf;
    struct bb_verdict *verdict;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    *state = f;
    assert_int_equal(BB_CUDA(cudaStreamCreate(&f->stream)), 0);
    assert_int_equal(bb_guarded_init(&f->buf, COUNT * 8 - 4, &bb_cuda_allocator, f->stream), 0);
    assert_int_equal(BB_CUDA(cudaMalloc((void **)&f->verdict, sizeof *f->verdict)), 0);
    assert_int_equal(bb_verdict_clear(f->verdict, f->stream), 0);
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    bb_guarded_release(&f->buf);
    assert_int_equal(BB_CUDA(cudaFree(f->verdict)), 0);
    assert_int_equal(BB_CUDA(cudaStreamDestroy(f->stream)), 0);
    free(f);
    return 0;
}

static struct bb_verdict verdict_of(const struct fixture *f)
{
    struct bb_verdict v;

    assert_int_equal(BB_CUDA(cudaStreamSynchronize(f->stream)), 0);
    assert_int_equal(BB_CUDA(cudaMemcpy(&v, f->verdict, sizeof v, cudaMemcpyDeviceToHost)), 0);
    return v;
}

static void fill_writes_the_pattern(void **state)
{
    struct fixture *f = *state;
    uint64_t host[COUNT];

    for (int type = 0; type < BB_DTYPE_COUNT; type++) {
        struct bb_pattern p = bb_pattern_of(&bb_dtypes[type], BB_SUM, 3, 5);
        size_t count = 777, bytes = bb_dtypes[type].bytes;

        assert_int_equal(bb_fill(f->buf.area, count, &p, 2, 100, f->stream), 0);
        assert_int_equal(BB_CUDA(cudaStreamSynchronize(f->stream)), 0);
        assert_int_equal(BB_CUDA(cudaMemcpy(host, f->buf.area, count * bytes, cudaMemcpyDeviceToHost)), 0);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(bb_load(host, (int)bytes, i), bb_pattern_input(&p, 2, 100 + i));
    }
}

/* Correct data pass the check. Each injected error is counted, and the index of the first one is reported. */
static void counts_injected_errors(void **state)
{
    static const size_t indices[] = {900, 17, 450};
    struct fixture *f = *state;
    struct bb_pattern p = bb_pattern_of(&bb_dtypes[BB_FLOAT], BB_COPY, 3, 5);
    struct bb_expect e = {.reduced = 0, .source = 1, .block = COUNT, .first = 0};
    struct bb_verdict v;

    assert_int_equal(bb_fill(f->buf.area, COUNT, &p, 1, 0, f->stream), 0);
    assert_int_equal(bb_check(f->buf.area, COUNT, &p, &e, f->verdict, f->stream), 0);
    v = verdict_of(f);
    assert_true(v.wrong == 0 && v.first == ~0ull && v.checked == COUNT);
    for (size_t i = 0; i < 3; i++) { /* change one byte of one element */
        unsigned char byte;
        assert_int_equal(BB_CUDA(cudaMemcpy(&byte, f->buf.area + 4 * indices[i] + 1, 1, cudaMemcpyDeviceToHost)), 0);
        byte ^= 0x10;
        assert_int_equal(BB_CUDA(cudaMemcpy(f->buf.area + 4 * indices[i] + 1, &byte, 1, cudaMemcpyHostToDevice)), 0);
    }
    assert_int_equal(bb_check(f->buf.area, COUNT, &p, &e, f->verdict, f->stream), 0);
    v = verdict_of(f);
    assert_true(v.wrong == 3 && v.first == 17 && v.checked == 2 * COUNT);
}

static void detects_writes_outside_the_area(void **state)
{
    struct fixture *f = *state;
    struct bb_verdict v;

    assert_int_equal(bb_guarded_check_guards(&f->buf, f->verdict, f->stream), 0);
    v = verdict_of(f);
    assert_true(v.wrong == 0 && v.checked >= 2 * BB_GUARD_BYTES);
    assert_int_equal(BB_CUDA(cudaMemset(f->buf.area - 1, 0, 1)), 0);
    assert_int_equal(BB_CUDA(cudaMemset(f->buf.area + f->buf.bytes, 0, 1)), 0);
    assert_int_equal(bb_guarded_check_guards(&f->buf, f->verdict, f->stream), 0);
    assert_int_equal(verdict_of(f).wrong, 2);
}

static void describes_devices_and_detects_sharing(void **state)
{
    struct bb_device_info info, pair[2];
    const int one_node[] = {0, 0}, two_nodes[] = {0, 1};

    (void)state;
    assert_int_equal(bb_device_use(0, &info), 0);
    assert_true(strlen(info.name) > 0 && strncmp(info.uuid, "GPU-", 4) == 0 && info.sm_count > 0);
    assert_true(info.memory_bytes > 0 && info.cc_major >= 7 && info.ordinal == 0);
    pair[0] = pair[1] = info;
    assert_true(bb_device_shared(pair, two_nodes, 2));
    pair[1].uuid[4] ^= 1;
    assert_true(bb_device_shared(pair, one_node, 2)); /* two MIG instances of one GPU */
    assert_false(bb_device_shared(pair, two_nodes, 2));
    pair[1].pci[6] ^= 1;
    assert_false(bb_device_shared(pair, one_node, 2));
}

static void rejects_missing_devices(void **state)
{
    struct bb_device_info info;
    struct bb_world world = {0};
    int count;

    (void)state;
    assert_int_equal(BB_CUDA(cudaGetDeviceCount(&count)), 0);
    assert_int_equal(bb_world_alone(&world, 10), 0);
    assert_int_equal(bb_device_choose(&world, count - 1, false, &info), 0);
    assert_int_equal(info.ordinal, count - 1);
    assert_int_equal(bb_device_choose(&world, count, false, &info), -BB_EUSAGE);
    assert_int_equal(bb_device_choose(&world, count, true, &info), 0);
    assert_int_equal(info.ordinal, 0);
    assert_int_equal(bb_world_release(&world, 0), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* An area of 0 bytes: no memory is allocated or accessed, and the check finds no error. */
static int alloc_nothing(void **memory, size_t bytes)
{
    (void)memory;
    fail_msg("%zu bytes were requested", bytes);
    return -1;
}

static void empty_areas_use_no_memory(void **state)
{
    struct fixture *f = *state;
    const struct bb_allocator none = {.name = "none", .alloc = alloc_nothing};
    struct bb_guarded b;

    assert_int_equal(bb_guarded_place(&b, NULL, 0, f->stream), 0);
    assert_true(b.area == NULL && b.bytes == 0);
    assert_int_equal(bb_guarded_init(&b, 0, &none, f->stream), 0);
    assert_int_equal(bb_guarded_check_guards(&b, f->verdict, f->stream), 0);
    assert_int_equal(verdict_of(f).wrong, 0);
    bb_guarded_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fill_writes_the_pattern),
        TEST(counts_injected_errors),
        TEST(detects_writes_outside_the_area),
        TEST(empty_areas_use_no_memory),
        cmocka_unit_test(describes_devices_and_detects_sharing),
        cmocka_unit_test(rejects_missing_devices),
    };

    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return cudaDeviceReset() != cudaSuccess || failed; /* compute-sanitizer reports leaks when the context ends */
}
