/* tables.c - see tables.h. */
#include "collectives/health/tables.h"

#include "bootstrap/base/alloc.h"

#include <math.h>
#include <stdlib.h>

enum { SHOWN = 12 };

void bb_health_tables_add(struct bb_health_tables *t, enum bb_health_test test, int node, int gpu, int partner,
                          double value)
{
    double **rail = &t->rail[test == BB_HEALTH_RAILS];

    if (isnan(value))
        return;
    if (test == BB_HEALTH_PAIRS && partner >= 0) {
        struct bb_health_cell *cell;

        if (!t->pair)
            BB_NEW(t->pair, t->nodes * t->nodes);
        cell = &t->pair[node * t->nodes + partner];
        if (cell->n++ < t->gpus)
            cell->sum += value;
    }
    if (test != BB_HEALTH_RAILS && test != BB_HEALTH_RAILS_ALONE)
        return;
    if (!*rail)
        BB_NEW(*rail, t->gpus);
    if ((*rail)[gpu] == 0)
        (*rail)[gpu] = value;
}

/* Prints a value; 0: not measured. */
static void print_value(FILE *out, int width, int decimals, double value)
{
    if (value > 0)
        fprintf(out, " %*.*f", width, decimals, value);
    else
        fprintf(out, " %*s", width, "-");
}

static void print_rails(const struct bb_health_tables *t, int shown, FILE *out)
{
    fprintf(out, "#rail          alone   at once  (GB/s)\n");
    for (int gpu = 0; gpu < shown; gpu++) {
        fprintf(out, " GPU %-5d", gpu);
        for (int i = 0; i < 2; i++)
            print_value(out, 9, 2, t->rail[i] ? t->rail[i][gpu] : 0);
        fputc('\n', out);
    }
}

/* Prints the slowest rail and the median of the rails, alone and at once. */
static void print_slowest(const struct bb_health_tables *t, FILE *out)
{
    static const char *const names[] = {"alone", "at once"};
    const char *before = "# slowest rail ";

    for (int i = 0; i < 2; i++) {
        const double *rail = t->rail[i];
        int slowest = 0;

        if (!rail)
            continue;
        for (int gpu = 1; gpu < t->gpus; gpu++)
            slowest = rail[gpu] < rail[slowest] ? gpu : slowest;
        fprintf(out, "%s%s: GPU %d with %.2f GB/s, typical %.2f GB/s", before, names[i], slowest, rail[slowest],
                bb_health_median(rail, (size_t)t->gpus));
        before = "; ";
    }
    fputc('\n', out);
}

static void print_pairs(const struct bb_health_tables *t, int shown, FILE *out)
{
    fprintf(out, "# GB/s of two nodes, sum of all their GPU pairs at once\n#node");
    for (int b = 0; b < shown; b++)
        fprintf(out, " %7d", b);
    for (int a = 0; a < shown; a++) {
        fprintf(out, "\n %4d", a);
        for (int b = 0; b < shown; b++) {
            const struct bb_health_cell *cell = &t->pair[a * t->nodes + b];

            print_value(out, 7, 1, cell->n >= t->gpus ? cell->sum : 0);
        }
    }
    fputc('\n', out);
}

void bb_health_tables_print(const struct bb_health_tables *t, bool full, FILE *out)
{
    const int units = t->pair ? t->nodes : t->gpus, shown = full || units < SHOWN ? units : SHOWN;
    const bool has_rails = !t->pair && (t->rail[0] || t->rail[1]);

    if (t->pair)
        print_pairs(t, shown, out);
    else if (has_rails)
        print_rails(t, shown, out);
    else
        return;
    if (shown < units)
        fprintf(out, "# the first %d of %d; all: --full, --json\n", shown, units);
    if (has_rails)
        print_slowest(t, out);
}

void bb_health_tables_release(struct bb_health_tables *t)
{
    free(t->rail[0]);
    free(t->rail[1]);
    free(t->pair);
}
