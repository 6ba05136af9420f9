/* verify.c - verification of received data. The GPU of each rank compares the data and counts wrong elements; the
 * host reads only the first wrong element. */
#include "collectives/measure/bench_context.h"

#include "cuda/device/check.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char CANARY = 0x5a;

/* Result of the verification on one rank. Plain data without pointers, so that ranks can exchange the struct. */
struct finding {
    /* counts of elements and guard bytes. wrong: with a wrong value; checked: compared on the GPU; expected: to be
     * compared in a complete verification */
    unsigned long long wrong, checked, expected;
    struct bb_wrong_element first;
};

/* The last slot of the arena (the buffers of one operation), whose data are verified, and the pattern of its data. */
struct slot {
    struct bb_bench_context *ctx;
    const struct bb_case *c;
    unsigned char *area;
    struct bb_buffer_layout l;
    struct bb_pattern pattern;
};

static struct slot last_slot(struct bb_bench_context *ctx, const struct bb_case *c)
{
    const struct bb_buffer_layout l = bb_buffer_layout_of(c, ctx->comm->rank);

    return (struct slot){.ctx = ctx,
                         .c = c,
                         .area = ctx->arena.area + (bb_case_slots(ctx, c) - 1) * l.slot_bytes,
                         .l = l,
                         .pattern = bb_pattern_of(&bb_dtypes[c->dtype], c->redop, c->ranks, bb_mix(ctx->passes + 1))};
}

int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c)
{
    struct slot slot;
    int rc;

    ctx->passes++;
    slot = last_slot(ctx, c);
    TRY(BB_CUDA(cudaMemsetAsync(slot.area, CANARY, slot.l.slot_bytes, ctx->stream)));
    if (bb_case_contributes(c, ctx->comm->rank))
        TRY(bb_fill(slot.area + slot.l.send_offset, slot.l.send_bytes / bb_dtypes[c->dtype].bytes, &slot.pattern,
                    ctx->comm->rank, 0, ctx->stream));
out:
    return rc;
}

static int check_part(const struct slot *slot, const struct bb_expected_part *part)
{
    return bb_check(slot->area + slot->l.recv_offset + part->offset * bb_dtypes[slot->c->dtype].bytes, part->count,
                    &slot->pattern, &part->expect, &slot->ctx->verdicts[0], slot->ctx->stream);
}

/* Enqueues the comparison of the receive buffer with the expected data (result in verdicts[0]) and of its guard
 * zones with the canary value (verdicts[1]). */
static int compare_areas(const struct slot *slot, struct finding *mine)
{
    const struct bb_buffer_layout *l = &slot->l;
    struct bb_verdict *verdicts = slot->ctx->verdicts;
    cudaStream_t stream = slot->ctx->stream;
    int rc;

    mine->expected = l->before_bytes + l->after_bytes;
    TRY(bb_verdict_clear(&verdicts[0], stream));
    TRY(bb_verdict_clear(&verdicts[1], stream));
    for (int i = 0; i < bb_case_expected_parts(slot->c); i++) {
        struct bb_expected_part part = bb_case_expected_part(slot->c, slot->ctx->comm->rank, i);

        mine->expected += part.count;
        TRY(check_part(slot, &part));
    }
    TRY(bb_check_bytes(slot->area + l->before_offset, l->before_bytes, CANARY, &verdicts[1], stream));
    TRY(bb_check_bytes(slot->area + l->after_offset, l->after_bytes, CANARY, &verdicts[1], stream));
    TRY(bb_bench_context_wait(slot->ctx, "verification"));
out:
    return rc;
}

/* Finds the first wrong element of the receive buffer. Compares the data of one sending rank (struct bb_expected_part)
 * at a time, because the indices in each part begin at 0. */
