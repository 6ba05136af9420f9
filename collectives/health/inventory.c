/* inventory.c - see inventory.h. An item is a row of a table. */
#include "collectives/health/inventory.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "collectives/compare/inventory_changes.h"
#include "cuda/device/acs.h"
#include "cuda/device/nics.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/utsname.h>

enum { ITEM_TEXT = 64 };

/* FACT: the same on all GPUs. COUNTER: judged by its limits. LIST: "none" on a healthy GPU. */
enum kind { FACT, COUNTER, LIST };

/* What items are read from. */
struct source {
    const struct bb_session *session;
    const char *root; /* folder of /proc and /sys: "", or a copy for the node of an emulated GPU */
    long long counters[BB_NVML_COUNTERS];
};

struct item {
    const char *name;
    enum kind kind;
    void (*read)(const struct source *s, const struct item *item, char *text); /* text: "" before; left so if unknown */
    const char *arg;              /* of `read`: a file, a word, or a unit */
    enum bb_nvml_counter counter; /* of read_counter */
    long long warn, fail;         /* COUNTER: the verdict above this value */
    const char *why;              /* COUNTER, LIST: the finding, before the value */
};
#define NEVER LLONG_MAX

/* ---- reading ---- */

static void read_gpu(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    if (!s->session->device.no_gpu[0])
        snprintf(text, ITEM_TEXT, "%.60s", s->session->device.name);
}

/* Returns the number of GPUs of a rank's node; 0: unknown. Several emulated nodes share the GPUs of a process. */
static int gpus_of(const struct bb_session *s, int rank)
{
    const struct bb_device_info *d = &s->devices[rank];

    return d->emulated && s->world.nodes > 1 && !d->is_short ? 0 : d->node_gpus;
}

static void read_gpus(const struct source *s, const struct item *item, char *text)
{
    const int n = gpus_of(s->session, s->session->world.rank);

    (void)item;
    if (n > 0 || s->session->device.is_short)
        snprintf(text, ITEM_TEXT, "%d", n);
}

static void read_memory(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    if (!s->session->device.no_gpu[0])
        snprintf(text, ITEM_TEXT, "%.1f GB", (double)s->session->device.memory_bytes / 1e9);
}

static void read_clock(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    if (!s->session->device.no_gpu[0])
        snprintf(text, ITEM_TEXT, "%d MHz", s->session->device.clock_khz / 1000);
}

static void read_driver(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    bb_nvml_driver(&s->session->observer.nvml, text, ITEM_TEXT);
}

static void read_cuda(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    if (!s->session->device.no_gpu[0] || s->session->cuda_driver > 0) /* 0: there is no driver */
        snprintf(text, ITEM_TEXT, "%d", s->session->cuda_driver);
}

static void read_nccl(const struct source *s, const struct item *item, char *text)
{
    (void)item;
    snprintf(text, ITEM_TEXT, "%d", s->session->nccl_runtime);
}

static void read_kernel(const struct source *s, const struct item *item, char *text)
{
    struct utsname system;

    (void)s, (void)item;
    if (uname(&system) == 0)
        snprintf(text, ITEM_TEXT, "%.60s", system.release);
}

/* Returns whether /proc and /sys are those of the GPU's host. */
static bool has_host_files(const struct source *s)
{
    return !s->session->device.emulated || s->root[0];
}

#define RDMA "/sys/class/infiniband"

static void read_nics(const struct source *s, const struct item *item, char *text)
{
    char *folder = bb_format("%s" RDMA, s->root);

    (void)item;
    if (has_host_files(s))
        bb_nics_text(folder, text, ITEM_TEXT);
    free(folder);
}

static void read_port_counter(const struct source *s, const struct item *item, char *text)
{
    char *folder = bb_format("%s" RDMA, s->root);
    const long long sum = has_host_files(s) ? bb_nics_counter(folder, item->arg) : -1;

    if (sum >= 0)
        snprintf(text, ITEM_TEXT, "%lld", sum);
    free(folder);
}

static void read_counter(const struct source *s, const struct item *item, char *text)
{
    if (s->counters[item->counter] >= 0)
        snprintf(text, ITEM_TEXT, "%lld%s", s->counters[item->counter], item->arg ? item->arg : "");
}

