/*
 * nvml.h - the state of a GPU before and after a measurement: clocks, temperature, power and throttle reasons. NVML
 * belongs to the driver and is loaded at run time (libnvidia-ml.so.1). A value that NVML does not provide is NaN, and
 * null in JSON. NVML is not used for emulated GPUs.
 *
 *   bb_nvml_open(&nvml, &device, rank == 0);
 *   bb_nvml_sample(&nvml, &before); ...measure...; bb_nvml_sample(&nvml, &after);
 *   flags = bb_nvml_flags(&before, &after);
 */
#ifndef BB_CUDA_DEVICE_NVML_H
#define BB_CUDA_DEVICE_NVML_H

#include "cuda/device/device.h"

#include <jansson.h>
#include <stdbool.h>

struct bb_nvml_calls; /* functions of the library */

/* Zero-initialised means closed; all values of its samples are unknown. */
struct bb_nvml {
    void *library, *device;
    struct bb_nvml_calls *calls;
    bool mig; /* the GPU is partitioned into MIG instances */
    bool mps; /* MPS clients used the GPU when this struct was opened */
};

/* Without pointers, so that ranks can exchange it by value. */
struct bb_nvml_sample {
    double sm_mhz, memory_mhz, temperature_c, power_w; /* NaN: unknown */
    long long reasons;                                 /* NVML's mask of clock throttle reasons; -1: unknown */
};

/*
 * bb_nvml_open - find the GPU by its PCI address. A missing library or GPU is not an error; it leaves *n closed.
 *   warns  print one warning in this case; true on one rank only
 */
void bb_nvml_open(struct bb_nvml *n, const struct bb_device_info *device, bool warns);
void bb_nvml_release(struct bb_nvml *n);

/* bb_nvml_open_from - as bb_nvml_open, with another library; for tests. */
void bb_nvml_open_from(struct bb_nvml *n, const char *library, const char *pci, bool warns);

void bb_nvml_sample(const struct bb_nvml *n, struct bb_nvml_sample *sample);

/* Conditions that make a measurement doubtful; bit numbers. */
enum bb_nvml_flag {
    BB_NVML_POWER_CAP,    /* the power limit lowered the clocks                             */
    BB_NVML_HW_SLOWDOWN,  /* the hardware lowered the clocks by half or more */
    BB_NVML_SW_THERMAL,   /* the driver lowered the clocks because of temperature */
    BB_NVML_HW_THERMAL,   /* the hardware lowered the clocks because of temperature */
    BB_NVML_POWER_BRAKE,  /* the power supply requested lower clocks */
    BB_NVML_CLOCKS_MOVED, /* SM or memory clock changed by more than 2 % between the samples */
    BB_NVML_FLAGS
};

/* Name of each flag in output and JSON ("power_cap"), and advice to the user. */
extern const struct bb_nvml_flag_row {
    const char *name, *advice;
    unsigned long long reasons; /* bits of NVML's mask that set this flag */
} bb_nvml_flag_rows[BB_NVML_FLAGS];

/*
 * bb_nvml_flags - flags of both samples, as bits 1 << enum bb_nvml_flag. Clocks are compared only if the GPU was not
 * idle in either sample, since idle clocks are low.
 */
unsigned bb_nvml_flags(const struct bb_nvml_sample *before, const struct bb_nvml_sample *after);

/* bb_nvml_json - {sm_mhz, memory_mhz, temperature_c, power_w, throttle_reasons}; null for unknown values. */
json_t *bb_nvml_json(const struct bb_nvml_sample *sample);

/* bb_nvml_json_flags - append the names of the flags to a JSON array. */
void bb_nvml_json_flags(json_t *array, unsigned flags);

#endif
