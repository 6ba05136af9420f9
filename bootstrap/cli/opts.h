/*
 * opts.h - command lines. Tables of options provide the parser, the defaults, the help and the options recorded in
 * result files. Option names cannot be abbreviated, a number followed by other text is invalid, and an unknown option
 * is reported with the known option of the closest spelling.
 *
 *   struct bench_cfg { struct bb_common common; size_t min_bytes; const char *dtype; };
 *   #define FIELD(name) offsetof(struct bench_cfg, name)
 *   static const struct bb_opt bench_opts[] = {
 *       OPT_SIZE('b', "min-bytes", FIELD(min_bytes), "32M", "BYTES", 1, 1e15, "first size"),
 *       OPT_CHOICE_AT('d', "dtype", FIELD(dtype), "float", "TYPE", bb_dtype_name_at, "data type"),
 *       {0},
 *   };
 *   static const struct bb_opt_table tables[] = {
 *       {.title = "Options", .opts = bench_opts},
 *       {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
 *       {0},
 *   };
 *   static const struct bb_opts bench_set = {.usage = "busbar bench COLLECTIVE... [OPTION...]", .doc = "...",
 *                                            .tables = tables};
 */
#ifndef BB_BOOTSTRAP_CLI_OPTS_H
#define BB_BOOTSTRAP_CLI_OPTS_H

#include "bootstrap/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Type of an option's value, and type of the field at `offset` that receives the value. */
enum bb_opt_kind {
    BB_OPT_FLAG,   /* bool: false by default; the option takes no value */
    BB_OPT_INT,    /* int */
    BB_OPT_INTS,   /* struct bb_opt_ints: a number, or a comma-separated list of numbers */
    BB_OPT_SIZE,   /* size_t: bytes, optionally with K, M, G or T (units.h) */
    BB_OPT_DOUBLE, /* double */
    BB_OPT_CHOICE, /* const char *: one of the valid values; points to the string in the list of valid values, so
                      that callers may compare with == */
    BB_OPT_STRING, /* const char *: any text; points into argv or to the default; NULL if neither is given */
    BB_OPT_TEXTS,  /* struct bb_opt_texts: any text; the option may be repeated */
};

/* Value of an option of kind BB_OPT_INTS. list: the text of a list of at least two numbers; NULL: a single number. */
struct bb_opt_ints {
    int first;
    const char *list;
};

/* Values of an option of kind BB_OPT_TEXTS, in the order of the command line. text[] points into argv. */
#define BB_OPT_TEXTS_MAX 32
struct bb_opt_texts {
    int n;
    const char *text[BB_OPT_TEXTS_MAX];
};

struct bb_opt {
    int letter;       /* letter of the short form, for example 'b' for -b; 0: no short form */
    const char *name; /* long form without dashes; NULL ends a table */
    enum bb_opt_kind kind;
    size_t offset; /* byte offset of the field that receives the value, in the struct that bb_opt_table.base locates */
    const char *def; /* default, parsed like a value on the command line; NULL: 0, false or NULL, depending on the
                        type */
    const char *arg; /* name of the value in the help: "BYTES" */
    double min, max; /* INT, INTS, SIZE, DOUBLE: smallest and largest valid value; both 0: no limits */
    const char *const *choices;         /* CHOICE: valid values, ends with NULL; NULL: choice_at is used */
    const char *(*choice_at)(size_t i); /* CHOICE: returns the i-th valid value, NULL past the end. STRING: returns
                                           suggestions for shell completion */
    const char *help;                   /* one line in lower case; the default is appended when the help is printed */
    unsigned needs; /* bit mask of the features (proxies: enum bb_proxy_feature) that a command must have to accept
                       the option; 0: none */
    bool writes;    /* STRING: the value names a file that the command writes */
    bool dash;      /* with `writes`: "-" is stdout; otherwise invalid */
    bool everyday;  /* one of the options that the help prints first */
};

/* bb_opt_choice - return the i-th valid value (CHOICE) or suggestion (STRING) of an option; NULL past the end. */
static inline const char *bb_opt_choice(const struct bb_opt *opt, size_t i)
{
    return opt->choice_at ? opt->choice_at(i) : opt->choices ? opt->choices[i] : NULL;
}

