/* measurement_rows.c - converts the rows of result files to measurements, with one function per kind of row
 * (collective, message, kernel, ...). Each field is validated before use. */
#include "proxies/offline/calibrate/measurements/measurement_rows.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "collectives/compare/result_reader.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_LOCATION = 512 };

/* Reads the fields of one result row. */
struct reader {
    struct bb_measurements *e;
    struct bb_measurement_file *file; /* the last file of e->files, which contains the row */
    const json_t *row;
    char where[MAX_LOCATION]; /* names the row in error messages */
    int rc;                   /* error of the first invalid field, which was printed; 0: none. After an error nothing is
                                 read or added */
};

/* Counts a row that calibration does not use. */
static void count_unused(struct reader *r, enum bb_unused reason)
{
    r->file->n_unused++;
    r->file->n_of[reason]++;
}

/* Appends a measurement that was read from the row, or counts the row as not used: for the given reason, or because its
 * time is not a positive number. */
static void add_measurement(struct reader *r, const struct bb_measurement *found, enum bb_unused reason)
{
    struct bb_measurements *e = r->e;

    if (r->rc)
        return;
    if (reason == BB_USED && (!(found->time_us > 0) || !isfinite(found->time_us)))
        reason = BB_UNUSED_TIME;
    if (reason != BB_USED) {
        count_unused(r, reason);
        return;
    }
    BB_GROW(e->rows, e->n_rows);
    e->rows[e->n_rows] = *found;
    e->rows[e->n_rows++].file = e->n_files - 1;
    r->file->n_rows++;
}

/* ---- fields of a result row ---- */

static double number_at(struct reader *r, const json_t *object, const char *key, double min)
{
    double number = min;

    if (!r->rc)
        r->rc = bb_json_number_at(object, key, r->where, min, &number);
    return number;
}

/* Returns the median ("p50") of the statistics object `key` in the row; NaN if the row has no such object. */
static double median_at(struct reader *r, const char *key)
{
    const json_t *stats = json_object_get(r->row, key);

    if (!stats || json_is_null(stats) || json_is_null(json_object_get(stats, "p50")))
        return NAN;
    return number_at(r, stats, "p50", 0);
}

static double count_at(struct reader *r, const json_t *object, const char *key, double min)
{
    const double count = number_at(r, object, key, min);

    if (!r->rc && (count != floor(count) || count > 1e15))
        r->rc = bb_err(BB_EUSAGE, "%s: '%s' is %g, expected a whole number", r->where, key, count);
    return count;
}

static int int_at(struct reader *r, const char *key, int min)
{
    const double count = count_at(r, r->row, key, min);

    return !r->rc && count < INT_MAX ? (int)count : min;
}

static const char *text_at(struct reader *r, const char *key)
{
    const char *text = NULL;

    if (!r->rc)
        r->rc = bb_json_text_at(r->row, key, r->where, &text);
    return text ? text : "";
}

static enum bb_dtype_id dtype_at(struct reader *r)
{
    const char *name = text_at(r, "dtype");
    const int found = bb_dtype_find(name);

    if (!r->rc && found < 0)
        r->rc = bb_err(BB_EUSAGE, "%s: unknown dtype '%.40s'", r->where, name);
    return found < 0 ? BB_FLOAT : (enum bb_dtype_id)found;
}

/* Without a name: the default of the benches. */
static int redop_of(const char *name)
{
    const int found = name ? bb_redop_find(name) : BB_SUM;

    return found < 0 ? BB_SUM : found;
}

static int redop_at(const struct reader *r)
{
    return redop_of(json_string_value(json_object_get(r->row, "op")));
}

static bool is_true(const struct reader *r, const char *key)
{
    return json_is_true(json_object_get(r->row, key));
}

static bool has_text(const struct reader *r, const char *key, const char *text)
{
    const char *found = json_string_value(json_object_get(r->row, key));

    return found && strcmp(found, text) == 0;
}

static struct bb_kernel_list_item gemm_at(struct reader *r, const json_t *object)
{
    struct bb_kernel_list_item item = {.gemm.batch = 1};

