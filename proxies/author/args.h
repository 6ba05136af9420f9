/* args.h - what builders say to numbers on the command line and to worlds that cannot be. */
#ifndef BB_PROXIES_AUTHOR_ARGS_H
#define BB_PROXIES_AUTHOR_ARGS_H

#include "proxies/author/script.h"

#define BB_MAX_LAYERS 1000000 /* of layers, stages, micro-batches */

/* A positional number: a count from 1. given: the option of the same meaning, 0 unless it was used as well. Returns 0,
 * or -BB_EUSAGE after a line. */
int bb_args_number(const struct bb_proxy_config *config, const char *word, const char *what, int given, int *value);

#define BB_DEFAULT_TFLOPS 119.8 /* the rate behind the times of gpt3: one layer of 7.628e12 FLOP in 63,660 us */

/* bb_args_index - of a word in a list that holds it; NULL: usual. */
int bb_args_index(const char *word, const char *const *words, int usual);

/* "44" or "44 or 48": the multiples of step around value, at least one of it. Returns text. */
#define BB_MULTIPLES_TEXT 64
const char *bb_multiples(int value, int step, char text[BB_MULTIPLES_TEXT]);

/* bb_args_micro_batches - *m = the micro-batches of a replica: those of --global-batch-size where `samples` (of one
 * micro-batch on all replicas) divide it, those of --micro-batches, or usual. made_of says what samples are: "8 replicas
 * x 2". Returns 0, or -BB_EUSAGE after a line with the nearest valid batches. */
int bb_args_micro_batches(const struct bb_proxy_config *config, int usual, long long samples, const char *made_of,
                          int *m) BB_MUST_CHECK;

/* bb_args_check_ranks - -BB_EUSAGE after a line with the nearest valid numbers unless step divides the ranks, else 0. */
int bb_args_check_ranks(const struct bb_proxy_config *config, int step, const char *why);

/* bb_world_role - a step in which all ranks do the same: a layout with the one group "world", and the one role, to be
 * written by the script. bb_world_lane: a communicator of the world. */
int bb_world_role(const struct bb_proxy_config *config, struct bb_step *step, const char *name,
                  struct bb_script *script) BB_MUST_CHECK;
struct bb_script_lane bb_world_lane(struct bb_step *step, struct bb_script *script, const char *name);

#endif