static void read_throttling(const struct source *s, const struct item *item, char *text)
{
    struct bb_nvml_sample now;
    unsigned flags;

    (void)item;
    bb_nvml_sample(&s->session->observer.nvml, &now);
    if (now.reasons < 0)
        return;
    flags = bb_nvml_flags(&now, &now);
    for (int flag = BB_NVML_HW_SLOWDOWN; flag <= BB_NVML_POWER_BRAKE; flag++)
        if (flags >> flag & 1)
            snprintf(text + strlen(text), ITEM_TEXT - strlen(text), "%s%s", text[0] ? ", " : "",
                     bb_nvml_flag_rows[flag].name);
    if (!text[0])
        snprintf(text, ITEM_TEXT, "none");
}

static void read_acs(const struct source *s, const struct item *item, char *text)
{
    char port[BB_PCI_ADDRESS];
    const int found =
        s->session->device.emulated && !s->root[0] ? -1 : bb_acs_redirects(s->root, s->session->device.pci, port);

    (void)item;
    if (found >= 0)
        snprintf(text, ITEM_TEXT, "%s", found ? port : "none");
}

/* Reads the first line of a file. Returns NULL if there is none; otherwise the caller frees it. */
static char *read_line(const struct source *s, const char *path)
{
    char *name = bb_format("%s%s", s->root, path), *line = NULL;
    FILE *file = fopen(name, "re");
    size_t capacity = 0;

    if (file && getline(&line, &capacity, file) > 0)
        line[strcspn(line, "\n")] = '\0';
    else if (line)
        line[0] = '\0';
    if (file)
        fclose(file);
    if (line)
        bb_blank_controls(line);
    free(name);
    return line;
}

static void read_file(const struct source *s, const struct item *item, char *text)
{
    char *line = read_line(s, item->arg);

    snprintf(text, ITEM_TEXT, "%.60s", line ? line : "");
    free(line);
}

/* Lists the parameters of the kernel's command line that contain a word: "not set" if there are none, "" without the
 * file. */
static void read_parameters(const struct source *s, const struct item *item, char *text)
{
    char *line = read_line(s, "/proc/cmdline"), *rest = line, *one;
    const bool is_known = line != NULL;

    while (rest && (one = strsep(&rest, " ")))
        if (strstr(one, item->arg) && strlen(text) + strlen(one) + 2 < ITEM_TEXT)
            snprintf(text + strlen(text), ITEM_TEXT - strlen(text), "%s%s", text[0] ? " " : "", one);
    if (is_known && !text[0])
        snprintf(text, ITEM_TEXT, "not set");
    free(line);
}

/* Limits: corrected ECC errors and RDMA ports as in Azure's node health checks (azurehpc-health-checks), NVLinks and
 * PCIe as in NVIDIA DCGM (dcgm_gpu_hardware_limits.h; max_pcie_replays of its diagnostic). */
