/*
 * expand.c - expands a study into its combinations, one per run (Cartesian product). The nested loops are, from the
 * outermost to the innermost: the elements of "cases", the alternatives of each choice, and the values of each axis.
 * study.h defines these terms.
 */
#include "bootstrap/sweep/expand.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/opts.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VISITS = 1000000 }; /* maximum number of combinations before the rules in "leave_out" exclude some */

struct expansion {
    struct bb_sweep_runs *out;
    const struct bb_study *study;
    const struct bb_expand_plan *plan;
    const json_t *leave_out;
    char *used; /* [number of leave_out rules] 1 if the rule excluded at least one combination */
    size_t visits;
};

/* ---- values as text ---- */

/* Formats a number as the shortest decimal that converts back to the same number. Returns text. */
static const char *number_text(double value, char *text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

/* Returns the text of a string or number, NULL for other types. A number is formatted into `text`; for a string, the
 * result is the string itself. */
static const char *value_text(const json_t *value, char *text, size_t size)
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value)) {
        snprintf(text, size, "%lld", (long long)json_integer_value(value));
        return text;
    }
    return json_is_real(value) ? number_text(json_real_value(value), text, size) : NULL;
}

const char *bb_setting_text(const json_t *value, char text[BB_SETTING_TEXT])
{
    char number[64];
    const char *known = json_is_true(value) ? "yes" : value_text(value, number, sizeof(number));

    snprintf(text, BB_SETTING_TEXT, "%.250s", known ? known : "-");
    for (char *c = text; *c; c++)
        *c = iscntrl((unsigned char)*c) ? ' ' : *c; /* keeps the text on one line */
    return text;
}

const char *bb_settings_text(const struct bb_sweep_run *c, char *text, size_t size)
{
    char value_as_text[BB_SETTING_TEXT];
    const char *axis;
    json_t *value;
    size_t used = 0;

    snprintf(text, size, "the only one");
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
    char text[64];
    const char *known = value_text(value, text, sizeof(text));
    bool letter = strlen(name) == 1;

    if (json_is_true(value) || (known && letter))
        bb_argv_add(words, letter ? "-%s" : "--%s", name);
    if (known && letter)
        bb_argv_add(words, "%s", known);
    else if (known)
        bb_argv_add(words, "--%s=%s", name, known);
}

static void add_words(const json_t *setting, struct bb_argv *words)
{
    const json_t *command = json_object_get(setting, "command");
    const char *name;
    json_t *value;

    if (json_is_string(command))
        bb_argv_add_split(words, json_string_value(command));
    for (size_t i = 0; i < json_array_size(command); i++)
        bb_argv_add(words, "%s", json_string_value(json_array_get(command, i)));
    json_object_foreach(json_object_get(setting, "options"), name, value)
    {
        add_option(words, name, value);
    }
}

static void add_environment(const json_t *setting, struct bb_argv *environment)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(setting, "environment"), name, value)
    {
        char text[64];
        const char *known = value_text(value, text, sizeof(text));

        if (known)
            bb_argv_add(environment, "%s=%s", name, known);
        else
            bb_argv_add(environment, "%s", name);
    }
}

/* Returns the 64-bit FNV-1a hash `hash` extended by a word and its terminating null byte. */
static uint64_t hash_word(uint64_t hash, const char *word)
{
    size_t n = strlen(word) + 1;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)word[i]) * 0x100000001b3u;
    return hash;
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
    uint64_t hash = hash_words(0xcbf29ce484222325u, &c->words);
    char numbers[64];

    if (c->environment.n)
        qsort(c->environment.word, c->environment.n, sizeof(char *), compare_words);
    hash = hash_words(hash_words(hash, &c->environment), &c->launch_arguments);
    snprintf(numbers, sizeof(numbers), "%d %d", c->ranks, repeat);
    snprintf(c->id, sizeof(c->id), "%016llx", (unsigned long long)hash_word(hash, numbers));
}

/* Replaces "{id}" in every word of `a` by the combination's id, so that additional output files of each combination
 * get unique names. */
static void substitute_id(struct bb_argv *a, const char *id)
{
    struct bb_argv named = {.failed = a->failed};

    for (size_t i = 0; i < a->n; i++) {
        const char *word = a->word[i], *mark = strstr(word, "{id}");

        if (mark)
            bb_argv_add(&named, "%.*s%s%s", (int)(mark - word), word, id, mark + strlen("{id}"));
        else
            bb_argv_add(&named, "%s", word);
    }
    bb_argv_release(a);
    *a = named;
}

