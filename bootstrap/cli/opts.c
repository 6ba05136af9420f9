/*
 * opts.c - option tables to argp and into the caller's struct.
 *
 * argp takes abbreviations of long options, reports in its own words and obeys POSIXLY_CORRECT. So the names are
 * checked here first, exactly, and argp is run silent and in order over words that are known to be good.
 */
#include "bootstrap/cli/opts.h"

#include "bootstrap/base/units.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { OPTS_MAX = 128, KEY_BASE = 1 << 10, WORDS_LISTED = 24 };

const struct bb_opt bb_common_options[] = {
    {.name = "json",
     .kind = BB_OPT_STRING,
     .offset = offsetof(struct bb_common, json),
     .arg = "FILE",
     .help = "write the results as JSON, - for stdout"},
    {.letter = 'T',
     .name = "timeout",
     .kind = BB_OPT_DOUBLE,
     .offset = offsetof(struct bb_common, timeout_s),
     .def = "600",
     .min = 0.1,
     .max = 1e6,
     .arg = "SECONDS",
     .help = "longest wait before the run ends with exit 4"},
    {.name = "share-gpu",
     .kind = BB_OPT_FLAG,
     .offset = offsetof(struct bb_common, share_gpu),
     .help = "let several ranks use one GPU (for tests: timings mean nothing then)"},
    {.name = "quiet",
     .kind = BB_OPT_FLAG,
     .offset = offsetof(struct bb_common, quiet),
     .help = "no table and no progress line"},
    {0},
};

static const struct bb_opt help_option = {.letter = 'h', .name = "help", .kind = BB_OPT_FLAG, .help = "this text"};

/* All options of a set in one list, with the address of each one's field. help comes last and has no field. */
struct flat {
    const struct bb_opt *opt[OPTS_MAX];
    void *field[OPTS_MAX];
    int n;
};

static int flatten(const struct bb_opts *set, void *cfg, struct flat *flat)
{
    flat->n = 0;
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++) {
            if (flat->n == OPTS_MAX - 1)
                return bb_err(BB_EFAIL, "more than %d options in one set", OPTS_MAX - 1);
            flat->opt[flat->n] = o;
            flat->field[flat->n++] = (char *)cfg + t->base + o->offset;
        }
    flat->opt[flat->n] = &help_option;
    flat->field[flat->n++] = NULL;
    return 0;
}

/* The words of a row as a list. Returns how many. */
static size_t words_of(const struct bb_opt *opt, const char *words[], size_t room)
{
    size_t n = 0;

    for (; n < room; n++) {
        words[n] = opt->word_at ? opt->word_at(n) : opt->words[n];
        if (!words[n])
            break;
    }
    return n;
}

/* "a b c" of the words, cut with "..." when there are many. */
static const char *join(const char *const *words, size_t n, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < n && used < size; i++) {
        const char *word = i < WORDS_LISTED ? words[i] : "...";

        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? " " : "", word);
        if (i == WORDS_LISTED)
            break;
    }
    return buf;
}

int bb_refuse_word(const char *kind, const char *word, const char *const *words, size_t n)
{
    const char *near = bb_nearest(word, words, n);
    char list[1024];

    join(words, n, list, sizeof(list));
    if (near)
        return bb_err(BB_EUSAGE, "unknown %s '%s', did you mean '%s'? (one of: %s)", kind, word, near, list);
    return bb_err(BB_EUSAGE, "unknown %s '%s', expected one of: %s", kind, word, list);
}

static int set_word(const struct bb_opt *opt, const char *text, const char **field)
{
    const char *words[256];
    size_t n = words_of(opt, words, 256);
    char kind[80];

    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0) {
            *field = words[i];
            return 0;
        }
    snprintf(kind, sizeof(kind), "word for --%s:", opt->name);
    return bb_refuse_word(kind, text, words, n);
}

static bool in_range(const struct bb_opt *opt, double value)
{
    return (opt->min == 0 && opt->max == 0) || (value >= opt->min && value <= opt->max);
}

/* "4 KiB" for sizes, the number itself for others. */
static const char *bound(const struct bb_opt *opt, double value, char text[BB_BYTES_TEXT])
{
    if (opt->kind == BB_OPT_SIZE)
        return bb_format_bytes((size_t)value, text);
    snprintf(text, BB_BYTES_TEXT, "%.15g", value);
    return text;
}

static int refuse_value(const struct bb_opt *opt, const char *text, const char *expected)
{
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT];

    if (opt->min == 0 && opt->max == 0)
        return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected %s", opt->name, text, expected);
    return bb_err(BB_EUSAGE, "--%s: '%s' is not valid, expected %s from %s to %s", opt->name, text, expected,
                  bound(opt, opt->min, low), bound(opt, opt->max, high));
}

