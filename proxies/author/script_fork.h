/* script_fork.h - operations of two threads before they are joined (see script.h). Internal to script.c and
 * script_fork.c. */
#ifndef BB_PROXIES_AUTHOR_SCRIPT_FORK_H
#define BB_PROXIES_AUTHOR_SCRIPT_FORK_H

#include "proxies/author/script.h"

/* Whether operations are kept for a join; their numbers, and those of group calls, begin where no program's reach. */
bool bb_script_is_forked(const struct bb_script *s);
int bb_script_fork_next_index(const struct bb_script *s);                     /* of the operation that is kept next   */
int bb_script_fork_add(struct bb_script *s, const struct bb_op *op);    /* its number, or -BB_EFAIL             */
int bb_script_fork_resolve(const struct bb_script *s, int op);             /* what became of a kept one; or itself */
const struct bb_op *bb_script_op_at(const struct bb_script *s, int op); /* kept, or of the program              */

#endif
