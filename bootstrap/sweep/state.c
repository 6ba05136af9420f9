/* state.c - reads, writes and removes the files of a combination, which determine its state (complete, failed, to
 * do). */
#include "bootstrap/sweep/state.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"
#include "bootstrap/start/program_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const bb_sweep_state_names[] = {"to do", "complete", "failed", "below threshold"};
const char bb_sweep_misfit[] = "does not fit";

static const char *const endings[] = {".run.json", ".json", ".out", ".err"};
enum { N_ENDINGS = sizeof(endings) / sizeof(endings[0]), LAST_LINES = 5, LAST_BYTES = 16384, HASHED_BYTES = 1 << 18 };

/* Limits of the wait for the processes of a sweep that was killed: one that has not executed its command yet, and a run,
 * which gets SIGTERM. */
static const double FORKED_S = 1, PREVIOUS_RUN_S = 30;

char *bb_sweep_file(const char *dir, const struct bb_sweep_run *c, const char *ending)
{
    return bb_format("%s/%s%s", dir, c->id, ending);
}

/* Loads the JSON file ID + `ending` of a combination. Returns NULL if the file does not exist or is not valid JSON. */
static json_t *load_file(const char *dir, const struct bb_sweep_run *c, const char *ending)
{
    char *path = bb_sweep_file(dir, c, ending);
    json_t *root = json_load_file(path, 0, NULL);

    free(path);
    return root;
}

static bool has_status(const json_t *result, const char *text)
{
    const char *status = json_string_value(json_object_get(result, "status"));

    return status && strcmp(status, text) == 0;
}

static bool is_complete(const json_t *result)
{
    return json_string_value(json_object_get(result, "schema")) &&
           (!json_object_get(result, "status") || has_status(result, "ok") || has_status(result, bb_sweep_misfit));
}

/* ---- last lines of stderr ---- */

/* Returns the line as a JSON string, without control characters. */
static json_t *line_json(char *line)
{
    bb_blank_controls(line);
    return bb_json_text(line);
}

/* Pages that Open MPI prints instead of starting ranks, with the reason and an alternative to sourcing mpi.sh. */
static const struct refusal {
    const char *found, *reason, *other;
} refusals[] = {
    {"ALLOW_RUN_AS_ROOT", "mpirun does not start ranks as root",
     "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
    {"not enough slots", "mpirun has fewer slots than ranks (a slot is a core, or one of N of --hosts NAME:N)",
     "--launch-arguments=--oversubscribe"},
};

/* Returns a list with the line that names the reason and what to try. */
static json_t *refusal_json(const struct refusal *r)
{
    char *path = bb_program_file("mpi.sh");
    json_t *list = json_pack("[o]", json_sprintf("%s; try: %s%s%s%s%s", r->reason, path ? ". " : "", path ? path : "",
                                                 path ? " (or " : "", r->other, path ? ")" : ""));

    free(path);
    return list;
}

/* Returns the last lines of a text as a JSON list. If the text contains error messages of busbar, only these are
 * returned, because launchers print many lines of their own after them. If Open MPI refused to start the ranks, the list
 * has a line with the reason. */
static json_t *last_lines(char *text)
{
    bool only_own = false;
    json_t *lines;
    char *line;

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (strstr(text, refusals[i].found))
            return refusal_json(&refusals[i]);
    lines = json_array();
    while ((line = strsep(&text, "\r\n")) != NULL) {
        const bool is_own = bb_begins_with(line, "busbar: ") && !bb_begins_with(line, "busbar: warning: ");

        if (is_own && !only_own)
            json_array_clear(lines);
        only_own |= is_own;
        if (is_own == only_own && line[strspn(line, "- \t=*")] != '\0')
            json_array_append_new(lines, line_json(line));
        if (json_array_size(lines) > LAST_LINES)
            json_array_remove(lines, 0);
    }
    return lines;
}

static json_t *load_last_lines(const char *dir, const struct bb_sweep_run *c)
{
    char *path = bb_sweep_file(dir, c, ".err"), text[LAST_BYTES + 1];
    FILE *file = fopen(path, "r");
    size_t n = 0;

    if (file) {
        if (fseek(file, -(long)LAST_BYTES, SEEK_END) != 0)
            rewind(file);
        n = fread(text, 1, LAST_BYTES, file);
        fclose(file);
    }
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] ? text[i] : ' ';
    text[n] = '\0';
    free(path);
    return last_lines(text);
}

