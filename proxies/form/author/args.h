/* args.h - helpers for builders (the code that generates a proxy's step): numeric positional arguments, rank and
 * batch counts, and steps in which all ranks run the same program. */
#ifndef BB_PROXIES_FORM_AUTHOR_ARGS_H
#define BB_PROXIES_FORM_AUTHOR_ARGS_H

#include "proxies/form/author/script.h"

#define BB_MAX_LAYERS 1000000 /* upper bound on layers, stages and micro-batches */

/*
 * bb_args_number - parse a positional argument that is a count from 1 to BB_MAX_LAYERS.
 *   word     the argument
 *   what     what is counted, for error lines: "layers"
 *   given    value of the option that has the same meaning as the argument; 0: the option was not given
 *   value    out: the count
 *   Returns  0, or -BB_EUSAGE after printing an error line: invalid count, or both argument and option are given
 */
int bb_args_number(const struct bb_proxy_config *config, const char *word, const char *what, int given, int *value);

/* Default of --tflops, in TFLOP/s. The published times of the proxy gpt3 imply this compute rate: 7.628e12 FLOP per
 * layer in 63,660 us. */
#define BB_DEFAULT_TFLOPS 119.8
/* Memory bandwidth in 1e9 bytes/s for which this default is: that of A100-SXM4-80GB in profiles/clusters. */
#define BB_DEFAULT_MEMORY_GBPS 2039

/* bb_args_index - return the index of the string `word` in the list `words`, which must contain it; return `usual`
 * if `word` is NULL. */
int bb_args_index(const char *word, const char *const *words, int usual);

/* bb_multiples - write the two multiples of `step` nearest to `value`, one below and one above, into `text`, for
 * example "44 or 48"; only the upper multiple if the lower one would be 0. Returns text. */
#define BB_MULTIPLES_TEXT 64
const char *bb_multiples(long long value, long long step, char text[BB_MULTIPLES_TEXT]);

/*
 * bb_args_micro_batches - compute the number of micro-batches per replica.
 *   usual    the proxy's default number of micro-batches
 *   samples  total number of samples that all replicas process in one micro-batch; must divide --global-batch-size
 *   made_of  text for error lines that explains `samples`: "8 replicas x 2"
 *   instead  appended to the advice: another option with which the batch size is valid; empty: none
 *   m        out: --global-batch-size / samples, else --micro-batches, else usual
 *   Returns  0, or -BB_EUSAGE after printing an error line with the nearest valid global batch sizes
 */
int bb_args_micro_batches(const struct bb_proxy_config *config, int usual, long long samples, const char *made_of,
                          const char *instead, int *m) BB_MUST_CHECK;

/* Sizes of the micro-batches of the replicas, from --micro-batch-size. */
#define BB_BATCHES_MAX 256
struct bb_batches {
    int size[BB_BATCHES_MAX], n;        /* replica r has size[r % n] samples per micro-batch */
    int sizes[BB_BATCHES_MAX], n_sizes; /* the different sizes: every size occurs once */
    int index[BB_BATCHES_MAX];          /* [n] index of each size[] in sizes[] */
    int max;
    long long samples; /* samples of one micro-batch over all replicas */
};

/*
 * bb_args_batches - read the sizes of micro-batches: a list, or one number for all replicas.
 *   usual     size if --micro-batch-size is not given
 *   replicas  number of replicas, a multiple of the list's length
 *   Returns   0, or -BB_EUSAGE after printing an error line
 * bb_batches_text - describe the sizes: "32" or "32,16". The step owns the text.
 * bb_batches_weights - describe the weights of the replicas' gradients; an empty text if all sizes are equal.
 */
int bb_args_batches(const struct bb_proxy_config *config, int usual, int replicas,
                    struct bb_batches *batches) BB_MUST_CHECK;
const char *bb_batches_text(struct bb_step *step, const struct bb_batches *batches);
const char *bb_batches_weights(const struct bb_batches *batches);

/* bb_args_check_ranks - return 0 if config->ranks is a multiple of `step`. Otherwise print an error line with the
 * reason `why` and the nearest valid numbers of ranks, and return -BB_EUSAGE. */
int bb_args_check_ranks(const struct bb_proxy_config *config, int step, const char *why);

/*
 * bb_world_role - begin a step in which all ranks execute the same program: create a layout with the single group
 * "world" (all ranks) and one role (set of ranks with the same program) named `name`, and initialize `script` to append
 * to the role's program.
 * bb_world_lane - add a communicator over all ranks and a stream for its operations; return their indices.
 */
int bb_world_role(const struct bb_proxy_config *config, struct bb_step *step, const char *name,
                  struct bb_script *script) BB_MUST_CHECK;
struct bb_script_lane bb_world_lane(struct bb_step *step, struct bb_script *script, const char *name);

#endif
