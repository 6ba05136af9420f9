/* test_grid.c - axes and groups of ranks against member lists written by hand, and invalid layouts. */
#include "proxies/form/step/program.h"
#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/grid/pipe_layout.h"
#include "proxies/workloads/transformer/grid/pipe_split.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

/* A resolved grid and its layout with all groups. */
struct grid_layout {
    struct bb_grid grid;
    struct bb_layout layout;
    struct bb_grid_groups groups;
};

static void make_layout(struct grid_layout *l, struct bb_grid given, int ranks, const char *order)
{
    l->grid = given;
    assert_int_equal(bb_grid_resolve(&l->grid, ranks, order, NULL, "test"), 0);
    assert_int_equal(bb_grid_layout(&l->grid, BB_GRID_ALL_GROUPS, &l->layout, &l->groups), 0);
}

static void assert_members(const struct grid_layout *l, enum bb_grid_group group, int instance, const int *members,
                           int n)
{
    int g = l->groups.of[group];

    assert_int_not_equal(g, BB_NONE);
    assert_int_equal(l->layout.groups[g].size, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(bb_group_member(&l->layout, g, instance, i), members[i]);
}

#define ASSERT_MEMBERS(l, group, instance, ...)                                                                        \
    assert_members(l, group, instance, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void groups_of_two_orders(void **state)
{
    struct grid_layout l;

    (void)state;
    make_layout(&l, (struct bb_grid){.tp = 2, .pp = 2}, 8, NULL);
    assert_int_equal(l.grid.dp, 2);
    ASSERT_MEMBERS(&l, BB_GRID_TP, 0, 0, 1);
    ASSERT_MEMBERS(&l, BB_GRID_TP, 3, 6, 7);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 0, 0, 2);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 1, 1, 3);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 2, 4, 6);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 3, 5, 7);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 0, 0, 4);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 3, 3, 7);
    ASSERT_MEMBERS(&l, BB_GRID_EMBEDDING, 2, 2, 6);
    ASSERT_MEMBERS(&l, BB_GRID_TP_PP, 1, 2, 3, 6, 7);
    assert_int_equal(l.groups.of[BB_GRID_DP_CP], l.groups.of[BB_GRID_DP]);
    assert_int_equal(l.groups.of[BB_GRID_CP], BB_NONE);
    assert_int_equal(l.groups.of[BB_GRID_EP], BB_NONE);
    bb_layout_release(&l.layout);

    make_layout(&l, (struct bb_grid){.tp = 2, .dp = 2}, 8, "tp-cp-ep-pp-dp");
    assert_int_equal(l.grid.pp, 2);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 0, 0, 4);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 3, 3, 7);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 0, 0, 2);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 1, 1, 3);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 2, 4, 6);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 3, 5, 7);
    bb_layout_release(&l.layout);
}

static void groups_with_context_parallelism(void **state)
{
    struct grid_layout l;

    (void)state;
    make_layout(&l, (struct bb_grid){.tp = 2, .cp = 2, .dp = 2, .pp = 2}, 16, NULL);
    ASSERT_MEMBERS(&l, BB_GRID_CP, 0, 0, 2);
    ASSERT_MEMBERS(&l, BB_GRID_CP, 1, 1, 3);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 0, 0, 4);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 1, 1, 5);
    ASSERT_MEMBERS(&l, BB_GRID_DP_CP, 0, 0, 2, 4, 6);
    ASSERT_MEMBERS(&l, BB_GRID_DP_CP, 1, 1, 3, 5, 7);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 0, 0, 8);
    ASSERT_MEMBERS(&l, BB_GRID_TP_CP, 1, 4, 5, 6, 7);
    assert_string_equal(l.layout.groups[l.groups.of[BB_GRID_DP_CP]].name, "dp_cp");
    bb_layout_release(&l.layout);
}