static int reject_command(const struct expansion *x, const char *word)
{
    const char *names[16];

    for (size_t i = 0; i < x->plan->n_commands; i++)
        names[i] = x->plan->commands[i].name;
    return bb_reject_unknown("command", word, names, x->plan->n_commands);
}

/* Looks up the command of a combination in plan->commands, sets the combination's number of ranks and lets the
 * command validate its arguments. */
static int check_command(const struct expansion *x, struct bb_sweep_run *c, json_int_t ranks)
{
    const struct bb_study_command *command = NULL;
    int rc;

    if (c->words.n == 0)
        return bb_err(BB_EUSAGE, "no command, expected for example \"command\": \"bench all_reduce\"");
    for (size_t i = 0; i < x->plan->n_commands; i++)
        if (strcmp(x->plan->commands[i].name, c->words.word[0]) == 0)
            command = &x->plan->commands[i];
    if (!command)
        return reject_command(x, c->words.word[0]);
    c->launched = command->launched;
    c->ranks = c->launched ? (int)ranks : 1;
    if (!c->launched && ranks)
        bb_argv_add(&c->words, "--ranks=%lld", (long long)ranks);
    TRY(bb_argv_result(&c->words));
    if (c->launched && ranks == 0)
        return bb_err(BB_EUSAGE, "%s needs the number of ranks; try: \"ranks\": 8 in the file, or --ranks 8",
                      c->words.word[0]);
    TRY(command->check((int)c->words.n, c->words.word));
out:
    return rc;
}

static int argv_result(const struct bb_sweep_run *c)
{
    int rc;

    TRY(bb_argv_result(&c->words));
    TRY(bb_argv_result(&c->environment));
    rc = bb_argv_result(&c->launch_arguments);
out:
    return rc;
}

static int fill_run(const struct expansion *x, struct bb_sweep_run *c, const json_t *setting, int repeat)
{
    const json_t *arguments = json_object_get(setting, "launch_arguments");
    const json_t *timeout = json_object_get(setting, "timeout_s");
    int rc;

    add_words(setting, &c->words);
    add_environment(setting, &c->environment);
    for (size_t i = 0; i < json_array_size(arguments); i++)
        bb_argv_add(&c->launch_arguments, "%s", json_string_value(json_array_get(arguments, i)));
    c->timeout_s = timeout ? json_number_value(timeout) : x->plan->timeout_s;
    TRY(argv_result(c)); /* fails if an earlier allocation failed, because words may then be missing */
    TRY(check_command(x, c, json_integer_value(json_object_get(setting, "ranks"))));
    set_id(c, repeat);
    substitute_id(&c->words, c->id);
    substitute_id(&c->environment, c->id);
    rc = argv_result(c);
out:
    return rc;
}

static void release_one(struct bb_sweep_run *c)
{
    bb_argv_release(&c->words);
    bb_argv_release(&c->environment);
    bb_argv_release(&c->launch_arguments);
    json_decref(c->settings);
    *c = (struct bb_sweep_run){0};
}

/* ---- Cartesian product ---- */

static int out_of_memory(void)
{
    return bb_err(BB_EFAIL, "out of memory for the combinations");
}

/* Sets *more to a copy of `labels` with one more axis and its value. labels: JSON object axis -> value of the axes
 * that are already expanded. */
static int with_label(const json_t *labels, const char *axis, json_t *value, json_t **more)
{
    *more = json_copy((json_t *)labels);
    if (!*more)
        return out_of_memory();
    if (json_object_get(labels, axis))
        return bb_err(BB_EUSAGE, "two axes have the name '%s'; rename the choice", axis);
    return json_object_set(*more, axis, value) ? out_of_memory() : 0;
}

static bool is_left_out(struct expansion *x, const json_t *labels)
{
    bool out = false;

    for (size_t i = 0; i < json_array_size(x->leave_out); i++)
        if (settings_match(labels, json_array_get(x->leave_out, i))) {
            x->used[i] = true;
            out = true;
        }
    return out;
}

static int record_axes(struct expansion *x, const json_t *labels)
{
    const char *axis;
    json_t *value;

    json_object_foreach((json_t *)labels, axis, value)
    {
        json_t *values = json_object_get(x->out->axes, axis);

        if (!values) {
            values = json_array();
            json_object_set_new(x->out->axes, axis, values);
        }
        if (!is_among(value, values) && json_array_append(values, value))
            return out_of_memory();
    }
    return 0;
}

/* Makes space for one more combination in the list x->out. Fails if the list already has plan->max_combinations
 * elements. */
