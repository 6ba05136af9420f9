/* session.c - see session.h. */
#include "collectives/session/session.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/checks.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/world/siblings.h"
#include "cuda/data/buffers.h"
#include "cuda/device/driver.h"
#include "cuda/load/kernels_load.h"

#include <cuda_runtime_api.h>

#include <stdlib.h>
#include <string.h>

/* ---- ranks and GPUs ---- */

int bb_session_local_ranks(void)
{
    return (bb_launched_alone() ? 1 : bb_launcher_local_size()) * bb_siblings_count();
}

/* Predicts whether ranks of this host will share a GPU: whether the host has more ranks than GPUs. If the launcher
 * does not report the number of ranks per host, returns true unless this is a single process. */
static bool ranks_will_share_gpu(void)
{
    const int ranks = bb_session_local_ranks();
    int gpus;

    if (ranks < 2)
        return ranks == 0;
    gpus = bb_device_count_in_child();
    return gpus < 0 || ranks > gpus;
}

/*
 * Sets NCCL's environment variables for ranks that share a GPU. Must run while the process has one thread: CUDA and MPI
 * start threads, and setenv() concurrent with getenv() is undefined. The assignment of GPUs to ranks is not known yet,
 * but the numbers of ranks and GPUs show whether some ranks must share a GPU.
 */
static int set_share_env_early(struct bb_session *s)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    /* NCCL does not connect the MIG instances of one GPU, so they are treated like ranks that share a GPU. */
    const bool instance =
        s->use >= BB_SESSION_NCCL && visible && strncmp(visible, "MIG-", 4) == 0 && !bb_launched_alone();
    int rc;

    if (!instance && !(s->common->share_gpu && ranks_will_share_gpu()))
        return 0;
    TRY(bb_comms_share_gpu_env(bb_launcher_rank(), instance));
    s->share_env_set = true;
out:
    return rc;
}

int bb_session_begin(struct bb_session *s, const struct bb_common *common, enum bb_session_use use)
{
    const bool to_stdout = bb_results_on_stdout(common->json, common->csv) || common->nagios;
    int rc;

    s->common = common;
    s->use = use;
    s->profiler_warning = use == BB_SESSION_OBSERVED ? bb_profiler_enable() : NULL;
    TRY(bb_results_validate(common->json, common->csv));
    TRY(bb_checks_validate(common->junit, common->prometheus));
    if (common->ras)
        (void)setenv("NCCL_RAS_ENABLE", "1", 1);
    TRY(set_share_env_early(s));
    TRY(bb_world_init(&s->world, common->timeout_s));
    s->out = s->world.rank == 0 && !common->quiet && !to_stdout ? stdout : NULL;
    s->detail = common->full ? s->out : NULL;
    bb_progress_init(&s->progress, s->world.rank, common->quiet);
out:
    return rc;
}

/* A rank without a GPU has the properties of another rank's GPU, so that all ranks predict the same. */
static void describe_missing_gpus(struct bb_session *s)
{
    int rank = 0;

    while (rank < s->world.size - 1 && s->devices[rank].no_gpu[0])
        rank++;
    for (int r = 0; r < s->world.size; r++) {
        const struct bb_device_info missing = s->devices[r];

        if (!missing.no_gpu[0])
            continue;
        s->devices[r] = s->devices[rank];
        s->devices[r].ordinal = missing.ordinal;
        s->devices[r].node_gpus = missing.node_gpus;
        s->devices[r].is_short = missing.is_short;
        memcpy(s->devices[r].absent, missing.absent, sizeof missing.absent);
        memcpy(s->devices[r].no_gpu, missing.no_gpu, sizeof missing.no_gpu);
        s->devices[r].uuid[0] = s->devices[r].pci[0] = '\0';
    }
    s->device = s->devices[s->world.rank];
}

static int choose_device(struct bb_session *s, int first)
{
    struct bb_world *w = &s->world;
    const enum bb_share share = s->common->share_gpu ? BB_SHARE_ANY
                                : s->may_be_short    ? BB_SHARE_IF_SHORT
                                                     : BB_SHARE_NONE;
    int rc = bb_device_choose(w, first, share, &s->device);

    TRY(bb_world_agree(w, rc, "assigning GPUs to ranks"));
    bb_err_identify(w->rank, w->host, s->device.ordinal);
    s->devices = bb_world_gather(w, &s->device, sizeof s->device, &rc);
    TRY(rc);
    describe_missing_gpus(s);
    TRY(bb_cuda_versions(&s->cuda_runtime, &s->cuda_driver));
out:
    return rc;
}

