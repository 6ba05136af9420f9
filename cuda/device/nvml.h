/*
 * nvml.h - records the state of a GPU before and after a measurement: clocks, temperature, power and throttle reasons.
 * NVML belongs to the driver and is loaded at run time (libnvidia-ml.so.1). A value that NVML does not provide is NaN
 * here and null in JSON. Emulated GPUs use the library $EMU_NVML, if
 * it is set.
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

struct bb_nvml_calls; /* addresses of the library's functions */

/* Identity of the NVLink domain of a GPU whose NVLink network connects several hosts (GB200 NVL72). All zero: none, or
 * unknown. Contains no pointers, so that ranks can exchange the struct by value. */
struct bb_nvml_fabric {
    unsigned char cluster[16];
    unsigned clique;
};

/* An NVML handle for one GPU. A zero-initialized handle is closed; all values of its samples are unknown. */
struct bb_nvml {
    void *library, *device;
    struct bb_nvml_calls *calls;
    bool mig; /* the GPU is partitioned into MIG instances */
    bool mps; /* MPS clients were using the GPU at bb_nvml_open */
    struct bb_nvml_fabric fabric;
};

/* State of the GPU at one time. Contains no pointers, so that ranks can exchange the struct by value. */
struct bb_nvml_sample {
    double sm_mhz, memory_mhz, temperature_c, power_w; /* NaN: unknown */
    long long reasons;                                 /* NVML's mask of clock throttle reasons; -1: unknown */
};

/*
 * bb_nvml_open - open NVML and find the GPU by its PCI address. If the library or the GPU is missing, *n stays closed;
 * this is not an error.
 *   warns  true: print a warning if *n stays closed; set on one rank only
 */
void bb_nvml_open(struct bb_nvml *n, const struct bb_device_info *device, bool warns);
void bb_nvml_release(struct bb_nvml *n);

/* bb_nvml_open_from - like bb_nvml_open, but with a given library file and PCI address; for tests. */
void bb_nvml_open_from(struct bb_nvml *n, const char *library, const char *pci, bool warns);

/*
 * bb_nvml_domains - number the NVLink domains of n ranks: the ranks of a node and all ranks with the same fabric.
 *   node_of    [n] node of each rank
 *   domain_of  [n] out: the lowest rank of the same domain
 *   Returns    whether a domain contains ranks of several nodes
 */
bool bb_nvml_domains(const struct bb_nvml_fabric *fabrics, const int *node_of, int n, int *domain_of);

/* Counters and limits of a GPU. */
enum bb_nvml_counter {
    BB_NVML_ECC_UNCORRECTED,    /* memory errors since the driver was loaded */
    BB_NVML_ECC_CORRECTED,      /* likewise */
    BB_NVML_ECC_CORRECTED_EVER, /* since the GPU was made */
    BB_NVML_SRAM_CORRECTED,     /* of the caches, registers and shared memory: since the driver was loaded */
    BB_NVML_SRAM_CORRECTED_EVER,
    BB_NVML_REMAP_PENDING, /* 1: a row of memory is remapped at the next reset */
    BB_NVML_REMAP_FAILED,  /* 1: a row could not be remapped */
    BB_NVML_NVLINKS,       /* number of active NVLinks; the next three: sums over them */
    BB_NVML_NVLINK_REPLAYS,
    BB_NVML_NVLINK_RECOVERIES,
    BB_NVML_NVLINK_ERRORS, /* CRC errors of flits and data, and ECC errors */
    BB_NVML_PCIE_LANES,
    BB_NVML_PCIE_REPLAYS,
    BB_NVML_POWER_LIMIT, /* W */
    BB_NVML_CLOCK_LIMIT, /* application clock of the SMs, MHz */
    BB_NVML_COUNTERS
};

/* bb_nvml_read_counters - read all counters; -1: unknown.
 * bb_nvml_driver        - write the version of the driver, "580.65.06", to text[bytes]; "": unknown. */
void bb_nvml_read_counters(const struct bb_nvml *n, long long counters[BB_NVML_COUNTERS]);
void bb_nvml_driver(const struct bb_nvml *n, char *text, size_t bytes);

void bb_nvml_sample(const struct bb_nvml *n, struct bb_nvml_sample *sample);

/* Conditions that make a measurement doubtful; the values are bit numbers of the mask that bb_nvml_flags returns. */
enum bb_nvml_flag {
    BB_NVML_POWER_CAP,    /* the driver lowered the clocks to stay within the power limit */
    BB_NVML_HW_SLOWDOWN,  /* the hardware lowered the clocks by half or more */
    BB_NVML_SW_THERMAL,   /* the driver lowered the clocks because of temperature */
    BB_NVML_HW_THERMAL,   /* the hardware lowered the clocks because of temperature */
    BB_NVML_POWER_BRAKE,  /* the external power brake signal (from the power supply) lowered the clocks */
    BB_NVML_CLOCKS_MOVED, /* the SM clock or the memory clock changed by more than 2 % between the samples before and
                             after the measurement */
    BB_NVML_FLAGS
};

/* [enum bb_nvml_flag] name in output and JSON ("power_cap"), and advice to the user. */
extern const struct bb_nvml_flag_row {
    const char *name, *advice;
    unsigned long long reasons; /* bits of NVML's mask of throttle reasons that set this flag; 0: throttle reasons do
                                   not set this flag */
} bb_nvml_flag_rows[BB_NVML_FLAGS];

/*
 * bb_nvml_flags - return a mask with bit 1 << f for each flag f (enum bb_nvml_flag) that is set in either sample or by
 * the difference between the samples. Clocks are compared only if the GPU was busy in both samples, because idle clocks
 * are low.
 */
unsigned bb_nvml_flags(const struct bb_nvml_sample *before, const struct bb_nvml_sample *after);

/* bb_nvml_json - return {sm_mhz, memory_mhz, temperature_c, power_w, throttle_reasons}; unknown values are null. */
json_t *bb_nvml_json(const struct bb_nvml_sample *sample);

/* bb_nvml_json_flags - append the names of the flags to a JSON array. */
void bb_nvml_json_flags(json_t *array, unsigned flags);

#endif
