/* opts_generate.c - prints manual pages and completion candidates for shells from option tables. */
#include "bootstrap/cli/opts.h"

#include "bootstrap/base/units.h"

#include <ctype.h>
#include <string.h>

/* ---- shell completion ---- */

const char *bb_opts_completion_prefix(int argc, char **argv)
{
    static const char option[] = "--complete=";

    return argc > 1 && bb_begins_with(argv[argc - 1], option) ? argv[argc - 1] + strlen(option) : NULL;
}

void bb_opts_print_candidate(const char *word, const char *text, const char *help, FILE *out)
{
    if (bb_begins_with(word, text))
        fprintf(out, "%s\t%s\n", word, help ? help : "");
}

/* Returns the option in `word` ("--name", or the last letter of "-abc") if the next argument must be its value; else
 * NULL. */
static const struct bb_opt *option_awaiting_value(const struct bb_opts *set, const char *word)
{
    const struct bb_opt *opt = NULL;
    size_t at;

    if (bb_begins_with(word, "--"))
        opt = bb_opts_find(set, 0, word + 2, strlen(word + 2), &at);
    else if (word[0] == '-' && word[1])
        opt = bb_opts_find(set, word[strlen(word) - 1], NULL, 0, &at);
    return opt && opt->kind != BB_OPT_FLAG ? opt : NULL;
}

/* Prints the values of an option that begin with text. prefix: "--name=" if the value is in the same argument, else
 * "". */
static void complete_value(const struct bb_opt *opt, const char *prefix, const char *text, FILE *out)
{
    char candidate[256];
    const char *word;

    for (size_t i = 0; (word = bb_opt_choice(opt, i)); i++) {
        if (!bb_begins_with(word, text))
            continue;
        snprintf(candidate, sizeof(candidate), "%s%s", prefix, word);
        bb_opts_print_candidate(candidate, prefix, "", out);
    }
}

static void complete_name(const struct bb_opts *set, const char *text, FILE *out)
{
    char name[128];

    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++) {
            snprintf(name, sizeof(name), "--%s%s", o->name, o->kind == BB_OPT_FLAG ? "" : "=");
            if (!bb_opts_is_shadowed(set, o))
                bb_opts_print_candidate(name, text, o->help, out);
        }
    bb_opts_print_candidate("--help", text, "the options of a command", out);
}

static void complete_word(const struct bb_opts *set, const char *prefix, const char *text, FILE *out)
{
    const struct bb_opt *opt = option_awaiting_value(set, prefix);
    const char *equals = bb_begins_with(text, "--") ? strchr(text, '=') : NULL, *word;
    char name[128];
    size_t at;

    if (opt) {
        complete_value(opt, "", text, out);
    } else if (equals) {
        snprintf(name, sizeof(name), "%.*s", (int)(equals - text) + 1, text);
        opt = bb_opts_find(set, 0, text + 2, (size_t)(equals - text) - 2, &at);
        if (opt)
            complete_value(opt, name, equals + 1, out);
    } else if (text[0] == '-') {
        complete_name(set, text, out);
    } else {
        for (size_t i = 0; set->choice_at && (word = set->choice_at(i)); i++)
            bb_opts_print_candidate(word, text, "", out);
    }
}

/* ---- manual pages ---- */

/* Prints text as one line of roff source. '-' becomes a minus sign, which can be copied from the page, and a leading
 * '.' or '\'' is escaped, so that groff does not interpret the line as a request. */
static void print_roff(const char *text, size_t length, FILE *out)
{
    if (length > 0 && (text[0] == '.' || text[0] == '\''))
        fputs("\\&", out);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '-')
            fputs("\\-", out);
        else if (text[i] == '\\')
            fputs("\\e", out);
        else
            fputc(text[i] == '\n' ? ' ' : text[i], out);
    }
}

void bb_opts_print_man_text(const char *text, FILE *out)
{
    bool verbatim = false; /* whether the current line is in a verbatim block (.nf) */

    while (*text) {
        const size_t length = strcspn(text, "\n");
        const bool is_verbatim = text[0] == ' ' || text[0] == '\t';

        if (is_verbatim != verbatim)
            fputs(is_verbatim ? ".nf\n" : ".fi\n", out);
        verbatim = is_verbatim;
        if (length == 0)
            fputs(".PP", out);
        print_roff(text, length, out);
        fputc('\n', out);
        text += length + (text[length] == '\n');
    }
    if (verbatim)
        fputs(".fi\n", out);
}

void bb_opts_print_man_term(const char *term, const char *text, FILE *out)
{
    fputs(".TP\n.B ", out);
    print_roff(term, strlen(term), out);
    fputc('\n', out);
    print_roff(text, strlen(text), out);
    fputc('\n', out);
}