    item.gemm.m = (int64_t)count_at(r, object, "m", 1);
    item.gemm.n = (int64_t)count_at(r, object, "n", 1);
    item.gemm.k = (int64_t)count_at(r, object, "k", 1);
    return item;
}

/* Reads the algorithm, the protocol and the number of channels that NCCL used. */
static void read_choice(const struct reader *r, struct bb_measurement *found)
{
    const json_int_t channels = json_integer_value(json_object_get(r->row, "channels"));
    const char *algorithm = json_string_value(json_object_get(r->row, "algorithm")),
               *protocol = json_string_value(json_object_get(r->row, "protocol"));

    found->channels = channels > 0 && channels < 1 << 20 ? (int)channels : 0;
    snprintf(found->algorithm, sizeof(found->algorithm), "%s", algorithm ? algorithm : "");
    snprintf(found->protocol, sizeof(found->protocol), "%s", protocol ? protocol : "");
}

/* ---- kinds of result rows (collectives, messages, kernels, overlap) ---- */

/* Makes a sendrecv, in which each rank sends to the next one, a message: between nodes if there are several. */
static void make_message(struct bb_measurement *found)
{
    if (found->call.kind != BB_SENDRECV)
        return;
    found->kind = BB_MEASURED_MESSAGE;
    found->same_node = found->call.nodes == 1;
}

/* The cost model supports collectives on two ranks or more, except those of several dependent exchanges. */
static enum bb_unused judge_collective(int kind, int ranks, double bytes, double wrong)
{
    const unsigned flags = kind >= 0 ? bb_colls[kind].flags : 0;

    return bytes <= 0                                          ? BB_UNUSED_EMPTY
           : wrong > 0                                         ? BB_UNUSED_WRONG
           : flags & BB_COLL_VARIABLE_COUNTS                   ? BB_UNUSED_COUNTS
           : kind < 0 || ranks < 2 || (flags & BB_COLL_ROUNDS) ? BB_UNUSED_MODEL
                                                               : BB_USED;
}

static void collective_row(struct reader *r)
{
    struct bb_measurement found = {.kind = BB_MEASURED_COLLECTIVE, .forced = is_true(r, "forced")};
    const json_t *wrong = json_object_get(r->row, "wrong");
    const int kind = bb_coll_find(text_at(r, "collective"));

    found.bytes = count_at(r, r->row, "bytes", 0);
    found.call.count = (size_t)count_at(r, r->row, "count", 0);
    found.call.dtype = dtype_at(r);
    found.call.redop = redop_at(r);
    found.time_us = median_at(r, "time_us");
    found.call.kind = (enum bb_coll_kind)kind;
    found.call.in_place = has_text(r, "placement", "in_place");
    found.call.ranks = r->file->ranks;
    found.call.nodes = r->file->nodes;
    read_choice(r, &found);
    make_message(&found);
    add_measurement(r, &found, judge_collective(kind, r->file->ranks, found.bytes, json_number_value(wrong)));
}

/* Adds the host time of an NCCL call. Only rows of collectives that are one NCCL call (BB_COLL_ESTIMATED) have such
 * a time. With emulated GPUs the recorded host time is that of the emulation itself; the modeled host time is the
 * difference between wall time and operation time. */
static void launch_row(struct reader *r)
{
    struct bb_measurement found = {.kind = BB_MEASURED_NCCL_LAUNCH};
    const int kind = bb_coll_find(json_string_value(json_object_get(r->row, "collective")));
    double wall_us, time_us;
    int iterations;

    if (kind < 0 || !(bb_colls[kind].flags & BB_COLL_ESTIMATED))
        return;
    time_us = median_at(r, "time_us");
    wall_us = median_at(r, "wall_us");
    iterations = int_at(r, "iterations", 1);
    found.time_us =
        r->file->emulated ? (wall_us - time_us) * iterations : json_number_value(json_object_get(r->row, "host_us"));
    if (found.time_us > 0 && isfinite(found.time_us))
        add_measurement(r, &found, BB_USED);
}

