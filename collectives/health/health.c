/* health.c - runs `busbar health` on the ranks: the measurements that verdict.c asks for. */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/clock.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"
#include "bootstrap/rank/journal.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/mpirun.h"
#include "bootstrap/world/nodes.h"
#include "collectives/compute/compute_measure.h"
#include "collectives/copy/copy_measure.h"
#include "collectives/health/health_options.h"
#include "collectives/health/health_report.h"
#include "collectives/health/inventory.h"
#include "cuda/data/buffers.h"
#include "cuda/data/kernels.h"
#include "cuda/device/check.h"
#include "cuda/device/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

/* State of one run. An all-zero struct may be released. */
struct run {
    struct bb_health_options options;
    const struct bb_opts *set;
    bb_forecast *forecast;
    struct bb_session session;
    struct bb_compute_context compute; /* its stream and events time all_reduce, too */
    struct bb_copies copies;
    struct bb_comm comm; /* of all ranks */
    struct bb_guarded buffer;
    struct bb_verdict *verdict; /* of the data of all_reduce, in device memory; NULL: emulated GPUs without data */
    struct bb_health health;
    int *gpu_of;                 /* [size] index of each rank on its node */
    int *domain_of;              /* [nodes] by NVML; NULL: unknown */
    char (*hosts)[BB_HOST_TEXT]; /* [nodes] */
    char (*slurm)[BB_HOST_TEXT]; /* [nodes] their names for Slurm */
    char (*nics)[BB_NICS_TEXT];  /* [size] names of the NICs near each rank's GPU */
    char source[BB_HEALTH_SOURCE];
    struct bb_health_inventory *first; /* counters at the inventory; NULL: not run */
    json_t *baseline, *inventory;      /* on rank 0; baseline: the file of --expect, or NULL */
    struct bb_soak soak[BB_SOAK_TESTS];
    double next_save_s, next_record_s; /* times from which on the soak so far is saved, and recorded, again */
    struct bb_health_tables tables;
    struct bb_health_matrix matrix; /* on rank 0 */
    struct bb_health_report report;
    int test;                  /* enum bb_health_test that is being measured; -1: none */
    int printed;               /* the tests before this one are printed */
    struct bb_journal records; /* of before a restart of the run without lost nodes; `past` points into them */
    struct past_values {
        int test;
        const char *data;
    } * past;                       /* [n_past] values of the tests before the one that was interrupted */
    size_t n_past, n_repeated;      /* n_repeated: number of them that `measure` has returned */
    struct bb_health_finding *lost; /* of the lost nodes */
    unsigned recorded;              /* kinds of records that this rank had before a restart, by bit_of */
    bool *left;                     /* [nodes] after a restart: the node has left, because GPUs may be lost */
    int *first_nodes, first_rank;   /* after a restart: node of each rank, and this rank, when the run began */
    uint64_t verified;              /* number of verified measurements, the seed of their data */
};

/* ---- measurements ---- */

/* Adds the finding that a part has wrong data. node, other, gpu: -1: does not apply */
static void add_wrong(struct run *r, enum bb_health_test test, enum bb_health_part part, int node, int other, int gpu)
{
    struct bb_health_finding f = bb_health_remark(test, part, BB_HEALTH_FAIL, node, other, gpu);

    snprintf(f.text, sizeof f.text, "wrong data in %s", bb_health_tests[test].name);
    bb_health_add(&r->health, &f);
}

static int measure_kernels(struct run *r, enum bb_health_test test, double *values)
{
    const bool is_gemm = test == BB_HEALTH_GEMM;
    const double work = is_gemm ? bb_gemm_flops(&bb_health_gemm) / 1e12 : (double)BB_HEALTH_COPY / 1e9;
    struct bb_computed computed;
    int rc;

    rc = is_gemm ? bb_measure_gemm(&r->compute, &bb_health_gemm, &computed)
                 : bb_measure_memcpy(&r->compute, BB_HEALTH_COPY, &computed);
    for (int rank = 0; rc == 0 && rank < r->session.world.size; rank++)
        values[r->session.world.node_of[rank] * r->health.gpus + r->gpu_of[rank]] =
            work / (r->compute.rank_stats[rank].p50 / 1e6);
    return rc;
}

/* Returns the value of a GPU with its slowest partner. best: [gpus] values of the GPUs of its node with their fastest
 * partners */
static double slowest_peer(const double *gbps, const double *best, int gpus, int gpu, double typical)
{
    double slowest = NAN;

    for (int i = 0; i < gpus; i++)
        slowest = fmin(slowest, gbps[i] / fmin(best[i], best[gpu]));
    return slowest * typical;
}

/* The value of a GPU is that with its fastest partner. */
static int measure_copies(struct run *r, enum bb_health_test test, double *values)
{
    static const enum bb_copy_id ids[] = {[BB_HEALTH_TO_GPU] = BB_COPY_TO_GPU,
                                          [BB_HEALTH_FROM_GPU] = BB_COPY_FROM_GPU,
                                          [BB_HEALTH_PEERS] = BB_COPY_PEER_WRITE,
                                          [BB_HEALTH_SLOWEST_PEER] = BB_COPY_PEER_WRITE};
    const struct bb_world *w = &r->session.world;
    const int gpus = r->health.gpus;
    double *gbps, *best, typical;
    int rc;

    BB_NEW(gbps, w->size * gpus);
    BB_NEW(best, r->health.nodes * gpus);
    for (int i = 0; i < r->health.nodes * gpus; i++)
        best[i] = NAN;
    rc = bb_copies_measure(&r->copies, ids[test], gbps, NULL);
    if (rc == -BB_EDATA)
        add_wrong(r, test, BB_HEALTH_A_GPU, w->node_of[r->copies.wrong], -1, r->gpu_of[r->copies.wrong]);
    TRY(rc);
    for (int rank = 0; rank < w->size; rank++) {
        double *value = &best[w->node_of[rank] * gpus + r->gpu_of[rank]];

        for (int i = 0; i < gpus; i++)
            *value = fmax(*value, gbps[rank * gpus + i]);
    }
    typical = bb_health_median(best, (size_t)(r->health.nodes * gpus));
    for (int rank = 0; rank < w->size; rank++) {
        const size_t node = (size_t)w->node_of[rank] * (size_t)gpus, at = node + (size_t)r->gpu_of[rank];

        values[at] = test == BB_HEALTH_SLOWEST_PEER
                         ? slowest_peer(&gbps[(size_t)rank * (size_t)gpus], &best[node], gpus, r->gpu_of[rank], typical)
                         : best[at];
    }
out:
    free(best);
    free(gbps);
    return rc;
}

