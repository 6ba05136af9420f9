/*
 * perfetto.c - writes the predicted timeline in Perfetto's native format, which needs a tenth of the space of the
 * Chrome trace events that --trace writes.
 *
 * Each stream of a rank has a Perfetto track and a packet sequence. Data that all packets of a sequence share is
 * written once: the track, interned names, and a clock with incremental timestamps. A slice (an operation in the
 * timeline) consists of a begin event and an end event. If a communication operation waits, its slice contains an inner
 * slice "wait". Five counter tracks per rank show the memory that it holds (timeline/memory_series.h).
 * Field numbers are those of Perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto,
 * counter_descriptor.proto and interned_data.proto.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "proxies/offline/export/export.h"
#include "proxies/offline/export/protobuf.h"
#include "proxies/simulation/simulate/predicted_path.h"
#include "proxies/simulation/timeline/memory_series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Encoded tag of field 1 (`packet`, length-delimited) of Perfetto's message Trace. */
enum { TRACE_PACKET = 1 << 3 | 2 };
enum packet_field {
    PACKET_CLOCKS = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60,
};
enum { DEFAULTS_EVENT = 11, DEFAULTS_CLOCK = 58 };
enum { CLOCKS_CLOCK = 1, CLOCK_ID = 1, CLOCK_TIME = 2, CLOCK_INCREMENTAL = 3, OWN_CLOCK = 64, BOOT_CLOCK = 6 };
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { ARGUMENT_TRUTH = 2, ARGUMENT_NUMBER = 3, ARGUMENT_NAME = 10 };
enum { EVENT_ARGUMENT = 4, EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK = 11, SLICE_BEGIN = 1, SLICE_END = 2 };
enum { EVENT_VALUE = 30, COUNTER_VALUE = 4, COUNTER_UNIT = 3, UNIT_BYTES = 3 };
enum {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6
};
enum { INTERNED_NAMES = 2, NAME_IID = 1, NAME_TEXT = 2 };

struct names {
    char (*text)[BB_OP_NAME];
    size_t n;
};

struct writer {
    const struct bb_timeline *t;
    const bool *micro_batches; /* [micro-batches] true for each micro-batch to write; NULL: write all */
    FILE *out;
    int stream, sequence;
    int64_t last_ns; /* timestamp of the previous event in the packet sequence, in ns */
    struct names names;
    struct bb_message packet, part, inner, name; /* scratch messages, reused for every packet */
};

static void put_packet(struct writer *w)
{
    bb_message_number(&w->packet, PACKET_SEQUENCE, (uint64_t)w->sequence);
    fputc(TRACE_PACKET, w->out);
    bb_message_write(&w->packet, w->out);
}

/* ---- tracks and packet sequences ---- */

/* counts: the track contains the values of a counter in bytes; else slices */
static void put_track(struct writer *w, uint64_t uuid, uint64_t parent, int rank, const char *name, bool counts)
{
    bb_message_number(&w->part, TRACK_UUID, uuid);
    if (parent) {
        bb_message_number(&w->part, TRACK_PARENT, parent);
        bb_message_text(&w->part, TRACK_NAME, name);
        if (counts) {
            bb_message_number(&w->inner, COUNTER_UNIT, UNIT_BYTES);
            bb_message_message(&w->part, TRACK_COUNTER, &w->inner);
        }
    } else {
        bb_message_number(&w->inner, PROCESS_PID, (uint64_t)rank + 1); /* + 1: in Perfetto, pid 0 does not denote a
                                                                          process */
        bb_message_text(&w->inner, PROCESS_NAME, name);
        bb_message_message(&w->part, TRACK_PROCESS, &w->inner);
    }
    bb_message_message(&w->packet, PACKET_TRACK, &w->part);
    put_packet(w);
}

/*
 * Starts a packet sequence for a track: writes the data that all packets of the sequence share. Time 0 of the
 * sequence's clock is the start of the step.
 */
static void begin_sequence(struct writer *w, uint64_t track)
{
    static const int ids[] = {OWN_CLOCK, BOOT_CLOCK};

    w->sequence++;
    w->last_ns = 0;
    w->names.n = 0;
    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
        bb_message_number(&w->inner, CLOCK_ID, (uint64_t)ids[i]);
        bb_message_number(&w->inner, CLOCK_TIME, 0);
        if (ids[i] == OWN_CLOCK)
            bb_message_number(&w->inner, CLOCK_INCREMENTAL, 1);
        bb_message_message(&w->part, CLOCKS_CLOCK, &w->inner);
    }
    bb_message_message(&w->packet, PACKET_CLOCKS, &w->part);
    bb_message_number(&w->packet, PACKET_FLAGS, FLAG_STATE_CLEARED);
    bb_message_number(&w->inner, EVENT_TRACK, track);
    bb_message_number(&w->part, DEFAULTS_CLOCK, OWN_CLOCK);
    bb_message_message(&w->part, DEFAULTS_EVENT, &w->inner);
    bb_message_message(&w->packet, PACKET_DEFAULTS, &w->part);
    put_packet(w);
}

