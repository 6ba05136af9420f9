/* counted.c - see counted.h. */
#include "proxies/calibrate/counted.h"

#include "bootstrap/base/grow.h"
#include "proxies/calibrate/figures.h"
#include "proxies/calibrate/hold_back.h"

#include <math.h>
#include <stdlib.h>

#define MANY_BYTES (1 << 20) /* smaller messages have fewer channels than there are */

void bb_take_multiprocessors(struct bb_calibration *c, const struct bb_evidence *e)
{
    struct bb_calibration_figure *sms = &c->figures[bb_figure_find(c->figures, c->n_figures, "sm_count")];

    for (size_t f = 0; f < e->n_files; f++)
        if (e->files[f].sm_count > 0) {
            sms->value = c->cluster.sm_count = e->files[f].sm_count;
            sms->fit = 0;
        }
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static size_t gather_channels(const struct bb_evidence *e, double *channels, struct bb_calibration_fit *fit)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_rows; i++)
        if (bb_is_choice(&e->rows[i]) && e->rows[i].channels > 0 && e->rows[i].bytes >= MANY_BYTES) {
            channels[n++] = e->rows[i].channels;
            fit->files |= (size_t)1 << (e->rows[i].file % 64);
        }
    qsort(channels, n, sizeof(double), by_number);
    return n;
}

int bb_take_channels(struct bb_calibration *c, const struct bb_evidence *e)
{
    const int f = bb_figure_find(c->figures, c->n_figures, "sharing.collective_sms");
    struct bb_calibration_fit fit = {.name = "channels"};
    double *channels;
    int rc = BB_NEW(channels, e->n_rows);

    if (rc)
        return rc;
    fit.n_rows = gather_channels(e, channels, &fit);
    if (f >= 0 && fit.n_rows > 0) {
        const double median = fmin(channels[fit.n_rows / 2], c->cluster.sm_count - 1);

        for (size_t i = 0; i < fit.n_rows; i++)
            channels[i] = fabs(median / channels[i] - 1);
        qsort(channels, fit.n_rows, sizeof(double), by_number);
        fit.median_error = channels[fit.n_rows / 2];
        fit.worst_error = channels[fit.n_rows - 1];
        c->cluster.sharing.collective_sms = (int)median;
        c->figures[f].value = median;
        c->figures[f].fit = c->n_fits;
        c->fits[c->n_fits++] = fit;
    }
    free(channels);
    return 0;
}
