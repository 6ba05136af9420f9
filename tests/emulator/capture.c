/*
 * capture.c - streams that are being captured.
 */
#include "internal.h"
#include <stdlib.h>

cudaError_t emu_capture_op_locked(struct CUstream_st *s, const struct emu_op *op)
{
    (void)s, (void)op;
    return cudaErrorNotSupported;
}
cudaError_t emu_capture_joined_locked(struct CUstream_st *const *s, int n, const struct emu_op *op)
{
    (void)s, (void)op, (void)n;
    return cudaErrorNotSupported;
}
cudaError_t emu_capture_record_locked(struct CUstream_st *s, cudaEvent_t event, bool external)
{
    (void)s, (void)event, (void)external;
    return cudaErrorNotSupported;
}
cudaError_t emu_capture_wait_locked(struct CUstream_st *s, cudaEvent_t event, bool external)
{
    (void)s, (void)event, (void)external;
    return cudaErrorNotSupported;
}
cudaError_t emu_capture_refuses_locked(struct CUstream_st *s)
{
    (void)s;
    return cudaSuccess;
}
cudaError_t emu_capture_unsafe(void)
{
    return cudaSuccess;
}
void emu_front_clear(struct emu_front *front)
{
    free(front->nodes);
    *front = (struct emu_front){0};
}
void emu_body_unref_locked(struct emu_graph_body *body)
{
    (void)body;
}
void emu_forget_captures_locked(struct CUstream_st *s)
{
    (void)s;
}
