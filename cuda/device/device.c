/* device.c - see device.h. */
#include "cuda/device/device.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "cuda/device/assign.h"
#include "cuda/device/check.h"
#include "cuda/device/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reads the UUID from the driver if possible, because the runtime's properties contain the UUID of the whole GPU instead
 * of the MIG instance. Returns whether both differ: the device is a MIG instance. */
static bool read_uuid(int ordinal, const struct cudaDeviceProp *prop, unsigned char uuid[BB_UUID_BYTES])
{
    if (!bb_driver_uuid(ordinal, uuid))
        memcpy(uuid, prop->uuid.bytes, BB_UUID_BYTES);
    return memcmp(uuid, prop->uuid.bytes, BB_UUID_BYTES) != 0;
}

static void format_uuid(bool is_instance, const unsigned char b[16], char text[BB_UUID_TEXT])
{
    snprintf(text, BB_UUID_TEXT, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             is_instance ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
             b[12], b[13], b[14], b[15]);
}

int bb_device_use(int ordinal, struct bb_device_info *info)
{
    const char *emu_time = getenv("EMU_TIME");
    unsigned char uuid[BB_UUID_BYTES];
    struct cudaDeviceProp prop;
    int rc;

    TRY(BB_CUDA(cudaSetDevice(ordinal)));
    TRY(BB_CUDA(cudaGetDeviceProperties(&prop, ordinal)));
    *info = (struct bb_device_info){.ordinal = ordinal,
                                    .sm_count = prop.multiProcessorCount,
                                    .cc_major = prop.major,
                                    .memory_bytes = prop.totalGlobalMem};
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.0", prop.pciDomainID & 0xffff, prop.pciBusID & 0xff,
             prop.pciDeviceID & 0xff);
    info->is_instance = read_uuid(ordinal, &prop, uuid);
    format_uuid(info->is_instance, uuid, info->uuid);
    info->emulated = strncmp(info->name, "Emulated GPU", strlen("Emulated GPU")) == 0;
    info->virtual_time = info->emulated && !(emu_time && strcmp(emu_time, "real") == 0);
    if (cudaDeviceGetAttribute(&info->clock_khz, cudaDevAttrClockRate, ordinal) != cudaSuccess) {
        info->clock_khz = 0;
        (void)cudaGetLastError();
    }
out:
    return rc;
}

/* ---- assignment of GPUs to ranks ---- */

/* Sets *count to the number of GPUs. Returns NULL, or the reason why there is no GPU. */
static const char *no_gpu_reason(int *count)
{
    cudaError_t e;

    *count = 0;
    e = cudaGetDeviceCount(count);
    (void)cudaGetLastError();
    return e ? cudaGetErrorString(e) : *count == 0 ? "CUDA finds none" : NULL;
}

/* The child of bb_device_count_in_child: exits with the number of GPUs as status. stderr is discarded, because the
 * parent prints the same library messages later. */
static _Noreturn void count_and_exit(void)
{
    int count, nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    (void)no_gpu_reason(&count);
    _exit(count < 0 ? 0 : count > 255 ? 255 : count);
}

