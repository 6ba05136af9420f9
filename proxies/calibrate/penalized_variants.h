/* penalized_variants.h - slows NCCL variants that the cost model would choose but NCCL does not. */
#ifndef BB_PROXIES_CALIBRATE_PENALIZED_VARIANTS_H
#define BB_PROXIES_CALIBRATE_PENALIZED_VARIANTS_H

#include "proxies/calibrate/calibration.h"

/*
 * bb_penalize_variants - adapt variants that NCCL never chose.
 *
 * The cost model chooses the fastest variant. A variant that NCCL chose in no row, although the model predicts it
 * faster than NCCL's choice in some rows, gets a higher latency (base_us) and lower rates (gbps, nic), until it is no
 * longer faster in any row. Predictions then use NCCL's choices. The changed parameters are attributed to the next fit.
 *   base  starting profile; its variants identify the choice in rows of files that do not record the algorithm
 */
void bb_penalize_variants(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e);

/* bb_is_nccl_choice - whether NCCL chose the row's variant freely among several. */
bool bb_is_nccl_choice(const struct bb_measurement *row);

#endif