static int set_int(const struct bb_opt *opt, const char *text, int *field)
{
    int value;

    if (bb_parse_int(text, INT_MIN, INT_MAX, &value) || !in_range(opt, value))
        return refuse_value(opt, text, "a whole number");
    *field = value;
    return 0;
}

static int set_size(const struct bb_opt *opt, const char *text, size_t *field)
{
    size_t value;

    if (bb_parse_bytes(text, &value) || !in_range(opt, (double)value))
        return refuse_value(opt, text, "bytes as 8, 4K, 1.5M, 2G or 1T");
    *field = value;
    return 0;
}

static int set_double(const struct bb_opt *opt, const char *text, double *field)
{
    double value;

    if (bb_parse_double(text, &value) || !in_range(opt, value))
        return refuse_value(opt, text, "a number");
    *field = value;
    return 0;
}

/* text NULL: a flag that was given, or the default of an option that has none. */
static int set_value(const struct bb_opt *opt, const char *text, void *field)
{
    switch (opt->kind) {
    case BB_OPT_FLAG:
        *(bool *)field = true;
        return 0;
    case BB_OPT_INT:
        return set_int(opt, text, field);
    case BB_OPT_SIZE:
        return set_size(opt, text, field);
    case BB_OPT_DOUBLE:
        return set_double(opt, text, field);
    case BB_OPT_WORD:
        return set_word(opt, text, field);
    case BB_OPT_STRING:
        *(const char **)field = text;
        return 0;
    }
    return bb_err(BB_EFAIL, "--%s: option of unknown kind %d", opt->name, (int)opt->kind);
}

static void set_nothing(enum bb_opt_kind kind, void *field)
{
    if (kind == BB_OPT_FLAG)
        *(bool *)field = false;
    else if (kind == BB_OPT_INT)
        *(int *)field = 0;
    else if (kind == BB_OPT_SIZE)
        *(size_t *)field = 0;
    else if (kind == BB_OPT_DOUBLE)
        *(double *)field = 0;
    else
        *(const char **)field = NULL;
}

static int set_defaults(const struct flat *flat)
{
    int rc = 0;

    for (int i = 0; i < flat->n && rc == 0; i++) {
        if (!flat->field[i])
            continue;
        set_nothing(flat->opt[i]->kind, flat->field[i]);
        if (flat->opt[i]->def)
            rc = set_value(flat->opt[i], flat->opt[i]->def, flat->field[i]);
    }
    return rc;
}

static const struct bb_opt *by_letter(const struct flat *flat, char letter)
{
    for (int i = 0; i < flat->n; i++)
        if (flat->opt[i]->letter == letter)
            return flat->opt[i];
    return NULL;
}

static const struct bb_opt *by_name(const struct flat *flat, const char *name, size_t length)
{
    for (int i = 0; i < flat->n; i++)
        if (strlen(flat->opt[i]->name) == length && strncmp(flat->opt[i]->name, name, length) == 0)
            return flat->opt[i];
    return NULL;
}

static int refuse_option(const struct flat *flat, const char *typed, const char *name, size_t length)
{
    const char *names[OPTS_MAX];
    const char *near;
    char word[64];

    for (int i = 0; i < flat->n; i++)
        names[i] = flat->opt[i]->name;
    snprintf(word, sizeof(word), "%.*s", (int)length, name);
    near = bb_nearest(word, names, (size_t)flat->n);
    if (near)
        return bb_err(BB_EUSAGE, "unknown option '%s', did you mean '--%s'?", typed, near);
    return bb_err(BB_EUSAGE, "unknown option '%s', --help lists them", typed);
}

static int refuse_missing(const struct bb_opt *opt, const char *typed)
{
    return bb_err(BB_EUSAGE, "option '%s' needs a value: --%s=%s", typed, opt->name, opt->arg ? opt->arg : "VALUE");
}

/* Checks one "--name[=value]". *takes: words that it uses up, 1 or 2. */
static int check_long(const struct flat *flat, const char *word, const char *next, int *takes)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct bb_opt *opt = by_name(flat, name, length);

    if (!opt)
        return refuse_option(flat, word, name, length);
    if (opt == &help_option && !equals)
        return BB_OPTS_HELP;
    if (opt->kind == BB_OPT_FLAG && equals)
        return bb_err(BB_EUSAGE, "option '--%s' takes no value, got '%s'", opt->name, equals + 1);
    if (opt->kind != BB_OPT_FLAG && !equals) {
        if (!next)
            return refuse_missing(opt, word);
        *takes = 2;
    }
    return 0;
}

/* Checks one "-abcVALUE". */
static int check_short(const struct flat *flat, const char *word, const char *next, int *takes)
{
    for (const char *letter = word + 1; *letter; letter++) {
        const struct bb_opt *opt = by_letter(flat, *letter);

        if (!opt)
            return refuse_option(flat, word, word + 1, strlen(word + 1));
        if (opt == &help_option)
            return BB_OPTS_HELP;
        if (opt->kind == BB_OPT_FLAG)
            continue;
        if (!letter[1]) {
            if (!next)
                return refuse_missing(opt, word);
            *takes = 2;
        }
        return 0;
    }
    return 0;
}

