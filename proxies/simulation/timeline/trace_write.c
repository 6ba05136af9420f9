/*
 * trace_write.c - writes the events of a trace (timeline.h) in the Trace Event Format: "M" for names of processes and
 * threads, "X" for slices, "s" and "f" for the two ends of an arrow, "C" for counters.
 */
#include "bootstrap/base/alloc.h"
#include "proxies/simulation/timeline/critical_path.h"
#include "proxies/simulation/timeline/memory_series.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    const struct bb_timeline *t;
    FILE *out;
    bool some; /* true: at least one event has been written, so a comma precedes the next one */
};

#define STEP_THREAD 0 /* thread number (tid) of the slice of the whole step; stream s has the thread number s + 1 */

/* ---- JSON output ---- */

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", *text);
        else
            fputc(*text, out);
    fputc('"', out);
}

/* Writes a comma and a JSON field with a text value. */
static void put_field(FILE *out, const char *key, const char *text)
{
    fprintf(out, ", \"%s\": ", key);
    put_text(out, text);
}

/* Writes a comma and a JSON field with a time in microseconds; three decimals represent the nanoseconds exactly. */
static void put_us(FILE *out, const char *key, int64_t ns)
{
    fprintf(out, ", \"%s\": %lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

/* Writes the first fields of a trace event. The caller writes the remaining fields and the closing brace. */
static void begin_event(struct writer *w, const char *phase, const char *name, int rank, int thread)
{
    fputs(w->some ? ",\n" : "\n", w->out);
    w->some = true;
    fprintf(w->out, "{\"ph\": \"%s\", \"name\": ", phase);
    put_text(w->out, name);
    fprintf(w->out, ", \"pid\": %d, \"tid\": %d", rank, thread);
}

/* ---- process and thread names ---- */

/* Writes the name of a rank (process in the trace) or of one of its streams (thread). place: position in the
 * viewer's list, written as the sort index. */
static void name_track(struct writer *w, const char *track, int rank, int thread, const char *name, int place)
{
    char event[32];

    snprintf(event, sizeof(event), "%s_name", track);
    begin_event(w, "M", event, rank, thread);
    fputs(", \"args\": {\"name\": ", w->out);
    put_text(w->out, name);
    fputs("}}", w->out);
    snprintf(event, sizeof(event), "%s_sort_index", track);
    begin_event(w, "M", event, rank, thread);
    fprintf(w->out, ", \"args\": {\"sort_index\": %d}}", place);
}

static void name_rank(struct writer *w, int i)
{
    const int rank = w->t->ranks[i];
    const struct bb_program *p = bb_step_program(w->t->step, rank);
    char text[BB_TIMELINE_NAME];

    name_track(w, "process", rank, 0, bb_timeline_rank_name(w->t, i, text), rank);
    name_track(w, "thread", rank, STEP_THREAD, "step", STEP_THREAD);
    for (int s = 0; s < p->n_streams; s++)
        name_track(w, "thread", rank, s + 1, p->streams[s].name, s + 1);
}

/* ---- slices ---- */

/* Returns the world rank of an operation's peer or root; BB_NONE if the operation has neither. */
static int other_rank(const struct bb_layout *l, const struct bb_op *op, int rank)
{
    if (!bb_op_is_comm(op) || (op->kind == BB_OP_COLLECTIVE && !(bb_colls[op->coll].flags & BB_COLL_ROOTED)))
        return BB_NONE;
    return bb_op_peer_rank(l, op, rank);
}

static void put_comm(FILE *out, const struct bb_layout *l, const struct bb_op *op, int rank)
{
    const int peer = other_rank(l, op, rank), n = bb_op_group_size(l, op);

    put_field(out, "group", l->groups[l->comms[op->comm].group].name);
    fprintf(out, ", \"group_size\": %d, \"count\": %zu, \"dtype\": \"%s\", \"bytes\": %zu", n, op->count,
            bb_dtypes[op->dtype].name, bb_op_payload_bytes(op, n));
    if (peer != BB_NONE)
        fprintf(out, ", \"%s\": %d", op->kind == BB_OP_COLLECTIVE ? "root" : "peer", peer);
}

/* Writes the JSON fields of an operation, without braces. */
static void put_op(FILE *out, const struct bb_layout *l, const struct bb_op *op, int rank)
{
    fputs("\"kind\": ", out);
    put_text(out, bb_op_kind_name(op->kind, op->coll));
    if (bb_op_is_comm(op))
        put_comm(out, l, op, rank);
    if (op->flops > 0)
        fprintf(out, ", \"flops\": %.0f", op->flops);
    fprintf(out, ", \"phase\": \"%s\"", bb_phase_names[op->phase]);
    if (op->micro_batch != BB_NONE)
        fprintf(out, ", \"micro_batch\": %d", op->micro_batch);
    if (op->layer != BB_NONE)
        fprintf(out, ", \"layer\": %d", op->layer);
    if (op->what)
        put_field(out, "for", op->what);
}

/* Writes a slice without the closing brace. */
static void begin_slice(struct writer *w, const char *name, int rank, int thread, int64_t begin_ns, int64_t end_ns,
                        const char *category)
{
    begin_event(w, "X", name, rank, thread);
    put_us(w->out, "ts", begin_ns);
    put_us(w->out, "dur", end_ns - begin_ns);
    put_field(w->out, "cat", category);
}

/* Writes one slice for a call, whose operations begin and end together. If the call waited for peers, writes two slices
 * inside this slice: "wait" and "transfer". */
static void put_call(void *arg, const struct bb_timeline_call *call)
{
    struct writer *w = arg;
    const struct bb_layout *l = &w->t->step->layout;
    const struct bb_op *op = call->op;
    const struct bb_timed_op *at = &call->at;
    const int rank = w->t->ranks[call->shown], thread = op->stream + 1;
    const int64_t moves_ns = at->begin_ns + at->wait_ns;

    begin_slice(w, call->name, rank, thread, at->begin_ns, at->end_ns,
                op->comm == BB_NONE ? "compute" : l->groups[l->comms[op->comm].group].name);
    fputs(call->n == 1 ? ", \"args\": {" : ", \"args\": {\"operations\": [{", w->out);
    for (int k = call->first; k < call->end; k++) {
        const struct bb_op *one = &op[k - call->first];

        if (one->stream != op->stream)
            continue;
        fputs(one == op ? "" : "}, {", w->out);
        put_op(w->out, l, one, rank);
    }
    fputs(call->n == 1 ? "" : "}]", w->out);
    if (op->comm != BB_NONE)
        put_us(w->out, "wait_us", at->wait_ns);
    if (op->comm != BB_NONE && at->end_ns > moves_ns && call->bus_bytes > 0)
        fprintf(w->out, ", \"busbw_gbps\": %.3f", call->bus_bytes / (double)(at->end_ns - moves_ns));
    fputs(call->critical ? ", \"critical\": true}}" : "}}", w->out);
    if (at->wait_ns <= 0)
        return;
    begin_slice(w, "wait", rank, thread, at->begin_ns, moves_ns, "wait");
    fputc('}', w->out);
    begin_slice(w, "transfer", rank, thread, moves_ns, at->end_ns, "transfer");
    fputc('}', w->out);
}

/* ---- exposed communication by cause ---- */

/* Returns the end of the forward and backward kernels of each rank: [ranks], released by the caller. A rank that is not
 * shown has the time of a shown rank of its role. */
static int64_t *pipeline_ends(const struct bb_timeline *t)
{
    int64_t *end_ns, *of_role;

    BB_NEW(end_ns, t->step->layout.ranks);
    BB_NEW(of_role, t->step->n_roles);
    for (int i = 0; i < t->n; i++) {
        const struct bb_program *p = bb_step_program(t->step, t->ranks[i]);
        int64_t *own = &end_ns[t->ranks[i]];

        for (size_t k = 0; k < p->n_ops; k++)
            *own = bb_pipeline_end(*own, &p->ops[k], &t->ops[i][k]);
        of_role[t->step->role_of[t->ranks[i]]] = *own;
    }
    for (int r = 0; r < t->step->layout.ranks; r++)
        end_ns[r] = end_ns[r] > 0 ? end_ns[r] : of_role[t->step->role_of[r]];
    free(of_role);
    return end_ns;
}

/* Writes slices inside the slice of the step of the i-th rank. */
static void put_exposed(struct writer *w, int i, const int64_t *pipeline_end_ns)
{
    static const char *const names[BB_EXPOSURES] = {"exposed transfer", "bubble", "waiting"};
    const int rank = w->t->ranks[i];
    const struct bb_program *p = bb_step_program(w->t->step, rank);
    struct bb_spans parts[BB_EXPOSURES];
    struct bb_intervals s = {0};

    bb_intervals_set_pipeline(&s, &w->t->step->layout, rank, pipeline_end_ns, NULL);
    for (size_t k = 0; k < p->n_ops; k++)
        if (bb_op_launches(&p->ops[k]))
            bb_intervals_add(&s, &w->t->step->layout, &p->ops[k], p->ops[k].comm, &w->t->ops[i][k]);
    bb_exposure_spans(&s, parts);
    for (int k = 0; k < BB_EXPOSURES; k++) {
        for (size_t n = 0; n < parts[k].n; n++) {
            const struct bb_span *at = &parts[k].at[n];

            begin_slice(w, names[k], rank, STEP_THREAD, at->begin_ns, at->end_ns, "exposed");
            fputc('}', w->out);
        }
        bb_spans_release(&parts[k]);
    }
    bb_intervals_release(&s);
}

/* ---- arrows: the k-th send from rank A to rank B matches the k-th receive of rank B from rank A ---- */

struct message {
    int comm, from, to; /* from, to: world ranks; these first three members identify the pair of ranks */
    bool received;
    int op, shown; /* op: index of the send or receive in its rank's program; shown: index of this rank in the
                      timeline */
};

static int by_pair(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    const int keys[][2] = {
        {x->comm, y->comm}, {x->from, y->from}, {x->to, y->to}, {x->received, y->received}, {x->op, y->op}};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void list_messages(const struct bb_timeline *t, struct message **list, size_t *n)
{
    for (int i = 0; i < t->n; i++) {
        const struct bb_program *p = bb_step_program(t->step, t->ranks[i]);

        for (int k = 0; k < (int)p->n_ops; k++) {
            const struct bb_op *op = &p->ops[k];
            bool received = op->kind == BB_OP_RECV;

            if (op->kind != BB_OP_SEND && !received)
                continue;
            int own = t->ranks[i], other = other_rank(&t->step->layout, op, own);

            BB_GROW(*list, *n);
            (*list)[(*n)++] =
                (struct message){op->comm, received ? other : own, received ? own : other, received, k, i};
        }
    }
}

/* Writes one end of an arrow (target true: the end with the arrowhead; false: the start) inside the slice of
 * operation k of the rank with index `shown` in the timeline. late: true: just before the end of the slice; false:
 * at its begin. */
static void put_arrow_end(struct writer *w, const char *name, int64_t id, bool target, int shown, int k, bool late)
{
    const struct bb_op *op = &bb_step_program(w->t->step, w->t->ranks[shown])->ops[k];
    const struct bb_timed_op *at = &w->t->ops[shown][k];

    begin_event(w, target ? "f" : "s", name, w->t->ranks[shown], op->stream + 1);
    put_us(w->out, "ts", late && at->end_ns > at->begin_ns ? at->end_ns - 1 : at->begin_ns);
    fprintf(w->out, ", \"cat\": \"%s\", \"id\": %lld%s}", name, (long long)id, target ? ", \"bp\": \"e\"" : "");
}

/* Returns the index of a rank in the timeline; BB_NONE if the rank is not shown. */
static int find_shown(const struct bb_timeline *t, int rank)
{
    for (int i = 0; i < t->n; i++)
        if (t->ranks[i] == rank)
            return i;
    return BB_NONE;
}

/* Writes arrows along the critical path. An arrow between operations of one rank goes from the end of an operation
 * to the begin of the next operation. An arrow between ranks goes from the begin of the operation that arrived last
 * to the operation that waited for it. */
static void put_critical_arrows(struct writer *w)
{
    const struct bb_critical_path *path = w->t->critical;

    for (size_t k = path ? path->n : 0; k-- > 1;) {
        const struct bb_critical_op *from = &path->ops[k], *to = &path->ops[k - 1];
        const int a = find_shown(w->t, from->rank), b = find_shown(w->t, to->rank);
        const bool meets = from->rank != to->rank;

        if (a == BB_NONE || b == BB_NONE)
            continue;
        put_arrow_end(w, "critical path", (int64_t)k, false, a, from->op, !meets);
        put_arrow_end(w, "critical path", (int64_t)k, true, b, to->op, meets);
    }
}

/* Writes the arrows of all messages. An arrow starts at the begin of the send and ends just before the end of the
 * receive. */
static void put_arrows(struct writer *w)
{
    size_t n = 0, end;
    struct message *list = NULL;
    int64_t id = 0;

    list_messages(w->t, &list, &n);
    if (n > 0)
        qsort(list, n, sizeof(*list), by_pair);
    for (size_t first = 0; first < n; first = end) {
        size_t sends = 0;

        for (end = first; end < n; end++) {
            if (memcmp(&list[first], &list[end], offsetof(struct message, received)) != 0)
                break;
            sends += !list[end].received;
        }
        for (size_t k = 0; k < sends && first + sends + k < end; k++, id++) {
            const struct message *send = &list[first + k], *receive = send + sends;

            put_arrow_end(w, "message", id, false, send->shown, send->op, false);
            put_arrow_end(w, "message", id, true, receive->shown, receive->op, true);
        }
    }
    free(list);
}

/* ---- counters: payload bytes in progress, per rank and group ---- */

struct edge {
    int64_t ns;
    double bytes; /* change at time `ns` of the total payload bytes of the operations in progress */
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    return (x->ns > y->ns) - (x->ns < y->ns);
}

static void put_counter(struct writer *w, int i, int group, struct edge *edges, size_t n)
{
    char name[64];
    double bytes = 0;

    qsort(edges, n, sizeof(*edges), by_time);
    snprintf(name, sizeof(name), "bytes in flight %s", w->t->step->layout.groups[group].name);
    for (size_t k = 0; k < n; k++) {
        bytes += edges[k].bytes;
        if (k + 1 < n && edges[k + 1].ns == edges[k].ns)
            continue;
        begin_event(w, "C", name, w->t->ranks[i], 0);
        put_us(w->out, "ts", edges[k].ns);
        fprintf(w->out, ", \"args\": {\"bytes\": %.0f}}", bytes);
    }
}

static void put_counters(struct writer *w, int i)
{
    const struct bb_layout *l = &w->t->step->layout;
    const struct bb_program *p = bb_step_program(w->t->step, w->t->ranks[i]);
    struct edge *edges;

    BB_NEW(edges, p->n_ops * 2);
    for (int g = 0; g < l->n_groups; g++) {
        size_t n = 0;

        for (size_t k = 0; k < p->n_ops; k++) {
            const struct bb_op *op = &p->ops[k];
            const struct bb_timed_op *at = &w->t->ops[i][k];

            if (!bb_op_is_comm(op) || l->comms[op->comm].group != g || at->end_ns <= at->begin_ns)
                continue;
            double bytes = (double)bb_op_payload_bytes(op, l->groups[g].size);
            edges[n++] = (struct edge){at->begin_ns, bytes};
            edges[n++] = (struct edge){at->end_ns, -bytes};
        }
        put_counter(w, i, g, edges, n);
    }
    free(edges);
}

/* ---- counters: memory that a rank holds, by use ---- */

static void put_memory(struct writer *w, int i)
{
    struct bb_memory_series m;

    bb_memory_series_init(&m, w->t, i);
    for (int k = 0; k < m.n; k++) {
        begin_event(w, "C", m.name, w->t->ranks[i], 0);
        put_us(w->out, "ts", m.points[k].ns);
        fputs(", \"args\": {", w->out);
        for (int use = 0; use < BB_USES; use++)
            fprintf(w->out, "%s\"%s\": %.0f", use ? ", " : "", bb_use_names[use], m.points[k].bytes[use]);
        fputs("}}", w->out);
    }
    bb_memory_series_release(&m);
}

/* ---- the whole trace file ---- */

static void put_head(const struct bb_timeline *t, FILE *out)
{
    const struct bb_step *step = t->step;

    fputs("{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"schema\": \"busbar.trace/1\", \"busbar\": ", out);
    put_text(out, BUSBAR_VERSION);
    put_field(out, "proxy", step->proxy);
    put_field(out, "summary", step->summary ? step->summary : "");
    put_field(out, "times", t->source);
    fprintf(out, ", \"ranks\": %d, \"ranks_shown\": [", step->layout.ranks);
    for (int i = 0; i < t->n; i++)
        fprintf(out, "%s%d", i ? ", " : "", t->ranks[i]);
    fprintf(out, "], \"clock\": {\"error_us\": %.3f, \"is\": ", t->clock_error_us);
    put_text(out, t->clock);
    fputs("}},\n\"traceEvents\": [", out);
}

void bb_timeline_write(const struct bb_timeline *t, FILE *out)
{
    struct writer w = {.t = t, .out = out};
    int64_t *pipeline_end_ns = pipeline_ends(t);

    put_head(t, out);
    for (int i = 0; i < t->n; i++) {
        name_rank(&w, i);
        begin_slice(&w, "step", t->ranks[i], STEP_THREAD, 0, t->step_ns[i], "step");
        fputc('}', out);
        put_exposed(&w, i, pipeline_end_ns);
        bb_timeline_each_call(t, i, put_call, &w);
    }
    free(pipeline_end_ns);
    put_arrows(&w);
    put_critical_arrows(&w);
    for (int i = 0; i < t->n; i++) {
        put_counters(&w, i);
        put_memory(&w, i);
    }
    fputs("\n]}\n", out);
}
