/* script_fork.h - operations of the two threads of a fork before they are joined (see script.h). Internal to
 * script.c and script_fork.c. */
#ifndef BB_PROXIES_AUTHOR_SCRIPT_FORK_H
#define BB_PROXIES_AUTHOR_SCRIPT_FORK_H

#include "proxies/author/script.h"

/* True between fork and join: operations are deferred. Deferred operations and group calls have indices above those
 * of any program. */
bool bb_script_is_forked(const struct bb_script *s);
int bb_script_fork_next_index(const struct bb_script *s);            /* index of the next deferred operation */
int bb_script_fork_add(struct bb_script *s, const struct bb_op *op); /* returns its index, or -BB_EFAIL */
int bb_script_fork_resolve(const struct bb_script *s, int op); /* maps a deferred index to the program's index once
                                                                  issued; other indices are returned unchanged */
const struct bb_op *bb_script_op_at(const struct bb_script *s, int op); /* the operation, deferred or of the program */

#endif
