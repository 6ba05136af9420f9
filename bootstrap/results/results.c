/*
 * results.c - collects and saves the results of a run: the head (document.h), the rows of results[] and the status. A
 * mutex protects the results, because the main thread adds rows while the watchdog thread saves the results when the
 * run ends early.
 */
#include "bootstrap/results/results.h"

#include "bootstrap/results/document.h"
#include "bootstrap/results/flat_table.h"
#include "bootstrap/watchdog/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Used when the run ends early while another thread writes the results. WRITE_MS: time in ms after which the write
 * is treated as hung; POLL_MS: interval in ms at which the end of the write is polled. */
enum { WRITE_MS = 100, POLL_MS = 5 };

struct bb_results {
    pthread_mutex_t lock;
    struct bb_world *world;
    json_t *root;
    json_t *rows; /* list "results" of root, borrowed; NULL: schema without rows. With a file this list stays empty,
                     because rows are stored only in the file. */
    const char *status;
    struct bb_document file; /* JSON file; not open if the JSON is written to a stream at the end */
    struct bb_document_writer writer;
    bool live; /* true between bb_results_open and bb_results_close */
    FILE *out; /* stream to which the JSON is written for `--json -`; NULL: the JSON is written to `path` */
    char *path;
    bool foreign; /* the document has the schema of nccl-tests, which has no key "status" */
    char *csv;    /* CSV file; "-": stream csv_out; NULL: no CSV */
    FILE *csv_out;
    bool streamed; /* the CSV was written to a stream, which must not be written a second time */
    struct bb_flat_table table;
};

/* ---- writing; the caller holds the lock ---- */

static bool is_file(const struct bb_results *res)
{
    return res->file.file.out != NULL;
}

static const char *shown_status(const struct bb_results *res)
{
    return res->foreign ? NULL : res->status;
}

/* Writes the JSON to stdout, a pipe or a device at the end of the run, because a stream cannot be replaced like a
 * file. */
static int write_stream(struct bb_results *res)
{
    struct bb_outfile file = {.out = res->out};
    int error = res->out ? 0 : bb_outfile_create(&file, res->path, 0600);

    if (!error && bb_document_print(res->root, shown_status(res), file.out))
        error = errno ? errno : EIO;
    if (file.out && !res->out)
        (void)bb_outfile_close(&file, "results", -BB_EFAIL);
    return error
               ? bb_err(BB_EFAIL, "cannot write the results: %s: %s", res->out ? "stdout" : res->path, strerror(error))
               : 0;
}

/* ---- CSV; the caller holds the lock ---- */

/* Returns the fields "emulated" and "shared_gpu", which are appended to every CSV row and show whether the row's
 * times come from real GPUs with one rank each. */
static json_t *reliability_fields(const json_t *root)
{
    return json_pack("{s:O, s:O}", "emulated", json_object_get(root, "emulated"), "shared_gpu",
                     json_object_get(root, "shared_gpu"));
}

static void add_table_row(struct bb_results *res, const json_t *row)
{
    json_t *reliability = res->csv ? reliability_fields(res->root) : NULL;

    if (res->csv)
        bb_flat_table_add(&res->table, row, reliability);
    json_decref(reliability);
}

/* Writes the CSV. A schema without rows yields one CSV row, which contains the scalar fields of the document. */
static int write_table(struct bb_results *res)
{
    const char *what = "the table";
    struct bb_outfile file;
    int rc, error;

    if (!res->csv || res->streamed)
        return 0;
    res->streamed = res->csv_out || bb_outfile_is_stream(res->csv);
    if (!res->rows) {
        json_t *end = json_pack("{s:s?}", "status", shown_status(res));

        bb_flat_table_release(&res->table);
        bb_flat_table_add(&res->table, res->root, end);
        json_decref(end);
    }
    if (res->csv_out) {
        rc = bb_flat_table_write(&res->table, res->csv_out);
        if (rc == 0 && (error = bb_outfile_error(res->csv_out)) != 0)
            rc = bb_err(BB_EFAIL, "cannot write %s to stdout: %s", what, strerror(error));
        return rc;
    }
    rc = bb_outfile_open_private(&file, res->csv, what);
    return rc ? rc : bb_outfile_close(&file, what, bb_flat_table_write(&res->table, file.out));
}