/* ---- slices of operations ---- */

/* Returns the id of a name in the current packet sequence. If the name is new, its definition is added to the
 * current packet. */
static uint64_t intern(struct writer *w, const char *name)
{
    for (size_t i = 0; i < w->names.n; i++)
        if (strcmp(w->names.text[i], name) == 0)
            return i + 1;
    BB_GROW(w->names.text, w->names.n);
    snprintf(w->names.text[w->names.n++], BB_OP_NAME, "%s", name);
    bb_message_number(&w->name, NAME_IID, w->names.n);
    bb_message_text(&w->name, NAME_TEXT, name);
    bb_message_message(&w->inner, INTERNED_NAMES, &w->name);
    bb_message_message(&w->packet, PACKET_INTERNED, &w->inner);
    return w->names.n;
}

/* Adds an argument to the event; the viewer shows it with the slice. */
static void add_argument(struct writer *w, const char *name, int kind, uint64_t value)
{
    bb_message_number(&w->inner, kind, value);
    bb_message_text(&w->inner, ARGUMENT_NAME, name);
    bb_message_message(&w->part, EVENT_ARGUMENT, &w->inner);
}

/* Starts a packet with the time `ns`. */
static void begin_packet(struct writer *w, int64_t ns)
{
    bb_message_number(&w->packet, PACKET_TIMESTAMP, (uint64_t)(ns - w->last_ns));
    bb_message_number(&w->packet, PACKET_FLAGS, FLAG_NEEDS_STATE);
    w->last_ns = ns;
}

/*
 * Starts an event; the caller may add arguments and must then call put_event.
 *   ns    time of the event
 *   name  begin of a slice with this name; NULL: end of the most recently begun slice of the track
 */
static void begin_event(struct writer *w, int64_t ns, const char *name)
{
    begin_packet(w, ns);
    bb_message_number(&w->part, EVENT_TYPE, name ? SLICE_BEGIN : SLICE_END);
    if (name)
        bb_message_number(&w->part, EVENT_NAME_IID, intern(w, name));
}

static void put_event(struct writer *w)
{
    bb_message_message(&w->packet, PACKET_EVENT, &w->part);
    put_packet(w);
}

static void put_bare_event(struct writer *w, int64_t ns, const char *name)
{
    begin_event(w, ns, name);
    put_event(w);
}

static void put_call(void *arg, const struct bb_timeline_call *call)
{
    struct writer *w = arg;
    const struct bb_op *op = call->op;
    const struct bb_timed_op *at = &call->at;

    if (op->stream != w->stream)
        return;
    if (w->micro_batches && op->micro_batch != BB_NONE && !w->micro_batches[op->micro_batch])
        return;
    begin_event(w, at->begin_ns, call->name);
    if (bb_op_is_comm(op)) {
        add_argument(w, "bytes", ARGUMENT_NUMBER, call->bytes);
        add_argument(w, "wait_ns", ARGUMENT_NUMBER, (uint64_t)at->wait_ns);
    }
    if (call->critical)
        add_argument(w, "critical", ARGUMENT_TRUTH, true);
    put_event(w);
    if (at->wait_ns > 0) {
        put_bare_event(w, at->begin_ns, "wait");
        put_bare_event(w, at->begin_ns + at->wait_ns, NULL);
    }
    put_bare_event(w, at->end_ns, NULL);
}

/* Writes one counter track per use of memory, each with the times at which its value changes. track: uuid of the first
 * one. */
static void put_memory(struct writer *w, int i, uint64_t process, uint64_t track)
{
    struct bb_memory_series m;
    char name[64];

    bb_memory_series_init(&m, w->t, i);
    for (int use = 0; use < BB_USES; use++, track++) {
        snprintf(name, sizeof(name), "%s: %s", m.name, bb_use_names[use]);
        put_track(w, track, process, 0, name, true);
        begin_sequence(w, track);
        for (int k = 0; k < m.n; k++) {
            if (k > 0 && m.points[k].bytes[use] == m.points[k - 1].bytes[use])
                continue;
            begin_packet(w, m.points[k].ns);
            bb_message_number(&w->part, EVENT_TYPE, COUNTER_VALUE);
            bb_message_number(&w->part, EVENT_VALUE, (uint64_t)llround(m.points[k].bytes[use]));
            put_event(w);
        }
    }
    bb_memory_series_release(&m);
}

