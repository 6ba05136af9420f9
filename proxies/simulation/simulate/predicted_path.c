/* predicted_path.c - computes the critical path of a prediction (see predicted_path.h). The operation times of one rank per class of equivalent ranks are used for all ranks of the class. */
#include "proxies/simulation/simulate/predicted_path.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

/* Computes, for each rank r, shown_as[r]: the index in the timeline of the rank that represents r's class of
 * equivalent ranks (rank_classes.h). shown_as: out, [ranks]. */
static void index_classes(const struct bb_timeline *t, const struct bb_prediction *p, int ranks, int *shown_as)
{
    int *index;

    BB_NEW(index, p->n_classes);
    for (int i = 0; i < t->n; i++)
        index[p->class_of[t->ranks[i]]] = i;
    for (int r = 0; r < ranks; r++)
        shown_as[r] = index[p->class_of[r]];
    free(index);
}

int bb_predict_critical_path(const struct bb_step *step, const struct bb_prediction *p, struct bb_critical_path *path)
{
    const int ranks = step->layout.ranks;
    struct bb_timeline t = {0};
    bool *shown = NULL;
    int *shown_as = NULL, rc;

    *path = (struct bb_critical_path){0};
    BB_NEW(shown, ranks);
    BB_NEW(shown_as, ranks);
    for (int c = 0; c < p->n_classes; c++)
        shown[p->classes[c].rank] = true;
    bb_timeline_init_ranks(&t, step, shown);
    TRY(bb_predicted_timeline(step, p, &t));
    index_classes(&t, p, ranks, shown_as);
    bb_critical_path_init(path, &t, shown_as);
out:
    bb_timeline_release(&t);
    free(shown_as);
    free(shown);
    return rc;
}
