/* measurement_rows.c - converts the rows of result files to measurements, with one function per kind of row
 * (collective, message, kernel, ...). Each field is validated before use. */
#include "proxies/calibrate/measurements/measurement_rows.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "collectives/compare/result_reader.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { MAX_LOCATION = 512 };

static struct bb_measurement_file *file_of(struct bb_measurements *e)
{
    return &e->files[e->n_files - 1];
}

/* Counts a row of the current result file as not used by calibration. Returns 0. */
static int skip_row(struct bb_measurements *e)
{
    file_of(e)->n_unused++;
    return 0;
}

/* Appends a measurement that was read from the last file of e->files. If its time is not a positive number, counts
 * its result row as not used instead. Returns 0. */
static int add_measurement(struct bb_measurements *e, const struct bb_measurement *row)
{
    if (!(row->time_us > 0) || !isfinite(row->time_us))
        return skip_row(e);
    BB_GROW(e->rows, e->n_rows);
    e->rows[e->n_rows] = *row;
    e->rows[e->n_rows++].file = e->n_files - 1;
    file_of(e)->n_rows++;
    return 0;
}

/* ---- fields of a result row ---- */

/* Reads the median ("p50") of the statistics object `key` in a result row; NaN if the row has no such object. */
static int read_median(const json_t *row, const char *key, const char *where, double *us)
{
    const json_t *stats = json_object_get(row, key);

    *us = NAN;
    if (!stats || json_is_null(stats) || json_is_null(json_object_get(stats, "p50")))
        return 0;
    return bb_json_number_at(stats, "p50", where, 0, us);
}

static int read_count(const json_t *row, const char *key, const char *where, double min, double *count)
{
    int rc = bb_json_number_at(row, key, where, min, count);

    if (rc == 0 && (*count != floor(*count) || *count > 1e15))
        rc = bb_err(BB_EUSAGE, "%s: '%s' is %g, expected a whole number", where, key, *count);
    return rc;
}

static int read_int(const json_t *row, const char *key, const char *where, int min, int *number)
{
    double count;
    int rc = read_count(row, key, where, min, &count);

    *number = rc == 0 && count < INT_MAX ? (int)count : min;
    return rc;
}

static int read_dtype(const json_t *row, const char *where, enum bb_dtype_id *dtype)
{
    const char *name;
    int found, rc = bb_json_text_at(row, "dtype", where, &name);

    *dtype = BB_FLOAT;
    if (rc)
        return rc;
    found = bb_dtype_find(name);
    if (found < 0)
        return bb_err(BB_EUSAGE, "%s: unknown dtype '%.40s'", where, name);
    *dtype = (enum bb_dtype_id)found;
    return 0;
}

static void copy_word(char *to, size_t size, const json_t *row, const char *key)
{
    const char *word = json_string_value(json_object_get(row, key));

    snprintf(to, size, "%s", word ? word : "");
}

/* Reads the algorithm, the protocol and the number of channels that NCCL used. */
static void read_choice(const json_t *row, struct bb_measurement *found)
{
    const json_int_t channels = json_integer_value(json_object_get(row, "channels"));

    found->channels = channels > 0 && channels < 1 << 20 ? (int)channels : 0;
    copy_word(found->algorithm, sizeof(found->algorithm), row, "algorithm");
    copy_word(found->protocol, sizeof(found->protocol), row, "protocol");
}

/* ---- kinds of result rows (collectives, messages, kernels, overlap) ---- */

/* Returns whether the cost model supports the collective on this number of ranks (at least two). Not supported are
 * collectives with different counts per pair of ranks, collectives of several dependent exchanges, and sendrecv. */
static bool has_cost_model(int kind, int ranks)
{
    return kind >= 0 && ranks > 1 && !(bb_colls[kind].flags & (BB_COLL_VARIABLE_COUNTS | BB_COLL_ROUNDS)) &&
           bb_colls[kind].from != BB_FROM_PREVIOUS;
}

