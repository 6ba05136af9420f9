/* checks.c - see checks.h. */
#include "bootstrap/results/checks.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const bb_check_names[BB_CHECK_STATUSES] = {"ok", "warn", "fail", "unknown"};

static json_t *status_json(const void *check)
{
    return json_string(bb_check_names[((const struct bb_check *)check)->status]);
}

#define SHOWS(name) BB_NAMED(struct bb_check, name)
static const struct bb_field fields[] = {
    SHOWS(check),  SHOWS(host), {.key = "status", .value = status_json}, SHOWS(measured), SHOWS(expected), SHOWS(unit),
    SHOWS(reason), {0},
};

void bb_checks_add(json_t *list, const struct bb_check *check)
{
    json_t *object = bb_table_object(fields, check);

    if (check->nodes > 0)
        json_object_set_new(object, "nodes", json_integer(check->nodes));
    json_array_append_new(list, object);
}

int bb_checks_validate(const char *junit, const char *prometheus)
{
    const char *const paths[][2] = {{"junit", junit}, {"prometheus", prometheus}};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        json_t *text = json_string(paths[i][1] ? paths[i][1] : "");
        const bool valid = text && strcmp(json_string_value(text), "-") != 0;

        json_decref(text);
        if (!valid)
            return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected the name of a file (UTF-8); try: /dev/stdout",
                          paths[i][0], text ? "-" : "?");
        if (paths[i][1] && bb_outfile_check(paths[i][1], "the checks"))
            return -BB_EUSAGE;
    }
    return 0;
}

/* ---- the checks of a document ---- */

