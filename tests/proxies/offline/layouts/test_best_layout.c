/* test_best_layout.c - the layout search against an exhaustive search that builds and predicts every valid layout. */
#include "proxies/offline/layouts/layouts.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const struct bb_proxy bb_transformer_proxy;

enum { RANKS = 16, BATCH = 64, MAX_LAYOUTS = 4000, SAMPLES = 3 };

static struct bb_conditions conditions;

/* A valid layout of the exhaustive search. ns is its predicted step time, set only if the layout fits into
 * max_bytes. */
struct tried_layout {
    const char *sync;
    bool one_replica;
    int tp, pp;
    double bytes, ns;
};

static struct tried_layout all[MAX_LAYOUTS];
static int n_tried;

struct best {
    double ns[RANKS * RANKS]; /* of each grid, the fastest of its layouts */
    int grids, n;
    long long valid; /* number of valid layouts, whether they fit into memory or not */
};

/* Requested configuration of the searches. Options that the search chooses are 0. */
static void default_config(struct bb_proxy_config *c)
{
    *c = (struct bb_proxy_config){.ranks = RANKS,
                                  .model = "llama2_7b",
                                  .layers = 8,
                                  .global_batch = BATCH,
                                  .gpus_per_node = 8,
                                  .compute = "gemm"};
    c->transformer.cp = 1;
    c->transformer.sync = "zero1";
}

static const struct bb_proxy *resolve_config(const struct bb_proxy_config *given, struct bb_proxy_config *config)
{
    const struct bb_positionals positionals = {.word = {"transformer"}, .n = 1};
    const struct bb_proxy *proxy;

    *config = *given;
    assert_int_equal(bb_proxy_configure(config, &positionals, &proxy), 0);
    return proxy;
}

static double max_training_bytes(const struct bb_step *step)
{
    double max = 0;

    for (int r = 0; r < step->n_roles; r++) {
        double sum = 0;

        for (int use = 0; use < BB_USES; use++)
            sum += step->roles[r].training_bytes[use];
        max = fmax(max, sum);
    }
    return max;
}

/* Builds and predicts one layout, with the options that a user would type. */
static void try_layout(const struct bb_proxy_config *config, const struct bb_cluster *cluster, double max_bytes)
{
    struct bb_prediction p = {0};
    struct bb_step step = {0};

    if (bb_step_build(&step, &bb_transformer_proxy, config) == 0) {
        struct tried_layout *t = &all[n_tried];

        assert_true(n_tried++ < MAX_LAYOUTS);
        *t = (struct tried_layout){.sync = config->transformer.sync,
                                   .tp = config->transformer.tp,
                                   .pp = config->transformer.pp,
                                   .one_replica = config->transformer.tp * config->transformer.pp == RANKS,
                                   .bytes = max_training_bytes(&step)};
        if (t->bytes <= max_bytes) {
            assert_int_equal(bb_predict_step(&step, cluster, &conditions, &p), 0);
            t->ns = (double)p.step_ns;
        }
    }
    bb_prediction_release(&p);
    bb_step_release(&step);
}

