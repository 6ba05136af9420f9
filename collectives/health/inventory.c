/* inventory.c - see inventory.h. A fact or a counter is a row of a table. */
#include "collectives/health/inventory.h"

#include "bootstrap/base/alloc.h"
#include "cuda/device/nics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

enum { FACT_TEXT = 64 };

/* What facts are read from. */
struct source {
    const struct bb_session *session;
    const char *root; /* folder of /proc and /sys: "", or a copy for the node of an emulated GPU */
    long long counters[BB_NVML_COUNTERS];
};

/* ---- facts, which should be the same everywhere ---- */

static void read_gpu(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    snprintf(text, FACT_TEXT, "%.60s", s->session->device.name);
}

static void read_memory(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    snprintf(text, FACT_TEXT, "%.1f GB", (double)s->session->device.memory_bytes / 1e9);
}

static void read_clock(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    snprintf(text, FACT_TEXT, "%d MHz", s->session->device.clock_khz / 1000);
}

static void read_driver(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    bb_nvml_driver(&s->session->observer.nvml, text, FACT_TEXT);
}

static void read_cuda(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    snprintf(text, FACT_TEXT, "%d", s->session->cuda_driver);
}

static void read_nccl(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    snprintf(text, FACT_TEXT, "%d", s->session->nccl_runtime);
}

static void read_kernel(const struct source *s, const char *arg, char *text)
{
    struct utsname system;

    (void)s, (void)arg;
    if (uname(&system) == 0)
        snprintf(text, FACT_TEXT, "%.60s", system.release);
}

static void read_nics(const struct source *s, const char *arg, char *text)
{
    char *folder = bb_format("%s%s", s->root, arg);
    struct bb_nics nics = {0};

    if (!s->session->device.emulated || s->root[0])
        nics = bb_nics_read(folder);
    snprintf(text, FACT_TEXT, "%d of %g Gb/s", nics.n, nics.gbit_s);
    free(folder);
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
    free(name);
    return line;
}

static void read_file(const struct source *s, const char *path, char *text)
{
    char *line = read_line(s, path);

    snprintf(text, FACT_TEXT, "%.60s", line ? line : "");
    free(line);
}

/* Lists the parameters of the kernel's command line that contain `word`. */
static void read_parameters(const struct source *s, const char *word, char *text)
{
    char *line = read_line(s, "/proc/cmdline"), *rest = line, *one;

    while (rest && (one = strsep(&rest, " ")))
        if (strstr(one, word) && strlen(text) + strlen(one) + 2 < FACT_TEXT) {
            strcat(text, text[0] ? " " : "");
            strcat(text, one);
        }
    free(line);
}

static void read_links(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    if (s->counters[BB_NVML_NVLINKS] >= 0)
        snprintf(text, FACT_TEXT, "%lld", s->counters[BB_NVML_NVLINKS]);
}

static void read_lanes(const struct source *s, const char *arg, char *text)
{
    (void)arg;
    if (s->counters[BB_NVML_PCIE_LANES] >= 0)
        snprintf(text, FACT_TEXT, "%lld", s->counters[BB_NVML_PCIE_LANES]);
}