/* Returns the group of a rank in a test; -1: it takes no part. */
static int group_of(const struct run *r, enum bb_health_test test, const int *partner, int rank)
{
    const int node = r->session.world.node_of[rank], gpu = r->gpu_of[rank];

    if (partner[node] < 0)
        return -1;
    if (test == BB_HEALTH_NODE)
        return node;
    if (test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION)
        return MIN(node, partner[node]) * r->health.gpus + gpu;
    return test == BB_HEALTH_RAILS || test == BB_HEALTH_RAILS_ALONE ? gpu : 0;
}

/* Issues n operations: all_reduce, or a message of the node that sends, whose bus bandwidth between two ranks is the
 * same. */
static int enqueue(struct run *r, struct bb_comm *c, int n)
{
    const size_t count = bb_health_size(&r->options) / sizeof(float);
    void *area = r->buffer.area;
    int rc = 0;

    bb_world_guard(&r->session.world, "all_reduce");
    for (int i = 0; i < n && rc == 0; i++)
        rc = BB_NCCL(r->health.sender < 0
                         ? ncclAllReduce(area, area, count, ncclFloat, ncclSum, c->nccl, r->compute.stream)
                     : r->health.sender == r->session.world.node
                         ? ncclSend(area, count, ncclFloat, 1 - c->rank, c->nccl, r->compute.stream)
                         : ncclRecv(area, count, ncclFloat, 1 - c->rank, c->nccl, r->compute.stream));
    bb_world_unguard(&r->session.world);
    return rc;
}

enum { WARM_UP = 2 };

/* Times all_reduce in the communicator of this rank's group; NaN: in none. */
static int time_group(struct run *r, struct bb_comm *c, double *us)
{
    int rc;

    *us = NAN;
    TRY(bb_world_barrier(&r->session.world, "the start of a measurement"));
    if (!c->nccl)
        return 0;
    TRY(enqueue(r, c, WARM_UP));
    TRY(BB_CUDA(cudaEventRecord(r->compute.start, r->compute.stream)));
    TRY(enqueue(r, c, r->options.iterations));
    TRY(BB_CUDA(cudaEventRecord(r->compute.stop, r->compute.stream)));
    TRY(bb_comm_wait(c, r->compute.stream, "all_reduce"));
    TRY(bb_event_us(r->compute.start, r->compute.stop, us));
    *us /= r->options.iterations;
out:
    return rc;
}

/* Times a test whose groups run at once, or, of rails alone, one after another. */
static int time_groups(struct run *r, enum bb_health_test test, struct bb_comm *c, double *us)
{
    const int turns = test == BB_HEALTH_RAILS_ALONE ? r->health.gpus : 1;
    struct bb_comm idle = {0};
    double none;
    int rc = 0;

    for (int turn = 0; turn < turns; turn++) {
        const bool is_mine = turns == 1 || r->session.world.local_rank == turn;

        TRY(time_group(r, is_mine ? c : &idle, is_mine ? us : &none));
    }
out:
    return rc;
}

/* Returns the bus bandwidth of a rank's group: that of its slowest rank. */
static double group_gbps(const struct run *r, enum bb_health_test test, const int *partner, const double *rank_us,
                         int rank)
{
    const int group = group_of(r, test, partner, rank);
    double us = 0;
    int n = 0;

    for (int other = 0; other < r->session.world.size && group >= 0; other++)
        if (group_of(r, test, partner, other) == group) {
            us = fmax(us, rank_us[other]);
            n++;
        }
    return n > 1 ? (double)bb_health_size(&r->options) * 2 * (n - 1) / n / us / 1e3 : NAN;
}

/* Fills the buffer, makes one all_reduce and counts the wrong elements of this rank. Then the buffer is zero again. */
static int count_wrong(struct run *r, struct bb_comm *c, unsigned long long *wrong)
{
    const size_t bytes = bb_health_size(&r->options), count = bytes / sizeof(float);
    const struct bb_pattern pattern = bb_pattern_of(&bb_dtypes[BB_FLOAT], BB_SUM, c->size, bb_mix(r->verified));
    const struct bb_expect expect = {.reduced = 1, .block = count};
    cudaStream_t stream = r->compute.stream;
    struct bb_verdict verdict;
    int rc;

    TRY(bb_fill(r->buffer.area, count, &pattern, c->rank, 0, stream));
    TRY(enqueue(r, c, 1));
    TRY(bb_verdict_clear(r->verdict, stream));
    TRY(bb_check(r->buffer.area, count, &pattern, &expect, r->verdict, stream));
    TRY(bb_comm_wait(c, stream, "all_reduce"));
    TRY(BB_CUDA(cudaMemcpy(&verdict, r->verdict, sizeof verdict, cudaMemcpyDeviceToHost)));
    TRY(BB_CUDA(cudaMemsetAsync(r->buffer.area, 0, bytes, stream)));
    *wrong = verdict.wrong;
    if (verdict.checked != count)
        rc = bb_err(BB_EFAIL, "verification compared only %llu elements of all_reduce", verdict.checked);
out:
    return rc;
}

