/* study.c - the reader of study files: JSON first, then key by key against tables of what may stand where. */
#include "bootstrap/sweep/study.h"

#include "bootstrap/base/units.h"
#include "bootstrap/sweep/variables.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Where in the file: "choices.transport.host". */
struct place {
    const char *path;
    char key[256];
};

static struct place place_of_key(const struct place *at, const char *key)
{
    struct place deeper = {.path = at->path};

    snprintf(deeper.key, sizeof(deeper.key), "%.150s%s%.80s", at->key, at->key[0] ? "." : "", key);
    return deeper;
}

static struct place place_of_element(const struct place *at, size_t i)
{
    struct place deeper = {.path = at->path};

    snprintf(deeper.key, sizeof(deeper.key), "%.200s[%zu]", at->key, i);
    return deeper;
}

/* The value as it stands in the file, shortened. */
static const char *json_text(const json_t *value, char text[80])
{
    char *json = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    snprintf(text, 80, "%.70s%s", json ? json : "?", json && strlen(json) > 70 ? "..." : "");
    free(json);
    return text;
}

static int refuse_value(const struct place *at, const json_t *value, const char *expected)
{
    char text[80];

    return bb_err(BB_EUSAGE, "%s: %s is %s, expected %s", at->path, at->key, json_text(value, text), expected);
}

/* ---- values ---- */

/* What one key of an object may hold; check gets the value and its place. */
struct key {
    const char *name;
    int (*check)(const json_t *value, const struct place *at);
};

static int check_keys(const json_t *object, const struct place *at, const struct key *keys, size_t n)
{
    const char *names[32], *name;
    json_t *value;
    int rc = 0;

    for (size_t i = 0; i < n; i++)
        names[i] = keys[i].name;
    json_object_foreach((json_t *)object, name, value)
    {
        struct place deeper = place_of_key(at, name);
        const char *near = bb_nearest(name, names, n);
        size_t i = 0;

        while (i < n && strcmp(keys[i].name, name) != 0)
            i++;
        if (i < n)
            rc = keys[i].check(value, &deeper);
        else if (near)
            rc = bb_err(BB_EUSAGE, "%s: unknown key %s, did you mean '%s'?", at->path, deeper.key, near);
        else
            rc = bb_err(BB_EUSAGE, "%s: unknown key %s; the help of busbar sweep lists them", at->path, deeper.key);
        if (rc)
            return rc;
    }
    return 0;
}

static int check_text(const json_t *value, const struct place *at)
{
    return json_is_string(value) ? 0 : refuse_value(at, value, "a text");
}

/* A text of one line: it becomes part of a script or a table. */
static int check_line(const json_t *value, const struct place *at)
{
    const char *text = json_string_value(value);

    for (const char *c = text; c && *c; c++)
        if (iscntrl((unsigned char)*c))
            return refuse_value(at, value, "one line without control characters");
    return text ? 0 : refuse_value(at, value, "a text");
}

static int check_whole(const json_t *value, const struct place *at, json_int_t least, json_int_t most)
{
    char expected[80];

    if (json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= most)
        return 0;
    snprintf(expected, sizeof(expected), "a whole number from %lld to %lld", (long long)least, (long long)most);
    return refuse_value(at, value, expected);
}

static int check_count(const json_t *value, const struct place *at)
{
    return check_whole(value, at, 1, 1000000);
}

static int check_seconds(const json_t *value, const struct place *at)
{
    double seconds = json_number_value(value);

    return json_is_number(value) && seconds > 0 && seconds <= 1e7 ? 0
                                                                  : refuse_value(at, value, "seconds above 0, to 1e7");
}

/* Any list that is not empty, element by element. */
static int check_list(const json_t *list, const struct place *at, int (*check)(const json_t *, const struct place *))
{
    int rc = json_array_size(list) ? 0 : refuse_value(at, list, "a list with something in it");

    for (size_t i = 0; i < json_array_size(list) && rc == 0; i++) {
        struct place deeper = place_of_element(at, i);

        rc = check(json_array_get(list, i), &deeper);
    }
    return rc;
}

static int check_twice(const json_t *list, const struct place *at)
{
    char text[80];

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_array_get(list, i), json_array_get(list, k)))
                return bb_err(BB_EUSAGE, "%s: %s has %s twice", at->path, at->key,
                              json_text(json_array_get(list, i), text));
    return 0;
}

/* One value, or an axis of values. */
static int check_axis(const json_t *value, const struct place *at, int (*check)(const json_t *, const struct place *))
{
    int rc = json_is_array(value) ? check_list(value, at, check) : check(value, at);

    return rc || !json_is_array(value) ? rc : check_twice(value, at);
}

/* ---- settings ---- */

