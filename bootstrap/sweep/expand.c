/*
 * expand.c - expands a study into its combinations, one per run (Cartesian product). The nested loops are, from the
 * outermost to the innermost: the elements of "cases", the alternatives of each choice, and the values of each axis.
 * study.h defines these terms.
 */
#include "bootstrap/sweep/expand.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/key_index.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/size_list.h"

#include <ctype.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VISITS = 1000000 }; /* maximum number of combinations before the rules in "leave_out" exclude some */

struct expansion {
    struct bb_sweep_runs *out;
    const struct bb_study *study;
    const struct bb_expand_plan *plan;
    json_t *choices;         /* JSON list of [axis, {name: setting}], in the order of the nested loops: "case" with the
                                elements of "cases", then each choice */
    const json_t *leave_out; /* list of the leave_out rules of the study file */
    bool *used;              /* [number of leave_out rules] whether the rule excluded at least one combination */
    json_t *labels; /* JSON object: axis -> value of the combination that is being expanded, outermost axis first */
    size_t visits;  /* number of combinations so far, including those that leave_out excludes */
};

/* ---- values as text ---- */

enum { NUMBER_TEXT = 64 };

/* Returns the text of a string or number, NULL for other types. A number is formatted into `text`: a real number as the
 * shortest decimal that converts back to the same number. For a string, the result is the string itself. */
static const char *value_text(const json_t *value, char text[NUMBER_TEXT])
{
    if (json_is_integer(value))
        snprintf(text, NUMBER_TEXT, "%lld", (long long)json_integer_value(value));
    for (int digits = 15; json_is_real(value) && digits <= 17; digits++) {
        snprintf(text, NUMBER_TEXT, "%.*g", digits, json_real_value(value));
        if (strtod(text, NULL) == json_real_value(value))
            break;
    }
    return json_is_number(value) ? text : json_string_value(value);
}

const char *bb_setting_text(const json_t *value, char text[BB_SETTING_TEXT])
{
    char number[NUMBER_TEXT];
    const char *known = json_is_boolean(value) ? (json_is_true(value) ? "yes" : "no") : value_text(value, number);

    snprintf(text, BB_SETTING_TEXT, "%.250s", known ? known : "-");
    bb_blank_controls(text); /* keeps the text on one line */
    return text;
}

const char *bb_settings_text(const struct bb_sweep_run *c, char *text, size_t size)
{
    char value_as_text[BB_SETTING_TEXT];
    const char *axis;
    json_t *value;
    size_t used = 0;

    snprintf(text, size, "the only combination");
    json_object_foreach(c->settings, axis, value)
    {
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s=%s", used ? " " : "", axis,
                                     bb_setting_text(value, value_as_text));
    }
    return text;
}

static bool is_among(const json_t *value, const json_t *wanted)
{
    bool found = !json_is_array(wanted) && json_equal(value, wanted);

    for (size_t i = 0; i < json_array_size(wanted); i++)
        found = found || json_equal(value, json_array_get(wanted, i));
    return found;
}

/* Returns whether the combination with these `settings` (JSON object: axis -> value) is selected by `wanted`, a JSON
 * object that maps axes to a value or a list of values: every axis in `wanted` must have that value, or one of the
 * listed values, in `settings`. */
static bool settings_match(const json_t *settings, const json_t *wanted)
{
    const char *axis;
    json_t *values;

    json_object_foreach((json_t *)wanted, axis, values)
    {
        const json_t *value = json_object_get(settings, axis);

        if (!value || !is_among(value, values))
            return false;
    }
    return true;
}

/* ---- command line of a combination ---- */

static void add_option(struct bb_argv *words, const char *name, const json_t *value)
{
    char text[NUMBER_TEXT];
    const char *known = value_text(value, text);
    bool letter = strlen(name) == 1;

    if (json_is_true(value) || (known && letter))
        bb_argv_add(words, letter ? "-%s" : "--%s", name);
    if (known && letter)
        bb_argv_add(words, "%s", known);
    else if (known)
        bb_argv_add(words, "--%s=%s", name, known);
}