/* Adds the GPUs with wrong data; of groups of several nodes in which all have wrong data, what connects them. wrong:
 * [ranks] */
static void add_all_wrong(struct run *r, enum bb_health_test test, const int *partner, const unsigned long long *wrong)
{
    const bool is_pair = test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION, is_all = test == BB_HEALTH_WHOLE;
    const struct bb_world *w = &r->session.world;

    for (int rank = 0; rank < w->size; rank++) {
        const int node = w->node_of[rank], gpu = r->gpu_of[rank], group = group_of(r, test, partner, rank);
        bool is_common = test != BB_HEALTH_NODE, is_first = true;

        for (int other = 0; other < w->size && wrong[rank] > 0; other++)
            if (group_of(r, test, partner, other) == group) {
                is_common = is_common && wrong[other] > 0;
                is_first = is_first && other >= rank;
            }
        if (wrong[rank] > 0 && !is_common)
            add_wrong(r, test, BB_HEALTH_A_GPU, node, -1, gpu);
        else if (wrong[rank] > 0 && is_first)
            add_wrong(r, test,
                      is_pair  ? BB_HEALTH_A_PATH
                      : is_all ? BB_HEALTH_ALL
                               : BB_HEALTH_A_RAIL,
                      is_pair ? node : -1, is_pair ? partner[node] : -1, is_all ? -1 : gpu);
    }
}

/* Verifies the data of all groups. Returns -BB_EDATA after an error line about the first rank with wrong data. */
static int verify(struct run *r, enum bb_health_test test, const int *partner, struct bb_comm *c)
{
    const struct bb_world *w = &r->session.world;
    unsigned long long wrong = 0, *all = NULL;
    int rc = 0;

    if (!r->verdict || r->health.sender >= 0)
        return 0;
    r->verified++; /* also on ranks that take no part: all of a later group have the same pattern */
    if (c->nccl)
        TRY(count_wrong(r, c, &wrong));
    all = bb_world_gather(&r->session.world, &wrong, sizeof wrong, &rc);
    TRY(rc);
    add_all_wrong(r, test, partner, all);
    for (int rank = 0; rank < w->size && rc == 0; rank++) {
        const int other = bb_health_tests[test].part == BB_HEALTH_A_NIC ? partner[w->node_of[rank]] : -1;

        if (all[rank] > 0)
            rc = BB_WORLD_ERR(w, BB_EDATA, "wrong data: %llu of %zu elements of %s, GPU %d (%s) of %s%s%s", all[rank],
                              bb_health_size(&r->options) / sizeof(float), bb_health_tests[test].name, r->gpu_of[rank],
                              r->session.devices[rank].pci, w->hosts[rank], other < 0 ? "" : " with ",
                              other < 0 ? "" : r->hosts[other]);
    }
out:
    free(all);
    return rc;
}

static int measure_all_reduce(struct run *r, enum bb_health_test test, const int *partner, double *values)
{
    struct bb_world *w = &r->session.world;
    struct bb_comm c = {0};
    double us, *rank_us = NULL;
    int rc;

    TRY(bb_comm_split(&c, &r->comm, bb_health_tests[test].stage, group_of(r, test, partner, w->rank), w->rank, NULL));
    TRY(time_groups(r, test, &c, &us));
    rank_us = bb_world_gather(w, &us, sizeof us, &rc);
    TRY(rc);
    for (int rank = 0; rank < w->size; rank++)
        values[w->node_of[rank] * r->health.gpus + r->gpu_of[rank]] = group_gbps(r, test, partner, rank_us, rank);
    TRY(verify(r, test, partner, &c));
    if (c.nccl)
        TRY(bb_comm_finalize(&c));
out:
    free(rank_us);
    return rc;
}

static int save_values(struct run *r, enum bb_health_test test, const int *partner, const double *values)
{
    const bool is_pair = test == BB_HEALTH_PAIRS || test == BB_HEALTH_BISECTION;
    int rc = 0;

    for (int node = 0; node < r->health.nodes; node++)
        for (int gpu = 0; gpu < r->health.gpus && rc == 0; gpu++)
            rc = bb_health_save_row(
                &r->report, test, node, gpu, is_pair ? partner[node] : -1,
                is_pair && partner[node] >= 0 ? bb_health_uplink_share(&r->health, partner, node, partner[node]) : 1,
                values[node * r->health.gpus + gpu]);
    return rc;
}

/* Kinds of records of the journal. */
enum {
    NODE_OF = BB_JOURNAL_COMMAND, /* arg: rank; int[ranks] */
    HOSTS,                        /* hosts of the nodes */
    SLURM,                        /* their names for Slurm */
    DOMAINS,                      /* int[nodes], by NVML */
    FINDING,   /* of the inventory; arg: 1: about a node that leaves the run; struct bb_health_finding */
    INVENTORY, /* text of the JSON; only of rank 0 */
    COUNTERS,  /* struct bb_health_inventory */
    BEGIN,     /* arg: test that begins; the tests before are printed */
    VALUES,    /* arg: test; double[nodes * gpus] */
    SOAK,      /* text of the JSON `soak`; only of rank 0 */
    LOST       /* arg: test that is measured again without the node; struct bb_health_finding */
};

static unsigned bit_of(int kind)
{
    return kind < BB_JOURNAL_COMMAND ? 0 : 1U << (kind - BB_JOURNAL_COMMAND);
}

static void record(struct run *r, int kind, int arg, const void *data, size_t bytes)
{
    bb_journal_append(r->session.world.supervised.journal, kind, arg, data, bytes);
}

/* Records a JSON value, which is consumed. */
static void record_json(struct run *r, int kind, json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);

    record(r, kind, 0, text, strlen(text));
    free(text);
    json_decref(value);
}

