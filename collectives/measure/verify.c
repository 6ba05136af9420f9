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

static unsigned char *last_slot(const struct bb_bench_context *ctx, const struct bb_case *c,
                                const struct bb_buffer_layout *l)
{
    return ctx->arena.area + (bb_case_slots(ctx, c) - 1) * l->slot_bytes;
}

static struct bb_pattern pattern_of(const struct bb_bench_context *ctx, const struct bb_case *c)
{
    return bb_pattern_of(&bb_dtypes[c->dtype], c->redop, c->ranks, bb_mix(ctx->passes + 1));
}

int bb_verify_prepare(struct bb_bench_context *ctx, const struct bb_case *c)
{
    struct bb_buffer_layout l = bb_buffer_layout_of(c, ctx->comm->rank);
    unsigned char *slot = last_slot(ctx, c, &l);
    struct bb_pattern pattern;
    int rc;

    ctx->passes++;
    pattern = pattern_of(ctx, c);
    TRY(BB_CUDA(cudaMemsetAsync(slot, CANARY, l.slot_bytes, ctx->stream)));
    if (bb_case_contributes(c, ctx->comm->rank))
        TRY(bb_fill(slot + l.send_offset, l.send_bytes / bb_dtypes[c->dtype].bytes, &pattern, ctx->comm->rank, 0,
                    ctx->stream));
out:
    return rc;
}

static int check_part(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_expected_part *part,
                      const struct bb_pattern *pattern, const unsigned char *area)
{
    return bb_check(area + part->offset * bb_dtypes[c->dtype].bytes, part->count, pattern, &part->expect,
                    &ctx->verdicts[0], ctx->stream);
}

/* Enqueues the comparison of the receive buffer with the expected data (result in verdicts[0]) and of its guard
 * zones with the canary value (verdicts[1]). */
static int compare_areas(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_buffer_layout *l,
                         struct finding *mine)
{
    unsigned char *slot = last_slot(ctx, c, l);
    struct bb_pattern pattern = pattern_of(ctx, c);
    int rc;

    mine->expected = l->before_bytes + l->after_bytes;
    TRY(bb_verdict_clear(&ctx->verdicts[0], ctx->stream));
    TRY(bb_verdict_clear(&ctx->verdicts[1], ctx->stream));
    for (int i = 0; i < bb_case_expected_parts(c); i++) {
        struct bb_expected_part part = bb_case_expected_part(c, ctx->comm->rank, i);

        mine->expected += part.count;
        TRY(check_part(ctx, c, &part, &pattern, slot + l->recv_offset));
    }
    TRY(bb_check_bytes(slot + l->before_offset, l->before_bytes, CANARY, &ctx->verdicts[1], ctx->stream));
    TRY(bb_check_bytes(slot + l->after_offset, l->after_bytes, CANARY, &ctx->verdicts[1], ctx->stream));
    TRY(bb_bench_context_wait(ctx, "verification"));
out:
    return rc;
}

/* Finds the first wrong element of the receive buffer: the sending rank's range of elements (struct
 * bb_expected_part) and the index in this range. Compares one range at a time, because the indices in each range
 * begin at 0. */
static int find_part(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_buffer_layout *l,
                     struct bb_expected_part *part, uint64_t *index)
{
    struct bb_pattern pattern = pattern_of(ctx, c);
    struct bb_verdict v = {0};
    int rc = 0;

    for (int i = 0; i < bb_case_expected_parts(c) && v.wrong == 0; i++) {
        *part = bb_case_expected_part(c, ctx->comm->rank, i);
        TRY(bb_verdict_clear(&ctx->verdicts[0], ctx->stream));
        TRY(check_part(ctx, c, part, &pattern, last_slot(ctx, c, l) + l->recv_offset));
        TRY(bb_bench_context_wait(ctx, "search for the first wrong element"));
        TRY(BB_CUDA(cudaMemcpy(&v, ctx->verdicts, sizeof v, cudaMemcpyDeviceToHost)));
    }
    *index = v.first;
out:
    return rc;
}

static int fetch_first(struct bb_bench_context *ctx, const struct bb_case *c, const struct bb_buffer_layout *l,
                       struct bb_wrong_element *first)
{
    size_t bytes = bb_dtypes[c->dtype].bytes;
    struct bb_pattern pattern = pattern_of(ctx, c);
    struct bb_expected_part part = {0};
    uint64_t index;
    int rc;

    TRY(find_part(ctx, c, l, &part, &index));
    first->index = part.offset + index;
    first->want = bb_expected(&pattern, &part.expect, index);
    TRY(BB_CUDA(cudaMemcpy(&first->got, last_slot(ctx, c, l) + l->recv_offset + first->index * bytes, bytes,
                           cudaMemcpyDeviceToHost)));
out:
    return rc;
}

static int check_rank(struct bb_bench_context *ctx, const struct bb_case *c, struct finding *mine)
{
    struct bb_buffer_layout l = bb_buffer_layout_of(c, ctx->comm->rank);
    struct bb_verdict v[2] = {{0}};
    int rc;

    memset(mine, 0, sizeof *mine);
    TRY(compare_areas(ctx, c, &l, mine));
    TRY(BB_CUDA(cudaMemcpy(v, ctx->verdicts, sizeof v, cudaMemcpyDeviceToHost)));
    mine->wrong = v[0].wrong + v[1].wrong;
    mine->checked = v[0].checked + v[1].checked;
    mine->first = (struct bb_wrong_element){.rank = ctx->comm->rank, .outside = v[0].wrong == 0};
    if (v[0].wrong > 0)
        TRY(fetch_first(ctx, c, &l, &mine->first));
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
    if (one->wrong > 0 && f->wrong == 0)
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
