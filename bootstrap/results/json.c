/* json.c - conversion of numbers, statistics, options and the environment to JSON, and writing of JSON files. */
#include "bootstrap/results/results.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *bb_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *bb_json_stats(const struct bb_stats *s)
{
    return bb_table_object(bb_stats_fields, s);
}

json_t *bb_json_text(const char *text)
{
    json_t *value = json_string(text);
    char *ascii;

    if (value)
        return value;
    ascii = bb_copy_text(text);
    for (char *c = ascii; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(ascii);
    free(ascii);
    return value;
}

json_t *bb_json_words(int n, char **words)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(list, bb_json_text(words[i]));
    return list;
}

static json_t *texts_json(const struct bb_opt_texts *texts)
{
    json_t *list = json_array();

    for (int i = 0; i < texts->n; i++)
        json_array_append_new(list, bb_json_text(texts->text[i]));
    return list;
}

static json_t *option_value(const struct bb_opt *opt, const void *field)
{
    const char *text;

    switch (opt->kind) {
    case BB_OPT_FLAG:
        return json_boolean(*(const bool *)field);
    case BB_OPT_INTS:
        text = ((const struct bb_opt_ints *)field)->list;
        return text ? json_string(text) : json_integer(((const struct bb_opt_ints *)field)->first);
    case BB_OPT_INT:
        return json_integer(*(const int *)field);
    case BB_OPT_SIZE:
        return json_integer((json_int_t) * (const size_t *)field);
    case BB_OPT_DOUBLE:
        return bb_json_real(*(const double *)field);
    case BB_OPT_TEXTS:
        return texts_json(field);
    case BB_OPT_CHOICE:
    case BB_OPT_STRING:
        text = *(const char *const *)field;
        return text ? bb_json_text(text) : json_null();
    }
    return json_null();
}

static void add_option(void *arg, const struct bb_opt *opt, const void *field)
{
    char *key = bb_copy_text(opt->name);
    json_t *value = option_value(opt, field);

    for (char *c = key; *c; c++)
        if (*c == '-')
            *c = '_';
    if (!opt->def && opt->min > 0 && json_is_number(value) && json_number_value(value) == 0)
        json_object_set_new(arg, key, json_null()); /* not given: 0 is not accepted */
    else
        json_object_set(arg, key, value);
    json_decref(value);
    free(key);
}

json_t *bb_json_options(const struct bb_opts *set, const void *cfg)
{
    json_t *options = json_object();

    bb_opts_each(set, cfg, add_option, options);
    return options;
}

json_t *bb_json_environment(void)
{
    json_t *environment = json_object();

    for (char **v = environ; *v; v++) {
        char *name = bb_copy_text(*v), *equals = strchr(name, '=');

        if (equals) {
            *equals = '\0';
            if (bb_environment_is_recorded(name))
                json_object_set_new(environment, name, json_string(bb_environment_value(name, equals + 1)));
        }
        free(name);
    }
    return environment;
}

/* Returns whether a value of NCCL_ALGO or NCCL_PROTO concerns an operation: an entry is without operation, "ring", or for
 * this one, "allreduce:ring;broadcast:tree". */
static bool concerns(const char *value, const char *operation)
{
    for (; *value; value += strcspn(value, ";"), value += *value == ';') {
        const char *name = operation;
        size_t prefix = strcspn(value, ":;"), i = 0;

        for (; i < prefix && *name; name++) /* AllReduce is all_reduce */
            if (*name != '_' && tolower((unsigned char)value[i++]) != *name)
                break;
        if (value[prefix] != ':' || (i == prefix && !*name))
            return true;
    }
    return false;
}

char *bb_json_restrictions(const json_t *environment, const char *operation)
{
    const bool emulated =
        environment ? json_object_get(environment, "EMU_TWINS") != NULL : bb_environment_is_emulated();
    const struct bb_restriction *r;
    const char *host_id;
    char *text = NULL;

    for (size_t i = 0; (r = bb_environment_restriction_at(i)) != NULL; i++) {
        const char *value = environment ? json_string_value(json_object_get(environment, r->name)) : getenv(r->name);
        char *before = text;

        if (!bb_environment_restricts(r, value) || (emulated && !r->modelled) ||
            (operation && !(r->choice && concerns(value, operation))))
            continue;
        text = bb_format("%s%s$%s=%s", before ? before : "", before ? ", " : "", r->name, value);
        free(before);
    }
    host_id = environment ? json_string_value(json_object_get(environment, "NCCL_HOSTID")) : getenv("NCCL_HOSTID");
    if (text && host_id && bb_begins_with(host_id, BB_OWN_HOST_ID)) {
        char *before = text;

        text =
            bb_format("%s (set by busbar, unless set before, for ranks that share a GPU or use MIG instances)", before);
        free(before);
    }
    return text;
}

static void put_document(FILE *out, const json_t *root, int decimals)
{
    (void)!json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION((size_t)decimals));
    fputc('\n', out);
}

int bb_json_save(const char *path, const char *what, json_t *root, int decimals)
{
    struct bb_outfile file;
    int rc = 0;

    if (!root)
        return bb_err(BB_EFAIL, "cannot write %s: a text in it is not valid UTF-8", what);
    if (bb_outfile_is_stdout(path)) {
        put_document(stdout, root, decimals);
    } else if ((rc = bb_outfile_open(&file, path, what)) == 0) {
        put_document(file.out, root, decimals);
        rc = bb_outfile_close(&file, what, 0);
    }
    json_decref(root);
    return rc;
}