static const struct item items[] = {
    {.name = "GPU", .kind = FACT, .read = read_gpu},
    {.name = BB_HEALTH_ITEM_GPUS, .kind = FACT, .read = read_gpus},
    {.name = "memory", .kind = FACT, .read = read_memory},
    {.name = "maximum SM clock", .kind = FACT, .read = read_clock},
    {.name = "application SM clock", .kind = FACT, .read = read_counter, .arg = " MHz", .counter = BB_NVML_CLOCK_LIMIT},
    {.name = "power limit", .kind = FACT, .read = read_counter, .arg = " W", .counter = BB_NVML_POWER_LIMIT},
    {.name = "driver", .kind = FACT, .read = read_driver},
    {.name = "driver (CUDA)", .kind = FACT, .read = read_cuda},
    {.name = "NCCL", .kind = FACT, .read = read_nccl},
    {.name = "kernel (Linux)", .kind = FACT, .read = read_kernel},
    {.name = "NICs", .kind = FACT, .read = read_nics},
    {.name = "active NVLinks", .kind = FACT, .read = read_counter, .counter = BB_NVML_NVLINKS},
    {.name = "PCIe lanes", .kind = FACT, .read = read_counter, .counter = BB_NVML_PCIE_LANES},
    {.name = "iommu parameters", .kind = FACT, .read = read_parameters, .arg = "iommu"},
    {.name = "numa_balancing", .kind = FACT, .read = read_file, .arg = "/proc/sys/kernel/numa_balancing"},
    {.name = "CPU governor",
     .kind = FACT,
     .read = read_file,
     .arg = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
    {.name = "huge pages", .kind = FACT, .read = read_file, .arg = "/sys/kernel/mm/transparent_hugepage/enabled"},
    {.name = "throttling", .kind = LIST, .read = read_throttling, .why = "clocks are lowered:"},
    {.name = "ACS",
     .kind = LIST,
     .read = read_acs,
     .why = "ACS redirects peer-to-peer transfers, disable it in the BIOS or by setpci; PCIe port"},
#define ROW(name, counter, warn, fail, why)                                                                            \
    {                                                                                                                  \
        name, COUNTER, read_counter, NULL, counter, warn, fail, why                                                    \
    }
    ROW("uncorrected ECC errors", BB_NVML_ECC_UNCORRECTED, 0, NEVER,
        "uncorrected ECC errors since the driver was loaded:"),
    ROW("corrected ECC errors", BB_NVML_ECC_CORRECTED, NEVER, 20000000,
        "corrected ECC errors since the driver was loaded:"),
    ROW("corrected ECC errors, lifetime", BB_NVML_ECC_CORRECTED_EVER, 20000000, NEVER,
        "corrected ECC errors in the life of the GPU:"),
    ROW("corrected SRAM errors", BB_NVML_SRAM_CORRECTED, NEVER, 10000,
        "corrected ECC errors of SRAM since the driver was loaded:"),
    ROW("corrected SRAM errors, lifetime", BB_NVML_SRAM_CORRECTED_EVER, 10000, NEVER,
        "corrected ECC errors of SRAM in the life of the GPU:"),
    ROW("pending row remapping", BB_NVML_REMAP_PENDING, 0, NEVER,
        "a memory row is remapped at the next reset of the GPU; pending:"),
    ROW("failed row remapping", BB_NVML_REMAP_FAILED, NEVER, 0,
        "a memory row could not be remapped, replace the GPU; failures:"),
    ROW("NVLink replays", BB_NVML_NVLINK_REPLAYS, 0, NEVER, "replays of NVLinks:"),
    ROW("NVLink recoveries", BB_NVML_NVLINK_RECOVERIES, 0, NEVER, "recoveries of NVLinks:"),
    ROW("NVLink errors", BB_NVML_NVLINK_ERRORS, 0, NEVER, "CRC and ECC errors of NVLinks:"),
    ROW("PCIe replays", BB_NVML_PCIE_REPLAYS, 80, NEVER, "replays of the PCIe link:"),
#undef ROW
#define PORTS(name, file, warn)                                                                                        \
    {                                                                                                                  \
        name, COUNTER, read_port_counter, file, 0, warn, NEVER, name " of RDMA ports, all of the node:"                \
    }
    PORTS("symbol errors", "symbol_error", 0),
    PORTS("link recoveries", "link_error_recovery", 0),
    PORTS("link failures", "link_downed", 0),
    PORTS("receive errors", "port_rcv_errors", 100),
    PORTS("transmit discards", "port_xmit_discards", 1000),
#undef PORTS
};
enum { ITEMS = sizeof items / sizeof *items };

/* The state of one rank. */
struct state {
    char text[ITEMS][ITEM_TEXT]; /* "": unknown */
    bool has_gpu;
};
struct bb_health_inventory {
    struct state state;
};
const size_t bb_health_inventory_bytes = sizeof(struct bb_health_inventory);

/* Replaces bytes that may be invalid UTF-8, of files of the host or of a text that was cut: JSON would drop the
 * text. */
static void make_ascii(char *text)
{
    for (; *text; text++)
        *text = (unsigned char)*text < 0x80 ? *text : '?';
}

static void read_state(const struct bb_session *session, struct state *state)
{
    char *root = bb_session_host_files(session);
    struct source s = {.session = session, .root = root ? root : ""};

    *state = (struct state){.has_gpu = !session->device.no_gpu[0]};
    bb_nvml_read_counters(&session->observer.nvml, s.counters);
    for (int i = 0; i < ITEMS; i++) {
        items[i].read(&s, &items[i], state->text[i]);
        make_ascii(state->text[i]);
    }
    free(root);
}

/* ---- findings ---- */

enum { MESSAGE = 160 };

/* The verdict on an item of one rank. */
struct message {
    enum bb_health_level level;
    char text[MESSAGE]; /* "": none */
    bool lost_gpus;     /* the node lacks GPUs: about the node, also with one GPU */
};

/* Returns whether an item is unknown because the rank has no GPU, which is a finding of its own. */
static bool lacks(const struct state *one, int item)
{
    return !one->has_gpu && !one->text[item][0];
}

/* Returns the text that most ranks have; "": none has a GPU; NULL: two texts have the most. how: out: how a
 * message names it. */
static const char *usual_text(const struct state *all, int size, int item, const char **how)
{
    const char *usual = NULL, *found = NULL;
    int most = 0, known = 0;

    for (int r = 0; r < size; r++)
        known += !lacks(&all[r], item);
    if (known == 0)
        usual = "";
    for (int r = 0; r < size && 2 * most <= known; r++) {
        int n = 0;

        if (lacks(&all[r], item))
            continue;
        for (int other = 0; other < size; other++)
            n += !lacks(&all[other], item) && strcmp(all[r].text[item], all[other].text[item]) == 0;
        if (n > most)
            usual = found = all[r].text[item];
        else if (n == most && strcmp(all[r].text[item], found) != 0)
            usual = NULL;
        most = MAX(most, n);
    }
    *how = 2 * most > known ? "most have" : "most often";
    return usual;
}

/* Returns the only text with the number of NICs of the profile, which is the usual one although most nodes may have
 * lost a NIC; without it, or if a node has more, `usual`. how: in and out */
static const char *usual_nics(const struct state *all, int size, int item, int node_nics, const char *usual,
                              const char **how)
{
    const char *found = NULL;

    for (int r = 0; r < size && node_nics > 0; r++) {
        const char *text = all[r].text[item];

        if (atoi(text) < node_nics || (found && strcmp(text, found) == 0))
            continue;
        if (found || atoi(text) > node_nics) /* more: also ports of NICs for storage */
            return usual;
        found = text;
    }
    if (!found || (usual && strcmp(found, usual) == 0))
        return usual;
    *how = "expected";
    return found;
}

/* Appends a value and who has it: "iommu=pt (node0 and 1 more)". rank: the first rank with the value; GPUs of a job on
 * one node are named, otherwise nodes. */
static void append_holders(char *text, const struct bb_world *w, const int *gpu_of, const struct state *all, int item,
                           int rank)
{
    const char *value = all[rank].text[item];
    const size_t used = strlen(text);
    char gpu[24];
    int more = 0;

    snprintf(gpu, sizeof gpu, "GPU %d", gpu_of[rank]);
    for (int r = rank + 1, last = w->node_of[rank]; r < w->size; r++)
        if (strcmp(value, all[r].text[item]) == 0 && (w->nodes == 1 || w->node_of[r] != last)) {
            last = w->node_of[r];
            more++;
        }
    snprintf(text + used, MESSAGE - used, "%.32s (%.24s", value[0] ? value : "unknown",
             w->nodes > 1 ? w->hosts[rank] : gpu);
    if (more > 0)
        snprintf(text + strlen(text), MESSAGE - strlen(text), " and %d more", more);
    snprintf(text + strlen(text), MESSAGE - strlen(text), ")");
}

/* Makes the message of all ranks about an item of which two values are equally frequent: no rank is the one that
 * deviates. is_earlier: the baseline has the same values */
static void describe_tie(const struct bb_world *w, const int *gpu_of, const struct state *all, int item,
                         bool is_earlier, struct message *m)
{
    int first = 0, other;

    while (lacks(&all[first], item))
        first++;
    other = first;
    while (lacks(&all[other], item) || strcmp(all[other].text[item], all[first].text[item]) == 0)
        other++;
    m->level = BB_HEALTH_WARN;
    snprintf(m->text, MESSAGE, "%s differ: ", items[item].name);
    append_holders(m->text, w, gpu_of, all, item, first);
    snprintf(m->text + strlen(m->text), MESSAGE - strlen(m->text), ", ");
    append_holders(m->text, w, gpu_of, all, item, other);
    if (is_earlier)
        snprintf(m->text + strlen(m->text), MESSAGE - strlen(m->text), ", as in the baseline");
}

/* Returns whether all ranks have their earlier text of an item. earlier: its entry */
static bool is_unchanged(const struct bb_world *w, const int *gpu_of, const struct state *all, int item,
                         const json_t *earlier)
{
    bool same = earlier != NULL;

    for (int rank = 0; rank < w->size && same; rank++) {
        const char *text = bb_inventory_text(earlier, w->hosts[rank], gpu_of[rank]);

        same = lacks(&all[rank], item) || (text && strcmp(all[rank].text[item], text) == 0);
    }
    return same;
}

/* how: the message names the usual text; tie: the message without an earlier and a usual text (NULL) */
static void judge_fact(const struct item *item, const char *text, const char *usual, const char *how,
                       const char *earlier, const struct message *tie, struct message *m)
{
    const char *reference = earlier ? earlier : usual;

    if (!reference)
        *m = *tie;
    if (!reference || strcmp(text, reference) == 0)
        return;
    m->level = BB_HEALTH_WARN;
    snprintf(m->text, MESSAGE, "%s %s, %s %.60s", item->name, text[0] ? text : "unknown", earlier ? "baseline" : how,
             reference[0] ? reference
             : earlier    ? "unknown"
                          : "none");
}

/* Warns if the hosts of a job on several nodes have no RDMA NIC. A baseline without NICs states that none is
 * expected. */
static void judge_nics(const char *text, int nodes, const char *earlier, struct message *m)
{
    if (nodes < 2 || earlier || !bb_begins_with(text, "0 of "))
        return;
    m->level = BB_HEALTH_WARN;
    snprintf(m->text, MESSAGE, "no RDMA NICs (/sys/class/infiniband): NCCL needs a network plugin or uses TCP");
}

/* Returns the highest number of GPUs of a node, `known` or more. */
static int most_gpus(const struct bb_session *s, int known)
{
    int most = known;

    for (int rank = 0; rank < s->world.size; rank++)
        most = MAX(most, gpus_of(s, rank));
    return most;
}

int bb_health_expected_gpus(const struct bb_health *h, const struct bb_session *s, int node,
                            enum bb_health_level *level)
{
    int n = 0, most = most_gpus(s, h->node_gpus);
    bool any_full = false, is_guess; /* any_full: a node has a GPU for each rank */

    *level = BB_HEALTH_FAIL;
    for (int rank = 0; rank < s->world.size; rank++) {
        if (s->world.node_of[rank] == node && s->devices[rank].no_gpu[0])
            return h->gpus;
        n = s->world.node_of[rank] == node ? MAX(n, gpus_of(s, rank)) : n;
        any_full |= !s->devices[rank].is_short;
    }
    if (most <= n) /* unknown on the others */
        most = any_full ? h->gpus : 0;
    if (n == 0 || n >= most)
        return 0;
    if (h->node_gpus_source == BB_HEALTH_FOUND || (n < h->gpus && (any_full || h->gpus == h->node_gpus)))
        return most;
    is_guess = n % 2 == 0 && h->node_gpus_source == BB_HEALTH_RECOGNISED && most_gpus(s, 0) == n;
    *level = is_guess ? BB_HEALTH_WARN : BB_HEALTH_FAIL;
    return bb_health_is_node_size(n) || (is_guess && n < h->gpus) ? 0 : most;
}

/* Returns whether CUDA_VISIBLE_DEVICES of a rank has a GPU that its node never had: not one of the expected GPUs. */
static bool names_no_gpu(const struct bb_health *h, const struct bb_session *s, int rank)
{
    char *end;
    const long number = strtol(s->devices[rank].absent, &end, 10);

    return s->devices[rank].absent[0] && (*end || number < 0 || number >= MAX(most_gpus(s, h->node_gpus), 1));
}

int bb_health_check_gpus(const struct bb_health *h, const struct bb_session *s)
{
    const struct bb_world *w = &s->world;
    enum bb_health_level level;

    for (int rank = 0; rank < w->size; rank++) {
        const int n = s->devices[rank].node_gpus;

        if (names_no_gpu(h, s, rank))
            return BB_WORLD_ERR(
                w, BB_EUSAGE,
                "CUDA_VISIBLE_DEVICES has '%s', which CUDA does not find on %s; expected numbers or UUIDs "
                "of nvidia-smi -L there",
                s->devices[rank].absent, w->hosts[rank]);
        if (s->devices[rank].is_short && bb_health_expected_gpus(h, s, w->node_of[rank], &level) == 0)
            return BB_WORLD_ERR(w, BB_EUSAGE, "%d ranks on %s but only %d GPU%s; start at most %d per node", h->gpus,
                                w->hosts[rank], n, bb_plural(n), n);
    }
    return 0;
}

/* Describes the GPUs that a rank's node lacks of `expected`; the ranks of a node have the same text. is_guess: only the
 * recognised profile has more */
static void describe_lost(const struct bb_session *s, int rank, int expected, bool is_guess, char text[MESSAGE])
{
    const struct bb_world *w = &s->world;
    const int n = gpus_of(s, rank);
    int lacking = 0, used;

    while (lacking < w->size && (w->node_of[lacking] != w->node_of[rank] || !s->devices[lacking].no_gpu[0]))
        lacking++;
    if (n > 0 && n < expected && is_guess)
        used = snprintf(text, MESSAGE,
                        "CUDA finds %d GPUs, the recognised profile has %d: some may be lost, see nvidia-smi "
                        "-L; if the node has %d: --save-baseline FILE, then --expect FILE",
                        n, expected, n);
    else if (n > 0 && n < expected)
        used = snprintf(text, MESSAGE,
                        "CUDA finds %d GPU%s, expected %d: a GPU may be lost; see nvidia-smi -L, dmesg (Xid)", n,
                        bb_plural(n), expected);
    else if (n > 0) /* other ranks of the node have GPUs */
        used = snprintf(text, MESSAGE, "CUDA finds no GPU for rank %d: %s; see nvidia-smi, dmesg (Xid)", lacking,
                        s->devices[lacking].no_gpu);
    else
        used = snprintf(text, MESSAGE, "CUDA finds no GPU: %s; the driver may be down; see nvidia-smi, dmesg (Xid)",
                        s->devices[rank].no_gpu);
    if (s->devices[rank].is_short && w->nodes == 1 && n > 0 && n < expected)
        snprintf(text + used, (size_t)(MESSAGE - used), "; to test the others: start %d rank%s", n, bb_plural(n));
}

/* Fails each node that may have lost GPUs; if all nodes have the same number, the profile may be wrong. m: [ranks] */
static void judge_gpus(const struct bb_health *h, const struct bb_session *s, struct message *m)
{
    const struct bb_world *w = &s->world;
    const int first = gpus_of(s, 0);
    bool is_common = w->nodes > 1 && !bb_session_is_short(s, -1) && h->node_gpus_source != BB_HEALTH_FOUND, any = false;
    enum bb_health_level *level;
    int *expected;

    BB_NEW(expected, w->nodes);
    BB_NEW(level, w->nodes);
    for (int node = 0; node < w->nodes; node++) {
        expected[node] = bb_health_expected_gpus(h, s, node, &level[node]);
        any |= expected[node] > 0;
    }
    for (int rank = 0; rank < w->size; rank++)
        is_common = is_common && gpus_of(s, rank) == first;
    for (int rank = 0; rank < w->size && any; rank++) {
        const int node = w->node_of[rank];

        m[rank] = (struct message){0}; /* of nodes that only differ from these */
        if (expected[node] == 0)
            continue;
        m[rank].level = is_common ? BB_HEALTH_WARN : level[node];
        m[rank].lost_gpus = true;
        describe_lost(s, rank, expected[node], level[node] == BB_HEALTH_WARN, m[rank].text);
    }
    free(expected);
    free(level);
}

static void judge_item(const struct item *item, const char *text, struct message *m)
{
    const long long value = strtoll(text, NULL, 10), limit = value > item->fail ? item->fail : item->warn;
    const bool is_counter = item->kind == COUNTER;

    if (!text[0] || (is_counter ? value <= MIN(item->warn, item->fail) : strcmp(text, "none") == 0))
        return;
    m->level = is_counter && value > item->fail ? BB_HEALTH_FAIL : BB_HEALTH_WARN;
    snprintf(m->text, MESSAGE, "%s %s", item->why, text);
    if (is_counter && limit > 0)
        snprintf(m->text, MESSAGE, "%s %s, limit %lld", item->why, text, limit);
}

static void add_finding(struct bb_health *h, const struct message *m, int node, int gpu)
{
    struct bb_health_finding f =
        bb_health_remark(BB_HEALTH_TESTS, node < 0 ? BB_HEALTH_ALL : BB_HEALTH_A_NODE, m->level, node, -1, gpu);

    snprintf(f.text, sizeof f.text, "%s", m->text);
    make_ascii(f.text);
    f.lost_gpus = m->lost_gpus;
    bb_health_add(h, &f);
}

static bool is_same(const struct message *a, const struct message *b)
{
    return strcmp(a->text, b->text) == 0;
}

/* Returns whether a rank shares the GPU of a lower rank of its node. */
static bool shares_gpu(const struct bb_session *s, int rank)
{
    bool shares = false;

    for (int r = 0; r < rank && s->devices[rank].is_short && s->devices[rank].uuid[0]; r++)
        shares |=
            s->world.node_of[r] == s->world.node_of[rank] && strcmp(s->devices[r].uuid, s->devices[rank].uuid) == 0;
    return shares;
}

/* Adds the messages [ranks] about an item: one about all nodes, or one about a node, if its GPUs have the same. Ranks
 * without a GPU of their own share one that has its message. */
static void add_messages(struct bb_health *h, const struct bb_session *s, const int *gpu_of, const struct message *m)
{
    const struct bb_world *w = &s->world;
    const struct message **of_node; /* the first one of each node; NULL: its GPUs have different ones */
    bool is_common = w->nodes > 1 && m[0].level == BB_HEALTH_WARN;

    BB_NEW(of_node, w->nodes);
    for (int rank = 0; rank < w->size; rank++)
        if (gpu_of[rank] == 0)
            of_node[w->node_of[rank]] = &m[rank];
    for (int rank = 0; rank < w->size; rank++) {
        const struct message **first = &of_node[w->node_of[rank]];

        is_common = is_common && is_same(&m[rank], &m[0]);
        if (*first && !is_same(*first, &m[rank]))
            *first = NULL;
    }
    if (is_common)
        add_finding(h, &m[0], -1, -1);
    for (int rank = 0; rank < w->size && !is_common; rank++) {
        const bool is_of_node = of_node[w->node_of[rank]];

        if (m[rank].text[0] && (gpu_of[rank] == 0 || !is_of_node) && !shares_gpu(s, rank))
            add_finding(h, &m[rank], w->node_of[rank],
                        is_of_node && (h->gpus > 1 || m[rank].lost_gpus) ? -1 : gpu_of[rank]);
    }
    free(of_node);
}

static json_t *text_or_null(const char *text)
{
    return text[0] ? json_string(text) : json_null();
}

/* Returns the entry of an item in the results. usual: NULL: the ranks differ, and none is known to deviate. m:
 * [ranks] */
static json_t *item_json(const struct bb_world *w, const int *gpu_of, const struct state *all, int item,
                         const char *usual, const struct message *m)
{
    enum bb_health_level level = usual && !usual[0] ? BB_HEALTH_UNKNOWN : BB_HEALTH_OK;
    json_t *others = json_array();

    for (int rank = 0; rank < w->size; rank++) {
        const char *text = all[rank].text[item];

        level = MAX(level, m[rank].level);
        if (!usual || strcmp(text, usual) != 0)
            json_array_append_new(others, json_pack("{s:s, s:i, s:o}", "host", w->hosts[rank], "gpu", gpu_of[rank],
                                                    "value", text_or_null(text)));
    }
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:[]}", "item", items[item].name, "level", bb_health_level_name(level),
                     "counter", items[item].kind == COUNTER, "usual", text_or_null(usual ? usual : ""), "others",
                     others, "grown");
}