static int grow_runs(struct expansion *x)
{
    if (x->out->n == x->plan->max_combinations)
        return bb_err(BB_EUSAGE,
                      "%s: more than %zu combinations; try: leave_out in the file, or a larger --max-combinations",
                      x->study->path, x->plan->max_combinations);
    BB_GROW(x->out->one, x->out->n);
    return 0;
}

static int emit_run(struct expansion *x, const json_t *setting, const json_t *labels, int repeat)
{
    struct bb_sweep_run *c;
    char text[512], context[800];
    int rc;

    if (++x->visits > MAX_VISITS)
        return bb_err(
            BB_EUSAGE,
            "%s: the study has more than %d combinations before leave_out is applied; try: fewer values per axis",
            x->study->path, MAX_VISITS);
    TRY(record_axes(x, labels));
    if (is_left_out(x, labels))
        return 0;
    TRY(grow_runs(x));
    c = &x->out->one[x->out->n++];
    *c = (struct bb_sweep_run){0};
    c->settings = json_deep_copy(labels);
    TRY(c->settings ? 0 : out_of_memory());
    snprintf(context, sizeof(context), "%.200s: %s: ", x->study->path, bb_settings_text(c, text, sizeof(text)));
    bb_err_context(context);
    rc = fill_run(x, c, setting, repeat);
    bb_err_context(NULL);
out:
    return rc;
}

static int emit_repeats(struct expansion *x, const json_t *setting, const json_t *labels)
{
    json_int_t repeats = json_integer_value(json_object_get(x->study->root, "repeats"));
    int rc = 0;

    if (repeats < 2)
        return emit_run(x, setting, labels, 0);
    for (json_int_t i = 1; i <= repeats && rc == 0; i++) {
        json_t *number = json_integer(i), *more = NULL;

        rc = number ? with_label(labels, "repeat", number, &more) : out_of_memory();
        rc = rc ? rc : emit_run(x, setting, more, (int)i);
        json_decref(number);
        json_decref(more);
    }
    return rc;
}

/*
 * Finds the first list of values in a setting (command, options, environment and ranks of runs, study.h). The list is
 * the next axis to expand.
 *   part     out: key of the setting that contains the list: "command", "options" or "environment"; NULL for ranks
 *   word     out: index of the list in "command"
 *   Returns  the name of the axis, or NULL if there is no list
 */
static const char *find_axis(const json_t *setting, const char **part, size_t *word)
{
    static const char *const parts[] = {"options", "environment"};
    const json_t *command = json_object_get(setting, "command");
    const char *name;
    json_t *value;

    *part = "command";
    for (*word = 0; *word < json_array_size(command); ++*word)
        if (json_is_array(json_array_get(command, *word)))
            return "command";
    for (int i = 0; i < 2; i++)
        json_object_foreach(json_object_get(setting, parts[i]), name, value)
        {
            *part = parts[i];
            if (json_is_array(value))
                return name;
        }
    *part = NULL;
    return json_is_array(json_object_get(setting, "ranks")) ? "ranks" : NULL;
}

static json_t *list_of(const json_t *setting, const char *part, const char *axis, size_t word)
{
    const json_t *inside = part ? json_object_get(setting, part) : setting;

    return json_is_array(inside) ? json_array_get(inside, word) : json_object_get(inside, axis);
}

static int put_value(json_t *setting, const char *part, const char *axis, size_t word, json_t *value)
{
    json_t *inside = part ? json_object_get(setting, part) : setting;

    return json_is_array(inside) ? json_array_set(inside, word, value) : json_object_set(inside, axis, value);
}

static int expand_axes(struct expansion *x, const json_t *setting, const json_t *labels)
{
    const char *part;
    size_t word;
    const char *axis = find_axis(setting, &part, &word);
    const json_t *values = axis ? list_of(setting, part, axis, word) : NULL;
    int rc = 0;

    if (!axis)
        return emit_repeats(x, setting, labels);
    for (size_t i = 0; i < json_array_size(values) && rc == 0; i++) {
        json_t *value = json_array_get(values, i), *one = json_deep_copy(setting), *more = NULL;

        rc = one && put_value(one, part, axis, word, value) == 0 ? 0 : out_of_memory();
        rc = rc ? rc : with_label(labels, axis, value, &more);
        rc = rc ? rc : expand_axes(x, one, more);
        json_decref(one);
        json_decref(more);
    }
    return rc;
}

/* Returns a new object: `setting` (options, environment, ranks, ... of a study) overridden by `over`. The keys of
 * options and of environment are overridden one by one, any other key as a whole. NULL if memory is exhausted. */
