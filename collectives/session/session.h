/*
 * session.h - setup and teardown of every GPU run (all `bench` commands, and `proxy`): ranks, one GPU per rank, library
 * versions, memory checks, the results file and the first lines of the text output.
 *
 *   TRY(bb_session_begin(&s, &options.common, BB_SESSION_OBSERVED));
 *   ...                                                     // validate options that depend on the number of ranks
 *   TRY(bb_session_setup_gpus(&s, 0));
 *   ...
 *   TRY(bb_session_open_results(&s, &(struct bb_results_head){.schema = ..}, &set, &options));
 *   ...
 *   if (bb_session_ends_on_all_ranks(&s, rc)) end_rc = ...; // collective teardown: communicators, windows
 *   return bb_session_release(&s, rc, end_rc);
 *
 * Errors are of two kinds:
 * - All ranks return the same error: if the ranks agreed on it (bb_world_agree), and for BB_EUSAGE (usage), BB_EDATA
 *   (wrong data) and BB_EBELOW (result below its threshold), which each rank derives from the same data. The ranks then
 *   tear down collectively.
 * - Any other error occurs on one rank. This rank ends the other ranks (bb_world_release).
 */
#ifndef BB_COLLECTIVES_SESSION_SESSION_H
#define BB_COLLECTIVES_SESSION_SESSION_H

#include "bootstrap/cli/opts.h"
#include "bootstrap/cli/progress.h"
#include "bootstrap/results/results.h"
#include "bootstrap/world/comms.h"
#include "collectives/session/nccl_memory.h"
#include "collectives/session/telemetry.h"
#include "cuda/device/device.h"

/* What a run uses. BB_SESSION_GPUS: only GPUs. BB_SESSION_NCCL: GPUs and NCCL. BB_SESSION_OBSERVED: GPUs, NCCL and
 * telemetry, which records for each result the algorithm and protocol that NCCL chose and the GPU state. */
enum bb_session_use { BB_SESSION_GPUS, BB_SESSION_NCCL, BB_SESSION_OBSERVED };

/* State of one run of a command. A zero-initialized struct is empty; bb_session_release accepts a session in any
 * state. */
struct bb_session {
    const struct bb_common *common;
    enum bb_session_use use;
    const char *profiler_warning; /* of bb_profiler_enable; NULL: none */
    struct bb_world world;
    struct bb_device_info device, *devices; /* device: this rank's GPU; devices: [size] GPUs of all ranks */
    int nccl_header, nccl_runtime, cuda_runtime, cuda_driver;
    unsigned share_env_set; /* 1: NCCL's environment variables for ranks that share a GPU are set, from
                               bb_session_setup_gpus on for any rank */
    int call_failed;        /* code of the run if a call of a GPU library or of NCCL fails; 0: -BB_EFAIL */
    bool shared_gpu;
    bool may_be_short; /* set by the caller: ranks share GPUs on a node with too few, without shared_gpu */
    const struct bb_allocator *memory; /* allocator of the buffers that NCCL operations use (--buffers) */
    bool falls_back;                   /* ncclMemAlloc uses cudaMalloc on at least one rank */
    struct bb_telemetry observer;      /* telemetry of the run (telemetry.h); only with BB_SESSION_OBSERVED */
    unsigned gpu_flags; /* bits of enum bb_nvml_flag (such as throttling) for which this run has already printed a
                           warning */
    int argc;           /* argc, argv: command line, set by bb_session_open_results */
    char **argv;
    struct bb_results *json;
    struct bb_progress progress;
    FILE *out;    /* text output of rank 0; NULL on other ranks, with --quiet, and if the results go to stdout */
    FILE *detail; /* the same stream for text that only --full prints; NULL without --full */
};

/* bb_session_local_ranks - return the number of ranks of this host before bb_session_begin; 0: unknown. */
int bb_session_local_ranks(void);

/*
 * bb_session_begin - initialize the ranks (bb_world_init), select the text output, and set the environment variables
 * that `use` requires.
 *   common   must outlive s
 *   Returns  0 or a negative error code
 *   Threads  call while the process has one thread, because the function sets environment variables
 */
int bb_session_begin(struct bb_session *s, const struct bb_common *common, enum bb_session_use use) BB_MUST_CHECK;

/*
 * bb_session_setup_gpus - assign a GPU to each rank, read the library versions, load the kernels, and start the
 * telemetry if `use` requests it. Collective over all ranks.
 *   first    ordinal of the GPU of the first rank on each host
 */
