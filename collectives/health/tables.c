/* tables.c - see tables.h. */
#include "collectives/health/tables.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN = 12 };

/* Returns the value of a rail, which all nodes that take part have. */
static double rail_value(const struct bb_health *h, const double *values, int gpu)
{
    double value = NAN;

    for (int node = 0; node < h->nodes; node++)
        value = fmax(value, values[node * h->gpus + gpu]);
    return value;
}

static void keep_pairs(struct bb_health_tables *t, const struct bb_health *h, const int *partner, const double *values)
{
    if (!t->pair) {
        BB_NEW(t->pair, h->nodes * h->nodes);
        for (int i = 0; i < h->nodes * h->nodes; i++)
            t->pair[i] = NAN;
    }
    for (int node = 0; node < h->nodes; node++) {
        double *pair = partner[node] < 0 ? NULL : &t->pair[node * h->nodes + partner[node]], sum = 0;

        for (int gpu = 0; gpu < h->gpus; gpu++)
            sum += values[node * h->gpus + gpu];
        if (pair && isnan(*pair))
            *pair = sum;
    }
}

void bb_health_tables_keep(struct bb_health_tables *t, const struct bb_health *h, enum bb_health_test test,
                           const int *partner, const double *values)
{
    double **rail = &t->rail[test == BB_HEALTH_RAILS];

    if (test == BB_HEALTH_PAIRS)
        keep_pairs(t, h, partner, values);
    if ((test != BB_HEALTH_RAILS && test != BB_HEALTH_RAILS_ALONE) || *rail)
        return;
    BB_NEW(*rail, h->gpus);
    for (int gpu = 0; gpu < h->gpus; gpu++)
        (*rail)[gpu] = rail_value(h, values, gpu);
}

static void print_rails(const struct bb_health_tables *t, const struct bb_health *h, int shown, FILE *out)
{
    fprintf(out, "#rail          alone   at once  (GB/s)\n");
    for (int gpu = 0; gpu < h->gpus && gpu < shown; gpu++)
        fprintf(out, " GPU %-5d %9.2f %9.2f\n", gpu, t->rail[0][gpu], t->rail[1][gpu]);
}

static void print_pairs(const struct bb_health_tables *t, const struct bb_health *h, int shown, FILE *out)
{
    fprintf(out, "# GB/s of two nodes, all GPUs at once\n#node");
    for (int b = 0; b < h->nodes && b < shown; b++)
        fprintf(out, " %7d", b);
    for (int a = 0; a < h->nodes && a < shown; a++) {
        fprintf(out, "\n %4d", a);
        for (int b = 0; b < h->nodes && b < shown; b++) {
            const double value = t->pair[a * h->nodes + b];

            if (isnan(value))
                fprintf(out, " %7s", "-");
            else
                fprintf(out, " %7.1f", value);
        }
    }
    fputc('\n', out);
}

void bb_health_tables_print(const struct bb_health_tables *t, const struct bb_health *h, bool full, FILE *out)
{
    const int units = t->pair ? h->nodes : h->gpus, shown = full || units < SHOWN ? units : SHOWN;

    if (t->pair)
        print_pairs(t, h, shown, out);
    else if (t->rail[0] && t->rail[1])
        print_rails(t, h, shown, out);
    if (shown < units)
        fprintf(out, "# the first %d of %d; all: --full, --json\n", shown, units);
}

void bb_health_tables_release(struct bb_health_tables *t)
{
    free(t->rail[0]);
    free(t->rail[1]);
    free(t->pair);
    *t = (struct bb_health_tables){0};
}
