/* writer.c - writes the JSON and CSV results of a run and the final status. */
#include "bootstrap/results/writer.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/results/results.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- stdout, devices, pipes and CSV files, which are written at the end ---- */

static const char json_name[] = "the results", csv_name[] = "the table"; /* names of the targets in messages */

static void put_json(struct bb_results_writer *w, FILE *out)
{
    bb_document_print(&w->document, out);
}

/* Writes the CSV. A schema without rows yields one CSV row, which contains the scalar fields of the document. */
static void put_csv(struct bb_results_writer *w, FILE *out)
{
    json_t *root = w->document.root;
    json_t *rows = json_object_get(root, "results") ? json_incref(w->rows) : json_pack("[O]", root);

    bb_flat_table_write(rows, root, out);
    json_decref(rows);
}

/* Writes a target with the function `put`. what: name of the target in messages. Returns 0, or a negative error after
 * an error message. */
static int write_output(struct bb_results_writer *w, const char *path, const char *what,
                        void put(struct bb_results_writer *w, FILE *out))
{
    struct bb_outfile file;
    int rc, error;

    if (bb_outfile_is_stdout(path)) {
        put(w, w->out);
        error = bb_outfile_error(w->out);
        return error ? bb_err(BB_EFAIL, "cannot write %s to stdout: %s", what, strerror(error)) : 0;
    }
    TRY(bb_outfile_open_private(&file, path, what));
    put(w, file.out);
    rc = bb_outfile_close(&file, what, 0);
out:
    return rc;
}

/* ---- open and release ---- */

/* Opens the document, and creates the JSON file unless the target is stdout, a device or a pipe. */
static int open_json(struct bb_results_writer *w, json_t *root)
{
    const bool is_file = w->path && !bb_outfile_is_stdout(w->path) && !bb_outfile_is_stream(w->path);
    struct stat old;

    if (w->path && lstat(w->path, &old) == 0 && S_ISDIR(old.st_mode))
        return bb_err(BB_EUSAGE, "cannot write the results: %s is a directory, not a file", w->path);
    return bb_document_open(&w->document, json_incref(root), is_file ? w->path : NULL);
}

static int open_results(struct bb_results_writer *w, json_t *value)
{
    json_t *root = json_object_get(value, "root");
    int rc = 0;

    w->settings = json_incref(value);
    w->path = json_string_value(json_object_get(value, "path"));
    w->csv = json_string_value(json_object_get(value, "csv"));
    w->rows = json_array();
    w->foreign = json_is_true(json_object_get(value, "foreign"));
    if (!w->foreign)
        (void)!json_object_set_new(root, "status", json_string("running"));
    if (w->csv && !bb_outfile_is_stdout(w->csv))
        TRY(bb_outfile_check(w->csv, csv_name));
    rc = open_json(w, root);
out:
    if (rc)
        bb_results_writer_release(w);
    return rc;
}

void bb_results_writer_release(struct bb_results_writer *w)
{
    bb_document_release(&w->document);
    json_decref(w->rows);
    json_decref(w->settings);
    *w = (struct bb_results_writer){.out = w->out};
}

/* ---- rows and fields ---- */

static int add_row(struct bb_results_writer *w, json_t *row)
{
    if (w->csv || w->at_end || json_is_string(json_object_get(w->settings, "prometheus")))
        json_array_append(w->rows, row);
    return bb_document_add(&w->document, json_incref(row));
}

static int set_fields(struct bb_results_writer *w, json_t *fields)
{
    const char *key;
    json_t *value;
    int rc = 0;

    json_object_foreach(fields, key, value)
    {
        rc = rc ? rc : bb_document_set(&w->document, key, json_incref(value));
    }
    return rc;
}

int bb_results_writer_execute(struct bb_results_writer *w, enum bb_results_request request, json_t *value)
{
    const bool open = w->document.root != NULL;

    if (request == BB_RESULTS_OPEN && open && w->reopens) {
        bb_document_remove_rows(&w->document);
        (void)!json_array_clear(w->rows);
        return 0;
    }
    if (request == BB_RESULTS_OPEN && !open && json_is_object(json_object_get(value, "root")))
        return open_results(w, value);
    if (request == BB_RESULTS_ROW && open && value)
        return add_row(w, value);
    if (request == BB_RESULTS_SET && open && json_is_object(value))
        return set_fields(w, value);
    if (request == BB_RESULTS_CLOSE && open)
        return bb_document_sync(&w->document);
    return bb_err(BB_EFAIL, "results: invalid request");
}

int bb_results_writer_open_failed(struct bb_results_writer *w, json_t *opening, int rc)
{
    const bool opens = rc != -BB_EUSAGE || json_is_true(json_object_get(opening, "nagios"));

    return opening && rc < 0 && opens ? bb_results_writer_execute(w, BB_RESULTS_OPEN, opening) : 0;
}

/* ---- end ---- */

