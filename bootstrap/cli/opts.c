/* opts.c - parses command lines by option tables (see opts.h). */
#include "bootstrap/cli/opts.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/foreign_line.h"
#include "bootstrap/cli/size_list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CHOICES_MAX = 256, NAMES_LISTED = 40 };

#define FIELD(name) offsetof(struct bb_common, name)
const char *const bb_buffer_choices[] = {"nccl", "cuda", NULL};

const struct bb_opt bb_common_options[] = {
    OPT_OUTPUT_DASH(0, "json", FIELD(json), "write the results as JSON, - for stdout" BB_PRIVATE_HELP,
                    .everyday = true),
    OPT_OUTPUT_DASH(0, "csv", FIELD(csv), "write the rows of the results as CSV, - for stdout" BB_CSV_HELP,
                    .everyday = true),
    OPT_OUTPUT(0, "junit", FIELD(junit), "write the checks of the run as JUnit XML, for CI"),
    OPT_OUTPUT(0, "prometheus", FIELD(prometheus),
               "write the checks, and the bus bandwidths of bench, as Prometheus metrics, for the textfile collector "
               "of node_exporter"),
    OPT_INT('g', "gpus", FIELD(gpus), "1", "N", 1, BB_GPUS_MAX,
            "start N ranks, one per GPU, without mpirun; under mpirun or srun, N for each launched process",
            .everyday = true),
    OPT_DOUBLE('T', "timeout", FIELD(timeout_s), "600", "SECONDS", 0.1, 1e6,
               "limit of each wait; a longer wait ends the run with exit status 4"),
    OPT_SHARE_GPU(FIELD(share_gpu)),
    OPT_FLAG(
        0, "ras", FIELD(ras),
        "enable NCCL's RAS service (NCCL_RAS_ENABLE=1); after a timeout its status of the job is printed and recorded"),
    OPT_FLAG(0, "no-supervisor", FIELD(no_supervisor), "run the rank in this process, for debuggers (gdb --args)"),
    OPT_FLAG(0, "full", FIELD(full), "print everything (default: the answer in at most 25 lines)"),
    OPT_QUIET(FIELD(quiet)),
    {0},
};

static const struct bb_opt help_row = OPT_FLAG('h', "help", 0, "print this help");

/* Value of an option of any kind. */
union value {
    bool flag;
    int number;
    size_t size;
    double real;
    const char *text;
    struct bb_opt_ints ints;
    struct bb_opt_texts texts;
};

/* Writes the names, separated by blanks, to buf; "..." replaces the names after the first NAMES_LISTED. Returns buf. */
static const char *join_names(const char *const *names, size_t n, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++) {
        const char *word = i < NAMES_LISTED ? names[i] : "...";

        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "", word);
        if (i == NAMES_LISTED)
            break;
    }
    return buf;
}

int bb_reject_unknown(const char *kind, const char *word, const char *const *names, size_t n)
{
    const char *near = bb_nearest_word(word, names, n);
    char list[1024];

    join_names(names, n, list, sizeof(list));
    if (near)
        return bb_err(BB_EUSAGE, "unknown %s '%s', did you mean '%s'? (one of: %s)", kind, word, near, list);
    return bb_err(BB_EUSAGE, "unknown %s '%s', expected one of: %s", kind, word, list);
}

int bb_reject_unknown_at(const char *kind, const char *word, const char *(*name_at)(size_t i))
{
    const char *names[CHOICES_MAX];
    size_t n = 0;

    while (n < CHOICES_MAX && (names[n] = name_at(n)))
        n++;
    return bb_reject_unknown(kind, word, names, n);
}

const struct bb_foreign_name *bb_foreign_find(const struct bb_foreign_name *names, const char *name, size_t length)
{
    char word[64];
    size_t n;

    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    for (const struct bb_foreign_name *f = names; f && f->name; f++)
        for (const char *at = f->name; *at; at += n + (at[n] == ' ')) {
            n = strcspn(at, " ");
            if (bb_is_same_name(word, at, n))
                return f;
        }
    return NULL;
}

