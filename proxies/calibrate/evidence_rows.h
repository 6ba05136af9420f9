/* evidence_rows.h - the rows of one result file; a room's own header. */
#ifndef BB_PROXIES_CALIBRATE_EVIDENCE_ROWS_H
#define BB_PROXIES_CALIBRATE_EVIDENCE_ROWS_H

#include "proxies/calibrate/evidence.h"

/* bb_evidence_take - the rows of a file of busbar bench, _take_foreign of nccl-tests; its head has been read. */
int bb_evidence_take(struct bb_evidence *e, const json_t *root) BB_MUST_CHECK;
int bb_evidence_take_foreign(struct bb_evidence *e, json_t *root) BB_MUST_CHECK;

#endif
