/*
 * results.c - the results file: one JSON tree, written whole to a temporary file that replaces the last one. A lock,
 * since the main thread adds rows, the saver writes rows that came too fast, and the watchdog saves what there is at
 * an early end.
 */
#include "bootstrap/results/results.h"

#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double SHARE = 20;          /* a write may take a 20th of the time */
static const double SAVE_WITHIN_S = 0.1; /* rows that were held back */

struct bb_results {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t saver;
    bool saving, stop;
    struct bb_world *world;
    json_t *root;
    json_t *rows; /* root's "results", borrowed; NULL without rows */
    const char *status;
    FILE *out; /* for "-", else NULL */
    char *path, *temporary;
    bool special; /* path is a device or a pipe: a rename would replace it */
    bool foreign; /* another program's schema: no status */
    bool dirty;
    double written_s, cost_s; /* end and duration of the last write */
    int rc;                   /* of a write that failed where nobody could be told */
};

/* ---- writing; all with the lock held ---- */

static int write_failed(const struct bb_results *res, FILE *file, const char *path)
{
    int error = errno;

    if (file)
        fclose(file);
    unlink(res->temporary);
    return bb_err(BB_EFAIL, "results: %s: %s", path, strerror(error));
}

/* Status last, as a reader's eye wants it. Not 0: errno tells why. */
static int write_root(struct bb_results *res, FILE *file)
{
    if (!res->foreign) {
        json_object_del(res->root, "status");
        json_object_set_new(res->root, "status", json_string(res->status));
    }
    if (!file)
        return -1;
    errno = 0;
    return json_dumpf(res->root, file, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) || fputc('\n', file) == EOF ||
           fflush(file);
}

static int write_file(struct bb_results *res)
{
    double start_s = bb_now_s();
    FILE *file = fopen(res->temporary, "w");

    if (write_root(res, file))
        return write_failed(res, file, res->temporary);
    if (fclose(file))
        return write_failed(res, NULL, res->temporary);
    if (rename(res->temporary, res->path))
        return write_failed(res, NULL, res->path);
    res->dirty = false;
    res->written_s = bb_now_s();
    res->cost_s = res->written_s - start_s;
    return 0;
}

/* At the end, to stdout, a pipe or a device: nothing that could be replaced. */
static int write_stream(struct bb_results *res)
{
    FILE *out = res->out ? res->out : fopen(res->path, "w");
    int bad = write_root(res, out);

    if (out && out != res->out)
        bad = fclose(out) || bad;
    if (bad)
        return bb_err(BB_EFAIL, "results: %s: %s", res->out ? "stdout" : res->path, strerror(errno));
    return 0;
}

/* Now, if the last write is long enough ago, else soon, by the saver. */
static int save_soon(struct bb_results *res)
{
    if (res->out || res->special)
        return 0;
    if (bb_now_s() >= res->written_s + SHARE * res->cost_s)
        return write_file(res);
    res->dirty = true;
    pthread_cond_signal(&res->news);
    return 0;
}

static void wait_until(struct bb_results *res, double end_s)
{
    struct timespec until = {.tv_sec = (time_t)end_s, .tv_nsec = (long)(1e9 * (end_s - (double)(time_t)end_s))};

    while (!res->stop && bb_now_s() < end_s)
        pthread_cond_timedwait(&res->news, &res->lock, &until);
}

static void *saver_thread(void *arg)
{
    struct bb_results *res = arg;

    pthread_mutex_lock(&res->lock);
    while (!res->stop) {
        if (!res->dirty) {
            pthread_cond_wait(&res->news, &res->lock);
            continue;
        }
        wait_until(res, bb_now_s() + SAVE_WITHIN_S);
        if (res->dirty && !res->stop && (res->rc = write_file(res)) != 0)
            break; /* whoever adds the next row is told */
    }
    pthread_mutex_unlock(&res->lock);
    return NULL;
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

/* The watchdog's hook: the job ends early, maybe without the main thread. */
static void save_at_end(void *arg, int rc)
{
    struct bb_results *res = arg;

    pthread_mutex_lock(&res->lock);
    res->status = status_of(rc);
    if (!res->out && !res->special)
        res->rc = write_file(res);
    pthread_mutex_unlock(&res->lock);
}

/* ---- the head ---- */

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

/* 22809 -> "2.28.9" */
static json_t *nccl_text(int version)
{
    return version ? json_sprintf("%d.%d.%d", version / 10000, version / 100 % 100, version % 100) : json_null();
}

/* 13020 -> "13.2" */
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

/* ---- life ---- */

static void free_results(struct bb_results *res)
{
    json_decref(res->root);
    pthread_mutex_destroy(&res->lock);
    pthread_cond_destroy(&res->news);
    free(res->path);
    free(res->temporary);
    free(res);
}

static void init_lock(struct bb_results *res)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&res->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&res->news, &attr);
    pthread_condattr_destroy(&attr);
}

