/* study.c - reads study files and validates them key by key against tables of rules. */
#include "bootstrap/sweep/study.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/start/program_folder.h"

#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const bb_study_launchers[] = {"mpirun", "srun", "none", NULL};

/* Size of a path of a value in the study file, for error messages: "choices.transport.host". The messages begin with
 * the name of the file, which bb_err_context() adds. */
enum { LOCATION = 256 };

/* Formats a value as JSON of at most 70 characters. */
static const char *json_text(const json_t *value, char text[80])
{
    char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    snprintf(text, 80, "%.70s%s", json ? json : "?", json && strlen(json) > 70 ? "..." : "");
    free(json);
    return text;
}

static int reject_value(const char *at, const json_t *value, const char *expected)
{
    char text[80];

    return bb_err(BB_EUSAGE, "%s is %s, expected %s", at, json_text(value, text), expected);
}

/* ---- validation rules ---- */

/* Types of JSON values that a rule accepts: one bit for each json_type of jansson. */
enum {
    OBJECT = 1 << JSON_OBJECT,
    LIST = 1 << JSON_ARRAY,
    TEXT = 1 << JSON_STRING,
    INTEGER = 1 << JSON_INTEGER,
    NUMBER = INTEGER | 1 << JSON_REAL,
    FLAG = 1 << JSON_TRUE | 1 << JSON_FALSE,
    UNSET = 1 << JSON_NULL
};

/* Rule that validates a JSON value in the study file. at: path of the value in the file. */
struct rule {
    const char *key;      /* in a table of rules for the keys of an object: key to which the rule applies; NULL ends the
                        table */
    int types;            /* accepted types of the value */
    const char *expected; /* what is accepted, for the error message about a value of another type or an empty object */
    double max;           /* numbers: valid values are above 0 and at most max; 0: no limits */
    int (*check)(const json_t *value, const char *at); /* validates what the other fields do not; NULL: nothing */
    const struct rule *element;     /* rule for each element of a non-empty list, or for each value of an object with
                                   user-defined names, for example "environment" */
    bool distinct;                  /* the elements of a list must be different from each other: the list is an axis */
    bool may_be_empty;              /* {} is accepted as object with user-defined names */
    const struct rule *keys, *more; /* two tables of rules for the keys of an object that has no other keys, for example
                                       "launch"; `more` may be NULL */
    const char *needed;             /* key that the object must have; NULL: none */
    /* Validates a user-defined name in the object at `object`; at: path of the value that has this name. NULL: every
     * name is valid. */
    int (*check_name)(const char *name, const char *object, const char *at);
};

static int check_value(const struct rule *rule, const json_t *value, const char *at);

static bool has_shape(const struct rule *rule, const json_t *value)
{
    const double number = json_number_value(value);

    if (!(rule->types & 1 << json_typeof(value)) ||
        (json_is_object(value) && rule->needed && !json_object_get(value, rule->needed)))
        return false;
    if (json_is_object(value) && rule->element && !rule->may_be_empty && json_object_size(value) == 0)
        return false;
    return !json_is_number(value) || rule->max == 0 || (number > 0 && number <= rule->max);
}

static int check_elements(const struct rule *rule, const json_t *list, const char *at)
{
    const size_t n = json_array_size(list);
    char deeper[LOCATION], text[80];
    int rc = n ? 0 : reject_value(at, list, "a non-empty list");

    for (size_t i = 0; i < n && rc == 0; i++) {
        snprintf(deeper, sizeof(deeper), "%.200s[%zu]", at, i);
        rc = check_value(rule->element, json_array_get(list, i), deeper);
    }
    for (size_t i = 0; rule->distinct && rc == 0 && i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_array_get(list, i), json_array_get(list, k)))
                return bb_err(BB_EUSAGE, "%s has %s twice", at, json_text(json_array_get(list, i), text));
    return rc;
}