/* The record precedes the file, so that a loss after the file has the stage is a loss in this stage. */
static int begin_test(struct run *r, int test)
{
    const bool is_first = r->session.world.rank == 0;

    r->test = test;
    if (test < BB_HEALTH_TESTS)
        r->health.took_part[test] = bb_health_active(&r->health);
    if (r->n_repeated < r->n_past)
        return 0;
    if (is_first)
        bb_health_print_tests(&r->report, r->printed, test);
    r->printed = test;
    record(r, BEGIN, test, NULL, 0);
    return is_first ? bb_health_save_verdicts(&r->report, test < BB_HEALTH_TESTS ? bb_health_tests[test].stage : "soak")
                    : 0;
}

static int measure_now(struct run *r, enum bb_health_test test, const int *partner, double *values)
{
    const int n = r->health.nodes * r->health.gpus;
    int rc;

    bb_world_reached(&r->session.world, "health %s", bb_health_tests[test].name);
    bb_progress_show(&r->session.progress, "%s", bb_health_tests[test].name);
    for (int i = 0; i < n; i++)
        values[i] = NAN;
    rc = test <= BB_HEALTH_MEMORY         ? measure_kernels(r, test, values)
         : test <= BB_HEALTH_SLOWEST_PEER ? measure_copies(r, test, values)
                                          : measure_all_reduce(r, test, partner, values);
    for (int i = 0; i < n && rc == 0; i++)
        if (partner[i / r->health.gpus] < 0)
            values[i] = NAN;
    if (rc == 0 && !r->health.is_soak)
        record(r, VALUES, (int)test, values, (size_t)n * sizeof *values);
    return rc;
}

/* Measures, or returns the values from before a restart of the run. */
static int measure(void *arg, enum bb_health_test test, const int *partner, double *values)
{
    struct run *r = arg;
    int rc = 0;

    if (!r->health.is_soak && (int)test != r->test)
        TRY(begin_test(r, (int)test));
    if (r->n_repeated < r->n_past && r->past[r->n_repeated].test != (int)test)
        return bb_err(BB_EFAIL, "the records of this run do not match its tests");
    if (r->n_repeated < r->n_past)
        memcpy(values, r->past[r->n_repeated++].data, (size_t)(r->health.nodes * r->health.gpus) * sizeof *values);
    else
        TRY(measure_now(r, test, partner, values));
    if (r->session.world.rank == 0 && !r->health.is_soak && r->health.sender < 0)
        rc = save_values(r, test, partner, values);
out:
    return rc;
}

/* ---- restart without the lost nodes ---- */

static void *copy_of(const struct bb_journal_record *record)
{
    char *copy;

    BB_NEW(copy, record->bytes + 1);
    memcpy(copy, record->data, record->bytes);
    return copy;
}

/* Drops the values of this test and of later ones: they are measured again. */
static void drop_past(struct run *r, int test)
{
    while (r->n_past > 0 && r->past[r->n_past - 1].test >= test)
        r->n_past--;
}

/* The soak begins again; what it measured before the loss has rows of its own. */
static void read_soak(struct run *r, const struct bb_journal_record *record)
{
    json_t *row;
    size_t i;

    json_decref(r->report.soak_before);
    r->report.soak_before = json_loadb(record->data, record->bytes, 0, NULL);
    json_array_foreach(r->report.soak_before, i, row) json_object_set_new(row, "before_loss", json_true());
}

/* begun: in and out, the test that was interrupted */
static void read_record(struct run *r, const struct bb_journal_record *record, size_t *begun)
{
    struct bb_health_finding f = {0};

    r->recorded |= bit_of(record->kind);
    if (record->kind == FINDING || record->kind == LOST)
        memcpy(&f, record->data, sizeof f);
    if (record->kind == BEGIN || record->kind == LOST)
        *begun = (size_t)record->arg;
    if (record->kind == NODE_OF) {
        r->first_nodes = copy_of(record);
        r->first_rank = record->arg;
    } else if (record->kind == HOSTS) {
        free(r->hosts);
        r->hosts = copy_of(record);
        r->health.nodes = (int)(record->bytes / sizeof *r->hosts);
        if (!r->left) /* the hosts are recorded again after each restart */
            BB_NEW(r->left, r->health.nodes);
    } else if (record->kind == SLURM) {
        free(r->slurm);
        r->slurm = copy_of(record);
    } else if (record->kind == DOMAINS) {
        r->health.domain_of = r->domain_of = copy_of(record);
    } else if (record->kind == FINDING) {
        bb_health_add(&r->health, &f);
        if (record->arg == 1 && r->left && f.node < r->health.nodes)
            r->left[f.node] = true;
    } else if (record->kind == INVENTORY) {
        r->inventory = json_loadb(record->data, record->bytes, 0, NULL);
    } else if (record->kind == SOAK) {
        read_soak(r, record);
    } else if (record->kind == COUNTERS) {
        r->first = copy_of(record);
    } else if (record->kind == VALUES) {
        BB_GROW(r->past, r->n_past);
        r->past[r->n_past++] = (struct past_values){record->arg, record->data};
    } else if (record->kind == LOST) {
        BB_GROW(r->lost, r->health.n_lost);
        r->lost[r->health.n_lost++] = f;
        drop_past(r, record->arg);
    } else if (record->kind == BB_JOURNAL_WORLD) {
        json_array_clear(r->report.lost_ranks);
    } else if (record->kind == BB_JOURNAL_LOST && r->first_nodes && r->left && !r->left[r->first_nodes[record->arg]]) {
        json_array_append_new(r->report.lost_ranks, json_integer(record->arg));
    }
}

