/*
 * session.h - the frame of every run on GPUs: `bench` in all its modes, and `proxy`. Ranks, a GPU for each, versions,
 * limits, results, the first lines of the text, and the end of it all.
 *
 *   TRY(bb_session_begin(&s, &options.common, BB_SESSION_OBSERVED));
 *   ...                                                     // what only the number of ranks can tell
 *   TRY(bb_session_setup_gpus(&s, 0));
 *   ...
 *   TRY(bb_session_open_results(&s, &(struct bb_results_head){.schema = ..}, &set, &options));
 *   ...
 *   if (bb_session_ends_on_all_ranks(&s, rc)) end_rc = ...;              // what ranks share is taken down in order
 *   return bb_session_release(&s, rc, end_rc);
 *
 * Who knows that the run ends: all ranks, where they agreed on it (bb_world_agree), and of a refusal (BB_EUSAGE), wrong
 * data (BB_EDATA) or a figure below its threshold (BB_EBELOW), which each rank finds from the same data. They end in
 * order. Any other error is of one rank, and ends the others (bb_world_release).
 */
#ifndef BB_COLLECTIVES_SESSION_SESSION_H
#define BB_COLLECTIVES_SESSION_SESSION_H

#include "bootstrap/base/progress.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/results/results.h"
#include "bootstrap/world/comms.h"
#include "collectives/session/nccl_memory.h"
#include "collectives/session/telemetry.h"
#include "cuda/device/device.h"

/* What a run needs besides GPUs: nothing, NCCL, or NCCL and what is known of a row besides its times. */
enum bb_session_use { BB_SESSION_GPUS, BB_SESSION_NCCL, BB_SESSION_OBSERVED };

/* Zeroed is empty, so one release fits every state. */
struct bb_session {
    const struct bb_common *common;
    enum bb_session_use use;
    bool profiler_refused; /* by a plugin of the user's */
    struct bb_world world;
    struct bb_device_info device, *devices; /* own, everybody's [size] */
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
    bool share_env_set; /* NCCL, before it was known whether ranks do */
    bool shared_gpu;
    const struct bb_allocator *memory; /* where NCCL's buffers come from: --buffers */
    bool falls_back;                   /* and NCCL takes it from cudaMalloc, on some rank */
    struct bb_telemetry observer;      /* BB_SESSION_OBSERVED */
    unsigned gpu_flags;                   /* about clocks and power, already said */
    int argc;                          /* the command */
    char **argv;
    struct bb_results *json;
    struct bb_progress progress;
    FILE *out; /* of the text, NULL: none */
};

/* bb_session_begin - the ranks (bb_world_init), and whether this one prints. common must outlive s. What `use` needs of
 * the environment is written before, while there is one thread. */
int bb_session_begin(struct bb_session *s, const struct bb_common *common, enum bb_session_use use) BB_MUST_CHECK;

/* bb_session_setup_gpus - a GPU per rank, from number `first` of the host on; versions, and what begin's `use` names. */
int bb_session_setup_gpus(struct bb_session *s, int first) BB_MUST_CHECK;

/*
 * bb_session_open_results - the results file. Of the head, schema, argc, argv, root, fresh and no_rows are the caller's, the
 * session fills the rest. With a set, its options are written, and MIG and MPS of an observed run.
 */
int bb_session_open_results(struct bb_session *s, const struct bb_results_head *head, const struct bb_opts *set,
                    const void *cfg) BB_MUST_CHECK;

/* bb_session_free_bytes - what the fullest GPU has free. bb_session_check_memory - refuse when `bytes` exceed that. */
int bb_session_free_bytes(struct bb_session *s, size_t *bytes) BB_MUST_CHECK;
int bb_session_check_memory(struct bb_session *s, size_t bytes, const char *what_would_help) BB_MUST_CHECK;

/* bb_session_buffers_name - what NCCL's buffers are of: "nccl", "cuda", or "nccl (cudaMalloc)" where NCCL falls back. */
const char *bb_session_buffers_name(const struct bb_session *s);

/* bb_session_print_buffers - a line about it, where it is not memory that NCCL can register. */
void bb_session_print_buffers(const struct bb_session *s, FILE *out);

/* bb_session_print_head - the lines above everything: the command, ranks, GPUs, versions, what the figures are not. */
void bb_session_print_head(const struct bb_session *s);

/* bb_session_ends_on_all_ranks - whether all ranks know of rc. */
bool bb_session_ends_on_all_ranks(const struct bb_session *s, int rc);

/*
 * bb_session_release - the end of the ranks and of the results, whose status is what this returns: rc, or what went
 * wrong since; end_rc is what taking down gave. "ok" is written when no rank can fail any more.
 */
int bb_session_release(struct bb_session *s, int rc, int end_rc);

#endif
