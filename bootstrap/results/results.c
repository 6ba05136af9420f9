/*
 * results.c - interface to the results of a run. The results are written either by this process (writer.h), or by the
 * process that the supervisor has started for that purpose (serve.h); then each call sends a request and waits for the
 * answer.
 */
#include "bootstrap/results/results.h"
#include "bootstrap/base/environment.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/results/serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bb_results {
    struct bb_results_writer writer; /* writes the results if `world` is NULL */
    struct bb_world *world;          /* world with the socket to the writer process; NULL: this process writes */
    struct bb_rank_receiver link;    /* the socket to the writer process; the descriptor is owned by the world */
    int answer;                      /* code of the writer process's last answer: 0 or a negative error */
    bool lost;                       /* a wait for an answer failed, so no further request is sent */
    char *path;                      /* path of the JSON, "-" for stdout; NULL: none */
    bool on_stdout;                  /* the JSON or the CSV is written to stdout */
};

/* ---- head ---- */

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

static json_t *new_root(const struct bb_results_head *head, const struct bb_world *w)
{
    char *restrictions = bb_json_restrictions(NULL, NULL);
    json_t *root = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:o, s:o}, s:{s:o, s:o, s:s?}, s:i, s:i, s:o, s:b, s:b, s:o, s:s?}", "schema",
        head->schema, "busbar", BUSBAR_VERSION, "command", bb_json_words(head->argc, head->argv), "started",
        started_now(), "nccl", "header", nccl_text(head->nccl_header), "runtime", nccl_text(head->nccl_runtime), "cuda",
        "runtime", cuda_text(head->cuda_runtime), "driver", cuda_text(head->cuda_driver), "nvidia_driver",
        head->nvidia_driver && *head->nvidia_driver ? head->nvidia_driver : NULL, "ranks", w ? w->size : 1, "nodes",
        w ? w->nodes : 1, "devices", head->devices ? json_incref(head->devices) : json_array(), "emulated",
        head->emulated, "shared_gpu", head->shared_gpu, "environment", bb_json_environment(), "restricted_by",
        restrictions);

    free(restrictions);
    if (!head->no_rows)
        (void)!json_object_set_new(root, "results", json_array());
    return root;
}

/* ---- requests to the writer process ---- */

/* Receives an answer of the writer process; a function for bb_world_wait(). Returns 1 if the answer has arrived. */
static int receive_answer(void *arg)
{
    struct bb_results *res = arg;
    struct bb_rank_header header;
    const void *payload;

    if (bb_rank_receive(&res->link, &header, &payload) <= 0)
        return 0; /* if the writer process has ended, the supervisor ends the job */
    res->answer = header.code;
    return 1;
}

/* Sends a request and waits for its answer. Returns the code of the answer, or another negative error. After a failed
 * wait no further request is sent, because a late answer could be taken for the answer to the next request. */
static int send_request(struct bb_results *res, enum bb_results_request request, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17) | JSON_ENCODE_ANY);
    int rc = -BB_EFAIL;

    if (!text)
        return bb_err(BB_EFAIL, "results: invalid value");
    if (!res->lost) {
        bb_rank_send(res->link.fd, (enum bb_rank_request)request, 0, text, strlen(text));
        rc = bb_world_wait(res->world, "writing the results", receive_answer, res);
    }
    free(text);
    res->lost = rc != 0;
    return rc ? rc : res->answer;
}

/* Executes a request in this process or in the writer process. value: consumed. Does nothing if res is NULL (no results
 * are written). */
static int execute(struct bb_results *res, enum bb_results_request request, json_t *value)
{
    int rc = 0;

    if (res)
        rc = res->world ? send_request(res, request, value) : bb_results_writer_execute(&res->writer, request, value);
    json_decref(value);
    return rc;
}

/* ---- open and close ---- */

static void free_results(struct bb_results *res)
{
    bb_results_writer_release(&res->writer);
    bb_rank_receiver_release(&res->link);
    free(res->path);
    free(res);
}

/* Returns the first of FILE, FILE.0, FILE.1, ... that does not exist. Names of stdout, devices and pipes do not
 * change. */
static char *unused_path(const char *path)
{
    const bool is_file = !bb_outfile_is_stdout(path) && !bb_outfile_is_stream(path);
    char *unused = bb_copy_text(path);

    for (int i = 0; is_file && access(unused, F_OK) == 0; i++) {
        free(unused);
        unused = bb_format("%s.%d", path, i);
    }
    return unused;
}

/* Returns the value of the request that opens the results. root: consumed. */
static json_t *opening_of(const struct bb_results_head *head, const char *path, json_t *root)
{
    return json_pack("{s:s?, s:s?, s:s?, s:s?, s:b, s:b, s:o}", "path", path, "csv", head->csv, "junit", head->junit,
                     "prometheus", head->prometheus, "nagios", head->nagios, "foreign", head->root != NULL, "root",
                     root);
}

void bb_results_set_targets(struct bb_results_head *head, const struct bb_common *common)
{
    head->path = common->json;
    head->csv = common->csv;
    head->junit = common->junit;
    head->prometheus = common->prometheus;
    head->nagios = common->nagios;
}

static bool has_target(const struct bb_results_head *head)
{
    return head->always || head->path || head->csv || head->junit || head->prometheus || head->nagios;
}