static void groups_with_expert_parallelism(void **state)
{
    struct grid_layout l;

    (void)state;
    make_layout(&l, (struct bb_grid){.tp = 2, .pp = 2, .ep = 4, .etp = 1, .experts = true}, 16, NULL);
    assert_int_equal(l.grid.edp, 2);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 0, 0, 2, 4, 6);
    ASSERT_MEMBERS(&l, BB_GRID_EP, 0, 0, 1, 2, 3);
    ASSERT_MEMBERS(&l, BB_GRID_EP, 1, 4, 5, 6, 7);
    ASSERT_MEMBERS(&l, BB_GRID_EP, 2, 8, 9, 10, 11);
    ASSERT_MEMBERS(&l, BB_GRID_EDP, 0, 0, 4);
    ASSERT_MEMBERS(&l, BB_GRID_EDP, 1, 1, 5);
    assert_int_equal(l.groups.of[BB_GRID_TP_EP], l.groups.of[BB_GRID_EP]);
    bb_layout_release(&l.layout);

    make_layout(&l, (struct bb_grid){.tp = 2, .pp = 2, .ep = 2, .etp = 2, .experts = true}, 16, NULL);
    ASSERT_MEMBERS(&l, BB_GRID_EP, 0, 0, 2);
    ASSERT_MEMBERS(&l, BB_GRID_EP, 3, 5, 7);
    ASSERT_MEMBERS(&l, BB_GRID_EDP, 1, 1, 5);
    ASSERT_MEMBERS(&l, BB_GRID_TP_EP, 0, 0, 1, 2, 3);
    assert_int_equal(l.groups.of[BB_GRID_ETP], l.groups.of[BB_GRID_TP]);
    bb_layout_release(&l.layout);
}

static void groups_of_four_stages(void **state)
{
    struct grid_layout l;

    (void)state;
    make_layout(&l, (struct bb_grid){.tp = 2, .pp = 4}, 16, NULL);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 0, 0, 2);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 1, 1, 3);
    ASSERT_MEMBERS(&l, BB_GRID_DP, 2, 4, 6);
    ASSERT_MEMBERS(&l, BB_GRID_PP, 0, 0, 4, 8, 12);
    ASSERT_MEMBERS(&l, BB_GRID_EMBEDDING, 0, 0, 12);
    ASSERT_MEMBERS(&l, BB_GRID_EMBEDDING, 3, 3, 15);
    assert_int_equal(bb_group_instance(&l.layout, l.groups.of[BB_GRID_EMBEDDING], 5), BB_NONE);
    bb_layout_release(&l.layout);
}

/* ---- all orders ---- */

/* The rank at these coordinates by definition: the stride of an axis is the product of the sizes before it. */
static int rank_by_definition(const struct bb_grid *g, bool expert, const int coord[BB_GRID_AXES])
{
    static const char *const names[] = {"tp", "cp", "ep", "dp", "pp"};
    const int sizes[2][BB_GRID_AXES] = {{g->tp, g->cp, 1, g->dp, g->pp}, {g->etp, 1, g->ep, g->edp, g->pp}};
    int rank = 0, stride = 1;

    for (const char *word = g->order; *word; word += word[2] ? 3 : 2)
        for (int a = 0; a < BB_GRID_AXES; a++)
            if (strncmp(word, names[a], 2) == 0) {
                rank += stride * coord[a];
                stride *= sizes[expert][a];
            }
    return rank;
}

static bool equal_except(const struct bb_grid *g, bool expert, int a, int b, unsigned axes)
{
    for (int axis = 0; axis < BB_GRID_AXES; axis++) {
        int of_a = bb_grid_coord(g, a, (enum bb_grid_axis)axis, expert);
        int of_b = bb_grid_coord(g, b, (enum bb_grid_axis)axis, expert);

        if (!(axes & 1u << axis) && of_a != of_b)
            return false;
    }
    return true;
}

