/*
 * bench_main.h - entry points of `busbar bench` and of `busbar list`.
 */
#ifndef BB_COLLECTIVES_BENCH_MAIN_H
#define BB_COLLECTIVES_BENCH_MAIN_H

#include "bootstrap/base/err.h"

#include <jansson.h>
#include <stddef.h>

/*
 * bb_bench_main - run `busbar bench`; argv[0] is "bench". Every rank calls this function, which finalizes MPI.
 *                   Returns  0, BB_OPTS_HELP after printing the help, or -BB_E...
 */
int bb_bench_main(int argc, char **argv);

/* bb_bench_subcommand_at - return the name of the i-th subcommand of bench that is no collective, such as p2p; NULL past
 * the end. */
const char *bb_bench_subcommand_at(size_t i);

/* bb_bench_check - validate the arguments as bb_bench_main does. Requires neither MPI nor a GPU. Returns 0, or
 * -BB_EUSAGE after printing one error line. */
int bb_bench_check(int argc, char **argv) BB_MUST_CHECK;

/* bb_list_collectives, bb_list_dtypes, bb_list_ops - return the rows of `busbar list`: a new list of JSON objects with
 * the fields of a collective, a data type or a reduction operation. */
json_t *bb_list_collectives(void);
json_t *bb_list_dtypes(void);
json_t *bb_list_ops(void);

#endif