static int start_saving(struct bb_results *res)
{
    int rc;

    TRY(write_file(res));
    if (pthread_create(&res->saver, NULL, saver_thread, res))
        return bb_err(BB_EFAIL, "results: no thread to save them");
    res->saving = true;
out:
    return rc;
}

/* FILE, or the first of FILE.0, FILE.1 .. that is not there; NULL without memory. */
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

/* What --json names: the stream, a special file, or a file behind links. */
static int set_target(struct bb_results *res, const struct bb_results_head *head)
{
    struct stat old;
    bool exists = stat(head->path, &old) == 0;

    if (strcmp(head->path, "-") == 0) {
        res->out = head->out;
        return 0;
    }
    res->special = exists && !S_ISREG(old.st_mode);
    if (exists && S_ISDIR(old.st_mode))
        return bb_err(BB_EUSAGE, "results: %s is a directory, expected a file", head->path);
    if (head->fresh && !res->special)
        res->path = fresh_path(head->path);
    else
        res->path = exists ? realpath(head->path, NULL) : strdup(head->path);
    if (!res->path || asprintf(&res->temporary, "%s.tmp", res->path) < 0)
        return bb_err(BB_EFAIL, "results: no memory");
    return res->special ? 0 : start_saving(res);
}

static struct bb_results *new_results(const struct bb_results_head *head, const struct bb_world *world)
{
    struct bb_results *res = calloc(1, sizeof(*res));

    if (!res)
        return NULL;
    init_lock(res);
    res->foreign = head->root != NULL;
    res->root = head->root ? json_incref(head->root) : new_root(head, world);
    if (!head->no_rows && !res->foreign)
        json_object_set_new(res->root, "results", json_array());
    res->rows = json_object_get(res->root, "results");
    res->status = "running";
    return res;
}

static int open_results(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    struct bb_results *res = new_results(head, world);

    if (!res)
        return bb_err(BB_EFAIL, "results: no memory");
    if (set_target(res, head)) {
        free_results(res);
        return -BB_EUSAGE;
    }
    *out = res;
    if (!world || !world->watchdog)
        return 0;
    res->world = world;
    return bb_watchdog_hook(world->watchdog, BB_WATCHDOG_AT_ONCE, save_at_end, res);
}

int bb_results_open(struct bb_results **out, const struct bb_results_head *head, struct bb_world *world)
{
    int rc = 0;

    *out = NULL;
    if (head->path && (!world || world->rank == 0))
        rc = open_results(out, head, world);
    json_decref(head->root);
    return rc;
}

const char *bb_results_path(const struct bb_results *res)
{
    return res ? res->path : NULL;
}

/* value goes into the list of rows, or, with a key, into the root. A failed save by the saver is told to the next who
 * adds something. */
static int add_value(struct bb_results *res, const char *key, json_t *value)
{
    int failed, rc = 0;

    if (!res) {
        json_decref(value);
        return 0;
    }
    pthread_mutex_lock(&res->lock);
    failed = !value || (key ? json_object_set_new(res->root, key, value) : json_array_append_new(res->rows, value));
    if (!failed)
        rc = res->rc ? res->rc : save_soon(res);
    pthread_mutex_unlock(&res->lock);
    if (failed && key)
        return bb_err(BB_EFAIL, "results: '%s' could not be made", key);
    return failed ? bb_err(BB_EFAIL, "results: a row could not be made") : rc;
}

int bb_results_row(struct bb_results *res, json_t *row)
{
    return add_value(res, NULL, row);
}

int bb_results_set(struct bb_results *res, const char *key, json_t *value)
{
    return add_value(res, key, value);
}

int bb_results_close(struct bb_results *res, int rc)
{
    int failed;

    if (!res)
        return rc < 0 ? rc : 0;
    if (res->world)
        bb_watchdog_forget(res->world->watchdog, save_at_end, res);
    pthread_mutex_lock(&res->lock);
    res->stop = true;
    pthread_cond_broadcast(&res->news);
    pthread_mutex_unlock(&res->lock);
    if (res->saving)
        pthread_join(res->saver, NULL);
    res->status = status_of(rc);
    failed = res->out || res->special ? write_stream(res) : write_file(res);
    failed = failed ? failed : res->rc;
    free_results(res);
    return rc < 0 ? rc : failed;
}