static void assert_coordinates_give_the_rank(const struct bb_grid *g)
{
    for (int rank = 0; rank < g->ranks; rank++) {
        int dense[BB_GRID_AXES], expert[BB_GRID_AXES];

        for (int a = 0; a < BB_GRID_AXES; a++) {
            dense[a] = bb_grid_coord(g, rank, (enum bb_grid_axis)a, false);
            expert[a] = bb_grid_coord(g, rank, (enum bb_grid_axis)a, true);
        }
        assert_int_equal(rank_by_definition(g, false, dense), rank);
        assert_int_equal(rank_by_definition(g, true, expert), rank);
        assert_int_equal(dense[BB_AXIS_PP], expert[BB_AXIS_PP]);
    }
}

/* Two ranks are in one instance if and only if all their other coordinates are equal; members are in ascending
 * order. */
static void assert_groups_match_coordinates(const struct grid_layout *l)
{
    static const struct {
        enum bb_grid_group group;
        unsigned axes;
        bool expert;
    } rows[] = {{BB_GRID_TP, 1 << BB_AXIS_TP, false},
                {BB_GRID_CP, 1 << BB_AXIS_CP, false},
                {BB_GRID_EP, 1 << BB_AXIS_EP, true},
                {BB_GRID_EDP, 1 << BB_AXIS_DP, true},
                {BB_GRID_DP, 1 << BB_AXIS_DP, false},
                {BB_GRID_PP, 1 << BB_AXIS_PP, false},
                {BB_GRID_DP_CP, 1 << BB_AXIS_DP | 1 << BB_AXIS_CP, false},
                {BB_GRID_TP_PP, 1 << BB_AXIS_TP | 1 << BB_AXIS_PP, false},
                {BB_GRID_TP_EP, 1 << BB_AXIS_TP | 1 << BB_AXIS_EP, true},
                {BB_GRID_ETP, 1 << BB_AXIS_TP, true}};

    for (size_t i = 0; i < ROWS(rows); i++) {
        int g = l->groups.of[rows[i].group];

        if (g == BB_NONE)
            continue;
        for (int a = 0; a < l->grid.ranks; a++)
            for (int b = 0; b < a; b++) {
                bool together = bb_group_instance(&l->layout, g, a) == bb_group_instance(&l->layout, g, b);

                assert_int_equal(together, equal_except(&l->grid, rows[i].expert, a, b, rows[i].axes));
                if (together)
                    assert_true(bb_group_index(&l->layout, g, b) < bb_group_index(&l->layout, g, a));
            }
    }
}

/* All 120 orders. Orders that give the dense and the expert grid different pipelines are rejected; this never
 * happens with pp last. */
static void all_orders_give_consistent_groups(void **state)
{
    static const char *const axes[] = {"tp", "cp", "ep", "dp", "pp"};
    int accepted = 0;

    (void)state;
    bb_err_mute(1);
    for (int n = 0; n < 120; n++) {
        struct bb_grid given = {.tp = 2, .cp = 2, .pp = 2, .ep = 3, .etp = 1, .experts = true};
        bool used[5] = {false};
        char order[BB_GRID_ORDER_SIZE] = "";
        struct grid_layout l;

        for (int position = 0, rest = n, permutations = 24; position < 5;
             rest %= permutations, permutations /= 5 - position - 1 ? 5 - position - 1 : 1, position++) {
            int skip = rest / permutations, a = 0;

            for (; used[a] || skip-- > 0; a++)
                ;
            used[a] = true;
            strcat(order, position ? "-" : "");
            strcat(order, axes[a]);
        }
        l.grid = given;
        if (bb_grid_resolve(&l.grid, 24, order, NULL, "test")) {
            assert_int_not_equal(strncmp(order + 12, "pp", 2), 0);
            continue;
        }
        accepted++;
        assert_int_equal(bb_grid_layout(&l.grid, BB_GRID_ALL_GROUPS, &l.layout, &l.groups), 0);
        assert_coordinates_give_the_rank(&l.grid);
        assert_groups_match_coordinates(&l);
        bb_layout_release(&l.layout);
    }
    bb_err_mute(0);
    assert_true(accepted >= 24 + 24); /* at least those with pp last and with pp first */
}