static int fetch_first(const struct slot *slot, struct bb_wrong_element *first)
{
    struct bb_bench_context *ctx = slot->ctx;
    const size_t bytes = bb_dtypes[slot->c->dtype].bytes;
    struct bb_expected_part part = {0};
    struct bb_verdict v = {0};
    int rc = 0;

    for (int i = 0; i < bb_case_expected_parts(slot->c) && v.wrong == 0; i++) {
        part = bb_case_expected_part(slot->c, ctx->comm->rank, i);
        TRY(bb_verdict_clear(&ctx->verdicts[0], ctx->stream));
        TRY(check_part(slot, &part));
        TRY(bb_bench_context_wait(ctx, "search for the first wrong element"));
        TRY(BB_CUDA(cudaMemcpy(&v, ctx->verdicts, sizeof v, cudaMemcpyDeviceToHost)));
    }
    first->index = part.offset + v.first;
    first->want = bb_expected(&slot->pattern, &part.expect, v.first);
    TRY(BB_CUDA(cudaMemcpy(&first->got, slot->area + slot->l.recv_offset + first->index * bytes, bytes,
                           cudaMemcpyDeviceToHost)));
out:
    return rc;
}

static int check_rank(struct bb_bench_context *ctx, const struct bb_case *c, struct finding *mine)
{
    const struct slot slot = last_slot(ctx, c);
    struct bb_verdict v[2] = {{0}};
    int rc;

    memset(mine, 0, sizeof *mine);
    TRY(compare_areas(&slot, mine));
    TRY(BB_CUDA(cudaMemcpy(v, ctx->verdicts, sizeof v, cudaMemcpyDeviceToHost)));
    mine->wrong = v[0].wrong + v[1].wrong;
    mine->checked = v[0].checked + v[1].checked;
    mine->first = (struct bb_wrong_element){.rank = ctx->world->rank, .outside = v[0].wrong == 0};
    if (v[0].wrong > 0)
        TRY(fetch_first(&slot, &mine->first));
out:
    return rc;
}

/* Adds one rank's verification result to the metrics. An incomplete verification is an error, except on emulated
 * GPUs with EMU_DATA=off, where no data are compared. */
static int add_finding(const struct bb_bench_context *ctx, const struct finding *one, struct bb_metrics *f)
{
    if (one->checked != one->expected) {
        f->checked = false;
        if (ctx->device->emulated && one->checked == 0)
            return 0;
        return bb_err(BB_EFAIL, "incomplete verification: %llu of %llu elements compared", one->checked, one->expected);
    }
    if (one->wrong > 0 && (f->wrong == 0 || (f->first.outside && !one->first.outside)))
        f->first = one->first;
    f->wrong += one->wrong;
    return 0;
}

int bb_verify(struct bb_bench_context *ctx, const struct bb_case *c, struct bb_metrics *f)
{
    struct finding mine, *all = NULL;
    int rc;

    TRY(check_rank(ctx, c, &mine));
    all = bb_world_gather(ctx->world, &mine, sizeof mine, &rc);
    TRY(rc);
    f->checked = true;
    for (int r = 0; r < ctx->world->size; r++)
        if (!ctx->groups || ctx->groups[r] == ctx->groups[ctx->world->rank])
            TRY(add_finding(ctx, &all[r], f));
out:
    free(all);
    return rc;
}

void bb_report_wrong_data(const struct bb_world *world, const struct bb_metrics *f, int dtype, const char *what)
{
    const struct bb_wrong_element *w = &f->first;
    const int digits = 2 * bb_dtypes[dtype].bytes;
    const char *s = bb_plural(f->wrong);

    if (w->outside)
        bb_err_job(BB_EDATA, "wrong data: %s: %llu byte%s overwritten outside the receive buffer of rank %d (%s)", what,
                   f->wrong, s, w->rank, world->hosts[w->rank]);
    else
        bb_err_job(
            BB_EDATA,
            "wrong data: %s: %llu wrong element%s, first on rank %d (%s) element %llu: got 0x%0*llx, expected 0x%0*llx",
            what, f->wrong, s, w->rank, world->hosts[w->rank], (unsigned long long)w->index, digits,
            (unsigned long long)w->got, digits, (unsigned long long)w->want);
}

void bb_print_wrong_data(FILE *out, const struct bb_world *world, unsigned long long wrong, int rank, const char *end)
{
    fprintf(out, "# WRONG DATA: %llu element%s, first on rank %d (%s)%s", wrong, bb_plural(wrong), rank,
            world->hosts[rank], end);
}
