/*
 * test_telemetry.c - the state of the GPUs of all ranks around a row, with a stand-in for NVML, under mpirun: one
 * rank's throttling is every rank's doubt, its figures are its own, and without NVML nothing is gathered and all is
 * null.
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

static void one_ranks_doubt_is_everybodys(void **state)
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

/* Without the others: pairs of ranks keep their doubts to themselves. */
static void a_rank_alone_knows_its_own(void **state)
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
    assert_true(json_is_null(gpu)); /* not before both samples are there */
    set("1980", last ? "8" : "0");
    bb_telemetry_end_timing_local(&o, &seen);
    assert_int_equal(seen.gpu_flags, last ? 1u << BB_NVML_HW_SLOWDOWN : 0);
    gpu = bb_telemetry_gpu(&seen);
    assert_true(json_real_value(json_object_get(json_object_get(gpu, "before"), "sm_mhz")) == 1980);
    json_decref(gpu);
    bb_telemetry_release(&o);
}

/* One GPU that is split is enough for a stamp. */
static void instances_and_mps_are_stamped(void **state)
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

/* The first rank alone has a GPU that NVML knows. */
static void a_rank_without_nvml_takes_part(void **state)
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

static void without_nvml_all_is_null(void **state)
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
    bb_telemetry_begin_warmup(NULL); /* nobody observes */
    bb_telemetry_begin_timing(NULL, &seen);
    assert_int_equal(bb_telemetry_end_timing(NULL, world, &seen), 0);
}

int main(void)
{
    struct bb_world world;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(one_ranks_doubt_is_everybodys, &world),
        cmocka_unit_test_prestate(a_rank_alone_knows_its_own, &world),
        cmocka_unit_test_prestate(instances_and_mps_are_stamped, &world),
        cmocka_unit_test_prestate(a_rank_without_nvml_takes_part, &world),
        cmocka_unit_test_prestate(without_nvml_all_is_null, &world),
    };
    int rc = bb_world_init(&world, 20);

    rc = rc ? rc : -cmocka_run_group_tests(tests, NULL, NULL);
    return bb_exit_code(bb_world_release(&world, rc));
}
