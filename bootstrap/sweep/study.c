/* study.c - reads study files and validates them key by key against tables of rules. */
#include "bootstrap/sweep/study.h"

#include "bootstrap/base/environment.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/base/units.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const bb_study_launchers[] = {"mpirun", "srun", "none", NULL};

/* Path of a value in the study file, for error messages: "choices.transport.host". The messages begin with the name
 * of the file, which bb_err_context() adds. */
struct location {
    char key[256];
};

static struct location key_location(const struct location *at, const char *key)
{
    struct location deeper;

    snprintf(deeper.key, sizeof(deeper.key), "%.150s%s%.80s", at->key, at->key[0] ? "." : "", key);
    return deeper;
}

static struct location element_location(const struct location *at, size_t i)
{
    struct location deeper;

    snprintf(deeper.key, sizeof(deeper.key), "%.200s[%zu]", at->key, i);
    return deeper;
}

/* Formats a value as JSON of at most 70 characters. */
static const char *json_text(const json_t *value, char text[80])
{
    char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    snprintf(text, 80, "%.70s%s", json ? json : "?", json && strlen(json) > 70 ? "..." : "");
    free(json);
    return text;
}

static int reject_value(const struct location *at, const json_t *value, const char *expected)
{
    char text[80];

    return bb_err(BB_EUSAGE, "%s is %s, expected %s", at->key, json_text(value, text), expected);
}

/* ---- validation rules ---- */

/* Structure that a rule (struct rule) requires of a JSON value in the study file. */
enum shape {
    ONE,   /* any; the function `check` of the rule decides */
    LIST,  /* a non-empty list */
    AXIS,  /* one value, or a non-empty list of distinct values */
    NAMED, /* an object with user-defined names, for example "environment" */
    KEYS   /* an object that has only the keys of two tables of rules, for example "launch" */
};

typedef int check_fn(const json_t *value, const struct location *at);

/* Rule that validates a JSON value in the study file. */
struct rule {
    const char *key;  /* in a table of rules for the keys of an object: key to which the rule applies; NULL ends the
                         table */
    enum shape shape; /* required structure of the value */
    check_fn *check;  /* ONE: validates the value. LIST, AXIS, NAMED: validates each element if `inner` is NULL */
    const struct rule *inner, *more; /* KEYS: two tables of rules for the keys of the object; `more` may be NULL.
                                        LIST, AXIS, NAMED: `inner` is the rule for each element */
    const char *expected;            /* what is accepted, for the error message about a value of another shape */
    const char *needed;              /* KEYS: required key; NULL: none */
    bool may_be_empty;               /* NAMED: {} is accepted */
    /* NAMED: validates a user-defined name. object: location of the object; at: location of the value that has this
     * name. NULL: every name is valid */
    int (*check_name)(const char *name, const struct location *object, const struct location *at);
};

#define IS(fn)                   .check = fn
#define LIST_OF(fn, accepted)    .shape = LIST, .check = fn, .expected = accepted
#define AXIS_OF(fn)              .shape = AXIS, .check = fn
#define KEYS_OF(keys, accepted)  .shape = KEYS, .inner = keys, .expected = accepted
#define NAMED_OF(rule, accepted) .shape = NAMED, .inner = rule, .expected = accepted

static int check_value(const struct rule *rule, const json_t *value, const struct location *at);

static bool has_shape(const struct rule *rule, const json_t *value)
{
    switch (rule->shape) {
    case LIST:
        return json_is_array(value);
    case NAMED:
        return json_is_object(value) && (rule->may_be_empty || json_object_size(value) > 0);
    case KEYS:
        return json_is_object(value) && (!rule->needed || json_object_get(value, rule->needed));
    default:
        return true;
    }
}

static int check_one(const struct rule *rule, const json_t *value, const struct location *at)
{
    return rule->inner ? check_value(rule->inner, value, at) : rule->check(value, at);
}

static int check_elements(const struct rule *rule, const json_t *list, const struct location *at)
{
    int rc = json_array_size(list) ? 0 : reject_value(at, list, "a non-empty list");

    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        struct location deeper = element_location(at, i);

        rc = check_one(rule, json_array_get(list, i), &deeper);
    }
    return rc;
}

static int check_unique(const json_t *list, const struct location *at)
{
    char text[80];

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_array_get(list, i), json_array_get(list, k)))
                return bb_err(BB_EUSAGE, "%s has %s twice", at->key, json_text(json_array_get(list, i), text));
    return 0;
}