static int check_key(const struct rule *rule, const char *name, const json_t *value, const char *at)
{
    const struct rule *const tables[] = {rule->keys, rule->more};
    const char *names[32], *near;
    size_t n = 0;

    for (int t = 0; t < 2; t++)
        for (const struct rule *key = tables[t]; key && key->key; key++) {
            if (strcmp(key->key, name) == 0)
                return check_value(key, value, at);
            names[n++] = key->key;
        }
    near = bb_nearest_word(name, names, n);
    if (near)
        return bb_err(BB_EUSAGE, "unknown key %s, did you mean '%s'?", at, near);
    return n <= 8 ? bb_reject_unknown("key", at, names, n)
                  : bb_err(BB_EUSAGE, "unknown key %s; busbar sweep --help lists the keys", at);
}

static int check_members(const struct rule *rule, const json_t *object, const char *at)
{
    char deeper[LOCATION];
    const char *name;
    json_t *value;
    int rc = 0;

    json_object_foreach((json_t *)object, name, value)
    {
        snprintf(deeper, sizeof(deeper), "%.150s%s%.80s", at, *at ? "." : "", name);
        if (rule->check_name)
            TRY(rule->check_name(name, at, deeper));
        TRY(rule->keys ? check_key(rule, name, value, deeper) : check_value(rule->element, value, deeper));
    }
out:
    return rc;
}

static int check_value(const struct rule *rule, const json_t *value, const char *at)
{
    int rc = has_shape(rule, value) ? 0 : reject_value(at, value, rule->expected);

    if (rc == 0 && rule->check)
        rc = rule->check(value, at);
    if (rc)
        return rc;
    if (json_is_object(value))
        return check_members(rule, value, at);
    return json_is_array(value) ? check_elements(rule, value, at) : 0;
}

/* ---- checks that a rule's other fields do not cover. A check of texts accepts values of other types. ---- */

/* Requires a text without control characters, because the text becomes part of a script or a table. */
static int check_line(const json_t *value, const char *at)
{
    const char *text = json_string_value(value);

    return text && bb_has_controls(text, "") ? reject_value(at, value, "one line without control characters") : 0;
}

static int check_word(const json_t *value, const char *at)
{
    const char *word = json_string_value(value);

    return word && !*word ? reject_value(at, value, "a word") : 0;
}

/* A text is split at blanks, without the quoting of a shell. */
static int check_unquoted(const json_t *value, const char *at)
{
    if (json_is_string(value) && strpbrk(json_string_value(value), "'\"\\"))
        return reject_value(at, value, "words without quotes, or a list of words such as [\"./x\", \"a b\"]");
    return check_line(value, at);
}

static int check_command(const json_t *value, const char *at)
{
    size_t lists = 0;

    for (size_t i = 0; i < json_array_size(value); i++)
        lists += json_is_array(json_array_get(value, i));
    if (lists > 1)
        return bb_err(BB_EUSAGE, "%s: %zu words of the command are lists, expected at most one; try: \"choices\"", at,
                      lists);
    return check_unquoted(value, at);
}

static int reject_list(const json_t *value, const char *at)
{
    return json_is_array(value) ? reject_value(at, value, "one value, because relative_to selects one reference run")
                                : 0;
}

#define LAUNCHERS "\"mpirun\", \"srun\", \"none\", or a list of words with {ranks} in it"

static int check_launcher(const json_t *value, const char *at)
{
    const char *word = json_string_value(value);

    for (size_t i = 0; word && bb_study_launchers[i]; i++)
        if (strcmp(word, bb_study_launchers[i]) == 0)
            return 0;
    return word ? reject_value(at, value, LAUNCHERS) : 0;
}

static int check_sbatch_line(const json_t *value, const char *at)
{
    const char *line = json_string_value(value);
    int rc = check_line(value, at);

    if (rc)
        return rc;
    if (line[0] != '-')
        return reject_value(at, value, "an option of sbatch, for example --partition=gpu");
    if (strncmp(line, "--array", 7) == 0 || strncmp(line, "-a", 2) == 0)
        return bb_err(BB_EUSAGE,
                      "%s is --array, which the sweep sets itself; leave it out (\"at_once\" "
                      "limits the number of concurrent tasks)",
                      at);
    return 0;
}

#define NAMES "up to 64 letters, digits, '.', '_' or '-', because the name is used in file names"

