/*
 * runner.c - creates and releases the objects that a step program needs: communicators, streams, events, buffers, the
 * lists of operations that are launched together, and NVTX names. step_issue.c runs the steps.
 */
#include "proxies/runner/run/runner.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "cuda/data/buffers.h"
#include "cuda/device/check.h"
#include "cuda/device/device.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- peers and buffer addresses ---- */

int bb_runner_peer(const struct bb_runner *r, const struct bb_op *op)
{
    const struct bb_comm *c = &r->comms[op->comm];

    return bb_op_peer(op, c->rank, c->size);
}

static void *operand_address(const struct bb_runner *r, const struct bb_op *op, int buffer, size_t offset)
{
    unsigned char *area = bb_device_buffers_at(&r->areas, buffer);

    return area ? area + offset * bb_dtypes[op->dtype].bytes : NULL;
}

void *bb_runner_src(const struct bb_runner *r, const struct bb_op *op)
{
    return operand_address(r, op, op->src, op->src_offset);
}

void *bb_runner_dst(const struct bb_runner *r, const struct bb_op *op)
{
    return operand_address(r, op, op->dst, op->dst_offset);
}

/* ---- waits that end with an error after the run's timeout ---- */

/* Returns the error of the first failed communicator, or 0. Every wait calls this function repeatedly, so the wait
 * ends at once if a communicator fails, for example because a peer died. */
static int check_comms(void *arg)
{
    struct bb_runner *r = arg;
    int rc = r->all_ranks.nccl ? bb_comm_check(&r->all_ranks) : 0;

    for (int c = 0; rc == 0 && c < r->layout->n_comms; c++)
        if (r->comms[c].nccl)
            rc = bb_comm_check(&r->comms[c]);
    return rc;
}

/* The host polls the CUDA event until it completes. cudaEventSynchronize then returns at once; it is called because
 * CUDA documents it as required before the time of an event is read. */
int bb_runner_wait_event(struct bb_runner *r, cudaEvent_t event, const char *what)
{
    char text[160];
    int rc;

    snprintf(text, sizeof(text), "%s%s", what, r->requirements);
    rc = bb_event_wait(r->world, event, text, check_comms, r);
    return rc ? rc : BB_CUDA(cudaEventSynchronize(event));
}

int bb_runner_wait(struct bb_runner *r, cudaStream_t stream, const char *what)
{
    return bb_stream_wait(r->world, stream, what, check_comms, r);
}

/* ---- division of the program into launch batches (operations launched together) and lanes (those on one stream)
 * ---- */

/* Adds a lane (the operations of a launch batch on one stream) for the stream of `op` to `batch`, unless `batch`
 * already has one. Only the most recently created launch batch can be extended. */
static void add_to_lane(struct bb_runner *r, struct bb_batch *batch, const struct bb_op *op)
{
    for (int i = batch->lane; i < batch->lane + batch->lanes; i++)
        if (r->lanes[i].stream == op->stream)
            return;
    r->lanes[r->n_lanes++] = (struct bb_lane){.batch = r->n_batches - 1, .stream = op->stream, .comm = op->comm};
    batch->lanes++;
}

static void split_into_batches(struct bb_runner *r)
{
    const struct bb_op *ops = r->program->ops;

    for (int i = 0; i < (int)r->program->n_ops; i++) {
        bool joins = i > 0 && ops[i].call != BB_NONE && ops[i].call == ops[i - 1].call;
        struct bb_batch *batch = &r->batches[joins ? r->n_batches - 1 : r->n_batches++];

        if (!joins) {
            r->n_sections += i == 0 || ops[i].phase != ops[i - 1].phase || ops[i].micro_batch != ops[i - 1].micro_batch;
            *batch = (struct bb_batch){.first = i, .lane = r->n_lanes, .section = r->n_sections - 1};
        }
        batch->n++;
        add_to_lane(r, batch, &ops[i]);
    }
}

static void make_arrays(struct bb_runner *r)
{
    size_t n = r->program->n_ops;

    BB_NEW(r->batches, n);
    BB_NEW(r->lanes, n);
    BB_NEW(r->done, n);
    BB_NEW(r->op_ranges, n);
    BB_NEW(r->section_ranges, n);
    BB_NEW(r->streams, r->program->n_streams);
    BB_NEW(r->last, r->program->n_streams);
    BB_NEW(r->kernel_lists, n);
}