/* Prints an error with the name in busbar of a word that the user typed. Returns -BB_EUSAGE. */
static int reject_foreign(const struct bb_foreign_name *row, const char *typed)
{
    if (!row->ours)
        return bb_err(BB_EUSAGE, "%s has no counterpart here: %s; leave it out", typed, row->text);
    if (row->ours[0] == '-' && strcmp(row->ours, row->text) != 0)
        return bb_err(BB_EUSAGE, "%s is %s here (for example %s)", typed, row->ours, row->text);
    return bb_err(BB_EUSAGE, "%s is %s here; try: %s", typed, row->ours, row->text);
}

static int set_choice(const struct bb_opt *opt, const char *text, const char **field)
{
    const char *choices[CHOICES_MAX];
    size_t n = 0;
    char kind[80];

    for (; n < CHOICES_MAX && (choices[n] = bb_opt_choice(opt, n)); n++)
        if (strcmp(choices[n], text) == 0) {
            *field = choices[n];
            return 0;
        }
    snprintf(kind, sizeof(kind), "value for --%s:", opt->name);
    return bb_reject_unknown(kind, text, choices, n);
}

static bool in_range(const struct bb_opt *opt, double value)
{
    return (opt->min == 0 && opt->max == 0) || (value >= opt->min && value <= opt->max);
}

/* Formats the lower or upper limit `value` of an option: "4 KiB" for sizes, else the number. */
static const char *format_bound(const struct bb_opt *opt, double value, char text[BB_BYTES_TEXT])
{
    if (opt->kind == BB_OPT_SIZE)
        return bb_format_bytes((size_t)value, text);
    snprintf(text, BB_BYTES_TEXT, "%.15g", value);
    return text;
}

static int reject_value(const struct bb_opt *opt, const char *text, const char *expected)
{
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT];

    if (opt->min == 0 && opt->max == 0)
        return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected %s", opt->name, text, expected);
    return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected %s from %s to %s", opt->name, text, expected,
                  format_bound(opt, opt->min, low), format_bound(opt, opt->max, high));
}

enum { USUAL_SEQUENCE = 4096 };

static int set_int(const struct bb_opt *opt, const char *text, int *field)
{
    int value;
    size_t units; /* 4K */
    const bool has_units = bb_parse_int(text, INT_MIN, INT_MAX, &value) && bb_parse_bytes(text, &units) == 0 &&
                           in_range(opt, (double)units);

    if (has_units && opt->arg && strcmp(opt->arg, "TOKENS") == 0) {
        *field = (int)units;
        return 0;
    }
    if (has_units && opt->arg && strcmp(opt->arg, "SAMPLES") == 0)
        return bb_err(BB_EUSAGE,
                      "--%s: '%s' is not valid, expected a number of samples without unit; those of transformers are "
                      "tokens divided by --seq-length (for example --%s %zu --seq-length %d)",
                      opt->name, text, opt->name, (units + USUAL_SEQUENCE - 1) / USUAL_SEQUENCE, USUAL_SEQUENCE);
    if (has_units)
        return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected a number without unit; try: --%s %zu", opt->name,
                      text, opt->name, units);
    if (bb_parse_int(text, INT_MIN, INT_MAX, &value) || !in_range(opt, value))
        return reject_value(opt, text,
                            strchr(text, ',') ? "one whole number (several values: busbar sweep)" : "a whole number");
    *field = value;
    return 0;
}

static int set_ints(const struct bb_opt *opt, const char *text, struct bb_opt_ints *field)
{
    const char *rest = text;
    char word[BB_LIST_WORD];
    int value, rc = 0;

    for (int n = 0; bb_list_next(&rest, word); n++)
        TRY(set_int(opt, word, n ? &value : &field->first));
    field->list = strchr(text, ',') ? text : NULL;
out:
    return rc;
}

static int set_size(const struct bb_opt *opt, const char *text, size_t *field)
{
    size_t value;

    if (bb_parse_bytes(text, &value) || !in_range(opt, (double)value))
        return reject_value(opt, text, "bytes such as 8, 4K, 1.5M, 2G or 1T");
    *field = value;
    return 0;
}