void bb_opts_print_man_exits(const char *const exits[BB_EXITS], FILE *out)
{
    char number[2] = "0";

    fputs(".SH EXIT STATUS\n", out);
    for (; number[0] < '0' + BB_EXITS; number[0]++)
        if (exits[number[0] - '0'])
            bb_opts_print_man_term(number, exits[number[0] - '0'], out);
}

/* Returns the length of the command's name, which consists of the words of the usage before the first placeholder
 * such as NAME. */
static size_t command_length(const char *usage)
{
    size_t end = 0;

    while (islower((unsigned char)usage[end]) ||
           (end > 0 && (usage[end] == '_' || isdigit((unsigned char)usage[end])))) {
        while (usage[end] && usage[end] != ' ')
            end++;
        if (!islower((unsigned char)usage[end + (usage[end] == ' ')]))
            return end;
        end++;
    }
    return end;
}

void bb_opts_print_man_header(const char *usage, const char *doc, FILE *out)
{
    const size_t length = command_length(usage);
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)length, usage);
    for (char *at = name; *at; at++)
        *at = *at == ' ' ? '-' : *at;
    fprintf(out, ".TH %s 1 \"\" \"busbar " BUSBAR_VERSION "\" \"User Commands\"\n.SH NAME\n", name);
    print_roff(name, strlen(name), out);
    fputs(" \\- ", out);
    print_roff(doc, strcspn(doc, ".:;"), out); /* the first sentence */
    fputs("\n.SH SYNOPSIS\n.B ", out);
    print_roff(usage, length, out);
    fputc('\n', out);
    bb_opts_print_man_text(usage + length + (usage[length] == ' '), out);
    fputs(".SH DESCRIPTION\n", out);
    bb_opts_print_man_text(doc, out);
}

static void print_man(const struct bb_opts *set, FILE *out)
{
    bb_opts_print_man_header(set->usage, set->doc ? set->doc : "", out);
    fputs(".SH OPTIONS\n", out);
    for (const struct bb_opt_table *t = set->tables; t->opts; t++) {
        fprintf(out, ".SS %s\n", t->title ? t->title : "Options");
        for (const struct bb_opt *o = t->opts; o->name; o++)
            if (!bb_opts_is_shadowed(set, o))
                bb_opts_print_option(o, "", bb_opts_print_man_term, out);
    }
    if (set->after) {
        fputs(".SH NOTES\n", out);
        bb_opts_print_man_text(set->after, out);
    }
    if (set->exits[0])
        bb_opts_print_man_exits(set->exits, out);
    fputs(".SH ENVIRONMENT\nSee\n.BR busbar (1).\n.SH FILES\nSee\n.BR busbar (1).\n", out);
    if (set->examples) {
        fputs(".SH EXAMPLES\n", out);
        bb_opts_print_man_text(set->examples, out);
    }
    fputs(".SH SEE ALSO\n.BR busbar (1),\n.BR mpirun (1)\n", out);
}

/* Prints the command's name and one of its options. Returns whether the command has the option. */
static bool print_option(const struct bb_opts *set, const char *name, FILE *out)
{
    const size_t length = strlen(name);
    size_t at;
    const struct bb_opt *opt = bb_opts_find(set, length == 1 ? name[0] : 0, name, length, &at);

    if (!opt)
        return false;
    fprintf(out, "%.*s:\n", (int)command_length(set->usage), set->usage);
    bb_opts_print_option(opt, "", bb_opts_print_term, out);
    return true;
}

/* Prints the options whose names contain `word`. Returns whether there are any. */
static bool print_options_with(const struct bb_opts *set, const char *word, FILE *out)
{
    bool found = false;

    for (const struct bb_opt_table *t = set->tables; t->opts; t++)
        for (const struct bb_opt *o = t->opts; o->name; o++) {
            if (!strstr(o->name, word) || bb_opts_is_shadowed(set, o))
                continue;
            if (!found)
                fprintf(out, "%.*s has no --%s, but:\n", (int)command_length(set->usage), set->usage, word);
            bb_opts_print_option(o, "", bb_opts_print_term, out);
            found = true;
        }
    return found;
}

bool bb_opts_generate(const struct bb_opts *set, int argc, char **argv, FILE *out)
{
    static const char help[] = "--help=";
    const char *text = bb_opts_completion_prefix(argc, argv), *last = argc > 1 ? argv[argc - 1] : "";

    if (text)
        complete_word(set, argc > 2 ? argv[argc - 2] : "", text, out);
    else if (strcmp(last, "--help=man") == 0)
        print_man(set, out);
    else
        return bb_begins_with(last, help) && (last[strlen(help)] == '*' ? print_options_with : print_option)(
                                                 set, last + strlen(help) + (last[strlen(help)] == '*'), out);
    return true;
}