bool bb_session_is_short(const struct bb_session *s, int node)
{
    bool is_short = false;

    for (int rank = 0; rank < s->world.size; rank++)
        is_short |= (node < 0 || s->world.node_of[rank] == node) && s->devices[rank].is_short;
    return is_short;
}

const char *bb_session_sharing(const struct bb_session *s)
{
    return s->common->share_gpu ? "ranks share a GPU" : "ranks have MIG instances of one GPU";
}

const char *bb_session_sharing_note(const struct bb_session *s)
{
    return s->common->share_gpu
               ? "ranks share a GPU: times are meaningless"
               : "ranks have MIG instances of one GPU, with SMs and memory of their own: kernels have the "
                 "times of an instance; copies share PCIe, and NCCL uses sockets; nothing is judged";
}

/* Determines whether ranks share a GPU. If --share-gpu has set NCCL's variables for shared GPUs on one rank, all ranks treat
 * the GPUs as shared. MIG instances of different GPUs are not. */
static int resolve_sharing(struct bb_session *s)
{
    struct bb_world *w = &s->world;
    int rc;

    TRY(bb_world_any(w, &s->share_env_set));
    s->shared_gpu = !bb_session_is_short(s, -1) && bb_device_shared(s->devices, w->node_of, w->size);
    if (s->share_env_set && !s->shared_gpu && !bb_session_is_short(s, -1) && w->rank == 0)
        bb_warn("each rank has its own GPU, but %s",
                s->common->share_gpu ? "--share-gpu makes NCCL use sockets between them: omit --share-gpu"
                                     : "NCCL uses sockets between them, because they use MIG instances");
    s->shared_gpu = s->shared_gpu || (s->share_env_set && s->common->share_gpu);
out:
    return rc;
}

/* Determines on all ranks whether ncclMemAlloc falls back to cudaMalloc. Skips the test if the GPU has no memory
 * left for one allocation; bb_session_check_memory reports the lack of memory later. */
static int detect_memory_fallback(struct bb_session *s)
{
    size_t available = 0;
    unsigned any;
    int rc;

    if (s->use < BB_SESSION_NCCL)
        return 0;
    bb_world_guard(&s->world, "testing ncclMemAlloc");
    rc = s->device.no_gpu[0] ? 0 : bb_device_free_bytes(&available, false);
    if (rc == 0 && s->memory->device_bytes(1) <= available)
        rc = bb_nccl_memory_falls_back(s->memory, &s->falls_back);
    bb_world_unguard(&s->world);
    TRY(bb_world_agree(&s->world, rc, "testing ncclMemAlloc"));
    any = s->falls_back;
    TRY(bb_world_any(&s->world, &any));
    s->falls_back = any;
out:
    return rc;
}

int bb_session_setup_gpus(struct bb_session *s, int first)
{
    int rc = 0;

    bb_warn_hold(0);
    s->memory = bb_nccl_memory(s->common->buffers);
    if (s->profiler_warning && s->world.rank == 0)
        bb_warn("%s", s->profiler_warning);
    if (s->use >= BB_SESSION_NCCL)
        TRY(bb_nccl_version(&s->nccl_header, &s->nccl_runtime));
    bb_world_reached(&s->world, "assigning GPUs to ranks");
    TRY(choose_device(s, first));
    TRY(resolve_sharing(s));
    TRY(detect_memory_fallback(s));
    bb_world_reached(&s->world, "loading the kernels");
    TRY(bb_world_agree(&s->world, s->device.no_gpu[0] ? 0 : bb_kernels_load(), "loading the kernels"));
    bb_world_reached(&s->world, "the start of the run");
    if (s->use == BB_SESSION_OBSERVED)
        TRY(bb_telemetry_open(&s->observer, &s->world, &s->device));
out:
    return rc;
}

int bb_session_free_bytes(struct bb_session *s, size_t *bytes)
{
    int rc;

    *bytes = SIZE_MAX;
    if (!s->device.no_gpu[0])
        TRY(bb_device_free_bytes(bytes, s->use >= BB_SESSION_NCCL && s->world.size > 1));
    TRY(bb_world_min(&s->world, bytes));
out:
    return rc;
}

