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
 * bb_model_file_open - load the file, which must be of that family and have name, description, source and shape. Where
 * its family says who reads it: _load, and _begin for all but the family. close is fine on one that could not be opened.
 */
int bb_model_file_load(struct bb_model_file *file, const char *name_or_path, const char **family) BB_MUST_CHECK;
int bb_model_file_begin(struct bb_model_file *file) BB_MUST_CHECK;
int bb_model_file_open(struct bb_model_file *file, const char *name_or_path, const char *family) BB_MUST_CHECK;
void bb_model_file_close(struct bb_model_file *file);

/* A variable beside the shapes ("in", "out"); set again, it changes. `name` must outlive the file. */
int bb_model_file_set(struct bb_model_file *file, const char *name, double value) BB_MUST_CHECK;
int bb_model_file_shape(const struct bb_model_file *file, const char *name, int *value) BB_MUST_CHECK;

/* What a formula makes: any number; or a whole number above 0 that is exact in a double. _at: the formula is
 * object[key]; _in: list[i], where the list's key is for messages; _named: list[i] is ["name", "formula"]. */
int bb_model_file_count(const struct bb_model_file *file, const char *formula, size_t *count) BB_MUST_CHECK;
int bb_model_file_number_at(const struct bb_model_file *file, const json_t *object, const char *key,
                            double *value) BB_MUST_CHECK;
int bb_model_file_count_at(const struct bb_model_file *file, const json_t *object, const char *key,
                           size_t *count) BB_MUST_CHECK;
int bb_model_file_count_in(const struct bb_model_file *file, const json_t *list, const char *key, int i,
                           size_t *count) BB_MUST_CHECK;
int bb_model_file_named_in(const struct bb_model_file *file, const json_t *list, const char *key, int i,
                           const char **name, size_t *count) BB_MUST_CHECK;

/* Kinds of rows beside those of json_read.h. */
enum bb_model_kind {
    BB_MODEL_SHAPE = BB_JSON_KINDS, /* int, the shape of that name                  */
    BB_MODEL_COUNT,                 /* size_t, what the formula there makes         */
    BB_MODEL_FORMULA,               /* double, likewise                             */
};

/* bb_model_file_read - fills the struct at `into` from an object of the file, row by row. */
int bb_model_file_read(const struct bb_model_file *file, const json_t *object, const struct bb_json_field *fields,
                       void *into) BB_MUST_CHECK;

#endif
