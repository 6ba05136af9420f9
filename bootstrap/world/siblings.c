/* siblings.c - maps the memory that the ranks of one supervisor share (siblings.h). */
#include "bootstrap/world/siblings.h"

#include "bootstrap/base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char VARIABLE[] = "BUSBAR_SIBLINGS"; /* set by the supervisor (child.c): index and number at the
                                                  start of the job, descriptor, index and number of those that are left */

/* Reads place and count from the variable. fd: out, descriptor of the shared memory. Returns false if the supervisor
 * has only one rank. */
static bool read_variable(struct bb_siblings *s, int *fd)
{
    const char *text = getenv(VARIABLE);

    return text && sscanf(text, "%*d %*d %d %d %d", fd, &s->place, &s->count) == 3 && s->count > 1 && s->place >= 0 &&
           s->place < s->count;
}

int bb_siblings_count(void)
{
    struct bb_siblings s;
    int fd;

    return read_variable(&s, &fd) ? s.count : 1;
}

int bb_siblings_take(struct bb_siblings **siblings)
{
    struct bb_siblings s = {.done = 0};
    int fd;

    *siblings = NULL;
    if (!read_variable(&s, &fd))
        return 0;
    s.shared = mmap(NULL, sizeof(*s.shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s.shared == MAP_FAILED)
        return bb_err(BB_EFAIL, "cannot share memory with the other ranks of this process: %s", strerror(errno));
    BB_NEW(*siblings, 1);
    **siblings = s;
    return 0;
}

void bb_siblings_release(struct bb_siblings *siblings)
{
    if (siblings)
        munmap(siblings->shared, sizeof(*siblings->shared));
    free(siblings);
}
