/* unmeasured_rates.h - gives rates of links that the measurements do not determine the factor of those that they do. */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_UNMEASURED_RATES_H
#define BB_PROXIES_OFFLINE_CALIBRATE_UNMEASURED_RATES_H

#include "proxies/offline/calibrate/parameters/calibration.h"

/*
 * bb_scale_unmeasured - scales the rates of NCCL's variants (gbps, nic) and of messages (intra.gbps, inter.gbps) that no
 * fit determined, because all of them use the same links.
 *
 * The factor is fitted / nominal value of ring Simple, which moves most bytes; if the rate of ring Simple was not fitted,
 * the geometric mean of the variants with Simple that were, otherwise of all. Without messages between nodes only the
 * product of inter.gbps and a fraction nic is measured: inter.gbps gets the factor, and the fitted fractions are divided
 * by it. Rates of collectives do not get the factor of messages, which use other channels. Sets c->scaled.
 */
void bb_scale_unmeasured(struct bb_calibration *c);

#endif