/*
 * Macros that define one row of an option table:
 *   OPT_FLAG(letter, name, offset, help)
 *   OPT_INT, OPT_INTS, OPT_SIZE, OPT_DOUBLE(letter, name, offset, default, arg, min, max, help)
 *   OPT_CHOICE(letter, name, offset, default, arg, choices, help)
 *   OPT_CHOICE_AT: the same parameters as OPT_CHOICE, but with choice_at instead of choices
 *   OPT_STRING(letter, name, offset, default, arg, help)
 *   OPT_TEXTS(letter, name, offset, arg, help)
 *   OPT_OUTPUT(letter, name, offset, help): the name of a file that the command writes; "-" is invalid
 *   OPT_OUTPUT_DASH: the same parameters; "-" is stdout
 * Designated initializers may follow the help: OPT_FLAG(0, "ops", FIELD(ops), "also every operation", .needs = ...).
 */
#define OPT_FLAG(l, n, at, ...) OPT_ROW(BB_OPT_FLAG, l, n, at, .help = __VA_ARGS__)
#define OPT_INT(...)            OPT_NUMBER(BB_OPT_INT, __VA_ARGS__)
#define OPT_INTS(...)           OPT_NUMBER(BB_OPT_INTS, __VA_ARGS__)
#define OPT_SIZE(...)           OPT_NUMBER(BB_OPT_SIZE, __VA_ARGS__)
#define OPT_DOUBLE(...)         OPT_NUMBER(BB_OPT_DOUBLE, __VA_ARGS__)
#define OPT_NUMBER(k, l, n, at, d, a, low, high, ...)                                                                  \
    OPT_ROW(k, l, n, at, .def = d, .arg = a, .min = low, .max = high, .help = __VA_ARGS__)
#define OPT_CHOICE(l, n, at, d, a, list, ...)                                                                          \
    OPT_ROW(BB_OPT_CHOICE, l, n, at, .def = d, .arg = a, .choices = list, .help = __VA_ARGS__)
#define OPT_CHOICE_AT(l, n, at, d, a, list, ...)                                                                       \
    OPT_ROW(BB_OPT_CHOICE, l, n, at, .def = d, .arg = a, .choice_at = list, .help = __VA_ARGS__)
#define OPT_STRING(l, n, at, d, a, ...) OPT_ROW(BB_OPT_STRING, l, n, at, .def = d, .arg = a, .help = __VA_ARGS__)
#define OPT_TEXTS(l, n, at, a, ...)     OPT_ROW(BB_OPT_TEXTS, l, n, at, .arg = a, .help = __VA_ARGS__)
#define BB_PRIVATE_HELP                 "; only the owner can read it and the file of --csv (mode 0600)"
#define BB_CSV_HELP                     "; text that begins with = + - or @ has an apostrophe in front, for spreadsheets" /* csv.h */
#define OPT_OUTPUT(l, n, at, ...)       OPT_STRING(l, n, at, NULL, "FILE", __VA_ARGS__, .writes = true)
#define OPT_OUTPUT_DASH(l, n, at, ...)  OPT_OUTPUT(l, n, at, __VA_ARGS__, .dash = true)
#define OPT_ROW(k, l, n, at, ...)                                                                                      \
    {                                                                                                                  \
        .kind = k, .letter = l, .name = n, .offset = at, __VA_ARGS__                                                   \
    }

/* Options that several commands share. Each macro defines one row of an option table. */
#define OPT_ITERS(at)                                                                                                  \
    OPT_INT('n', "iters", at, "20", "N", 1, 1e6,                                                                       \
            "operations that a sample times together, back to back; --repeats: samples")
#define OPT_REPEATS(at)                                                                                                \
    OPT_INT(0, "repeats", at, "6", "N", 1, 1e5, "samples per result row; the row reports the median")
#define OPT_QUIET(at) OPT_FLAG(0, "quiet", at, "no table and no progress line")
#define OPT_BUFFERS(at)                                                                                                \
    OPT_CHOICE(                                                                                                        \
        0, "buffers", at, "nccl", "HOW", bb_buffer_choices,                                                            \
        "allocator of communication buffers: ncclMemAlloc (user-buffer registration: NVLS, graphs) or cudaMalloc")
#define OPT_SHARE_GPU(at)                                                                                              \
    OPT_FLAG(0, "share-gpu", at, "allow several ranks per GPU (for tests: timings are meaningless)")
#define OPT_WARMUP(at)                                                                                                 \
    OPT_INT('w', "warmup_iters", at, "5", "N", 0, 1e6, "warm-up operations before the first sample of each row")

