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

/* Returns the measured algorithm/protocol pair with the lowest median, other than NCCL's choice; NULL: no such pair.
 * than: consider only pairs that are significantly faster; NULL: consider all. */
static const struct bb_candidate *find_fastest(const struct bb_ranking *c, const struct bb_stats *than)
{
    const struct bb_candidate *best = NULL;

    for (int i = 0; i < c->n_others; i++) {
        const struct bb_candidate *e = &c->others[i];

        if (e->status == BB_CANDIDATE_MEASURED && (!than || bb_significantly_faster(&e->time_us, than)) &&
            (!best || e->time_us.p50 < best->time_us.p50))
            best = e;
    }
    return best;
}

struct bb_outcome bb_ranking_judge(const struct bb_ranking *c)
{
    const struct bb_stats *chosen = bb_ranking_choice_time(c);
    const struct bb_candidate *fastest = find_fastest(c, NULL), *surely = find_fastest(c, chosen);
    struct bb_outcome o = {.verdict = BB_VERDICT_UNKNOWN, .best = &c->chosen, .lost_factor = NAN};

    if (c->chosen.ran.kind != BB_CHOICE_COLLECTIVE || isnan(chosen->ci95[0]) || !fastest)
        return o;
    if (surely)
        return (struct bb_outcome){BB_VERDICT_NOT_BEST, surely,
                                   surely->time_us.p50 > 0 ? chosen->p50 / surely->time_us.p50 : NAN};
    o.verdict = fastest->time_us.p50 < chosen->p50 ? BB_VERDICT_AS_GOOD : BB_VERDICT_BEST;
    o.lost_factor = 1;
    return o;
}