/* All option words are known and have their values. Returns 0, -BB_EUSAGE or BB_OPTS_HELP. */
static int check_names(const struct flat *flat, int argc, char **argv)
{
    int takes;

    for (int i = 1; i < argc; i += takes) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        int rc = 0;

        takes = 1;
        if (strcmp(word, "--") == 0)
            return 0;
        if (strncmp(word, "--", 2) == 0)
            rc = check_long(flat, word, next, &takes);
        else if (word[0] == '-' && word[1])
            rc = check_short(flat, word, next, &takes);
        if (rc)
            return rc;
    }
    return 0;
}

/* argp's key of a row: its letter, which makes "-b" of it, or a number that is no letter. */
static int key_of(const struct flat *flat, int row)
{
    return flat->opt[row]->letter ? flat->opt[row]->letter : KEY_BASE + row;
}

static int row_of(const struct flat *flat, int key)
{
    for (int i = 0; i < flat->n - 1; i++)
        if (key_of(flat, i) == key)
            return i;
    return -1;
}

/* All rows but the last, which is help and has been dealt with. */
static void to_argp(const struct flat *flat, struct argp_option *out)
{
    for (int i = 0; i < flat->n - 1; i++) {
        const struct bb_opt *opt = flat->opt[i];
        const char *arg = opt->kind == BB_OPT_FLAG ? NULL : opt->arg ? opt->arg : "VALUE";

        *out++ = (struct argp_option){.name = opt->name, .key = key_of(flat, i), .arg = arg};
    }
    *out = (struct argp_option){0};
}

struct parse {
    const struct flat *flat;
    struct bb_words *words;
    int rc;
};

static int take_word(struct bb_words *words, const char *word)
{
    if (words->n == BB_WORDS_MAX)
        return bb_err(BB_EUSAGE, "more than %d words, from '%s' on", BB_WORDS_MAX, word);
    words->word[words->n++] = word;
    return 0;
}

static error_t on_key(int key, char *arg, struct argp_state *state)
{
    struct parse *parse = state->input;
    int row = row_of(parse->flat, key);

    if (key == ARGP_KEY_ARG)
        parse->rc = take_word(parse->words, arg);
    else if (row >= 0)
        parse->rc = set_value(parse->flat->opt[row], arg, parse->flat->field[row]);
    else
        return ARGP_ERR_UNKNOWN;
    return parse->rc ? EINVAL : 0;
}

static int run_argp(const struct flat *flat, int argc, char **argv, struct bb_words *words)
{
    struct argp_option options[OPTS_MAX];
    struct argp argp = {.options = options, .parser = on_key};
    struct parse parse = {.flat = flat, .words = words};
    unsigned flags = ARGP_IN_ORDER | ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT;

    to_argp(flat, options);
    if (argp_parse(&argp, argc, argv, flags, NULL, &parse) && parse.rc == 0)
        return bb_err(BB_EUSAGE, "the command line cannot be read, --help shows how it is written");
    return parse.rc;
}

int bb_opts_parse(const struct bb_opts *set, void *cfg, int argc, char **argv, struct bb_words *positional, FILE *out)
{
    struct flat flat;
    int rc;

    positional->n = 0;
    TRY(flatten(set, cfg, &flat));
    TRY(set_defaults(&flat));
    TRY(check_names(&flat, argc, argv));
    TRY(run_argp(&flat, argc, argv, positional));
out:
    if (rc == BB_OPTS_HELP)
        bb_opts_help(set, out);
    return rc;
}

/* Bytes that a set's fields reach into; none is larger than the last addition. */
static size_t extent(const struct bb_opts *set)
{
    size_t bytes = 0;

    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            bytes = t->base + o->offset > bytes ? t->base + o->offset : bytes;
    return bytes + sizeof(double) + sizeof(void *);
}

int bb_opts_check(const struct bb_opts *set, int argc, char **argv)
{
    struct bb_words words = {0};
    void *scratch = calloc(1, extent(set));
    struct flat flat;
    int rc = scratch ? 0 : bb_err(BB_EFAIL, "no memory to check a command line");

    TRY(rc);
    TRY(flatten(set, scratch, &flat));
    TRY(set_defaults(&flat));
    TRY(check_names(&flat, argc, argv));
    TRY(run_argp(&flat, argc, argv, &words));
out:
    free(scratch);
    return rc == BB_OPTS_HELP ? bb_err(BB_EUSAGE, "--help runs nothing") : rc;
}

void bb_opts_each(const struct bb_opts *set, const void *cfg, bb_opt_visit *visit, void *arg)
{
    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++)
            visit(arg, o, (const char *)cfg + t->base + o->offset);
}