/* Adds the finding about a node without ranks, unless it is known. */
static void lose_node(struct run *r, int node, int test)
{
    const char *stage = test < BB_HEALTH_TESTS ? bb_health_tests[test].stage : "soak";
    struct bb_health_finding f =
        bb_health_remark((enum bb_health_test)test, BB_HEALTH_A_NODE, BB_HEALTH_FAIL, node, -1, -1);
    int n = 0, used = 0;
    size_t i;
    json_t *rank;

    for (i = 0; i < r->health.n_lost; i++)
        if (r->lost[i].node == node)
            return;
    json_array_foreach(r->report.lost_ranks, i, rank) if (r->first_nodes[json_integer_value(rank)] == node && n++ == 0)
        used = snprintf(f.text, sizeof f.text, "rank %d ", (int)json_integer_value(rank));
    if (n > 1)
        used += snprintf(f.text + used, sizeof f.text - (size_t)used, "and %d more ", n - 1);
    snprintf(f.text + used, sizeof f.text - (size_t)used, "%s lost in stage %s", n > 1 ? "were" : "was", stage);
    f.lost = true;
    BB_GROW(r->lost, r->health.n_lost);
    r->lost[r->health.n_lost++] = f;
    record(r, LOST, test, &f, sizeof f);
}

/* The ranks make the same collective calls only if they have the same records: one of them may be cut where memory was
 * short. */
static int check_records(struct run *r)
{
    const unsigned needed = bit_of(NODE_OF) | bit_of(HOSTS) | bit_of(SLURM),
                   shared = needed | bit_of(DOMAINS) | bit_of(COUNTERS);
    struct bb_world *w = &r->session.world;
    unsigned *all;
    int rc;

    all = bb_world_gather(w, &r->recorded, sizeof *all, &rc);
    for (int rank = 0; rank < w->size && rc == 0; rank++)
        if ((all[rank] & needed) != needed || ((all[rank] ^ all[0]) & shared) != 0)
            rc = BB_WORLD_ERR(w, BB_EFAIL, "the records of rank %d (%s) are missing", rank, w->hosts[rank]);
    free(all);
    return rc;
}

/* Restores what the ranks had recorded before the restart, and the numbers of the nodes. The test that was interrupted
 * is measured again, without the lost nodes. */
static int restore(struct run *r)
{
    struct bb_world *w = &r->session.world;
    struct bb_journal_record record;
    size_t begun = 0;
    int rc;

    r->records = bb_journal_load(w->supervised.journal);
    r->report.lost_ranks = json_array();
    while (bb_journal_next(&r->records, &record))
        read_record(r, &record, &begun);
    TRY(check_records(r));
    w->nodes = r->health.nodes;
    w->node = r->first_nodes[r->first_rank];
    TRY(bb_world_allgather(w, &w->node, w->node_of, sizeof w->node));
    while (begun < BB_HEALTH_TESTS && r->health.skip[begun]) /* lost before the first test */
        begun++;
    TRY(bb_world_min(w, &begun));
    drop_past(r, (int)begun);
    r->printed = (int)begun;
    for (int node = 0; node < w->nodes; node++) {
        bool has_rank = false;

        for (int rank = 0; rank < w->size; rank++)
            has_rank = has_rank || w->node_of[rank] == node;
        if (!has_rank && !r->left[node])
            lose_node(r, node, (int)begun);
    }
    r->health.lost = r->lost;
out:
    return rc;
}

/* ---- the run ---- */

/* Returns whether a stage after the inventory runs. */
static bool measures(const struct run *r)
{
    bool any = r->options.soak_s > 0;

    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        any = any || bb_health_runs(&r->health, (enum bb_health_test)test);
    return any;
}

/* Returns the name of the first stage after the inventory that runs, to which what precedes its first test belongs. */
static const char *first_stage(const struct run *r)
{
    for (int test = 0; test < BB_HEALTH_TESTS; test++)
        if (bb_health_runs(&r->health, (enum bb_health_test)test))
            return bb_health_tests[test].stage;
    return "soak";
}

/* Returns the start of a command with `each` ranks on each of `nodes` nodes. Emulated nodes share a host, which the
 * launcher counts as one node; EMU_NODES divides its ranks. */
static char *start_per_node(const struct run *r, int nodes, int each)
{
    const int gpus = r->options.common.gpus, processes = MAX(each / gpus, 1), size = r->session.world.size;

    if (size == gpus)
        return bb_format("-g %d and EMU_NODES=%d", nodes * each, nodes);
    return bb_environment_is_emulated() && bb_launcher_local_size() * gpus >= size
               ? bb_format("EMU_NODES=%d %s -n %d", nodes, bb_mpirun(), nodes * processes)
               : bb_mpirun_per_node(nodes, processes);
}

/* Every node must have the same number of ranks. n: the number of each node; 0: the node is lost */
static int check_ranks_per_node(const struct run *r, const int *n)
{
    const struct bb_world *w = &r->session.world;
    const char *command = r->set->usage + strlen("busbar ");
    int most = 0, least = 0, nodes = 0, fewer = 0, rc;
    char *start, *others;

    for (int node = 1; node < w->nodes; node++) {
        most = n[node] > n[most] ? node : most;
        least = n[node] > 0 && (n[node] < n[least] || n[least] == 0) ? node : least;
    }
    for (int node = 0; node < w->nodes; node++) {
        nodes += n[node] > 0;
        fewer += n[node] > 0 && n[node] < n[most];
    }
    if (fewer == 0)
        return 0;
    start = start_per_node(r, nodes, n[least]);
    others =
        fewer == 1 ? bb_copy_text(r->hosts[least]) : bb_format("the %d nodes with fewer than %d ranks", fewer, n[most]);
    rc = BB_WORLD_ERR(w, BB_EUSAGE,
                      "%.*s requires the same number of ranks on every node, but %s has %d and %s %d; try: %s, or "
                      "leave out %s",
                      (int)(strstr(command, " [") - command), command, r->hosts[most], n[most], r->hosts[least],
                      n[least], start, others);
    free(start);
    free(others);
    return rc;
}

/* Returns the first rank that has a MIG instance; -1: none. */
static int first_instance(const struct bb_session *s)
{
    for (int rank = 0; rank < s->world.size; rank++)
        if (s->devices[rank].is_instance)
            return rank;
    return -1;
}

