/*
 * formula.h - evaluates arithmetic formulas with named variables: "12*h^2 + 13*h". Operators are + - * / ^ and
 * parentheses, with the usual precedence; the exponent of ^ is a number, a name or a parenthesis. Names consist of
 * letters, digits and '_'. Values are doubles, which are exact for whole numbers up to 2^53.
 */
#ifndef BB_PROXIES_MODELS_FORMULA_H
#define BB_PROXIES_MODELS_FORMULA_H

#include "bootstrap/base/err.h"

struct bb_variable {
    const char *name;
    double value;
};

/*
 * bb_formula - evaluate a formula.
 *   vars     [n_vars]
 *   where    file, for the error message
 *   value    out
 *   Returns  0, or -BB_EUSAGE after printing the position of a syntax error or an unknown name
 */
int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where,
               double *value) BB_MUST_CHECK;

#endif