/* ---- CUDA objects ---- */

/* Creates the streams. Communication streams get the highest priority, so that NCCL kernels are scheduled before the
 * remaining thread blocks of compute kernels. */
static int make_streams(struct bb_runner *r)
{
    int rc, least, greatest;

    TRY(BB_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest)));
    for (int i = 0; i < r->program->n_streams; i++) {
        const struct bb_stream_spec *s = &r->program->streams[i];
        int priority = s->comm == BB_NONE ? least : greatest;

        TRY(BB_CUDA(cudaStreamCreateWithPriority(&r->streams[i], cudaStreamNonBlocking, priority)));
        TRY(BB_CUDA(cudaEventCreateWithFlags(&r->last[i], cudaEventDisableTiming)));
        bb_nvtx_name_stream(&r->nvtx, r->streams[i], s->name);
    }
    TRY(BB_CUDA(cudaStreamCreateWithPriority(&r->join, cudaStreamNonBlocking, greatest)));
    bb_nvtx_name_stream(&r->nvtx, r->join, "step");
    TRY(BB_CUDA(cudaEventCreateWithFlags(&r->fork, cudaEventDisableTiming)));
    TRY(BB_CUDA(cudaEventCreate(&r->ready)));
    TRY(BB_CUDA(cudaEventCreate(&r->begin)));
    TRY(BB_CUDA(cudaEventCreate(&r->first)));
    TRY(BB_CUDA(cudaEventCreate(&r->end)));
    bb_nvtx_name_event(&r->nvtx, r->begin, "step begin");
    bb_nvtx_name_event(&r->nvtx, r->end, "step end");
out:
    return rc;
}

static int make_done_events(struct bb_runner *r)
{
    const struct bb_program *p = r->program;
    char name[BB_OP_NAME];
    int rc = 0;

    for (size_t i = 0; i < p->n_waits; i++) {
        int op = p->wait_list[i];

        if (r->done[op])
            continue;
        TRY(BB_CUDA(cudaEventCreateWithFlags(&r->done[op], cudaEventDisableTiming)));
        bb_nvtx_name_event(&r->nvtx, r->done[op], bb_op_name(r->layout, &p->ops[op], name));
    }
out:
    return rc;
}

int bb_runner_trace(struct bb_runner *r)
{
    int rc = 0;

    for (int i = 0; i < r->n_lanes; i++) {
        if (r->lanes[i].end)
            continue;
        TRY(BB_CUDA(cudaEventCreate(&r->lanes[i].begin)));
        TRY(BB_CUDA(cudaEventCreate(&r->lanes[i].end)));
    }
out:
    return rc;
}

/* Stores the distinct kernel lists (GEMMs and memory-bound kernels of a compute operation) of the program in
 * r->kernel_lists. */
static void list_kernel_lists(struct bb_runner *r)
{
    for (size_t i = 0; i < r->program->n_ops; i++) {
        const struct bb_kernel_list *work = r->program->ops[i].work;
        int known = 0;

        while (work && known < r->n_kernel_lists && r->kernel_lists[known] != work)
            known++;
        if (work && known == r->n_kernel_lists)
            r->kernel_lists[r->n_kernel_lists++] = work;
    }
}

struct fit {
    size_t need, available; /* need: bytes of GPU memory that the program needs on a rank; available: free bytes */
};

/* Prints an error that suggests another layout and fewer layers if the proxy has options for them (the grid of a
 * transformer has an axis cp, a pipeline several stages), and a value for --scale-counts: (available memory / needed memory) to the power of 3/2,
 * rounded down. The memory is assumed to shrink more slowly than this factor, as halo buffers (the surface of a
 * cube) shrink more slowly than the counts (its volume). */