/* Prints why the ranks have no whole GPUs of their own: they share one, or have MIG instances, whose rates no profile has. */
static int reject_shared_gpu(const struct run *r)
{
    const struct bb_session *s = &r->session;
    const int instance = first_instance(s);
    int rank = 0;

    if (s->common->share_gpu || (!s->share_env_set && instance < 0))
        return BB_WORLD_ERR(&s->world, BB_EUSAGE, "health requires a GPU for each rank, but ranks share a GPU");
    while (rank < s->world.size && !s->devices[rank].no_gpu[0])
        rank++;
    if (rank < s->world.size)
        return BB_WORLD_ERR(&s->world, BB_EUSAGE, "health requires a GPU for each rank, but rank %d (%s) has none: %s",
                            rank, s->world.hosts[rank], s->devices[rank].no_gpu);
    if (s->share_env_set)
        return BB_WORLD_ERR(&s->world, BB_EUSAGE,
                            "health requires a whole GPU for each rank, but CUDA_VISIBLE_DEVICES names MIG instances; "
                            "try: numbers or UUIDs of GPUs without MIG");
    return BB_WORLD_ERR(
        &s->world, BB_EUSAGE,
        "health requires a whole GPU for each rank, but rank %d (%s) has a MIG instance; try: bench compute, "
        "which measures the instance, or a GPU without MIG",
        instance, s->world.hosts[instance]);
}

/* Finds the names of the nodes for Slurm, before nodes are lost. */
static int name_for_slurm(struct run *r)
{
    const struct bb_world *w = &r->session.world;
    const char *name = getenv("SLURMD_NODENAME");
    char own[BB_HOST_TEXT] = "", (*all)[BB_HOST_TEXT], (*given)[BB_HOST_TEXT];
    int rc;

    BB_NEW(given, w->nodes);
    BB_NEW(r->slurm, w->nodes);
    snprintf(own, sizeof own, "%s", name ? name : "");
    bb_machine_clean_host(own);
    all = bb_world_gather(&r->session.world, own, sizeof own, &rc);
    TRY(rc);
    for (int rank = 0; rank < w->size; rank++)
        memcpy(given[w->node_of[rank]], all[rank], sizeof own);
    memcpy(r->slurm, r->hosts, (size_t)w->nodes * sizeof *r->slurm);
    bb_nodes_name_for_slurm((const char(*)[BB_HOST_TEXT])given, r->slurm, w->nodes);
    record(r, SLURM, 0, r->slurm, (size_t)w->nodes * sizeof *r->slurm);
out:
    free(all);
    free(given);
    return rc;
}

/* Numbers the GPUs of each node. Every node must have the same number of ranks. */
static int make_nodes(struct run *r)
{
    const struct bb_world *w = &r->session.world;
    int *n;
    int rc = 0;

    BB_NEW(n, w->nodes);
    BB_NEW(r->gpu_of, w->size);
    if (!r->hosts)
        BB_NEW(r->hosts, w->nodes);
    for (int rank = 0; rank < w->size; rank++) {
        memcpy(r->hosts[w->node_of[rank]], w->hosts[rank], sizeof *r->hosts);
        r->gpu_of[rank] = n[w->node_of[rank]]++;
    }
    rc = check_ranks_per_node(r, n);
    if (rc == 0 && (r->session.shared_gpu || r->session.share_env_set || first_instance(&r->session) >= 0))
        rc = reject_shared_gpu(r);
    r->health.nodes = w->nodes;
    r->health.gpus = n[0];
    if (rc == 0 && !measures(r) && !bb_health_has(&r->options, "inventory"))
        rc = r->set != &bb_health_set
                 ? BB_WORLD_ERR(w, BB_EUSAGE, "bench %s requires at least two nodes, this run has one",
                                r->options.nodes ? "p2p --nodes" : "rails")
                 : BB_WORLD_ERR(w, BB_EUSAGE, "--%s %s requires at least two %s, this run has one",
                                r->options.from ? "from" : "only", r->options.from ? r->options.from : r->options.only,
                                r->health.skip[BB_HEALTH_NODE] ? "nodes" : "GPUs per node");
    if (!w->restarted)
        record(r, NODE_OF, w->rank, w->node_of, (size_t)w->size * sizeof *w->node_of);
    record(r, HOSTS, 0, r->hosts, (size_t)w->nodes * sizeof *r->hosts);
    free(n);
    return rc;
}

/* Reads which nodes NVLink connects, where NVML knows. Not after a restart: the lost nodes stay in their domains. */
static int find_domains(struct run *r)
{
    const struct bb_world *w = &r->session.world;
    const struct bb_nvml_fabric none = {.clique = 0}, *own = &r->session.observer.nvml.fabric;
    struct bb_nvml_fabric *fabrics;
    int *domain_of, rc;
    bool known = false;

    fabrics = bb_world_gather(&r->session.world, own, sizeof *fabrics, &rc);
    TRY(rc);
    for (int rank = 0; rank < w->size; rank++)
        known |= memcmp(&fabrics[rank], &none, sizeof none) != 0;
    if (known) {
        BB_NEW(domain_of, w->size);
        BB_NEW(r->domain_of, w->nodes);
        bb_nvml_domains(fabrics, w->node_of, w->size, domain_of);
        for (int rank = 0; rank < w->size; rank++)
            r->domain_of[w->node_of[rank]] = domain_of[rank];
        free(domain_of);
        r->health.domain_of = r->domain_of;
        record(r, DOMAINS, 0, r->domain_of, (size_t)w->nodes * sizeof *r->domain_of);
    }
out:
    free(fabrics);
    return rc;
}

/* Gathers the names of the NICs near each GPU, which findings about NICs name. */
static int find_nics(struct run *r)
{
    char *files = bb_session_host_files(&r->session), own[BB_NICS_TEXT] = "";
    int rc;

    if (files)
        bb_nics_near(files, r->session.device.pci, own);
    free(files);
    r->report.nics = r->nics = bb_world_gather(&r->session.world, own, sizeof own, &rc);
    return rc;
}

