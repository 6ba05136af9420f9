/*
 * model_file.h - a file of profiles/models while it is read: its shapes are variables, its formulas give counts, and
 * the totals that it states must be those that its formulas make, so that no size can drift. What a family of models
 * holds beyond that is its reader's own (transformer_model.h, residual.h, cosmoflow.c, dlrm.c, gpt3.c).
 *
 * All functions return 0, or -BB_EUSAGE after a line that names the file and what is wrong in it.
 */
#ifndef BB_PROXIES_MODELS_MODEL_FILE_H
#define BB_PROXIES_MODELS_MODEL_FILE_H

#include "proxies/models/formula.h"
#include "proxies/models/profile.h"

#define BB_MODEL_FILE_VARIABLES 40

struct bb_model_file {
    json_t *root;
    const char *where; /* the name or path that it was asked for by; the caller's */
    struct bb_variable vars[BB_MODEL_FILE_VARIABLES];
    int n_vars;
};

/*
 * bb_model_file_open - load the file, which must be of that family and have name, description, source and shape. close
 * is fine on one that could not be opened.
 */
int bb_model_file_open(struct bb_model_file *sheet, const char *word, const char *family) BB_MUST_CHECK;
void bb_model_file_close(struct bb_model_file *sheet);

/* A variable beside the shapes ("in", "out"); set again, it changes. `name` must outlive the sheet. */
int bb_model_file_set(struct bb_model_file *sheet, const char *name, double value) BB_MUST_CHECK;
int bb_model_file_shape(const struct bb_model_file *sheet, const char *name, int *value) BB_MUST_CHECK;

/* What a formula makes: any number; or a whole number above 0 that is exact in a double. _at: the formula is
 * object[key]. */
int bb_model_file_formula(const struct bb_model_file *sheet, const char *formula, double *value) BB_MUST_CHECK;
int bb_model_file_count(const struct bb_model_file *sheet, const char *formula, size_t *count) BB_MUST_CHECK;
int bb_model_file_number_at(const struct bb_model_file *sheet, const json_t *object, const char *key,
                            double *value) BB_MUST_CHECK;
int bb_model_file_count_at(const struct bb_model_file *sheet, const json_t *object, const char *key,
                           size_t *count) BB_MUST_CHECK;

/* object[key] is a list of exactly n elements (n < 0: of 1 to -n); n_found may be NULL. */
int bb_model_file_list(const struct bb_model_file *sheet, const json_t *object, const char *key, int n,
                       const json_t **list, int *n_found) BB_MUST_CHECK;
/* ... of exactly n numbers from 0. */
int bb_model_file_numbers(const struct bb_model_file *sheet, const json_t *object, const char *key, int n,
                          double *numbers) BB_MUST_CHECK;

/*
 * bb_model_file_same - the total `what` is given as `given` and must be `derived`. _total: given as totals[key];
 * _totals: given as the list totals[key].
 */
int bb_model_file_same(const struct bb_model_file *sheet, const char *what, double given, double derived) BB_MUST_CHECK;
int bb_model_file_total(const struct bb_model_file *sheet, const json_t *totals, const char *key,
                        double derived) BB_MUST_CHECK;
int bb_model_file_totals(const struct bb_model_file *sheet, const json_t *totals, const char *key,
                         const size_t *derived, int n) BB_MUST_CHECK;

#endif