static int check_key(const struct rule *rule, const char *name, const json_t *value, const struct location *at)
{
    const struct rule *const tables[] = {rule->inner, rule->more};
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
        return bb_err(BB_EUSAGE, "unknown key %s, did you mean '%s'?", at->key, near);
    return bb_err(BB_EUSAGE, "unknown key %s; busbar sweep --help lists the keys", at->key);
}

static int check_members(const struct rule *rule, const json_t *object, const struct location *at)
{
    const char *name;
    json_t *value;
    int rc = 0;

    json_object_foreach((json_t *)object, name, value)
    {
        struct location deeper = key_location(at, name);

        if (rule->check_name)
            TRY(rule->check_name(name, at, &deeper));
        TRY(rule->shape == KEYS ? check_key(rule, name, value, &deeper) : check_one(rule, value, &deeper));
    }
out:
    return rc;
}

static int check_value(const struct rule *rule, const json_t *value, const struct location *at)
{
    int rc;

    if (!has_shape(rule, value))
        return reject_value(at, value, rule->expected);
    if (rule->shape == NAMED || rule->shape == KEYS)
        return check_members(rule, value, at);
    if (rule->shape == ONE || !json_is_array(value))
        return check_one(rule, value, at);
    TRY(check_elements(rule, value, at));
    if (rule->shape == AXIS)
        TRY(check_unique(value, at));
out:
    return rc;
}

/* ---- checks of single values ---- */

static int check_text(const json_t *value, const struct location *at)
{
    return json_is_string(value) ? 0 : reject_value(at, value, "a text");
}

/* Requires a text without control characters, because the text becomes part of a script or a table. */
static int check_line(const json_t *value, const struct location *at)
{
    const char *text = json_string_value(value);

    for (const char *c = text; c && *c; c++)
        if (iscntrl((unsigned char)*c))
            return reject_value(at, value, "one line without control characters");
    return text ? 0 : reject_value(at, value, "a text");
}

static int check_integer(const json_t *value, const struct location *at, json_int_t most)
{
    char expected[80];

    if (json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= most)
        return 0;
    snprintf(expected, sizeof(expected), "an integer from 1 to %lld", (long long)most);
    return reject_value(at, value, expected);
}

static int check_count(const json_t *value, const struct location *at)
{
    return check_integer(value, at, 1000000);
}

static int check_ranks(const json_t *value, const struct location *at)
{
    return check_integer(value, at, BB_STUDY_MAX_RANKS);
}

static int check_seconds(const json_t *value, const struct location *at)
{
    double seconds = json_number_value(value);

    return json_is_number(value) && seconds > 0 && seconds <= 1e7
               ? 0
               : reject_value(at, value, "seconds, above 0 and at most 1e7");
}

static int check_word(const json_t *value, const struct location *at)
{
    const char *word = json_string_value(value);

    if (!word || !*word)
        return reject_value(at, value, "a word");
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return reject_value(at, value, "a command to run");
    if (strncmp(word, "--json", 6) == 0 && (word[6] == '\0' || word[6] == '='))
        return bb_err(BB_EUSAGE, "%s is --json, which the sweep sets itself; leave it out", at->key);
    return 0;
}

static int check_option(const json_t *value, const struct location *at)
{
    if (json_is_string(value) || json_is_number(value) || json_is_boolean(value) || json_is_null(value))
        return 0;
    return reject_value(at, value, "a text, a number, true, false or null");
}

static int check_single_option(const json_t *value, const struct location *at)
{
    return json_is_array(value) ? reject_value(at, value, "one value, because relative_to selects one reference run")
                                : check_option(value, at);
}

static int check_variable(const json_t *value, const struct location *at)
{
    if (json_is_string(value) || json_is_number(value) || json_is_null(value))
        return 0;
    return reject_value(at, value, "a text, a number, or null to unset the variable");
}

static int check_sbatch_line(const json_t *value, const struct location *at)
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
                      at->key);
    return 0;
}

