/*
 * model_file.h - reads a file of profiles/models. Its shapes are variables; its formulas give element counts; the
 * totals in the file are compared with the results of the formulas, so that sizes stay consistent. Each family of
 * models reads its other keys itself (transformer_model.h, residual.h, cosmoflow.c, dlrm.c, gpt3.c).
 *
 * All functions return 0, or -BB_EUSAGE after printing one line that names the file and the error.
 */
#ifndef BB_PROXIES_MODELS_MODEL_FILE_H
#define BB_PROXIES_MODELS_MODEL_FILE_H

#include "proxies/models/formula.h"
#include "proxies/models/profile.h"

#define BB_MODEL_FILE_VARIABLES 40

struct bb_model_file {
    json_t *root;
    const char *where; /* name or path of the file, for messages; borrowed */
    struct bb_variable vars[BB_MODEL_FILE_VARIABLES];
    int n_vars;
};

/*
 * bb_model_file_open - load a file of the given family, with name, description, source and shape.
 * bb_model_file_load - only load the file; family out. The caller selects a reader by the family and calls _begin.
 * bb_model_file_begin - check name, description and source, and read the shapes as variables.
 * bb_model_file_close - release; also valid after a failed _open.
 */
int bb_model_file_load(struct bb_model_file *file, const char *name_or_path, const char **family) BB_MUST_CHECK;
int bb_model_file_begin(struct bb_model_file *file) BB_MUST_CHECK;
int bb_model_file_open(struct bb_model_file *file, const char *name_or_path, const char *family) BB_MUST_CHECK;
void bb_model_file_close(struct bb_model_file *file);

/* Set a variable in addition to the shapes (for example "in"); setting it again changes it. `name` must outlive the
 * file. */
int bb_model_file_set(struct bb_model_file *file, const char *name, double value) BB_MUST_CHECK;
int bb_model_file_shape(const struct bb_model_file *file, const char *name, int *value) BB_MUST_CHECK;

/*
 * Evaluate a formula.
 *   _count      the formula is given; the result is a whole number above 0 that is exact in a double
 *   _number_at  the formula is object[key]; the result is any number
 *   _count_at   the formula is object[key]
 *   _count_in   the formula is list[i]; key: name of the list, for messages
 *   _named_in   list[i] is ["name", "formula"]; name: out, borrowed from the file
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

/* Kinds of fields in addition to those of json_read.h. */
enum bb_model_kind {
    BB_MODEL_SHAPE = BB_JSON_KINDS, /* int: the shape of that name */
    BB_MODEL_COUNT,                 /* size_t: the result of the formula */
    BB_MODEL_FORMULA,               /* double: the result of the formula */
};

/* bb_model_file_read - fill the struct at `into` from an object of the file, as `fields` describe. */
int bb_model_file_read(const struct bb_model_file *file, const json_t *object, const struct bb_json_field *fields,
                       void *into) BB_MUST_CHECK;

#endif