static int report_memory(const struct bb_runner *r, const struct fit *f)
{
    double factor = pow((double)f->available / (double)f->need, 1.5);
    double unit = pow(10, floor(log10(factor > 1e-12 ? factor : 1e-12)));
    char help[320], work[BB_BYTES_TEXT], less[120] = "";
    const char *layout = "";

    if (r->n_kernel_lists)
        snprintf(less, sizeof(less),
                 "; GEMMs and memory-bound kernels need %s of it, --compute timed or none does not run them",
                 bb_format_bytes(bb_kernel_runner_bytes(r->kernel_lists, r->n_kernel_lists), work));
    for (int g = 0; g < r->layout->n_groups; g++)
        if (strcmp(r->layout->groups[g].name, "pp") == 0 && r->layout->groups[g].size > 1)
            layout = "fewer layers and more stages, or ";
    for (int a = 0; a < r->layout->n_axes; a++)
        if (strcmp(r->layout->axes[a].name, "cp") == 0)
            layout = "larger --tp or --pp, smaller --layers, or ";
    snprintf(help, sizeof(help),
             "try: %s--scale-counts %g (exposed and hidden times are then not those of the model)%s", layout,
             floor(factor / unit) * unit, less);
    return bb_memory_refuse(f->need, f->available, help);
}

/* Compares, on all ranks and before the buffers are allocated, the bytes that the program needs with the free GPU memory. The
 * lowest rank with too little memory prints an error, and all ranks return this error. */
static int check_memory(struct bb_runner *r, size_t need)
{
    struct fit mine = {.need = need}, *all = NULL;
    int rc;

    TRY(bb_device_free_bytes(&mine.available, r->world->size > 1));
    all = bb_world_gather(r->world, &mine, sizeof(mine), &rc);
    TRY(rc);
    for (int i = 0; i < r->world->size; i++) {
        if (all[i].need <= all[i].available)
            continue;
        rc = i == r->world->rank ? report_memory(r, &mine) : -BB_EUSAGE;
        break;
    }
out:
    free(all);
    return rc;
}

static int make_memory(struct bb_runner *r)
{
    const struct bb_program *p = r->program;
    size_t *bytes;
    int rc;

    BB_NEW(bytes, p->n_buffers);
    for (int i = 0; i < p->n_buffers; i++)
        bytes[i] = p->buffers[i].count * bb_dtypes[p->buffers[i].dtype].bytes;
    TRY(check_memory(r, r->memory->device_bytes(bb_device_buffers_cost(bytes, p->n_buffers)) +
                            (r->n_kernel_lists ? bb_kernel_runner_bytes(r->kernel_lists, r->n_kernel_lists) : 0)));
    TRY(bb_device_buffers_init(&r->areas, bytes, p->n_buffers, r->memory, r->join));
    if (r->n_kernel_lists)
        TRY(bb_kernel_runner_init(&r->worker, r->kernel_lists, r->n_kernel_lists, BB_GEMM_TUNED, r->streams[0]));
    TRY(bb_gemms_agree(r->world, r->worker.gemms, r->worker.n_gemms));
    TRY(BB_CUDA(cudaMalloc((void **)&r->start_element, sizeof(*r->start_element))));
    TRY(BB_CUDA(cudaMemsetAsync(r->start_element, 0, sizeof(*r->start_element), r->join)));
    TRY(bb_runner_wait(r, r->join, "buffers"));
out:
    free(bytes);
    return rc;
}

/* ---- communicators ---- */

/* Creates the communicators of the step as blocking communicators. With non-blocking communicators NCCL passes each
 * call to another thread, which adds tens of microseconds of host time per call, and the step time is often limited
 * by the host. Hangs in NCCL calls are detected by time limits (guards, see step_issue.c). */
static int make_comms(struct bb_runner *r)
{
    static const struct bb_comm_opts polled = {0}, blocking = {.blocking = true};
    const struct bb_layout *l = r->layout;
    struct bb_world *w = r->world;
    unsigned used = 0; /* bit c: communicator c is used by at least one rank. All members must take part in creating a
                          communicator, even those that do not use it. */
    int rc, *members;

    BB_NEW(members, w->size);
    for (size_t i = 0; i < r->program->n_ops; i++)
        if (r->program->ops[i].comm != BB_NONE)
            used |= 1u << r->program->ops[i].comm;
    TRY(bb_world_any(w, &used));
    for (int c = 0; c < l->n_comms; c++) {
        const struct bb_comm_spec *spec = &l->comms[c];
        const int size = l->groups[spec->group].size, instance = bb_group_instance(l, spec->group, w->rank);
        const int own = instance == BB_NONE ? 0 : size; /* number of members of this rank's communicator */

        for (int i = 0; i < own; i++)
            members[i] = bb_group_member(l, spec->group, instance, i);
        if (used & 1u << c)
            TRY(bb_comm_init(&r->comms[c], w, spec->name, members, own, &blocking));
    }
    if (w->size > 1)
        TRY(bb_comm_init(&r->all_ranks, w, "everyone", NULL, w->size, &polled));
out:
    free(members);
    return rc;
}

