/* args.h - helpers of builders for numbers on the command line, numbers of ranks, and one-role steps. */
#ifndef BB_PROXIES_AUTHOR_ARGS_H
#define BB_PROXIES_AUTHOR_ARGS_H

#include "proxies/author/script.h"

#define BB_MAX_LAYERS 1000000 /* upper bound on layers, stages and micro-batches */

/*
 * bb_args_number - parse a positional argument that is a count, from 1 to BB_MAX_LAYERS.
 *   what     plural noun for error lines: "layers"
 *   given    value of the option with the same meaning, 0: the option was not given
 *   value    out
 *   Returns  0, or -BB_EUSAGE after an error line
 */
int bb_args_number(const struct bb_proxy_config *config, const char *word, const char *what, int given, int *value);

/* Default of --tflops. The published times of gpt3 imply this rate: 7.628e12 FLOP per layer in 63,660 us. */
#define BB_DEFAULT_TFLOPS 119.8

/* bb_args_index - return the index of a word in a list that contains the word; `usual` for NULL. */
int bb_args_index(const char *word, const char *const *words, int usual);

/* Write the multiples of `step` next to `value`, at least `step` itself: "44" or "44 or 48". Returns text. */
#define BB_MULTIPLES_TEXT 64
const char *bb_multiples(int value, int step, char text[BB_MULTIPLES_TEXT]);

/*
 * bb_args_micro_batches - compute the number of micro-batches per replica.
 *   usual    the proxy's default
 *   samples  samples of one micro-batch over all replicas, must divide --global-batch-size
 *   made_of  explains `samples` in error lines: "8 replicas x 2"
 *   m        out: --global-batch-size / samples, else --micro-batches, else usual
 *   Returns  0, or -BB_EUSAGE after an error line with the nearest valid batch sizes
 */
int bb_args_micro_batches(const struct bb_proxy_config *config, int usual, long long samples, const char *made_of,
                          int *m) BB_MUST_CHECK;

/* bb_args_check_ranks - return 0 if the number of ranks is a multiple of `step`; otherwise -BB_EUSAGE, after an
 * error line that gives `why` and the nearest valid numbers. */
int bb_args_check_ranks(const struct bb_proxy_config *config, int step, const char *why);

/*
 * bb_world_role - start a step in which all ranks execute the same program: a grid layout with one group "world", and
 * one role, which the script writes.
 * bb_world_lane - add a communicator over all ranks, and its stream.
 */
int bb_world_role(const struct bb_proxy_config *config, struct bb_step *step, const char *name,
                  struct bb_script *script) BB_MUST_CHECK;
struct bb_script_lane bb_world_lane(struct bb_step *step, struct bb_script *script, const char *name);

#endif