/* A table of options, one of the tables of a command (struct bb_opts). If two tables have an option with the same
 * name, the option of the first table is used and the other option is hidden. */
struct bb_opt_table {
    const char *title;         /* heading in the help */
    const struct bb_opt *opts; /* ends with a row without a name; NULL ends the list of tables */
    size_t base;    /* offset in bytes, from the beginning of cfg, of the struct that contains the fields of this
                    table's options */
    unsigned needs; /* bit mask of the features that a command must have to accept any option of the table, in
                       addition to the `needs` of each option */
};

/* The positional arguments in order: all arguments except options and their values. word[] points into argv. Also the
 * options of the command line, each once. */
#define BB_POSITIONALS_MAX 64
#define BB_GIVEN_MAX       256
struct bb_positionals {
    const char *word[BB_POSITIONALS_MAX];
    int n;
    const struct bb_opt *given[BB_GIVEN_MAX];
    int n_given;
};

/* The names that other tools have for an option or a program, and the name in busbar. */
struct bb_foreign_name {
    const char *name;   /* separated by blanks; options: without dashes, or "NAME=VALUE"; NULL ends a table */
    const char *ours;   /* "--tp"; NULL: busbar has no counterpart */
    const char *text;   /* what to type instead: "--tp 8", where 8 is an example; without counterpart: the reason */
    const char *values; /* options: conversion of the user's value: "1=zero1 2=zero2", "*8" or "/8"; "layers": layers
                           of a chunk, for the number of chunks of a stage; NULL: as it is. Without counterpart: the key of
                           config.json, then its value for a switch ("swiglu true"), or the value for each word
                           ("layer_norm layernorm=true rmsnorm=false") */
};

/* The first argument of a command that determines which options apply, such as the name of a proxy. */
struct bb_opt_subject {
    const char *name, *help; /* help: description */
    const char *args;        /* arguments after the name, for the usage; NULL: none */
    unsigned features;       /* the help leaves out options that need (bb_opt.needs) other features */
};

/* Exit statuses (enum bb_error) of commands that start ranks, and of the offline tools, for bb_opts.exits. */
#define BB_EXITS_RANKS                                                                                                 \
    [0] = "ok", [1] = "the run failed or was interrupted", [2] = "usage error or invalid input", [3] = "wrong data",   \
    [4] = "timeout or lost rank"
#define BB_EXITS_OFFLINE                                                                                               \
    [0] = "ok", [1] = "an output cannot be written completely", [2] = "usage error or invalid input"
enum { BB_EXITS = 6 };

struct bb_opts {
    const char *usage;                  /* synopsis of the command: "busbar bench COLLECTIVE... [OPTION...]" */
    const char *doc;                    /* description, printed below the usage; NULL: none */
    const char *after;                  /* text printed below the list of options; NULL: none */
    const char *exits[BB_EXITS];        /* meaning of each exit status; NULL: the command does not end with it */
    const char *examples;               /* section EXAMPLES of the manual page: lines that begin with a blank are
                                              commands; NULL: none */
    const struct bb_opt_table *tables;  /* ends with a table without opts */
    const char *(*choice_at)(size_t i); /* shell completion: returns the i-th valid positional argument, NULL past
                                           the end; the pointer is NULL if the argument is any text or a file */
    /* help about one subject: fills `subject` if `word` is the name of one, else returns false; NULL: no subjects */
    bool (*find_subject)(const char *word, struct bb_opt_subject *subject);
    const struct bb_foreign_name *foreign; /* names of options in other tools, for error lines; NULL: none */
    const struct bb_foreign_name
        *programs; /* names of programs; values: not NULL for a launcher of scripts; NULL: none */
    /* returns the layers of a model of --model, 0: unknown; is_dense: out: false with experts; may be NULL. The pointer is
     * NULL if the command has no models */
    int (*layers_of)(const char *model, bool *is_dense);
    size_t size; /* for bb_opts_read: size of the cfg struct, including the fields that only resolve() sets */
    /* for bb_opts_read: computes the fields that depend on several options; returns 0 or a negative error */
    int (*resolve)(void *cfg, const struct bb_positionals *positionals);
};