/* ---- inputs of a run ---- */

/* Returns a text that depends on the content of a file: its hash, or for a large file its size and time of modification.
 * NULL: not a regular file, or not readable. */
static json_t *file_mark(const char *path)
{
    unsigned char data[4096];
    uint64_t hash = BB_SWEEP_HASH;
    struct stat st;
    FILE *file;
    size_t n;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    if (st.st_size > HASHED_BYTES)
        return json_sprintf("%lld bytes of %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                            st.st_mtim.tv_nsec);
    file = fopen(path, "re");
    if (!file)
        return NULL;
    while ((n = fread(data, 1, sizeof(data), file)) > 0)
        hash = bb_sweep_hash(hash, data, n);
    fclose(file);
    return json_sprintf("%016llx", (unsigned long long)hash);
}

static void add_file(json_t *files, char *path)
{
    json_t *mark = file_mark(path);

    if (mark)
        (void)json_object_set_new(files, path, mark); /* fails for a path that is not UTF-8 */
    free(path);
}

/* Adds the file that a word names: FILE, FOLDER of a model, --option=FILE, NAME=FILE or FILE:90%. */
static void add_files(json_t *files, const char *word)
{
    const char *equals = strchr(word, '='), *colon = strrchr(word, ':');

    add_file(files, bb_copy_text(word));
    add_file(files, bb_format("%s/config.json", word));
    if (colon)
        add_file(files, bb_format("%.*s", (int)(colon - word), word));
    if (equals)
        add_files(files, equals + 1);
}

/* Returns whether a variable of the shell can change a result: NCCL or the emulated GPUs read it, and the study does
 * not set it. */
static bool is_input(const struct bb_sweep_run *c, const char *variable, size_t length)
{
    static const char *const others[] = {"NCCL_DEBUG", "EMU_QUIET",
                                         "EMU_TWINS"}; /* EMU_TWINS: set by busbar-emulated */

    if (!bb_begins_with(variable, "NCCL_") && !bb_begins_with(variable, "EMU_"))
        return false;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (bb_begins_with(variable, others[i]))
            return false;
    for (size_t i = 0; i < c->environment.n; i++)
        if (strncmp(c->environment.word[i], variable, length) == 0 && strchr("=", c->environment.word[i][length]))
            return false;
    return true;
}

static json_t *environment_json(const struct bb_sweep_run *c)
{
    json_t *variables = json_object();

    for (char **v = environ; (c->launched || c->is_program) && *v; v++) {
        const size_t length = strcspn(*v, "=");
        char *name = bb_format("%.*s", (int)length, *v);

        if (is_input(c, *v, length))
            (void)json_object_set_new(
                variables, name,
                json_sprintf("%016llx", (unsigned long long)bb_sweep_hash(BB_SWEEP_HASH, *v, strlen(*v))));
        free(name);
    }
    return variables;
}

json_t *bb_sweep_inputs(const struct bb_sweep_run *c)
{
    json_t *files = json_object();

    for (size_t i = 0; i < c->words.n; i++)
        add_files(files, c->words.word[i]);
    for (size_t i = 0; i < c->environment.n; i++)
        add_files(files, c->environment.word[i]);
    return json_pack("{s:o, s:o}", "files", files, "environment", environment_json(c));
}

/* Returns an input file that has changed since it was recorded; NULL: none. A missing file has not changed, because a
 * sweep may gather in another folder. */
static const char *changed_file(json_t *files)
{
    const char *path;
    json_t *mark;

    json_object_foreach(files, path, mark)
    {
        json_t *now = file_mark(path);
        const bool changed = now && !json_equal(now, mark);

        json_decref(now);
        if (changed)
            return path;
    }
    return NULL;
}

/* Returns the name of a variable of `a` that `b` lacks, or that has another value there; NULL: none. */
static const char *differing_variable(json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;

    json_object_foreach(a, name, value)
    {
        if (!json_equal(value, json_object_get(b, name)))
            return name;
    }
    return NULL;
}

static char *changed_variable(const struct bb_sweep_run *c, json_t *before)
{
    json_t *now = before ? environment_json(c) : NULL;
    const char *name = now ? differing_variable(now, before) : NULL;
    char *copy;

    name = name || !now ? name : differing_variable(before, now);
    copy = name ? bb_copy_text(name) : NULL;
    json_decref(now);
    return copy;
}

/* Sets what has changed since the run that `run` records. Another input file makes the combination be run again. */
static void compare_inputs(const struct bb_sweep_run *c, const json_t *run, struct bb_sweep_found *found)
{
    const char *path = changed_file(json_object_get(run, "files"));

    if (found->state == BB_SWEEP_TO_DO)
        return;
    if (!path) {
        found->changed_variable = changed_variable(c, json_object_get(run, "environment"));
        return;
    }
    bb_sweep_found_release(found);
    *found = (struct bb_sweep_found){.exit_status = -1, .seconds = NAN, .changed_file = bb_copy_text(path)};
}

/* ---- state of a combination ---- */

void bb_sweep_load_state(const char *dir, const struct bb_sweep_run *c, struct bb_sweep_found *found)
{
    json_t *run = load_file(dir, c, ".run.json");
    const json_t *status = json_object_get(run, "exit_status"), *seconds = json_object_get(run, "seconds"), *fits;
    char *problem = NULL;

    *found = (struct bb_sweep_found){.exit_status = -1, .seconds = NAN};
    if (json_is_integer(status))
        found->exit_status = (int)json_integer_value(status);
    if (json_is_number(seconds))
        found->seconds = json_number_value(seconds);
    if (!c->is_program)
        found->result = load_file(dir, c, ".json");
    else if (found->exit_status == 0)
        found->result = bb_sweep_read_metrics(dir, c, &problem);
    fits = json_object_get(json_object_get(json_object_get(found->result, "predicted"), "memory"), "fits");
    /* Exit status -1: the sweep was killed before it recorded the end of the run. */
    if (found->exit_status <= 0 && (c->is_program ? found->result != NULL : is_complete(found->result)))
        found->state = BB_SWEEP_COMPLETE;
    else if (found->exit_status >= 0)
        found->state = found->exit_status == BB_EBELOW && !c->is_program ? BB_SWEEP_BELOW : BB_SWEEP_FAILED;
    found->misfit = (found->state == BB_SWEEP_COMPLETE && has_status(found->result, bb_sweep_misfit)) ||
                    (found->state == BB_SWEEP_BELOW && json_is_false(fits));
    if (found->state == BB_SWEEP_FAILED || found->state == BB_SWEEP_BELOW)
        found->errors = problem ? json_pack("[o]", line_json(problem)) : load_last_lines(dir, c);
    compare_inputs(c, run, found);
    free(problem);
    json_decref(run);
}

static bool is_same_but_for_numbers(const char *a, const char *b)
{
    static const char digits[] = "0123456789.";

    a += strspn(a, digits);
    b += strspn(b, digits);
    while (*a && *a == *b) {
        a += strspn(a + 1, digits) + 1;
        b += strspn(b + 1, digits) + 1;
    }
    return !*a && !*b;
}

bool bb_sweep_has_error(const json_t *errors, size_t n, const char *line)
{
    for (size_t i = 0; i < n && i < json_array_size(errors); i++)
        if (is_same_but_for_numbers(json_string_value(json_array_get(errors, i)), line))
            return true;
    return false;
}

bool bb_sweep_is_same_failure(const struct bb_sweep_found *a, const struct bb_sweep_found *b)
{
    const size_t n = json_array_size(a->errors), m = json_array_size(b->errors);
    bool same = a->exit_status == b->exit_status && n > 0 && m > 0;

    for (size_t i = 0; i < n && same; i++)
        same = bb_sweep_has_error(b->errors, m, json_string_value(json_array_get(a->errors, i)));
    for (size_t i = 0; i < m && same; i++)
        same = bb_sweep_has_error(a->errors, n, json_string_value(json_array_get(b->errors, i)));
    return same;
}

void bb_sweep_found_release(struct bb_sweep_found *found)
{
    json_decref(found->result);
    json_decref(found->errors);
    free(found->changed_file);
    free(found->changed_variable);
}

/* ---- writing and removing files ---- */

bool bb_sweep_replaces(const char *dir, const struct bb_sweep_run *c, const char *path)
{
    bool replaces = false;

    for (size_t i = 0; i < N_ENDINGS && !replaces; i++) {
        char *file = bb_sweep_file(dir, c, endings[i]);

        replaces = bb_outfile_replaces(path, file);
        free(file);
    }
    return replaces;
}

/* Locks an open file; waits up to limit_s seconds. Returns false if another process still holds the lock. */
static bool lock_file(int fd, double limit_s)
{
    const struct timespec tenth = {.tv_nsec = 100000000};
    const double end_s = bb_now_s() + limit_s;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (bb_now_s() > end_s)
            return false;
        nanosleep(&tenth, NULL);
    }
    return true;
}

