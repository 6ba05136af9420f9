/*
 * test_nvml.c - GPU state from a replacement for NVML, found by its soname in LD_LIBRARY_PATH like the real library:
 * values and units, unsupported values, every flag on both sides of its limit, and the message when NVML is
 * unavailable.
 */
#include "cuda/device/nvml.h"
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

static const struct bb_device_info device = {.name = "GPU", .pci = "0000:1b:00.0"};

static void set(const char *sm, const char *memory, const char *celsius, const char *milliwatt, const char *reasons)
{
    const char *const names[] = {"NVML_STUB_SM_MHZ", "NVML_STUB_MEMORY_MHZ", "NVML_STUB_CELSIUS", "NVML_STUB_MILLIWATT",
                                 "NVML_STUB_REASONS"};
    const char *const values[] = {sm, memory, celsius, milliwatt, reasons};

    for (int i = 0; i < 5; i++)
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
}

static void values_have_their_units(void **state)
{
    struct bb_nvml nvml;
    struct bb_nvml_sample s;
    json_t *json;

    (void)state;
    set("1980", "2619", "45", "350250", "0x24");
    bb_nvml_open(&nvml, &device, true);
    assert_non_null(nvml.library);
    bb_nvml_sample(&nvml, &s);
    assert_true(s.sm_mhz == 1980 && s.memory_mhz == 2619 && s.temperature_c == 45 && s.power_w == 350.25);
    assert_int_equal(s.reasons, 0x24);
    json = bb_nvml_json(&s);
    assert_true(json_real_value(json_object_get(json, "power_w")) == 350.25);
    assert_int_equal(json_integer_value(json_object_get(json, "throttle_reasons")), 0x24);
    json_decref(json);
    bb_nvml_release(&nvml);
    assert_null(nvml.library);
}

static void unsupported_values_are_null(void **state)
{
    struct bb_nvml nvml;
    struct bb_nvml_sample s;
    json_t *json, *value;
    const char *key;

    (void)state;
    set("1980", NULL, NULL, NULL, NULL);
    bb_nvml_open(&nvml, &device, true);
    bb_nvml_sample(&nvml, &s);
    assert_true(s.sm_mhz == 1980 && isnan(s.memory_mhz) && isnan(s.temperature_c) && isnan(s.power_w));
    assert_int_equal(s.reasons, -1);
    bb_nvml_release(&nvml);
    bb_nvml_sample(&nvml, &s); /* NVML is closed */
    json = bb_nvml_json(&s);
    assert_int_equal(json_object_size(json), 5);
    json_object_foreach(json, key, value) assert_true(json_is_null(value));
    json_decref(json);
}

/* Stores the stderr output of fn in text. */
static void capture_stderr(void (*fn)(struct bb_nvml *), struct bb_nvml *nvml, char *text, size_t capacity)
{
    FILE *file = tmpfile();
    int old = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    fn(nvml);
    dup2(old, STDERR_FILENO);
    close(old);
    rewind(file);
    n = fread(text, 1, capacity - 1, file);
    text[n] = '\0';
    fclose(file);
}

static void open_missing_library(struct bb_nvml *nvml)
{
    bb_nvml_open_from(nvml, "libno-such-nvml.so.1", "0000:1b:00.0", true);
}

static void open_missing_gpu(struct bb_nvml *nvml)
{
    bb_nvml_open_from(nvml, "libnvidia-ml.so.1", "0000:ff:00.0", true);
}

static void open_broken(struct bb_nvml *nvml)
{
    setenv("NVML_STUB_BROKEN", "1", 1);
    bb_nvml_open(nvml, &device, true);
    unsetenv("NVML_STUB_BROKEN");
}

static void open_other_library(struct bb_nvml *nvml)
{
    bb_nvml_open_from(nvml, "libm.so.6", "0000:1b:00.0", true);
}

static void open_emulated(struct bb_nvml *nvml)
{
    struct bb_device_info emulated = device;

    emulated.emulated = true;
    bb_nvml_open(nvml, &emulated, true);
}

static void open_silently(struct bb_nvml *nvml)
{
    bb_nvml_open_from(nvml, "libno-such-nvml.so.1", "0000:1b:00.0", false);
}

static void reports_unavailable_nvml_once(void **state)
{
    static const struct {
        void (*open)(struct bb_nvml *);
        const char *expected; /* NULL: no output */
    } cases[] = {
        {open_missing_library, "libno-such-nvml.so.1: cannot be loaded"},
        {open_missing_gpu, "0000:ff:00.0: Not Found"},
        {open_broken, "nvmlInit_v2: Driver Not Loaded"},
        {open_other_library, "nvmlInit_v2: missing in the driver's NVML"},
        {open_emulated, NULL},
        {open_silently, NULL},
    };

    (void)state;
    set("1980", "2619", "45", "350250", "0");
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_nvml nvml;
        struct bb_nvml_sample s;
        char text[512];

        capture_stderr(cases[i].open, &nvml, text, sizeof(text));
        assert_null(nvml.library);
        bb_nvml_sample(&nvml, &s);
        assert_true(isnan(s.sm_mhz));
        bb_nvml_release(&nvml);
        if (cases[i].expected) {
            assert_non_null(strstr(text, cases[i].expected));
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
        } else {
            assert_string_equal(text, "");
        }
    }
}