static int set_double(const struct bb_opt *opt, const char *text, double *field)
{
    char number[64];
    const size_t digits = strcspn(text, "%");
    const bool has_sign = /* 5% is 5 */
        opt->arg && strcmp(opt->arg, "PERCENT") == 0 && strcmp(text + digits, "%") == 0 && digits < sizeof number;
    double value;

    snprintf(number, sizeof number, "%.*s", (int)(has_sign ? digits : 0), text);
    if (bb_parse_double(has_sign ? number : text, &value) || !in_range(opt, value))
        return reject_value(opt, text, "a number");
    *field = value;
    return 0;
}

/* Rejects an empty file name, which is usually an unset shell variable: --json=$FILE, and an option as the name of a
 * file to write: --json --quiet. */
static int set_string(const struct bb_opt *opt, const char *text, const char **field)
{
    if (!*text && opt->arg && (strcmp(opt->arg, "FILE") == 0 || strcmp(opt->arg, "DIR") == 0))
        return bb_err(BB_EUSAGE, "--%s: empty value, expected %s", opt->name,
                      strcmp(opt->arg, "FILE") == 0 ? "a file" : "a folder");
    if (opt->writes && strncmp(text, "--", 2) == 0)
        return bb_err(BB_EUSAGE, "--%s: expected a file, got the option '%s'; a file of this name is --%s=./%s",
                      opt->name, text, opt->name, text);
    *field = text;
    return 0;
}

static int add_text(const struct bb_opt *opt, const char *text, struct bb_opt_texts *field)
{
    if (field->n == BB_OPT_TEXTS_MAX)
        return bb_err(BB_EUSAGE, "--%s %s: the option is given more than %d times", opt->name, text, BB_OPT_TEXTS_MAX);
    field->text[field->n++] = text;
    return 0;
}

/* Stores a value in the option's field. text: NULL for a flag, which is then set to true. */
static int set_value(const struct bb_opt *opt, const char *text, void *field)
{
    switch (opt->kind) {
    case BB_OPT_FLAG:
        *(bool *)field = true;
        return 0;
    case BB_OPT_INT:
        return set_int(opt, text, field);
    case BB_OPT_INTS:
        return set_ints(opt, text, field);
    case BB_OPT_SIZE:
        return set_size(opt, text, field);
    case BB_OPT_DOUBLE:
        return set_double(opt, text, field);
    case BB_OPT_CHOICE:
        return set_choice(opt, text, field);
    case BB_OPT_STRING:
        return set_string(opt, text, field);
    case BB_OPT_TEXTS:
        return add_text(opt, text, field);
    }
    return bb_err(BB_EFAIL, "--%s: option of unknown kind %d", opt->name, (int)opt->kind);
}

static const size_t field_bytes[] = {
    [BB_OPT_FLAG] = sizeof(bool),
    [BB_OPT_INT] = sizeof(int),
    [BB_OPT_SIZE] = sizeof(size_t),
    [BB_OPT_DOUBLE] = sizeof(double),
    [BB_OPT_CHOICE] = sizeof(const char *),
    [BB_OPT_STRING] = sizeof(const char *),
    [BB_OPT_INTS] = sizeof(struct bb_opt_ints),
    [BB_OPT_TEXTS] = sizeof(struct bb_opt_texts),
};

static int set_defaults(const struct bb_opts *set, void *cfg)
{
    int rc = 0;

    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++) {
            void *field = (char *)cfg + t->base + o->offset;

            memset(field, 0, field_bytes[o->kind]);
            if (o->def)
                TRY(set_value(o, o->def, field));
        }
out:
    return rc;
}

static bool is_name(const struct bb_opt *opt, const char *name, size_t length)
{
    return strlen(opt->name) == length && strncmp(opt->name, name, length) == 0;
}

const struct bb_opt *bb_opts_find(const struct bb_opts *set, int letter, const char *name, size_t length, size_t *at)
{
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if (letter ? o->letter == letter : is_name(o, name, length)) {
                *at = t->base + o->offset;
                return o;
            }
    return (letter ? help_row.letter == letter : is_name(&help_row, name, length)) ? &help_row : NULL;
}

/* ---- options that the command does not have ---- */

