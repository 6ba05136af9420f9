/* formula.c - evaluates formulas with a recursive-descent parser (see formula.h). If parsing fails, parser.at is the
 * position of the error in the text. */
#include "proxies/form/models/formula.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 100 /* maximum depth of nested parentheses */

struct parser {
    const char *at;
    const struct bb_variable *vars;
    int n_vars, depth;
    bool failed;
};

static double parse_expression(struct parser *r);

static bool accept_char(struct parser *r, char c)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static double fail(struct parser *r)
{
    r->failed = true;
    return NAN;
}

static double parse_variable(struct parser *r)
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

static double parse_factor(struct parser *r)
{
    double value;
    char *end;

    if (accept_char(r, '(')) {
        if (++r->depth > MAX_DEPTH)
            return fail(r);
        value = parse_expression(r);
        r->depth--;
        return r->failed || accept_char(r, ')') ? value : fail(r);
    }
    if (isdigit((unsigned char)*r->at)) {
        value = strtod(r->at, &end);
        r->at = end;
        return value;
    }
    return isalpha((unsigned char)*r->at) ? parse_variable(r) : fail(r);
}

static double parse_power(struct parser *r)
{
    double base = parse_factor(r);

    if (r->failed || !accept_char(r, '^'))
        return base;
    return pow(base, parse_factor(r));
}

static double parse_term(struct parser *r)
{
    double value = parse_power(r);

    while (!r->failed)
        if (accept_char(r, '*'))
            value *= parse_power(r);
        else if (accept_char(r, '/'))
            value /= parse_power(r);
        else
            break;
    return value;
}

static double parse_expression(struct parser *r)
{
    double value = parse_term(r);

    while (!r->failed)
        if (accept_char(r, '+'))
            value += parse_term(r);
        else if (accept_char(r, '-'))
            value -= parse_term(r);
        else
            break;
    return value;
}

int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where, double *value)
{
    struct parser r = {.at = text, .vars = vars, .n_vars = n_vars};

    *value = parse_expression(&r);
    accept_char(&r, '\0');
    if (!r.failed && r.at == text + strlen(text) + 1)
        return 0;
    if (r.at > text + strlen(text))
        r.at--;
    return bb_err(BB_EUSAGE, "%s: cannot read the formula '%s' at '%s'", where, text, r.at);
}
