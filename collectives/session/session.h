/*
 * session.h - the frame of a bench command that neither sweeps collectives (sweep/bench.c) nor only computes: p2p,
 * comm, overlap. Ranks, GPUs, versions, results, the first lines of the text, and the end of it all.
 *
 *   TRY(bb_session_begin(&s, &options.common));
 *   TRY(bb_session_open(&s, &set, &options, argc, argv));
 *   ...
 *   rc = bb_session_close(&s, rc);
 *   if (bb_session_in_order(&s, rc)) end_rc = ...;          // what ranks share is taken down in order
 *   return bb_session_release(&s, rc, end_rc);
 */
#ifndef BB_COLLECTIVES_SESSION_SESSION_H
#define BB_COLLECTIVES_SESSION_SESSION_H

#include "bootstrap/base/progress.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/results/results.h"
#include "bootstrap/world/comms.h"
#include "collectives/session/telemetry.h"
#include "cuda/device/device.h"

/* Zeroed is empty, so one release fits every state. */
struct bb_session {
    const struct bb_common *common;
    struct bb_world world;
    struct bb_device_info device, *devices; /* own, everybody's [size] */
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
    bool shared_gpu;
    struct bb_telemetry observer;
    unsigned doubts; /* about clocks and power, already said */
    bool together;   /* the run ends early, all ranks know it, and end in order */
    struct bb_results *json;
    struct bb_progress progress;
    FILE *out; /* of the text, NULL: none */
};

/* bb_session_begin - MPI, a GPU per rank, versions, the plugin that hears what NCCL chooses, NVML. common must outlive
 * s. */
int bb_session_begin(struct bb_session *s, const struct bb_common *common) BB_MUST_CHECK;

/* bb_session_open - the results file with head and options, and the output for text. */
int bb_session_open(struct bb_session *s, const struct bb_opts *set, const void *cfg, int argc,
                    char **argv) BB_MUST_CHECK;

/* bb_session_agree - 0 when every rank passed 0, else the first error, after which all end in order. */
int bb_session_agree(struct bb_session *s, int rc, const char *what) BB_MUST_CHECK;

/* bb_session_all_know - passes on a result that is the same on every rank: nobody has to be told. */
int bb_session_all_know(struct bb_session *s, int rc);

/* bb_session_memory - refuse, on all ranks, when `bytes` exceed what the fullest GPU has free. */
int bb_session_memory(struct bb_session *s, size_t bytes, const char *what_would_help) BB_MUST_CHECK;

/* bb_session_head - the lines above everything: program, ranks, GPUs, versions, what the figures are not. */
void bb_session_head(const struct bb_session *s, const char *command);

/*
 * bb_session_flags - flags[] of a row: emulated, shared_gpu, and the doubts (bits of enum bb_nvml_flag). A doubt is
 * said with what helps the first time that it comes up; `what` names the row.
 */
json_t *bb_session_flags(struct bb_session *s, unsigned doubts, const char *what);

/* bb_session_all - members 0 .. n-1 for a communicator of the first n ranks; NULL without memory. The caller frees. */
int *bb_session_all(int n);

int bb_session_close(struct bb_session *s, int rc) BB_MUST_CHECK;
bool bb_session_in_order(const struct bb_session *s, int rc);
int bb_session_release(struct bb_session *s, int rc, int end_rc);

#endif