const char *bb_foreign_convert(const char *rule, const char *value, char text[BB_FOREIGN_VALUE])
{
    const size_t length = strlen(value);
    double divided;
    int number;

    if (rule && rule[0] == '/' && bb_parse_double(value, &divided) == 0) {
        snprintf(text, BB_FOREIGN_VALUE, "%.4g", divided / atoi(rule + 1));
        return text;
    }
    if (rule && rule[0] == '*' && bb_parse_int(value, 1, 1 << 20, &number) == 0) {
        snprintf(text, BB_FOREIGN_VALUE, "%lld", (long long)number * atoi(rule + 1));
        return text;
    }
    for (const char *at = rule; at && length && (at = strcasestr(at, value)); at += length)
        if ((at == rule || at[-1] == ' ') && at[length] == '=') {
            snprintf(text, BB_FOREIGN_VALUE, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
            return text;
        }
    return value;
}

/* opt: NULL for the argument of another program, which is a number. */
static bool is_valid(const struct bb_opt *opt, const char *text)
{
    double number;

    for (size_t i = 0; opt && opt->kind == BB_OPT_CHOICE && bb_opt_choice(opt, i); i++)
        if (strcmp(bb_opt_choice(opt, i), text) == 0)
            return true;
    if (opt && (opt->kind == BB_OPT_INTS || opt->kind == BB_OPT_STRING))
        return *text && text[strspn(text, "0123456789,KMG")] == '\0';
    return (!opt || opt->kind == BB_OPT_INT || opt->kind == BB_OPT_DOUBLE) && bb_parse_double(text, &number) == 0 &&
           (!opt || in_range(opt, number));
}

/* Returns the first row of a name whose option this command has, else the first row (not of a letter); NULL: none. */
static const struct bb_foreign_name *find_row(const struct bb_opts *set, const char *name, size_t length)
{
    const struct bb_foreign_name *const first = bb_foreign_find(set->foreign, name, length), *row = first;
    size_t at;

    while (row && row->ours && row->ours[0] == '-' &&
           !bb_opts_find(set, 0, row->ours + 2, strcspn(row->ours + 2, " "), &at))
        row = bb_foreign_find(row + 1, name, length);
    return row || length == 1 ? row : first;
}

const struct bb_foreign_name *bb_opts_find_foreign(const struct bb_opts *set, const char *name, size_t length)
{
    const char *key = memrchr(name, '.', length);
    const struct bb_foreign_name *row = find_row(set, name, length);

    return row || !key ? row : find_row(set, key + 1, length - (size_t)(key + 1 - name));
}

const struct bb_foreign_name *bb_opts_find_value(const struct bb_opts *set, const char *name, size_t length,
                                                 const char *value)
{
    char *word = bb_format("%.*s=%s", (int)length, name, value ? value : "");
    const struct bb_foreign_name *row = value ? bb_foreign_find(set->foreign, word, strlen(word)) : NULL;

    free(word);
    return row;
}

char *bb_opts_translate(const struct bb_opts *set, const struct bb_foreign_name **row, const char *value)
{
    const struct bb_foreign_name *r = *row, *other;
    const struct bb_opt *opt = NULL;
    const char *example, *converted;
    char text[BB_FOREIGN_VALUE];
    size_t at;

    if (r->ours && strcmp(r->ours, r->text) == 0)
        return bb_format("%s", r->text);
    if (!r->ours || !value)
        return NULL;
    converted = bb_foreign_convert(r->values, value, text);
    if (r->ours[0] == '-' && !(opt = bb_opts_find(set, 0, r->ours + 2, strlen(r->ours + 2), &at)) &&
        (other = bb_foreign_find(set->foreign, r->ours + 2, strlen(r->ours + 2))))
        *row = r = other; /* --ranks of plan is mpirun -n of proxy */
    example = r->text + strlen(r->ours);
    if (!bb_begins_with(r->text, r->ours) || *example != ' ' || !is_valid(opt, converted))
        return NULL;
    return bb_format("%s %s%s", r->ours, converted, example + 1 + strcspn(example + 1, " "));
}

/*
 * Prints an error with busbar's option if `name` belongs to another tool, with the user's value if busbar's option
 * accepts the value. Returns -BB_EUSAGE after the error, else 0.
 *   typed  the option as the user typed it, without a value
 *   value  NULL: none
 */
static int reject_foreign_option(const struct bb_opts *set, const char *typed, const char *name, size_t length,
                                 const char *value)
{
    const struct bb_foreign_name *of_value = bb_opts_find_value(set, name, length, value);
    const struct bb_foreign_name *row = of_value ? of_value : bb_opts_find_foreign(set, name, length);
    char *ours = row && !of_value ? bb_opts_translate(set, &row, value) : NULL;
    char *word = of_value ? bb_format("%s=%s", typed, value) : bb_format("%s", typed);
    const int rc = ours  ? bb_err(BB_EUSAGE, "%s is %s here; try: %s", typed, row->ours, ours)
                   : row ? reject_foreign(row, word)
                         : 0;

    free(word);
    free(ours);
    return rc;
}

/* value: the argument after the option or after its '='; NULL: none */
static int reject_option(const struct bb_opts *set, const char *typed, const char *name, size_t length,
                         const char *value)
{
    const char **names = NULL, *near, *key = memrchr(name, '.', length);
    char word[64];
    size_t n = 0;

    snprintf(word, sizeof(word), "%.*s", (int)strcspn(typed, "="), typed);
    key = key ? key + 1 : name;
    if (reject_foreign_option(set, word, name, length, value))
        return -BB_EUSAGE;
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++) {
            BB_GROW(names, n);
            names[n++] = o->name;
        }
    BB_GROW(names, n);
    names[n++] = help_row.name;
    snprintf(word, sizeof(word), "%.*s", (int)(length - (size_t)(key - name)), key);
    near = bb_nearest_word(word, names, n);
    free(names);
    if (near)
        return bb_err(BB_EUSAGE, "unknown option '%s', did you mean '--%s'?", typed, near);
    return bb_err(BB_EUSAGE, "unknown option '%s'; --help lists all options", typed);
}

