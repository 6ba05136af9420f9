/* jitter.c - predicts the step time with random variation of kernel times (see conditions.h and predict.h). */
#include "bootstrap/base/alloc.h"
#include "proxies/simulation/simulate/engine/simulate.h"
#include "proxies/simulation/simulate/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Maximum number of operations, summed over all ranks. MAX_EXECUTED_OPS: in all simulated executions of the step
 * together (limits the run time to one or two minutes), and DEFAULT_OPS without --samples (about 20 s); MAX_OPS: in one execution (limits the memory). */
#define MAX_EXECUTED_OPS 300e6
#define DEFAULT_OPS      80e6
#define MAX_OPS          10e6

int bb_jitter_default_samples(double ops)
{
    const double most = DEFAULT_OPS / fmax(ops, 1);

    return (int)fmax(1, fmin(BB_JITTER_SAMPLES, most));
}

int bb_predict_validate_jitter(int ranks, int replicas, double ops, int samples)
{
    const int fewer = (int)(replicas * MAX_OPS / ops); /* every replica has equally many operations */
    char ranks_text[32] = "";

    if (ops > MAX_OPS && fewer > 0)
        snprintf(ranks_text, sizeof(ranks_text), "--ranks %d or ", ranks / replicas * fewer);
    if (ops > MAX_OPS)
        return bb_err(BB_EUSAGE,
                      "--jitter: %d ranks have %.0f operations in total, at most %.0f are supported; try: %sfewer "
                      "--micro-batches",
                      ranks, ops, MAX_OPS, ranks_text);
    if (ops * samples > MAX_EXECUTED_OPS)
        return bb_err(BB_EUSAGE,
                      "--samples %d: %d samples of %.0f operations each exceed the limit of %.0f; try: --samples %d",
                      samples, samples, ops, MAX_EXECUTED_OPS, (int)(MAX_EXECUTED_OPS / ops));
    return 0;
}

/* Returns the size of the data-parallel group: the number of replicas; 1 without such a group. */
static int count_replicas(const struct bb_layout *l)
{
    for (int g = 0; g < l->n_groups; g++)
        if (strcmp(l->groups[g].name, "dp") == 0 && l->ranks % l->groups[g].size == 0)
            return l->groups[g].size;
    return 1;
}

static int by_length(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int bb_predict_jitter(const struct bb_step *step, const struct bb_cluster *cluster,
                      const struct bb_conditions *conditions, int samples, struct bb_progress *progress,
                      struct bb_jittered *out)
{
    struct bb_faults faults = {0};
    struct bb_sim m = {0};
    int rc;

    *out = (struct bb_jittered){.deviation = conditions->jitter, .seed = (int)conditions->seed, .samples = samples};
    TRY(bb_predict_validate_jitter(step->layout.ranks, count_replicas(&step->layout), bb_step_operations(step),
                                   samples));
    BB_NEW(out->step_ns, samples);
    TRY(bb_sim_init(&m, step, cluster, conditions, &faults));
    bb_simulate_samples(&m, samples, out->step_ns, progress);
    qsort(out->step_ns, (size_t)samples, sizeof(*out->step_ns), by_length);
out:
    bb_sim_release(&m);
    bb_faults_release(&faults);
    if (rc)
        bb_jittered_release(out);
    return rc;
}

void bb_jittered_release(struct bb_jittered *j)
{
    free(j->step_ns);
    *j = (struct bb_jittered){0};
}

enum { TAIL_PERCENT = 5, TAIL_SAMPLES = 100 / TAIL_PERCENT };

double bb_jittered_at(const struct bb_jittered *j, int percent)
{
    const bool is_tail = percent <= TAIL_PERCENT || (percent >= 100 - TAIL_PERCENT && percent < 100);
    const int nth = (int)ceil(j->samples * percent / 100.0);

    if (is_tail && j->samples < TAIL_SAMPLES)
        return NAN;
    return (double)j->step_ns[nth > 0 ? nth - 1 : 0];
}