static int check_word(const json_t *value, const struct place *at)
{
    const char *word = json_string_value(value);

    if (!word || !*word)
        return refuse_value(at, value, "a word");
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return refuse_value(at, value, "something to run");
    if (strncmp(word, "--json", 6) == 0 && (word[6] == '\0' || word[6] == '='))
        return bb_err(BB_EUSAGE, "%s: %s is --json, which the sweep gives by itself; leave it out", at->path, at->key);
    return 0;
}

static int check_words(const json_t *value, const struct place *at)
{
    if (json_is_string(value))
        return check_word(value, at);
    return json_is_array(value) ? check_axis(value, at, check_word)
                                : refuse_value(at, value, "a word or a list of words");
}

static int check_command(const json_t *value, const struct place *at)
{
    size_t lists = 0;

    if (json_is_string(value))
        return check_line(value, at);
    if (!json_is_array(value))
        return refuse_value(at, value, "a text, or a list of words as [\"bench\", \"all_reduce\"]");
    for (size_t i = 0; i < json_array_size(value); i++)
        lists += json_is_array(json_array_get(value, i));
    if (lists > 1)
        return bb_err(BB_EUSAGE, "%s: %s varies %zu words, expected one list at most; use \"choices\" for more",
                      at->path, at->key, lists);
    return check_list(value, at, check_words);
}

static int check_option(const json_t *value, const struct place *at)
{
    if (json_is_string(value) || json_is_number(value) || json_is_boolean(value) || json_is_null(value))
        return 0;
    return refuse_value(at, value, "a text, a number, true, false or null");
}

/* Names end up in tables and comments. */
static int check_name_of(const char *name, const struct place *at)
{
    for (const char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c))
            return bb_err(BB_EUSAGE, "%s: a name in %s has a control character", at->path, at->key);
    return *name ? 0 : bb_err(BB_EUSAGE, "%s: a name in %s is empty", at->path, at->key);
}

static int check_options(const json_t *value, const struct place *at)
{
    const char *name;
    json_t *option;
    int rc = json_is_object(value) ? 0 : refuse_value(at, value, "an object as {\"minbytes\": \"1K\"}");

    json_object_foreach((json_t *)value, name, option)
    {
        struct place deeper = place_of_key(at, name);

        if (rc)
            break;
        if (name[0] == '-' || !name[0])
            return bb_err(BB_EUSAGE, "%s: %s: options stand without dashes, as \"minbytes\" or \"b\"", at->path,
                          deeper.key);
        if (strcmp(name, "json") == 0 || strcmp(name, "help") == 0)
            return bb_err(BB_EUSAGE, "%s: %s is not for a study: the sweep asks for results by itself; leave it out",
                          at->path, deeper.key);
        rc = check_name_of(name, at);
        rc = rc ? rc : check_axis(option, &deeper, check_option);
    }
    return rc;
}

static bool is_variable(const char *name)
{
    bool good = isalpha((unsigned char)name[0]) || name[0] == '_';

    for (const char *c = name; *c; c++)
        good = good && (isalnum((unsigned char)*c) || *c == '_');
    return good;
}

static int check_value(const json_t *value, const struct place *at)
{
    if (json_is_string(value) || json_is_number(value) || json_is_null(value))
        return 0;
    return refuse_value(at, value, "a text, a number, or null for a variable that is not set");
}

static int check_environment(const json_t *value, const struct place *at)
{
    const char *name;
    json_t *variable;
    int rc = json_is_object(value) ? 0 : refuse_value(at, value, "an object as {\"NCCL_ALGO\": \"Ring\"}");

    json_object_foreach((json_t *)value, name, variable)
    {
        struct place deeper = place_of_key(at, name);
        char meant[BB_VARIABLE_NAME];

        if (rc)
            break;
        if (!is_variable(name))
            return bb_err(BB_EUSAGE, "%s: %s is no name of a variable, expected letters, digits and _", at->path,
                          deeper.key);
        if (bb_variable_meant(name, meant))
            bb_warn("%s: %s: NCCL 2.28 has no such variable, did you mean '%s'? It is set as it stands", at->path,
                    deeper.key, meant);
        rc = check_axis(variable, &deeper, check_value);
    }
    return rc;
}

static int check_one_ranks(const json_t *value, const struct place *at)
{
    return check_whole(value, at, 1, BB_STUDY_MOST_RANKS);
}

static int check_ranks(const json_t *value, const struct place *at)
{
    return check_axis(value, at, check_one_ranks);
}

static int check_texts(const json_t *value, const struct place *at)
{
    return json_is_array(value) ? check_list(value, at, check_text) : refuse_value(at, value, "a list of words");
}

#define SETTING                                                                                                        \
    {"command", check_command}, {"options", check_options}, {"environment", check_environment},                        \
        {"ranks", check_ranks}, {"launch_arguments", check_texts},                                                     \
    {                                                                                                                  \
        "timeout_s", check_seconds                                                                                     \
    }

