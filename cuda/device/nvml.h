/*
 * nvml.h - the state of a GPU around a measurement: clocks, temperature, power, what held the clocks back. NVML comes
 * with the driver and is loaded at run time (libnvidia-ml.so.1), with prototypes of our own; where it is missing, or
 * does not know a figure, the figure is NaN and null in JSON. Never asked about emulated GPUs.
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

struct bb_nvml_calls; /* the library's functions */

/* Zeroed is closed; samples of a closed one are all unknown. */
struct bb_nvml {
    void *library, *device;
    struct bb_nvml_calls *calls;
    bool mig; /* the GPU is split into instances (MIG)      */
    bool mps; /* processes share it through MPS, at opening */
};

/* Plain data, so that ranks exchange it byte by byte. */
struct bb_nvml_sample {
    double sm_mhz, memory_mhz, temperature_c, power_w; /* NaN: unknown */
    long long reasons;                                 /* NVML's mask of what holds the clocks back; -1: unknown */
};

/*
 * bb_nvml_open - find the GPU by its PCI address. A missing library or GPU is said as one warning when `speaks` (one
 * rank speaks for all) and leaves *n closed: a measurement does not fail for that.
 */
void bb_nvml_open(struct bb_nvml *n, const struct bb_device_info *device, bool warns);
void bb_nvml_release(struct bb_nvml *n);

/* bb_nvml_open_from - the same with another library; for tests. */
void bb_nvml_open_from(struct bb_nvml *n, const char *library, const char *pci, bool warns);

void bb_nvml_sample(const struct bb_nvml *n, struct bb_nvml_sample *sample);

/* What can make a figure doubtful: a closed list, as bits. */
enum bb_nvml_flag {
    BB_NVML_POWER_CAP,    /* the power limit lowered the clocks                             */
    BB_NVML_HW_SLOWDOWN,  /* the hardware lowered them by half or more                      */
    BB_NVML_SW_THERMAL,   /* temperature: the driver lowered them                           */
    BB_NVML_HW_THERMAL,   /* temperature: the hardware lowered them                         */
    BB_NVML_POWER_BRAKE,  /* the power supply asked for less                                */
    BB_NVML_CLOCKS_MOVED, /* SM or memory clock differ by more than 2 % before and after    */
    BB_NVML_FLAGS
};

/* As a person and JSON read them: name ("power_cap") and what to do about it. */
extern const struct bb_nvml_flag_row {
    const char *name, *advice;
    unsigned long long reasons; /* bits of NVML's mask that mean it */
} bb_nvml_flag_rows[BB_NVML_FLAGS];

/*
 * bb_nvml_flags - bits 1 << enum bb_nvml_flag, from either sample. Clocks are not held against each other when the GPU
 * was idle in one of them: idle clocks are low and say nothing.
 */
unsigned bb_nvml_flags(const struct bb_nvml_sample *before, const struct bb_nvml_sample *after);

/* bb_nvml_json - {sm_mhz, memory_mhz, temperature_c, power_w, throttle_reasons}, null where unknown. */
json_t *bb_nvml_json(const struct bb_nvml_sample *sample);

/* bb_nvml_json_flags - append the names of the flags to an array. */
void bb_nvml_json_flags(json_t *array, unsigned flags);

#endif