/* ---- NVTX names for profilers ---- */

/* Returns the NVTX category of an operation: its communicator's group; 0 (no category) for compute. */
static uint32_t comm_category(const struct bb_runner *r, const struct bb_op *op)
{
    return op->comm == BB_NONE ? 0 : (uint32_t)r->layout->comms[op->comm].group + 1;
}

static void name_section(struct bb_runner *r, int section, const struct bb_op *op)
{
    struct bb_range *range = &r->section_ranges[section];

    if (op->micro_batch == BB_NONE)
        bb_range_init(&r->nvtx, range, 0, 0, "%s", bb_phase_names[op->phase]);
    else
        bb_range_init(&r->nvtx, range, 0, 0, "%s micro-batch %d", bb_phase_names[op->phase], op->micro_batch);
}

static void name_all(struct bb_runner *r)
{
    const struct bb_layout *l = r->layout;
    char text[BB_OP_NAME];

    for (int c = 0; c < r->n_batches; c++) {
        struct bb_batch *batch = &r->batches[c];

        snprintf(batch->what, sizeof(batch->what), "%s",
                 bb_call_name(l, &r->program->ops[batch->first], batch->n, text));
    }
    if (!bb_nvtx_enabled(&r->nvtx))
        return;
    bb_nvtx_name_thread(&r->nvtx, "busbar issue");
    for (int g = 0; g < l->n_groups; g++)
        bb_nvtx_category(&r->nvtx, (uint32_t)g + 1, l->groups[g].name);
    for (int c = 0; c < r->n_batches; c++) {
        struct bb_batch *batch = &r->batches[c];
        const struct bb_op *op = &r->program->ops[batch->first];

        if (c == 0 || batch->section != r->batches[c - 1].section)
            name_section(r, batch->section, op);
        if (batch->n > 1)
            bb_range_init(&r->nvtx, &batch->range, comm_category(r, op), 0, "%s", batch->what);
    }
    for (size_t i = 0; i < r->program->n_ops; i++) {
        const struct bb_op *op = &r->program->ops[i];

        bb_range_init(&r->nvtx, &r->op_ranges[i], comm_category(r, op),
                      bb_op_payload_bytes(op, bb_op_group_size(l, op)), "%s", bb_op_name(l, op, text));
    }
}

/* ---- initialization and release ---- */

int bb_runner_init(struct bb_runner *r, struct bb_world *w, const struct bb_layout *layout,
                   const struct bb_program *program, const struct bb_allocator *memory)
{
    int rc;

    *r = (struct bb_runner){.world = w, .layout = layout, .program = program, .memory = memory, .slowdown = 1};
    r->native = bb_native_find();
    bb_nvtx_init(&r->nvtx);
    bb_world_reached(w, "the streams of a step");
    make_arrays(r);
    split_into_batches(r);
    TRY(make_streams(r));
    list_kernel_lists(r);
    TRY(make_comms(r)); /* before the buffers, which use the memory that the communicators leave */
    bb_world_reached(w, "the GEMMs and buffers of a step");
    TRY(make_memory(r));
    TRY(make_done_events(r));
    name_all(r);
out:
    return rc;
}