static int compare_ns(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void try_all_of_sync(const struct bb_proxy_config *given, const struct bb_cluster *cluster, double max_bytes,
                            bool skip_one_replica)
{
    static const char *const schedules[] = {"1f1b", "interleaved", "zb-h1"};

    for (int tp = 1; tp <= 8; tp *= 2)
        for (int pp = 1; pp <= RANKS / tp; pp *= 2)
            for (int s = 0; s < 3; s++)
                for (int vpp = 1; vpp <= 8; vpp++)
                    for (int b = 1; b <= 8; b *= 2) {
                        struct bb_proxy_config as = *given, config;

                        if ((s == 1) != (vpp > 1) || (s > 0 && pp == 1))
                            continue;
                        if (skip_one_replica && tp * pp == RANKS)
                            continue;
                        if (pp > 1 && strcmp(given->transformer.sync, "zero2") == 0) /* no framework has it */
                            continue;
                        as.transformer.tp = tp;
                        as.transformer.pp = pp;
                        as.transformer.schedule = schedules[s];
                        as.transformer.vpp = vpp;
                        as.transformer.sequence_parallel = tp > 1;
                        as.micro_batch_size = b;
                        resolve_config(&as, &config);
                        try_layout(&config, cluster, max_bytes);
                    }
}

static void try_all(const struct bb_proxy_config *given, const struct bb_cluster *cluster, double max_bytes)
{
    static const char *const syncs[] = {"all_reduce", "zero1", "zero2", "zero3", "distributed"};

    n_tried = 0;
    for (size_t i = 0; i < ROWS(syncs); i++) {
        struct bb_proxy_config as = *given;

        as.transformer.sync = syncs[i];
        as.sync.overlap_param_gather = strcmp(syncs[i], "distributed") == 0;
        if (!given->transformer.sync || strcmp(given->transformer.sync, syncs[i]) == 0)
            /* best_of() needs layouts with one replica only for the first kind of sync */
            try_all_of_sync(&as, cluster, max_bytes, i > 0);
    }
}

/* Selects the tried layouts with this sync (NULL: any) that fit into gpu_bytes, ordered by step time. With one
 * replica there is no gradient reduction, so all kinds of sync are the same layout and count once, as all_reduce. */
static void best_of(const char *sync, double gpu_bytes, struct best *best)
{
    int grid_of[RANKS + 1][RANKS + 1] = {{0}};

    *best = (struct best){.n = 0};
    for (int i = 0; i < n_tried; i++) {
        if ((sync && strcmp(all[i].sync, sync) != 0) || (all[i].one_replica && strcmp(all[i].sync, "all_reduce") != 0))
            continue;
        best->valid++;
        if (all[i].bytes <= gpu_bytes) {
            int *grid = &grid_of[all[i].tp][all[i].pp];

            *grid = *grid ? *grid : ++best->grids;
            best->ns[*grid - 1] = best->ns[*grid - 1] > 0 ? fmin(best->ns[*grid - 1], all[i].ns) : all[i].ns;
            best->n++;
        }
    }
    qsort(best->ns, (size_t)best->grids, sizeof(*best->ns), compare_ns);
}

static void search(const struct bb_proxy_config *given, const struct bb_cluster *cluster, double gpu_bytes, int top,
                   int threads, struct bb_layouts *found)
{
    struct bb_proxy_config config;
    const struct bb_proxy *proxy = resolve_config(given, &config);
    const struct bb_layout_search s = {proxy,       given,     &config,   cluster, NULL,
                                       &conditions, gpu_bytes, gpu_bytes, SAMPLES, false,
                                       false,       top,       threads,   true,    BB_OPTIMIZER_GIVEN};

    assert_int_equal(bb_layouts_search(&s, found), 0);
}

/* Runs the search and compares its result with the tried layouts. The best layout is exact. That of another grid may be up
 * to 2 % slower than its best one, because the search extrapolates from few micro-batches. */
static void assert_best(const struct bb_proxy_config *given, const struct bb_cluster *cluster, double gpu_bytes)
{
    static struct best best;
    struct bb_layouts found;
    long long sum = 0;

    best_of(given->transformer.sync, gpu_bytes, &best);
    search(given, cluster, gpu_bytes, 1, 2, &found);
    assert_int_equal(found.fitting, best.n);
    assert_true(best.n > 20);
    for (int k = 0; k < found.n; k++)
        if (found.rows[k].step_ns < best.ns[k] || found.rows[k].step_ns > best.ns[k] * (k == 0 ? 1 : 1.02))
            fail_msg("%s, %g bytes: layout %d takes %.0f ns, exhaustive search: %.0f ns", given->transformer.recompute,
                     gpu_bytes, k, found.rows[k].step_ns, best.ns[k]);
    assert_int_equal(found.n, best.grids < 14 ? best.grids : 14); /* of at least 10 grids, and 4 more */
    assert_true(found.n > 3);
    for (int r = 0; r < BB_REJECTION_REASONS; r++)
        sum += found.rejected[r];
    assert_int_equal(sum + found.n, found.evaluated);
    assert_int_equal(found.evaluated - found.rejected[BB_REJECTED_SHAPE] - found.rejected[BB_REJECTED_BATCH],
                     best.valid);
    bb_layouts_release(&found);
}

/* Three cases: enough memory for all layouts, little memory, where only some layouts recompute less, and so
 * many layouts that lower bounds prune most of them. */
static void best_layouts_match_exhaustive_search(void **state)
{
    static const struct {
        const char *recompute, *tried_sync, *slow; /* tried_sync: sync of the exhaustive search, NULL: all kinds */
        int batch;
        struct {
            const char *sync;
            double gpu_bytes; /* the first one is the maximum of the row */
        } given[3];
    } rows[] = {{"none", NULL, NULL, BATCH, {{NULL, 80e9}, {"zero1", 80e9}, {"zero1", 16e9}}},
                {"full", "zero1", NULL, BATCH / 2, {{"zero1", 10e9}}},
                {"none", "zero1", "rank=5:1.5,link=node1-nic0:0.5,rank=9:0.5", BATCH / 2, {{"zero1", 80e9}}}};
    struct bb_cluster cluster;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    /* The second row has the smallest exhaustive search. */
    for (size_t i = FEW_INPUTS; i < (FEW_INPUTS ? 2 : ROWS(rows)); i++) {
        struct bb_proxy_config given;

        default_config(&given);
        given.transformer.recompute = rows[i].recompute;
        given.transformer.sync = rows[i].tried_sync;
        given.global_batch = FEW_INPUTS ? rows[i].batch / 2 : rows[i].batch;
        conditions = (struct bb_conditions){.jitter = 0};
        if (rows[i].slow)
            assert_int_equal(bb_slow_parse(&conditions.slow, "--slow", rows[i].slow), 0);
        bb_err_mute(1);
        try_all(&given, &cluster, rows[i].given[0].gpu_bytes);
        bb_err_mute(0);
        for (size_t k = 0; k < ROWS(rows[i].given) && rows[i].given[k].gpu_bytes > 0; k++) {
            given.transformer.sync = rows[i].given[k].sync;
            assert_best(&given, &cluster, rows[i].given[k].gpu_bytes);
        }
    }
    conditions = (struct bb_conditions){.jitter = 0};
}

/* The search has many more layouts than it estimates with longer steps. */
static void thread_count_does_not_change_the_result(void **state)
{
    struct bb_cluster cluster;
    struct bb_proxy_config given;
    struct bb_layouts one, more;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    default_config(&given);
    if (FEW_INPUTS)
        given.global_batch = BATCH / 4;
    given.transformer.sync = FEW_INPUTS ? "zero1" : NULL;
    search(&given, &cluster, 16e9, 3, 1, &one);
    assert_true(one.fitting > (FEW_INPUTS ? 40 : 200));
    for (int threads = 2; threads <= (FEW_INPUTS ? 2 : 5); threads += 3) {
        search(&given, &cluster, 16e9, 3, threads, &more);
        assert_int_equal(more.n, one.n);
        assert_memory_equal(more.rejected, one.rejected, sizeof(one.rejected));
        for (int i = 0; i < one.n; i++)
            assert_memory_equal(&more.rows[i], &one.rows[i], sizeof(one.rows[i]));
        bb_layouts_release(&more);
    }
    bb_layouts_release(&one);
}

/* bb_training_bytes computes the same memory as the built step. */
static void training_bytes_match_the_built_step(void **state)
{
    static const char *const syncs[] = {"all_reduce", "zero1", "zero2", "zero3", "hsdp", "distributed"};
    static const struct {
        const char *model;
        int tp, cp, ep, pp, shard;
    } rows[] = {{"llama2_7b", 2, 1, 1, 2, 0},    {"llama2_7b", 4, 2, 1, 1, 0},  {"llama2_7b", 1, 1, 1, 1, 0},
                {"mixtral_8x7b", 1, 1, 4, 2, 0}, {"gpt2_large", 2, 1, 1, 4, 0}, {"llama2_7b", 1, 2, 1, 2, 4}};
    int built = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t s = 0; s < sizeof(syncs) / sizeof(syncs[0]); s++) {
            struct bb_proxy_config given, config;
            const struct bb_proxy *proxy;
            struct bb_step step = {0};
            struct bb_arch arch;
            double bytes;
            int rc;

            default_config(&given);
            given.model = rows[i].model;
            given.transformer = (struct bb_transformer_options){.tp = rows[i].tp,
                                                                .cp = rows[i].cp,
                                                                .ep = rows[i].ep,
                                                                .pp = rows[i].pp,
                                                                .sync = syncs[s],
                                                                .recompute = "selective",
                                                                .sequence_parallel = rows[i].tp > 1};
            given.sync.shard_size = s >= 4 ? rows[i].shard : 0;
            proxy = resolve_config(&given, &config);
            assert_int_equal(bb_training_load_arch(&config, &arch), 0);
            bb_err_mute(1);
            rc = bb_step_build(&step, proxy, &config);
            bb_err_mute(0);
            if (rc == 0) {
                assert_int_equal(bb_training_bytes(&config, &arch, &bytes), 0);
                if (fabs(bytes - max_training_bytes(&step)) > 1)
                    fail_msg("%s, row %zu, %s: %.0f bytes, the step needs %.0f", rows[i].model, i, syncs[s], bytes,
                             max_training_bytes(&step));
                built++;
            }
            bb_step_release(&step);
        }
    assert_true(built > 25);
}

