/*
 * opts.h - one table for each set of options gives the parser, the defaults, the help and the echo of a run. Nothing is
 * guessed: option names must be exact, values must be whole, unknown words are answered with the nearest known one.
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

/* The field at `offset` is ... */
enum bb_opt_kind {
    BB_OPT_FLAG,   /* bool, false until given; takes no value                                              */
    BB_OPT_INT,    /* int                                                                                  */
    BB_OPT_SIZE,   /* size_t, bytes, with K M G T (units.h)                                                */
    BB_OPT_DOUBLE, /* double                                                                               */
    BB_OPT_CHOICE,   /* const char *, one of the row's words: the table's own pointer, so == can be used     */
    BB_OPT_STRING, /* const char *, any text: points into argv or is the default; NULL without either      */
};

struct bb_opt {
    int letter;       /* short form, 0 for none                                           */
    const char *name; /* long form without dashes; NULL ends a table                      */
    enum bb_opt_kind kind;
    size_t offset;                    /* of the field, from the table's base                              */
    const char *def;                  /* default as text, read by the same parser; NULL: 0, false or NULL */
    const char *arg;                  /* what the help calls the value: "BYTES"                           */
    double min, max;                  /* inclusive range of INT, SIZE, DOUBLE; both 0: no range           */
    const char *const *choices;         /* WORD: valid words, NULL at the end, or                           */
    const char *(*choice_at)(size_t i); /* ... the i-th valid word, NULL past the end (words from a table); of a STRING
                                         these are only offered to who completes a command line         */
    const char *help;                 /* one lower-case line, without the default                         */
    unsigned needs;                   /* bits of what this option needs (proxies: enum bb_proxy_feature) */
};

/*
 * One row each:
 *   OPT_FLAG(letter, name, offset, help)
 *   OPT_INT, OPT_SIZE, OPT_DOUBLE(letter, name, offset, default, arg, min, max, help)
 *   OPT_CHOICE(letter, name, offset, default, arg, words, help), OPT_CHOICE_AT(.. choice_at ..)
 *   OPT_STRING(letter, name, offset, default, arg, help)
 * More members may follow the help: OPT_FLAG(0, "ops", FIELD(ops), "also every operation", .needs = ...).
 */
#define OPT_FLAG(l, n, at, ...) OPT_ROW(BB_OPT_FLAG, l, n, at, .help = __VA_ARGS__)
#define OPT_INT(...)            OPT_NUMBER(BB_OPT_INT, __VA_ARGS__)
#define OPT_SIZE(...)           OPT_NUMBER(BB_OPT_SIZE, __VA_ARGS__)
#define OPT_DOUBLE(...)         OPT_NUMBER(BB_OPT_DOUBLE, __VA_ARGS__)
#define OPT_NUMBER(k, l, n, at, d, a, low, high, ...)                                                                  \
    OPT_ROW(k, l, n, at, .def = d, .arg = a, .min = low, .max = high, .help = __VA_ARGS__)
#define OPT_CHOICE(l, n, at, d, a, list, ...)                                                                            \
    OPT_ROW(BB_OPT_CHOICE, l, n, at, .def = d, .arg = a, .choices = list, .help = __VA_ARGS__)
#define OPT_CHOICE_AT(l, n, at, d, a, list, ...)                                                                         \
    OPT_ROW(BB_OPT_CHOICE, l, n, at, .def = d, .arg = a, .choice_at = list, .help = __VA_ARGS__)
#define OPT_STRING(l, n, at, d, a, ...) OPT_ROW(BB_OPT_STRING, l, n, at, .def = d, .arg = a, .help = __VA_ARGS__)
#define OPT_ROW(k, l, n, at, ...)                                                                                      \
    {                                                                                                                  \
        .kind = k, .letter = l, .name = n, .offset = at, __VA_ARGS__                                                   \
    }

/* Rows that several commands have. */
#define OPT_ITERS(at)   OPT_INT('n', "iters", at, "20", "N", 1, 1e6, "timed operations per sample, back to back")
#define OPT_REPEATS(at) OPT_INT(0, "repeats", at, "6", "N", 1, 1e5, "samples per row: the row's time is their median")
#define OPT_QUIET(at)   OPT_FLAG(0, "quiet", at, "no table and no progress line")
#define OPT_BUFFERS(at)                                                                                                \
    OPT_CHOICE(0, "buffers", at, "nccl", "HOW", bb_buffer_choices,                                                         \
             "memory of NCCL's buffers: ncclMemAlloc, which NVSwitch and graphs use without a copy, or cudaMalloc")
#define OPT_SHARE_GPU(at)                                                                                              \
    OPT_FLAG(0, "share-gpu", at, "let several ranks use one GPU (for tests: timings mean nothing then)")
#define OPT_WARMUP(at) OPT_INT('w', "warmup_iters", at, "5", "N", 0, 1e6, "operations before the first sample of a row")

/* Where two tables of a set have an option of one name, the first one's is meant, and the other is not there. */
struct bb_opt_table {
    const char *title;         /* heading in the help                              */
    const struct bb_opt *opts; /* ends with a row without name; NULL ends the list */
    size_t base;               /* where this table's struct lies inside cfg        */
    unsigned needs;            /* added to those of every row                     */
};