/*
 * State of the parser. The command line is parsed twice, so that an unknown option or a request for help takes
 * precedence over an invalid value: the first time, with `positionals` NULL, checks option names and missing values;
 * the second time stores the values in the fields.
 */
struct parser {
    const struct bb_opts *set;
    void *cfg;          /* NULL: the values are only validated */
    char **next, **end; /* next: first argument that is not parsed yet; end: end of the arguments */
    struct bb_positionals *positionals;
};

/* Prints an error if bb_opts.foreign has the row "NAME=VALUE", or "NAME=N" for a number as value of an option that has
 * only words. Returns -BB_EUSAGE after the error, else 0. */
static int reject_foreign_value(const struct bb_opts *set, const struct bb_opt *opt, const char *value)
{
    const bool is_word = opt->kind == BB_OPT_CHOICE && is_valid(NULL, value);
    char *typed = bb_format("--%s=%s", opt->name, value), *number = bb_format("%s=N", opt->name);
    const struct bb_foreign_name *row = bb_opts_find_value(set, opt->name, strlen(opt->name), value);
    const int rc = row       ? reject_foreign(row, typed)
                   : is_word ? reject_foreign_option(set, typed, number, strlen(number), value)
                             : 0;

    free(typed);
    free(number);
    return rc;
}

static bool is_given(const struct bb_positionals *line, const struct bb_opt *opt)
{
    for (int i = 0; i < line->n_given; i++)
        if (line->given[i] == opt)
            return true;
    return false;
}

static int set_option(const struct parser *r, const struct bb_opt *opt, size_t at, const char *value)
{
    union value unused = {.texts = {0}};
    struct bb_positionals *line = r->positionals;
    int rc;

    if (value && opt->kind == BB_OPT_CHOICE)
        TRY(reject_foreign_value(r->set, opt, value));
    if (line && line->n_given < BB_GIVEN_MAX && !is_given(line, opt))
        line->given[line->n_given++] = opt;
    rc = r->positionals ? set_value(opt, value, r->cfg ? (char *)r->cfg + at : (void *)&unused) : 0;
out:
    return rc;
}

/* Sets an option to attached_value ("--name=value") or, if attached_value is NULL, to the next argument. typed: the
 * option as the user typed it, for error messages. */
static int read_value(struct parser *r, const struct bb_opt *opt, size_t at, const char *attached_value,
                      const char *typed)
{
    if (!attached_value && r->next == r->end)
        return bb_err(BB_EUSAGE, "option '%s' requires a value: --%s=%s", typed, opt->name,
                      opt->arg ? opt->arg : "VALUE");
    return set_option(r, opt, at, attached_value ? attached_value : *r->next++);
}

