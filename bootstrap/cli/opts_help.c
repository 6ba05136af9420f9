/* opts_help.c - prints the help from option tables. */
#include "bootstrap/cli/opts.h"

#include <string.h>

enum { TEXT_COLUMN = 30, WIDTH = 100 };

/* Prints text, starting at column `at`. Lines are broken between words before column WIDTH; continuation lines start
 * at TEXT_COLUMN. */
static void print_wrapped(const char *text, int at, FILE *out)
{
    while (*text) {
        int length = (int)strcspn(text, " ");

        if (at > TEXT_COLUMN && at + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
            at = TEXT_COLUMN;
        } else if (at > TEXT_COLUMN) {
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

static void print_option(const struct bb_opt *opt, FILE *out)
{
    char text[2048], letter[8] = "    ";
    const char *arg = opt->kind == BB_OPT_FLAG ? NULL : opt->arg ? opt->arg : "VALUE";
    int at;

    if (opt->letter)
        snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
    at = fprintf(out, "  %s--%s%s%s", letter, opt->name, arg ? "=" : "", arg ? arg : "");
    bb_opts_describe(opt, text, sizeof(text));
    if (at + 2 > TEXT_COLUMN)
        fprintf(out, "\n%*s", TEXT_COLUMN, "");
    else
        fprintf(out, "%*s", TEXT_COLUMN - at, "");
    print_wrapped(text, TEXT_COLUMN, out);
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
}
