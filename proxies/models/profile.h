/*
 * profile.h - the JSON files of profiles/: models and clusters. The build compiles them into the program, so that they
 * are found wherever the program is installed. Files of the user are read by their path.
 */
#ifndef BB_PROXIES_MODELS_PROFILE_H
#define BB_PROXIES_MODELS_PROFILE_H

#include "bootstrap/base/json_read.h"

struct bb_profile_text {
    const char *kind, *name, *text; /* "models" or "clusters"; "gpt2_large"; JSON text */
};
extern const struct bb_profile_text bb_profile_texts[]; /* the last row has NULLs */

/* bb_profile_names - list the names of a kind. names: [capacity] out, terminated by NULL. Returns the number of
 * names. */
size_t bb_profile_names(const char *kind, const char **names, size_t capacity);

/* The i-th name of a kind, NULL past the end; used for completion of command lines. */
const char *bb_model_name_at(size_t i);
const char *bb_cluster_name_at(size_t i);

/* bb_profile_validate_name - accept the name of a shipped profile or any path (without opening it). Returns 0, or
 * -BB_EUSAGE after printing one line. */
int bb_profile_validate_name(const char *kind, const char *name_or_path) BB_MUST_CHECK;

/*
 * bb_profile_load - load a profile.
 *   name_or_path  name of a shipped profile; a path has a '/' or ends in ".json"; a folder of a published model stands
 *                 for its config.json
 *   root          out: a JSON object; the caller releases it
 *   Returns       0, or -BB_EUSAGE after printing one line: unknown name, unreadable file, or no JSON object
 */
int bb_profile_load(const char *kind, const char *name_or_path, json_t **root) BB_MUST_CHECK;

#endif
