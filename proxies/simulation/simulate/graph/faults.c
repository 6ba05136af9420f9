/* faults.c - stores the error texts of the first BB_FAULTS_KEPT mismatches or deadlocks, and counts all of them. */
#include "proxies/simulation/simulate/graph/faults.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

void bb_fault(struct bb_faults *f, const char *fmt, ...)
{
    va_list args;

    if (f->n < BB_FAULTS_KEPT) {
        va_start(args, fmt);
        f->text[f->n] = bb_vformat(fmt, args);
        va_end(args);
    }
    f->n++;
}

void bb_faults_release(struct bb_faults *f)
{
    for (int i = 0; i < f->n && i < BB_FAULTS_KEPT; i++)
        free(f->text[i]);
    *f = (struct bb_faults){0};
}
