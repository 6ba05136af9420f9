/* penalized_variants.h - makes NCCL variants (algorithm + protocol) slower in the profile if the cost model predicts
 * that they are the fastest, but NCCL does not choose them. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_PENALIZED_VARIANTS_H
#define BB_PROXIES_OFFLINE_CALIBRATE_PENALIZED_VARIANTS_H

#include "proxies/offline/calibrate/parameters/calibration.h"

/*
 * bb_penalize_variants - makes variants (algorithm + protocol) slower in the profile where NCCL did not choose them.
 *
 * The cost model chooses the fastest variant. A variant is penalized if the model predicts for some measurement that it
 * is faster than NCCL's choice. If NCCL chose it at no size, its latency (base_us) is raised and its rates (gbps, nic)
 * are lowered until it is not faster in any measurement, the latency to at most three times that of NCCL's choice in the
 * starting profile. If NCCL chose it from some size on, its values stay as measured,
 * and the profile gets this size as its min_bytes. The report lists the changed parameters with the next fit.
 * c->chosen has the choices.
 */
void bb_penalize_variants(struct bb_calibration *c);

/* bb_choices_assume - sets c->chosen; the starting profile, c->start, predicts NCCL's choice for result files that do not
 * record it. */
void bb_choices_assume(struct bb_calibration *c);

/* bb_choices_correct - changes an assumed choice to that of the fitted profile, c->cluster, if that variant is clearly
 * faster and predicts the measured time better, within 2 %. Returns whether it changed any. */
bool bb_choices_correct(struct bb_calibration *c);

/* bb_is_nccl_choice - returns whether the measurement is a collective whose variant was chosen by NCCL, not by the
 * user. */
bool bb_is_nccl_choice(const struct bb_measurement *row);

#endif