/* Predicts the results on rank 0, because the NICs of hosts may differ. */
static int make_expectations(void *arg)
{
    struct run *r = arg;
    struct bb_world *w = &r->session.world;
    const struct bb_machine_facts facts = bb_machine_facts_of(&r->session, w->size, r->health.gpus);
    int rc = 0;

    bb_err_job_scope(1);
    if (w->rank == 0)
        rc = bb_health_expect(&r->health, &r->options, r->baseline, r->forecast, &facts, r->source);
    bb_err_job_scope(0);
    TRY(bb_world_agree(w, rc, "reading --expect"));
    TRY(bb_world_bcast(w, r->health.expected, sizeof r->health.expected, 0));
    TRY(bb_world_bcast(w, &r->health.domain_nodes, sizeof r->health.domain_nodes, 0));
    TRY(bb_world_bcast(w, &r->health.inside, sizeof r->health.inside, 0));
    TRY(bb_world_bcast(w, r->health.tiers, sizeof r->health.tiers, 0));
    TRY(bb_world_bcast(w, &r->health.latency, sizeof r->health.latency, 0));
    TRY(bb_world_bcast(w, &r->health.node_gpus, sizeof r->health.node_gpus, 0));
    TRY(bb_world_bcast(w, &r->health.node_nics, sizeof r->health.node_nics, 0));
    TRY(bb_world_bcast(w, &r->health.node_gpus_source, sizeof r->health.node_gpus_source, 0));
out:
    return rc;
}

static int check_memory(struct run *r)
{
    return bb_session_check_memory(&r->session,
                                   bb_health_work_bytes(&r->options) +
                                       bb_guarded_device_bytes(bb_health_size(&r->options), r->session.memory),
                                   "lower --size");
}

/* Allocates memory and makes the first communicator: a node that is lost in it is one of the first stage. */
static int prepare(struct run *r)
{
    const size_t bytes = bb_health_size(&r->options);
    const size_t arena = bb_health_arena_bytes();
    const struct bb_comm_opts opts = {.blocking = true};
    struct bb_session *s = &r->session;
    int rc;

    TRY(bb_compute_context_init(&r->compute, &s->world, &s->device, arena, r->options.iterations, 3, WARM_UP));
    if (bb_health_has(&r->options, "copies"))
        TRY(bb_copies_init(&r->copies, s, BB_HEALTH_COPIES, MIN(r->options.iterations, 10), 3, WARM_UP));
    if (bb_session_moves_data(s))
        TRY(BB_CUDA(cudaMalloc((void **)&r->verdict, sizeof *r->verdict)));
    TRY(bb_guarded_init(&r->buffer, bytes, s->memory, r->compute.stream));
    TRY(BB_CUDA(cudaMemsetAsync(r->buffer.area, 0, bytes, r->compute.stream)));
    TRY(bb_comm_init(&r->comm, &s->world, "world", NULL, s->world.size, &opts));
out:
    return rc;
}

enum { RECORD_S = 1 }; /* the records of a day take 35 MB of memory */

/* Saves what the soak has measured so far, after its second round, and then in at most 5 % of the time: a run that ends
 * early has lost nothing else. */
static int save_soak(struct run *r)
{
    const double start_s = bb_now_s();
    const bool is_begun = r->soak[BB_SOAK_TESTS - 1].rounds > 1;
    int rc;

    if (r->session.world.rank != 0 || (start_s < r->next_save_s && !(is_begun && r->next_record_s == 0)))
        return 0;
    rc = bb_health_save_verdicts(&r->report, "soak");
    if (is_begun && start_s >= r->next_record_s) {
        record_json(r, SOAK, bb_health_soak_json(&r->report));
        r->next_record_s = start_s + RECORD_S;
    }
    r->next_save_s = start_s + 20 * (bb_now_s() - start_s);
    return rc;
}

/* Reads the clock of rank 0, so that all ranks end the soak after the same round. */
static int read_clock(void *arg, double *s)
{
    struct run *r = arg;
    int rc;

    TRY(save_soak(r));
    *s = bb_now_s();
    rc = bb_world_bcast(&r->session.world, s, sizeof *s, 0);
out:
    return rc;
}

/* Prints the first lines, and makes the inventory. From then on, the run can go on without a lost node. */
static int start_health(struct run *r)
{
    struct bb_session *s = &r->session;
    int rc = 0;

    if (bb_health_has(&r->options, "gpu"))
        bb_session_warn_slow_gemms(s, "--from copies, or EMU_DATA=off");
    bb_health_print_head(&r->report);
    if (s->world.rank == 0)
        TRY(bb_health_save_verdicts(&r->report, BB_HEALTH_START));
    if (bb_health_has(&r->options, "inventory") || bb_session_is_short(s, -1))
        TRY(bb_health_inventory(&r->health, s, r->gpu_of, r->baseline, r->inventory, &r->first));
    bb_health_print_inventory(&r->report);
    for (size_t i = 0; i < r->health.n; i++) {
        const struct bb_health_finding *f = &r->health.findings[i];

        record(r, FINDING, f->node >= 0 && bb_session_is_short(s, f->node), f, sizeof *f);
    }
    if (r->first)
        record(r, COUNTERS, 0, r->first, bb_health_inventory_bytes);
    if (s->world.rank == 0)
        record_json(r, INVENTORY, json_incref(r->inventory));
    if (bb_session_is_short(s, -1) && measures(r) &&
        (bb_session_is_short(s, s->world.node_of[0]) || !bb_world_can_leave(&s->world))) {
        rc = s->world.rank == 0 ? bb_health_stop(&r->report, "inventory") : 0;
        TRY(bb_world_agree(&s->world, rc, "the verdicts"));
    }
    if (s->world.rank == 0 && measures(r))
        TRY(bb_health_save_verdicts(&r->report, first_stage(r)));
    rc = bb_world_restart_after_loss(&s->world);
out:
    return rc;
}