static int check_setting(const json_t *value, const struct place *at)
{
    static const struct key keys[] = {SETTING};

    if (!json_is_object(value))
        return refuse_value(at, value,
                            "an object with command, options, environment, ranks, launch_arguments or timeout_s");
    return check_keys(value, at, keys, sizeof(keys) / sizeof(keys[0]));
}

/* An object that is not empty, whose keys are names and whose values pass `check`. */
static int check_named(const json_t *value, const struct place *at, const char *expected,
                       int (*check)(const json_t *value, const struct place *at))
{
    const char *name;
    json_t *one;
    int rc = json_object_size(value) ? 0 : refuse_value(at, value, expected);

    json_object_foreach((json_t *)value, name, one)
    {
        struct place deeper = place_of_key(at, name);

        rc = rc ? rc : check_name_of(name, at);
        rc = rc ? rc : check(one, &deeper);
    }
    return rc;
}

static int check_choice(const json_t *value, const struct place *at)
{
    return check_named(value, at, "an object with a setting for each name", check_setting);
}

static int check_choices(const json_t *value, const struct place *at)
{
    return check_named(value, at, "an object with an object of settings for each axis", check_choice);
}

static int check_case(const json_t *value, const struct place *at)
{
    static const struct key keys[] = {{"name", check_line}, SETTING};

    if (!json_is_object(value) || !json_object_get(value, "name"))
        return refuse_value(at, value, "an object with a \"name\"");
    return check_keys(value, at, keys, sizeof(keys) / sizeof(keys[0]));
}

static int check_cases(const json_t *value, const struct place *at)
{
    int rc = json_is_array(value) ? check_list(value, at, check_case) : refuse_value(at, value, "a list of cases");

    for (size_t i = 0; i < json_array_size(value) && rc == 0; i++)
        for (size_t k = 0; k < i; k++)
            if (json_equal(json_object_get(json_array_get(value, i), "name"),
                           json_object_get(json_array_get(value, k), "name")))
                return bb_err(BB_EUSAGE, "%s: %s: cases %zu and %zu have the same name", at->path, at->key, k, i);
    return rc;
}

/* ---- the rest of the file ---- */

/* A value, or a list of values, of axes. */
static int check_matcher(const json_t *value, const struct place *at)
{
    const char *name;
    json_t *wanted;
    int rc =
        json_object_size(value) ? 0 : refuse_value(at, value, "an object as {\"NCCL_ALGO\": \"Tree\", \"ranks\": 2}");

    json_object_foreach((json_t *)value, name, wanted)
    {
        struct place deeper = place_of_key(at, name);

        rc = rc ? rc : check_axis(wanted, &deeper, check_option);
    }
    return rc;
}

static int check_leave_out(const json_t *value, const struct place *at)
{
    return json_is_array(value) ? check_list(value, at, check_matcher) : refuse_value(at, value, "a list of objects");
}

static int check_single_matcher(const json_t *value, const struct place *at)
{
    const char *name;
    json_t *wanted;

    json_object_foreach((json_t *)value, name, wanted)
    {
        struct place deeper = place_of_key(at, name);

        if (json_is_array(wanted))
            return refuse_value(&deeper, wanted, "one value: there is one reference");
    }
    return check_matcher(value, at);
}

static int check_column(const json_t *value, const struct place *at)
{
    static const struct key keys[] = {
        {"name", check_line}, {"value", check_line}, {"relative_to", check_single_matcher}};

    if (json_is_string(value))
        return check_line(value, at);
    if (!json_is_object(value) || !json_object_get(value, "value"))
        return refuse_value(at, value, "a text as \"step_us.p50\", or an object with a \"value\"");
    return check_keys(value, at, keys, sizeof(keys) / sizeof(keys[0]));
}

static int check_columns(const json_t *value, const struct place *at)
{
    return json_is_array(value) ? check_list(value, at, check_column) : refuse_value(at, value, "a list of columns");
}

static int check_launcher(const json_t *value, const struct place *at)
{
    const char *word = json_string_value(value);

    if (word && (strcmp(word, "mpirun") == 0 || strcmp(word, "srun") == 0 || strcmp(word, "none") == 0))
        return 0;
    return json_is_array(value)
               ? check_list(value, at, check_text)
               : refuse_value(at, value, "\"mpirun\", \"srun\", \"none\", or a list of words with {ranks} in it");
}

static int check_launch(const json_t *value, const struct place *at)
{
    static const struct key keys[] = {{"with", check_launcher}, {"hosts", check_line}, {"program", check_line}};

    if (!json_is_object(value))
        return refuse_value(at, value, "an object as {\"with\": \"srun\"}");
    return check_keys(value, at, keys, sizeof(keys) / sizeof(keys[0]));
}

