/* formula.c - a recursive-descent reader of formulas; an error leaves the reader at its place. */
#include "proxies/models/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 100 /* nested parentheses */

struct reader {
    const char *at;
    const struct bb_variable *vars;
    int n_vars, depth;
    bool bad;
};

static double read_sum(struct reader *r);

static bool take_char(struct reader *r, char c)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static double mark_bad(struct reader *r)
{
    r->bad = true;
    return NAN;
}

static double read_variable(struct reader *r)
{
    size_t length = 0;

    while (isalnum((unsigned char)r->at[length]) || r->at[length] == '_')
        length++;
    for (int v = 0; v < r->n_vars; v++)
        if (strlen(r->vars[v].name) == length && strncmp(r->vars[v].name, r->at, length) == 0) {
            r->at += length;
            return r->vars[v].value;
        }
    return mark_bad(r);
}

static double read_number(struct reader *r)
{
    char *end;
    double value = strtod(r->at, &end);

    r->at = end;
    return value;
}

static double read_atom(struct reader *r)
{
    double value;

    if (take_char(r, '(')) {
        if (++r->depth > DEEPEST)
            return mark_bad(r);
        value = read_sum(r);
        r->depth--;
        return r->bad || take_char(r, ')') ? value : mark_bad(r);
    }
    if (isdigit((unsigned char)*r->at))
        return read_number(r);
    return isalpha((unsigned char)*r->at) ? read_variable(r) : mark_bad(r);
}

static double read_power(struct reader *r)
{
    double base = read_atom(r);

    if (r->bad || !take_char(r, '^'))
        return base;
    return pow(base, read_atom(r));
}

static double read_product(struct reader *r)
{
    double value = read_power(r);

    while (!r->bad)
        if (take_char(r, '*'))
            value *= read_power(r);
        else if (take_char(r, '/'))
            value /= read_power(r);
        else
            break;
    return value;
}

static double read_sum(struct reader *r)
{
    double value = read_product(r);

    while (!r->bad)
        if (take_char(r, '+'))
            value += read_product(r);
        else if (take_char(r, '-'))
            value -= read_product(r);
        else
            break;
    return value;
}

int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where, double *value)
{
    struct reader r = {.at = text, .vars = vars, .n_vars = n_vars};

    *value = read_sum(&r);
    take_char(&r, '\0');
    if (!r.bad && r.at == text + strlen(text) + 1)
        return 0;
    if (r.at > text + strlen(text))
        r.at--;
    return bb_err(BB_EUSAGE, "%s: cannot read the formula '%s' at '%s'", where, text, r.at);
}