static int collective_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    const struct bb_measurement_file *file = file_of(e);
    struct bb_measurement found = {.kind = BB_MEASURED_COLLECTIVE};
    const char *name, *placement = json_string_value(json_object_get(row, "placement"));
    double bytes, count, wrong = 0;
    int kind, rc;

    TRY(bb_json_text_at(row, "collective", where, &name));
    kind = bb_coll_find(name);
    TRY(read_count(row, "bytes", where, 0, &bytes));
    TRY(read_count(row, "count", where, 0, &count));
    TRY(read_dtype(row, where, &found.call.dtype));
    TRY(read_median(row, "time_us", where, &found.time_us));
    if (json_is_number(json_object_get(row, "wrong")))
        wrong = json_number_value(json_object_get(row, "wrong"));
    if (!has_cost_model(kind, file->ranks) || bytes <= 0 || wrong > 0)
        return skip_row(e);
    found.call.kind = (enum bb_coll_kind)kind;
    found.call.count = (size_t)count;
    found.call.in_place = placement && strcmp(placement, "in_place") == 0;
    found.call.ranks = file->ranks;
    found.call.nodes = file->nodes;
    found.bytes = bytes;
    found.forced = json_is_true(json_object_get(row, "forced"));
    read_choice(row, &found);
    rc = add_measurement(e, &found);
out:
    return rc;
}

/* Adds the host time of an NCCL call. Only rows of collectives that are one NCCL call (BB_COLL_ESTIMATED) have such
 * a time. With emulated GPUs the recorded host time is that of the emulation itself; the modeled host time is the
 * difference between wall time and operation time. */
static int launch_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    struct bb_measurement found = {.kind = BB_MEASURED_NCCL_LAUNCH};
    int kind = bb_coll_find(json_string_value(json_object_get(row, "collective")));
    double wall_us, time_us;
    int rc, iterations;

    if (kind < 0 || !(bb_colls[kind].flags & BB_COLL_ESTIMATED))
        return 0;
    TRY(read_median(row, "time_us", where, &time_us));
    TRY(read_median(row, "wall_us", where, &wall_us));
    TRY(read_int(row, "iterations", where, 1, &iterations));
    found.time_us =
        file_of(e)->emulated ? (wall_us - time_us) * iterations : json_number_value(json_object_get(row, "host_us"));
    if (found.time_us > 0 && isfinite(found.time_us))
        rc = add_measurement(e, &found);
out:
    return rc;
}

static int bench_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    const char *mode = json_string_value(json_object_get(row, "mode"));
    int rc;

    if (!mode || strcmp(mode, "stream") != 0 || !json_is_true(json_object_get(row, "start_barrier")))
        return skip_row(e); /* not used: the time also contains host overhead, or the operations ran in a CUDA graph */
    TRY(collective_row(e, row, where));
    if (!json_is_true(json_object_get(row, "forced")))
        rc = launch_row(e, row, where);
out:
    return rc;
}

static int p2p_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    struct bb_measurement found = {.kind = BB_MEASURED_MESSAGE};
    const char *metric, *direction;
    int rc;

    TRY(bb_json_text_at(row, "metric", where, &metric)); /* only checked for presence: rows of latency and of
                                                            bandwidth have the same cost model */
    TRY(bb_json_text_at(row, "direction", where, &direction));
    TRY(read_count(row, "bytes", where, 0, &found.bytes));
    TRY(read_median(row, "time_us", where, &found.time_us));
    found.same_node = json_is_true(json_object_get(row, "same_node"));
    rc = strcmp(direction, "one") == 0 ? add_measurement(e, &found) : skip_row(e);
out:
    return rc;
}

static int read_gemm(const json_t *object, const char *where, double batch, enum bb_dtype_id dtype,
                     struct bb_kernel_list_item *gemm)
{
    double m, n, k;
    int rc;

