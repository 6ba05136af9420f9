/* foreign_options.h - options of other programs and commands that users give to `busbar bench` and its subcommands. */
#ifndef BB_COLLECTIVES_OPS_FOREIGN_OPTIONS_H
#define BB_COLLECTIVES_OPS_FOREIGN_OPTIONS_H

#include "bootstrap/cli/opts.h"

extern const struct bb_foreign_name bb_bench_foreign_options[];

#endif