/* ---- derived axes and invalid layouts ---- */

static void derives_the_missing_axis(void **state)
{
    static const struct {
        struct bb_grid given;
        int ranks, tp, cp, dp, pp;
    } rows[] = {
        {{.tp = 0}, 6, 1, 1, 6, 1},
        {{.tp = 8, .pp = 16}, 16384, 8, 1, 128, 16},
        {{.tp = 2, .dp = 4}, 16, 2, 1, 4, 2},
        {{.pp = 2, .dp = 4}, 16, 2, 1, 4, 2},
        {{.tp = 2, .pp = 2, .dp = 2}, 16, 2, 2, 2, 2},
        {{.tp = 2, .pp = 2, .dp = 2}, 8, 2, 1, 2, 2},
        {{.dp = 7}, 7, 1, 1, 7, 1},
        {{.cp = 4}, 8, 1, 4, 2, 1},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_grid g = rows[i].given;

        assert_int_equal(bb_grid_resolve(&g, rows[i].ranks, NULL, NULL, "test"), 0);
        assert_int_equal(g.tp, rows[i].tp);
        assert_int_equal(g.cp, rows[i].cp);
        assert_int_equal(g.dp, rows[i].dp);
        assert_int_equal(g.pp, rows[i].pp);
    }
}

static void rejects_invalid_layouts(void **state)
{
    static const struct {
        struct bb_grid given;
        int ranks;
        const char *order;
    } rows[] = {
        {{.tp = 3}, 8, NULL},
        {{.tp = 16}, 8, NULL},
        {{.tp = 1000000, .pp = 1000000, .cp = 1000000}, 8, NULL},
        {{.tp = 2, .pp = 2, .dp = 3, .cp = 1}, 16, NULL},
        {{.dp = 2}, 8, NULL},
        {{.tp = 2, .ep = 2}, 8, NULL}, /* a model without experts */
        {{.tp = 2, .ep = 3, .experts = true}, 8, NULL},
        {{.tp = 2, .etp = 3, .experts = true}, 8, NULL},
        {{.tp = 2}, 8, "tp-dp-xp"},
        {{.tp = 2}, 8, "tp-dp-tp"},
        {{.tp = 2}, 8, "tp-dp-"},
        {{.tp = 2}, 8, ""},
        {{.tp = 2}, 8, "tp-cp-ep-dp-pp-tp-cp-ep-dp-pp"},
        {{.tp = 2}, 8, "dp-pp"}, /* tp is missing */
        /* the stride of pp would be 2 in the dense grid and 4 in the expert grid */
        {{.tp = 2, .pp = 2, .ep = 4, .etp = 1, .experts = true}, 16, "tp-ep-pp-dp"},
    };

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_grid g = rows[i].given;

        assert_int_equal(bb_grid_resolve(&g, rows[i].ranks, rows[i].order, NULL, "test"), -BB_EUSAGE);
    }
    bb_err_mute(0);
}

