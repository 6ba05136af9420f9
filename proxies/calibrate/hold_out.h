/* hold_out.h - ways of NCCL that a profile takes for quicker than NCCL does. */
#ifndef BB_PROXIES_CALIBRATE_HOLD_OUT_H
#define BB_PROXIES_CALIBRATE_HOLD_OUT_H

#include "proxies/calibrate/calibration.h"

/*
 * bb_hold_out - the law takes the quickest way. One that NCCL took for no row, though it would have been quicker there
 * than what NCCL took, gets as much later (base_us) and slower (gbps, nic) that it is no quicker in any row, so that
 * what is predicted is what NCCL does. Its figures are then told by the fit that comes next. base: by its ways rows
 * whose file tells no algorithm were told apart.
 */
void bb_hold_out(struct bb_calibration *c, const struct bb_cluster *base, const struct bb_measurements *e);

/* bb_is_nccl_choice - of NCCL's own, between ways. */
bool bb_is_nccl_choice(const struct bb_measurement *row);

#endif