static void bench_row(struct reader *r)
{
    if (!has_text(r, "mode", "stream") || !is_true(r, "start_barrier")) {
        count_unused(r, has_text(r, "mode", "stream") ? BB_UNUSED_START : BB_UNUSED_MODE);
        return;
    }
    collective_row(r);
    if (!r->rc && !is_true(r, "forced"))
        launch_row(r);
}

static void p2p_row(struct reader *r)
{
    struct bb_measurement found = {.kind = BB_MEASURED_MESSAGE, .same_node = is_true(r, "same_node")};

    found.iterations = is_true(r, "start_barrier") ? 0 : 1;
    (void)text_at(r, "metric"); /* only checked for presence: rows of latency and of bandwidth have the same cost
                                   model */
    (void)text_at(r, "direction");
    found.bytes = count_at(r, r->row, "bytes", 0);
    found.time_us = median_at(r, "time_us");
    add_measurement(r, &found, has_text(r, "direction", "one") ? BB_USED : BB_UNUSED_MODEL);
}

static void compute_row(struct reader *r)
{
    struct bb_measurement found = {.kind = BB_MEASURED_KERNEL};

    (void)text_at(r, "section");
    found.iterations = is_true(r, "start_barrier") ? 0 : int_at(r, "iterations", 1);
    found.time_us = median_at(r, "time_us");
    if (has_text(r, "section", "timed")) {
        int sms;

        found.kind = BB_MEASURED_TIMED_KERNEL;
        found.known_us = number_at(r, r->row, "clock_us", 0);
        sms = int_at(r, "sms", 1);
        r->file->sm_count = sms > r->file->sm_count ? sms : r->file->sm_count;
    } else if (has_text(r, "section", "memory_kernels")) {
        found.bytes = count_at(r, r->row, "bytes", 1);
        found.kernel = (struct bb_kernel_list_item){
            .is_memory_kernel = true,
            .memory_kernel = {
                .kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_FLOAT, .rows = 1, .cols = (uint64_t)(found.bytes / 8)}};
    } else if (has_text(r, "dtype", "tf32")) {
        count_unused(r, BB_UNUSED_MODEL); /* profiles have no rate of TF32 */
        return;
    } else {
        const enum bb_dtype_id dtype = dtype_at(r);
        const double batch = count_at(r, r->row, "batch", 1);

        found.kernel = gemm_at(r, r->row);
        found.kernel.gemm.dtype = dtype;
        found.kernel.gemm.batch = (int64_t)batch;
    }
    add_measurement(r, &found, BB_USED);
}

/* Adds two measurements from a result row of `bench overlap`: the GEMMs alone, and the GEMMs during a collective. The
 * latter cannot be used if the collective is neither a single NCCL call nor a sendrecv (one message in each direction),
 * because the number of SMs that it occupies is unknown. */
static void overlap_rows(struct reader *r)
{
    struct bb_measurement alone = {.kind = BB_MEASURED_KERNEL}, overlap = {.kind = BB_MEASURED_OVERLAP};
    const enum bb_dtype_id dtype = dtype_at(r);
    const int gemms = int_at(r, "gemms", 1);
    int kind;

    overlap.known_us = median_at(r, "compute_alone_us");
    overlap.kernel = gemm_at(r, json_object_get(r->row, "gemm"));
    overlap.kernel.gemm.dtype = overlap.call.dtype = dtype;
    overlap.call.redop = redop_at(r);
    kind = bb_coll_find(text_at(r, "collective"));
    overlap.bytes = count_at(r, r->row, "bytes", 0);
    overlap.call.count = (size_t)count_at(r, r->row, "count", 0);
    overlap.iterations = int_at(r, "collectives", 1);
    overlap.comm_us = median_at(r, "comm_in_both_us");
    overlap.time_us = median_at(r, "compute_in_both_us");
    overlap.call.kind = (enum bb_coll_kind)kind;
    overlap.call.ranks = r->file->ranks;
    overlap.call.nodes = r->file->nodes;
    read_choice(r, &overlap);
    alone.kernel = overlap.kernel;
    alone.time_us = overlap.known_us / gemms;
    add_measurement(r, &alone, BB_USED);
    add_measurement(r, &overlap,
                    kind >= 0 && r->file->ranks >= 2 && overlap.comm_us > 0 && overlap.known_us > 0 &&
                            (kind == BB_SENDRECV || bb_colls[kind].flags & BB_COLL_ESTIMATED)
                        ? BB_USED
                        : BB_UNUSED_MODEL);
}