int bb_sweep_await_previous(const char *dir, const struct bb_sweep_run *c)
{
    char *path = bb_sweep_file(dir, c, ".out");
    int fd = open(path, O_RDWR | O_CLOEXEC), rc = 0;

    if (fd >= 0 && !lock_file(fd, PREVIOUS_RUN_S))
        rc = bb_err(BB_EFAIL, "%s: a process of the previous run still writes to this file; end the process", path);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

int bb_sweep_remove_files(const char *dir, const struct bb_sweep_run *c)
{
    char *path = bb_sweep_file(dir, c, "");
    int rc = 0;

    bb_outfile_remove_temporaries(path, 0);
    free(path);
    for (size_t i = 0; i < N_ENDINGS && rc == 0; i++) {
        path = bb_sweep_file(dir, c, endings[i]);
        if (unlink(path) != 0 && errno != ENOENT)
            rc = bb_err(BB_EFAIL, "cannot remove %s: %s", path, strerror(errno));
        free(path);
    }
    return rc;
}

int bb_sweep_record(const char *dir, const struct bb_sweep_run *c, json_t *inputs, int exit_status, double seconds)
{
    json_t *files = json_object_get(inputs, "files");
    char *path = bb_sweep_file(dir, c, ".run.json");
    struct bb_outfile file;
    const char *changed;
    int rc = bb_outfile_open_private(&file, path, "the record of a run");

    while ((changed = changed_file(files)) != NULL)
        (void)json_object_del(files, changed);
    if (rc == 0) {
        fputs("{\"schema\": \"busbar.sweep.run/1\", ", file.out);
        if (exit_status >= 0)
            fprintf(file.out, "\"exit_status\": %d, \"seconds\": %.3f, ", exit_status, seconds);
        (void)json_dumpf(inputs, file.out, JSON_EMBED);
        fputs("}\n", file.out);
        rc = bb_outfile_close(&file, "the record of a run", 0);
    }
    free(path);
    return rc;
}

int bb_sweep_lock_folder(const char *dir, int *lock)
{
    char *path;
    int rc = 0;

    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return bb_err(BB_EUSAGE, "cannot create the folder %s: %s", dir, strerror(errno));
    if (!lock)
        return 0;
    path = bb_format("%s/lock", dir);
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0)
        rc = bb_err(BB_EUSAGE, "cannot write to %s: %s", path, strerror(errno));
    else if (!lock_file(*lock, FORKED_S))
        rc = bb_err(BB_EUSAGE, "another sweep is running in %s; wait until it ends, or try: another --output", dir);
    free(path);
    return rc;
}
