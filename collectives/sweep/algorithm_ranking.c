/* algorithm_ranking.c - see algorithm_ranking.h. */
#include "collectives/sweep/algorithm_ranking.h"

#include <math.h>

const char *const bb_candidate_status_names[BB_CANDIDATE_COUNT] = {[BB_CANDIDATE_MEASURED] = "measured",
                                                                   [BB_CANDIDATE_NOT_OFFERED] = "not_offered",
                                                                   [BB_CANDIDATE_IGNORED] = "ignored",
                                                                   [BB_CANDIDATE_WRONG] = "wrong_data"};
const char *const bb_candidate_verdict_names[BB_VERDICT_COUNT] = {[BB_VERDICT_UNKNOWN] = "unknown",
                                                                  [BB_VERDICT_BEST] = "best",
                                                                  [BB_VERDICT_AS_GOOD] = "as_good",
                                                                  [BB_VERDICT_NOT_BEST] = "not_best"};

bool bb_significantly_faster(const struct bb_stats *a, const struct bb_stats *b)
{
    return a->ci95[1] < b->ci95[0];
}

const struct bb_stats *bb_ranking_choice_time(const struct bb_ranking *c)
{
    return c->again_us.n > 0 && c->again_us.p50 < c->chosen.time_us.p50 ? &c->again_us : &c->chosen.time_us;
}

/* Returns the measured algorithm/protocol pair with the lowest median among the pairs that are faster than `chosen`,
 * NCCL's choice. If `surely` is set, only significantly faster pairs count. NULL: no such pair. */
static const struct bb_candidate *find_fastest(const struct bb_ranking *c, const struct bb_stats *chosen, bool surely)
{
    const struct bb_candidate *best = NULL;

    for (int i = 0; i < c->n_others; i++) {
        const struct bb_candidate *e = &c->others[i];
        bool counts = e->status == BB_CANDIDATE_MEASURED &&
                      (surely ? bb_significantly_faster(&e->time_us, chosen) : e->time_us.p50 < chosen->p50);
        if (counts && (!best || e->time_us.p50 < best->time_us.p50))
            best = e;
    }
    return best;
}

static bool anything_measured(const struct bb_ranking *c)
{
    for (int i = 0; i < c->n_others; i++)
        if (c->others[i].status == BB_CANDIDATE_MEASURED)
            return true;
    return false;
}

static double ratio(double own_us, double best_us)
{
    return best_us > 0 ? own_us / best_us : NAN;
}

struct bb_outcome bb_ranking_judge(const struct bb_ranking *c)
{
    const struct bb_stats *chosen = bb_ranking_choice_time(c);
    const struct bb_candidate *surely = find_fastest(c, chosen, true), *maybe = find_fastest(c, chosen, false);

    if (c->chosen.ran.kind != BB_CHOICE_COLLECTIVE || isnan(chosen->ci95[0]) || !anything_measured(c))
        return (struct bb_outcome){.verdict = BB_VERDICT_UNKNOWN, .best = &c->chosen, .lost_factor = NAN};
    if (surely)
        return (struct bb_outcome){BB_VERDICT_NOT_BEST, surely, ratio(chosen->p50, surely->time_us.p50)};
    return (struct bb_outcome){
        .verdict = maybe ? BB_VERDICT_AS_GOOD : BB_VERDICT_BEST, .best = &c->chosen, .lost_factor = 1};
}
