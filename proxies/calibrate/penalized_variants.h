/* penalized_variants.h - makes NCCL variants slower that the cost model would choose although NCCL does not choose
 * them. */
#ifndef BB_PROXIES_CALIBRATE_PENALIZED_VARIANTS_H
#define BB_PROXIES_CALIBRATE_PENALIZED_VARIANTS_H

#include "proxies/calibrate/calibration.h"

/*
 * bb_penalize_variants - adapts variants that NCCL never chose.
 *
 * The cost model chooses the fastest variant. A variant is penalized if NCCL never chose it although in some
 * measurement the model predicts the variant to be faster than NCCL's choice. Its latency (base_us) is raised and its
 * rates (gbps, nic) are lowered until the variant is not faster in any measurement. Predictions then use NCCL's
 * choices. The changed parameters are attributed to the next fit.
 *   base  starting profile, whose variants identify NCCL's choice in files that do not record the algorithm
 */
void bb_penalize_variants(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e);

/* bb_is_nccl_choice - returns whether the measurement is a collective for which NCCL chose the variant, not the
 * user. */
bool bb_is_nccl_choice(const struct bb_measurement *row);

#endif
