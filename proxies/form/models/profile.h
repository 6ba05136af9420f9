/*
 * profile.h - the JSON files of profiles/, which describe models and clusters. The build compiles them into the
 * program, so that they are available wherever the program is installed. A user's own files are read by their path.
 */
#ifndef BB_PROXIES_FORM_MODELS_PROFILE_H
#define BB_PROXIES_FORM_MODELS_PROFILE_H

#include "bootstrap/base/json_read.h"

struct bb_profile_text {
    const char *kind, *name, *text; /* kind: "models", "clusters" or "transports"; name: for example "gpt2_large"; text:
                                       the JSON */
};
extern const struct bb_profile_text bb_profile_texts[]; /* all shipped profiles; the last element is all NULL */

/* bb_profile_names - lists the names of all shipped profiles of a kind ("models" or "clusters"). names: [capacity]
 * out, terminated by NULL. Returns the number of names. */
size_t bb_profile_names(const char *kind, const char **names, size_t capacity);

/* Each function returns the name of the i-th model or cluster profile that is shipped with busbar, or NULL after the
 * last profile. Used for shell completion. */
const char *bb_model_name_at(size_t i);
const char *bb_cluster_name_at(size_t i);

/* bb_cluster_of_gpu - returns the name of the shipped cluster profile for nodes with GPUs of this CUDA device name, for
 * example "NVIDIA H100 80GB HBM3"; NULL: none. */
const char *bb_cluster_of_gpu(const char *gpu);
/* bb_cluster_base - returns the shipped profile whose nodes a shipped profile has: the value of its key "base", otherwise its
 * own name. NULL: `name` is not shipped. */
const char *bb_cluster_base(const char *name);

/* bb_model_of_hub - returns the shipped model with the layers of a model of Hugging Face, such as
 * "meta-llama/Llama-3.1-8B-Instruct"; NULL: none.
 * bb_model_reject_hub - returns -BB_EUSAGE after printing what to give for a name "ORGANIZATION/MODEL", or a
 * name without the organization that begins as those of a known one, such as "Qwen3-8B"; else 0. */
const char *bb_model_of_hub(const char *name);
int bb_model_reject_hub(const char *name) BB_MUST_CHECK;

/* bb_profile_validate_name - checks, without opening a file, that the argument is the name of a shipped profile of
 * this kind or a path. Returns 0, or -BB_EUSAGE after printing an error message. */
int bb_profile_validate_name(const char *kind, const char *name_or_path) BB_MUST_CHECK;

/*
 * bb_profile_load - loads a profile.
 *   kind          "models", "clusters" or "transports"
 *   name_or_path  name of a shipped profile; or a path, which contains '/' or ends in ".json"; or the folder of a
 *                 published model, whose config.json is loaded
 *   root          out: a JSON object; the caller releases it. A cluster with the key "base" is complete: it has the values
 *                 of that cluster and of its transport, except those that it changes
 *   Returns       0, or -BB_EUSAGE after printing an error message: unknown name, unreadable file, or no JSON object
 */
int bb_profile_load(const char *kind, const char *name_or_path, json_t **root) BB_MUST_CHECK;

/* Warnings about a cluster profile. TRANSPORT: it has a base, and its transport changes the rate of the NICs
 * (bb_profile_warn_of_nics); or it has no base and only the name of its transport, not the values. GENERATION: it has a base,
 * and its rate is that of another generation. */
enum bb_profile_warnings { BB_WARN_OF_TRANSPORT = 1, BB_WARN_OF_GENERATION = 2 };

/* bb_profile_load_cluster - as bb_profile_load for "clusters"; prints the warnings (enum bb_profile_warnings) of `warnings`. */
int bb_profile_load_cluster(const char *name_or_path, unsigned warnings, json_t **root) BB_MUST_CHECK;

/* bb_profile_is_shipped_cluster - returns whether the profile that was loaded, `root`, is one of `busbar list clusters`, or
 * a file equal to one. */
bool bb_profile_is_shipped_cluster(const char *name_or_path, const json_t *root);

/*
 * bb_profile_change - changes values of a cluster profile, by a profile with a base or by --set.
 *   changes  JSON object with the changed keys; elements of "nccl" change the variant with the same algorithm and protocol.
 *            Values that it does not have follow others: gbps, intra_us and inter_us of NCCL's variants those of the links
 *            (rates and shorter latencies by the same factor, longer latencies by the same difference), nics_per_node
 *            gpus_per_node by the same factor, rounded up
 *   where    file or option of the changes, for the error message
 *   Returns  0, or -BB_EUSAGE after printing an error message if an element of "nccl" is of no variant and has no gbps
 */
int bb_profile_change(json_t *cluster, const json_t *changes, const char *where) BB_MUST_CHECK;

/* bb_profile_warn_of_nics - prints a warning if another transport gives the NICs of a node another rate and `changes` has
 * neither their number nor their rate: nodes with slower NICs usually have more of them. before: the cluster without its
 * changes; NULL: no warning. file: that has the changes; NULL: --set. */
void bb_profile_warn_of_nics(const json_t *before, const json_t *after, const json_t *changes, const char *file);

/* bb_profile_set_transport - gives a cluster profile the latencies between nodes and the fractions of the NICs' rate of a
 * transport (profiles/transports). Returns 0, or -BB_EUSAGE after printing an error message: unknown name, or nothing to
 * change. */
int bb_profile_set_transport(json_t *cluster, const char *name) BB_MUST_CHECK;

/* bb_profile_checksums - return {"cluster": .., "model": ..} with the checksum of each given profile: the first 12 hex
 * digits of the SipHash of its JSON without blanks and with sorted keys. Null: not given (NULL), or not a regular file,
 * because a pipe cannot be read twice. */
json_t *bb_profile_checksums(const char *cluster, const char *model);

#endif