    TRY(read_count(object, "m", where, 1, &m));
    TRY(read_count(object, "n", where, 1, &n));
    TRY(read_count(object, "k", where, 1, &k));
    *gemm = (struct bb_kernel_list_item){
        .gemm = {.m = (int64_t)m, .n = (int64_t)n, .k = (int64_t)k, .batch = (int64_t)batch, .dtype = dtype}};
out:
    return rc;
}

static int compute_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    struct bb_measurement found = {.kind = BB_MEASURED_KERNEL};
    enum bb_dtype_id dtype;
    const char *section;
    double batch;
    int rc, sms;

    TRY(bb_json_text_at(row, "section", where, &section));
    TRY(read_int(row, "iterations", where, 1, &found.iterations));
    TRY(read_median(row, "time_us", where, &found.time_us));
    if (strcmp(section, "timed") == 0) {
        found.kind = BB_MEASURED_TIMED_KERNEL;
        TRY(bb_json_number_at(row, "clock_us", where, 0, &found.known_us));
        TRY(read_int(row, "sms", where, 1, &sms));
        file_of(e)->sm_count = sms > file_of(e)->sm_count ? sms : file_of(e)->sm_count;
    } else if (strcmp(section, "memory_kernels") == 0) {
        TRY(read_count(row, "bytes", where, 1, &found.bytes));
        found.kernel = (struct bb_kernel_list_item){
            .is_memory_kernel = true,
            .memory_kernel = {
                .kind = BB_MEMORY_KERNEL_COPY, .dtype = BB_FLOAT, .rows = 1, .cols = (uint64_t)(found.bytes / 8)}};
    } else {
        TRY(read_dtype(row, where, &dtype));
        TRY(read_count(row, "batch", where, 1, &batch));
        TRY(read_gemm(row, where, batch, dtype, &found.kernel));
    }
    rc = add_measurement(e, &found);
out:
    return rc;
}

/* Reads the collective that ran during the GEMMs. Sets found->time_us to NaN if the row cannot be used: a time is
 * missing, or the collective is neither a single NCCL call nor a sendrecv (one message in each direction), so the
 * number of SMs that it occupies is unknown. */
static int read_overlap(const struct bb_measurement_file *file, const json_t *row, const char *where,
                        struct bb_measurement *found)
{
    const char *name;
    double count;
    int kind, rc;

    TRY(bb_json_text_at(row, "collective", where, &name));
    TRY(read_count(row, "bytes", where, 0, &found->bytes));
    TRY(read_count(row, "count", where, 0, &count));
    TRY(read_int(row, "collectives", where, 1, &found->iterations));
    TRY(read_median(row, "comm_in_both_us", where, &found->comm_us));
    TRY(read_median(row, "compute_in_both_us", where, &found->time_us));
    read_choice(row, found);
    kind = bb_coll_find(name);
    if (kind < 0 || file->ranks < 2 || !(found->comm_us > 0) || !(found->known_us > 0) ||
        !(kind == BB_SENDRECV || bb_colls[kind].flags & BB_COLL_ESTIMATED)) {
        found->time_us = NAN;
        goto out;
    }
    found->call = (struct bb_collective){.kind = (enum bb_coll_kind)kind,
                                         .dtype = found->kernel.gemm.dtype,
                                         .count = (size_t)count,
                                         .ranks = file->ranks,
                                         .nodes = file->nodes};
out:
    return rc;
}

/* Adds two measurements from a result row of `bench overlap`: the GEMMs alone, and the GEMMs during a collective. */
static int overlap_rows(struct bb_measurements *e, const json_t *row, const char *where)
{
    struct bb_measurement alone = {.kind = BB_MEASURED_KERNEL}, overlap = {.kind = BB_MEASURED_OVERLAP};
    const json_t *gemm = json_object_get(row, "gemm");
    enum bb_dtype_id dtype;
    int rc, gemms;

    TRY(read_dtype(row, where, &dtype));
    TRY(read_int(row, "gemms", where, 1, &gemms));
    TRY(read_median(row, "compute_alone_us", where, &alone.time_us));
    TRY(read_gemm(gemm, where, 1, dtype, &alone.kernel));
    overlap.kernel = alone.kernel;
    overlap.known_us = alone.time_us;
    TRY(read_overlap(file_of(e), row, where, &overlap));
    alone.time_us /= gemms;
    TRY(add_measurement(e, &alone));
    TRY(add_measurement(e, &overlap));
out:
    return rc;
}