const char *bb_results_status(int rc)
{
    static const char *const status[] = {[0] = "ok",
                                         [BB_EDATA] = "wrong data",
                                         [BB_ETIMEOUT] = "timeout",
                                         [BB_EBELOW] = "below threshold",
                                         [BB_EWARN] = "ok"};
    const size_t code = (size_t)bb_exit_code(rc);

    return code < sizeof(status) / sizeof(*status) && status[code] ? status[code] : "failed";
}

static const char *final_status(int rc, const json_t *end)
{
    return json_object_get(end, "ended_by") ? "interrupted" : bb_results_status(rc);
}

json_t *bb_results_end_json(const struct bb_results_end *end)
{
    const char *const texts[][2] = {
        {"ended_by", end->ended_by}, {"phase", end->phase}, {"reason", end->reason}, {"nccl_ras", end->nccl_ras}};
    json_t *fields = json_object();

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        if (texts[i][1] && *texts[i][1])
            (void)!json_object_set_new(fields, texts[i][0], bb_json_text(texts[i][1]));
    if (end->lost)
        (void)!json_object_set(fields, "lost_ranks", end->lost);
    return fields;
}

/* Sets the reason of a failed run if the supervisor does not know it: an error of this process, if there was one. */
static void set_reason(json_t *end, int rc)
{
    const char *own = bb_err_record()->text;

    if (rc < 0 && end && !json_object_get(end, "reason") && !json_object_get(end, "ended_by"))
        (void)!json_object_set_new(end, "reason",
                                   bb_json_text(*own ? own : "a rank failed and printed the reason to stderr"));
}

/* Sets the final status and the reasons of an early end. Does nothing for the schema of nccl-tests, which has none of
 * these keys. */
static void set_end(struct bb_results_writer *w, int rc, json_t *end)
{
    if (w->foreign)
        return;
    set_reason(end, rc);
    (void)!json_object_update(w->document.root, end);
    if (rc < 0 && w->at_end)
        w->at_end(w->document.root, w->rows);
    bb_document_set_status(&w->document, final_status(rc, end));
}

void bb_results_rescue(const char *path, pid_t writer, time_t began, int rc, const struct bb_results_end *why)
{
    json_t *root = json_load_file(path, 0, NULL), *end = bb_results_end_json(why);
    struct stat file;

    set_reason(end, rc);
    bb_outfile_remove_temporaries(path, writer);
    if (stat(path, &file) == 0 && file.st_mtime >= began && json_object_del(root, "status") == 0) {
        (void)!json_object_update(root, end);
        (void)!json_object_set_new(root, "status", json_string(final_status(rc, end)));
        (void)!bb_json_save(path, "the results", json_incref(root), 12);
    }
    json_decref(root);
    json_decref(end);
}

/* Returns whether the CSV of an earlier run remains, because this run was interrupted before its first row. Prints the
 * warning, unless the document prints it for the JSON. */
static bool keeps_csv(const struct bb_results_writer *w, const json_t *end)
{
    const bool keeps = json_object_get(end, "ended_by") && json_array_size(w->rows) == 0 &&
                       !bb_outfile_is_stdout(w->csv) && access(w->csv, F_OK) == 0;

    if (keeps && !w->document.replaces)
        bb_warn(BB_KEPT_FILE, w->csv);
    return keeps;
}

/* Prints the line for Nagios. Returns 0, or -BB_EFAIL after an error message. */
static int print_nagios(const struct bb_results_writer *w)
{
    int error;

    bb_checks_print_nagios(w->document.root, w->out);
    error = bb_outfile_error(w->out);
    return error ? bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(error)) : 0;
}

/* Makes the run fail because an output could not be written, unless it has failed already. The outputs that are written later
 * report it. */
static void count_failed(struct bb_results_writer *w, int *rc, int failed, json_t *end)
{
    if (failed && *rc >= 0)
        set_end(w, *rc = failed, end);
}

/* Writes all outputs that can be written. The line for Nagios is the last one, because it reports if another output could not
 * be written. */
int bb_results_writer_finish(struct bb_results_writer *w, int rc, json_t *end)
{
    int failed = 0;

    set_end(w, rc, end);
    if (w->csv && !keeps_csv(w, end))
        count_failed(w, &rc, write_output(w, w->csv, csv_name, put_csv), end);
    count_failed(w, &rc,
                 bb_checks_save(w->document.root, w->rows, json_string_value(json_object_get(w->settings, "junit")),
                                json_string_value(json_object_get(w->settings, "prometheus"))),
                 end);
    if (w->path && !w->document.file.out && !w->document.replaces)
        failed = write_output(w, w->path, json_name, put_json);
    else
        failed = bb_document_finish(&w->document);
    count_failed(w, &rc, failed, end);
    if (json_is_true(json_object_get(w->settings, "nagios")))
        failed = print_nagios(w);
    return rc < 0 ? rc : failed;
}