static int check_lines(const json_t *value, const struct place *at)
{
    return json_is_array(value) ? check_list(value, at, check_line) : refuse_value(at, value, "a list of lines");
}

static int check_sbatch_line(const json_t *value, const struct place *at)
{
    const char *line = json_string_value(value);
    int rc = check_line(value, at);

    if (rc)
        return rc;
    if (line[0] != '-')
        return refuse_value(at, value, "an option of sbatch, as --partition=gpu");
    if (strncmp(line, "--array", 7) == 0 || strncmp(line, "-a", 2) == 0)
        return bb_err(BB_EUSAGE,
                      "%s: %s is --array, which the sweep writes by itself; leave it out (\"at_once\" "
                      "limits the tasks that run together)",
                      at->path, at->key);
    return 0;
}

static int check_sbatch_lines(const json_t *value, const struct place *at)
{
    return json_is_array(value) ? check_list(value, at, check_sbatch_line) : refuse_value(at, value, "a list of lines");
}

static int check_slurm(const json_t *value, const struct place *at)
{
    static const struct key keys[] = {{"lines", check_sbatch_lines},
                                      {"setup", check_lines},
                                      {"at_once", check_count},
                                      {"tasks_per_array", check_count},
                                      {"gpus_per_node", check_count}};

    if (!json_is_object(value))
        return refuse_value(at, value, "an object as {\"lines\": [\"--partition=gpu\"]}");
    return check_keys(value, at, keys, sizeof(keys) / sizeof(keys[0]));
}

static int check_name(const json_t *value, const struct place *at)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *name = json_string_value(value);

    if (name && name[0] && name[0] != '.' && name[0] != '-' && strlen(name) < BB_STUDY_NAME_TEXT &&
        name[strspn(name, good)] == '\0')
        return 0;
    return refuse_value(at, value, "up to 64 letters, digits, '.', '_' or '-', for the names of files");
}

static int check_root(const json_t *root, const struct place *at)
{
    static const struct key keys[] = {{"name", check_name},           {"about", check_line},
                                      {"choices", check_choices},     {"cases", check_cases},
                                      {"leave_out", check_leave_out}, {"repeats", check_count},
                                      {"launch", check_launch},       {"slurm", check_slurm},
                                      {"columns", check_columns},     SETTING};

    if (!json_is_object(root))
        return bb_err(BB_EUSAGE, "%s: not a study, expected an object as {\"command\": \"bench all_reduce\"}",
                      at->path);
    return check_keys(root, at, keys, sizeof(keys) / sizeof(keys[0]));
}

/* ---- life ---- */

/* "studies/nccl.json" -> "nccl" */
static int name_study(struct bb_study *s)
{
    const char *given = json_string_value(json_object_get(s->root, "name")), *slash = strrchr(s->path, '/');
    char stem[BB_STUDY_NAME_TEXT + 8];
    struct place at = {.path = s->path, .key = "name"};
    json_t *name;
    int rc;

    snprintf(stem, sizeof(stem), "%s", given ? given : slash ? slash + 1 : s->path);
    if (!given && strlen(stem) > 5 && strcmp(stem + strlen(stem) - 5, ".json") == 0)
        stem[strlen(stem) - 5] = '\0';
    name = json_string(stem);
    rc = name ? check_name(name, &at) : refuse_value(&at, json_object_get(s->root, "name"), "a \"name\" in the file");
    json_decref(name);
    snprintf(s->name, sizeof(s->name), "%.64s", stem);
    return rc;
}

/* root is taken over. */
static int check_study(struct bb_study *s, const char *path, json_t *root, const json_error_t *error)
{
    struct place at = {.path = path};
    int rc;

    *s = (struct bb_study){.path = strdup(path), .root = root};
    TRY(s->path ? 0 : bb_err(BB_EFAIL, "no memory for a study"));
    if (!root)
        return bb_err(BB_EUSAGE, "%s: not JSON: line %d: %s", path, error->line, error->text);
    TRY(check_root(root, &at));
    TRY(name_study(s));
out:
    return rc;
}

int bb_study_parse(struct bb_study *study, const char *path, const char *text, size_t length)
{
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

    return check_study(study, path, root, &error);
}

int bb_study_load(struct bb_study *study, const char *path)
{
    json_error_t error;
    FILE *file = fopen(path, "r");
    json_t *root;

    *study = (struct bb_study){0};
    if (!file)
        return bb_err(BB_EUSAGE, "%s: %s", path, strerror(errno));
    root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    return check_study(study, path, root, &error);
}

void bb_study_release(struct bb_study *study)
{
    json_decref(study->root);
    free(study->path);
    *study = (struct bb_study){0};
}
