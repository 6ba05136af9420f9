/*
 * formula.h - evaluates arithmetic formulas with named variables: "12*h^2 + 13*h". Operators are + - * / ^ and
 * parentheses, with the usual precedence. The exponent of ^ is a number, a name or an expression in parentheses. Names
 * consist of letters, digits and '_'. Values are doubles, which represent whole numbers exactly up to 2^53.
 */
#ifndef BB_PROXIES_FORM_MODELS_FORMULA_H
#define BB_PROXIES_FORM_MODELS_FORMULA_H

#include "bootstrap/base/err.h"

struct bb_variable {
    const char *name;
    double value;
};

/*
 * bb_formula - evaluates a formula.
 *   vars     [n_vars] variables that the formula may use
 *   where    name of the file that contains the formula, for the error message
 *   value    out: the result
 *   Returns  0, or -BB_EUSAGE after printing the position of a syntax error or of an unknown name
 */
int bb_formula(const char *text, const struct bb_variable *vars, int n_vars, const char *where,
               double *value) BB_MUST_CHECK;

#endif
