/*
 * formula.h - sizes as formulas over named numbers: "12*h^2 + 13*h". Operators + - * / ^ and parentheses, with the
 * usual precedence (^ binds its whole-number exponent first); names are letters, digits and '_'. Values are doubles:
 * exact for whole numbers up to 2^53.
 */
#ifndef BB_PROXIES_MODELS_FORMULA_H
#define BB_PROXIES_MODELS_FORMULA_H

#include "bootstrap/base/err.h"

struct bb_variable {
    const char *name;
    double value;
};

/* bb_formula - *value of text. An unknown name or a mistake is said with its place, -BB_EUSAGE; `where` leads the
 * message. */
int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where,
               double *value) BB_MUST_CHECK;

#endif