/* A document with what its formats have in common. */
struct view {
    const json_t *root, *rows;
    char *command, *label;       /* words of the command before its options; of emulated GPUs: "emulated"; owned */
    json_t *checks, *names;      /* checks; their names with host, and a number if they would not be unique; owned */
    size_t n[BB_CHECK_STATUSES]; /* number of checks with each status */
    enum bb_check_status run;    /* how the run ended; UNKNOWN: not in order */
    bool explained;              /* the checks explain how the run ended */
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static double real_of(const json_t *check, const char *key)
{
    const json_t *value = json_object_get(check, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Returns the status of a check, or the level of a finding. */
static enum bb_check_status status_at(const json_t *check, const char *key)
{
    int status = 0;

    while (status < BB_CHECK_UNKNOWN && strcmp(text_of(check, key), bb_check_names[status]) != 0)
        status++;
    return (enum bb_check_status)status;
}

static enum bb_check_status status_of(const json_t *check)
{
    return status_at(check, "status");
}

/* Returns the words of the command line before its options; of `compare`, without its files: a label of each week's files would
 * be a new time series. Of a study, which has no command, "sweep NAME". */
static char *command_of(const json_t *root)
{
    const json_t *words = json_object_get(root, "command"), *word;
    char *command;
    size_t bytes, i;
    FILE *out;

    if (json_array_size(words) == 0)
        return bb_format("sweep %s", text_of(root, "name"));
    out = bb_open_text(&command, &bytes);
    json_array_foreach(words, i, word)
    {
        if (*json_string_value(word) == '-' ||
            (i == 1 && strcmp(json_string_value(json_array_get(words, 0)), "compare") == 0))
            break;
        fprintf(out, "%s%s", i ? " " : "", json_string_value(word));
    }
    bb_close_text(out, &command);
    return command;
}

/* Adds the name of a check. count: number of earlier checks by their name. */
static void add_name(struct view *v, const json_t *check, json_t *count)
{
    const char *host = text_of(check, "host");
    char *name = bb_format("%s%s%s", text_of(check, "check"), *host ? " " : "", host);
    const json_int_t earlier = json_integer_value(json_object_get(count, name));

    json_object_set_new(count, name, json_integer(earlier + 1));
    json_array_append_new(v->names, earlier ? json_sprintf("%s (%d)", name, (int)earlier + 1) : json_string(name));
    free(name);
}

static struct view open_view(const json_t *root, const json_t *rows)
{
    const char *status = text_of(root, "status");
    const bool below = strcmp(status, "below threshold") == 0,
               emulated = json_is_true(json_object_get(root, "emulated"));
    struct view v = {
        .root = root, .rows = rows, .command = command_of(root), .label = bb_copy_text(emulated ? "emulated" : "")};
    json_t *checks = json_object_get(root, "checks"), *count = json_object(), *check;
    size_t i;

    v.checks = checks ? json_incref(checks) : json_array();
    v.names = json_array();
    json_array_foreach(v.checks, i, check)
    {
        v.n[status_of(check)]++;
        add_name(&v, check, count);
    }
    json_decref(count);
    v.run = strcmp(status, "ok") == 0                    ? BB_CHECK_OK
            : below || strcmp(status, "wrong data") == 0 ? BB_CHECK_FAIL
                                                         : BB_CHECK_UNKNOWN;
    v.explained = v.run == BB_CHECK_OK || (v.run == BB_CHECK_FAIL && v.n[BB_CHECK_FAIL] > 0);
    return v;
}

static void close_view(struct view *v)
{
    free(v->command);
    free(v->label);
    json_decref(v->checks);
    json_decref(v->names);
}

static const char *name_of(const struct view *v, size_t i)
{
    return json_string_value(json_array_get(v->names, i));
}

/* A character that a format requires to be replaced, and its replacement. */
struct escape {
    char character;
    const char *text;
};

static void put_escaped(FILE *out, const char *text, const struct escape *escapes)
{
    for (; *text; text++) {
        const struct escape *e = escapes;

        while (e->character && e->character != *text)
            e++;
        if (e->character)
            fputs(e->text, out);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

/* ---- JUnit XML: the form that Jenkins and GitLab read ---- */

static void put_xml(FILE *out, const char *before, const char *text, const char *after)
{
    static const struct escape escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {0}};

    fputs(before, out);
    put_escaped(out, text, escapes);
    fputs(after, out);
}

/* JUnit has no warnings: a check with a warning passes, with the reason as its output. */
static void put_case(const struct view *v, FILE *out, const char *name, enum bb_check_status status,
                     const char *failure, const char *reason)
{
    put_xml(out, "    <testcase classname=\"busbar.", v->command, "\"");
    put_xml(out, " name=\"", name, status == BB_CHECK_OK ? "\" time=\"0\"/>\n" : "\" time=\"0\">");
    if (status == BB_CHECK_WARN)
        put_xml(out, "<system-out>warning: ", reason, "</system-out></testcase>\n");
    else if (status != BB_CHECK_OK)
        fprintf(out, "<%s", failure);
    if (status == BB_CHECK_FAIL || status == BB_CHECK_UNKNOWN)
        put_xml(out, " message=\"", reason, "\"/></testcase>\n");
}

static void put_property(FILE *out, const char *name, const char *value)
{
    fprintf(out, "      <property name=\"%s\"", name);
    put_xml(out, " value=\"", value, "\"/>\n");
}

static int seconds_since(const char *started)
{
    struct tm utc = {0};

    return strptime(started, "%Y-%m-%dT%H:%M:%SZ", &utc) ? (int)(time(NULL) - timegm(&utc)) : 0;
}

static void put_junit(const struct view *v, FILE *out)
{
    const bool fails = !v->explained && v->run == BB_CHECK_FAIL, errs = v->run == BB_CHECK_UNKNOWN;
    const char *started = text_of(v->root, "started");
    const json_t *check;
    char counts[128];
    size_t i;

    snprintf(counts, sizeof counts, "tests=\"%zu\" failures=\"%zu\" errors=\"%d\"", json_array_size(v->checks) + 1,
             v->n[BB_CHECK_FAIL] + fails, errs);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"busbar\" %s>\n", counts);
    put_xml(out, "  <testsuite name=\"busbar ", v->command, "\"");
    fprintf(out, " %s skipped=\"%zu\" time=\"%d\"", counts, v->n[BB_CHECK_UNKNOWN], seconds_since(started));
    if (*started)
        fprintf(out, " timestamp=\"%.19s\"", started);
    fputs(">\n    <properties>\n", out);
    put_property(out, "busbar", text_of(v->root, "busbar"));
    if (*v->label || json_array_size(json_object_get(v->root, "devices")) > 0)
        put_property(out, "gpus", *v->label ? v->label : "real");
    fputs("    </properties>\n", out);
    json_array_foreach(v->checks, i, check)
        put_case(v, out, name_of(v, i), status_of(check), status_of(check) == BB_CHECK_FAIL ? "failure" : "skipped",
                 text_of(check, "reason"));
    put_case(v, out, "run", v->explained ? BB_CHECK_OK : v->run, errs ? "error" : "failure",
             text_of(v->root, "reason"));
    fputs("  </testsuite>\n</testsuites>\n", out);
}

/* ---- Prometheus: the text format, for node_exporter's textfile collector ---- */

static const struct unit {
    const char *unit, *suffix, *text;
    double base; /* one unit in the base unit */
} units[] = {
    {"GB/s", "bytes_per_second", "bytes per second", 1e9},
    {"TFLOP/s", "flop_per_second", "floating-point operations per second", 1e12},
    {"us", "seconds", "seconds", 1e-6},
    {"ratio", "ratio", "parts of one", 1},
    {"links", "links", "links", 1},
    {"ranks", "ranks", "ranks", 1},
};

static void put_label(FILE *out, const char *name, const char *value)
{
    static const struct escape escapes[] = {{'\\', "\\\\"}, {'"', "\\\""}, {'\n', "\\n"}, {0}};

    fprintf(out, "%s=\"", name);
    put_escaped(out, value, escapes);
    fputc('"', out);
}

static void put_family(FILE *out, const char *name, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

enum { LABELS = 6 };

/* Writes a sample up to its first labels. */
static void put_metric(const struct view *v, FILE *out, const char *metric)
{
    fprintf(out, "%s{", metric);
    put_label(out, "command", v->command);
    if (*v->label) {
        fputc(',', out);
        put_label(out, "gpus", v->label);
    }
}

/* Writes a sample. labels: other labels with their values, which are left out if they are "". */
static void put_labelled(const struct view *v, FILE *out, const char *metric, const char *const labels[LABELS][2],
                         double value)
{
    put_metric(v, out, metric);
    for (int i = 0; i < LABELS; i++)
        if (labels[i][0] && *labels[i][1]) {
            fputc(',', out);
            put_label(out, labels[i][0], labels[i][1]);
        }
    fprintf(out, "} %.12g\n", value);
}

/* label: another label, and its value; NULL: none. host: "": none. */
static void put_sample(const struct view *v, FILE *out, const char *metric, const char *const label[2],
                       const char *host, double value)
{
    put_labelled(v, out, metric,
                 (const char *const[LABELS][2]){{label ? label[0] : NULL, label ? label[1] : ""}, {"host", host}},
                 value);
}

static void put_check(const struct view *v, FILE *out, const char *metric, size_t check, double value)
{
    put_sample(v, out, metric, (const char *const[]){"check", name_of(v, check)},
               text_of(json_array_get(v->checks, check), "host"), value);
}

/* Writes the values of the checks that have this unit. key: "measured" or "expected". */
static void put_values(const struct view *v, FILE *out, const struct unit *unit, const char *key)
{
    char name[64], help[128];
    bool first = true;
    const json_t *check;
    size_t i;

    snprintf(name, sizeof name, "busbar_check_%s_%s", key, unit->suffix);
    snprintf(help, sizeof help, "%s value of a check in %s.", *key == 'm' ? "Measured" : "Expected or required",
             unit->text);
    json_array_foreach(v->checks, i, check)
    {
        const double value = real_of(check, key);

        if (isnan(value) || strcmp(text_of(check, "unit"), unit->unit) != 0)
            continue;
        if (first)
            put_family(out, name, help);
        first = false;
        put_check(v, out, name, i, value * unit->base);
    }
}

/* Writes the number of nodes of each check that has one: a value may change because fewer nodes took part. */
static void put_nodes(const struct view *v, FILE *out)
{
    bool first = true;
    const json_t *check;
    size_t i;

    json_array_foreach(v->checks, i, check)
    {
        if (isnan(real_of(check, "nodes")))
            continue;
        if (first)
            put_family(out, "busbar_check_nodes", "Number of nodes that took part in the measurement of a check.");
        first = false;
        put_check(v, out, "busbar_check_nodes", i, real_of(check, "nodes"));
    }
}

/* Returns the status of a check: of a test, the worst one of its findings. */
static enum bb_check_status worst_status(const struct view *v, const json_t *check)
{
    enum bb_check_status worst = status_of(check);
    const json_t *finding;
    size_t i;

    json_array_foreach(json_object_get(v->root, "findings"), i, finding)
    {
        const enum bb_check_status status = status_at(finding, "level");

        if (strcmp(text_of(finding, "test"), text_of(check, "check")) == 0 && status < BB_CHECK_UNKNOWN &&
            status > worst)
            worst = status;
    }
    return worst;
}

/* Writes the status of each part with findings in a test, once: they are sorted, the worst first. */
static void put_findings(const struct view *v, FILE *out)
{
    json_t *seen = json_object();
    const json_t *finding;
    size_t i;

    json_array_foreach(json_object_get(v->root, "findings"), i, finding)
    {
        const char *test = text_of(finding, "test"), *host = text_of(finding, "host"), *part = text_of(finding, "part"),
                   *peer = text_of(finding, "other_host"), *gpu = text_of(finding, "pci");
        const json_t *rail = *host ? NULL : json_object_get(finding, "gpu"); /* null: not about a rail */
        char *index = json_is_integer(rail) ? bb_format("%d", (int)json_integer_value(rail)) : bb_copy_text("");
        const char *const labels[LABELS][2] = {{"check", test}, {"part", part}, {"host", host},
                                               {"peer", peer},  {"gpu", gpu},   {"gpu_index", index}};
        char *key = bb_format("%s %s %s %s %s %s", test, part, host, peer, gpu, index);

        if (*test && !json_object_get(seen, key)) {
            if (json_object_size(seen) == 0)
                put_family(out, "busbar_finding_status",
                           "Status of a part in a test: 1 warning, 2 failure, 3 unknown.");
            put_labelled(v, out, "busbar_finding_status", labels, status_at(finding, "level"));
            json_object_set_new(seen, key, json_true());
        }
        free(key);
        free(index);
    }
    json_decref(seen);
}

enum { BANDWIDTHS = 1000 }; /* limit of series: Prometheus keeps each one */

/* Returns the labels of a row that has a bus bandwidth, each after a comma; the caller frees them. */
static char *labels_of(const json_t *row)
{
    static const char *const keys[] = {"collective", "mode",    "dtype", "op",   "root",
                                       "placement",  "variant", "group", "bytes"};
    size_t bytes;
    char *labels, number[32];
    FILE *out = bb_open_text(&labels, &bytes);

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(row, keys[i]);

        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        if (json_is_integer(value) || *text_of(row, keys[i])) {
            fputc(',', out);
            put_label(out, keys[i], json_is_integer(value) ? number : text_of(row, keys[i]));
        }
    }
    bb_close_text(out, &labels);
    return labels;
}

/* Writes the bus bandwidths of collectives, of the first BANDWIDTHS rows with different labels: of equal ones (repetitions) the
 * highest, and without the algorithms that --sweep-algorithms forced. */
static void put_bandwidths(const struct view *v, FILE *out)
{
    json_t *highest = json_object(), *value;
    const json_t *row;
    const char *labels;
    size_t i;

    json_array_foreach(v->rows, i, row)
    {
        const double gbps = real_of(row, "busbw_gbps");
        char *key;

        if (!*text_of(row, "collective") || !*text_of(row, "mode") || isnan(gbps) ||
            (json_is_true(json_object_get(row, "forced")) && !*text_of(row, "variant")))
            continue;
        key = labels_of(row);
        value = json_object_get(highest, key);
        if (value ? json_real_value(value) < gbps : json_object_size(highest) < BANDWIDTHS)
            json_object_set_new(highest, key, json_real(gbps));
        free(key);
    }
    if (json_object_size(highest) > 0)
        put_family(out, "busbar_busbw_bytes_per_second", "Bus bandwidth of a collective in bytes per second.");
    json_object_foreach(highest, labels, value)
    {
        put_metric(v, out, "busbar_busbw_bytes_per_second");
        fprintf(out, "%s} %.12g\n", labels, 1e9 * json_real_value(value));
    }
    json_decref(highest);
}

static void put_prometheus(const struct view *v, FILE *out)
{
    put_family(out, "busbar_run_info", "Version of busbar.");
    put_sample(v, out, "busbar_run_info", (const char *const[]){"version", text_of(v->root, "busbar")}, "", 1);
    put_family(out, "busbar_run_success", "Whether the last run ended with exit status 0.");
    put_sample(v, out, "busbar_run_success", NULL, "", v->run == BB_CHECK_OK);
    put_family(out, "busbar_run_end_timestamp_seconds", "End of the last run, in seconds since 1970.");
    put_sample(v, out, "busbar_run_end_timestamp_seconds", NULL, "", (double)time(NULL));
    put_bandwidths(v, out);
    if (json_array_size(v->checks) == 0)
        return;
    put_family(out, "busbar_check_status", "Result of a check: 0 ok, 1 warning, 2 failure, 3 unknown.");
    for (size_t i = 0; i < json_array_size(v->checks); i++)
        put_check(v, out, "busbar_check_status", i, worst_status(v, json_array_get(v->checks, i)));
    put_findings(v, out);
    for (size_t unit = 0; unit < sizeof units / sizeof *units; unit++) {
        put_values(v, out, &units[unit], "measured");
        put_values(v, out, &units[unit], "expected");
    }
    put_nodes(v, out);
}

static int save(const struct view *v, const char *path, const char *what, void put(const struct view *v, FILE *out))
{
    struct bb_outfile file;
    int rc = path ? bb_outfile_open(&file, path, what) : 0;

    if (rc || !path)
        return rc;
    put(v, file.out);
    return bb_outfile_close(&file, what, 0);
}

int bb_checks_save(const json_t *root, const json_t *rows, const char *junit, const char *prometheus)
{
    struct view v = open_view(root, rows);
    int rc = save(&v, junit, "the JUnit report", put_junit), metrics;

    if (rc) /* busbar_run_success is about the exit status */
        v.run = BB_CHECK_UNKNOWN;
    metrics = save(&v, prometheus, "the metrics", put_prometheus);
    close_view(&v);
    return rc ? rc : metrics;
}

/* ---- Nagios: one line ---- */

enum { CHECKS_SHOWN = 3 };

/* Prints the reasons of the checks with this status, at most CHECKS_SHOWN; of unknown ones only those that have a reason. */
static void put_worst(const struct view *v, FILE *out, enum bb_check_status status)
{
    static const struct escape escapes[] = {{'|', "/"}, {0}};
    size_t i, shown = 0;
    const json_t *check;

    json_array_foreach(v->checks, i, check)
    {
        const char *reason = text_of(check, "reason");

        if (status_of(check) != status || (status == BB_CHECK_UNKNOWN && !*reason) || shown++ >= CHECKS_SHOWN)
            continue;
        fputs("; ", out);
        put_escaped(out, *reason ? reason : name_of(v, i), escapes);
    }
    if (shown > CHECKS_SHOWN)
        fprintf(out, "; and %zu more", shown - CHECKS_SHOWN);
}

static void put_performance(const struct view *v, FILE *out)
{
    static const struct escape escapes[] = {{'\'', " "}, {'=', " "}, {'|', "/"}, {0}};
    const json_t *check;
    size_t i;

    fprintf(out, " | 'checks failed'=%zu;;;0 'checks with warning'=%zu;;;0", v->n[BB_CHECK_FAIL], v->n[BB_CHECK_WARN]);
    json_array_foreach(v->checks, i, check) if (!*text_of(check, "host") && !isnan(real_of(check, "measured")))
    {
        fputs(" '", out);
        put_escaped(out, name_of(v, i), escapes);
        fprintf(out, " (%s)'=%.6f;;;0", text_of(check, "unit"), real_of(check, "measured"));
    }
    fputc('\n', out);
}

void bb_checks_print_nagios(const json_t *root, FILE *out)
{
    static const char *const states[] = {"OK", "WARNING", "CRITICAL", "UNKNOWN"};
    static const struct escape escapes[] = {{'|', "/"}, {0}};
    struct view v = open_view(root, NULL);
    const bool is_lost = strcmp(text_of(root, "status"), "timeout") == 0;
    const enum bb_check_status state = is_lost                                          ? BB_CHECK_FAIL
                                       : v.run == BB_CHECK_OK && v.n[BB_CHECK_WARN] > 0 ? BB_CHECK_WARN
                                                                                        : v.run;

    if (state == BB_CHECK_FAIL && v.n[BB_CHECK_FAIL] == 0) /* the run itself */
        v.n[BB_CHECK_FAIL] = 1;
    fprintf(out, "BUSBAR %s - ", states[state]);
    if (v.explained)
        fprintf(out, "%zu check%s%s: %zu ok, %zu warn, %zu fail, %zu unknown", json_array_size(v.checks),
                bb_plural(json_array_size(v.checks)), *v.label ? " (emulated GPUs)" : "", v.n[BB_CHECK_OK],
                v.n[BB_CHECK_WARN], v.n[BB_CHECK_FAIL], v.n[BB_CHECK_UNKNOWN]);
    else
        put_escaped(out, text_of(root, "reason"), escapes);
    if (state != BB_CHECK_OK)
        put_worst(&v, out, state == BB_CHECK_WARN ? state : BB_CHECK_FAIL);
    if (state == BB_CHECK_FAIL)
        put_worst(&v, out, BB_CHECK_UNKNOWN);
    if (state != BB_CHECK_OK && *text_of(root, "restricted_by")) {
        fputs("; restricted by ", out);
        put_escaped(out, text_of(root, "restricted_by"), escapes);
    }
    put_performance(&v, out);
    close_view(&v);
}