static void rejects_layouts_that_do_not_divide_the_model(void **state)
{
    static const struct {
        const char *name;
        struct bb_grid given;
        int ranks;
        struct bb_grid_model cut;
        int expected;
    } rows[] = {
        {"llama3_405b", {.tp = 8, .pp = 16}, 16384, {.sequence = 8192, .chunks = 1}, 0},
        {"llama3_405b", {.tp = 8, .pp = 16}, 16384, {.sequence = 8192, .chunks = 7}, 0},
        /* 126 layers < 128 chunks */
        {"llama3_405b", {.tp = 8, .pp = 16}, 16384, {.sequence = 8192, .chunks = 8}, -BB_EUSAGE},
        {"gpt2_xl", {.tp = 4}, 4, {.sequence = 1024, .chunks = 1}, -BB_EUSAGE}, /* 25 heads */
        {"gpt2_xl", {.tp = 5}, 5, {.sequence = 1024, .chunks = 1}, 0},
        {"llama2_70b", {.tp = 16}, 16, {.sequence = 4096, .chunks = 1}, -BB_EUSAGE}, /* 8 key-value heads */
        {"gpt2_small", {.pp = 13}, 13, {.sequence = 1024, .chunks = 1}, -BB_EUSAGE},
        /* more tokens than learned positions */
        {"gpt2_small", {.tp = 1}, 1, {.sequence = 2048, .chunks = 1}, -BB_EUSAGE},
        {"gpt2_small", {.cp = 3}, 3, {.sequence = 1024, .chunks = 1}, -BB_EUSAGE},
        {"gpt2_small", {.tp = 3}, 3, {.sequence = 1024, .chunks = 1, .sequence_parallel = true}, -BB_EUSAGE},
        {"gpt2_small", {.cp = 8}, 8, {.sequence = 1024, .chunks = 1, .cp_all_to_all = true}, -BB_EUSAGE},
        {"gpt2_small", {.cp = 4}, 4, {.sequence = 1024, .chunks = 1, .cp_all_to_all = true}, 0},
        {"mixtral_8x7b", {.ep = 16, .experts = true}, 16, {.sequence = 4096, .chunks = 1}, -BB_EUSAGE},
        {"mixtral_8x7b", {.ep = 8, .experts = true}, 16, {.sequence = 4096, .chunks = 1}, 0},
    };
    struct bb_arch a;

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_grid_model model = rows[i].cut;
        struct bb_grid g = rows[i].given;

        model.arch = &a;
        assert_int_equal(bb_arch_load(rows[i].name, &a), 0);
        assert_int_equal(bb_grid_resolve(&g, rows[i].ranks, NULL, NULL, "test"), 0);
        assert_int_equal(bb_grid_validate_model(&g, &model, "test"), rows[i].expected);
    }
    bb_err_mute(0);
}

static int random_below(unsigned *seed, int n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (int)((*seed >> 10) % (unsigned)n);
}

/* Sets the axes that the suggested options name. */
static void apply_suggestion(const char *text, struct bb_grid *g)
{
    int value, used;
    char axis[3];

    for (; sscanf(text, " --%2[a-z] %d%n", axis, &value, &used) == 2; text += used)
        *(axis[0] == 't' ? &g->tp : axis[0] == 'c' ? &g->cp : axis[0] == 'd' ? &g->dp : &g->pp) = value;
}

/* The suggested layout is valid, whatever the input. */
static void suggested_layout_is_valid(void **state)
{
    static const char *const names[] = {"gpt2_xl", "llama3_8b", "deepseek_v3", "qwen2_7b"};
    static const int sizes[] = {0, 0, 1, 2, 3, 4, 5, 6, 8, 16}, ranks[] = {1, 2, 6, 7, 8, 12, 48, 64, 100, 1024};
    char text[BB_GRID_SUGGESTION];
    unsigned seed = 3;
    int changed = 0;

    (void)state;
    bb_err_mute(1);
    for (int round = 0; round < 2000; round++) {
        struct bb_arch a;
        struct bb_grid_model m = {.arch = &a, .sequence = 960, .chunks = 1, .sequence_parallel = round % 2};
        struct bb_grid g = {.tp = sizes[random_below(&seed, 10)],
                            .cp = sizes[random_below(&seed, 10)],
                            .dp = sizes[random_below(&seed, 10)],
                            .pp = sizes[random_below(&seed, 10)]};
        struct bb_grid given = g;
        int n = ranks[random_below(&seed, 10)];

        assert_int_equal(bb_arch_load(names[random_below(&seed, 4)], &a), 0);
        given.experts = g.experts = a.experts > 0;
        if (bb_grid_resolve(&g, n, NULL, &m, "test") == 0 && bb_grid_validate_model(&g, &m, "test") == 0 &&
            bb_grid_layers_divide(a.layers, g.pp))
            continue;
        apply_suggestion(bb_grid_suggest(&g, &m, text), &given);
        assert_int_equal(bb_grid_resolve(&given, n, NULL, &m, "test"), 0);
        assert_int_equal(bb_grid_validate_model(&given, &m, "test"), 0);
        assert_true(bb_grid_layers_divide(a.layers, given.pp));
        changed++;
    }
    bb_err_mute(0);
    assert_true(changed > 1000);
}

