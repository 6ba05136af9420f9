/* script_fork.h - stores the operations of the two logical threads of a fork until the join (see script.h). Internal
 * to script.c and script_fork.c. */
#ifndef BB_PROXIES_FORM_AUTHOR_SCRIPT_FORK_H
#define BB_PROXIES_FORM_AUTHOR_SCRIPT_FORK_H

#include "proxies/form/author/script.h"

/* bb_script_is_forked - return whether the program is between a fork (start of two concurrent logical threads) and
 * its join. In between, operations are deferred: they are stored, and the join appends them to the program. Deferred
 * operations and their NCCL group calls have numbers that are larger than every program index. */
bool bb_script_is_forked(const struct bb_script *s);
int bb_script_fork_next_index(const struct bb_script *s); /* returns the number of the next deferred operation */
int bb_script_fork_add(struct bb_script *s, const struct bb_op *op); /* stores an operation until the join; returns
                                                                        its number */
/* returns the program index of the deferred operation with number `op` if the join has already appended it to the
 * program; otherwise returns `op` */
int bb_script_fork_resolve(const struct bb_script *s, int op);
/* returns the deferred operation with number `op`, or the program's operation with index `op` */
struct bb_op *bb_script_op_at(const struct bb_script *s, int op);

#endif