/* Parses a long option: "--name", "--name=value" or "--name value". */
static int read_long(struct parser *r, const char *word)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name), at;
    const struct bb_opt *opt = bb_opts_find(r->set, 0, name, length, &at);

    if (!opt)
        return reject_option(r->set, word, name, length, equals ? equals + 1 : r->next < r->end ? *r->next : NULL);
    if (opt == &help_row && !equals)
        return BB_OPTS_HELP;
    if (opt->kind != BB_OPT_FLAG)
        return read_value(r, opt, at, equals ? equals + 1 : NULL, word);
    if (equals)
        return bb_err(BB_EUSAGE, "option '--%s' takes no value, got '%s'", opt->name, equals + 1);
    return set_option(r, opt, at, NULL);
}

/* Returns whether `word` is an option of another tool, mpirun's -np, and no option with an attached value. */
static bool is_foreign_word(const struct bb_opts *set, const struct bb_opt *opt, const char *attached, const char *word)
{
    return opt->kind != BB_OPT_FLAG && attached == word + 1 && *attached && !is_valid(opt, attached) &&
           bb_opts_find_foreign(set, word, strlen(word));
}

/* Parses short options: "-abcVALUE" or "-abc VALUE", where a and b are flags and c requires a value. */
static int read_short(struct parser *r, const char *word)
{
    int rc = 0;

    for (const char *letter = word + 1; *letter && rc == 0; letter++) {
        size_t at;
        const struct bb_opt *opt = bb_opts_find(r->set, *letter, NULL, 0, &at);

        if (!opt || is_foreign_word(r->set, opt, letter + 1, word + 1))
            return reject_option(r->set, word, word + 1, strlen(word + 1), r->next < r->end ? *r->next : NULL);
        if (opt == &help_row)
            return BB_OPTS_HELP;
        if (opt->kind != BB_OPT_FLAG)
            return read_value(r, opt, at, letter[1] ? letter + 1 : NULL, word);
        rc = set_option(r, opt, at, NULL);
    }
    return rc;
}

/* Rejects "model.tensor_model_parallel_size=8", which is an option in the command lines of NeMo. */
static int add_positional(const struct bb_opts *set, struct bb_positionals *positionals, const char *word)
{
    const size_t length = strcspn(word, "=");
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    if (word[length] && reject_foreign_option(set, name, word, length, word + length + 1) != 0)
        return -BB_EUSAGE;
    if (!positionals)
        return 0;
    if (positionals->n == BB_POSITIONALS_MAX)
        return bb_err(BB_EUSAGE, "too many positional arguments at '%s', expected at most %d", word,
                      BB_POSITIONALS_MAX);
    positionals->word[positionals->n++] = word;
    return 0;
}

/* Parses all arguments. Returns 0, -BB_EUSAGE or BB_OPTS_HELP. */
static int scan_arguments(const struct bb_opts *set, void *cfg, int argc, char **argv,
                          struct bb_positionals *positionals)
{
    struct parser r = {set, cfg, argv + 1, argv + argc, positionals};
    bool options = true;
    int rc = 0;

    while (r.next < r.end && rc == 0) {
        const char *word = *r.next++;

        if (!options || word[0] != '-' || !word[1])
            rc = add_positional(set, positionals, word);
        else if (word[1] != '-')
            rc = read_short(&r, word);
        else if (word[2])
            rc = read_long(&r, word);
        else
            options = false;
    }
    return rc;
}

static int parse_arguments(const struct bb_opts *set, void *cfg, int argc, char **argv,
                           struct bb_positionals *positionals)
{
    int rc = cfg ? set_defaults(set, cfg) : 0;
    char **words;

    positionals->n = positionals->n_given = 0;
    for (int i = 1; i < argc && rc == 0; i++) /* reports print the command line and names of files */
        if (bb_has_controls(argv[i], "\n"))
            rc = bb_err(BB_EUSAGE, "'%s' contains a control character; try: another name", argv[i]);
    if (rc == 0 && set->foreign) {
        BB_NEW(words, argc + 1); /* ends with NULL */
        memcpy(words, argv, sizeof(*words) * (size_t)argc);
        rc = bb_opts_reject_foreign_line(set, words);
        free(words);
    }
    rc = rc ? rc : scan_arguments(set, cfg, argc, argv, NULL);
    return rc ? rc : scan_arguments(set, cfg, argc, argv, positionals);
}

