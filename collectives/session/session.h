/*
 * session.h - the setup and teardown that every GPU run shares (all modes of `bench`, and `proxy`): ranks, one GPU per
 * rank,
 * library versions, memory checks, the results file and the first lines of the text output.
 *
 *   TRY(bb_session_begin(&s, &options.common, BB_SESSION_OBSERVED));
 *   ...                                                     // checks that need the number of ranks
 *   TRY(bb_session_setup_gpus(&s, 0));
 *   ...
 *   TRY(bb_session_open_results(&s, &(struct bb_results_head){.schema = ..}, &set, &options));
 *   ...
 *   if (bb_session_ends_on_all_ranks(&s, rc)) end_rc = ...; // collective teardown: communicators, windows
 *   return bb_session_release(&s, rc, end_rc);
 *
 * Errors are of two kinds. All ranks return the same error if they agreed on it (bb_world_agree), and for a usage error
 * (BB_EUSAGE), wrong data (BB_EDATA) or a result below its threshold (BB_EBELOW), because each rank derives these from
 * the same data. The ranks then tear down collectively. Any other error occurs on one rank, which ends the other ranks
 * (bb_world_release).
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

/* What a run uses in addition to GPUs: nothing, NCCL, or NCCL plus telemetry (NCCL's selection and the GPU state per row). */
enum bb_session_use { BB_SESSION_GPUS, BB_SESSION_NCCL, BB_SESSION_OBSERVED };

/* A zeroed struct is valid and empty: bb_session_release accepts a session in any state. */
struct bb_session {
    const struct bb_common *common;
    enum bb_session_use use;
    bool profiler_refused; /* NCCL_PROFILER_PLUGIN names another plugin */
    struct bb_world world;
    struct bb_device_info device, *devices; /* this rank's GPU; [size] all ranks' GPUs */
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
    bool share_env_set; /* NCCL's variables for shared GPUs were set before the GPUs were known */
    bool shared_gpu;
    const struct bb_allocator *memory; /* allocator of NCCL's buffers (--buffers) */
    bool falls_back;                   /* on some rank, ncclMemAlloc uses cudaMalloc */
    struct bb_telemetry observer;      /* only with BB_SESSION_OBSERVED */
    unsigned gpu_flags;                /* bits of enum bb_nvml_flag that were already reported */
    int argc;                          /* command line, set by bb_session_open_results */
    char **argv;
    struct bb_results *json;
    struct bb_progress progress;
    FILE *out; /* text output; NULL on all ranks but 0, with --quiet, and if results go to stdout */
};

/*
 * bb_session_begin - initialize the ranks (bb_world_init), select the output, and set the environment variables that
 * `use` needs.
 *   common   must outlive s
 *   Returns  0 or a negative error code
 *   Threads  call while the process has one thread, because the function sets environment variables
 */
int bb_session_begin(struct bb_session *s, const struct bb_common *common, enum bb_session_use use) BB_MUST_CHECK;

/*
 * bb_session_setup_gpus - assign one GPU to each rank, read library versions, load kernels, and open the telemetry if
 * `use` requests it. Collective.
 *   first    ordinal of the first rank's GPU on each host
 */
int bb_session_setup_gpus(struct bb_session *s, int first) BB_MUST_CHECK;

/*
 * bb_session_open_results - open the results file. Collective.
 *   head     schema, argc, argv, root, fresh and no_rows are set by the caller; the session sets the other fields
 *   set      options to write into the results, and MIG and MPS for an observed run; NULL: write neither
 *   cfg      the struct that `set` describes
 */
int bb_session_open_results(struct bb_session *s, const struct bb_results_head *head, const struct bb_opts *set,
                            const void *cfg) BB_MUST_CHECK;

/*
 * bb_session_free_bytes   - return the free memory of the GPU with the least free memory (out: bytes). Collective.
 * bb_session_check_memory - return -BB_EUSAGE if `bytes` exceed that amount; rank 0 prints the error, which ends with
 * the
 *                           advice what_would_help. Collective.
 */
int bb_session_free_bytes(struct bb_session *s, size_t *bytes) BB_MUST_CHECK;
int bb_session_check_memory(struct bb_session *s, size_t bytes, const char *what_would_help) BB_MUST_CHECK;

/* bb_session_buffers_name - return "nccl", "cuda", or "nccl (cudaMalloc)" if ncclMemAlloc falls back to cudaMalloc. */
const char *bb_session_buffers_name(const struct bb_session *s);

/* bb_session_print_buffers - print a line about the buffers if NCCL cannot register them. */
void bb_session_print_buffers(const struct bb_session *s, FILE *out);

/* bb_session_print_head - print the first lines of the text output: command, ranks, GPUs, versions, limits of
 * validity. */
void bb_session_print_head(const struct bb_session *s);

/* bb_session_ends_on_all_ranks - return whether all ranks end with rc, so that collective teardown cannot hang. */
bool bb_session_ends_on_all_ranks(const struct bb_session *s, int rc);

/*
 * bb_session_release - end the ranks and close the results. The status "ok" is written only after no rank can fail any
 * more.
 *   rc       result of the run
 *   end_rc   result of the collective teardown; 0 if there was none
 *   Returns  rc, or the first error since then: the status that the results contain
 */
int bb_session_release(struct bb_session *s, int rc, int end_rc);

#endif