/* Appends the blank-separated words of a text, or the words of a list. */
static void add_split_or_words(struct bb_argv *words, const json_t *value)
{
    if (json_is_string(value))
        bb_argv_add_split(words, json_string_value(value));
    for (size_t i = 0; i < json_array_size(value); i++)
        bb_argv_add(words, "%s", json_string_value(json_array_get(value, i)));
}

static void add_words(const json_t *setting, struct bb_argv *words)
{
    const char *name;
    json_t *value;

    add_split_or_words(words, json_object_get(setting, "command"));
    json_object_foreach(json_object_get(setting, "options"), name, value)
    {
        add_option(words, name, value);
    }
}

uint64_t bb_sweep_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_word(uint64_t hash, const char *word)
{
    return bb_sweep_hash(hash, word, strlen(word) + 1);
}

static uint64_t hash_words(uint64_t hash, const struct bb_argv *a)
{
    for (size_t i = 0; i < a->n; i++)
        hash = hash_word(hash, a->word[i]);
    return hash_word(hash, "");
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sets the id of a combination: a hash of its arguments, environment variables, launcher arguments, number of ranks
 * and repeat number. The variables are sorted first, because their order has no meaning; the order of arguments
 * matters. */
static void set_id(struct bb_sweep_run *c, int repeat)
{
    uint64_t hash = hash_words(BB_SWEEP_HASH, &c->words);
    char numbers[64];

    if (c->environment.n)
        qsort(c->environment.word, c->environment.n, sizeof(char *), compare_words);
    hash = hash_words(hash_words(hash, &c->environment), &c->launch_arguments);
    snprintf(numbers, sizeof(numbers), "%d %d", c->ranks, repeat);
    snprintf(c->id, sizeof(c->id), "%016llx", (unsigned long long)hash_word(hash, numbers));
}

/* ---- placeholders ---- */

/* Returns the length of NAME if a placeholder {NAME} begins at text[at], else 0. */
static size_t placeholder_at(const char *text, size_t at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    const char *name = text + at + 1;
    size_t length;

    if (text[at] != '{' || isdigit((unsigned char)*name) || (at > 0 && text[at - 1] == '$'))
        return 0;
    length = strspn(name, letters);
    return name[length] == '}' ? length : 0;
}

/* Rejects a name that is no key of the object. kind: of the keys, for the message. */
static int reject_key(const char *kind, const char *name, json_t *object)
{
    const char *names[64], *known;
    json_t *value;
    size_t n = 0;

    json_object_foreach(object, known, value)
    {
        if (n < 64)
            names[n++] = known;
    }
    return bb_reject_unknown(kind, name, names, n);
}

/* Replaces the placeholders in all words by their values, and adds their names to the object `used`. */
static int fill_placeholders(struct bb_argv *words, json_t *values, json_t *used)
{
    int rc = 0;

    for (size_t i = 0; i < words->n && rc == 0; i++) {
        char *filled, number[NUMBER_TEXT], *word = words->word[i];
        size_t bytes, length;
        FILE *text = bb_open_text(&filled, &bytes);

        for (size_t at = 0; word[at] && rc == 0; at += length ? length + 2 : 1) {
            char *name;

            length = placeholder_at(word, at);
            if (!length) {
                fputc(word[at], text);
                continue;
            }
            name = bb_format("%.*s", (int)length, word + at + 1);
            json_object_set_new(used, name, json_true());
            if (json_object_get(values, name))
                fputs(value_text(json_object_get(values, name), number), text);
            else
                rc = reject_key("placeholder", name, values);
            free(name);
        }
        bb_close_text(text, &filled);
        free(word);
        words->word[i] = filled;
    }
    return rc;
}

/* Fills the placeholders of a combination. {id} and {json} are filled later, because they depend on the other words. */
static int fill_words(struct bb_sweep_run *c, const json_t *setting)
{
    json_t *own = json_object_get(setting, "values"), *used = json_object(), *value;
    json_t *values = json_pack("{s:s, s:s}", "id", "{id}", "json", "{json}");
    const char *name;
    int rc;

    json_object_update_missing(values, own);
    if (json_object_get(setting, "ranks"))
        json_object_set(values, "ranks", json_object_get(setting, "ranks"));
    TRY(fill_placeholders(&c->words, values, used));
    c->takes_ranks = json_object_get(used, "ranks");
    c->writes_json = json_object_get(used, "json");
    TRY(fill_placeholders(&c->environment, values, used));
    TRY(fill_placeholders(&c->launch_arguments, values, used));
    json_object_foreach(own, name, value)
    {
        if (rc == 0 && !json_object_get(used, name))
            rc = bb_err(BB_EUSAGE, "values.%s is not used; try: {%s} in the command, an option or a variable", name,
                        name);
    }
    if (rc == 0 && !c->writes_json && json_object_get(used, "json"))
        rc = bb_err(BB_EUSAGE, "{json} is only for the command and its options");
out:
    json_decref(values);
    json_decref(used);
    return rc;
}

/* ---- validation of the command line ---- */

/* Rejects an invalid pattern of a metric: it is a regular expression with a group that contains the number. */
static int check_pattern(const char *name, const char *pattern)
{
    regex_t compiled;
    char why[100];
    int error = regcomp(&compiled, pattern, REG_EXTENDED), rc = 0;

    if (error) {
        regerror(error, NULL, why, sizeof(why));
        return bb_err(BB_EUSAGE, "metrics.%s: '%s' is not a POSIX extended regular expression: %s", name, pattern, why);
    }
    if (strstr(pattern, "\\d"))
        rc = bb_err(BB_EUSAGE, "metrics.%s: '%s' contains \\d, which POSIX does not have; try: [0-9]", name, pattern);
    else if (compiled.re_nsub == 0)
        rc = bb_err(BB_EUSAGE, "metrics.%s: '%s' has no group for the number; try: \"Images/s: ([0-9.]+)\"", name,
                    pattern);
    regfree(&compiled);
    return rc;
}

static int check_metrics(const json_t *metrics)
{
    const char *name;
    json_t *pattern;
    int rc = 0;

    json_object_foreach((json_t *)metrics, name, pattern)
    {
        TRY(check_pattern(name, json_string_value(pattern)));
    }
out:
    return rc;
}

static int check_program(struct bb_sweep_run *c, json_int_t ranks)
{
    c->is_program = true;
    c->launched = ranks > 0;
    c->ranks = ranks ? (int)ranks : 1;
    if (!c->metrics && !c->writes_json)
        return bb_err(BB_EUSAGE,
                      "%s has no metrics; try: \"metrics\": {\"time_us\": \"time: ([0-9.]+)\"}, or {json} in its "
                      "command if it writes a JSON file",
                      c->words.word[0]);
    return c->writes_json ? 0 : check_metrics(c->metrics);
}

/* Rejects the options that the sweep sets itself, and settings that are only for other programs. */
static int check_own_words(const struct bb_sweep_run *c)
{
    static const char *const options[] = {"--json", "--csv", "--help", "-h"};

    for (size_t i = 1; i < c->words.n; i++)
        for (size_t o = 0; o < sizeof(options) / sizeof(options[0]); o++) {
            size_t length = strlen(options[o]);

            if (bb_begins_with(c->words.word[i], options[o]) && strchr("=", c->words.word[i][length]))
                return bb_err(BB_EUSAGE,
                              "%s is not allowed in a study, because the sweep writes the results; leave it out",
                              options[o]);
        }
    if (c->metrics || c->writes_json)
        return bb_err(BB_EUSAGE, "%s is only for programs other than busbar, not for '%s'; leave it out",
                      c->metrics ? "metrics" : "{json}", c->words.word[0]);
    return 0;
}

/* Looks up the command of a combination in plan->commands, sets the combination's number of ranks and lets the
 * command validate its arguments. */
static int check_command(const struct expansion *x, struct bb_sweep_run *c, json_int_t ranks)
{
    const struct bb_study_command *command = x->plan->commands, *end = command + x->plan->n_commands;
    const char *name = c->words.n ? c->words.word[0] : NULL, *names[16];
    size_t n = 0;
    int rc;

    if (!name || !*name)
        return bb_err(BB_EUSAGE, "no command, expected for example \"command\": \"bench all_reduce\"");
    for (; command < end && strcmp(command->name, name) != 0; command++)
        names[n++] = command->name;
    if (command == end && (c->metrics || strchr(name, '/')))
        return check_program(c, ranks);
    if (command == end && !bb_nearest_word(name, names, n))
        return bb_err(
            BB_EUSAGE,
            "unknown command '%s', expected bench, proxy, plan or health; to run another program, add \"metrics\", or "
            "write its path with a slash",
            name);
    if (command == end)
        return bb_reject_unknown("command", name, names, n);
    c->launched = command->launched;
    c->ranks = c->launched ? (int)ranks : 1;
    if (!c->launched && ranks)
        bb_argv_add(&c->words, "--ranks=%lld", (long long)ranks);
    if (c->launched && ranks == 0)
        return bb_err(BB_EUSAGE, "%s needs the number of ranks; try: \"ranks\": 8 in the file, or --ranks 8", name);
    rc = check_own_words(c);
    return rc ? rc : command->check((int)c->words.n, c->words.word);
}

static int fill_run(const struct expansion *x, struct bb_sweep_run *c, const json_t *setting)
{
    const json_t *timeout = json_object_get(setting, "timeout_s");
    char text[NUMBER_TEXT];
    const char *name, *known;
    json_t *value;
    int rc;

    add_words(setting, &c->words);
    json_object_foreach(json_object_get(setting, "environment"), name, value)
    {
        known = value_text(value, text);
        if (known)
            bb_argv_add(&c->environment, "%s=%s", name, known);
        else
            bb_argv_add(&c->environment, "%s", name);
    }
    add_split_or_words(&c->launch_arguments, json_object_get(setting, "launch_arguments"));
    c->metrics = json_incref(json_object_get(setting, "metrics"));
    TRY(fill_words(c, setting));
    c->timeout_s = timeout ? json_number_value(timeout) : x->plan->timeout_s;
    TRY(check_command(x, c, json_integer_value(json_object_get(setting, "ranks"))));
    set_id(c, (int)json_integer_value(json_object_get(setting, "repeat")));
    bb_argv_replace(&c->words, "{id}", c->id);
    bb_argv_replace(&c->environment, "{id}", c->id);
out:
    return rc;
}

/* ---- Cartesian product ---- */

static void record_axes(struct expansion *x)
{
    const char *axis;
    json_t *value;

    json_object_foreach(x->labels, axis, value)
    {
        json_t *values = json_object_get(x->out->axes, axis);

        if (!values)
            json_object_set_new(x->out->axes, axis, json_pack("[O]", value));
        else if (!is_among(value, values))
            json_array_append(values, value);
    }
}

static int emit_run(struct expansion *x, const json_t *setting)
{
    struct bb_sweep_run *c;
    char text[512], context[800];
    bool left_out = false;
    int rc;

    if (++x->visits > MAX_VISITS)
        return bb_err(
            BB_EUSAGE,
            "%s: the study has more than %d combinations before leave_out is applied; try: fewer values per axis",
            x->study->path, MAX_VISITS);
    record_axes(x);
    for (size_t i = 0; i < json_array_size(x->leave_out); i++)
        if (settings_match(x->labels, json_array_get(x->leave_out, i))) {
            x->used[i] = true;
            left_out = true;
        }
    if (left_out)
        return 0;
    if (x->out->n == x->plan->max_combinations)
        return bb_err(BB_EUSAGE,
                      "%s: more than %zu combinations; try: leave_out in the file, or a larger --max-combinations",
                      x->study->path, x->plan->max_combinations);
    BB_GROW(x->out->one, x->out->n);
    c = &x->out->one[x->out->n++];
    *c = (struct bb_sweep_run){.settings = json_deep_copy(x->labels)};
    snprintf(context, sizeof(context), "%.200s: %s: ", x->study->path, bb_settings_text(c, text, sizeof(text)));
    bb_err_context(context);
    rc = fill_run(x, c, setting);
    bb_err_context(NULL);
    return rc;
}

/* An axis: a list of values in a setting (study.h), for example the list of values of one option. */
struct axis {
    const char *name; /* name of the axis: of the option or variable, "ranks", "repeat" or "command" */
    json_t *inside;   /* list or object that contains the list of values */
    size_t word;      /* index of the list of values in `inside`, if `inside` is the list "command" */
    json_t *values;   /* NULL: the setting contains no list of values */
};

/* Returns the next axis to expand: the first list of values in the command, the values of placeholders, the options,
 * the environment, the ranks and the repeat numbers of a setting. */
static struct axis find_axis(json_t *setting)
{
    json_t *const objects[] = {json_object_get(setting, "values"), json_object_get(setting, "options"),
                               json_object_get(setting, "environment")};
    json_t *command = json_object_get(setting, "command"), *value;
    const char *name;
    size_t word;

    json_array_foreach(command, word, value)
    {
        if (json_is_array(value))
            return (struct axis){"command", command, word, value};
    }
    for (int i = 0; i < 3; i++)
        json_object_foreach(objects[i], name, value)
        {
            if (json_is_array(value))
                return (struct axis){name, objects[i], 0, value};
        }
    name = json_is_array(json_object_get(setting, "ranks")) ? "ranks" : "repeat";
    value = json_object_get(setting, name);
    return (struct axis){name, setting, 0, json_is_array(value) ? value : NULL};
}

static void put_value(const struct axis *axis, json_t *value)
{
    if (json_is_array(axis->inside))
        json_array_set(axis->inside, axis->word, value);
    else
        json_object_set(axis->inside, axis->name, value);
}

static int reject_second_axis(const struct expansion *x, const char *name)
{
    if (!json_object_get(x->labels, name))
        return 0;
    return bb_err(BB_EUSAGE, "two axes have the name '%s'; rename the choice", name);
}

/* Combines each value of the first axis of `setting` with all values of the following axes, recursively. The setting
 * is modified temporarily: each value in turn replaces the list of values of the first axis. */
static int expand_axes(struct expansion *x, json_t *setting)
{
    const struct axis axis = find_axis(setting);
    json_t *value;
    size_t i;
    int rc;

    if (!axis.values)
        return emit_run(x, setting);
    TRY(reject_second_axis(x, axis.name));
    json_incref(axis.values);
    json_array_foreach(axis.values, i, value)
    {
        put_value(&axis, value);
        json_object_set(x->labels, axis.name, value);
        if (rc == 0)
            rc = expand_axes(x, setting);
    }
    put_value(&axis, axis.values);
    json_object_del(x->labels, axis.name);
    json_decref(axis.values);
out:
    return rc;
}

/* Returns a new object: `setting` (options, environment, ranks, ... of a study) overridden by `over`. The keys of
 * options and of environment are overridden one by one, any other key as a whole. */
static json_t *overlay_setting(const json_t *setting, const json_t *over)
{
    json_t *result = json_deep_copy(setting), *value;
    const char *key;

    json_object_foreach((json_t *)over, key, value)
    {
        json_t *under = json_object_get(result, key);

        if (json_is_object(under))
            json_object_update(under, value);
        else
            json_object_set_new(result, key, json_deep_copy(value));
    }
    return result;
}

/* Combines `setting` with each alternative of the choice x->choices[next] and, recursively, with the alternatives of
 * the following choices. After the last choice, expands the axes of the setting. */
static int expand_choices(struct expansion *x, size_t next, json_t *setting)
{
    const json_t *choice = json_array_get(x->choices, next);
    const char *axis = json_string_value(json_array_get(choice, 0)), *name;
    json_t *over;
    int rc;

    if (!choice)
        return expand_axes(x, setting);
    TRY(reject_second_axis(x, axis));
    json_object_foreach(json_array_get(choice, 1), name, over)
    {
        json_t *one = overlay_setting(setting, over);

        json_object_set_new(x->labels, axis, json_string(name));
        rc = expand_choices(x, next + 1, one);
        json_decref(one);
        if (rc)
            break;
    }
    json_object_del(x->labels, axis);
out:
    return rc;
}

/* Returns the value of x->choices for a study, owned by the caller. */
static json_t *list_choices(const json_t *study)
{
    json_t *list = json_array(), *cases = json_object(), *one, *choice;
    const char *axis;
    size_t i;

    json_array_foreach(json_object_get(study, "cases"), i, one)
    {
        json_object_set(cases, json_string_value(json_object_get(one, "name")), one);
    }
    if (json_object_size(cases))
        json_array_append_new(list, json_pack("[s, O]", "case", cases));
    json_object_foreach(json_object_get(study, "choices"), axis, choice)
    {
        json_array_append_new(list, json_pack("[s, O]", axis, choice));
    }
    json_decref(cases);
    return list;
}

/* ---- checks of the whole study ---- */

static int reject_axis(const struct expansion *x, const char *what, const char *axis)
{
    char kind[300];

    if (json_object_size(x->out->axes) == 0)
        return bb_err(BB_EUSAGE, "%s: %s: '%s' is not an axis, because the study has no axes", x->study->path, what,
                      axis);
    snprintf(kind, sizeof(kind), "axis in %s of %.200s:", what, x->study->path);
    return reject_key(kind, axis, x->out->axes);
}

/* Checks an object in leave_out or relative_to, which maps axes to one value or a list of values: the study must have
 * these axes and values. matcher: NULL: nothing to check. */
static int check_matcher(const struct expansion *x, const char *what, json_t *matcher)
{
    char text[BB_SETTING_TEXT];
    const char *axis;
    json_t *wanted;

    json_object_foreach(matcher, axis, wanted)
    {
        const json_t *values = json_object_get(x->out->axes, axis);
        const size_t n = json_is_array(wanted) ? json_array_size(wanted) : 1;

        if (!values)
            return reject_axis(x, what, axis);
        for (size_t i = 0; i < n; i++) {
            const json_t *value = json_is_array(wanted) ? json_array_get(wanted, i) : wanted;

            if (!is_among(value, values))
                return bb_err(BB_EUSAGE, "%s: %s: %s has no value %s", x->study->path, what, axis,
                              bb_setting_text(value, text));
        }
    }
    return 0;
}

static int check_unique(const struct expansion *x)
{
    struct bb_key_index ids = {.key_bytes = BB_SWEEP_RUN_ID - 1};
    const struct bb_sweep_run *runs = x->out->one;
    char text[2][400];
    int rc = 0;

    for (int i = 0; i < (int)x->out->n && rc == 0; i++) {
        int first = bb_key_index_add(&ids, runs[i].id);

        if (first != i)
            rc = bb_err(BB_EUSAGE, "%s: two combinations are the same: %d (%s) and %d (%s)", x->study->path, first + 1,
                        bb_settings_text(&runs[first], text[0], sizeof(text[0])), i + 1,
                        bb_settings_text(&runs[i], text[1], sizeof(text[1])));
    }
    bb_key_index_release(&ids);
    return rc;
}

static int check_study(const struct expansion *x)
{
    const json_t *columns = json_object_get(x->study->root, "columns");
    int rc = 0;

    for (size_t i = 0; i < json_array_size(x->leave_out); i++)
        TRY(check_matcher(x, "leave_out", json_array_get(x->leave_out, i)));
    for (size_t i = 0; i < json_array_size(x->leave_out); i++)
        if (!x->used[i])
            return bb_err(BB_EUSAGE, "%s: leave_out[%zu] leaves out nothing: no combination has all of these values",
                          x->study->path, i);
    for (size_t i = 0; i < json_array_size(columns); i++)
        TRY(check_matcher(x, "relative_to", json_object_get(json_array_get(columns, i), "relative_to")));
    if (x->out->n == 0)
        return bb_err(BB_EUSAGE, "%s: leave_out leaves out every combination", x->study->path);
    rc = check_unique(x);
out:
    return rc;
}

/* ---- the whole study ---- */

/* Replaces the ranks of the file by the numbers of --ranks "2,4,8". A single number is not an axis. */
static int override_ranks(json_t *base, const char *text)
{
    json_t *list = json_array();
    const char *rest = text;
    char word[BB_LIST_WORD];
    int ranks = 0, rc = 0;

    while (rc == 0 && bb_list_next(&rest, word)) {
        rc = bb_parse_int(word, 1, BB_STUDY_MAX_RANKS, &ranks);
        json_array_append_new(list, json_integer(ranks));
    }
    if (rc)
        bb_err(BB_EUSAGE, "--ranks: '%s' is not valid, expected numbers of ranks, for example 2,4,8", text);
    else
        json_object_set(base, "ranks", json_array_size(list) == 1 ? json_array_get(list, 0) : list);
    json_decref(list);
    return rc;
}

/* Returns the setting at the top level of a study, owned by the caller. It omits the other keys of the study, because
 * each case and each alternative of a choice copies the setting. */
static json_t *base_setting(json_t *study)
{
    static const char *const keys[] = {"command", "values",  "options",          "environment",
                                       "ranks",   "metrics", "launch_arguments", "timeout_s"};
    json_t *base = json_object();

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(study, keys[i]))
            json_object_set_new(base, keys[i], json_deep_copy(json_object_get(study, keys[i])));
    return base;
}