/* The words that are not options, in order. They point into argv. */
#define BB_POSITIONALS_MAX 64
struct bb_positionals {
    const char *word[BB_POSITIONALS_MAX];
    int n;
};

struct bb_opts {
    const char *usage;                 /* "busbar bench COLLECTIVE... [OPTION...]"                          */
    const char *doc;                   /* printed below the usage, NULL for none; lines already broken      */
    const char *after;                 /* printed below the options, NULL for none                          */
    const struct bb_opt_table *tables; /* ends with a table without opts                                    */
    const char *(*choice_at)(size_t i);  /* words that are not options, to be offered; NULL: any, or a file   */
    size_t size;                       /* bb_opts_read: of what the tables and settle fill                  */
    int (*resolve)(void *cfg, const struct bb_positionals *choices); /* the same: what no single option tells; 0 or < 0 */
};

/*
 * bb_opts_parse - fill cfg with the defaults, then from argv[1..argc-1]. argv[0] is not read, argv is not changed and
 * must outlive cfg. A word after "--" is never an option; -h and --help are part of every set, and as the last word
 * --help=man and --complete=TEXT (opts_generate.c). Returns 0, -BB_EUSAGE after one line on stderr, or BB_OPTS_HELP (> 0)
 * after printing the help to `out`. Needs neither MPI nor a GPU, and reads no environment.
 */
#define BB_OPTS_HELP 1
int bb_opts_parse(const struct bb_opts *set, void *cfg, int argc, char **argv, struct bb_positionals *positional,
                  FILE *out) BB_MUST_CHECK;

/* bb_opts_read - bb_opts_parse with the help on stdout, then the set's settle. cfg NULL: nothing is kept. */
int bb_opts_read(const struct bb_opts *set, void *cfg, int argc, char **argv) BB_MUST_CHECK;

/* bb_opts_check - bb_opts_parse without keeping the values. A question for the help is -BB_EUSAGE (said). */
int bb_opts_check(const struct bb_opts *set, int argc, char **argv) BB_MUST_CHECK;

/* bb_opts_help - the help text: the same on every terminal and in every environment, 100 columns at most. */
void bb_opts_help(const struct bb_opts *set, FILE *out);

/*
 * bb_opts_generate - another form of the help, when the last word asks for one. False: it does not.
 *   --help=man       the manual page
 *   --complete=TEXT  what TEXT may become, "word<tab>what it is" per line: the words before it are not checked, but if
 *                    the last of them is an option that takes a value, TEXT is that. For the completion of shells.
 */
bool bb_opts_generate(const struct bb_opts *set, int argc, char **argv, FILE *out);

/* bb_opts_completion_prefix - TEXT of --complete=TEXT where that is the last word, else NULL. */
const char *bb_opts_completion_prefix(int argc, char **argv);

/* bb_opts_print_candidate - a line of --complete if the word begins with `text`. */
void bb_opts_print_candidate(const char *word, const char *text, const char *help, FILE *out);

/* bb_opts_print_man_header - heading, name and synopsis of a page. usage "busbar bench p2p [OPTION...]" is the page of
 * busbar-bench-p2p. doc: as of struct bb_opts; its first sentence stands beside the name. */
void bb_opts_print_man_header(const char *usage, const char *doc, FILE *out);
void bb_opts_print_man_text(const char *text, FILE *out); /* paragraphs; lines that begin with a space stay as they are */

/* bb_opts_describe - "first size: a b c (default 32M)". */
void bb_opts_describe(const struct bb_opt *opt, char *text, size_t size);

/* bb_opts_each - visit every option with the address of its field, in table order: the echo of a run (bb_json_options).
 */
typedef void bb_opt_visit(void *arg, const struct bb_opt *opt, const void *field);
void bb_opts_each(const struct bb_opts *set, const void *cfg, bb_opt_visit *visit, void *arg);

/* bb_opts_is_shadowed - whether a table before that of this row has an option of its name. */
bool bb_opts_is_shadowed(const struct bb_opts *set, const struct bb_opt *opt);

/* bb_opts_find_changed - the first option of one table whose value is not its default; NULL: none. For commands of which one
 * form has no use for a table. */
const char *bb_opts_find_changed(const struct bb_opt_table *table, const void *cfg);

/*
 * bb_reject_unknown - say that `word` is no known `kind` ("collective"), with the nearest of words[n], or all of them when
 * none is near. For positional words. Returns -BB_EUSAGE.
 */
int bb_reject_unknown(const char *kind, const char *word, const char *const *choices, size_t n);

/* What every command that runs has. */
struct bb_common {
    const char *json;    /* file for the results, "-" stdout, NULL none          */
    const char *csv;     /* the same as a table                                  */
    double timeout_s;    /* no single wait may take longer                       */
    bool share_gpu;      /* several ranks may use one GPU                        */
    const char *buffers; /* "nccl", "cuda": OPT_BUFFERS; NULL where the command has no such option */
    bool quiet;          /* no table on stdout, no progress line                 */
};
extern const struct bb_opt bb_common_options[];
extern const char *const bb_buffer_choices[]; /* of OPT_BUFFERS */

#endif