static int check_name(const json_t *value, const char *at)
{
    static const char valid[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = json_string_value(value);

    if (name && name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < BB_STUDY_NAME_TEXT &&
        name[strspn(name, valid)] == '\0')
        return 0;
    return reject_value(at, value, NAMES);
}

static int check_cases(const json_t *cases, const char *at)
{
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_object_get(json_array_get(cases, i), "name"),
                           json_object_get(json_array_get(cases, k), "name")))
                return bb_err(BB_EUSAGE, "%s: cases %zu and %zu have the same name", at, k, i);
    return 0;
}

/* ---- checks of the names of axes, options and variables ---- */

/* Rejects control characters in an axis name, because the name is printed in tables and in '#' lines. */
static int check_axis_name(const char *name, const char *object, const char *at)
{
    (void)at;
    if (bb_has_controls(name, ""))
        return bb_err(BB_EUSAGE, "a name in %s has a control character", object);
    return *name ? 0 : bb_err(BB_EUSAGE, "a name in %s is empty", object);
}

static int check_option_name(const char *name, const char *object, const char *at)
{
    if (name[0] == '-' || !name[0])
        return bb_err(BB_EUSAGE, "%s: expected an option name without dashes, for example \"minbytes\" or \"b\"", at);
    return check_axis_name(name, object, at);
}

static int check_identifier(const char *name, const char *kind, const char *at)
{
    bool valid = isalpha((unsigned char)name[0]) || name[0] == '_';

    for (const char *c = name; *c; c++)
        valid = valid && (isalnum((unsigned char)*c) || *c == '_');
    if (!valid)
        return bb_err(BB_EUSAGE, "%s is not a valid %s name, expected letters, digits and _", at, kind);
    return 0;
}

static int check_placeholder_name(const char *name, const char *object, const char *at)
{
    (void)object;
    if (strcmp(name, "id") == 0 || strcmp(name, "ranks") == 0 || strcmp(name, "json") == 0)
        return bb_err(BB_EUSAGE, "%s: the sweep itself sets {%s}; use another name", at, name);
    return check_identifier(name, "placeholder", at);
}

/* A metric is a key of the result and a column of the table, where a dot would be a path. */
static int check_metric_name(const char *name, const char *object, const char *at)
{
    (void)object;
    if (strcmp(name, "results") == 0)
        return bb_err(BB_EUSAGE, "%s: 'results' is the list of rows of a result; use another name", at);
    return check_identifier(name, "metric", at);
}

static int check_variable_name(const char *name, const char *object, const char *at)
{
    const char *meant = bb_environment_suggest(name);
    int rc = check_identifier(name, "variable", at);

    (void)object;
    if (rc)
        return rc;
    if (meant)
        bb_warn("%s is unknown, did you mean '%s'? The variable is set as given", at, meant);
    return 0;
}

/* ---- rules for the keys of a study file ---- */

enum { OPTION = TEXT | NUMBER | FLAG | UNSET, VARIABLE = TEXT | NUMBER | UNSET };
#define OPTION_TEXT   "a text, a number, true, false or null"
#define VARIABLE_TEXT "a text, a number, or null to unset the variable"
#define VALUE_TEXT    "a text, a number, or a list of these"
#define RANKS         .expected = "an integer from 1 to 16777216", .max = BB_STUDY_MAX_RANKS

/* Macros for frequent rules: a text of one line, a number of runs or GPUs, an object with the keys of a table, an
 * object with user-defined names. */
#define LINE                     .types = TEXT, .expected = "a text", .check = check_line
#define COUNT                    .types = INTEGER, .expected = "an integer from 1 to 1000000", .max = 1e6
#define LIST_OF(rule, accepted)  .types = LIST, .element = rule, .expected = accepted
#define KEYS_OF(table, accepted) .types = OBJECT, .keys = table, .expected = accepted
#define NAMED_OF(rule, accepted) .types = OBJECT, .element = rule, .expected = accepted
#define COLUMN_NAMES             "a list of names of columns"
#define MATCHER_OF(rule)         NAMED_OF(rule, "an object such as {\"NCCL_ALGO\": \"Tree\", \"ranks\": 2}")

static const struct rule text = {.types = TEXT, .expected = "a text"};
static const struct rule line = {LINE};
static const struct rule word = {.types = TEXT, .expected = "a word", .check = check_word};
static const struct rule words = {.types = TEXT | LIST,
                                  .expected = "a word or a list of words",
                                  .check = check_word,
                                  .element = &word,
                                  .distinct = true};