int bb_expand(struct bb_sweep_runs *c, const struct bb_study *study, const struct bb_expand_plan *plan)
{
    const json_int_t repeats = json_integer_value(json_object_get(study->root, "repeats"));
    struct expansion x = {.out = c,
                          .study = study,
                          .plan = plan,
                          .choices = list_choices(study->root),
                          .leave_out = json_object_get(study->root, "leave_out"),
                          .labels = json_object()};
    json_t *base = base_setting(study->root), *numbers = json_array();
    int rc;

    *c = (struct bb_sweep_runs){.axes = json_object()};
    BB_NEW(x.used, json_array_size(x.leave_out));
    for (json_int_t i = 1; i <= repeats; i++)
        json_array_append_new(numbers, json_integer(i));
    if (repeats > 1) /* the repeat number is one more axis */
        json_object_set(base, "repeat", numbers);
    if (plan->ranks)
        TRY(override_ranks(base, plan->ranks));
    TRY(expand_choices(&x, 0, base));
    TRY(check_study(&x));
out:
    json_decref(numbers);
    json_decref(base);
    json_decref(x.choices);
    json_decref(x.labels);
    free(x.used);
    return rc;
}

void bb_sweep_runs_release(struct bb_sweep_runs *c)
{
    for (size_t i = 0; i < c->n; i++) {
        bb_argv_release(&c->one[i].words);
        bb_argv_release(&c->one[i].environment);
        bb_argv_release(&c->one[i].launch_arguments);
        json_decref(c->one[i].settings);
        json_decref(c->one[i].metrics);
    }
    free(c->one);
    json_decref(c->axes);
    *c = (struct bb_sweep_runs){0};
}
