/*
 * foreign_line_internal.h - a command line of another tool while it is translated. Internal to foreign_line.c and
 * deepspeed_file.c.
 */
#pragma once

#include "bootstrap/cli/foreign_line.h"

#include <jansson.h>

/* An option with its values, or a positional argument. */
struct item {
    const char *typed, *name; /* name: without dashes and without sections of configuration files; "": positional */
    size_t length;            /* characters of the name, without "=VALUE" */
    const char *value;        /* the first one; NULL: none */
    char **words;             /* arguments of the command line, with the values */
    int n_words;
    bool is_renamed;                   /* opt has the name but for separators and sections */
    const struct bb_opt *opt;          /* busbar's; NULL: not an option of busbar */
    const struct bb_foreign_name *row; /* of another tool; NULL: none */
};

/* Precedence of two values of one option in the translated line. */
enum rank { COMPANION, TRANSLATED, OWN };

struct fragment {
    char *option, *text; /* "--tp", "--tp 8"; option "": positional, or may be repeated */
    enum rank rank;
};

/* Options that are not in the translated line, with the reason. */
struct note {
    const char *head; /* "left out" */
    char *names, *reason;
};

struct line {
    const struct bb_opts *set;
    struct item *items;
    struct fragment *fragments;
    struct note *notes;
    size_t n_items, n_fragments, n_notes;
    json_t *model;        /* the file for --model; NULL: the line has a model, or no shape of one */
    json_t *config;       /* DeepSpeed's file; NULL: none, or not readable */
    char **words;         /* the arguments, after those of DeepSpeed's file */
    size_t n_config;      /* words of DeepSpeed's file */
    const char *unread;   /* a file whose values the command lacks; NULL: none */
    const char *launcher; /* whose options are read: "srun"; NULL: none */
    const char *program;  /* what to type instead of the line's programs (bb_opts.programs); NULL: none */
    bool has_subject;     /* the line has a name of bb_opts.find_subject */
    bool is_launched;     /* the line has a launcher or a script */
};

/* bb_line_add_note - add an item, NULL: none, to the note with this head and reason. */
void bb_line_add_note(struct line *l, const char *head, const struct item *item, const char *reason);

/* DeepSpeed's file is the value of any of these options; "deepspeed" may also be a switch. */
#define DEEPSPEED_FILE_OPTIONS "deepspeed-config deepspeed-config-file"

/* bb_line_read_deepspeed - set l->config to DeepSpeed's file, and l->words to its values before the options of the line, which
 * replace them. argv ends with NULL. */
void bb_line_read_deepspeed(struct line *l, char **argv);

/* bb_line_note_deepspeed - note what the command has of DeepSpeed's file, which is the value of the item. */
void bb_line_note_deepspeed(struct line *l, const struct item *item);