int bb_session_check_memory(struct bb_session *s, size_t bytes, const char *what_would_help)
{
    size_t available;
    int rc;

    TRY(bb_session_free_bytes(s, &available));
    if (bytes > available)
        rc = s->world.rank ? -BB_EUSAGE : bb_memory_refuse(bytes, available, what_would_help);
    TRY(rc);
    rc = bb_session_check_host_memory(s, bytes, what_would_help);
out:
    return rc;
}

/* Returns the memory of this host that processes can allocate without swapping; SIZE_MAX: unknown. */
static size_t available_host_bytes(void)
{
    size_t kib = SIZE_MAX >> 10;
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];

    while (file && fgets(line, sizeof(line), file) && sscanf(line, "MemAvailable: %zu kB", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib << 10;
}

bool bb_session_moves_data(const struct bb_session *s)
{
    const char *data = getenv("EMU_DATA");

    return !s->device.emulated || !data || strcmp(data, "off") != 0;
}

int bb_session_check_host_memory(struct bb_session *s, size_t bytes, const char *what_would_help)
{
    const int local_ranks = bb_session_local_ranks() > 0 ? bb_session_local_ranks() : s->world.size;
    unsigned long long total = bytes;
    size_t available = available_host_bytes();
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];
    bool too_large;
    int rc;

    if (!s->device.emulated || !bb_session_moves_data(s))
        return 0;
    TRY(bb_world_sum(&s->world, &total));
    TRY(bb_world_min(&s->world, &available));
    total /= (unsigned)s->world.size;
    too_large = total > s->device.memory_bytes; /* for the GPU, which another check reports */
    total *= (unsigned)local_ranks;
    if (total > available && !too_large)
        rc = BB_WORLD_ERR(
            &s->world, BB_EUSAGE,
            "the data of %d emulated GPU%s needs %s of host memory, but %s is available; try: EMU_DATA=off "
            "(no data), or %s",
            local_ranks, bb_plural(local_ranks), bb_format_bytes(total, need), bb_format_bytes(available, have),
            what_would_help);
out:
    return rc;
}

/* ---- results and text output ---- */

static json_t *devices_json(const struct bb_session *s)
{
    json_t *list = json_array();

    for (int r = 0; r < s->world.size; r++) {
        const struct bb_device_info *d = &s->devices[r];

        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:s}", "rank", r, "host", s->world.hosts[r], "name",
                                              d->no_gpu[0] ? "" : d->name, "uuid", d->uuid, "pci", d->pci));
    }
    return list;
}

char *bb_session_host_files(const struct bb_session *s)
{
    const char *files = s->device.emulated ? getenv("EMU_HOST_FILES") : NULL;

    if (files && *files)
        return bb_format("%s/%d", files, s->world.node);
    return s->device.emulated ? NULL : bb_format("%s", "");
}

int bb_session_open_results(struct bb_session *s, const struct bb_results_head *of_schema, const struct bb_opts *set,
                            const void *cfg)
{
    struct bb_results_head head = *of_schema;
    char nvidia_driver[BB_DRIVER_TEXT] = "", *files = bb_session_host_files(s);
    int rc;

    s->argc = head.argc;
    s->argv = head.argv;
    bb_results_set_targets(&head, s->common);
    head.out = stdout;
    head.nccl_header = s->nccl_header;
    head.nccl_runtime = s->nccl_runtime;
    head.cuda_runtime = s->cuda_runtime;
    head.cuda_driver = s->cuda_driver;
    if (files)
        bb_driver_version(files, nvidia_driver);
    head.nvidia_driver = nvidia_driver;
    head.devices = devices_json(s);
    head.emulated = s->device.emulated;
    head.shared_gpu = s->shared_gpu;
    bb_world_reached(&s->world, "opening the results");
    rc = bb_results_open(&s->json, &head, &s->world);
    TRY(bb_world_agree(&s->world, rc, "opening the results"));
    if (s->json && set)
        TRY(bb_results_set(s->json, "options", bb_json_options(set, cfg)));
    if (s->json && set && s->use >= BB_SESSION_NCCL)
        TRY(bb_results_set(s->json, "buffers", json_string(s->falls_back ? "nccl (cudaMalloc)" : s->memory->name)));
    if (s->json && set && s->use == BB_SESSION_OBSERVED)
        TRY(bb_telemetry_save(&s->observer, s->json));
    bb_world_reached(&s->world, "the head of the table");
out:
    free(files);
    json_decref(head.devices);
    return rc;
}