static int check_name(const json_t *value, const struct location *at)
{
    static const char valid[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = json_string_value(value);

    if (name && name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < BB_STUDY_NAME_TEXT &&
        name[strspn(name, valid)] == '\0')
        return 0;
    return reject_value(at, value, "up to 64 letters, digits, '.', '_' or '-', because the name is used in file names");
}

/* ---- checks of values that may have one of two types ---- */

static int check_words(const json_t *value, const struct location *at)
{
    static const struct rule words = {AXIS_OF(check_word)};

    if (json_is_string(value) || json_is_array(value))
        return check_value(&words, value, at);
    return reject_value(at, value, "a word or a list of words");
}

static int check_command(const json_t *value, const struct location *at)
{
    static const struct rule words = {
        LIST_OF(check_words, "a text, or a list of words such as [\"bench\", \"all_reduce\"]")};
    size_t lists = 0;

    if (json_is_string(value))
        return check_line(value, at);
    for (size_t i = 0; i < json_array_size(value); i++)
        lists += json_is_array(json_array_get(value, i));
    if (lists > 1)
        return bb_err(BB_EUSAGE, "%s: %zu words of the command are lists, expected at most one; try: \"choices\"",
                      at->key, lists);
    return check_value(&words, value, at);
}

static int check_launcher(const json_t *value, const struct location *at)
{
    static const struct rule words = {
        LIST_OF(check_text, "\"mpirun\", \"srun\", \"none\", or a list of words with {ranks} in it")};
    const char *word = json_string_value(value);

    for (size_t i = 0; word && bb_study_launchers[i]; i++)
        if (strcmp(word, bb_study_launchers[i]) == 0)
            return 0;
    return check_value(&words, value, at);
}

/* ---- checks of the names of axes, options and variables ---- */

/* Rejects control characters in an axis name, because the name is printed in tables and in '#' lines. */
static int check_axis_name(const char *name, const struct location *object, const struct location *at)
{
    (void)at;
    for (const char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c))
            return bb_err(BB_EUSAGE, "a name in %s has a control character", object->key);
    return *name ? 0 : bb_err(BB_EUSAGE, "a name in %s is empty", object->key);
}

static int check_option_name(const char *name, const struct location *object, const struct location *at)
{
    if (name[0] == '-' || !name[0])
        return bb_err(BB_EUSAGE, "%s: expected an option name without dashes, for example \"minbytes\" or \"b\"",
                      at->key);
    if (strcmp(name, "json") == 0 || strcmp(name, "csv") == 0 || strcmp(name, "help") == 0)
        return bb_err(BB_EUSAGE, "%s is not allowed in a study, because the sweep writes the results; leave it out",
                      at->key);
    return check_axis_name(name, object, at);
}

static int check_variable_name(const char *name, const struct location *object, const struct location *at)
{
    bool valid = isalpha((unsigned char)name[0]) || name[0] == '_';
    const char *meant = bb_environment_suggest_nccl(name);

    (void)object;
    for (const char *c = name; *c; c++)
        valid = valid && (isalnum((unsigned char)*c) || *c == '_');
    if (!valid)
        return bb_err(BB_EUSAGE, "%s is not a valid variable name, expected letters, digits and _", at->key);
    if (meant)
        bb_warn("%s is not a variable of NCCL 2.32, did you mean '%s'? The variable is set as given", at->key, meant);
    return 0;
}

/* ---- rules for the keys of a study file ---- */

static const struct rule options = {AXIS_OF(check_option)};
static const struct rule variables = {AXIS_OF(check_variable)};

static const struct rule setting_keys[] = {
    {"command", IS(check_command)},
    {"options", NAMED_OF(&options, "an object such as {\"minbytes\": \"1K\"}"), .check_name = check_option_name,
     .may_be_empty = true},
    {"environment", NAMED_OF(&variables, "an object such as {\"NCCL_ALGO\": \"Ring\"}"),
     .check_name = check_variable_name, .may_be_empty = true},
    {"ranks", AXIS_OF(check_ranks)},
    {"launch_arguments", LIST_OF(check_text, "a list of words")},
    {"timeout_s", IS(check_seconds)},
    {0},
};
static const struct rule setting = {
    KEYS_OF(setting_keys, "an object with command, options, environment, ranks, launch_arguments or timeout_s")};
static const struct rule choice = {NAMED_OF(&setting, "an object that maps each name to a setting"),
                                   .check_name = check_axis_name};

static const struct rule case_keys[] = {{"name", IS(check_line)}, {0}};
static const struct rule one_case = {KEYS_OF(case_keys, "an object with a \"name\""), .more = setting_keys,
                                     .needed = "name"};

