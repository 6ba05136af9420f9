/*
 * foreign_line.h - command lines with options of other tools, translated to busbar's options. Internal to the parser of
 * command lines (opts.h).
 */
#pragma once

#include "bootstrap/cli/opts.h"

/* bb_opts_find_foreign - return the row of an option of another tool; NULL: none. Sections of configuration files, such as
 * "parallelism." of "parallelism.tensor_parallel_degree", may precede the name[length]. */
const struct bb_foreign_name *bb_opts_find_foreign(const struct bb_opts *set, const char *name, size_t length);

/* bb_opts_find_value - return the row "NAME=VALUE" of a value of the option name[length], of this or another tool; NULL:
 * none, or value is NULL. */
const struct bb_foreign_name *bb_opts_find_value(const struct bb_opts *set, const char *name, size_t length,
                                                 const char *value);

#define BB_FOREIGN_VALUE 64

/* bb_foreign_convert - convert the value of another tool's option by bb_foreign_name.values. Returns the value itself
 * without a rule that applies, else text. */
const char *bb_foreign_convert(const char *rule, const char *value, char text[BB_FOREIGN_VALUE]);

/*
 * bb_opts_translate - return busbar's words for an option of another tool, owned by the caller; NULL: none, or its value is
 * not valid.
 *   row    in: the row of the option; out: the row of busbar's option if this command does not have it
 *   value  NULL: none
 */
char *bb_opts_translate(const struct bb_opts *set, const struct bb_foreign_name **row, const char *value) BB_MUST_CHECK;

/*
 * bb_opts_reject_foreign_line - reject a command line with two or more options of other tools, or with an option whose
 * translation depends on another one. Prints the line in busbar's options, the added options, and each option that is left
 * out with the reason.
 *   argv     ends with NULL
 *   Returns  0 if the line has fewer such options, else -BB_EUSAGE; also if it starts a script with options, which is not read
 */
int bb_opts_reject_foreign_line(const struct bb_opts *set, char **argv) BB_MUST_CHECK;