/* The FFN width must be divisible by tp if any layer has a dense MLP: without experts, in the first layers, or between
 * MoE layers. */
static void ffn_of_dense_layers_must_be_divisible_by_tp(void **state)
{
    static const struct {
        int experts, dense_layers, moe_every, ffn, rc;
    } rows[] = {{0, 0, 0, 100, 0},          {0, 0, 0, 102, -BB_EUSAGE}, {8, 0, 1, 102, 0},
                {8, 1, 1, 102, -BB_EUSAGE}, {8, 0, 2, 102, -BB_EUSAGE}, {8, 1, 2, 100, 0}};

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_arch a = {.layers = 16,
                                  .hidden = 512,
                                  .heads = 8,
                                  .kv_heads = 8,
                                  .ffn = rows[i].ffn,
                                  .experts = rows[i].experts,
                                  .expert_ffn = 64,
                                  .top_k = 1,
                                  .dense_layers = rows[i].dense_layers,
                                  .moe_every = rows[i].moe_every};
        const struct bb_grid_model m = {.arch = &a, .sequence = 64, .chunks = 1};
        struct bb_grid g = {.tp = 4, .experts = rows[i].experts > 0};

        assert_int_equal(bb_grid_resolve(&g, 4, NULL, &m, "test"), 0);
        assert_int_equal(bb_grid_validate_model(&g, &m, "test"), rows[i].rc);
    }
    bb_err_mute(0);
}

/* The suggestion changes the given axes as little as possible, measured as a factor; of equal changes, the first
 * axis changes. */
static void suggested_layout_changes_little(void **state)
{
    static const struct {
        struct bb_grid given;
        int ranks;
        const char *text;
    } rows[] = {
        {{.tp = 4, .pp = 4}, 8, "--tp 2"},
        {{.tp = 4, .dp = 4}, 8, "--tp 2"},
        {{.tp = 3}, 8, "--tp 4"},
        {{.tp = 16}, 8, "--tp 8"},
        {{.tp = 5, .dp = 2}, 12, "--tp 6"},
        {{.pp = 5}, 8, "--pp 4"},
        {{.tp = 2, .pp = 2, .dp = 3}, 8, "--dp 2"},
        {{.pp = 7, .dp = 2}, 16, "--pp 8"},
    };
    struct bb_arch a = {.layers = 16, .hidden = 9600, .heads = 96, .kv_heads = 96, .ffn = 38400, .vocab = 96000};
    const struct bb_grid_model m = {.arch = &a, .sequence = 960, .chunks = 1};
    char text[BB_GRID_SUGGESTION];

    (void)state;
    bb_err_mute(1);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_grid g = rows[i].given;

        assert_int_equal(bb_grid_resolve(&g, rows[i].ranks, NULL, &m, "test"), -BB_EUSAGE);
        assert_string_equal(bb_grid_suggest(&g, &m, text), rows[i].text);
    }
    bb_err_mute(0);
}

/* ---- layers ---- */

static void layers_are_divided_among_all_parts(void **state)
{
    int first;

    (void)state;
    for (int layers = 1; layers <= 70; layers++)
        for (int parts = 1; parts <= layers; parts++) {
            int next = 0, min = layers, max = 0;

            for (int p = 0; p < parts; p++) {
                int n = bb_grid_layers(layers, parts, p, &first);

                assert_int_equal(first, next);
                assert_true(n >= 1);
                min = n < min ? n : min;
                max = n > max ? n : max;
                next += n;
            }
            assert_int_equal(next, layers);
            assert_true(layers % parts == 0 ? max == min : max - min <= 2);
        }
    assert_int_equal(bb_grid_layers(126, 16, 0, &first), 7);
    assert_int_equal(bb_grid_layers(126, 16, 1, &first), 8);
    assert_int_equal(bb_grid_layers(126, 16, 15, &first), 7);
    assert_int_equal(bb_grid_layers(61, 16, 0, &first), 2);
    assert_int_equal(bb_grid_layers(61, 16, 8, &first), 4);
    assert_int_equal(bb_grid_layers(61, 16, 15, &first), 3);
}

