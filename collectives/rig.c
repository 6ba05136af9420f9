/* rig.c - names and numbers of a rig (see rig.h). */
#include "collectives/rig.h"

const char *const bb_across_names[BB_ACROSS_COUNT] = {[BB_ACROSS_FIRST] = "the first rank",
                                                      [BB_ACROSS_MEAN] = "the mean over ranks",
                                                      [BB_ACROSS_MIN] = "the fastest rank",
                                                      [BB_ACROSS_MAX] = "the slowest rank"};

size_t bb_rig_aggregate(const struct bb_rig *rig)
{
    return rig->aggregate > 1 ? (size_t)rig->aggregate : 1;
}