int bb_device_count_in_child(void)
{
    int status;
    pid_t child = fork();

    if (child == 0)
        count_and_exit();
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Writes the first entry of CUDA_VISIBLE_DEVICES that is not among its first n to text; "": there is none. An entry that CUDA
 * does not find hides the later ones. */
static void find_absent(const char *listed, int n, char text[BB_ABSENT_TEXT])
{
    for (; listed && *listed && n > 0; n--)
        listed = strchr(listed, ',') ? strchr(listed, ',') + 1 : NULL;
    if (listed) {
        listed += strspn(listed, " ");
        snprintf(text, BB_ABSENT_TEXT, "%.*s", (int)strcspn(listed, ","), listed);
    }
}

/* absent: out, as in struct bb_device_info */
static int list_visible(struct bb_visible *visible, char absent[BB_ABSENT_TEXT])
{
    const char *listed = getenv("CUDA_VISIBLE_DEVICES");
    struct cudaDeviceProp prop = {.name = ""};
    int count, driver = 0, rc = 0;

    memset(visible, 0, sizeof(*visible));
    absent[0] = '\0';
    visible->hides_all = listed && strspn(listed, "0123456789GM") == 0; /* "", "-1", "NoDevFiles"; not 0, GPU-, MIG- */
    visible->has_driver = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    if (no_gpu_reason(&count)) {
        find_absent(visible->hides_all ? NULL : listed, 0, absent);
        return 0; /* choose_ordinal reports the missing GPU after all ranks have exchanged their lists of visible
                     GPUs */
    }
    visible->n = count < BB_VISIBLE_MAX ? count : BB_VISIBLE_MAX;
    for (int i = 0; i < visible->n; i++) {
        TRY(BB_CUDA(cudaGetDeviceProperties(&prop, i)));
        visible->has_instances |= read_uuid(i, &prop, visible->uuid[i]);
    }
    find_absent(strstr(prop.name, " MIG ") ? NULL : listed, count,
                absent); /* CUDA shows one MIG instance of those listed */
out:
    return rc;
}

/* Returns whether the GPU with device number `slot` on rank r has already been counted: a lower rank of the same
 * node sees the same GPU, or rank r itself sees the GPU under a lower device number. */
static bool is_counted_before(const struct bb_world *w, const struct bb_visible *all, int r, int slot)
{
    for (int i = 0; i <= r; i++)
        for (int s = 0; w->node_of[i] == w->node_of[r] && s < (i < r ? all[i].n : slot); s++)
            if (memcmp(all[i].uuid[s], all[r].uuid[slot], BB_UUID_BYTES) == 0)
                return true;
    return false;
}

static int count_gpus(const struct bb_world *w, const struct bb_visible *all)
{
    int n = 0;

    for (int r = 0; r < w->size; r++)
        for (int s = 0; w->node_of[r] == w->node && s < all[r].n; s++)
            n += !is_counted_before(w, all, r, s);
    return n;
}

/* Returns whether CUDA shows no GPU to a rank of this node, although no variable hides them: its driver may be down. */
static bool lacks_gpus(const struct bb_world *w, const struct bb_visible *all)
{
    bool lacks = false;

    for (int r = 0; r < w->size; r++)
        lacks |= w->node_of[r] == w->node && all[r].n == 0 && !all[r].hides_all;
    return lacks;
}

/* Returns the lowest rank that has no GPU and needs one; -1: there is none. */
static int needy_rank(const struct bb_world *w, const struct bb_visible *all, enum bb_share share)
{
    bool any = false;
    int rank = -1;

    for (int r = 0; r < w->size; r++)
        any |= all[r].n > 0 || all[r].has_driver;
    for (int r = w->size - 1; r >= 0; r--)
        if (all[r].n == 0 && (!any || share != BB_SHARE_IF_SHORT || all[r].hides_all))
            rank = r;
    return rank;
}

/* Returns whether variables of CUDA and of NVIDIA's container toolkit list no more than n GPUs, so that they may hide some. */
static bool may_hide_gpus(int n)
{
    const char *const lists[] = {getenv("CUDA_VISIBLE_DEVICES"), getenv("NVIDIA_VISIBLE_DEVICES")};
    bool may_hide = false;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int listed = 1;

        for (const char *c = lists[i]; c && (c = strchr(c, ',')); c++)
            listed++;
        may_hide |= lists[i] && *lists[i] && strcmp(lists[i], "all") != 0 && listed <= n;
    }
    return may_hide;
}

/* Reports that ranks would share a MIG instance, of which CUDA shows a process one, with the line that gives each rank its own. */
static int report_instance(const struct bb_world *w, const struct bb_assigned *assigned, int count, const char *uuid)
{
    return bb_err(BB_EUSAGE,
                  "%d ranks on this host, but CUDA shows them only %d MIG instance%s: ranks %d and %d would share %s; "
                  "try: sh -c 'CUDA_VISIBLE_DEVICES=$(nvidia-smi -L | grep -o \"MIG-[^)]*\" | sed -n "
                  "$((${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$SLURM_LOCALID}} + 1))p) "
                  "exec \"$0\" \"$@\"' busbar COMMAND",
                  w->local_size, count, bb_plural(count), assigned->owner, assigned->unassigned, uuid);
}

/* Reports that a rank could not be assigned a GPU. Returns the error code on all ranks; only the rank without a GPU
 * prints the error. */
static int report_unassigned(const struct bb_world *w, const struct bb_visible *all, int first,
                             const struct bb_assigned *assigned)
{
    const int unassigned = assigned->unassigned, owner = assigned->owner, seen = all[unassigned].n;
    const enum bb_error code = seen > 0 ? BB_EUSAGE : BB_EFAIL;
    char uuid[BB_UUID_TEXT];
    const char *why;
    int count;

    if (w->rank != unassigned)
        return -(int)code;
    why = no_gpu_reason(&count);
    if (seen == 0)
        return bb_err(code, "no usable GPU on this host: %s%s",
                      why ? why : "CUDA found none at first, but finds one now",
                      bb_environment_is_emulated() ? "" : "; try: busbar-emulated, which runs on emulated GPUs");
    if (first > 0)
        return bb_err(code, "%d ranks on this host need GPUs %d to %d, but the host has only GPUs 0 to %d",
                      w->local_size, first, first + w->local_size - 1, seen - 1);
    format_uuid(all[unassigned].has_instances, all[unassigned].uuid[0], uuid);
    count = count_gpus(w, all);
    if (count < w->local_size && all[unassigned].has_instances)
        return report_instance(w, assigned, count, uuid);
    if (count < w->local_size)
        return bb_err(code,
                      "%d ranks on this host but only %d GPU%s: ranks %d and %d would share %s; start at most %d per "
                      "host, or let ranks share a GPU with --share-gpu (for tests: timings are meaningless)",
                      w->local_size, count, bb_plural(count), owner, unassigned, uuid, count);
    return bb_err(code,
                  "ranks %d (%s) and %d would share %s: make a separate GPU visible to each (CUDA_VISIBLE_DEVICES), or "
                  "let them share it with --share-gpu (for tests: timings are meaningless)",
                  owner, w->hosts[owner], unassigned, uuid);
}