static json_t *overlay_setting(const json_t *setting, const json_t *over)
{
    json_t *result = json_deep_copy(setting), *value;
    const char *key;

    json_object_foreach((json_t *)over, key, value)
    {
        json_t *under = json_object_get(result, key);

        if (json_is_object(value) && json_is_object(under))
            json_object_update(under, value);
        else if (strcmp(key, "name") != 0)
            json_object_set_new(result, key, json_deep_copy(value));
    }
    return result;
}

static int expand_choices(struct expansion *x, void *next_choice, const json_t *setting, const json_t *labels);

static int expand_overlay(struct expansion *x, void *next_choice, const json_t *setting, const json_t *labels,
                          const char *axis, const char *name, const json_t *over)
{
    json_t *value = json_string(name), *one = overlay_setting(setting, over), *more = NULL;
    int rc = value && one ? with_label(labels, axis, value, &more) : out_of_memory();

    rc = rc ? rc : expand_choices(x, next_choice, one, more);
    json_decref(value);
    json_decref(one);
    json_decref(more);
    return rc;
}

/* Combines `setting` with each alternative of one choice (study.h) and, recursively, with the alternatives of the
 * following choices. choice: jansson iterator at that choice; NULL after the last choice, where the axes of the
 * setting are expanded. */
static int expand_choices(struct expansion *x, void *choice, const json_t *setting, const json_t *labels)
{
    json_t *choices = json_object_get(x->study->root, "choices"), *over;
    const char *name;
    int rc = 0;

    if (!choice)
        return expand_axes(x, setting, labels);
    json_object_foreach(json_object_iter_value(choice), name, over)
    {
        if (rc == 0)
            rc = expand_overlay(x, json_object_iter_next(choices, choice), setting, labels,
                                json_object_iter_key(choice), name, over);
    }
    return rc;
}

static int expand_cases(struct expansion *x, const json_t *setting)
{
    json_t *choices = json_object_get(x->study->root, "choices"), *none = json_object();
    const json_t *cases = json_object_get(x->study->root, "cases");
    int rc = 0;

    if (!cases)
        rc = expand_choices(x, json_object_iter(choices), setting, none);
    for (size_t i = 0; i < json_array_size(cases) && rc == 0; i++) {
        const json_t *one = json_array_get(cases, i);

        rc = expand_overlay(x, json_object_iter(choices), setting, none, "case",
                            json_string_value(json_object_get(one, "name")), one);
    }
    json_decref(none);
    return rc;
}

/* ---- checks of the whole study ---- */

static int reject_axis(const struct expansion *x, const char *what, const char *axis)
{
    const char *names[64], *name;
    char kind[300];
    json_t *values;
    size_t n = 0;

    json_object_foreach(x->out->axes, name, values)
    {
        if (n < 64)
            names[n++] = name;
    }
    if (n == 0)
        return bb_err(BB_EUSAGE, "%s: %s: '%s' is not an axis, because the study has no axes", x->study->path, what,
                      axis);
    snprintf(kind, sizeof(kind), "axis in %s of %.200s:", what, x->study->path);
    return bb_reject_unknown(kind, axis, names, n);
}

static int check_value(const struct expansion *x, const char *what, const char *axis, const json_t *wanted)
{
    const json_t *values = json_object_get(x->out->axes, axis);
    char text[BB_SETTING_TEXT];

    if (!values)
        return reject_axis(x, what, axis);
    for (size_t i = 0; i < (json_is_array(wanted) ? json_array_size(wanted) : 1); i++) {
        const json_t *one = json_is_array(wanted) ? json_array_get(wanted, i) : wanted;

        if (!is_among(one, values))
            return bb_err(BB_EUSAGE, "%s: %s: %s has no value %s", x->study->path, what, axis,
                          bb_setting_text(one, text));
    }
    return 0;
}

static int check_matcher(const struct expansion *x, const char *what, const json_t *matcher)
{
    const char *axis;
    json_t *wanted;
    int rc = 0;

    json_object_foreach((json_t *)matcher, axis, wanted)
    {
        rc = rc ? rc : check_value(x, what, axis, wanted);
    }
    return rc;
}

static int check_leave_out(const struct expansion *x)
{
    int rc = 0;

    for (size_t i = 0; i < json_array_size(x->leave_out) && rc == 0; i++)
        rc = check_matcher(x, "leave_out", json_array_get(x->leave_out, i));
    for (size_t i = 0; i < json_array_size(x->leave_out) && rc == 0; i++)
        if (!x->used[i])
            rc = bb_err(BB_EUSAGE, "%s: leave_out[%zu] leaves out nothing: no combination has all of these values",
                        x->study->path, i);
    return rc;
}

