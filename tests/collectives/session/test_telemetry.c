/*
 * test_telemetry.c - GPU state of all ranks before and after a row, with a replacement for NVML, under mpirun. A flag
 * of one rank is set on all ranks; clocks are each rank's own values; without NVML no rank communicates and all values
 * are null.
 */
#include "collectives/session/telemetry.h"
#include "tests/check.h"

#include <math.h>

static const struct bb_device_info device = {.name = "GPU", .pci = "0000:1b:00.0"};

static void set(const char *sm_mhz, const char *reasons)
{
    setenv("NVML_STUB_SM_MHZ", sm_mhz, 1);
    setenv("NVML_STUB_MEMORY_MHZ", "2619", 1);
    setenv("NVML_STUB_REASONS", reasons, 1);
}

static void flag_of_one_rank_is_set_on_all(void **state)
{
    struct bb_world *world = *state;
    struct bb_telemetry o;
    struct bb_telemetry_row seen;
    bool last = world->rank == world->size - 1;
    json_t *gpu, *after;

    set("1980", "0");
    assert_int_equal(bb_telemetry_open(&o, world, &device), 0);
    assert_false(o.no_nvml);
    bb_telemetry_begin_warmup(&o);
    bb_telemetry_begin_timing(&o, &seen);
    set(last ? "1500" : "1981", last ? "4" : "0");
    assert_int_equal(bb_telemetry_end_timing(&o, world, &seen), 0);
    assert_int_equal(seen.gpu_flags, 1u << BB_NVML_POWER_CAP | 1u << BB_NVML_CLOCKS_MOVED);
    gpu = bb_telemetry_gpu(&seen);
    after = json_object_get(gpu, "after");
    assert_true(json_real_value(json_object_get(after, "sm_mhz")) == (last ? 1500 : 1981));
    assert_true(json_is_null(json_object_get(after, "power_w")));
    assert_string_equal(seen.choice.algorithm, "");
    json_decref(gpu);
    bb_telemetry_release(&o);
}

/* The local variant does not communicate: p2p measurements keep the flags on the measuring ranks. */
static void local_flags_stay_on_the_rank(void **state)
{
    struct bb_world *world = *state;
    struct bb_telemetry o;
    struct bb_telemetry_row seen;
    bool last = world->rank == world->size - 1;
    json_t *gpu;

    set("1980", "0");
    assert_int_equal(bb_telemetry_open(&o, world, &device), 0);
    bb_telemetry_begin_timing(&o, &seen);
    gpu = bb_telemetry_gpu(&seen);
    assert_true(json_is_null(gpu)); /* null until both samples are taken */
    set("1980", last ? "8" : "0");
    bb_telemetry_end_timing_local(&o, &seen);
    assert_int_equal(seen.gpu_flags, last ? 1u << BB_NVML_HW_SLOWDOWN : 0);
    gpu = bb_telemetry_gpu(&seen);
    assert_true(json_real_value(json_object_get(json_object_get(gpu, "before"), "sm_mhz")) == 1980);
    json_decref(gpu);
    bb_telemetry_release(&o);
}

/* MIG or MPS on one GPU sets the flag on all ranks. */
static void reports_mig_and_mps(void **state)
{
    struct bb_world *world = *state;
    struct bb_telemetry o;

    set("1980", "0");
    setenv("NVML_STUB_MIG", world->rank > 0 ? "1" : "0", 1);
    setenv("NVML_STUB_MPS", "0", 1);
    assert_int_equal(bb_telemetry_open(&o, world, &device), 0);
    assert_true(o.mig);
    assert_false(o.mps);
    bb_telemetry_release(&o);
    unsetenv("NVML_STUB_MIG");
    unsetenv("NVML_STUB_MPS");
}

/* Only the first rank has a GPU with NVML. */
static void rank_without_nvml_receives_flags(void **state)
{
    struct bb_world *world = *state;
    struct bb_device_info own = device;
    struct bb_telemetry o;
    struct bb_telemetry_row seen;

    own.emulated = world->rank > 0;
    set("1980", "0x40");
    assert_int_equal(bb_telemetry_open(&o, world, &own), 0);
    bb_telemetry_begin_timing(&o, &seen);
    assert_int_equal(bb_telemetry_end_timing(&o, world, &seen), 0);
    assert_int_equal(seen.gpu_flags, 1u << BB_NVML_HW_THERMAL);
    assert_int_equal(isnan(seen.after.sm_mhz), world->rank > 0);
    bb_telemetry_release(&o);
}

static void values_are_null_without_nvml(void **state)
{
    struct bb_world *world = *state;
    struct bb_device_info emulated = device;
    struct bb_telemetry o;
    struct bb_telemetry_row seen;

    emulated.emulated = true;
    assert_int_equal(bb_telemetry_open(&o, world, &emulated), 0);
    assert_true(o.no_nvml);
    bb_telemetry_begin_timing(&o, &seen);
    assert_int_equal(bb_telemetry_end_timing(&o, world, &seen), 0);
    assert_int_equal(seen.gpu_flags, 0);
    assert_true(!seen.sampled && seen.choice.kind == BB_CHOICE_NONE);
    bb_telemetry_release(&o);
    bb_telemetry_begin_warmup(NULL); /* NULL: telemetry is off */
    bb_telemetry_begin_timing(NULL, &seen);
    assert_int_equal(bb_telemetry_end_timing(NULL, world, &seen), 0);
}

int main(void)
{
    struct bb_world world;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(flag_of_one_rank_is_set_on_all, &world),
        cmocka_unit_test_prestate(local_flags_stay_on_the_rank, &world),
        cmocka_unit_test_prestate(reports_mig_and_mps, &world),
        cmocka_unit_test_prestate(rank_without_nvml_receives_flags, &world),
        cmocka_unit_test_prestate(values_are_null_without_nvml, &world),
    };
    int rc = bb_world_init(&world, 20);

    rc = rc ? rc : -cmocka_run_group_tests(tests, NULL, NULL);
    return bb_exit_code(bb_world_release(&world, rc));
}