/* Saves a change of the results. row: true if the change is a new row of results[]. A row is saved immediately,
 * unless an earlier write has failed. All other changes are saved only if bb_document_due(); otherwise, they are
 * saved with the next row or at the end. */
static void save_change(struct bb_results *res, bool row)
{
    const bool at_once = row && !res->file.error_reported;

    if (at_once || bb_document_due(&res->file))
        (void)bb_document_save(&res->file, shown_status(res)); /* a failed write is retried later; bb_results_close
                                                                  returns the error */
}

static const char *status_of(int rc)
{
    static const char *const status[] = {
        [0] = "ok",
        [BB_EFAIL] = "failed",
        [BB_EUSAGE] = "failed",
        [BB_EDATA] = "wrong data",
        [BB_ETIMEOUT] = "timeout",
        [BB_EBELOW] = "below threshold",
    };
    int code = bb_exit_code(rc);

    return code < (int)(sizeof(status) / sizeof(*status)) ? status[code] : "failed";
}

/* Sets the final status; the caller holds the lock. If a signal or a library's exit() ended the run, the status is
 * "interrupted", the key "ended_by" records the signal or the exit(), and the key "phase" records the last step of
 * this rank and what the rank waited for (bb_watchdog_reason). */
static void set_final_status(struct bb_results *res, int rc)
{
    char phase[BB_WATCHDOG_REASON];
    const char *signal = rc < 0 && res->world && res->world->watchdog && !res->foreign
                             ? bb_watchdog_reason(res->world->watchdog, phase)
                             : "";

    res->status = status_of(rc);
    if (!*signal)
        return;
    res->status = "interrupted";
    if (json_object_set_new(res->root, "ended_by", json_string(signal)) == 0)
        bb_document_changed(&res->file, "ended_by");
    if (json_object_set_new(res->root, "phase", json_string(phase)) == 0)
        bb_document_changed(&res->file, "phase");
}

/* Locks the results and returns true. If another thread holds the lock and hangs in a write, takes the document over
 * from that thread and returns false without having locked. */
static bool lock_results(struct bb_results *res)
{
    const struct timespec moment = {.tv_nsec = 1000000 * POLL_MS};

    for (int waited_ms = 0; pthread_mutex_trylock(&res->lock) != 0; waited_ms += POLL_MS) {
        if (waited_ms >= WRITE_MS && bb_document_take_over(&res->writer))
            return false;
        nanosleep(&moment, NULL);
    }
    return true;
}

/* Watchdog hook: saves the results when the job ends early, possibly while the main thread is stuck. */
static void save_at_end(void *arg, int rc)
{
    struct bb_results *res = arg;
    const bool locked = lock_results(res);

    if (!locked || res->live)
        set_final_status(res, rc);
    if (!locked)
        bb_document_rescue(&res->file, shown_status(res));
    else if (res->live && is_file(res))
        (void)bb_document_save(&res->file, shown_status(res));
    if (res->live)
        (void)write_table(res); /* the return value is ignored, because write_table has printed the error */
    if (locked)
        pthread_mutex_unlock(&res->lock);
}

/* ---- head ---- */

static json_t *command_of(const struct bb_results_head *head)
{
    json_t *command = json_array();

    for (int i = 0; i < head->argc; i++)
        json_array_append_new(command, json_string(head->argv[i]));
    return command;
}

