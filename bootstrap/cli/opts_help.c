/* opts_help.c - prints the help from option tables. */
#include "bootstrap/cli/opts.h"

#include <string.h>

enum { TEXT_COLUMN = 30, WIDTH = 100 };

/* Prints text, starting at `column`. Lines are broken between words before column WIDTH; continuation lines start at
 * the same column. */
static void print_wrapped(const char *text, int column, FILE *out)
{
    int at = column;

    while (*text) {
        int length = (int)strcspn(text, " ");

        if (at > column && at + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", column, "");
            at = column;
        } else if (at > column) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, (size_t)length, out);
        at += length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', out);
}

static size_t append_text(char *text, size_t used, size_t size, const char *piece, const char *value)
{
    int n = snprintf(text + used, size - used, "%s%s", piece, value);

    return used + (size_t)n < size ? used + (size_t)n : size - 1;
}

void bb_opts_format_term(const struct bb_opt *opt, const char *no_letter, char term[BB_OPTS_TERM])
{
    const char *arg = opt->kind == BB_OPT_FLAG ? NULL : opt->arg ? opt->arg : "VALUE";
    char letter[8];

    snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
    snprintf(term, BB_OPTS_TERM, "%s--%s%s%s", opt->letter ? letter : no_letter, opt->name, arg ? "=" : "",
             arg ? arg : "");
}

void bb_opts_describe(const struct bb_opt *opt, char *text, size_t size)
{
    size_t used = append_text(text, 0, size, opt->help ? opt->help : "", "");
    const char *word;

    if (opt->kind == BB_OPT_CHOICE) {
        used = append_text(text, used, size, ":", "");
        for (size_t i = 0; (word = bb_opt_choice(opt, i)); i++)
            used = append_text(text, used, size, " ", word);
    }
    if (opt->def) {
        used = append_text(text, used, size, " (default ", opt->def);
        append_text(text, used, size, ")", "");
    }
}

void bb_opts_print_term(const char *term, const char *text, FILE *out)
{
    const int at = fprintf(out, "  %s", term);

    if (at + 2 > TEXT_COLUMN)
        fprintf(out, "\n%*s", TEXT_COLUMN, "");
    else
        fprintf(out, "%*s", TEXT_COLUMN - at, "");
    print_wrapped(text, TEXT_COLUMN, out);
}

static void print_option(const struct bb_opt *opt, FILE *out)
{
    char term[BB_OPTS_TERM], text[2048];

    bb_opts_format_term(opt, "    ", term);
    bb_opts_describe(opt, text, sizeof(text));
    bb_opts_print_term(term, text, out);
}

static void print_exits(const char *const exits[BB_EXITS], FILE *out)
{
    char text[1024] = "Exit status:", start[16];
    size_t used = strlen(text);

    for (int i = 0; i < BB_EXITS; i++) {
        snprintf(start, sizeof(start), "%s %d ", i ? "," : "", i);
        if (exits[i])
            used = append_text(text, used, sizeof(text), start, exits[i]);
    }
    print_wrapped(text, 0, out);
}

void bb_opts_help(const struct bb_opts *set, FILE *out)
{
    static const struct bb_opt help = OPT_FLAG('h', "help", 0, "print this help");

    fprintf(out, "Usage: %s\n", set->usage);
    if (set->doc)
        fprintf(out, "\n%s\n", set->doc);
    for (const struct bb_opt_table *t = set->tables; t->opts; t++) {
        fprintf(out, "\n%s:\n", t->title ? t->title : "Options");
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if (!bb_opts_is_shadowed(set, o))
                print_option(o, out);
    }
    print_option(&help, out);
    if (set->after)
        fprintf(out, "\n%s\n", set->after);
    if (set->exits[0]) {
        fputs(set->after ? "" : "\n", out);
        print_exits(set->exits, out);
    }
}