/* Sets *ordinal to the device number of this rank, -1: it has none, or returns the error of report_unassigned. */
static int choose_ordinal(const struct bb_world *w, const struct bb_visible *all, int first, enum bb_share share,
                          bool any_short, int *ordinal)
{
    const int needy = needy_rank(w, all, share), own = all[w->rank].n;
    struct bb_assigned assigned = {needy, -1};
    int *ordinals;

    BB_NEW(ordinals, w->size);
    if (needy < 0)
        bb_devices_assign(all, w->size, first, ordinals, &assigned);
    *ordinal = ordinals[w->rank];
    free(ordinals);
    if (assigned.unassigned >= 0 && (needy >= 0 || !(share == BB_SHARE_ANY || any_short)))
        return report_unassigned(w, all, first, &assigned);
    if (assigned.unassigned >= 0)
        *ordinal = own > 0 ? (first + w->local_rank) % own : -1;
    return 0;
}

/* Makes the GPU of this rank current, if it has one. Sets *info, except node_gpus, absent and is_short. */
static int use_device(int ordinal, struct bb_device_info *info)
{
    const struct bb_device_info of_node = *info;
    const char *why;
    int n, rc = 0;

    if (ordinal < 0) {
        why = no_gpu_reason(&n);
        snprintf(info->no_gpu, sizeof info->no_gpu, "%s", why ? why : "CUDA found none at first");
        info->ordinal = -1;
        info->emulated = bb_environment_is_emulated();
    } else {
        rc = bb_device_use(ordinal, info);
        info->node_gpus = of_node.node_gpus;
        info->is_short = of_node.is_short;
        memcpy(info->absent, of_node.absent, sizeof info->absent);
    }
    return rc;
}

int bb_device_choose(struct bb_world *w, int first, enum bb_share share, struct bb_device_info *info)
{
    struct bb_visible own, *all = NULL;
    char absent[BB_ABSENT_TEXT];
    unsigned any_short;
    bool lacks;
    int ordinal = 0, n, rc;

    rc = list_visible(&own, absent);
    TRY(bb_world_agree(w, rc, "query of the GPUs"));
    all = bb_world_gather(w, &own, sizeof(own), &rc);
    TRY(rc);
    n = count_gpus(w, all);
    lacks = share == BB_SHARE_IF_SHORT && lacks_gpus(w, all);
    *info = (struct bb_device_info){.node_gpus = may_hide_gpus(n) && !lacks ? 0 : n};
    info->is_short = lacks || (share == BB_SHARE_IF_SHORT && info->node_gpus > 0 && info->node_gpus < w->local_size);
    memcpy(info->absent, absent, sizeof absent);
    any_short = info->is_short;
    TRY(bb_world_any(w, &any_short));
    TRY(choose_ordinal(w, all, first, share, any_short, &ordinal));
    TRY(use_device(ordinal, info));
out:
    free(all);
    return rc;
}

/* Two ranks share a GPU if the UUIDs are equal, or if the PCI addresses on one node are equal. MIG instances of a
 * GPU have different UUIDs, but the same PCI address, and NCCL treats them as one GPU. */
bool bb_device_shared(const struct bb_device_info *infos, const int *node_of, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(infos[i].uuid, infos[j].uuid) == 0 ||
                (node_of[i] == node_of[j] && strcmp(infos[i].pci, infos[j].pci) == 0))
                return true;
    return false;
}

size_t bb_nccl_reserve_bytes(size_t memory)
{
    const size_t most = (size_t)4 << 30;

    return memory / 16 < most ? memory / 16 : most;
}

int bb_device_free_bytes(size_t *bytes, bool uses_nccl)
{
    size_t total, reserve;
    int rc;

    TRY(BB_CUDA(cudaMemGetInfo(bytes, &total)));
    reserve = uses_nccl ? bb_nccl_reserve_bytes(total) : 0;
    *bytes -= *bytes < reserve ? *bytes : reserve;
out:
    return rc;
}

int bb_cuda_versions(int *runtime, int *driver)
{
    int rc;

    TRY(BB_CUDA(cudaRuntimeGetVersion(runtime)));
    TRY(BB_CUDA(cudaDriverGetVersion(driver)));
out:
    return rc;
}
