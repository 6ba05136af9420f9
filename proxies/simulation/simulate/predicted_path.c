/* predicted_path.c - computes the critical path of a prediction (see predicted_path.h). The operation times of one rank
 * per class of equivalent ranks are used for all ranks of the class. */
#include "proxies/simulation/simulate/predicted_path.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

void bb_predict_critical_path(const struct bb_step *step, const struct bb_prediction *p, struct bb_critical_path *path)
{
    const int ranks = step->layout.ranks;
    struct bb_timeline t;
    bool *shown;
    int *shown_as; /* [ranks] index in the timeline of the rank that represents the rank's class of equivalent ranks */

    BB_NEW(shown, ranks);
    BB_NEW(shown_as, ranks);
    for (int c = 0; c < p->n_classes; c++)
        shown[p->classes[c].rank] = true;
    bb_timeline_init_ranks(&t, step, shown);
    bb_predicted_timeline(step, p, &t);
    for (int i = 0; i < t.n; i++)
        shown_as[t.ranks[i]] = i;
    for (int r = 0; r < ranks; r++)
        shown_as[r] = shown_as[p->classes[p->class_of[r]].rank];
    bb_critical_path_init(path, &t, shown_as);
    bb_timeline_release(&t);
    free(shown_as);
    free(shown);
}
