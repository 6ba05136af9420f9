/* matrix.c - see matrix.h. */
#include "collectives/health/matrix.h"

#include "bootstrap/base/alloc.h"
#include "collectives/health/verdict/verdict.h"

#include <math.h>
#include <stdlib.h>

enum { MATRIX_NODES = 64, PAIRS_SHOWN = 5 };

void bb_health_matrix_add(struct bb_health_matrix *m, int nodes, int node, int partner, int gpu, double value,
                          double share, double alone)
{
    double *at;

    if (!m->value) {
        BB_NEW(m->value, (size_t)nodes * (size_t)nodes);
        BB_NEW(m->share, (size_t)nodes * (size_t)nodes);
        BB_NEW(m->loaded, (size_t)nodes * (size_t)nodes);
        for (int i = 0; i < nodes * nodes; i++)
            m->value[i] = NAN;
    }
    at = &m->value[node * nodes + partner];
    *at = gpu == 0 ? value : fmin(*at, value);
    m->share[node * nodes + partner] = share;
    m->loaded[node * nodes + partner] = share < BB_HEALTH_OUTLIER * alone;
}

void bb_health_matrix_release(struct bb_health_matrix *m)
{
    free(m->value);
    free(m->share);
    free(m->loaded);
}

int bb_health_matrix_pairs(const struct bb_health_matrix *m, int nodes)
{
    int n = 0;

    for (int i = 0; m->value && i < nodes * nodes; i++)
        n += i / nodes < i % nodes && isfinite(m->value[i]) && !m->loaded[i];
    return n;
}

/* The classes of the matrix, by the limits of the verdicts. */
static char letter_of(double ratio)
{
    return isnan(ratio) ? '.' : ratio < BB_HEALTH_FAILS ? 'F' : ratio < BB_HEALTH_WARNS ? 'w' : '+';
}

static void print_letters(const struct bb_health_matrix *m, int nodes, const double *reference,
                          const char *const *hosts, FILE *out)
{
    for (int a = 0; a < nodes; a++) {
        fprintf(out, "# %3d ", a);
        for (int b = 0; b < nodes; b++)
            fputc(a == b ? ' ' : letter_of(m->value[a * nodes + b] / reference[a * nodes + b]), out);
        fprintf(out, "  %s\n", hosts[a]);
    }
}

void bb_health_matrix_print(const struct bb_health_matrix *m, int nodes, const double *reference, const char *of,
                            const char *const *hosts, FILE *out)
{
    char percent[BB_HEALTH_PERCENT_TEXT];
    double last = -INFINITY;

    if (!m->value)
        return;
    fprintf(out,
            "# pairs of nodes, slowest GPU in %% of %s: + 93 %% or more, w 80 to 93 %%, F below 80 %%, . not "
            "measured\n",
            of);
    if (nodes <= MATRIX_NODES)
        print_letters(m, nodes, reference, hosts, out);
    for (int shown = 0; shown < PAIRS_SHOWN; shown++) { /* the next slower pairs */
        int slowest = -1;

        for (int i = 0; i < nodes * nodes; i++)
            if (i / nodes < i % nodes && m->value[i] / reference[i] > last &&
                m->value[i] < BB_HEALTH_WARNS * reference[i] &&
                (slowest < 0 || m->value[i] / reference[i] < m->value[slowest] / reference[slowest]))
                slowest = i;
        if (slowest < 0)
            return;
        last = m->value[slowest] / reference[slowest];
        fprintf(out, "# slow pair: %s and %s, %.4g GB/s, %s\n", hosts[slowest / nodes], hosts[slowest % nodes],
                m->value[slowest], bb_health_percent(last, percent));
    }
}
