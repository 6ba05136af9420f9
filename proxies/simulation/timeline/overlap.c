/* overlap.c - unions and intersections of time intervals (see overlap.h). */
#include "proxies/simulation/timeline/overlap.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

void bb_spans_add(struct bb_spans *s, int64_t begin_ns, int64_t end_ns)
{
    if (end_ns <= begin_ns)
        return;
    BB_GROW(s->at, s->n);
    s->at[s->n++] = (struct bb_span){begin_ns, end_ns};
}

void bb_spans_release(struct bb_spans *s)
{
    free(s->at);
    *s = (struct bb_spans){0};
}

static int compare_begins(const void *left, const void *right)
{
    const struct bb_span *a = left, *b = right;

    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

void bb_spans_join(struct bb_spans *s)
{
    size_t kept = 0, sorted = 1;

    if (s->n < 2)
        return;
    while (sorted < s->n && s->at[sorted].begin_ns >= s->at[sorted - 1].begin_ns)
        sorted++;
    if (sorted < s->n) /* the intervals of one stream and the result of bb_spans_join are sorted already */
        qsort(s->at, s->n, sizeof(*s->at), compare_begins);
    for (size_t i = 1; i < s->n; i++) {
        struct bb_span next = s->at[i], *last = &s->at[kept];

        if (next.begin_ns > last->end_ns)
            s->at[++kept] = next;
        else if (next.end_ns > last->end_ns)
            last->end_ns = next.end_ns;
    }
    s->n = kept + 1;
}

int64_t bb_spans_length(struct bb_spans *s)
{
    int64_t length = 0;

    bb_spans_join(s);
    for (size_t i = 0; i < s->n; i++)
        length += s->at[i].end_ns - s->at[i].begin_ns;
    return length;
}

/* Adds the intervals of a that are outside b. */
static void add_difference(struct bb_spans *s, struct bb_spans *a, struct bb_spans *b)
{
    size_t k = 0;

    bb_spans_join(a);
    bb_spans_join(b);
    for (size_t i = 0; i < a->n; i++) {
        int64_t from_ns = a->at[i].begin_ns;
        const int64_t end_ns = a->at[i].end_ns;

        for (; k < b->n && b->at[k].end_ns <= end_ns; k++) {
            bb_spans_add(s, from_ns, b->at[k].begin_ns);
            from_ns = MAX(from_ns, b->at[k].end_ns);
        }
        bb_spans_add(s, from_ns, k < b->n ? MIN(end_ns, b->at[k].begin_ns) : end_ns);
    }
}

void bb_overlap_of(int64_t step_ns, struct bb_spans *compute, struct bb_spans *comm, struct bb_overlap *out)
{
    struct bb_spans exposed = {0};

    add_difference(&exposed, comm, compute);

    *out = (struct bb_overlap){
        .step_ns = step_ns, .compute_ns = bb_spans_length(compute), .comm_ns = bb_spans_length(comm)};
    out->exposed_ns = bb_spans_length(&exposed);
    bb_spans_release(&exposed);
    out->idle_ns = step_ns - (out->compute_ns + out->exposed_ns);
    out->overlap_fraction = out->comm_ns > 0 ? 1 - (double)out->exposed_ns / (double)out->comm_ns : NAN;
}

void bb_spans_add_all(struct bb_spans *s, const struct bb_spans *more)
{
    for (size_t i = 0; i < more->n; i++)
        bb_spans_add(s, more->at[i].begin_ns, more->at[i].end_ns);
}

void bb_exposure_spans(struct bb_intervals *s, struct bb_spans parts[BB_EXPOSURES])
{
    struct bb_spans *const sets[BB_EXPOSURES] = {&s->transfers, &s->stages, &s->comm};
    struct bb_spans all = {0};

    bb_spans_add_all(&all, &s->compute);
    for (int i = 0; i < BB_EXPOSURES; i++) {
        parts[i] = (struct bb_spans){0};
        add_difference(&parts[i], sets[i], &all);
        bb_spans_add_all(&all, sets[i]);
    }
    bb_spans_release(&all);
}

struct bb_exposure bb_exposure_of(struct bb_intervals *s)
{
    struct bb_spans parts[BB_EXPOSURES];
    int64_t ns[BB_EXPOSURES];

    bb_exposure_spans(s, parts);
    for (int i = 0; i < BB_EXPOSURES; i++) {
        ns[i] = bb_spans_length(&parts[i]);
        bb_spans_release(&parts[i]);
    }
    return (struct bb_exposure){ns[BB_EXPOSED_TRANSFER], ns[BB_EXPOSED_BUBBLE], ns[BB_EXPOSED_WAITING]};
}

double bb_overlap_efficiency(double compute_alone, double comm_alone, double both)
{
    double shorter = compute_alone < comm_alone ? compute_alone : comm_alone;

    return shorter > 0 && shorter >= 0.01 * both ? (compute_alone + comm_alone - both) / shorter : NAN;
}

json_t *bb_overlap_efficiency_text(double efficiency, double bubble)
{
    if (!isfinite(efficiency))
        return json_string("- (a part takes below 1 % of the step)");
    return json_sprintf("%.3f%s", fabs(efficiency) < 0.0005 ? 0 : efficiency /* not "-0.000" */,
                        bubble > 0 ? " (the pipeline bubble counts as compute)" : "");
}

int64_t bb_pipeline_end(int64_t end_ns, const struct bb_op *op, const struct bb_timed_op *at)
{
    return !bb_op_is_comm(op) && op->phase <= BB_PHASE_BACKWARD ? MAX(end_ns, at->end_ns) : end_ns;
}

/* Adds a rank of another stage of the replica: marks the groups whose instance contains both ranks. */
static void add_stage(struct bb_intervals *s, const struct bb_layout *l, int rank, int other, int64_t end_ns)
{
    s->pipeline_end_ns = MAX(s->pipeline_end_ns, end_ns);
    for (int g = 0; g < l->n_groups; g++) {
        const int instance = bb_group_instance(l, g, rank);

        s->spans_stages[g] |= instance != BB_NONE && instance == bb_group_instance(l, g, other);
    }
}

void bb_intervals_set_pipeline(struct bb_intervals *s, const struct bb_layout *l, int rank, const int64_t *end_ns,
                               const int *class_of)
{
    for (int c = 0; c < l->n_comms; c++) {
        const int g = l->comms[c].group, instance = bb_group_instance(l, g, rank);

        for (int i = 0; l->comms[c].between_stages && instance != BB_NONE && i < l->groups[g].size; i++) {
            const int other = bb_group_member(l, g, instance, i);

            if (other != rank)
                add_stage(s, l, rank, other, end_ns[class_of ? class_of[other] : other]);
        }
    }
}

double bb_stage_imbalance(const struct bb_layout *l, int rank, double bubble,
                          double (*work)(const void *from, int rank), const void *from)
{
    const double own = work(from, rank);
    double most = own;

    for (int c = 0; c < l->n_comms; c++) {
        const int g = l->comms[c].group, instance = bb_group_instance(l, g, rank);

        for (int i = 0; l->comms[c].between_stages && instance != BB_NONE && i < l->groups[g].size; i++)
            most = fmax(most, work(from, bb_group_member(l, g, instance, i)));
    }
    return fmin(bubble, most - own);
}

int bb_limiting_rank(int n, struct bb_rank_load (*load)(const void *from, int i), const void *from)
{
    double last = 0, most = -1;
    int limiting = BB_NONE;

    for (int i = 0; i < n; i++)
        last = fmax(last, load(from, i).step);
    for (int i = 0; i < n; i++) {
        const struct bb_rank_load at = load(from, i);

        if (at.step >= 0.99 * last && (limiting == BB_NONE || at.busy > most)) {
            limiting = i;
            most = at.busy;
        }
    }
    return limiting;
}

void bb_intervals_add(struct bb_intervals *s, const struct bb_layout *l, const struct bb_op *op, int comm,
                      const struct bb_timed_op *at)
{
    if (op->phase <= BB_PHASE_BACKWARD)
        bb_spans_add(&s->work, at->begin_ns + (comm == BB_NONE ? 0 : at->wait_ns), at->end_ns);
    bb_spans_add(comm == BB_NONE ? &s->compute : &s->comm, at->begin_ns, at->end_ns);
    if (comm == BB_NONE)
        return;
    bb_spans_add(&s->groups[l->comms[comm].group], at->begin_ns, at->end_ns);
    bb_spans_add(&s->waits[l->comms[comm].group], at->begin_ns, at->begin_ns + at->wait_ns);
    bb_spans_add(&s->transfers, at->begin_ns + at->wait_ns, at->end_ns);
    if (l->comms[comm].between_stages)
        bb_spans_add(&s->stages, at->begin_ns, at->end_ns);
    else if (s->spans_stages[l->comms[comm].group])
        bb_spans_add(&s->stages, at->begin_ns, MIN(at->begin_ns + at->wait_ns, s->pipeline_end_ns));
}

void bb_intervals_release(struct bb_intervals *s)
{
    bb_spans_release(&s->compute);
    bb_spans_release(&s->comm);
    bb_spans_release(&s->transfers);
    bb_spans_release(&s->work);
    bb_spans_release(&s->stages);
    for (int g = 0; g < BB_MAX_GROUPS; g++) {
        bb_spans_release(&s->groups[g]);
        bb_spans_release(&s->waits[g]);
    }
}
