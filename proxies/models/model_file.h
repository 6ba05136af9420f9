/*
 * model_file.h - reads a file of profiles/models. The keys of its object "shape" are variables. Its formulas use these
 * variables to compute numbers of elements. Totals in the file are compared with the results of the formulas, so that
 * the formulas cannot change by mistake. Each family of models reads its other keys in its own module
 * (transformer_model.h, residual.h, cosmoflow.c, dlrm.c, gpt3.c).
 *
 * All functions return 0, or -BB_EUSAGE after printing an error message with the name of the file.
 */
#ifndef BB_PROXIES_MODELS_MODEL_FILE_H
#define BB_PROXIES_MODELS_MODEL_FILE_H

#include "proxies/models/formula.h"
#include "proxies/models/profile.h"

#define BB_MODEL_FILE_VARIABLES 40

struct bb_model_file {
    json_t *root;
    const char *where; /* name or path of the file, for messages; owned by the caller */
    struct bb_variable vars[BB_MODEL_FILE_VARIABLES];
    int n_vars;
};

/*
 * bb_model_file_open   loads a file and requires this family; calls _load and _begin
 * bb_model_file_load   only loads the file; out: its family, by which the caller selects a reader; the reader calls
 *                      _begin
 * bb_model_file_begin  checks name, description and source, and reads the shapes as variables
 * bb_model_file_close  releases the file; also valid after a failed _open
 */
int bb_model_file_load(struct bb_model_file *file, const char *name_or_path, const char **family) BB_MUST_CHECK;
int bb_model_file_begin(struct bb_model_file *file) BB_MUST_CHECK;
int bb_model_file_open(struct bb_model_file *file, const char *name_or_path, const char *family) BB_MUST_CHECK;
void bb_model_file_close(struct bb_model_file *file);

/* bb_model_file_set - sets a variable in addition to the shapes (for example "in") or changes its value. `name` must
 * be valid as long as the file is open. bb_model_file_shape - returns the value of a shape in *value. */
int bb_model_file_set(struct bb_model_file *file, const char *name, double value) BB_MUST_CHECK;
int bb_model_file_shape(const struct bb_model_file *file, const char *name, int *value) BB_MUST_CHECK;

/*
 * Evaluate a formula.
 *   _count      formula: argument; the result must be a whole number from 1 to 2^53
 *   _number_at  formula: object[key]; the result may be any number
 *   _count_at   formula: object[key]; otherwise like _count
 *   _count_in   formula: list[i]; otherwise like _count. key: name of the list, for messages
 *   _named_in   list[i] is ["name", "formula"]; otherwise like _count. name: out, valid as long as the file is open
 */
int bb_model_file_count(const struct bb_model_file *file, const char *formula, size_t *count) BB_MUST_CHECK;
int bb_model_file_number_at(const struct bb_model_file *file, const json_t *object, const char *key,
                            double *value) BB_MUST_CHECK;
int bb_model_file_count_at(const struct bb_model_file *file, const json_t *object, const char *key,
                           size_t *count) BB_MUST_CHECK;
int bb_model_file_count_in(const struct bb_model_file *file, const json_t *list, const char *key, int i,
                           size_t *count) BB_MUST_CHECK;
int bb_model_file_named_in(const struct bb_model_file *file, const json_t *list, const char *key, int i,
                           const char **name, size_t *count) BB_MUST_CHECK;

/* Kinds of fields for bb_model_file_read, in addition to those of json_read.h. */
enum bb_model_kind {
    BB_MODEL_SHAPE = BB_JSON_KINDS, /* int: the shape with this key */
    BB_MODEL_COUNT,                 /* size_t: the result of the formula */
    BB_MODEL_FORMULA,               /* double: the result of the formula */
};

/* bb_model_file_read - reads the keys listed in `fields` from an object of the file and stores their values in the
 * struct at `into`. */
int bb_model_file_read(const struct bb_model_file *file, const json_t *object, const struct bb_json_field *fields,
                       void *into) BB_MUST_CHECK;

#endif
