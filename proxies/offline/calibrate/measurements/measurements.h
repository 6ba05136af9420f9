/*
 * measurements.h - the measurements to which a cluster profile is fitted. A measurement is one row of a result file,
 * converted to the operation that the cost model predicts.
 */
#ifndef BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASUREMENTS_H
#define BB_PROXIES_OFFLINE_CALIBRATE_MEASUREMENTS_MEASUREMENTS_H

#include "collectives/compare/result_reader.h"
#include "proxies/simulation/machine/cluster.h"

#include <jansson.h>

enum bb_measurement_kind {
    /* GPU time of a collective between two CUDA events, without host time because the host enqueues the collective
     * before the first event completes; with by_host, time on the host's clock */
    BB_MEASURED_COLLECTIVE,
    BB_MEASURED_MESSAGE, /* time of one message: one way, half a round trip, or sendrecv; if the host needs longer to
                            enqueue the message, this host time */
    BB_MEASURED_KERNEL,  /* mean time of one GEMM or memory-bound kernel in a stream of many, from the first launch to
                           the end of the last kernel, divided by their number */
    BB_MEASURED_TIMED_KERNEL, /* like BB_MEASURED_KERNEL, for the timed kernel, which runs for a requested duration */
    BB_MEASURED_NCCL_LAUNCH,  /* host time of one NCCL call */
    BB_MEASURED_OVERLAP       /* time from the common start of several GEMMs and NCCL operations to the end of the last
                           GEMM */
};

struct bb_measurement {
    enum bb_measurement_kind kind;
    size_t file;
    double time_us;
    int iterations; /* number of operations that the host enqueues together; 0: the time contains no launches */
    bool by_host;   /* collectives, sendrecv: the time is on the host's clock, from before the first call to the final
                     synchronization */

    struct bb_collective call;
    char algorithm[24], protocol[24]; /* NCCL variant (algorithm + protocol) of the measurement; "": unknown */
    bool forced;                      /* the user forced this variant */
    int channels;                     /* number of NCCL channels, each of which occupies one SM; 0: unknown */

    bool same_node; /* messages: both ranks are on the same node */
    double bytes;

    struct bb_kernel_list_item kernel;
    double known_us; /* timed kernels: requested duration; overlap measurements: duration of the GEMMs when they run
                        alone */
    double comm_us;  /* overlap measurements: duration of all `iterations` NCCL calls, during which the GEMMs ran */
};

/* Why calibration does not use a row. */
enum bb_unused {
    BB_USED,
    BB_UNUSED_EMPTY,  /* 0 bytes */
    BB_UNUSED_WRONG,  /* wrong data */
    BB_UNUSED_MODE,   /* mode sync or graph: the time contains host overhead, or the operations ran in a CUDA graph */
    BB_UNUSED_START,  /* no start barrier: the time contains host overhead */
    BB_UNUSED_MODEL,  /* no cost model */
    BB_UNUSED_COUNTS, /* alltoallv: the results do not contain the counts of each pair of ranks */
    BB_UNUSED_TIME,   /* no time */
    BB_UNUSED_REASONS
};

struct bb_measurement_file {
    const char *path; /* without control characters; owned */
    char what[128];   /* source of the file, for example "bench p2p" or "nccl-tests" */
    char started[40], nccl[24], device[96], emulated_cluster[256];
    char slow[BB_SLOW_TEXT]; /* the first slow part that the benchmark found: a rank, node or link; "": none */
    int ranks, nodes, max_ranks_per_host, sm_count; /* sm_count 0: unknown */
    bool emulated, is_nccl_tests;
    size_t n_rows, n_unused;        /* number of measurements read; number of rows that calibration does not use */
    size_t n_of[BB_UNUSED_REASONS]; /* of these: rows with each reason */
    char unused[192];               /* why rows are not used, " (0 bytes)"; "": all are used */
};

struct bb_measurements {
    struct bb_measurement_file *files;
    struct bb_measurement *rows;
    size_t n_files, n_rows;
    int gpus_per_node; /* option --gpus-per-node; 0: not specified */
};

/*
 * bb_measurements_read - reads result files.
 *   e        out; call bb_measurements_release also after an error
 *   paths    [n] JSON of `bench` (collectives, p2p, compute, overlap) and of nccl-tests, and tables of nccl-tests
 *            (OPERATION=PATH for a table without the name of its operation); owned by the caller
 *   Returns  0, or -BB_EUSAGE after printing an error message: another kind of file, no usable rows (only a warning
 *            if another file has some), several ranks on a GPU, or files of different machines (emulated and real GPUs, different GPUs, different
 *            EMU_CLUSTER)
 */
int bb_measurements_read(struct bb_measurements *e, const char *const *paths, size_t n) BB_MUST_CHECK;
void bb_measurements_release(struct bb_measurements *e);

/* bb_measurement_text - describes a measurement for a message: "all_reduce 1 MiB on 4 ranks". */
void bb_measurement_text(const struct bb_measurement *row, char *text, size_t size);

#endif