/* All splits of few layers: valid splits assign every layer, in order, with the requested first and last stage and
 * equal stages between them. */
static void pipe_split_with_explicit_end_stages(void **state)
{
    int valid = 0, first;

    (void)state;
    for (int code = 0; code < 20 * 5 * 3 * 9 * 9; code++) {
        struct bb_pipe_split s = {1 + code % 20,  2 + code / 20 % 5, 1 + code / 100 % 3,
                                  code / 300 % 9, code / 2700,       NULL};
        int others = s.stages - (s.first > 0) - (s.last > 0), rest = s.layers - s.first - s.last, next = 0;
        int of[8] = {0};

        if (s.first + s.last == 0)
            continue;
        assert_int_equal(bb_pipe_split_is_valid(&s),
                         s.first % s.chunks == 0 && s.last % s.chunks == 0 &&
                             (others ? rest > 0 && rest % (others * s.chunks) == 0 : rest == 0));
        if (!bb_pipe_split_is_valid(&s))
            continue;
        valid++;
        for (int part = 0; part < s.stages * s.chunks; part++) {
            int n = bb_pipe_split_layers(&s, part, &first);

            assert_true(n >= 1 && first == next);
            next += n;
            of[part % s.stages] += n;
        }
        assert_int_equal(next, s.layers);
        for (int stage = 0; stage < s.stages; stage++)
            assert_int_equal(of[stage], stage == 0 && s.first             ? s.first
                                        : stage == s.stages - 1 && s.last ? s.last
                                                                          : rest / others);
    }
    assert_true(valid > 500);
}

/* Splits by Megatron-LM: DeepSeek-V3's 61 layers, and 26 layers in chunks, with 4, 8, 8, 6 layers per stage. */
static void pipe_splits_match_megatron(void **state)
{
    static const int firsts[] = {0, 2, 6, 10, 13, 15, 19, 23};
    const struct bb_pipe_split deepseek = {61, 16, 1, 3, 2, NULL}, chunked = {26, 4, 2, 4, 6, NULL};
    int first;

    (void)state;
    assert_int_equal(bb_pipe_split_layers(&deepseek, 0, &first), 3);
    assert_int_equal(bb_pipe_split_layers(&deepseek, 1, &first), 4);
    assert_int_equal(first, 3);
    assert_int_equal(bb_pipe_split_layers(&deepseek, 15, &first), 2);
    assert_int_equal(first, 59);
    for (int part = 0; part < 8; part++) {
        bb_pipe_split_layers(&chunked, part, &first);
        assert_int_equal(first, firsts[part]);
    }
}

/* "Ettt|(tt|)*29,L" is the example in Megatron-LM's parser without its MTP layer; 16 stages hold virtual stages 0 and 16,
 * 1 and 17, ... */