/*
 * bb_opts_parse - fill cfg with the defaults, then with the values of argv[1..argc-1].
 *   argv         argv[0] is ignored; cfg and positionals point into argv, which must outlive both
 *   positionals  out: the positional arguments; after "--" all arguments are positional
 *   out          stream for the help
 *   Returns      0; -BB_EUSAGE after printing one error line; or BB_OPTS_HELP (> 0) after printing the help
 * A file to write must differ from every other file of the command line, because writing it would replace the other.
 * Every command has the options -h and --help and, only as the last argument, --help=man, --help=NAME and
 * --complete=TEXT (bb_opts_generate). The function needs neither MPI nor a GPU; of the environment, only
 * the help reads COLUMNS.
 */
#define BB_OPTS_HELP 1
int bb_opts_parse(const struct bb_opts *set, void *cfg, int argc, char **argv, struct bb_positionals *positionals,
                  FILE *out) BB_MUST_CHECK;

/* bb_opts_replaces - return whether writing the file `path` would replace a file that the argument `word` names: FILE,
 * NAME=FILE, FILE:PERCENT, or the config.json in the folder of a model. */
bool bb_opts_replaces(const char *path, const char *word);

/*
 * bb_opts_check_file - check that a file to write, which no OPT_OUTPUT names, is no other file of the options.
 *   option   the option that writes the file, for the error line
 *   Returns  0, or -BB_EUSAGE after printing one error line
 */
int bb_opts_check_file(const struct bb_opts *set, const void *cfg, const char *option, const char *path) BB_MUST_CHECK;

/*
 * bb_opts_read - call bb_opts_parse, with the help on stdout, and then set->resolve(). If cfg is NULL, the options are
 * only validated. Returns the result of bb_opts_parse or resolve().
 */
int bb_opts_read(const struct bb_opts *set, void *cfg, int argc, char **argv) BB_MUST_CHECK;

/* bb_opts_check - validate a command line without storing its values. A request for help (--help) is an error, too.
 * Returns 0, or -BB_EUSAGE after printing one error line. */
int bb_opts_check(const struct bb_opts *set, int argc, char **argv) BB_MUST_CHECK;

/*
 * bb_opts_find - find an option of a command, including --help, by its letter or, if letter is 0, by its long form
 * name[length] (without dashes).
 *   at       out: byte offset of the option's field in cfg; not set for --help
 *   Returns  the option; NULL if the command has no such option
 */
const struct bb_opt *bb_opts_find(const struct bb_opts *set, int letter, const char *name, size_t length, size_t *at);

/* bb_opts_print_term - print an item of a list in the help: a term, and its description in the column of the
 * descriptions of options. */
void bb_opts_print_term(const char *term, const char *text, FILE *out);

/* bb_opts_width - columns of a help text: COLUMNS, or the width of the terminal, from 60 to 100; else 80. */
int bb_opts_width(FILE *out);

/* bb_opts_help - print the help: usage, description, examples, everyday options (at most 12), other options by table.
 * subject: print only what applies to the subject; NULL: everything. */
void bb_opts_help(const struct bb_opts *set, const struct bb_opt_subject *subject, FILE *out);

/*
 * bb_opts_generate - print the manual page, an option or completion candidates, if the last argument requests them:
 *   --help=man       the manual page
 *   --help=NAME      the option NAME (long form without dashes, or letter), below the name of the command
 *   --complete=TEXT  for shell completion: the possible completions of TEXT, "candidate<tab>description" per line. If
 *                    the argument before --complete is an option that requires a value, TEXT is the start of that
 *                    value. All other arguments are ignored.
 * Returns whether the last argument was such a request, and not for an unknown option.
 */
bool bb_opts_generate(const struct bb_opts *set, int argc, char **argv, FILE *out);

/* bb_opts_completion_prefix - return TEXT if the last argument is --complete=TEXT, else NULL. */
const char *bb_opts_completion_prefix(int argc, char **argv);

/* bb_opts_print_candidate - print one line of the output of --complete if `word` begins with `text`. */
void bb_opts_print_candidate(const char *word, const char *text, const char *help, FILE *out);

/*
 * bb_opts_print_man_header - print title, name, synopsis and description of a manual page.
 *   usage    synopsis of the command. The page's name consists of the words before the first placeholder: it is
 *            busbar-bench-p2p for "busbar bench p2p [OPTION...]"
 *   doc      description (bb_opts.doc); its first sentence also appears in the section NAME
 * bb_opts_print_man_text - print paragraphs; lines that begin with a blank are printed verbatim.
 * bb_opts_print_man_term - print an item of a list: a term in bold, and its description.
 * bb_opts_print_man_exits - print the section EXIT STATUS. exits: as bb_opts.exits
 */
