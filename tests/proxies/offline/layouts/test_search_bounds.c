/*
 * test_search_bounds.c - the pruned layout search against a search without bounds, in random small spaces.
 *
 * The exhaustive search simulates the whole step of every layout of the space that fits into GPU memory, with every kind
 * and every number of layers of recomputation, and every set of modules. It shares only the list of layouts (space.h) with the pruned search. A
 * lower bound of search.c that is too high removes layouts that are among the best; the fastest layouts then differ. All
 * times include the penalties.
 */
#include "proxies/offline/layouts/penalty.h"
#include "proxies/offline/layouts/space.h"
#include "proxies/simulation/simulate/predict.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/transformer/memory.h"
#include "proxies/workloads/transformer/training_bytes.h"
#include "tests/check.h"

#include <math.h>
#include <string.h>

enum {
    SPACES = FEW_INPUTS ? 4 : 36,
    MIN_LAYOUTS = 7, /* fewer layouts are simulated before the search knows a time with which it could prune */
    /* This number of layouts is simulated whatever their estimates. Estimates may order more layouts wrongly, so only the
     * fastest layout of larger spaces is compared. */
    ALL_REFINED = 64,
    MAX_CHOICES = 40,
    MAX_TIMES = 8192
};

static uint64_t state_of_random;

