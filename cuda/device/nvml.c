/*
 * nvml.c - see nvml.h. This file declares the NVML prototypes itself, because the header nvml.h of NVML is not
 * installed on every machine. NVML never changes the signature of a function; a new signature gets a new suffix (_v2,
 * _v3).
 */
#include "cuda/device/nvml.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/results/results.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INSUFFICIENT_SIZE = 7 }; /* NVML return codes */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0 };
enum { REASON_IDLE = 1 };

struct bb_nvml_calls {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int result);
    int (*by_pci)(const char *pci, void **device);
    int (*clock)(void *device, int type, unsigned *mhz);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*power)(void *device, unsigned *milliwatt);
    int (*reasons)(void *device, unsigned long long *mask);
    int (*mig)(void *device, unsigned *current, unsigned *pending);
    int (*mps)(void *device, unsigned *count, void *infos);
    int (*fabric)(void *device, void *info);
    int (*driver)(char *text, unsigned bytes);
    int (*ecc)(void *device, int type, int since, unsigned long long *count);
    int (*rows)(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed);
    int (*link)(void *device, unsigned link, int *active);
    int (*link_errors)(void *device, unsigned link, int counter, unsigned long long *count);
    int (*memory_errors)(void *device, int type, int since, int location, unsigned long long *count);
    int (*lanes)(void *device, unsigned *lanes);
    int (*replays)(void *device, unsigned *replays);
    int (*power_limit)(void *device, unsigned *milliwatt);
    int (*clock_limit)(void *device, int type, unsigned *mhz);
};

/* nvmlGpuFabricInfo_v2_t. state 3: the GPU has joined its fabric. */
struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};
enum { FABRIC_VERSION = 2u << 24 | sizeof(struct fabric_info), FABRIC_COMPLETED = 3 };

/* Possible names of each function, newest first. A driver may lack the functions with needed == false. */
static const struct {
    size_t offset;
    const char *names[3];
    bool needed;
} symbols[] = {
    {offsetof(struct bb_nvml_calls, init), {"nvmlInit_v2"}, true},
    {offsetof(struct bb_nvml_calls, shutdown), {"nvmlShutdown"}, true},
    {offsetof(struct bb_nvml_calls, error), {"nvmlErrorString"}, true},
    {offsetof(struct bb_nvml_calls, by_pci), {"nvmlDeviceGetHandleByPciBusId_v2"}, true},
    {offsetof(struct bb_nvml_calls, clock), {"nvmlDeviceGetClockInfo"}, false},
    {offsetof(struct bb_nvml_calls, temperature), {"nvmlDeviceGetTemperature"}, false},
    {offsetof(struct bb_nvml_calls, power), {"nvmlDeviceGetPowerUsage"}, false},
    {offsetof(struct bb_nvml_calls, reasons),
     {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
     false},
    {offsetof(struct bb_nvml_calls, mig), {"nvmlDeviceGetMigMode"}, false},
    {offsetof(struct bb_nvml_calls, mps),
     {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
      "nvmlDeviceGetMPSComputeRunningProcesses"},
     false},
    {offsetof(struct bb_nvml_calls, fabric), {"nvmlDeviceGetGpuFabricInfoV"}, false},
    {offsetof(struct bb_nvml_calls, driver), {"nvmlSystemGetDriverVersion"}, false},
    {offsetof(struct bb_nvml_calls, ecc), {"nvmlDeviceGetTotalEccErrors"}, false},
    {offsetof(struct bb_nvml_calls, rows), {"nvmlDeviceGetRemappedRows"}, false},
    {offsetof(struct bb_nvml_calls, link), {"nvmlDeviceGetNvLinkState"}, false},
    {offsetof(struct bb_nvml_calls, link_errors), {"nvmlDeviceGetNvLinkErrorCounter"}, false},
    {offsetof(struct bb_nvml_calls, memory_errors), {"nvmlDeviceGetMemoryErrorCounter"}, false},
    {offsetof(struct bb_nvml_calls, lanes), {"nvmlDeviceGetCurrPcieLinkWidth"}, false},
    {offsetof(struct bb_nvml_calls, replays), {"nvmlDeviceGetPcieReplayCounter"}, false},
    {offsetof(struct bb_nvml_calls, power_limit), {"nvmlDeviceGetEnforcedPowerLimit"}, false},
    {offsetof(struct bb_nvml_calls, clock_limit), {"nvmlDeviceGetApplicationsClock"}, false},
};

/* ---- opening and closing ---- */

/* Looks up all functions in `library`. Returns NULL, or the name of a missing required function. */
static const char *resolve_symbols(void *library, struct bb_nvml_calls *calls)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        void *found = NULL;

        for (int j = 0; j < 3 && symbols[i].names[j] && !found; j++)
            found = dlsym(library, symbols[i].names[j]);
        if (!found && symbols[i].needed)
            return symbols[i].names[0];
        memcpy((char *)calls + symbols[i].offset, &found, sizeof(found));
    }
    return NULL;
}