void bb_session_print_buffers(const struct bb_session *s, FILE *out)
{
    if (s->falls_back)
        fprintf(out, "# buffers: cudaMalloc, because ncclMemAlloc falls back to cudaMalloc here; NCCL cannot register "
                     "these buffers for NVLS\n");
    else if (s->memory == &bb_cuda_allocator)
        fprintf(out, "# buffers: cudaMalloc\n");
}

/* Warns if the nodes have different numbers of ranks. */
static void warn_of_uneven_nodes(const struct bb_world *w)
{
    int *n, *first, least = 0, most = 0;

    BB_NEW(n, w->nodes);
    BB_NEW(first, w->nodes);
    for (int rank = w->size - 1; rank >= 0; rank--) {
        n[w->node_of[rank]]++;
        first[w->node_of[rank]] = rank;
    }
    for (int node = 0; node < w->nodes; node++) {
        least = n[node] < n[least] ? node : least;
        most = n[node] > n[most] ? node : most;
    }
    if (n[least] != n[most])
        bb_warn("%s has %d ranks, %s has %d: the NICs of the nodes are used unequally", w->hosts[first[most]], n[most],
                w->hosts[first[least]], n[least]);
    free(first);
    free(n);
}

void bb_session_print_head(const struct bb_session *s)
{
    char header[BB_NCCL_VERSION_TEXT], runtime[BB_NCCL_VERSION_TEXT];

    if (!s->out)
        return;
    bb_print_report_header(s->out, s->argc, s->argv);
    fprintf(s->out, "# %d rank%s on %d node%s: %s\n", s->world.size, bb_plural(s->world.size), s->world.nodes,
            bb_plural(s->world.nodes), s->device.name[0] ? s->device.name : "no usable GPU");
    if (s->detail && s->nccl_runtime > 0)
        fprintf(s->detail, "# NCCL %s (built with %s), CUDA runtime %d.%d, driver %d.%d\n",
                bb_nccl_version_text(s->nccl_runtime, runtime), bb_nccl_version_text(s->nccl_header, header),
                s->cuda_runtime / 1000, s->cuda_runtime % 1000 / 10, s->cuda_driver / 1000, s->cuda_driver % 1000 / 10);
    if (s->use >= BB_SESSION_NCCL)
        bb_session_print_buffers(s, s->out);
    warn_of_uneven_nodes(&s->world);
    if (s->shared_gpu)
        fprintf(s->out, "# %s\n", bb_session_sharing_note(s));
}

const char *bb_session_rank_text(const struct bb_session *s, int rank, char text[BB_RANK_TEXT])
{
    const struct bb_device_info *d = &s->devices[rank];

    snprintf(text, BB_RANK_TEXT, "rank %d (%s, GPU %d, %s)", rank, s->world.hosts[rank], d->ordinal, d->pci);
    return text;
}

void bb_session_warn_slow_gemms(const struct bb_session *s, const char *advice)
{
    if (s->device.emulated && s->world.rank == 0 && bb_session_moves_data(s))
        bb_warn("emulated GPUs compute GEMMs on the CPU, which takes very long; try: %s", advice);
}

/* ---- teardown ---- */

bool bb_session_ends_on_all_ranks(const struct bb_session *s, int rc)
{
    return rc >= 0 || s->world.agreed || rc == -BB_EUSAGE || rc == -BB_EDATA || rc == -BB_EBELOW || rc == -BB_EWARN;
}

int bb_session_release(struct bb_session *s, int rc, int end_rc)
{
    bb_progress_end(&s->progress);
    if (!bb_session_ends_on_all_ranks(s, rc))
        end_rc = rc = s->call_failed && bb_err_record()->call ? s->call_failed : rc;
    else if (end_rc == 0 && s->world.size > 1) /* wait until all ranks have released what must be released
                                                  collectively, such as communicators */
        end_rc = bb_world_barrier(&s->world, "the end of the run");
    if ((rc < 0 || end_rc < 0) && bb_world_ending(&s->world))
        rc = bb_world_ending(&s->world);
    rc = bb_results_close(s->json, rc ? rc : end_rc); /* before the ranks end, because the end of this rank may end the
                                                         other ranks */
    s->json = NULL;
    end_rc = bb_world_release(&s->world, end_rc);
    bb_telemetry_release(&s->observer);
    free(s->devices);
    s->devices = NULL;
    return rc ? rc : end_rc;
}
