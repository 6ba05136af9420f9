/*
 * opts.h - one table per option set gives the parser, the defaults, the help and the echo of a run. argp (glibc)
 * underneath. Nothing is guessed: option names must be exact, values must be whole, unknown words are answered with the
 * nearest known one.
 *
 *   struct bench_cfg { struct bb_common common; size_t min_bytes; const char *dtype; };
 *   static const struct bb_opt bench_opts[] = {
 *       {.letter = 'b', .name = "min-bytes", .kind = BB_OPT_SIZE, .offset = offsetof(struct bench_cfg, min_bytes),
 *        .def = "32M", .arg = "BYTES", .help = "first size"},
 *       {.letter = 'd', .name = "dtype", .kind = BB_OPT_WORD, .offset = offsetof(struct bench_cfg, dtype),
 *        .def = "float", .arg = "TYPE", .help = "data type", .word_at = bb_dtype_name_at},
 *       {0},
 *   };
 *   static const struct bb_opt_table tables[] = {
 *       {.title = "Options", .opts = bench_opts},
 *       {.title = "Common options", .opts = bb_common_options, .base = offsetof(struct bench_cfg, common)},
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

enum bb_opt_kind {                /* the field at `offset` is ... */
                   BB_OPT_FLAG,   /* bool, false until given; takes no value */
                   BB_OPT_INT,    /* int */
                   BB_OPT_SIZE,   /* size_t, bytes, with K M G T (units.h) */
                   BB_OPT_DOUBLE, /* double */
                   BB_OPT_WORD,   /* const char *, one of the row's words: the table's own pointer, so == can be used */
                   BB_OPT_STRING, /* const char *, any text: points into argv or is the default; NULL without either */
};

struct bb_opt {
    int letter;       /* short form, 0 for none                                           */
    const char *name; /* long form without dashes; NULL ends a table                      */
    enum bb_opt_kind kind;
    size_t offset;                    /* of the field, from the table's base                              */
    const char *def;                  /* default as text, read by the same parser; NULL: 0, false or NULL */
    const char *arg;                  /* what the help calls the value: "BYTES"                           */
    const char *help;                 /* one lower-case line, without the default                         */
    double min, max;                  /* inclusive range of INT, SIZE, DOUBLE; both 0: no range           */
    const char *const *words;         /* WORD: valid words, NULL at the end, or                           */
    const char *(*word_at)(size_t i); /* ... the i-th valid word, NULL past the end (words from a table)  */
};

struct bb_opt_table {
    const char *title;         /* heading in the help                              */
    const struct bb_opt *opts; /* ends with a row without name; NULL ends the list */
    size_t base;               /* where this table's struct lies inside cfg        */
};

struct bb_opts {
    const char *usage;                 /* "busbar bench COLLECTIVE... [OPTION...]"                          */
    const char *doc;                   /* printed below the usage, NULL for none; lines already broken      */
    const char *after;                 /* printed below the options, NULL for none                          */
    const struct bb_opt_table *tables; /* ends with a table without opts                                    */
};

/* The words that are not options, in order. They point into argv. */
#define BB_WORDS_MAX 64
struct bb_words {
    const char *word[BB_WORDS_MAX];
    int n;
};

/*
 * bb_opts_parse - fill cfg with the defaults, then from argv[1..argc-1]. argv[0] is not read, argv is not changed and
 * must outlive cfg. A word after "--" is never an option; -h and --help are part of every set. Returns 0, -BB_EUSAGE
 * after one line on stderr, or BB_OPTS_HELP (> 0) after printing the help to `out`. Needs neither MPI nor a GPU, and
 * reads no environment.
 */
#define BB_OPTS_HELP 1
int bb_opts_parse(const struct bb_opts *set, void *cfg, int argc, char **argv, struct bb_words *positional,
                  FILE *out) BB_MUST_CHECK;

/* bb_opts_check - what bb_opts_parse would say of these words, without anywhere to put them. A question for the help is
 * -BB_EUSAGE (said). */
int bb_opts_check(const struct bb_opts *set, int argc, char **argv) BB_MUST_CHECK;

/* bb_opts_help - the help text: the same on every terminal and in every environment, 100 columns at most. */
void bb_opts_help(const struct bb_opts *set, FILE *out);

/* bb_opts_each - visit every option with the address of its field, in table order: the echo of a run (bb_json_options).
 */
typedef void bb_opt_visit(void *arg, const struct bb_opt *opt, const void *field);
void bb_opts_each(const struct bb_opts *set, const void *cfg, bb_opt_visit *visit, void *arg);

/*
 * bb_refuse_word - say that `word` is no known `kind` ("collective"), with the nearest of words[n], or all of them when
 * none is near. For positional words. Returns -BB_EUSAGE.
 */
int bb_refuse_word(const char *kind, const char *word, const char *const *words, size_t n);

/* What every command that runs has. */
struct bb_common {
    const char *json; /* file for the results, "-" stdout, NULL none          */
    double timeout_s; /* no single wait may take longer                       */
    bool share_gpu;   /* several ranks may use one GPU                        */
    bool quiet;       /* no table on stdout, no progress line                 */
};
extern const struct bb_opt bb_common_options[];

#endif