/* Without jitter each sample takes as long as the prediction, and the order stays the same. Too many samples are
 * rejected. */
static void samples_without_jitter_keep_the_order(void **state)
{
    const struct bb_conditions steady = {.seed = 1};
    struct bb_proxy_config given, config;
    struct bb_layouts found;
    struct bb_cluster cluster;
    struct bb_layout_search s = {NULL,  &given, &config, &cluster, NULL, &steady,           40e9, 40e9, SAMPLES,
                                 false, false,  5,       1,        true, BB_OPTIMIZER_GIVEN};
    int numbers[5];

    (void)state;
    default_config(&given);
    given.micro_batch_size = 4;
    s.proxy = resolve_config(&given, &config);
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    assert_int_equal(bb_layouts_search(&s, &found), 0);
    assert_true(found.n >= 5);
    for (int i = 0; i < 5; i++)
        numbers[i] = found.rows[i].number;
    assert_int_equal(bb_layouts_sample(&s, &steady, &found), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(found.rows[i].number, numbers[i]);
        assert_true(found.rows[i].p50_ns == found.rows[i].step_ns && isnan(found.rows[i].p95_ns));
    }
    /* four rows with the same layout, so with equal medians: they are ordered by step time, then by number */
    for (int i = 0; i < 4; i++) {
        found.rows[i].choice = found.rows[0].choice;
        found.rows[i].step_ns = i < 2 ? 9 : 8;
        found.rows[i].number = i == 0 ? 7 : i + 1;
    }
    assert_int_equal(bb_layouts_sample(&s, &steady, &found), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(found.rows[i].number, ((int[]){3, 4, 2, 7})[i]);
    s.samples = 100000000;
    assert_int_equal(bb_layouts_sample(&s, &steady, &found), -BB_EUSAGE);
    bb_layouts_release(&found);
}

/* Where full memory is not enough, the search recomputes the minimum number of layers per chunk: with one layer less
 * the layout does not fit. */
static void recomputes_the_minimum_number_of_layers(void **state)
{
    const double gpu_bytes = 9e9;
    struct bb_proxy_config given, config;
    struct bb_cluster cluster;
    struct bb_layouts found;
    struct bb_arch arch;
    int recomputing = 0;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    default_config(&given);
    given.micro_batch_size = 4;
    resolve_config(&given, &config);
    assert_int_equal(bb_training_load_arch(&config, &arch), 0);
    search(&given, &cluster, gpu_bytes, 5, 2, &found);
    for (int i = 0; i < found.n; i++) {
        struct bb_layout_choice c = found.rows[i].choice;
        struct bb_proxy_config as = bb_layouts_config(&config, &c);
        double bytes;

        assert_int_equal(bb_training_bytes(&as, &arch, &bytes), 0);
        assert_true(bytes == found.rows[i].bytes && bytes <= gpu_bytes);
        if (c.recompute_layers == 0)
            continue;
        recomputing++;
        assert_int_equal(c.recompute, BB_RECOMPUTE_FULL);
        c.recompute_layers--;
        c.recompute = c.recompute_layers > 0 ? c.recompute : BB_RECOMPUTE_SELECTIVE;
        as = bb_layouts_config(&config, &c);
        assert_int_equal(bb_training_bytes(&as, &arch, &bytes), 0);
        assert_true(bytes > gpu_bytes);
    }
    assert_true(recomputing > 0);
    bb_layouts_release(&found);
}

/* Simulates a step if it fits. Returns its time; infinity if it is invalid or does not fit. */
static double fitting_ns(const struct bb_proxy_config *config, const struct bb_arch *arch,
                         const struct bb_cluster *cluster, double gpu_bytes)
{
    struct bb_step step = {0};
    double bytes;
    int64_t ns = 0;

    if (bb_training_bytes(config, arch, &bytes) || bytes > gpu_bytes)
        return INFINITY;
    assert_int_equal(bb_step_build(&step, &bb_transformer_proxy, config), 0);
    assert_int_equal(bb_predict_step_ns(&step, cluster, &conditions, &ns), 0);
    bb_step_release(&step);
    return (double)ns;
}

/* Simulates a layout with every set of modules, and with every number of recomputed layers. */
static void simulate_recomputes(const struct bb_proxy_config *config, const struct bb_arch *arch,
                                const struct bb_cluster *cluster, double gpu_bytes, double *modules_ns,
                                double *layers_ns)
{
    struct bb_proxy_config as = *config;
    char text[200];

    *modules_ns = *layers_ns = INFINITY;
    as.transformer.recompute = "selective";
    as.transformer.recompute_modules = text;
    bb_err_mute(1);
    for (unsigned set = 1; set < 1u << BB_MODULES; set++) {
        text[0] = '\0';
        for (int m = 0; m < BB_MODULES; m++)
            if (set >> m & 1)
                strcat(strcat(text, text[0] ? "," : ""), bb_recompute_module_names[m]);
        *modules_ns = fmin(*modules_ns, fitting_ns(&as, arch, cluster, gpu_bytes));
    }
    as.transformer.recompute = "full";
    as.transformer.recompute_modules = NULL;
    for (as.transformer.recompute_layers = 0; as.transformer.recompute_layers < arch->layers;
         as.transformer.recompute_layers++)
        *layers_ns = fmin(*layers_ns, fitting_ns(&as, arch, cluster, gpu_bytes));
    bb_err_mute(0);
}

/* With experts and latent attention, modules or layers are faster, depending on the missing memory. */
static void recomputes_modules_or_layers_whichever_is_faster(void **state)
{
    enum { STEPS = 8 };
    struct bb_proxy_config given, config, as;
    struct bb_cluster cluster;
    struct bb_layouts found;
    struct bb_arch arch;
    double none, least, modules_ns, layers_ns;
    int by_modules = 0, by_layers = 0;

    (void)state;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    default_config(&given);
    given.model = "deepseek_v3";
    given.layers = 12;
    given.micro_batch_size = 4;
    given.transformer.tp = given.transformer.pp = given.transformer.vpp = 1;
    given.transformer.ep = 16;
    given.transformer.sequence = 4096;
    resolve_config(&given, &config);
    assert_int_equal(bb_training_load_arch(&config, &arch), 0);
    search(&given, &cluster, 1e15, 1, 1, &found);
    none = found.rows[0].bytes;
    as = bb_layouts_config(&config, &found.rows[0].choice);
    as.transformer.recompute = "full";
    assert_int_equal(bb_training_bytes(&as, &arch, &least), 0);
    bb_layouts_release(&found);
    for (int i = 0; i < STEPS; i += FEW_INPUTS ? 4 : 1) {
        const double gpu_bytes = none - 1 - i * (none - least) / STEPS;

        search(&given, &cluster, gpu_bytes, 1, 2, &found);
        as = bb_layouts_config(&config, &found.rows[0].choice);
        assert_true(found.rows[0].step_ns == fitting_ns(&as, &arch, &cluster, gpu_bytes));
        simulate_recomputes(&as, &arch, &cluster, gpu_bytes, &modules_ns, &layers_ns);
        assert_true(found.rows[0].step_ns <= 1.002 * fmin(modules_ns, layers_ns));
        by_modules += found.rows[0].choice.modules[0] && modules_ns < 0.999 * layers_ns;
        by_layers += found.rows[0].choice.recompute == BB_RECOMPUTE_FULL && layers_ns < 0.999 * modules_ns;
        bb_layouts_release(&found);
    }
    assert_true(by_modules > 0 && by_layers > 0);
}

/* KINDS: of software; FOLLOWERS: zero1 and distributed, whose additional micro-batches take as long as those of all_reduce */
enum { MAX_MICRO_BATCHES = 16, KINDS = 2, FOLLOWERS = 2, MODULES = 2 /* core_attn and mlp */ };

static int built[MAX_MICRO_BATCHES]; /* number of built steps by number of micro-batches */

static int build_and_count(const struct bb_proxy_config *config, struct bb_step *step)
{
    built[config->micro_batches < MAX_MICRO_BATCHES ? config->micro_batches : 0]++;
    return bb_transformer_proxy.build(config, step);
}

/* A lower bound needs a step of one micro-batch. An estimate needs a step of one and, if the time of an additional
 * micro-batch is unknown, a step of two micro-batches.
 * Layouts that differ only in their sync, unless one shards the parameters and thereby has the rates of other software, and
 * in the number of recomputed layers share a lower bound, which is computed for the layout with the least compute. The
 * costs of recomputation need steps of one micro-batch without it, with all layers, and with each module. */
static void layouts_with_equal_compute_share_a_lower_bound(void **state)
{
    struct bb_proxy_config given, config;
    struct bb_cluster cluster;
    struct bb_layouts found;
    struct bb_proxy proxy = bb_transformer_proxy;
    const struct bb_layout_search s = {&proxy, &given, &config, &cluster, NULL, &conditions,       9e9, 9e9, SAMPLES,
                                       false,  false,  100,     1,        true, BB_OPTIMIZER_GIVEN};

    (void)state;
    proxy.build = build_and_count;
    assert_int_equal(bb_cluster_load("h100-sxm-ib", &cluster), 0);
    default_config(&given);
    given.transformer.sync = NULL;
    given.transformer.tp = given.transformer.pp = 2;
    given.micro_batch_size = 4;
    resolve_config(&given, &config);
    assert_int_equal(bb_layouts_search(&s, &found), 0);
    assert_int_equal(found.n, 1);
    assert_int_equal(found.rows[0].variants, found.fitting);
    assert_true(found.fitting > 7);
    assert_int_equal(built[1] - built[2], KINDS + FOLLOWERS + 2 + MODULES);
    bb_layouts_release(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_with_equal_compute_share_a_lower_bound),
        cmocka_unit_test(samples_without_jitter_keep_the_order),
        cmocka_unit_test(training_bytes_match_the_built_step),
        cmocka_unit_test(recomputes_the_minimum_number_of_layers),
        cmocka_unit_test(recomputes_modules_or_layers_whichever_is_faster),
        cmocka_unit_test(best_layouts_match_exhaustive_search),
        cmocka_unit_test(thread_count_does_not_change_the_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