static void release_cuda(struct bb_runner *r)
{
    bb_world_reached(r->world, "the release of streams, GEMMs and buffers");
    for (int i = 0; i < r->n_lanes; i++) {
        bb_event_destroy(r->lanes[i].begin);
        bb_event_destroy(r->lanes[i].end);
    }
    for (size_t i = 0; r->done && i < r->program->n_ops; i++)
        bb_event_destroy(r->done[i]);
    for (int i = 0; r->streams && r->last && i < r->program->n_streams; i++) {
        bb_event_destroy(r->last[i]);
        bb_stream_destroy(r->streams[i]);
    }
    if (r->start_barrier.flags)
        bb_start_barrier_release(&r->start_barrier);
    bb_event_destroy(r->fork);
    bb_event_destroy(r->ready);
    bb_event_destroy(r->begin);
    bb_event_destroy(r->first);
    bb_event_destroy(r->end);
    bb_stream_destroy(r->join);
    bb_device_buffers_release(&r->areas);
    if (r->n_kernel_lists)
        bb_kernel_runner_release(&r->worker);
    if (r->start_element)
        (void)cudaFree(r->start_element);
    if (r->busy.scratch)
        (void)cudaFree(r->busy.scratch);
}

/* Finalizes the communicator if rc is 0. After an error (rc < 0) aborts it instead, because the other ranks may
 * never finalize theirs. Returns rc, or the error of the finalization. */
static int end_comm(struct bb_comm *c, int rc)
{
    if (rc == 0)
        return bb_comm_finalize(c);
    bb_comm_abort(c);
    return rc;
}

int bb_runner_set_busy(struct bb_runner *r, int sms, double gbps)
{
    enum {
        SCRATCH_BYTES = 256 << 20
    }; /* several times the L2 cache of any GPU, so that the kernels' traffic reaches GPU memory */

    r->busy.sms = sms;
    r->busy.gbps = gbps;
    if (gbps <= 0)
        return 0;
    r->busy.scratch_bytes = SCRATCH_BYTES;
    return BB_CUDA(cudaMalloc(&r->busy.scratch, SCRATCH_BYTES));
}

/* Measures the duration of kernel list `i` running alone, after one untimed run. Uses the events `begin` and `end`
 * of the step. */
static int time_kernel_list(struct bb_runner *r, int i, int64_t *ns)
{
    const cudaStream_t stream = r->streams[0];
    double us;
    int rc;

    TRY(bb_kernel_runner_run(&r->worker, i, stream));
    TRY(BB_CUDA(cudaEventRecord(r->begin, stream)));
    TRY(bb_kernel_runner_run(&r->worker, i, stream));
    TRY(BB_CUDA(cudaEventRecord(r->end, stream)));
    TRY(bb_runner_wait_event(r, r->end, "the kernels of a slow rank"));
    TRY(bb_event_us(r->begin, r->end, &us));
    *ns = llround(us * 1e3);
out:
    return rc;
}

int bb_runner_set_slow(struct bb_runner *r, const struct bb_slow *slow)
{
    int rc = 0;

    r->slowdown = bb_slow_compute_factor(slow, r->world->rank, r->world->node);
    r->delay_ns = bb_slow_delay_ns(slow, r->world->rank);
    if (r->slowdown <= 1)
        return 0;
    BB_NEW(r->list_ns, r->n_kernel_lists);
    for (int i = 0; i < r->n_kernel_lists; i++)
        TRY(time_kernel_list(r, i, &r->list_ns[i]));
out:
    return rc;
}

int bb_runner_release(struct bb_runner *r, int rc)
{
    if (r->graph && rc == 0) /* the graph is destroyed before the communicators, because the graph uses resources of
                                the communicators */
        rc = BB_CUDA(cudaGraphExecDestroy(r->graph));
    for (int c = 0; r->layout && c < r->layout->n_comms; c++)
        if (r->comms[c].nccl)
            rc = end_comm(&r->comms[c], rc);
    if (r->all_ranks.nccl)
        rc = end_comm(&r->all_ranks, rc);
    /* After an error the GPU may hang, and cudaFree would wait for it, so memory is released by the end of the
     * process. */
    if (r->world && rc == 0)
        release_cuda(r);
    bb_nvtx_release(&r->nvtx);
    free(r->kernel_lists);
    free(r->list_ns);
    free(r->batches);
    free(r->lanes);
    free(r->done);
    free(r->last);
    free(r->streams);
    free(r->op_ranges);
    free(r->section_ranges);
    *r = (struct bb_runner){0};
    return rc;
}