/* Restarts the run without the nodes that have fewer GPUs than ranks. After a restart some may remain: if nodes leave
 * at the same time, the first may have left before the others. */
static int leave_short_nodes(struct run *r)
{
    const struct bb_world *w = &r->session.world;
    char why[sizeof r->health.findings->text] = "";

    for (size_t i = 0; i < r->health.n; i++) {
        const struct bb_health_finding *f = &r->health.findings[i];

        if (f->node == w->node && f->lost_gpus)
            snprintf(why, sizeof why, "%.*s", (int)strcspn(f->text, ";"), f->text);
    }
    /* one rank of each node is enough */
    return bb_world_leave(&r->session.world, r->session.device.is_short && w->local_rank == 0 ? why : NULL);
}

static void init_verdicts(struct run *r)
{
    r->health.measure = measure;
    r->health.expect = make_expectations;
    r->health.arg = r;
    r->health.rounds = bb_health_wanted_rounds(&r->options);
    r->health.every_pair = !r->options.quick;
    for (int test = 0; test < BB_HEALTH_TESTS; test++) {
        r->health.skip[test] = !bb_health_has(&r->options, bb_health_tests[test].stage);
        r->health.median[test] = NAN;
        r->health.share[test] = 1;
    }
    r->health.inside_median = NAN;
}

static int run_health(struct run *r, int argc, char **argv)
{
    const struct bb_results_head head = {.schema = "busbar.health/1", .argc = argc, .argv = argv, .always = true};
    struct bb_session *s = &r->session;
    int rc;

    r->report = (struct bb_health_report){.session = s,
                                          .options = &r->options,
                                          .health = &r->health,
                                          .matrix = &r->matrix,
                                          .source = r->source,
                                          .tables = r->set == &bb_health_set ? NULL : &r->tables};
    init_verdicts(r);
    TRY(bb_session_begin(s, &r->options.common, BB_SESSION_OBSERVED));
    s->may_be_short = r->set == &bb_health_set; /* for bench, a usage error */
    TRY(bb_session_setup_gpus(s, 0));
    if (s->world.restarted)
        TRY(restore(r));
    TRY(make_nodes(r));
    TRY(find_nics(r));
    if (!s->world.restarted) {
        TRY(find_domains(r));
        TRY(name_for_slurm(r));
    }
    r->report.hosts = r->hosts;
    r->report.slurm = r->slurm;
    r->tables.nodes = r->health.nodes;
    r->tables.gpus = r->health.gpus;
    if (s->world.rank == 0) {
        r->report.baseline = r->baseline = bb_health_baseline(&r->options);
        r->report.inventory = r->inventory = r->inventory ? r->inventory : json_array();
    }
    TRY(make_expectations(r));
    TRY(bb_health_check_gpus(&r->health, s));
    TRY(check_memory(r));
    TRY(bb_session_open_results(s, &head, r->set, &r->options));
    s->call_failed = -BB_EBELOW;
    if (!s->world.restarted)
        TRY(start_health(r));
    if (bb_session_is_short(s, -1) && measures(r))
        TRY(leave_short_nodes(r));
    if (measures(r))
        TRY(prepare(r));
    TRY(bb_health_run(&r->health));
    if (r->options.soak_s > 0 && bb_health_active(&r->health) > 0) {
        TRY(begin_test(r, BB_HEALTH_TESTS));
        r->report.soak = r->soak;
        TRY(bb_soak_run(&r->health, r->options.soak_s, read_clock, r->soak));
    }
    if (r->first)
        TRY(bb_health_growth(&r->health, s, r->gpu_of, r->first, r->inventory));
    bb_supervised_restarts(&s->world.supervised, false);
    if (s->world.rank == 0)
        rc = bb_health_finish(&r->report, r->printed);
    rc = bb_world_agree(&s->world, rc, "the verdicts");
out:
    return rc;
}

/* Releases what all ranks must release together. */
static int release_shared(struct run *r)
{
    const int copies_rc = r->copies.session ? bb_copies_release(&r->copies) : 0, comm_rc = bb_comm_finalize(&r->comm);

    bb_guarded_release(&r->buffer);
    if (r->verdict)
        (void)cudaFree(r->verdict);
    bb_compute_context_release(&r->compute);
    return copies_rc ? copies_rc : comm_rc;
}

int bb_health_rank_main(const struct bb_opts *set, bb_forecast *forecast, int argc, char **argv)
{
    const int bench = set != &bb_health_set; /* the command of `busbar bench` follows its name */
    struct run r = {.set = set, .forecast = forecast, .test = -1};
    int rc = bb_opts_read(set, &r.options, argc - bench, argv + bench), end_rc = 0;

    if (rc != 0)
        return rc;
    rc = run_health(&r, argc, argv);
    if (rc == -BB_EDATA && r.session.world.rank == 0)
        (void)!bb_health_save_verdicts(&r.report, r.health.is_soak ? "soak" : bb_health_tests[r.test].stage);
    if (bb_session_ends_on_all_ranks(&r.session, rc))
        end_rc = release_shared(&r);
    rc = bb_session_release(&r.session, rc, end_rc);
    bb_health_tables_release(&r.tables);
    bb_health_release(&r.health);
    json_decref(r.baseline);
    json_decref(r.inventory);
    free(r.first);
    bb_health_matrix_release(&r.matrix);
    free(r.gpu_of);
    free(r.domain_of);
    free(r.hosts);
    free(r.slurm);
    free(r.nics);
    free(r.past);
    free(r.lost);
    free(r.left);
    free(r.first_nodes);
    bb_journal_release(&r.records);
    json_decref(r.report.lost_ranks);
    json_decref(r.report.soak_before);
    return rc;
}
