/* metrics.c - results of programs other than busbar: numbers in their output, or in the JSON file that they write. */
#include "bootstrap/sweep/state.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

json_t *bb_sweep_follow(const json_t *from, const char *path)
{
    char key[128];

    while (from && *path) {
        size_t length = strcspn(path, ".");

        if (json_is_number(from) && strcmp(path, "p50") == 0)
            break;
        snprintf(key, sizeof(key), "%.*s", (int)length, path);
        from = json_is_array(from) ? json_array_get(from, (size_t)atol(key)) : json_object_get(from, key);
        path += length + (path[length] == '.');
    }
    return (json_t *)from;
}

/* ---- metrics in the output ---- */

/* Returns a new JSON number, an integer if the text is one; NULL if the text is not a number. */
static json_t *number_of(const char *text)
{
    double real;
    char *end;
    long long integer;

    errno = 0;
    integer = strtoll(text, &end, 10);
    if (bb_parse_double(text, &real) != 0)
        return NULL;
    return *end || errno ? json_real(real) : json_integer(integer);
}

/* Returns whether line[begin, end) is only a part of a number: 7 of 13.7, 1 of 1.5e-3. A comma may separate numbers. */
static bool is_part_of_number(const char *line, size_t begin, size_t end)
{
    const char *next = line + end;
    const bool has_point = memchr(line + begin, '.', end - begin) != NULL;
    size_t exponent = 1;

    if (begin == end)
        return false;
    if (begin > 0 && isdigit((unsigned char)line[begin]) && isdigit((unsigned char)line[begin - 1]))
        return true;
    if (begin > 1 && !has_point && line[begin - 1] == '.' && isdigit((unsigned char)line[begin - 2]))
        return true;
    if (isdigit((unsigned char)line[end - 1]) && isdigit((unsigned char)*next))
        return true;
    if (*next == '.' && !has_point)
        return isdigit((unsigned char)next[1]);
    exponent += *next && (next[1] == '-' || next[1] == '+');
    return (*next == 'e' || *next == 'E') && isdigit((unsigned char)next[exponent]);
}

/* Returns what is wrong with the captured text line[begin, end), owned by the caller; NULL: nothing, and *number is its
 * value. */
static char *read_number(const char *line, size_t begin, size_t end, json_t **number)
{
    char *text = bb_format("%.*s", (int)(end - begin), line + begin), *problem = NULL;

    *number = number_of(text);
    if (!*number)
        problem = bb_format("'%.80s' is not a number", text);
    else if (is_part_of_number(line, begin, end))
        problem = bb_format("'%.40s' is only a part of the number in '%.80s'", text, line);
    if (problem)
        json_decref(*number);
    free(text);
    return problem;
}

/* Appends the numbers that the pattern captures in the lines of a file. Stops at the first captured text that is not a
 * number, and stores what is wrong in *invalid, owned by the caller. */
static void match_lines(const char *path, const regex_t *pattern, json_t *numbers, char **invalid)
{
    FILE *file = fopen(path, "r");
    char *line = NULL, *rest, *part;
    size_t bytes = 0;

    while (file && !*invalid && getline(&line, &bytes, file) >= 0)
        for (rest = line; !*invalid && (part = strsep(&rest, "\r\n")) != NULL;) {
            regmatch_t group[2];
            json_t *number;

            if (regexec(pattern, part, 2, group, 0) != 0 || group[1].rm_so < 0)
                continue;
            *invalid = read_number(part, (size_t)group[1].rm_so, (size_t)group[1].rm_eo, &number);
            if (!*invalid)
                json_array_append_new(numbers, number);
        }
    if (file)
        fclose(file);
    free(line);
}

/* Returns the numbers of a metric, owned by the caller: one for each line of stdout that its pattern matches, or else
 * of stderr. */
static json_t *read_metric(const char *dir, const struct bb_sweep_run *c, const char *name, const char *pattern,
                           char **problem)
{
    static const char *const endings[] = {".out", ".err"};
    json_t *numbers = json_array();
    char *invalid = NULL;
    regex_t compiled;

    if (regcomp(&compiled, pattern, REG_EXTENDED) != 0) /* already checked by bb_expand */
        return numbers;
    for (int i = 0; i < 2 && json_array_size(numbers) == 0 && !invalid; i++) {
        char *path = bb_sweep_file(dir, c, endings[i]);

        match_lines(path, &compiled, numbers, &invalid);
        free(path);
    }
    regfree(&compiled);
    if (invalid)
        *problem = bb_format("metric %s: %s (pattern '%s')", name, invalid, pattern);
    else if (json_array_size(numbers) == 0)
        *problem = bb_format("metric %s: no line of the output matches '%s'", name, pattern);
    free(invalid);
    return numbers;
}