static int open_results(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    struct bb_results *res;
    json_t *root = head->root ? json_incref(head->root) : new_root(head, world);
    int rc;

    BB_NEW(res, 1);
    if (head->path)
        res->path = head->fresh ? unused_path(head->path) : bb_copy_text(head->path);
    res->on_stdout = bb_results_on_stdout(head->path, head->csv);
    res->writer.out = head->out;
    if (world && world->supervised.results_fd >= 0) {
        res->world = world;
        res->link.fd = world->supervised.results_fd;
    }
    rc = execute(res, BB_RESULTS_OPEN, opening_of(head, res->path, root));
    if (rc)
        free_results(res);
    else
        *out = res;
    return rc;
}

int bb_results_open(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    int rc = 0;

    *out = NULL;
    if (has_target(head) && (!world || world->rank == 0))
        rc = open_results(out, head, world);
    json_decref(head->root);
    return rc;
}

/* Returns the keys that explain a failure; an empty object for rc 0. reason: NULL: the error of this process. The caller
 * owns the object. */
static json_t *end_of(int rc, const char *reason)
{
    reason = reason ? reason : bb_err_record()->text;
    return bb_results_end_json(&(struct bb_results_end){.reason = rc < 0 ? reason : NULL});
}

json_t *bb_results_opening(const struct bb_results_head *head, int ranks, int nodes)
{
    static const char unknown[] = "unknown";
    const struct bb_world world = {.size = ranks, .nodes = nodes};
    struct bb_results_head h = *head;
    char host[256] = "";
    json_t *opening;

    if (!has_target(&h))
        return NULL;
    (void)gethostname(host, sizeof(host) - 1);
    h.emulated = bb_environment_is_emulated();
    h.devices = json_pack("[{s:i, s:o, s:s, s:s, s:s}]", "rank", 0, "host", bb_json_text(host), "name", unknown, "uuid",
                          unknown, "pci", unknown);
    opening = opening_of(&h, h.path, new_root(&h, &world));
    json_decref(h.devices);
    return opening;
}

void bb_results_write_failure(json_t *opening, int rc)
{
    struct bb_results_writer w = {.out = stdout};
    json_t *end = end_of(rc, NULL);

    if (bb_results_writer_open_failed(&w, opening, rc) == 0 && w.document.root)
        (void)bb_results_writer_finish(&w, rc, end);
    bb_results_writer_release(&w);
    json_decref(opening);
    json_decref(end);
}

/* Returns rc, or -BB_EFAIL after an error message if the text output of a successful run could not be written to
 * stdout. */
static int check_stdout(const struct bb_results *res, int rc)
{
    int error;

    if (rc < 0 || res->on_stdout || (error = bb_outfile_error(stdout)) == 0)
        return rc;
    return bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(error));
}

void bb_results_set_end(json_t *root, int rc, const char *reason)
{
    json_t *end = end_of(rc, reason);

    (void)!json_object_update(root, end);
    (void)!json_object_set_new(root, "status", json_string(bb_results_status(rc)));
    json_decref(end);
}

/* Writes the results in this process. */
static int finish_here(struct bb_results *res, int rc)
{
    json_t *end = end_of(rc, NULL);
    const int failed = bb_results_writer_finish(&res->writer, rc, end);

    json_decref(end);
    return failed;
}

int bb_results_close(struct bb_results *res, int rc)
{
    int failed = 0;

    if (!res)
        return rc < 0 ? rc : 0;
    rc = check_stdout(res, rc);
    if (!res->world)
        failed = finish_here(res, rc);
    else if (rc >= 0) /* after a failure, the writer process saves the results when the supervisor ends the job */
        failed = execute(res, BB_RESULTS_CLOSE, json_null());
    free_results(res);
    return rc < 0 ? rc : failed;
}

/* ---- rows, fields and targets ---- */

const char *bb_results_path(const struct bb_results *res)
{
    return res && !bb_outfile_is_stdout(res->path) ? res->path : NULL;
}

int bb_results_row(struct bb_results *res, json_t *row)
{
    return execute(res, BB_RESULTS_ROW, row);
}

int bb_results_set(struct bb_results *res, const char *key, json_t *value)
{
    return bb_results_set_all(res, json_pack("{s:o}", key, value));
}

int bb_results_set_all(struct bb_results *res, json_t *fields)
{
    return execute(res, BB_RESULTS_SET, fields);
}

int bb_results_validate(const char *json, const char *csv)
{
    const char *const paths[] = {json, csv};

    for (int i = 0; i < 2; i++) { /* paths go to the writer process as JSON, which requires UTF-8 */
        json_t *path = paths[i] ? json_string(paths[i]) : NULL;

        if (paths[i] && !path)
            return bb_err(BB_EUSAGE, "--%s: the file name is not valid UTF-8; try: another file name",
                          i ? "csv" : "json");
        json_decref(path);
    }
    if (bb_outfile_is_stdout(json) && bb_outfile_is_stdout(csv))
        return bb_err(BB_EUSAGE, "--json - and --csv - both write to stdout; try: --csv FILE");
    return 0;
}

bool bb_results_on_stdout(const char *json, const char *csv)
{
    return bb_outfile_is_stdout(json) || bb_outfile_is_stdout(csv);
}
