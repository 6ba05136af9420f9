/* test_gpu_start_barrier.c - a closed start barrier holds later operations, an open one releases them, and a start
 * barrier that the host does not open opens after its timeout. */
#include "cuda/compute/start_barrier.h"
#include "cuda/data/kernels.h"
#include "tests/check.h"

#define OK(call) assert_int_equal((call), cudaSuccess)

struct fixture {
    cudaStream_t stream;
    unsigned char *buf;
    struct bb_start_barrier start_barrier;
};

static void setup(struct fixture *r, int64_t limit_ns)
{
    OK(cudaStreamCreateWithFlags(&r->stream, cudaStreamNonBlocking));
    OK(cudaMalloc((void **)&r->buf, 64));
    OK(cudaMemsetAsync(r->buf, 0, 64, r->stream));
    OK(cudaStreamSynchronize(r->stream));
    assert_int_equal(bb_start_barrier_init(&r->start_barrier, limit_ns), 0);
}

static void teardown(struct fixture *r)
{
    OK(cudaStreamSynchronize(r->stream));
    bb_start_barrier_release(&r->start_barrier);
    bb_start_barrier_release(&r->start_barrier); /* a second release has no effect */
    OK(cudaFree(r->buf));
    OK(cudaStreamDestroy(r->stream));
}

static unsigned char byte_of(const struct fixture *r, cudaStream_t stream)
{
    unsigned char byte;

    OK(cudaMemcpyAsync(&byte, r->buf, 1, cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    return byte;
}

/* A second stream reads the buffer while the start barrier is closed. */
static void closed_start_barrier_holds_later_operations(void **state)
{
    struct fixture r;
    cudaStream_t other;

    (void)state;
    setup(&r, 60000000000);
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (unsigned char round = 1; round <= 3; round++) {
        assert_int_equal(bb_start_barrier_close(&r.start_barrier, r.stream), 0);
        OK(cudaMemsetAsync(r.buf, round, 64, r.stream));
        assert_int_equal(byte_of(&r, other), round - 1);
        assert_int_equal(cudaStreamQuery(r.stream), cudaErrorNotReady);
        bb_start_barrier_open(&r.start_barrier);
        OK(cudaStreamSynchronize(r.stream));
        assert_int_equal(byte_of(&r, other), round);
        assert_false(bb_start_barrier_expired(&r.start_barrier));
    }
    OK(cudaStreamDestroy(other));
    teardown(&r);
}

static void start_barrier_opens_after_its_timeout(void **state)
{
    struct fixture r;

    (void)state;
    setup(&r, 2000000);
    assert_false(bb_start_barrier_expired(&r.start_barrier));
    assert_int_equal(bb_start_barrier_close(&r.start_barrier, r.stream), 0);
    OK(cudaMemsetAsync(r.buf, 9, 64, r.stream));
    assert_int_equal(byte_of(&r, r.stream), 9);
    assert_true(bb_start_barrier_expired(&r.start_barrier));
    assert_int_equal(bb_start_barrier_close(&r.start_barrier, r.stream), 0); /* closing again clears the expired
                                                                                state */
    bb_start_barrier_open(&r.start_barrier);
    OK(cudaStreamSynchronize(r.stream));
    assert_false(bb_start_barrier_expired(&r.start_barrier));
    teardown(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_start_barrier_holds_later_operations),
        cmocka_unit_test(start_barrier_opens_after_its_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