int bb_session_setup_gpus(struct bb_session *s, int first) BB_MUST_CHECK;

/* bb_session_sharing - return why no time is judged, with s->shared_gpu: "ranks share a GPU", or that they have MIG instances
 * of one GPU.
 * bb_session_sharing_note - return the same with what it means for times: for a line of its own. */
const char *bb_session_sharing(const struct bb_session *s);
const char *bb_session_sharing_note(const struct bb_session *s);

/* bb_session_is_short - return whether a node has fewer GPUs than ranks, with s->may_be_short; node -1: whether any has. */
bool bb_session_is_short(const struct bb_session *s, int node);

/*
 * bb_session_open_results - open the results file. Collective over all ranks.
 *   head     the caller sets schema, argc, argv, root, fresh and no_rows; this function sets the other fields
 *   set      options to write to the results. The function then also writes the allocator of the buffers (with NCCL)
 *            and the use of MIG and MPS (with telemetry). NULL: write neither the options nor these values
 *   cfg      the struct that contains the values of the options in `set`
 */
int bb_session_open_results(struct bb_session *s, const struct bb_results_head *head, const struct bb_opts *set,
                            const void *cfg) BB_MUST_CHECK;

/*
 * bb_session_free_bytes   - determine the free memory in bytes of the GPU with the least free memory, without the reserve
 *                           for NCCL (bb_nccl_reserve_bytes) if several ranks use NCCL. Collective over all ranks.
 * bb_session_check_memory - return -BB_EUSAGE if any GPU has less free memory than `bytes`. Rank 0 prints the error,
 *                           followed by the advice in the parameter what_would_help. Collective over all ranks.
 * bb_session_check_host_memory - return -BB_EUSAGE, after rank 0 printed the error and the advice, if the GPUs are
 *                           emulated and the data of the ranks of a host, `bytes` of each rank, exceeds the available
 *                           memory of the host. bb_session_check_memory includes this check. Collective over all ranks.
 */
int bb_session_free_bytes(struct bb_session *s, size_t *bytes) BB_MUST_CHECK;
int bb_session_check_memory(struct bb_session *s, size_t bytes, const char *what_would_help) BB_MUST_CHECK;
int bb_session_check_host_memory(struct bb_session *s, size_t bytes, const char *what_would_help) BB_MUST_CHECK;

/* bb_session_moves_data - return whether operations move data, which emulated GPUs with EMU_DATA=off do not. */
bool bb_session_moves_data(const struct bb_session *s);

/* bb_session_print_buffers - print the allocator of the buffers if they are from cudaMalloc, whose memory NCCL
 * cannot register for NVLS; otherwise print nothing. */
void bb_session_print_buffers(const struct bb_session *s, FILE *out);

/* bb_session_print_head - print the first lines of the text output: command line, ranks, GPUs, versions, and
 * conditions that make the times invalid. */
void bb_session_print_head(const struct bb_session *s);

/* bb_session_rank_text - write "rank 6 (node1, GPU 2, 0000:1b:00.0)" to text and return it. The number of a GPU depends on
 * CUDA_VISIBLE_DEVICES, its PCI address does not. */
enum { BB_RANK_TEXT = BB_HOST_TEXT + 64 };
const char *bb_session_rank_text(const struct bb_session *s, int rank, char text[BB_RANK_TEXT]);

/* bb_session_warn_slow_gemms - print a warning, followed by the advice, if the GPUs are emulated and compute GEMMs on the
 * CPU (EMU_DATA is not "off"). */
void bb_session_warn_slow_gemms(const struct bb_session *s, const char *advice);

/* bb_session_ends_on_all_ranks - return whether every rank ends with the same error or without an error, so that a
 * collective teardown does not hang. rc: result of this rank */
bool bb_session_ends_on_all_ranks(const struct bb_session *s, int rc);

/*
 * bb_session_release - end the ranks and close the results. Writes the status "ok" only when no rank can fail any more.
 *   rc       result of the run
 *   end_rc   result of the collective teardown; 0 if there was none
 *   Returns  rc; if rc is 0, end_rc or the first error of this function. The results contain the same status
 */
int bb_session_release(struct bb_session *s, int rc, int end_rc);

/* bb_session_host_files - return the folder with /proc and /sys of this rank's node: "", or of emulated GPUs $EMU_HOST_FILES/NODE;
 * NULL: emulated GPUs without it. The caller frees it. */
char *bb_session_host_files(const struct bb_session *s);

#endif