static void unused_row(struct reader *r)
{
    count_unused(r, BB_UNUSED_MODEL);
}

/* Function that reads each kind of result row. The first element whose `key` is present in the row applies. */
static const struct {
    const char *key;
    void (*read)(struct reader *r);
} readers[] = {{"section", compute_row},
               {"metric", p2p_row},
               {"both_us", overlap_rows},
               {"step", unused_row},
               {"collective", bench_row}};

int bb_measurements_add_results(struct bb_measurements *e, const json_t *root)
{
    struct reader r = {.e = e, .file = &e->files[e->n_files - 1]};
    const json_t *results = json_object_get(root, "results");

    if (!json_is_array(results))
        return bb_err(BB_EUSAGE, "%s: 'results' is missing or not a list", r.file->path);
    for (size_t i = 0, kind; i < json_array_size(results) && r.rc == 0; i++) {
        r.row = json_array_get(results, i);
        snprintf(r.where, sizeof(r.where), "%s: results[%zu]", r.file->path, i);
        for (kind = 0; kind < sizeof(readers) / sizeof(readers[0]) && !json_object_get(r.row, readers[kind].key);)
            kind++;
        (kind < sizeof(readers) / sizeof(readers[0]) ? readers[kind].read : unused_row)(&r);
    }
    return r.rc;
}

/* ---- rows of nccl-tests ---- */

/* Adds a measurement from a row of nccl-tests. found.bytes is the size from which nccl-tests computes the algorithm
 * bandwidth (algbw); busbar computes algbw from the same size. */
static void nccl_tests_row(struct reader *r, const struct bb_timing *t, int iterations)
{
    const int kind = bb_coll_find(t->what), dtype = bb_dtype_find(t->dtype);
    const enum bb_unused reason = strcmp(t->mode, "stream") != 0
                                      ? BB_UNUSED_MODE
                                      : judge_collective(kind, r->file->ranks, (double)t->bytes, t->wrong);
    size_t count = (size_t)t->bytes / (dtype < 0 ? 1 : bb_dtypes[dtype].bytes);
    struct bb_measurement found;

    if (reason == BB_USED && bb_colls[kind].flags & BB_COLL_SLICED)
        count /= (size_t)r->file->ranks;
    found = (struct bb_measurement){.kind = BB_MEASURED_COLLECTIVE,
                                    .by_host = true,
                                    .iterations = iterations,
                                    .time_us = t->time_us,
                                    .bytes = (double)t->bytes,
                                    .call = {.kind = (enum bb_coll_kind)kind,
                                             .dtype = dtype < 0 ? BB_INT8 : (enum bb_dtype_id)dtype,
                                             .redop = dtype < 0 ? BB_COPY : redop_of(t->op),
                                             .in_place = strcmp(t->placement, "in_place") == 0,
                                             .count = count,
                                             .ranks = r->file->ranks,
                                             .nodes = r->file->nodes}};
    make_message(&found);
    add_measurement(r, &found, reason);
}

int bb_measurements_add_nccl_tests(struct bb_measurements *e, json_t *root)
{
    struct reader r = {.e = e, .file = &e->files[e->n_files - 1]};
    const json_t *iterations = json_object_get(json_object_get(root, "config"), "iterations");
    const int n = (int)json_integer_value(iterations);
    struct bb_result_file file;

    r.rc = bb_result_file_from_tree(&file, r.file->path, json_incref(root));
    for (size_t i = 0; i < file.n && r.rc == 0; i++)
        nccl_tests_row(&r, &file.rows[i], n > 0 ? n : 20);
    bb_result_file_release(&file);
    return r.rc;
}