/* ---- files that the command would replace ---- */

bool bb_opts_replaces(const char *path, const char *word)
{
    const char *equals = strchr(word, '='), *colon = strrchr(word, ':');
    char *config = bb_format("%s/config.json", word),
         *before = bb_format("%.*s", colon ? (int)(colon - word) : 0, word);
    const bool replaces = bb_outfile_replaces(path, word) || bb_outfile_replaces(path, config) ||
                          (colon && bb_outfile_replaces(path, before)); /* plan.json:90% */

    free(config);
    free(before);
    return replaces || (equals && bb_opts_replaces(path, equals + 1));
}

/* The file that is compared with those of all options. */
struct output {
    const char *path;
    const struct bb_opt *other; /* out: the option with the same file, or NULL */
};

static void compare_file(void *arg, const struct bb_opt *opt, const void *field)
{
    struct output *output = arg;
    const bool is_file = opt->arg && (strstr(opt->arg, "FILE") || strstr(opt->arg, "PATH"));
    const char *path = is_file ? *(const char *const *)field : NULL;

    if (path && path != output->path && bb_opts_replaces(output->path, path))
        output->other = opt;
}

int bb_opts_check_file(const struct bb_opts *set, const void *cfg, const char *option, const char *path)
{
    struct output output = {.path = path};

    bb_opts_each(set, cfg, compare_file, &output);
    return output.other ? bb_err(BB_EUSAGE, "--%s %s: --%s names the same file; try: another file name", option, path,
                                 output.other->name)
                        : 0;
}

struct files_check {
    const struct bb_opts *set;
    const void *cfg;
    const struct bb_positionals *positionals;
    int rc;
};

/* Refuses an output file that is also another file of the command line. */
static void check_output(void *arg, const struct bb_opt *opt, const void *field)
{
    struct files_check *check = arg;
    const char *path = opt->writes ? *(const char *const *)field : NULL, *emulated = getenv("EMU_CLUSTER");

    if (check->rc || !path)
        return;
    if (bb_outfile_is_stdout(path)) {
        if (!opt->dash)
            check->rc = bb_err(BB_EUSAGE, "--%s - is not stdout; try: --%s /dev/stdout, or ./- for a file of this name",
                               opt->name, opt->name);
        return;
    }
    check->rc =
        emulated && bb_opts_replaces(path, emulated)
            ? bb_err(BB_EUSAGE, "--%s %s: $EMU_CLUSTER names the same file; try: another file name", opt->name, path)
            : bb_opts_check_file(check->set, check->cfg, opt->name, path);
    for (int i = 0; i < check->positionals->n && check->rc == 0; i++)
        if (bb_opts_replaces(path, check->positionals->word[i]))
            check->rc = bb_err(BB_EUSAGE, "--%s %s: argument %s names the same file; try: another file name", opt->name,
                               path, check->positionals->word[i]);
}

static int check_files(const struct bb_opts *set, const void *cfg, const struct bb_positionals *positionals)
{
    struct files_check check = {set, cfg, positionals, 0};

    bb_opts_each(set, cfg, check_output, &check);
    return check.rc;
}

/* Finds the subject of the proxy that replaces a program of another tool, and prints how its options are translated. name:
 * out: the subject's name. Returns whether argv[1] is such a program. */
static bool find_program_help(const struct bb_opts *set, char **argv, char name[64], FILE *out)
{
    const char *base = bb_base_name(argv[1]);
    const struct bb_foreign_name *row = set->programs ? bb_foreign_find(set->programs, base, strcspn(base, ".")) : NULL;

    if (row && row->values)
        fprintf(
            out,
            "busbar %s %s and the rest of a command line of Megatron-LM, DeepSpeed, torchtitan or Hugging Face\n"
            "prints the command with busbar's options and the reason for each option that is left out. In a launch\n"
            "script, replace %s by busbar %s %s, and run the script.\n\n",
            argv[0], base, base, argv[0], base);
    snprintf(name, 64, "%.*s", row ? (int)strcspn(row->text, " ") : 0, row ? row->text : "");
    return row;
}

