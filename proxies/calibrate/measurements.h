/*
 * measurements.h - rows of result files in the form that the cost model predicts: all kinds of rows to which a cluster
 * profile is fitted.
 */
#ifndef BB_PROXIES_CALIBRATE_MEASUREMENTS_H
#define BB_PROXIES_CALIBRATE_MEASUREMENTS_H

#include "proxies/machine/cluster.h"

#include <jansson.h>

enum bb_measurement_kind {
    BB_MEASURED_COLLECTIVE,   /* time between GPU events of calls that were enqueued before they began */
    BB_MEASURED_MESSAGE,      /* one way or half a round trip; never less than the host needs to enqueue */
    BB_MEASURED_KERNEL,       /* a GEMM or memory-bound kernel, repeated; timed from the first launch */
    BB_MEASURED_TIMED_KERNEL, /* a kernel of known duration, likewise */
    BB_MEASURED_NCCL_LAUNCH,  /* host time of an NCCL call */
    BB_MEASURED_OVERLAP       /* GEMMs that begin together with NCCL's operations, timed until the last GEMM ends */
};

struct bb_measurement {
    enum bb_measurement_kind kind;
    size_t file;
    double time_us;
    int iterations; /* operations enqueued together; 0: launches do not contribute to the time */
    bool by_host;   /* collectives: host clock, from before the first call to after the wait */

    struct bb_collective call;
    char algorithm[24], protocol[24]; /* NCCL's choice; "": unknown */
    bool forced;                      /* the user forced this choice */
    int channels;                     /* NCCL's channels, one SM each; 0: unknown */

    bool same_node; /* messages */
    double bytes;

    struct bb_kernel_list_item kernel;
    double known_us; /* duration of a timed kernel; for an overlap row: of the GEMMs alone */
    double comm_us;  /* overlap row: duration of `iterations` NCCL calls during the GEMMs */
};

struct bb_measurement_file {
    const char *path; /* borrowed */
    char what[48];    /* "bench p2p", "nccl-tests"                            */
    char started[40], nccl[24], device[96], emulated_cluster[256];
    int ranks, nodes, max_ranks_per_host, sm_count; /* sm_count 0: unknown */
    bool emulated, is_nccl_tests;
    size_t n_rows, n_unused; /* rows taken; rows without a cost model */
};

struct bb_measurements {
    struct bb_measurement_file *files;
    struct bb_measurement *rows;
    size_t n_files, n_rows;
    int gpus_per_node; /* as given by the user, 0: not given */
};

/*
 * bb_measurements_read - read result files.
 *   e        out; call bb_measurements_release also after an error
 *   paths    [n] JSON of `bench` (collectives, p2p, compute, overlap) and of nccl-tests, and tables of nccl-tests
 *            (OPERATION=PATH for a table without the name of its operation); borrowed
 *   Returns  0, or -BB_EUSAGE after printing one line: other files, files without a usable row, several ranks on a GPU,
 *            or files of different machines (emulated and measured, other GPUs, other profiles of emulated GPUs)
 */
int bb_measurements_read(struct bb_measurements *e, const char *const *paths, size_t n) BB_MUST_CHECK;
void bb_measurements_release(struct bb_measurements *e);

/* bb_measurement_text - describe a row for a message: "all_reduce 1 MiB on 4 ranks". */
void bb_measurement_text(const struct bb_measurement *row, char *text, size_t size);

#endif
