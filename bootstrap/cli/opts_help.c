/* opts_help.c - prints the help from option tables. */
#include "bootstrap/cli/opts.h"

#include "bootstrap/base/units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 60, WIDTH_MAX = 100, WIDTH_PIPE = 80, EVERYDAY_MAX = 12 };

struct page {
    FILE *out;
    int width;
    const struct bb_opts *set;
    const struct bb_opt_subject *subject; /* options that the subject does not support are left out; NULL: all */
};

int bb_opts_width(FILE *out)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int width;

    if (columns && bb_parse_int(columns, 1, 100000, &width) == 0)
        ;
    else if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        width = size.ws_col;
    else
        width = WIDTH_PIPE;
    return width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
}

/* Prints text[length], starting at column `at`. Lines are broken between words before column `width`; continuation
 * lines start at column `indent`. */
static void print_wrapped(const struct page *page, const char *text, size_t length, int at, int indent)
{
    const char *end = text + length;

    while (text < end) {
        int n = (int)strcspn(text, " \n");

        n = n > end - text ? (int)(end - text) : n;
        if (at > indent && at + 1 + n > page->width) {
            fprintf(page->out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', page->out);
            at++;
        }
        fwrite(text, 1, (size_t)n, page->out);
        at += n;
        text += n + 1;
    }
    fputc('\n', page->out);
}

/* Prints paragraphs. A paragraph ends with a line that ends in '.' or ':'; lines that begin with a blank are printed
 * verbatim. */
static void print_text(const struct page *page, const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");

        while (text[0] != ' ' && length > 0 && !strchr(".:", text[length - 1]) && text[length] && text[length + 1])
            length += 1 + strcspn(text + length + 1, "\n");
        if (text[0] == ' ')
            fprintf(page->out, "%.*s\n", (int)length, text);
        else
            print_wrapped(page, text, length, 0, 0);
        text += length + (text[length] == '\n');
    }
}

static size_t append_text(char *text, size_t used, size_t size, const char *piece, const char *value)
{
    int n = snprintf(text + used, size - used, "%s%s", piece, value);

    return used + (size_t)n < size ? used + (size_t)n : size - 1;
}

static void describe(const struct bb_opt *opt, char *text, size_t size)
{
    size_t used = append_text(text, 0, size, opt->help ? opt->help : "", "");
    const char *word;

    if (opt->kind == BB_OPT_CHOICE) {
        used = append_text(text, used, size, strpbrk(text, ":)") ? "; one of:" : ":", "");
        for (size_t i = 0; (word = bb_opt_choice(opt, i)); i++)
            used = append_text(text, used, size, " ", word);
    }
    if (opt->def && !strstr(text, "(default)")) {
        used = append_text(text, used, size, " (default ", opt->def);
        append_text(text, used, size, ")", "");
    }
}

void bb_opts_print_option(const struct bb_opt *opt, const char *no_letter,
                          void (*print)(const char *term, const char *text, FILE *out), FILE *out)
{
    const char *arg = opt->kind == BB_OPT_FLAG ? NULL : opt->arg ? opt->arg : "VALUE";
    char letter[8], term[128], text[2048];

    snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
    snprintf(term, sizeof(term), "%s--%s%s%s", opt->letter ? letter : no_letter, opt->name, arg ? "=" : "",
             arg ? arg : "");
    describe(opt, text, sizeof(text));
    print(term, text, out);
}

void bb_opts_print_term(const char *term, const char *text, FILE *out)
{
    const struct page page = {.out = out, .width = bb_opts_width(out)};
    const int column = page.width < WIDTH_PIPE ? 22 : 30, at = fprintf(out, "  %s", term);

    if (at + 2 > column)
        fprintf(out, "\n%*s", column, "");
    else
        fprintf(out, "%*s", column - at, "");
    print_wrapped(&page, text, strlen(text), column, column);
}

static void print_option(const struct page *page, const struct bb_opt *opt)
{
    bb_opts_print_option(opt, "    ", bb_opts_print_term, page->out);
}

static void print_exits(const struct page *page)
{
    char text[1024] = "Exit status:", start[16];
    size_t used = strlen(text);

    for (int i = 0; i < BB_EXITS; i++) {
        snprintf(start, sizeof(start), "%s %d ", i ? "," : "", i);
        if (page->set->exits[i])
            used = append_text(text, used, sizeof(text), start, page->set->exits[i]);
    }
    print_wrapped(page, text, strlen(text), 0, 0);
}

static bool is_shown(const struct page *page, const struct bb_opt_table *t, const struct bb_opt *o)
{
    return !bb_opts_is_shadowed(page->set, o) &&
           (!page->subject || !((o->needs | t->needs) & ~page->subject->features));
}

/* Prints the options of a table under a title (titled: whether it is printed): those of everyday use, at most `left`, or
 * the others. Returns `left` minus the number of everyday options of the table. */
static int print_table(const struct page *page, const struct bb_opt_table *t, bool everyday, int left, bool *titled)
{
    for (const struct bb_opt *o = t->opts; o->name; o++) {
        const bool shown = is_shown(page, t, o), first = shown && o->everyday && left > 0;

        left -= first;
        if (!shown || first != everyday)
            continue;
        if (!*titled)
            fprintf(page->out, "\n%s:\n", everyday ? "Everyday options" : t->title ? t->title : "Options");
        *titled = true;
        print_option(page, o);
    }
    return left;
}

static void print_tables(const struct page *page, bool everyday)
{
    int left = EVERYDAY_MAX;
    bool titled = false;

    for (const struct bb_opt_table *t = page->set->tables; t->opts; t++, titled = titled && everyday)
        left = print_table(page, t, everyday, left, &titled);
}

/* Prints the lines of the examples that contain `word`; NULL: all lines. */
static void print_examples(const struct page *page, const char *word)
{
    const char *text = page->set->examples;
    bool titled = false;

    while (text && *text) {
        const size_t length = strcspn(text, "\n") + 1;
        const char *found = word ? strstr(text, word) : text;

        if (found && found < text + length)
            fprintf(page->out, "%s%.*s", titled ? "" : "\nExamples:\n", (int)length, text);
        titled = titled || (found && found < text + length);
        text += length;
    }
}

/* Prints usage, description and examples: those of the command or of the subject. */
static void print_head(const struct page *page)
{
    static const char placeholder[] = "NAME [ARG...]";
    const struct bb_opt_subject *subject = page->subject;
    const char *usage = page->set->usage, *name = subject ? strstr(usage, placeholder) : NULL;
    const char *doc = name ? subject->help : page->set->doc ? page->set->doc : "";

    if (name)
        fprintf(page->out, "Usage: %.*s%s%s%s%.*s\n", (int)(name - usage), usage, subject->name,
                subject->args ? " " : "", subject->args ? subject->args : "",
                (int)strcspn(name + strlen(placeholder), "\n"), name + strlen(placeholder));
    else
        fprintf(page->out, "Usage: %s\n", usage);
    fputs(*doc ? "\n" : "", page->out);
    print_text(page, doc);
    print_examples(page, name ? subject->name : NULL);
}

void bb_opts_help(const struct bb_opts *set, const struct bb_opt_subject *subject, FILE *out)
{
    static const struct bb_opt help = OPT_FLAG('h', "help", 0, "print this help");
    const struct page page = {out, bb_opts_width(out), set, subject};

    print_head(&page);
    print_tables(&page, true);
    print_tables(&page, false);
    print_option(&page, &help);
    if (set->after || set->exits[0])
        fputc('\n', out);
    print_text(&page, set->after ? set->after : "");
    if (set->exits[0])
        print_exits(&page);
}
