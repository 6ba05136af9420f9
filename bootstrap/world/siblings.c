/* siblings.c - maps the memory that the ranks of one supervisor share. */
#include "bootstrap/world/siblings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char VARIABLE[] = "BUSBAR_SIBLINGS"; /* "place count fd" (bootstrap/supervise/child.c) */

int bb_siblings_count(void)
{
    const char *text = getenv(VARIABLE);
    int count;

    return text && sscanf(text, "%*d %d", &count) == 1 && count > 1 ? count : 1;
}

int bb_siblings_take(struct bb_siblings **siblings)
{
    const char *text = getenv(VARIABLE);
    struct bb_siblings s = {.done = 0};
    int fd;

    *siblings = NULL;
    if (!text || sscanf(text, "%d %d %d", &s.place, &s.count, &fd) != 3 || s.count < 2 || s.place < 0 ||
        s.place >= s.count)
        return 0;
    s.shared = mmap(NULL, sizeof(*s.shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s.shared == MAP_FAILED)
        return bb_err(BB_EFAIL, "cannot share memory with the other ranks of this process: %s", strerror(errno));
    *siblings = malloc(sizeof(s));
    if (!*siblings)
        return bb_err(BB_EFAIL, "out of memory for %d ranks of a process", s.count);
    **siblings = s;
    return 0;
}

void bb_siblings_release(struct bb_siblings *siblings)
{
    if (siblings)
        munmap(siblings->shared, sizeof(*siblings->shared));
    free(siblings);
}