static void put_rank(struct writer *w, int i)
{
    const struct bb_program *p = bb_step_program(w->t->step, w->t->ranks[i]);
    const uint64_t process = ((uint64_t)w->t->ranks[i] + 1) << 16;
    char name[BB_TIMELINE_NAME];

    put_track(w, process, 0, w->t->ranks[i], bb_timeline_rank_name(w->t, i, name), false);
    put_track(w, process + 1, process, 0, "step", false);
    begin_sequence(w, process + 1);
    put_bare_event(w, 0, w->t->source);
    put_bare_event(w, w->t->step_ns[i], NULL);
    for (w->stream = 0; w->stream < p->n_streams; w->stream++) {
        uint64_t track = process + 2 + (uint64_t)w->stream;

        put_track(w, track, process, 0, p->streams[w->stream].name, false);
        begin_sequence(w, track);
        bb_timeline_each_call(w->t, i, put_call, w);
    }
    put_memory(w, i, process, process + 2 + (uint64_t)p->n_streams);
}

static void write_timeline(const struct bb_timeline *t, const bool *micro_batches, FILE *out)
{
    struct writer w = {.t = t, .micro_batches = micro_batches, .out = out, .sequence = 1};

    for (int i = 0; i < t->n; i++)
        put_rank(&w, i);
    free(w.names.text);
    bb_message_release(&w.packet);
    bb_message_release(&w.part);
    bb_message_release(&w.inner);
    bb_message_release(&w.name);
}

/* ---- selection of ranks and micro-batches ---- */

/*
 * Parses a list of indices and ranges such as "0,8-15" (NULL: empty list) and sets chosen[i] for each listed index i.
 *   option   name of the option without "--", for the error line
 *   what     plural noun for the indices, for the error line, for example "ranks"
 *   n        indices must be below n
 *   Returns  0, or -BB_EUSAGE after printing an error line
 */
static int select_ranges(const char *list, const char *option, const char *what, int n, bool *chosen)
{
    char word[BB_LIST_WORD], low_text[BB_LIST_WORD];
    int low, high;

    while (bb_list_next(&list, word)) {
        const char *dash = strchr(word, '-');
        const int length = dash ? (int)(dash - word) : (int)strlen(word);

        snprintf(low_text, sizeof(low_text), "%.*s", length, word);
        if (bb_parse_int(low_text, 0, n - 1, &low) != 0 || (dash && bb_parse_int(dash + 1, low, n - 1, &high) != 0))
            return bb_err(BB_EUSAGE, "--%s '%s' is not valid, expected %s from 0 to %d, for example 0,2 or 0-%d",
                          option, word, what, n - 1, n > 1 ? 1 : 0);
        for (int i = low; i <= (dash ? high : low); i++)
            chosen[i] = true;
    }
    return 0;
}

/* Selects the default ranks: the first rank of each role (set of ranks that run the same program), as long as the
 * selected ranks together have at most BB_TRACE_OPS operations. The first rank of the first role is always selected. */
static void choose_ranks(const struct bb_step *step, bool *shown)
{
    const int ranks = step->layout.ranks;
    size_t ops = 0;
    int first;

    for (int role = 0; role < step->n_roles; role++) {
        for (first = 0; first < ranks && step->role_of[first] != role; first++)
            continue;
        if (first == ranks)
            continue;
        ops += step->roles[role].program.n_ops;
        shown[first] = role == 0 || ops <= BB_TRACE_OPS;
    }
}

int bb_export_perfetto(const struct bb_export *e, FILE *out)
{
    const struct bb_prediction *p = e->prediction;
    const int n_ranks = e->step->layout.ranks, n_micro_batches = bb_export_micro_batches(e->step);
    bool *ranks, *micro_batches;
    struct bb_critical_path critical = {0};
    struct bb_timeline t = {0};
    char source[BB_CLUSTER_NAME + 32];
    int rc;

    snprintf(source, sizeof(source), "step, predicted for %s", p->cluster.name);
    BB_NEW(ranks, n_ranks);
    BB_NEW(micro_batches, n_micro_batches);
    if (!e->only.ranks)
        choose_ranks(e->step, ranks);
    TRY(select_ranges(e->only.ranks, "export-ranks", "ranks", n_ranks, ranks));
    TRY(select_ranges(e->only.micro_batches, "export-micro-batches", "micro-batches", n_micro_batches, micro_batches));
    bb_timeline_init_ranks(&t, e->step, ranks);
    t.source = source;
    bb_predicted_timeline(e->step, p, &t);
    bb_predict_critical_path(e->step, p, &critical);
    t.critical = &critical;
    write_timeline(&t, e->only.micro_batches ? micro_batches : NULL, out);
out:
    bb_critical_path_release(&critical);
    bb_timeline_release(&t);
    free(ranks);
    free(micro_batches);
    return rc;
}