void bb_opts_print_man_header(const char *usage, const char *doc, FILE *out);
void bb_opts_print_man_text(const char *text, FILE *out);
void bb_opts_print_man_term(const char *term, const char *text, FILE *out);
void bb_opts_print_man_exits(const char *const exits[BB_EXITS], FILE *out);

/*
 * bb_opts_print_option - call print() with the names of an option, "-b, --minbytes=BYTES", and with its help, choices and
 * default, "first size: a b c (default 32M)".
 *   no_letter  text before the name of an option without letter
 *   print      bb_opts_print_term or bb_opts_print_man_term
 */
void bb_opts_print_option(const struct bb_opt *opt, const char *no_letter,
                          void (*print)(const char *term, const char *text, FILE *out), FILE *out);

/* bb_opts_each - call visit() for each option with the address of its field, in the order of the tables. Hidden
 * options (bb_opts_is_shadowed) are omitted. */
typedef void bb_opt_visit(void *arg, const struct bb_opt *opt, const void *field);
void bb_opts_each(const struct bb_opts *set, const void *cfg, bb_opt_visit *visit, void *arg);

/* bb_opts_is_default - true if the field of an option has the option's default; 0, false or NULL without one. */
bool bb_opts_is_default(const struct bb_opt *opt, const void *field);

/* bb_opts_is_shadowed - true if an option is hidden, because an earlier table of the command has an option with the
 * same name. */
bool bb_opts_is_shadowed(const struct bb_opts *set, const struct bb_opt *opt);

/*
 * bb_opts_find_changed - return the name of the first option of a table that is given; NULL: none. Callers use this to
 * reject options that have no effect. An option without default counts as given only with another value than 0 or
 * false, so that a study can switch it off; an option counts as given, too, if its field in cfg differs from its default.
 *   line      the parsed command line
 *
 * bb_opts_find_unsupported - the same for options that need a feature that is not in `features`.
 *   tables    ends with a table without opts
 *   features  bit mask of the features that the command has; the bits are those of bb_opt.needs
 */
const char *bb_opts_find_changed(const struct bb_opt_table *table, const void *cfg, const struct bb_positionals *line);
const char *bb_opts_find_unsupported(const struct bb_opt_table *tables, const void *cfg,
                                     const struct bb_positionals *line, unsigned features);

/*
 * bb_reject_unknown - print an error for a positional argument `word` that is not a known `kind` (for example
 * "collective"). The error contains the names[n] (at most 24) and the name of the closest spelling. Returns -BB_EUSAGE.
 * bb_reject_unknown_at - the same with the names that name_at(0), name_at(1), ... return before NULL (at most 256).
 */
int bb_reject_unknown(const char *kind, const char *word, const char *const *names, size_t n);
int bb_reject_unknown_at(const char *kind, const char *word, const char *(*name_at)(size_t i));

/*
 * bb_foreign_find - return the row of name[length] (bb_is_same_name); NULL if no row has the name.
 *   names  ends with a row without a name; may be NULL
 */
const struct bb_foreign_name *bb_foreign_find(const struct bb_foreign_name *names, const char *name, size_t length);

/* Options of all commands that run on GPUs. */
struct bb_common {
    const char *json;               /* file for the results as JSON; "-": stdout; NULL: none */
    const char *csv;                /* file for the results as CSV; "-": stdout; NULL: none */
    const char *junit, *prometheus; /* files for the checks (checks.h); NULL: none */
    bool nagios;                    /* health: print the checks as the line of a Nagios plugin */
    double timeout_s;               /* time limit of each wait for the GPU or for other ranks, in seconds */
    int gpus;                       /* number of ranks, one per GPU, that each launched process starts */
    bool share_gpu;                 /* allow several ranks on one GPU */
    bool ras;                       /* enable NCCL's RAS */
    bool no_supervisor;             /* the command becomes the rank, without a supervisor */
    const char *buffers;            /* OPT_BUFFERS: "nccl" or "cuda"; NULL if the command does not have this option */
    bool quiet;                     /* print no table on stdout and no progress */
    bool full;                      /* print everything, not only the answer in at most 25 lines */
};
extern const struct bb_opt bb_common_options[];
enum { BB_GPUS_MAX = 1024 };                  /* limit of -g, far above the number of GPUs of a host */
extern const char *const bb_buffer_choices[]; /* choices of OPT_BUFFERS */

#endif
