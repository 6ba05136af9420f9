/*
 * measurements.h - what was measured, as the machine model can be held against it: rows of result files, of every kind that
 * a cluster profile is fitted to.
 */
#ifndef BB_PROXIES_CALIBRATE_MEASUREMENTS_H
#define BB_PROXIES_CALIBRATE_MEASUREMENTS_H

#include "proxies/machine/cluster.h"

#include <jansson.h>

enum bb_measurement_kind {
    BB_MEASURED_COLLECTIVE,   /* between events: of calls that were enqueued before they began                 */
    BB_MEASURED_MESSAGE,      /* one way, or half a round trip: no sooner than the host enqueues it            */
    BB_MEASURED_KERNEL,       /* a product or a pass, many of them from the first one's launch on              */
    BB_MEASURED_TIMED_KERNEL, /* a kernel of known duration, likewise                                          */
    BB_MEASURED_NCCL_LAUNCH,  /* the host's time for an NCCL call                                              */
    BB_MEASURED_OVERLAP       /* products that begin together with NCCL's work, until the last of them has ended     */
};

struct bb_measurement {
    enum bb_measurement_kind kind;
    size_t file;
    double time_us;
    int iterations; /* enqueued together; 0: the launch takes no part in the time             */
    bool by_host;   /* of a collective: from before the first call to after the wait          */

    struct bb_collective call;
    char algorithm[24], protocol[24]; /* what NCCL took; "": it does not tell                        */
    bool forced;                      /* ... because it was told to                                  */
    int channels;                     /* of NCCL, a multiprocessor each; 0: it does not tell          */

    bool same_node; /* messages and their bytes */
    double bytes;

    struct bb_kernel_list_item kernel;
    double known_us; /* timed; of products beside NCCL: what they take alone */
    double comm_us;  /* ... and how long NCCL was beside them, with as many calls as iterations */
};

struct bb_measurement_file {
    const char *path; /* borrowed */
    char what[48];    /* "bench p2p", "nccl-tests"                            */
    char started[40], nccl[24], device[96], emulated_cluster[256];
    int ranks, nodes, max_ranks_per_host, sm_count; /* sm_count 0: not told */
    bool emulated, is_nccl_tests;
    size_t n_rows, n_unused; /* rows taken, rows that no law is held against */
};

struct bb_measurements {
    struct bb_measurement_file *files;
    struct bb_measurement *rows;
    size_t n_files, n_rows;
    int gpus_per_node; /* as it is given, 0: it is not */
};

/*
 * bb_measurements_read - paths[n]: JSON of `bench` (collectives, p2p, compute, overlap) and of nccl-tests, and what that
 * printed (OPERATION=PATH where it does not say what it is of). Refused with one line (-BB_EUSAGE): anything else,
 * files of which no row is of use, several ranks on a GPU, and files that are not of one machine (emulated and
 * measured, GPUs of different names, emulated GPUs of different profiles).
 */
int bb_measurements_read(struct bb_measurements *e, const char *const *paths, size_t n) BB_MUST_CHECK;
void bb_measurements_release(struct bb_measurements *e);

/* bb_measurement_text - "all_reduce 1 MiB on 4 ranks", for people. */
void bb_measurement_text(const struct bb_measurement *row, char *text, size_t size);

#endif
