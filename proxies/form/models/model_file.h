/*
 * model_file.h - reads a JSON file of profiles/models. The keys of its object "shape" (for example layers, hidden)
 * define variables, which the formulas in the file use to compute numbers of elements. The file also contains totals,
 * which are compared with the results of the formulas, to detect mistakes in the formulas. Each family of models has
 * keys of its own, which its module reads (transformer_model.h, residual.h, cosmoflow.c, dlrm.c, gpt3.c).
 *
 * All functions that return an int return 0, or -BB_EUSAGE after printing an error message with the name of the file.
 */
#ifndef BB_PROXIES_FORM_MODELS_MODEL_FILE_H
#define BB_PROXIES_FORM_MODELS_MODEL_FILE_H

#include "proxies/form/models/formula.h"
#include "proxies/form/models/profile.h"

#define BB_MODEL_FILE_VARIABLES 40

struct bb_model_file {
    json_t *root;
    const char *where; /* name or path of the file, for messages; the caller keeps it valid */
    struct bb_variable vars[BB_MODEL_FILE_VARIABLES];
    int n_vars;
};

/*
 * bb_model_file_open   loads a model file (_load), checks it (_begin), and rejects the file if its model family is not
 *                      `family`
 * bb_model_file_load   only loads the file. family: out: model family of the file. The caller then selects the reader
 *                      of this family, which calls _begin
 * bb_model_file_begin  checks the keys name, description and source, and reads the keys of the object "shape" as
 *                      variables
 * bb_model_file_close  releases the file; may also be called if _open failed
 */
int bb_model_file_load(struct bb_model_file *file, const char *name_or_path, const char **family) BB_MUST_CHECK;
int bb_model_file_begin(struct bb_model_file *file) BB_MUST_CHECK;
int bb_model_file_open(struct bb_model_file *file, const char *name_or_path, const char *family) BB_MUST_CHECK;
void bb_model_file_close(struct bb_model_file *file);

/*
 * bb_model_file_set - adds a variable (for example "in") for the formulas of the file, or changes the value of an
 * existing variable. `name` must stay valid until the file is closed.
 * bb_model_file_shape - reads the value of the key `name` of the file's object "shape".
 */
int bb_model_file_set(struct bb_model_file *file, const char *name, double value) BB_MUST_CHECK;
int bb_model_file_shape(const struct bb_model_file *file, const char *name, int *value) BB_MUST_CHECK;

/*
 * Each function evaluates one formula of the file. The list names the end of the function's name and the formula:
 *   _count      the argument `formula`; the result must be a whole number from 1 to 2^53
 *   _number_at  the formula object[key]; the result may be any number
 *   _count_at   the formula object[key]; the result must be a whole number from 1 to 2^53
 *   _count_in   the formula list[i]; the result must be a whole number from 1 to 2^53. key: name of the list, for
 *               messages
 *   _named_in   the formula in list[i], which is a pair ["name", "formula"]; the result must be a whole number from 1
 *               to 2^53. key: name of the list, for messages. name: out: the name, valid until the file is closed
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

/* Kinds of fields that bb_model_file_read reads, in addition to the kinds in json_read.h. */
enum bb_model_kind {
    BB_MODEL_SHAPE = BB_JSON_KINDS, /* int: value of the key with the field's name in the object "shape" */
    BB_MODEL_COUNT,   /* size_t: result of a formula that yields a whole number (bb_model_file_count_at) */
    BB_MODEL_FORMULA, /* double: result of a formula (bb_model_file_number_at) */
};

/* bb_model_file_read - reads the keys listed in `fields` from an object of the file and stores their values in the
 * struct at `into`. */
int bb_model_file_read(const struct bb_model_file *file, const json_t *object, const struct bb_json_field *fields,
                       void *into) BB_MUST_CHECK;

#endif