static bool has_mig(const struct bb_nvml *n)
{
    unsigned current = 0, pending = 0;

    return n->calls->mig && n->calls->mig(n->device, &current, &pending) == SUCCESS && current == 1;
}

/* Returns whether MPS clients use the GPU. NVML is called with an array of size 0; if there are MPS processes, it
 * returns INSUFFICIENT_SIZE and sets their number. */
static bool has_mps(const struct bb_nvml *n)
{
    unsigned count = 0;

    return n->calls->mps && n->calls->mps(n->device, &count, NULL) == INSUFFICIENT_SIZE && count > 0;
}

static struct bb_nvml_fabric fabric_of(const struct bb_nvml *n)
{
    struct fabric_info info = {.version = FABRIC_VERSION};
    struct bb_nvml_fabric fabric = {.clique = 0};

    if (n->calls->fabric && n->calls->fabric(n->device, &info) == SUCCESS && info.state == FABRIC_COMPLETED &&
        info.status == SUCCESS) {
        memcpy(fabric.cluster, info.cluster, sizeof fabric.cluster);
        fabric.clique = info.clique;
    }
    return fabric;
}

void bb_nvml_open_from(struct bb_nvml *n, const char *library, const char *pci, bool warns)
{
    const char *what = library, *why = "cannot be loaded";
    int result;

    *n = (struct bb_nvml){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    BB_NEW(n->calls, 1);
    if (!n->library)
        goto failed;
    what = resolve_symbols(n->library, n->calls);
    why = "missing in the driver's NVML";
    if (what)
        goto failed;
    what = "nvmlInit_v2";
    result = n->calls->init();
    why = n->calls->error(result);
    if (result != SUCCESS)
        goto failed;
    what = pci;
    result = n->calls->by_pci(pci, &n->device);
    if (result == SUCCESS) {
        n->mig = has_mig(n);
        n->mps = has_mps(n);
        n->fabric = fabric_of(n);
        return;
    }
    why = n->calls->error(result);
    n->calls->shutdown();
failed:
    if (warns)
        bb_warn("GPU clocks, temperature and power are not recorded: %s: %s", what, why ? why : "unknown error");
    if (n->library)
        dlclose(n->library);
    free(n->calls);
    *n = (struct bb_nvml){0};
}

void bb_nvml_open(struct bb_nvml *n, const struct bb_device_info *device, bool warns)
{
    const char *library = device->emulated ? getenv("EMU_NVML") : "libnvidia-ml.so.1";

    *n = (struct bb_nvml){0};
    if (library && *library)
        bb_nvml_open_from(n, library, device->pci, warns);
}

void bb_nvml_release(struct bb_nvml *n)
{
    if (n->library) {
        n->calls->shutdown();
        dlclose(n->library);
    }
    free(n->calls);
    *n = (struct bb_nvml){0};
}

/* ---- sampling the state of the GPU ---- */

/* Calls the NVML function `read` with a sensor or clock type. Returns the value that it stores; NaN if the driver
 * lacks the function or the call fails. */
static double read_value(const struct bb_nvml *n, int (*read)(void *, int, unsigned *), int type)
{
    unsigned value;

    return read && read(n->device, type, &value) == SUCCESS ? value : NAN;
}

static bool in_one_domain(const struct bb_nvml_fabric *fabrics, const int *node_of, int a, int b)
{
    static const struct bb_nvml_fabric none;

    return node_of[a] == node_of[b] ||
           (memcmp(&fabrics[a], &none, sizeof none) != 0 && memcmp(&fabrics[a], &fabrics[b], sizeof none) == 0);
}

bool bb_nvml_domains(const struct bb_nvml_fabric *fabrics, const int *node_of, int n, int *domain_of)
{
    bool spans = false;

    for (int r = 0; r < n; r++) {
        int first = 0;

        while (!in_one_domain(fabrics, node_of, first, r))
            first++;
        domain_of[r] = first == r ? r : domain_of[first];
        spans = spans || node_of[domain_of[r]] != node_of[r];
    }
    return spans;
}

void bb_nvml_sample(const struct bb_nvml *n, struct bb_nvml_sample *sample)
{
    const struct bb_nvml_calls *calls = n->calls;
    unsigned long long mask;
    unsigned milliwatt;

    *sample = (struct bb_nvml_sample){NAN, NAN, NAN, NAN, -1};
    if (!n->library)
        return;
    sample->sm_mhz = read_value(n, calls->clock, CLOCK_SM);
    sample->memory_mhz = read_value(n, calls->clock, CLOCK_MEMORY);
    sample->temperature_c = read_value(n, calls->temperature, SENSOR_GPU);
    if (calls->power && calls->power(n->device, &milliwatt) == SUCCESS)
        sample->power_w = milliwatt / 1e3;
    if (calls->reasons && calls->reasons(n->device, &mask) == SUCCESS)
        sample->reasons = (long long)mask;
}

/* ---- counters ---- */

enum { CORRECTED, UNCORRECTED };       /* nvmlMemoryErrorType_t */
enum { VOLATILE, AGGREGATE };          /* nvmlEccCounterType_t */
enum { ALL_LOCATIONS = -1, SRAM = 7 }; /* nvmlMemoryLocation_t */
enum { NVLINKS_MAX = 18 };

static const struct {
    enum bb_nvml_counter counter;
    int type, since, location;
} ecc_counters[] = {
    {BB_NVML_ECC_UNCORRECTED, UNCORRECTED, VOLATILE, ALL_LOCATIONS},
    {BB_NVML_ECC_CORRECTED, CORRECTED, VOLATILE, ALL_LOCATIONS},
    {BB_NVML_ECC_CORRECTED_EVER, CORRECTED, AGGREGATE, ALL_LOCATIONS},
    {BB_NVML_SRAM_CORRECTED, CORRECTED, VOLATILE, SRAM},
    {BB_NVML_SRAM_CORRECTED_EVER, CORRECTED, AGGREGATE, SRAM},
};

static void read_ecc(const struct bb_nvml *n, long long counters[BB_NVML_COUNTERS])
{
    const struct bb_nvml_calls *calls = n->calls;

    for (size_t i = 0; i < sizeof ecc_counters / sizeof *ecc_counters; i++) {
        const int type = ecc_counters[i].type, since = ecc_counters[i].since, location = ecc_counters[i].location;
        unsigned long long errors;

        if (location == ALL_LOCATIONS
                ? calls->ecc && calls->ecc(n->device, type, since, &errors) == SUCCESS
                : calls->memory_errors && calls->memory_errors(n->device, type, since, location, &errors) == SUCCESS)
            counters[ecc_counters[i].counter] = (long long)errors;
    }
}

/* [nvmlNvLinkErrorCounter_t] the counter to which this one is added; the last three: CRC of flits, CRC of data, ECC of data. */
static const enum bb_nvml_counter link_counters[] = {BB_NVML_NVLINK_REPLAYS, BB_NVML_NVLINK_RECOVERIES,
                                                     BB_NVML_NVLINK_ERRORS, BB_NVML_NVLINK_ERRORS,
                                                     BB_NVML_NVLINK_ERRORS};

/* Adds to a counter that may be unknown. */
static void add_count(long long *counter, long long count)
{
    *counter = (*counter < 0 ? 0 : *counter) + count;
}

/* Counts active NVLinks and their errors; all stay unknown if the GPU has no NVLinks. */
static void read_links(const struct bb_nvml *n, long long counters[BB_NVML_COUNTERS])
{
    for (unsigned link = 0; link < NVLINKS_MAX && n->calls->link; link++) {
        unsigned long long count;
        int active;

        if (n->calls->link(n->device, link, &active) != SUCCESS)
            continue;
        add_count(&counters[BB_NVML_NVLINKS], active != 0);
        for (int i = 0; active && n->calls->link_errors && i < (int)(sizeof link_counters / sizeof *link_counters); i++)
            if (n->calls->link_errors(n->device, link, i, &count) == SUCCESS)
                add_count(&counters[link_counters[i]], (long long)count);
    }
}

void bb_nvml_read_counters(const struct bb_nvml *n, long long counters[BB_NVML_COUNTERS])
{
    const struct bb_nvml_calls *calls = n->calls;
    unsigned corrected, uncorrected, pending, failed, value;

    for (int i = 0; i < BB_NVML_COUNTERS; i++)
        counters[i] = -1;
    if (!n->library)
        return;
    if (calls->rows && calls->rows(n->device, &corrected, &uncorrected, &pending, &failed) == SUCCESS) {
        counters[BB_NVML_REMAP_PENDING] = pending;
        counters[BB_NVML_REMAP_FAILED] = failed;
    }
    if (calls->lanes && calls->lanes(n->device, &value) == SUCCESS)
        counters[BB_NVML_PCIE_LANES] = value;
    if (calls->replays && calls->replays(n->device, &value) == SUCCESS)
        counters[BB_NVML_PCIE_REPLAYS] = value;
    if (calls->power_limit && calls->power_limit(n->device, &value) == SUCCESS)
        counters[BB_NVML_POWER_LIMIT] = (value + 500) / 1000;
    if (calls->clock_limit && calls->clock_limit(n->device, CLOCK_SM, &value) == SUCCESS)
        counters[BB_NVML_CLOCK_LIMIT] = value;
    read_ecc(n, counters);
    read_links(n, counters);
}

void bb_nvml_driver(const struct bb_nvml *n, char *text, size_t bytes)
{
    if (!n->library || !n->calls->driver || n->calls->driver(text, (unsigned)bytes) != SUCCESS)
        text[0] = '\0';
}

/* ---- flags for doubtful measurements ---- */

const struct bb_nvml_flag_row bb_nvml_flag_rows[BB_NVML_FLAGS] = {
    [BB_NVML_POWER_CAP] = {"power_cap",
                           "the power limit lowered the clocks: raise the limit or lock lower clocks (nvidia-smi "
                           "-pl, -lgc)",
                           0x4},
    [BB_NVML_HW_SLOWDOWN] = {"hw_slowdown", "the hardware lowered the clocks: check cooling and power supply", 0x8},
    [BB_NVML_SW_THERMAL] = {"sw_thermal",
                            "the driver lowered the clocks of a warm GPU: check the cooling, or lock lower "
                            "clocks (nvidia-smi -lgc)",
                            0x20},
    [BB_NVML_HW_THERMAL] = {"hw_thermal", "the hardware lowered the clocks of a hot GPU: check the cooling", 0x40},
    [BB_NVML_POWER_BRAKE] = {"power_brake", "the power supply requested lower clocks: check the node's power supply",
                             0x80},
    [BB_NVML_CLOCKS_MOVED] = {"clocks_moved",
                              "clocks changed by more than 2 %: warm up longer, or lock the clocks "
                              "(nvidia-smi -lgc, -lmc)",
                              0},
};

static bool has_moved(double before, double after)
{
    return fabs(after - before) > 0.02 * before; /* false if a clock frequency is NaN (unknown) */
}

unsigned bb_nvml_flags(const struct bb_nvml_sample *before, const struct bb_nvml_sample *after)
{
    /* -1: the driver does not report reasons */
    const unsigned long long reasons_before = before->reasons >= 0 ? (unsigned long long)before->reasons : 0;
    const unsigned long long reasons_after = after->reasons >= 0 ? (unsigned long long)after->reasons : 0;
    const unsigned long long seen = reasons_before | reasons_after;
    unsigned flags = 0;

    for (int i = 0; i < BB_NVML_FLAGS; i++)
        if (seen & bb_nvml_flag_rows[i].reasons)
            flags |= 1u << i;
    if (!(seen & REASON_IDLE) &&
        (has_moved(before->sm_mhz, after->sm_mhz) || has_moved(before->memory_mhz, after->memory_mhz)))
        flags |= 1u << BB_NVML_CLOCKS_MOVED;
    return flags;
}

/* ---- JSON of samples and flags ---- */

json_t *bb_nvml_json(const struct bb_nvml_sample *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "sm_mhz", bb_json_real(s->sm_mhz), "memory_mhz",
                     bb_json_real(s->memory_mhz), "temperature_c", bb_json_real(s->temperature_c), "power_w",
                     bb_json_real(s->power_w), "throttle_reasons",
                     s->reasons < 0 ? json_null() : json_integer(s->reasons));
}

void bb_nvml_json_flags(json_t *array, unsigned flags)
{
    for (int i = 0; i < BB_NVML_FLAGS; i++)
        if (flags & 1u << i)
            json_array_append_new(array, json_string(bb_nvml_flag_rows[i].name));
}
