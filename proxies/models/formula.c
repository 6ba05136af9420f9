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

static double sum(struct reader *r);

static bool take(struct reader *r, char c)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static double fail(struct reader *r)
{
    r->bad = true;
    return NAN;
}

static double variable(struct reader *r)
{
    size_t length = 0;

    while (isalnum((unsigned char)r->at[length]) || r->at[length] == '_')
        length++;
    for (int v = 0; v < r->n_vars; v++)
        if (strlen(r->vars[v].name) == length && strncmp(r->vars[v].name, r->at, length) == 0) {
            r->at += length;
            return r->vars[v].value;
        }
    return fail(r);
}

static double number(struct reader *r)
{
    char *end;
    double value = strtod(r->at, &end);

    r->at = end;
    return value;
}

static double atom(struct reader *r)
{
    double value;

    if (take(r, '(')) {
        if (++r->depth > DEEPEST)
            return fail(r);
        value = sum(r);
        r->depth--;
        return r->bad || take(r, ')') ? value : fail(r);
    }
    if (isdigit((unsigned char)*r->at))
        return number(r);
    return isalpha((unsigned char)*r->at) ? variable(r) : fail(r);
}

static double power(struct reader *r)
{
    double base = atom(r);

    if (r->bad || !take(r, '^'))
        return base;
    return pow(base, atom(r));
}

static double product(struct reader *r)
{
    double value = power(r);

    while (!r->bad)
        if (take(r, '*'))
            value *= power(r);
        else if (take(r, '/'))
            value /= power(r);
        else
            break;
    return value;
}

static double sum(struct reader *r)
{
    double value = product(r);

    while (!r->bad)
        if (take(r, '+'))
            value += product(r);
        else if (take(r, '-'))
            value -= product(r);
        else
            break;
    return value;
}

int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where, double *value)
{
    struct reader r = {.at = text, .vars = vars, .n_vars = n_vars};

    *value = sum(&r);
    take(&r, '\0');
    if (!r.bad && r.at == text + strlen(text) + 1)
        return 0;
    if (r.at > text + strlen(text))
        r.at--;
    return bb_err(BB_EUSAGE, "%s: cannot read the formula '%s' at '%s'", where, text, r.at);
}