static const struct rule option = {.types = OPTION, .expected = OPTION_TEXT};
static const struct rule options = {
    .types = OPTION | LIST, .expected = OPTION_TEXT, .element = &option, .distinct = true};
static const struct rule variable = {.types = VARIABLE, .expected = VARIABLE_TEXT};
static const struct rule variables = {
    .types = VARIABLE | LIST, .expected = VARIABLE_TEXT, .element = &variable, .distinct = true};
static const struct rule ranks = {.types = INTEGER, RANKS};
static const struct rule value = {.types = TEXT | NUMBER, .expected = VALUE_TEXT};
static const struct rule values = {
    .types = TEXT | NUMBER | LIST, .expected = VALUE_TEXT, .element = &value, .distinct = true};
static const struct rule metric = {.types = TEXT, .expected = "a text", .check = check_word};

static const struct rule setting_keys[] = {
    {"command", .types = TEXT | LIST, .element = &words, .check = check_command,
     .expected = "a text, or a list of words such as [\"bench\", \"all_reduce\"]"},
    {"values", NAMED_OF(&values, "an object such as {\"bytes\": [1024, 65536]}"), .check_name = check_placeholder_name,
     .may_be_empty = true},
    {"options", NAMED_OF(&options, "an object such as {\"minbytes\": \"1K\"}"), .check_name = check_option_name,
     .may_be_empty = true},
    {"environment", NAMED_OF(&variables, "an object such as {\"NCCL_ALGO\": \"Ring\"}"),
     .check_name = check_variable_name, .may_be_empty = true},
    {"ranks", .types = INTEGER | LIST, RANKS, .element = &ranks, .distinct = true},
    {"metrics", NAMED_OF(&metric, "an object such as {\"images_per_s\": \"Images/s: ([0-9.]+)\"}"),
     .check_name = check_metric_name},
    {"launch_arguments", .types = TEXT | LIST, .element = &text, .check = check_unquoted,
     .expected = "a text such as \"--bind-to none\", or a list of words"},
    {"timeout_s", .types = NUMBER, .expected = "seconds, above 0 and at most 1e7", .max = 1e7},
    {0},
};
static const struct rule setting = {
    KEYS_OF(setting_keys,
            "an object with command, values, options, environment, ranks, metrics, launch_arguments or timeout_s")};
static const struct rule choice = {NAMED_OF(&setting, "an object that maps each name to a setting"),
                                   .check_name = check_axis_name};

static const struct rule case_keys[] = {{"name", LINE}, {0}};
static const struct rule one_case = {KEYS_OF(case_keys, "an object with a \"name\""), .more = setting_keys,
                                     .needed = "name"};

/* An object that maps axes to values. It selects combinations in leave_out (one value or a list of values per axis)
 * and in relative_to (one value per axis). */
static const struct rule matcher = {MATCHER_OF(&options)};
static const struct rule single_option = {.types = OPTION | LIST, .expected = OPTION_TEXT, .check = reject_list};

static const struct rule column_keys[] = {
    {"name", LINE},
    {"value", LINE},
    {"relative_to", MATCHER_OF(&single_option)},
    {0},
};
static const struct rule column = {.types = TEXT | OBJECT,
                                   .check = check_line,
                                   .keys = column_keys,
                                   .needed = "value",
                                   .expected = "a text such as \"step_us.p50\", or an object with a \"value\""};

/* A chart of `busbar report`. bb_view_check checks the names of its columns. */
static const struct rule chart_keys[] = {
    {"x", LINE}, {"y", LINE}, {"lines", LIST_OF(&line, COLUMN_NAMES)}, {"for_each", LIST_OF(&line, COLUMN_NAMES)}, {0},
};
static const struct rule chart = {KEYS_OF(chart_keys, "an object with the names of columns as \"x\" and \"y\""),
                                  .needed = "y"};