static const struct fact {
    const char *name;
    void (*read)(const struct source *s, const char *arg, char *text); /* text: empty before; left so if unknown */
    const char *arg;
} facts[] = {
    {"GPU", read_gpu, NULL},
    {"memory", read_memory, NULL},
    {"maximum SM clock", read_clock, NULL},
    {"driver", read_driver, NULL},
    {"driver (CUDA)", read_cuda, NULL},
    {"NCCL", read_nccl, NULL},
    {"kernel (Linux)", read_kernel, NULL},
    {"NICs", read_nics, "/sys/class/infiniband"},
    {"active NVLinks", read_links, NULL},
    {"PCIe lanes", read_lanes, NULL},
    {"iommu parameters", read_parameters, "iommu"},
    {"numa_balancing", read_file, "/proc/sys/kernel/numa_balancing"},
    {"CPU governor", read_file, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"},
    {"huge pages", read_file, "/sys/kernel/mm/transparent_hugepage/enabled"},
};
enum { FACTS = sizeof facts / sizeof *facts };

/* Counters that are 0 on a healthy GPU. */
static const struct limit {
    enum bb_nvml_counter counter;
    enum bb_health_level level;
    const char *text;
} limits[] = {
    {BB_NVML_ECC_UNCORRECTED, BB_HEALTH_WARN, "uncorrected ECC errors since the driver was loaded:"},
    {BB_NVML_REMAP_PENDING, BB_HEALTH_WARN, "a memory row is remapped at the next reset of the GPU; pending:"},
    {BB_NVML_REMAP_FAILED, BB_HEALTH_FAIL, "a memory row could not be remapped, replace the GPU; failures:"},
    {BB_NVML_NVLINK_RECOVERIES, BB_HEALTH_WARN, "recoveries of NVLinks:"},
};

/* The state of one rank. */
struct state {
    char text[FACTS][FACT_TEXT];
    unsigned gpu_flags; /* bits of enum bb_nvml_flag */
    long long counters[BB_NVML_COUNTERS];
};

static void read_state(const struct bb_session *session, struct state *state)
{
    const char *files = session->device.emulated ? getenv("EMU_HOST_FILES") : NULL;
    char *root = files && *files ? bb_format("%s/%d", files, session->world.node) : bb_format("%s", "");
    struct source s = {.session = session, .root = root};
    struct bb_nvml_sample now;

    *state = (struct state){0};
    bb_nvml_read_counters(&session->observer.nvml, s.counters);
    for (int fact = 0; fact < FACTS; fact++)
        facts[fact].read(&s, facts[fact].arg, state->text[fact]);
    memcpy(state->counters, s.counters, sizeof s.counters);
    bb_nvml_sample(&session->observer.nvml, &now);
    state->gpu_flags = session->observer.nvml.library ? bb_nvml_flags(&now, &now) : 0;
    free(root);
}

/* ---- findings ---- */

/* Returns the text that most ranks have. */
static const char *usual_text(const struct state *all, int size, int fact)
{
    const char *usual = all[0].text[fact];
    int most = 0;

    for (int r = 0; r < size && 2 * most <= size; r++) {
        int n = 0;

        for (int other = 0; other < size; other++)
            n += strcmp(all[r].text[fact], all[other].text[fact]) == 0;
        if (n > most) {
            most = n;
            usual = all[r].text[fact];
        }
    }
    return usual;
}

/* Adds a finding about a GPU or its node. */
static void add_finding(struct bb_health *h, enum bb_health_level level, int node, int gpu, const char *text)
{
    struct bb_health_finding f = {.test = BB_HEALTH_TESTS,
                                  .part = BB_HEALTH_A_NODE,
                                  .level = level,
                                  .node = node,
                                  .other = -1,
                                  .gpu = gpu,
                                  .value = NAN,
                                  .expected = NAN,
                                  .median = NAN,
                                  .tries = 1};

    snprintf(f.text, sizeof f.text, "GPU %d: %.140s", gpu, text);
    bb_health_add(h, &f);
}

static void find_differences(struct bb_health *h, const struct bb_world *w, const int *gpu_of, const struct state *all)
{
    char text[3 * FACT_TEXT];

    for (int fact = 0; fact < FACTS; fact++) {
        const char *usual = usual_text(all, w->size, fact);

        for (int rank = 0; rank < w->size; rank++)
            if (strcmp(all[rank].text[fact], usual) != 0) {
                snprintf(text, sizeof text, "%s %s, most have %s", facts[fact].name,
                         all[rank].text[fact][0] ? all[rank].text[fact] : "unknown", usual[0] ? usual : "none");
                add_finding(h, BB_HEALTH_WARN, w->node_of[rank], gpu_of[rank], text);
            }
    }
}

static void find_errors(struct bb_health *h, int node, int gpu, const struct state *s)
{
    char text[3 * FACT_TEXT];

    for (int flag = BB_NVML_HW_SLOWDOWN; flag <= BB_NVML_POWER_BRAKE; flag++)
        if (s->gpu_flags >> flag & 1) {
            snprintf(text, sizeof text, "clocks are lowered: %s", bb_nvml_flag_rows[flag].name);
            add_finding(h, BB_HEALTH_WARN, node, gpu, text);
        }
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (s->counters[limits[i].counter] > 0) {
            snprintf(text, sizeof text, "%s %lld", limits[i].text, s->counters[limits[i].counter]);
            add_finding(h, limits[i].level, node, gpu, text);
        }
}

int bb_health_inventory(struct bb_health *h, struct bb_session *s, const int *gpu_of)
{
    struct state own, *all;
    int rc;

    read_state(s, &own);
    all = bb_world_gather(&s->world, &own, sizeof own, &rc);
    TRY(rc);
    find_differences(h, &s->world, gpu_of, all);
    for (int rank = 0; rank < s->world.size; rank++)
        find_errors(h, s->world.node_of[rank], gpu_of[rank], &all[rank]);
out:
    free(all);
    return rc;
}