/* Function that reads each kind of result row. The first element whose `key` is present in the row applies. read:
 * NULL: rows of this kind are not used. */
static const struct {
    const char *key;
    int (*read)(struct bb_measurements *e, const json_t *row, const char *where);
} readers[] = {{"section", compute_row},
               {"metric", p2p_row},
               {"both_us", overlap_rows},
               {"step", NULL},
               {"collective", bench_row}};

static int read_row(struct bb_measurements *e, const json_t *row, const char *where)
{
    for (size_t r = 0; r < sizeof(readers) / sizeof(readers[0]); r++)
        if (json_object_get(row, readers[r].key))
            return readers[r].read ? readers[r].read(e, row, where) : skip_row(e);
    return skip_row(e);
}

int bb_measurements_add_results(struct bb_measurements *e, const json_t *root)
{
    const json_t *results = json_object_get(root, "results");
    const char *path = file_of(e)->path;
    char where[MAX_LOCATION];
    int rc = 0;

    if (!json_is_array(results))
        return bb_err(BB_EUSAGE, "%s: 'results' is missing or not a list", path);
    for (size_t i = 0; i < json_array_size(results) && rc == 0; i++) {
        snprintf(where, sizeof(where), "%s: results[%zu]", path, i);
        rc = read_row(e, json_array_get(results, i), where);
    }
    return rc;
}

/* ---- rows of nccl-tests ---- */

/* Adds a measurement from a row of nccl-tests. found.bytes is the size from which nccl-tests computes the algorithm
 * bandwidth (algbw); busbar computes algbw from the same size. */
static int nccl_tests_row(struct bb_measurements *e, const struct bb_timing *t, int iterations)
{
    const struct bb_measurement_file *file = file_of(e);
    struct bb_measurement found = {.kind = BB_MEASURED_COLLECTIVE,
                                   .by_host = true,
                                   .iterations = iterations,
                                   .time_us = t->time_us,
                                   .bytes = (double)t->bytes};
    int kind = bb_coll_find(t->what), dtype = bb_dtype_find(t->dtype);
    size_t element = dtype < 0 ? 1 : bb_dtypes[dtype].bytes;

    if (!has_cost_model(kind, file->ranks) || t->bytes <= 0 || t->wrong > 0 || strcmp(t->mode, "stream") != 0)
        return skip_row(e);
    found.call = (struct bb_collective){
        .kind = (enum bb_coll_kind)kind,
        .dtype = dtype < 0 ? BB_INT8 : (enum bb_dtype_id)dtype,
        .in_place = strcmp(t->placement, "in_place") == 0,
        .count = (size_t)t->bytes / element,
        .ranks = file->ranks,
        .nodes = file->nodes,
    };
    if (bb_colls[kind].flags & BB_COLL_SLICED)
        found.call.count /= (size_t)file->ranks;
    return add_measurement(e, &found);
}

int bb_measurements_add_nccl_tests(struct bb_measurements *e, json_t *root)
{
    const json_t *iterations = json_object_get(json_object_get(root, "config"), "iterations");
    struct bb_result_file file;
    int rc, n = (int)json_integer_value(iterations);

    TRY(bb_result_file_from_tree(&file, file_of(e)->path, json_incref(root)));
    for (size_t i = 0; i < file.n; i++)
        TRY(nccl_tests_row(e, &file.rows[i], n > 0 ? n : 20));
out:
    bb_result_file_release(&file);
    return rc;
}