static int check_columns(const struct expansion *x)
{
    const json_t *columns = json_object_get(x->study->root, "columns");
    int rc = 0;

    for (size_t i = 0; i < json_array_size(columns) && rc == 0; i++)
        rc = check_matcher(x, "relative_to", json_object_get(json_array_get(columns, i), "relative_to"));
    return rc;
}

static int compare_ids(const void *a, const void *b)
{
    const struct bb_sweep_run *left = *(struct bb_sweep_run *const *)a, *right = *(struct bb_sweep_run *const *)b;
    int order = strcmp(left->id, right->id);

    return order ? order : (left > right) - (left < right);
}

static int reject_duplicate(const struct expansion *x, const struct bb_sweep_run *a, const struct bb_sweep_run *b)
{
    char first[400], second[400];

    return bb_err(BB_EUSAGE, "%s: two combinations are the same: %zu (%s) and %zu (%s)", x->study->path,
                  (size_t)(a - x->out->one) + 1, bb_settings_text(a, first, sizeof(first)),
                  (size_t)(b - x->out->one) + 1, bb_settings_text(b, second, sizeof(second)));
}

static int check_unique(const struct expansion *x)
{
    size_t n = x->out->n;
    const struct bb_sweep_run **sorted = calloc(n + 1, sizeof(*sorted));
    int rc = sorted ? 0 : out_of_memory();

    for (size_t i = 0; i < n && sorted; i++)
        sorted[i] = &x->out->one[i];
    if (sorted)
        qsort(sorted, n, sizeof(*sorted), compare_ids);
    for (size_t i = 1; i < n && rc == 0; i++)
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0)
            rc = reject_duplicate(x, sorted[i - 1], sorted[i]);
    free(sorted);
    return rc;
}

static int check_study(const struct expansion *x)
{
    int rc;

    TRY(check_leave_out(x));
    TRY(check_columns(x));
    if (x->out->n == 0)
        return bb_err(BB_EUSAGE, "%s: leave_out leaves out every combination", x->study->path);
    TRY(check_unique(x));
out:
    return rc;
}

/* ---- command, options, environment and ranks at the top level of the study ---- */

/* Returns the numbers of "2,4,8" as a list; NULL if the text is invalid. */
static json_t *ranks_list(const char *text)
{
    json_t *list = json_array();
    char *copy = strdup(text), *rest = copy, *word;
    bool good = list && copy;

    while (good && (word = strsep(&rest, ",")) != NULL) {
        int ranks;

        good = bb_parse_int(word, 1, BB_STUDY_MAX_RANKS, &ranks) == 0;
        if (good)
            json_array_append_new(list, json_integer(ranks));
    }
    free(copy);
    if (!good) {
        json_decref(list);
        return NULL;
    }
    return list;
}

static int base_setting(const struct expansion *x, json_t **base)
{
    static const char *const keys[] = {"command", "options", "environment", "ranks", "launch_arguments", "timeout_s"};
    json_t *ranks;

    *base = json_object();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *value = json_object_get(x->study->root, keys[i]);

        if (value && json_object_set(*base, keys[i], value))
            return out_of_memory();
    }
    if (!x->plan->ranks)
        return *base ? 0 : out_of_memory();
    ranks = ranks_list(x->plan->ranks);
    if (!ranks)
        return bb_err(BB_EUSAGE, "--ranks: '%s' is not valid, expected numbers of ranks, for example 2,4,8",
                      x->plan->ranks);
    if (json_array_size(ranks) > 1)
        return json_object_set_new(*base, "ranks", ranks) ? out_of_memory() : 0;
    json_object_set(*base, "ranks", json_array_get(ranks, 0));
    json_decref(ranks);
    return 0;
}

int bb_expand(struct bb_sweep_runs *c, const struct bb_study *study, const struct bb_expand_plan *plan)
{
    const json_t *leave_out = json_object_get(study->root, "leave_out");
    struct expansion x = {.out = c, .study = study, .plan = plan, .leave_out = leave_out};
    json_t *base = NULL;
    int rc;

    *c = (struct bb_sweep_runs){.axes = json_object()};
    x.used = calloc(json_array_size(leave_out) + 1, 1);
    TRY(x.used && c->axes ? 0 : out_of_memory());
    TRY(base_setting(&x, &base));
    TRY(expand_cases(&x, base));
    TRY(check_study(&x));
out:
    json_decref(base);
    free(x.used);
    return rc;
}

void bb_sweep_runs_release(struct bb_sweep_runs *c)
{
    for (size_t i = 0; i < c->n; i++)
        release_one(&c->one[i]);
    free(c->one);
    json_decref(c->axes);
    *c = (struct bb_sweep_runs){0};
}