static const struct rule sbatch_line = {.types = TEXT, .expected = "a text", .check = check_sbatch_line};
static const struct rule launch_keys[] = {
    {"with", .types = TEXT | LIST, .expected = LAUNCHERS, .check = check_launcher, .element = &text},
    {"hosts", LINE},
    {"program", LINE},
    {0},
};
static const struct rule slurm_keys[] = {
    {"lines", LIST_OF(&sbatch_line, "a list of lines")},
    {"setup", LIST_OF(&line, "a list of lines")},
    {"at_once", COUNT},
    {"tasks_per_array", COUNT},
    {"gpus_per_node", COUNT},
    {0},
};
static const struct rule root_keys[] = {
    {"name", .types = TEXT, .expected = NAMES, .check = check_name},
    {"about", LINE},
    {"choices", NAMED_OF(&choice, "an object that maps each axis to an object of settings"),
     .check_name = check_axis_name},
    {"cases", LIST_OF(&one_case, "a list of cases"), .check = check_cases},
    {"leave_out", LIST_OF(&matcher, "a list of objects")},
    {"repeats", COUNT},
    {"launch", KEYS_OF(launch_keys, "an object such as {\"with\": \"srun\"}")},
    {"slurm", KEYS_OF(slurm_keys, "an object such as {\"lines\": [\"--partition=gpu\"]}")},
    {"columns", LIST_OF(&column, "a list of columns")},
    {"charts", LIST_OF(&chart, "a list of charts")},
    {0},
};
static const struct rule root_rule = {KEYS_OF(root_keys, NULL), .more = setting_keys};

/* ---- load and release ---- */

/* Sets the name of the study: "name" in the file, else the file name, for example "nccl" for "studies/nccl.json". */
static int name_study(struct bb_study *s)
{
    const char *given = json_string_value(json_object_get(s->root, "name"));
    char stem[BB_STUDY_NAME_TEXT + 8];
    json_t *name;
    int rc;

    snprintf(stem, sizeof(stem), "%s", given ? given : bb_base_name(s->path));
    if (!given && strlen(stem) > 5 && strcmp(stem + strlen(stem) - 5, ".json") == 0)
        stem[strlen(stem) - 5] = '\0';
    name = json_string(stem);
    rc = name ? check_name(name, "name")
              : reject_value("name", json_object_get(s->root, "name"), "a \"name\" in the file");
    json_decref(name);
    snprintf(s->name, sizeof(s->name), "%.64s", stem);
    return rc;
}

/* Finds the installed study of this name, if no file has the name: study->path becomes its file. */
static int find_installed(struct bb_study *study, const char *name)
{
    char *folder = bb_program_file("studies"), *pattern = bb_format("%s/*.json", folder ? folder : "");
    const char *names[24];
    glob_t found = {0};
    size_t n = 0;
    int rc = 0;

    (void)!glob(pattern, 0, NULL, &found);
    for (; n < found.gl_pathc && n < sizeof(names) / sizeof(names[0]); n++) {
        char *stem = strrchr(found.gl_pathv[n], '/') + 1, *dot = strrchr(stem, '.');

        names[n] = stem;
        if (strlen(name) == (size_t)(dot - stem) && strncmp(name, stem, strlen(name)) == 0)
            study->path = study->installed = bb_copy_text(found.gl_pathv[n]);
        else
            *dot = '\0';
    }
    if (!study->installed)
        rc = bb_reject_unknown("study", name, names, n);
    globfree(&found);
    free(pattern);
    free(folder);
    return rc;
}

int bb_study_load(struct bb_study *study, const char *path)
{
    char context[1000];
    int rc;

    *study = (struct bb_study){.path = path};
    if (strcmp(path, "-") != 0 && !strpbrk(path, "/.") && access(path, F_OK) != 0) {
        TRY(find_installed(study, path));
        path = study->path;
    }
    TRY(bb_json_load(path, &study->root));
    snprintf(context, sizeof(context), "%s: ", path);
    bb_err_context(context);
    if (json_is_object(study->root))
        rc = check_value(&root_rule, study->root, "");
    else
        rc = bb_err(BB_EUSAGE, "not a study, expected an object such as {\"command\": \"bench all_reduce\"}");
    rc = rc ? rc : name_study(study);
    bb_err_context(NULL);
out:
    return rc;
}

void bb_study_release(struct bb_study *study)
{
    json_decref(study->root);
    free(study->installed);
    *study = (struct bb_study){0};
}