/* Distributes the numbers of a metric: the k-th number to the k-th of the rows, a single number to the result. */
static void put_metric(json_t *result, json_t *rows, const char *name, const json_t *numbers)
{
    if (json_array_size(numbers) == json_array_size(rows))
        for (size_t k = 0; k < json_array_size(rows); k++)
            json_object_set(json_array_get(rows, k), name, json_array_get(numbers, k));
    else
        json_object_set(result, name, json_array_get(numbers, 0));
}

/* Returns the result that consists of the numbers of all metrics (an object: name -> numbers). */
static json_t *combine(json_t *metrics, char **problem)
{
    json_t *result = json_object(), *rows = json_array(), *numbers;
    const char *name, *longest = "";

    json_object_foreach(metrics, name, numbers)
    {
        longest = json_array_size(numbers) > json_array_size(rows) ? name : longest;
        while (json_array_size(rows) < json_array_size(numbers))
            json_array_append_new(rows, json_object());
    }
    json_object_foreach(metrics, name, numbers)
    {
        const size_t n = json_array_size(numbers);

        if (n != 1 && n != json_array_size(rows) && !*problem)
            *problem = bb_format("metric %s: %zu lines match, but %zu lines match %s; expected the same number, or one",
                                 name, n, json_array_size(rows), longest);
        put_metric(result, rows, name, numbers);
    }
    json_object_set_new(result, "results", rows);
    return result;
}

/* Returns whether the output contains the note about emulated GPUs of one of busbar's nccl-tests programs. */
static bool is_emulated(const char *dir, const struct bb_sweep_run *c)
{
    char *path = bb_sweep_file(dir, c, ".out"), *line = NULL;
    FILE *file = fopen(path, "r");
    size_t bytes = 0;
    bool found = false;

    while (file && !found && getline(&line, &bytes, file) >= 0)
        found = bb_begins_with(line, "# emulated GPUs: ");
    if (file)
        fclose(file);
    free(line);
    free(path);
    return found;
}

static json_t *read_output(const char *dir, const struct bb_sweep_run *c, char **problem)
{
    json_t *metrics = json_object(), *result, *pattern;
    const char *name;

    json_object_foreach(c->metrics, name, pattern)
    {
        if (!*problem)
            json_object_set_new(metrics, name, read_metric(dir, c, name, json_string_value(pattern), problem));
    }
    result = combine(metrics, problem);
    if (is_emulated(dir, c))
        json_object_set_new(result, "emulated", json_true());
    json_decref(metrics);
    return result;
}

/* ---- metrics in a JSON file ---- */

/* Adds the number at a path to an object. Returns false if there is none. */
static bool add_number(json_t *object, const char *name, const char *path)
{
    json_t *number = bb_sweep_follow(object, path);

    return json_is_number(number) && json_object_set(object, name, number) == 0;
}

/* Adds a metric to the result, or to every element of results[]. */
static bool add_metric(json_t *result, const char *name, const char *path)
{
    json_t *rows = json_object_get(result, "results"), *row;
    bool found = json_array_size(rows) > 0;
    size_t i;

    if (add_number(result, name, path))
        return true;
    json_array_foreach(rows, i, row)
    {
        found = found && add_number(row, name, path);
    }
    return found;
}

static json_t *read_json(const char *dir, const struct bb_sweep_run *c, char **problem)
{
    char *file = bb_sweep_file(dir, c, ".json");
    json_t *result = json_load_file(file, 0, NULL), *path;
    const char *name;

    if (!json_is_object(result))
        *problem = bb_format("the program wrote no JSON object to {json}, %s", file);
    json_object_foreach(c->metrics, name, path)
    {
        if (!*problem && !add_metric(result, name, json_string_value(path)))
            *problem = bb_format("metric %s: the JSON file has no number at '%s'", name, json_string_value(path));
    }
    free(file);
    return result;
}

json_t *bb_sweep_read_metrics(const char *dir, const struct bb_sweep_run *c, char **problem)
{
    json_t *result;

    *problem = NULL;
    result = c->writes_json ? read_json(dir, c, problem) : read_output(dir, c, problem);
    if (!*problem)
        return result;
    json_decref(result);
    return NULL;
}