static void detects_mig_and_mps(void **state)
{
    static const struct {
        const char *mig, *mps;
        bool is_mig, is_mps;
    } cases[] = {
        {NULL, NULL, false, false}, {"0", "0", false, false}, {"1", "0", true, false}, {"0", "3", false, true}};

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_nvml nvml;

        if (cases[i].mig) {
            setenv("NVML_STUB_MIG", cases[i].mig, 1);
            setenv("NVML_STUB_MPS", cases[i].mps, 1);
        }
        bb_nvml_open(&nvml, &device, true);
        assert_int_equal(nvml.mig, cases[i].is_mig);
        assert_int_equal(nvml.mps, cases[i].is_mps);
        bb_nvml_release(&nvml);
    }
}

/* State 3 is NVML_GPU_FABRIC_STATE_COMPLETED; 1 is "not started", as on machines without such a fabric. */
static void reads_the_nvlink_fabric(void **state)
{
    struct bb_nvml nvml;

    (void)state;
    setenv("NVML_STUB_CLIQUE", "7", 1);
    for (int joined = 0; joined < 2; joined++) {
        setenv("NVML_STUB_FABRIC_STATE", joined ? "3" : "1", 1);
        bb_nvml_open(&nvml, &device, true);
        assert_int_equal(nvml.fabric.clique, joined ? 7 : 0);
        assert_memory_equal(nvml.fabric.cluster, joined ? "rack of 72 GPUs!" : "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
        bb_nvml_release(&nvml);
    }
}

/* Nodes of two ranks: nodes 0 and 2 are in clique 1 of a cluster, node 1 in clique 2, and nodes 3 and 4 have no fabric. */
static void numbers_nvlink_domains(void **state)
{
    const struct bb_nvml_fabric one = {"cluster", 1}, two = {"cluster", 2}, none = {"", 0};
    const struct bb_nvml_fabric fabrics[] = {one, one, two, two, one, one, none, none, none, none};
    const int node_of[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, expected[] = {0, 0, 2, 2, 0, 0, 6, 6, 8, 8};
    int domain_of[10];

    (void)state;
    assert_true(bb_nvml_domains(fabrics, node_of, 10, domain_of));
    assert_memory_equal(domain_of, expected, sizeof expected);
    assert_false(bb_nvml_domains(fabrics, node_of, 4, domain_of));
    assert_memory_equal(domain_of, expected, 4 * sizeof *expected);
}

static struct bb_nvml_sample at(double sm_mhz, long long reasons)
{
    return (struct bb_nvml_sample){.sm_mhz = sm_mhz, .memory_mhz = 2619, .reasons = reasons};
}

/* NVML's documented bits, repeated here as literals. */
static void maps_throttle_reasons_to_flags(void **state)
{
    static const struct {
        long long reasons;
        unsigned flags;
    } cases[] = {
        {0x0, 0},
        {0x1, 0},
        {0x2, 0},
        {0x10, 0},
        {0x100, 0},
        {-1, 0},
        {0x4, 1u << BB_NVML_POWER_CAP},
        {0x8, 1u << BB_NVML_HW_SLOWDOWN},
        {0x20, 1u << BB_NVML_SW_THERMAL},
        {0x40, 1u << BB_NVML_HW_THERMAL},
        {0x80, 1u << BB_NVML_POWER_BRAKE},
        {0x48, 1u << BB_NVML_HW_SLOWDOWN | 1u << BB_NVML_HW_THERMAL},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_nvml_sample good = at(1980, 0), bad = at(1980, cases[i].reasons);

        assert_int_equal(bb_nvml_flags(&good, &bad), cases[i].flags);
        assert_int_equal(bb_nvml_flags(&bad, &good), cases[i].flags);
    }
}

static void flags_clock_changes_beyond_2_percent(void **state)
{
    struct bb_nvml_sample a = at(2000, 0), b = at(2040, 0), idle = at(345, 1), unknown = at(NAN, -1), memory = a;

    (void)state;
    memory.memory_mhz = 1000;
    assert_int_equal(bb_nvml_flags(&a, &b), 0);
    b.sm_mhz = 2041;
    assert_int_equal(bb_nvml_flags(&a, &b), 1u << BB_NVML_CLOCKS_MOVED);
    b.sm_mhz = 1959;
    assert_int_equal(bb_nvml_flags(&a, &b), 1u << BB_NVML_CLOCKS_MOVED);
    assert_int_equal(bb_nvml_flags(&a, &memory), 1u << BB_NVML_CLOCKS_MOVED);
    assert_int_equal(bb_nvml_flags(&idle, &a), 0);
    assert_int_equal(bb_nvml_flags(&a, &unknown), 0);
}

static void every_flag_has_a_name_and_advice(void **state)
{
    json_t *names = json_array();

    (void)state;
    bb_nvml_json_flags(names, (1u << BB_NVML_FLAGS) - 1);
    assert_int_equal(json_array_size(names), BB_NVML_FLAGS);
    for (int i = 0; i < BB_NVML_FLAGS; i++) {
        assert_string_equal(json_string_value(json_array_get(names, (size_t)i)), bb_nvml_flag_rows[i].name);
        assert_non_null(strchr(bb_nvml_flag_rows[i].advice, ':')); /* "problem: advice" */
    }
    json_decref(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_their_units),          cmocka_unit_test(unsupported_values_are_null),
        cmocka_unit_test(reports_unavailable_nvml_once),    cmocka_unit_test(detects_mig_and_mps),
        cmocka_unit_test(maps_throttle_reasons_to_flags),   cmocka_unit_test(flags_clock_changes_beyond_2_percent),
        cmocka_unit_test(every_flag_has_a_name_and_advice), cmocka_unit_test(reads_the_nvlink_fabric),
        cmocka_unit_test(numbers_nvlink_domains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