int bb_health_inventory(struct bb_health *h, struct bb_session *s, const int *gpu_of, const json_t *baseline,
                        json_t *list, struct bb_health_inventory **first)
{
    const struct bb_world *w = &s->world;
    struct state own, *all;
    int rc;

    read_state(s, &own);
    all = bb_world_gather(&s->world, &own, sizeof own, &rc);
    BB_NEW(*first, 1);
    (*first)->state = own;
    TRY(rc);
    for (int i = 0; i < ITEMS; i++) {
        const char *how, *common = usual_text(all, w->size, i, &how);
        const char *usual =
            items[i].read == read_nics ? usual_nics(all, w->size, i, h->node_nics, common, &how) : common;
        const json_t *earlier = bb_inventory_entry(baseline, items[i].name);
        const bool is_old_tie = !usual && is_unchanged(w, gpu_of, all, i, earlier);
        struct message *m, tie = {0};

        BB_NEW(m, w->size);
        if (!usual)
            describe_tie(w, gpu_of, all, i, is_old_tie, &tie);
        for (int rank = 0; rank < w->size; rank++)
            if (items[i].kind == FACT) {
                const char *before = is_old_tie ? NULL : bb_inventory_text(earlier, w->hosts[rank], gpu_of[rank]);

                if (!lacks(&all[rank], i) &&
                    (items[i].read != read_gpus || all[rank].text[i][0])) /* hidden GPUs: a wish */
                    judge_fact(&items[i], all[rank].text[i], usual, how, before, &tie, &m[rank]);
                if (items[i].read == read_nics)
                    judge_nics(all[rank].text[i], w->nodes, before, &m[rank]);
            } else
                judge_item(&items[i], all[rank].text[i], &m[rank]);
        if (items[i].read == read_gpus)
            judge_gpus(h, s, m);
        add_messages(h, s, gpu_of, m);
        if (list)
            json_array_append_new(list, item_json(w, gpu_of, all, i, usual, m));
        free(m);
    }
out:
    free(all);
    return rc;
}