static int check_cases(const json_t *value, const struct location *at)
{
    static const struct rule cases = {.shape = LIST, .inner = &one_case, .expected = "a list of cases"};
    int rc = check_value(&cases, value, at);

    for (size_t i = 0; i < json_array_size(value) && rc == 0; i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_object_get(json_array_get(value, i), "name"),
                           json_object_get(json_array_get(value, k), "name")))
                return bb_err(BB_EUSAGE, "%s: cases %zu and %zu have the same name", at->key, k, i);
    return rc;
}

/* An object that maps axes to values. It selects combinations in leave_out (one value or a list of values per axis)
 * and in relative_to (one value per axis). */
#define MATCHER_OF(rule) NAMED_OF(rule, "an object such as {\"NCCL_ALGO\": \"Tree\", \"ranks\": 2}")
static const struct rule matcher = {MATCHER_OF(&options)};
static const struct rule single_option = {IS(check_single_option)};

static const struct rule column_keys[] = {
    {"name", IS(check_line)},
    {"value", IS(check_line)},
    {"relative_to", MATCHER_OF(&single_option)},
    {0},
};
static const struct rule column = {
    KEYS_OF(column_keys, "a text such as \"step_us.p50\", or an object with a \"value\""), .needed = "value"};

static int check_column(const json_t *value, const struct location *at)
{
    return json_is_string(value) ? check_line(value, at) : check_value(&column, value, at);
}

static const struct rule launch_keys[] = {
    {"with", IS(check_launcher)},
    {"hosts", IS(check_line)},
    {"program", IS(check_line)},
    {0},
};
static const struct rule slurm_keys[] = {
    {"lines", LIST_OF(check_sbatch_line, "a list of lines")},
    {"setup", LIST_OF(check_line, "a list of lines")},
    {"at_once", IS(check_count)},
    {"tasks_per_array", IS(check_count)},
    {"gpus_per_node", IS(check_count)},
    {0},
};
static const struct rule root_keys[] = {
    {"name", IS(check_name)},
    {"about", IS(check_line)},
    {"choices", NAMED_OF(&choice, "an object that maps each axis to an object of settings"),
     .check_name = check_axis_name},
    {"cases", IS(check_cases)},
    {"leave_out", .shape = LIST, .inner = &matcher, .expected = "a list of objects"},
    {"repeats", IS(check_count)},
    {"launch", KEYS_OF(launch_keys, "an object such as {\"with\": \"srun\"}")},
    {"slurm", KEYS_OF(slurm_keys, "an object such as {\"lines\": [\"--partition=gpu\"]}")},
    {"columns", LIST_OF(check_column, "a list of columns")},
    {0},
};
static const struct rule root_rule = {KEYS_OF(root_keys, NULL), .more = setting_keys};

static int check_root(const json_t *root, const struct location *at)
{
    if (!json_is_object(root))
        return bb_err(BB_EUSAGE, "not a study, expected an object such as {\"command\": \"bench all_reduce\"}");
    return check_value(&root_rule, root, at);
}

/* ---- load and release ---- */

/* Sets the name of the study: "name" in the file, else the file name, for example "nccl" for "studies/nccl.json". */
static int name_study(struct bb_study *s)
{
    const char *given = json_string_value(json_object_get(s->root, "name")), *slash = strrchr(s->path, '/');
    char stem[BB_STUDY_NAME_TEXT + 8];
    const struct location at = {.key = "name"};
    json_t *name;
    int rc;

    snprintf(stem, sizeof(stem), "%s", given ? given : slash ? slash + 1 : s->path);
    if (!given && strlen(stem) > 5 && strcmp(stem + strlen(stem) - 5, ".json") == 0)
        stem[strlen(stem) - 5] = '\0';
    name = json_string(stem);
    rc = name ? check_name(name, &at) : reject_value(&at, json_object_get(s->root, "name"), "a \"name\" in the file");
    json_decref(name);
    snprintf(s->name, sizeof(s->name), "%.64s", stem);
    return rc;
}

int bb_study_load(struct bb_study *study, const char *path)
{
    char context[1000];
    int rc;

    *study = (struct bb_study){.path = path};
    TRY(bb_json_load(path, JSON_REJECT_DUPLICATES, &study->root));
    snprintf(context, sizeof(context), "%s: ", path);
    bb_err_context(context);
    rc = check_root(study->root, &(struct location){{0}});
    rc = rc ? rc : name_study(study);
    bb_err_context(NULL);
out:
    return rc;
}

void bb_study_release(struct bb_study *study)
{
    json_decref(study->root);
    *study = (struct bb_study){0};
}