static json_t *started_now(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

/* Formats an NCCL version code: 22809 is "2.28.9". */
static json_t *nccl_text(int version)
{
    return version ? json_sprintf("%d.%d.%d", version / 10000, version / 100 % 100, version % 100) : json_null();
}

/* Formats a CUDA version code: 13020 is "13.2". */
static json_t *cuda_text(int version)
{
    return version ? json_sprintf("%d.%d", version / 1000, version % 1000 / 10) : json_null();
}

static json_t *devices_of(const struct bb_results_head *head)
{
    json_t *devices = json_array();

    for (int i = 0; i < head->n_devices; i++) {
        const struct bb_results_device *d = &head->devices[i];

        json_array_append_new(devices, json_pack("{s:i, s:s, s:s, s:s, s:s}", "rank", d->rank, "host", d->host, "name",
                                                 d->name, "uuid", d->uuid, "pci", d->pci));
    }
    return devices;
}

static json_t *new_root(const struct bb_results_head *head, const struct bb_world *w)
{
    json_t *root = json_object();

    json_object_set_new(root, "schema", json_string(head->schema));
    json_object_set_new(root, "busbar", json_string(BUSBAR_VERSION));
    json_object_set_new(root, "command", command_of(head));
    json_object_set_new(root, "started", started_now());
    json_object_set_new(
        root, "nccl",
        json_pack("{s:o, s:o}", "header", nccl_text(head->nccl_header), "runtime", nccl_text(head->nccl_runtime)));
    json_object_set_new(
        root, "cuda",
        json_pack("{s:o, s:o}", "runtime", cuda_text(head->cuda_runtime), "driver", cuda_text(head->cuda_driver)));
    json_object_set_new(root, "ranks", json_integer(w ? w->size : 1));
    json_object_set_new(root, "nodes", json_integer(w ? w->nodes : 1));
    json_object_set_new(root, "devices", devices_of(head));
    json_object_set_new(root, "emulated", json_boolean(head->emulated));
    json_object_set_new(root, "shared_gpu", json_boolean(head->shared_gpu));
    json_object_set_new(root, "environment", bb_json_environment());
    return root;
}

/* ---- open and close ---- */

static void free_results(struct bb_results *res)
{
    json_decref(res->root);
    bb_flat_table_release(&res->table);
    pthread_mutex_destroy(&res->lock);
    free(res->path);
    free(res->csv);
    free(res);
}

/* Returns FILE, or the first of FILE.0, FILE.1, ... that does not exist; NULL if memory is exhausted. */
static char *fresh_path(const char *path)
{
    char *free_one = strdup(path);

    for (int i = 0; free_one && access(free_one, F_OK) == 0; i++) {
        free(free_one);
        if (asprintf(&free_one, "%s.%d", path, i) < 0)
            free_one = NULL;
    }
    return free_one;
}

/* Opens the target of --json: stdout, a device or a pipe, or a file, which is created here. */
static int set_target(struct bb_results *res, const struct bb_results_head *head)
{
    bool stream = bb_outfile_is_stream(head->path);
    struct stat old;

    if (strcmp(head->path, "-") == 0) {
        res->out = head->out;
        return 0;
    }
    if (lstat(head->path, &old) == 0 && S_ISDIR(old.st_mode))
        return bb_err(BB_EUSAGE, "cannot write the results: %s is a directory, not a file", head->path);
    res->path = head->fresh && !stream ? fresh_path(head->path) : strdup(head->path);
    if (!res->path)
        return bb_err(BB_EFAIL, "results: out of memory");
    return stream ? 0 : bb_document_open(&res->file, res->path, res->root, shown_status(res));
}

static int set_table(struct bb_results *res, const struct bb_results_head *head)
{
    int rc = 0;

    if (!head->csv)
        return 0;
    if (strcmp(head->csv, "-") == 0)
        res->csv_out = head->out;
    else
        rc = bb_outfile_check(head->csv, "the table");
    res->csv = strdup(head->csv);
    return rc || res->csv ? rc : bb_err(BB_EFAIL, "results: out of memory");
}

static struct bb_results *new_results(const struct bb_results_head *head, const struct bb_world *world)
{
    struct bb_results *res = calloc(1, sizeof(*res));

    if (!res)
        return NULL;
    pthread_mutex_init(&res->lock, NULL);
    res->foreign = head->root != NULL;
    res->root = head->root ? json_incref(head->root) : new_root(head, world);
    if (!head->no_rows && !res->foreign)
        json_object_set_new(res->root, "results", json_array());
    res->rows = json_object_get(res->root, "results");
    res->status = "running";
    res->file.writer = &res->writer;
    return res;
}

static int open_targets(struct bb_results *res, const struct bb_results_head *head)
{
    int rc;

    pthread_mutex_lock(&res->lock);
    rc = set_table(res, head);
    if (rc == 0 && head->path)
        rc = set_target(res, head);
    res->live = rc == 0;
    pthread_mutex_unlock(&res->lock);
    return rc;
}

static int open_results(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    struct bb_results *res = new_results(head, world);
    int rc = res ? 0 : bb_err(BB_EFAIL, "results: out of memory");

    TRY(rc);
    if (world && world->watchdog) {
        res->world = world;
        TRY(bb_watchdog_hook(world->watchdog, BB_WATCHDOG_AT_ONCE, save_at_end, res));
    }
    TRY(open_targets(res, head));
    *out = res;
    return 0;
out:
    if (res && res->world)
        bb_watchdog_forget(world->watchdog, save_at_end, res);
    if (res)
        free_results(res);
    return rc;
}

int bb_results_open(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    int rc = 0;

    *out = NULL;
    if ((head->path || head->csv) && (!world || world->rank == 0))
        rc = open_results(out, head, world);
    json_decref(head->root);
    return rc;
}

const char *bb_results_path(const struct bb_results *res)
{
    return res ? res->path : NULL;
}

static int add_row(struct bb_results *res, json_t *row)
{
    add_table_row(res, row);
    if (!res->path && !res->out) {
        json_decref(row); /* the results are written only as CSV */
        return 0;
    }
    if (is_file(res))
        return bb_document_add(&res->file, row);
    return json_array_append_new(res->rows, row) ? bb_err(BB_EFAIL, "results: cannot add a row (out of memory)") : 0;
}

/* Sets a field of root. Unchanged values are skipped, because changing a field of the head rewrites the whole file. */
static int set_field(struct bb_results *res, const char *key, json_t *value)
{
    if (json_equal(json_object_get(res->root, key), value)) {
        json_decref(value);
        return 0;
    }
    if (json_object_set_new(res->root, key, value))
        return bb_err(BB_EFAIL, "results: cannot set '%s' (out of memory)", key);
    bb_document_changed(&res->file, key);
    return 0;
}

/* Appends `value` to results[] if key is NULL; otherwise sets the field `key` of root to `value`. */
static int add_value(struct bb_results *res, const char *key, json_t *value)
{
    int rc;

    if (!res) {
        json_decref(value);
        return 0;
    }
    pthread_mutex_lock(&res->lock);
    rc = key ? set_field(res, key, value) : add_row(res, value);
    if (rc == 0 && is_file(res))
        save_change(res, !key);
    pthread_mutex_unlock(&res->lock);
    return rc;
}

int bb_results_row(struct bb_results *res, json_t *row)
{
    return add_value(res, NULL, row);
}

int bb_results_set(struct bb_results *res, const char *key, json_t *value)
{
    return add_value(res, key, value);
}

int bb_results_validate(const char *json, const char *csv)
{
    if (json && csv && strcmp(json, "-") == 0 && strcmp(csv, "-") == 0)
        return bb_err(BB_EUSAGE, "--json - and --csv - both write to stdout; try: --csv FILE");
    return 0;
}

bool bb_results_on_stdout(const char *json, const char *csv)
{
    return (json && strcmp(json, "-") == 0) || (csv && strcmp(csv, "-") == 0);
}

/* Returns rc, or -BB_EFAIL if stdout could not be written: the report on stdout is a result, too. */
static int check_stdout(const struct bb_results *res, int rc)
{
    int error;

    if (rc < 0 || res->out || res->csv_out || (error = bb_outfile_error(stdout)) == 0)
        return rc;
    return bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(error));
}

void bb_results_at_end(struct bb_results *res, void (*fn)(int rc))
{
    if (res)
        res->writer.at_end = fn;
}

/* Writes the CSV and the JSON for the last time. Returns rc; if rc is not negative but a file or stdout could not be
 * written, returns -BB_EFAIL. */
static int write_last(struct bb_results *res, int rc)
{
    int failed = 0;

    pthread_mutex_lock(&res->lock);
    rc = check_stdout(res, rc);
    set_final_status(res, rc);
    if (write_table(res) && rc >= 0)
        set_final_status(res, rc = -BB_EFAIL);
    res->writer.rc = rc;
    if (is_file(res))
        failed = bb_document_close(&res->file, shown_status(res));
    else if (res->path || res->out)
        failed = write_stream(res);
    res->live = false;
    pthread_mutex_unlock(&res->lock);
    return rc < 0 ? rc : failed ? -BB_EFAIL : 0;
}

int bb_results_close(struct bb_results *res, int rc)
{
    if (!res)
        return rc < 0 ? rc : 0;
    rc = write_last(res, rc);
    if (res->world && res->world->watchdog)
        bb_watchdog_forget(res->world->watchdog, save_at_end, res);
    free_results(res);
    return rc;
}