/* ---- growth of the counters ---- */

/* Returns whether an item counts errors that no other item counts. */
static bool is_growing(const struct item *item)
{
    return item->kind == COUNTER && item->counter != BB_NVML_ECC_CORRECTED_EVER &&
           item->counter != BB_NVML_SRAM_CORRECTED_EVER;
}

/* Adds what an item has grown by on each rank: findings, and to its entry in the results. by: [ranks][ITEMS] */
static void add_growth(struct bb_health *h, const struct bb_session *s, const int *gpu_of, int item,
                       const long long (*by)[ITEMS], json_t *entry)
{
    const struct bb_world *w = &s->world;
    json_t *grown = json_object_get(entry, "grown");
    struct message *m;

    BB_NEW(m, w->size);
    for (int rank = 0; rank < w->size; rank++) {
        if (by[rank][item] <= 0)
            continue;
        m[rank].level = BB_HEALTH_WARN;
        snprintf(m[rank].text, MESSAGE, "%s grew by %lld during the run", items[item].name, by[rank][item]);
        json_array_append_new(grown, json_pack("{s:s, s:i, s:I}", "host", w->hosts[rank], "gpu", gpu_of[rank], "by",
                                               (json_int_t)by[rank][item]));
    }
    add_messages(h, s, gpu_of, m);
    free(m);
}

int bb_health_growth(struct bb_health *h, struct bb_session *s, const int *gpu_of,
                     const struct bb_health_inventory *first, json_t *list)
{
    long long own[ITEMS] = {0}, (*all)[ITEMS] = NULL;
    struct state now;
    int rc;

    read_state(s, &now);
    for (int i = 0; i < ITEMS; i++)
        if (is_growing(&items[i]) && first->state.text[i][0] && now.text[i][0])
            own[i] = strtoll(now.text[i], NULL, 10) - strtoll(first->state.text[i], NULL, 10);
    all = bb_world_gather(&s->world, own, sizeof own, &rc);
    TRY(rc);
    for (int i = 0; i < ITEMS; i++)
        add_growth(h, s, gpu_of, i, (const long long(*)[ITEMS])all, json_array_get(list, (size_t)i));
out:
    free(all);
    return rc;
}