static void pipe_layouts_match_megatron(void **state)
{
    const struct bb_pipe_split split = {.layers = 61, .stages = 31, .chunks = 1, .layout = "Ettt|(tt|)*29,L"};
    struct bb_pipe_part part;
    int first;

    (void)state;
    assert_true(bb_pipe_split_is_valid(&split));
    assert_int_equal(bb_pipe_split_layers(&split, 0, &first), 3);
    assert_int_equal(bb_pipe_split_layers(&split, 29, &first), 2);
    assert_int_equal(first, 3 + 28 * 2);
    assert_int_equal(bb_pipe_split_layers(&split, 30, &first), 0);
    assert_int_equal(first, 61);
    assert_int_equal(bb_pipe_layout_part("Et*3,|(t*2|t|)*2L", 0, NULL), 6);
    assert_int_equal(bb_pipe_layout_part("Et*3,|(t*2|t|)*2L", 2, &part), 4);
    assert_true(part.first == 5 && part.layers == 1 && part.embeddings == 0 && part.losses == 0);
    for (size_t i = 0; i < 8; i++) {
        static const char *const bad[] = {"E|x|L", "Et*0|L", "Et*|L",  "E((t)*2)*2|L",
                                          "E(t",   "Et)*2",  "E()*2L", "E(t*90000)*2L"};

        assert_int_equal(bb_pipe_layout_part(bad[i], 0, NULL), 0);
    }
}

#define FIRST "--decoder-first-pipeline-num-layers"
#define LAST  "--decoder-last-pipeline-num-layers"

/*
 * The suggested split, computed by hand: 61 = 2 + 14 x 4 + 3 = 1 + 15 x 4 = 3 + 14 x 4 + 2, 26 = 4 + 2 x 8 + 6 in
 * chunks of two. Of 9 = 3 + 2 x 2 + 2 = 2 + 2 x 3 + 1, the second, whose longest stage is shorter if embedding and head
 * count as one layer each.
 */
static void suggests_a_valid_pipe_split(void **state)
{
    static const struct {
        struct bb_pipe_split split;
        const char *suggestion;
    } rows[] = {
        {{9, 4, 1, 0, 0, NULL}, "--pipeline-layout 'Et*2|(t*3|)*2tL', or " FIRST " 2 " LAST " 1, or pp 3"},
        {{61, 16, 1, 2, 2, NULL}, FIRST " 2 " LAST " 3"},
        {{61, 16, 1, 3, 0, NULL}, FIRST " 1, or " FIRST " 3 " LAST " 2"},
        {{26, 4, 2, 3, 0, NULL}, FIRST " 2"},
        {{26, 4, 2, 4, 4, NULL}, FIRST " 4 " LAST " 6"},
        {{7, 2, 1, 3, 3, NULL}, FIRST " 3 " LAST " 4"},
        {{13, 4, 2, 0, 0, NULL}, "--pipeline-layout 'Et|(t*2|)*6L', or pp 3"},
        {{10, 3, 1, 9, 0, NULL}, FIRST " 8"},
    };
    struct capture capture;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *text;

        capture_begin(&capture);
        assert_int_equal(bb_pipe_split_validate(&rows[i].split, 0, "pp 3", "test"), -BB_EUSAGE);
        text = capture_end(&capture);
        text = strstr(text, "try: ");
        assert_non_null(text);
        assert_int_equal(strncmp(text + 5, rows[i].suggestion, strlen(rows[i].suggestion)), 0);
        assert_string_equal(text + 5 + strlen(rows[i].suggestion), "\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_two_orders),
        cmocka_unit_test(groups_with_context_parallelism),
        cmocka_unit_test(groups_with_expert_parallelism),
        cmocka_unit_test(groups_of_four_stages),
        cmocka_unit_test(all_orders_give_consistent_groups),
        cmocka_unit_test(derives_the_missing_axis),
        cmocka_unit_test(rejects_invalid_layouts),
        cmocka_unit_test(rejects_layouts_that_do_not_divide_the_model),
        cmocka_unit_test(suggested_layout_is_valid),
        cmocka_unit_test(suggested_layout_changes_little),
        cmocka_unit_test(ffn_of_dense_layers_must_be_divisible_by_tp),
        cmocka_unit_test(layers_are_divided_among_all_parts),
        cmocka_unit_test(pipe_split_with_explicit_end_stages),
        cmocka_unit_test(pipe_splits_match_megatron),
        cmocka_unit_test(pipe_layouts_match_megatron),
        cmocka_unit_test(suggests_a_valid_pipe_split),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
