/*
 * profile.h - the JSON files of profiles/: models and clusters. They are part of the program (made into a table by the
 * build), so they are found wherever it is installed; a file of the user's is read by its path.
 */
#ifndef BB_PROXIES_MODELS_PROFILE_H
#define BB_PROXIES_MODELS_PROFILE_H

#include "bootstrap/base/json_read.h"

struct bb_profile_text {
    const char *kind, *name, *text; /* "models", "gpt2_large", JSON */
};
extern const struct bb_profile_text bb_profile_texts[]; /* ends with a row of NULLs */

/* bb_profile_names - names of one kind, in the table's order, NULL at the end. words[room]; returns their number. */
size_t bb_profile_names(const char *kind, const char **names, size_t capacity);

/* The i-th name of a kind, NULL past the end: for who completes a command line. */
const char *bb_model_name_at(size_t i);
const char *bb_cluster_name_at(size_t i);

/* bb_profile_validate_name - 0 for a name of that kind and for a path, which is not looked at; else -BB_EUSAGE, said.
 */
int bb_profile_validate_name(const char *kind, const char *name_or_path) BB_MUST_CHECK;

/*
 * bb_profile_load - *root = the profile of that name or, when the word has a '/' or ends in ".json", of that file;
 * where it is a folder (of a published model) of its config.json. Unknown name, unreadable file, no JSON object: said, -BB_EUSAGE. The caller owns *root.
 */
int bb_profile_load(const char *kind, const char *name_or_path, json_t **root) BB_MUST_CHECK;

#endif