/* Prints the help about the first argument that names a subject, or about the command. Returns BB_OPTS_HELP, or
 * -BB_EUSAGE if the first argument is a name that is unknown. */
static int print_help(const struct bb_opts *set, int argc, char **argv, FILE *out)
{
    struct bb_opt_subject subject;
    bool found = false;
    char name[64];

    for (int i = 1; i < argc && set->find_subject && !found; i++)
        found = set->find_subject(argv[i], &subject);
    if (set->find_subject && set->choice_at && !found && argc > 1 && argv[1][0] != '-') {
        if (!find_program_help(set, argv, name, out))
            return bb_reject_unknown_at("name", argv[1], set->choice_at);
        found = set->find_subject(name, &subject);
    }
    bb_opts_help(set, found ? &subject : NULL, out);
    return BB_OPTS_HELP;
}

int bb_opts_parse(const struct bb_opts *set, void *cfg, int argc, char **argv, struct bb_positionals *positional,
                  FILE *out)
{
    int rc = bb_opts_generate(set, argc, argv, out) ? BB_OPTS_HELP : 0;

    if (rc)
        return rc;
    rc = parse_arguments(set, cfg, argc, argv, positional);
    if (rc == BB_OPTS_HELP)
        rc = print_help(set, argc, argv, out);
    return rc ? rc : check_files(set, cfg, positional);
}

int bb_opts_read(const struct bb_opts *set, void *cfg, int argc, char **argv)
{
    struct bb_positionals positionals;
    char *scratch;
    int rc;

    BB_NEW(scratch, set->size);
    rc = bb_opts_parse(set, cfg ? cfg : scratch, argc, argv, &positionals, stdout);
    if (rc == 0)
        rc = set->resolve(cfg ? cfg : scratch, &positionals);
    free(scratch);
    return rc;
}

int bb_opts_check(const struct bb_opts *set, int argc, char **argv)
{
    struct bb_positionals positionals;
    int rc = parse_arguments(set, NULL, argc, argv, &positionals);

    if (rc == BB_OPTS_HELP)
        return bb_err(BB_EUSAGE, "--help is not allowed here, because the command would only print its help");
    return rc;
}

bool bb_opts_is_shadowed(const struct bb_opts *set, const struct bb_opt *opt)
{
    size_t at;

    return bb_opts_find(set, 0, opt->name, strlen(opt->name), &at) != opt;
}

void bb_opts_each(const struct bb_opts *set, const void *cfg, bb_opt_visit *visit, void *arg)
{
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if (!bb_opts_is_shadowed(set, o))
                visit(arg, o, (const char *)cfg + t->base + o->offset);
}

bool bb_opts_is_default(const struct bb_opt *opt, const void *field)
{
    union value default_value = {0};
    const char *text = opt->kind == BB_OPT_CHOICE || opt->kind == BB_OPT_STRING ? *(const char *const *)field : NULL;

    if (opt->def)
        (void)set_value(opt, opt->def, &default_value);
    if (text && default_value.text)
        return strcmp(text, default_value.text) == 0;
    return memcmp(&default_value, field, field_bytes[opt->kind == BB_OPT_INTS ? BB_OPT_INT : opt->kind]) == 0;
}

const char *bb_opts_find_unsupported(const struct bb_opt_table *tables, const void *cfg,
                                     const struct bb_positionals *line, unsigned features)
{
    for (const struct bb_opt_table *t = tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if ((o->needs | t->needs) & ~features &&
                (!bb_opts_is_default(o, (const char *)cfg + t->base + o->offset) || (o->def && is_given(line, o))))
                return o->name;
    return NULL;
}

const char *bb_opts_find_changed(const struct bb_opt_table *table, const void *cfg, const struct bb_positionals *line)
{
    const struct bb_opt_table tables[] = {
        {.opts = table->opts, .base = table->base, .needs = 1}, /* a feature that no command has */
        {0},
    };

    return bb_opts_find_unsupported(tables, cfg, line, 0);
}