/* Returns a pseudo-random number from 0 to n - 1 (splitmix64). */
static int choose(int n)
{
    uint64_t z = state_of_random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

#define ONE_OF(list) list[choose(ROWS(list))]

/* A random search. given: the options of a user; config: the same with defaults. */
struct space {
    struct bb_proxy_config given, config;
    struct bb_cluster cluster;
    struct bb_conditions conditions;
    const struct bb_proxy *proxy;
    struct bb_arch arch;
    double gpu_bytes;
};

static void draw_space(struct space *s, int number)
{
    static const char *const models[] = {"llama2_7b", "gpt2_large", "mixtral_8x7b"};
    static const char *const clusters[] = {"h100-sxm-ib", "gb200-nvl72", "l40s-pcie-ib"};
    static const char *const syncs[] = {NULL, NULL, "all_reduce", "zero1", "zero3", "distributed"};
    static const char *const recomputes[] = {NULL, NULL, "none", "full"};
    static const char *const slow[] = {NULL, NULL, "rank=1:1.7", "rank=0:0.6,rank=1:0.6",
                                       "rank=0:0.5,link=node0-nic0:0.4"};
    static const int ranks[] = {2, 4, 8, 8}, layers[] = {2, 4, 6, 8}, batches[] = {4, 8, 16, 24};
    const struct bb_positionals positionals = {.word = {"transformer"}, .n = 1};
    const char *slowed;

    state_of_random = (uint64_t)number;
    *s = (struct space){.given = {.ranks = ONE_OF(ranks),
                                  .model = ONE_OF(models),
                                  .layers = ONE_OF(layers),
                                  .global_batch = ONE_OF(batches),
                                  .gpus_per_node = choose(2) ? 2 : 8,
                                  .compute = "gemm"}};
    s->given.transformer.sequence = 512 << choose(4);
    if (strcmp(s->given.model, "mixtral_8x7b") == 0 && choose(3))
        s->given.transformer.imbalance = 1;
    s->given.transformer.sync = ONE_OF(syncs);
    s->given.transformer.recompute = ONE_OF(recomputes);
    if (choose(4) == 0) {
        /* long pipelines that compute most of the time: several chunks per stage are fastest, and their bound, the mean
         * over the ranks, is tight */
        s->given.transformer.pp = s->given.ranks = 4;
        s->given.transformer.sequence = 4096;
        s->given.layers = 8;
        s->given.global_batch = 32;
    }
    s->given.layers -= number % 2; /* an odd number, of which two and four stages have uneven parts */
    assert_int_equal(bb_cluster_load(ONE_OF(clusters), &s->cluster), 0);
    bb_cluster_set_gpus_per_node(&s->cluster, s->given.gpus_per_node);
    slowed = ONE_OF(slow);
    if (slowed)
        assert_int_equal(bb_slow_parse(&s->conditions.slow, "--slow", slowed), 0);
    s->config = s->given;
    assert_int_equal(bb_proxy_configure(&s->config, &positionals, &s->proxy), 0);
    assert_int_equal(bb_training_load_arch(&s->config, &s->arch), 0);
    s->gpu_bytes = choose(2) ? 1e15 : (4 + choose(60)) * 1e9;
}

/* grid_ns: of each grid, the fastest of the layouts with the least recomputation */
struct times {
    double ns[MAX_TIMES], grid_ns[MAX_TIMES];
    int n, grids;
};

static int compare_ns(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Simulates one layout if it is valid and fits. Returns whether it does. */
static bool simulate(const struct space *s, const struct bb_layout_choice *choice, struct times *times)
{
    const struct bb_proxy_config as = bb_layouts_config(&s->config, choice);
    const struct bb_layout_subject subject = {s->arch.experts, s->given.transformer.sequence,
                                              s->given.ranks > s->given.gpus_per_node};
    struct bb_step step = {0};
    int64_t ns = 0;
    bool fits;

    if (bb_step_build(&step, s->proxy, &as) != 0)
        return false;
    fits = bb_step_training_bytes(&step) <= s->gpu_bytes;
    if (fits) {
        assert_int_equal(bb_predict_step_ns(&step, &s->cluster, &s->conditions, &ns), 0);
        assert_true(times->n < MAX_TIMES);
        times->ns[times->n++] = (double)ns * (1 + bb_layouts_penalty(choice, &subject));
    }
    bb_step_release(&step);
    return fits;
}

/* Simulates a layout with every set of modules. */
static void simulate_modules(const struct space *s, struct bb_layout_choice c, struct times *times)
{
    const unsigned all = bb_recompute_modules_of(&s->arch);

    c.recompute = BB_RECOMPUTE_SELECTIVE;
    for (unsigned set = 1; set < 1u << BB_MODULES; set++) {
        memset(c.modules, 0, sizeof(c.modules));
        for (int m = 0; m < BB_MODULES; m++)
            if (set >> m & 1) {
                strcat(c.modules, c.modules[0] ? "," : "");
                strcat(c.modules, bb_recompute_module_names[m]);
            }
        if ((set & ~all) == 0 && (!(set >> BB_MODULE_MOE & 1) || !(set >> BB_MODULE_EXPERT_ACTIVATION & 1)))
            simulate(s, &c, times);
    }
}

/* Simulates every layout of the space. least: only the least recomputation with which each layout fits; every: every kind,
 * number of layers and set of modules of recomputation. Returns false if the space is too large. */
static bool simulate_all(const struct space *s, const struct bb_layout_search *search, struct times *least,
                         struct times *every)
{
    struct bb_layout_space space;
    bool small;

    least->n = every->n = least->grids = 0;
    bb_layout_space_init(&space, search, &s->arch);
    small = space.n <= MAX_CHOICES;
    for (int i = 0; i < space.n && small; i++) {
        bool fitted = false, other = i == 0 || !bb_layouts_are_of_one_grid(&space.list[i - 1], &space.list[i]);

        if (other && (i == 0 || least->grid_ns[least->grids - 1] < INFINITY))
            least->grids++;
        if (other)
            least->grid_ns[least->grids - 1] = INFINITY;

        if (!s->given.transformer.recompute)
            simulate_modules(s, space.list[i], every);
        for (int r = 0; r < space.n_recomputes; r++) {
            struct bb_layout_choice c = space.list[i];
            const int chunk = (s->arch.layers + c.pp * c.vpp - 1) / (c.pp * c.vpp);

            c.recompute = (enum bb_recompute)space.recomputes[r];
            /* 1 to chunk - 1 layers, then all layers of each chunk (0) */
            for (int layers = 1; layers <= chunk; layers++) {
                c.recompute_layers = layers < chunk && c.recompute == BB_RECOMPUTE_FULL ? layers : 0;
                if (c.recompute_layers > 0 && s->given.transformer.recompute)
                    continue;
                if (c.recompute != BB_RECOMPUTE_FULL && layers > 1)
                    break;
                if (!simulate(s, &c, every) || fitted)
                    continue;
                fitted = true;
                least->ns[least->n++] = every->ns[every->n - 1];
                least->grid_ns[least->grids - 1] = fmin(least->grid_ns[least->grids - 1], every->ns[every->n - 1]);
            }
        }
    }
    bb_layout_space_release(&space);
    qsort(least->grid_ns, (size_t)least->grids, sizeof(*least->grid_ns), compare_ns);
    qsort(every->ns, (size_t)every->n, sizeof(*every->ns), compare_ns);
    return small;
}

static void pruned_search_finds_the_best_layouts_of_random_spaces(void **state)
{
    static struct times least, every;
    static struct space s;
    int searched = 0;

    (void)state;
    for (int number = 0; searched < SPACES; number++) {
        struct bb_layout_search search;
        struct bb_layouts found;
        bool enough;

        draw_space(&s, number);
        search = (struct bb_layout_search){s.proxy,       &s.given,    &s.config,   &s.cluster, NULL,
                                           &s.conditions, s.gpu_bytes, s.gpu_bytes, 1,          false,
                                           true,          1,           2,           true,       BB_OPTIMIZER_GIVEN};
        bb_err_mute(1);
        enough = simulate_all(&s, &search, &least, &every) && least.n >= MIN_LAYOUTS;
        bb_err_mute(0);
        if (!enough)
            continue;
        searched++;
        assert_int_equal(bb_layouts_search(&search, &found), 0);
        assert_int_equal(found.fitting, least.n);
        if (bb_layouts_ranked_ns(&found.rows[0]) != every.ns[0])
            fail_msg("space %d: the best layout takes %.0f ns, in the exhaustive search %.0f ns", number,
                     bb_layouts_ranked_ns(&found.rows[0]), every.ns[0]);
        for (int k = 1; k < found.n && least.n <= ALL_REFINED; k++)
            if (bb_layouts_ranked_ns(&found.rows[k]) > least.grid_ns[k])
                fail_msg("space %d: layout %d takes %.0f ns, in the exhaustive search %.0f ns", number, k,
                         bb_layouts_ranked_ns(&found.rows[k]), least.grid_ns[k]);
        bb_layouts_release(&found);
    }
}

/* The bounds of the search are those of the schedule 1f1b. */
static void other_schedules_have_no_smaller_penalty(void **state)
{
    (void)state;
    for (int i = 0; i < 1 << 10; i++) {
        const struct bb_layout_subject of = {i & 1 ? 64 : 0, i & 2 ? 65536 : 2048, i & 4};
        struct bb_layout_choice c = {
            .tp = 1 << (i >> 3 & 3), .cp = 1 + (i >> 5 & 1), .pp = 2, .ep = 1 << 3 * (i >> 6 & 1)};
        double base;

        c.sync = (enum bb_sync_kind)((i >> 7) % (BB_SYNC_ZERO3 + 1));
        c.schedule = BB_1F1B;
        base = bb_layouts_penalty(&c, &of);
        assert_true(base >= 0);
        for (int schedule = 0; schedule < BB_SCHEDULES; schedule++) {
            c.schedule = (enum bb_schedule_kind)schedule;
            assert_true(bb_layouts_penalty(&c, &of) >= base);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pruned_search_finds_the_best_layouts_of_random_spaces),
                                       cmocka_unit_test(other_schedules_have_no_smaller_penalty)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
