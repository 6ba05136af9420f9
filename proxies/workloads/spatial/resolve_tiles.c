/* resolve_tiles.c - resolves the command-line options of the proxies `layer_parallel`, `spatial` and `gems` into
 * numbers that are consistent with each other and with the number of ranks (tiling.h defines splits, tiles and replicas). */
#include "proxies/workloads/spatial/tiling.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define MAX_WIDTH          2048 /* maximum number of tiles of a split (pipeline stage) */
#define MAX_SPATIAL_SPLITS 64

/* ---- options whose value is a list of numbers, for example "8,4" ---- */

/* Parses the list `text` of an option, for example "8,4", into numbers[max]. Returns the number of elements, or a
 * negative error. */
static int read_list(const struct bb_tiling *t, const char *option, const char *text, int *numbers, int max)
{
    const char *rest = text;
    char word[BB_LIST_WORD];
    int n = 0;

    while (bb_list_next(&rest, word)) {
        if (n == max)
            return bb_err(BB_EUSAGE, "%s: --%s '%s' has more than %d numbers", t->config.proxy, option, text, max);
        if (!*word || strlen(word) > 15)
            return bb_err(BB_EUSAGE, "%s: --%s '%s', expected integers separated by commas; try: 4,4", t->config.proxy,
                          option, text);
        if (bb_parse_int(word, 1, BB_MAX_LAYERS, &numbers[n++]))
            return bb_err(BB_EUSAGE, "%s: --%s: '%s' is not an integer from 1 to %d", t->config.proxy, option, word,
                          BB_MAX_LAYERS);
    }
    return n;
}

/* ---- rejection of contradictory options ---- */

static bool is_value(const char *given, const char *word)
{
    return given && strcmp(given, word) == 0;
}

/* Rejects `option` without the option `other` that it requires; NULL: it requires the two replicas of GEMS. */
static int reject_option(const struct bb_tiling *t, const char *option, const char *other)
{
    const char *proxy = t->config.proxy;
    const bool tiles = other && strcmp(other, "spatial-parts") == 0;

    if (!other)
        return bb_err(BB_EUSAGE,
                      "%s: --%s requires the two replicas of proxy gems (--replications 2 or more); leave it out",
                      proxy, option);
    if (t->layers_only && tiles)
        return bb_err(BB_EUSAGE, "%s: --%s requires tiles; leave it out, or try: spatial", proxy, option);
    if (t->config.tiles.spatial_parts && tiles)
        return bb_err(BB_EUSAGE, "%s: --%s requires tiles, but --spatial-parts is 1; leave it out", proxy, option);
    return bb_err(BB_EUSAGE, "%s: --%s requires --%s; add that option, or leave this one out", proxy, option, other);
}

static int validate_sync_bn(const struct bb_tiling *t)
{
    const bool halo_d2 = t->config.tiles.halo_d2;
    int norms = 0;

    for (int i = 0; i < t->net.n_layers; i++)
        norms += t->net.layers[i].norm;
    if (!t->config.sync.sync_bn || (!t->gems && !halo_d2 && norms))
        return 0;
    return bb_err(BB_EUSAGE, "%s: --sync-bn is not supported with %s; leave it out", t->config.proxy,
                  t->gems   ? "two replicas that run at different times"
                  : halo_d2 ? "--halo-d2, whose tiles overlap"
                            : bb_step_text(t->step, "%s, which has no batch norm", t->net.name));
}

/* Rejects options that the proxy does not support, and options that are given without the option that they require. */
static int validate_options(const struct bb_tiling *t)
{
    const struct bb_tiles_options *o = &t->config.tiles;
    const bool tiled = !t->layers_only && (o->spatial_parts ? !is_value(o->spatial_parts, "1") : !t->gems);
    const bool outputs = is_value(o->halo_bwd, "dy");
    const struct {
        bool given;
        const char *option;
        bool wanted;
        const char *other; /* the option that `option` requires, which is given if `wanted`; NULL: `option` requires
                              the two replicas of GEMS */
    } pairs[] = {
        {!t->gems && o->replications > 1, "replications", false, NULL},
        {!t->gems && o->comm_opt, "comm-opt", false, NULL},
        {!t->gems && o->odd_step, "odd-step", false, NULL},
        {o->odd_step, "odd-step", o->comm_opt, "comm-opt"},
        {o->spatial_parts && !is_value(o->spatial_parts, "1"), "spatial-parts", !t->layers_only, "spatial-parts"},
        {o->slice, "slice", tiled, "spatial-parts"},
        {o->spatial_splits > 1, "spatial-splits", tiled, "spatial-parts"},
        {o->halo_d2, "halo-d2", tiled, "spatial-parts"},
        {o->halo_bwd, "halo-bwd", tiled, "spatial-parts"},
        {o->halo_overlap, "halo-overlap", tiled, "spatial-parts"},
        {o->spatial_gradients, "spatial-gradients", tiled, "spatial-parts"},
        {o->fused_layers > 1, "fused-layers", o->halo_d2, "halo-d2"},
    };

    if (t->gems && o->local_dp > 1)
        return bb_err(
            BB_EUSAGE,
            "%s: --local-dp requires proxy spatial, because GEMS runs its second replica on these ranks (MPI4DL's own "
            "script stops with an error, too); leave it out",
            t->config.proxy);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i].given && !pairs[i].wanted)
            return reject_option(t, pairs[i].option, pairs[i].other);
    if (o->halo_d2 && (outputs || o->halo_overlap))
        return bb_err(BB_EUSAGE, "%s: --halo-d2 and --%s cannot be combined: %s; leave one of them out",
                      t->config.proxy, outputs ? "halo-bwd dy" : "halo-overlap",
                      outputs ? "a fused halo exchanges only gradients of its inputs (--halo-bwd dx)"
                              : "overlap requires a separate halo for each layer");
    return validate_sync_bn(t);
}

/* ---- numbers of tiles, splits (pipeline stages), modules (blocks or cells) and passes (forward and backward in a
 * replica) ---- */

#define DEFAULT_PARTS  4 /* number of tiles of each spatial split without --spatial-parts */
#define DEFAULT_STAGES 4 /* number of splits (pipeline stages) without tiles and without --splits, if possible */

static void set_parts(struct bb_tiling *t, int parts)
{
    for (int i = 0; i < t->n_spatial; i++)
        t->splits[i].width = parts;
}

/* Sets the number of tiles of each spatial split (pipeline stage that works on tiles) from --spatial-parts, which is
 * a list, or one number for all spatial splits. */
static int resolve_parts(struct bb_tiling *t)
{
    const struct bb_tiles_options *o = &t->config.tiles;
    int parts[MAX_SPATIAL_SPLITS] = {DEFAULT_PARTS}, n = t->gems || t->layers_only ? 0 : 1;

    if (o->spatial_parts)
        n = read_list(t, "spatial-parts", o->spatial_parts, parts, MAX_SPATIAL_SPLITS);
    if (n < 0)
        return n;
    if (n == 1 && parts[0] == 1) /* one tile is the whole image: a pipeline without tiles */
        return 0;
    t->n_spatial = n > 0 && o->spatial_splits ? o->spatial_splits : n;
    if (!o->spatial_parts && t->n_spatial > MAX_SPATIAL_SPLITS)
        return bb_err(BB_EUSAGE, "%s: %d spatial splits, expected 1 to %d", t->config.proxy, t->n_spatial,
                      MAX_SPATIAL_SPLITS);
    if (t->n_spatial > MAX_SPATIAL_SPLITS || (n > 1 && n != t->n_spatial))
        return bb_err(BB_EUSAGE,
                      "%s: --spatial-parts %s lists %d split%s, but %d splits are spatial; expected one number, or one "
                      "per spatial split (at most %d)",
                      t->config.proxy, o->spatial_parts, n, bb_plural(n), t->n_spatial, MAX_SPATIAL_SPLITS);
    for (int i = 0; i < t->n_spatial; i++)
        t->splits[i].width = parts[n == 1 ? 0 : i];
    return 0;
}

/* Sets the number of splits (pipeline stages) and the number of modules (blocks or cells) of each split from
 * --balance. Without --balance, sets only the number of splits, from --splits. */
static int resolve_balance(struct bb_tiling *t)
{
    const struct bb_tiles_options *o = &t->config.tiles;
    int *modules, n, total = t->net.n_modules, rc = 0;
    const char *last;        /* the comma before the last number */
    long long sum = 0, rest; /* rest: modules that the other splits leave to the last one */

    t->n_splits = o->splits;
    if (!o->balance)
        return 0;
    last = strrchr(o->balance, ',');
    BB_NEW(modules, total);
    n = read_list(t, "balance", o->balance, modules, total);
    for (int i = 0; i < n; i++) {
        t->splits[i].layers.n = modules[i];
        sum += modules[i];
    }
    rest = n > 0 ? modules[n - 1] + total - sum : 0;
    if (n < 0)
        rc = n;
    else if (sum != total)
        rc = bb_err(BB_EUSAGE, "%s: --balance %s adds up to %lld modules, but %s has %d; try: %s", t->config.proxy,
                    o->balance, sum, t->net.name, total,
                    rest > 0 ? bb_step_text(t->step, "--balance %.*s%lld", (int)(last ? last + 1 - o->balance : 0),
                                            o->balance, rest)
                             : bb_step_text(t->step, "--splits %d without --balance", n));
    else if (o->splits && o->splits != n)
        rc = bb_err(BB_EUSAGE, "%s: --balance %s lists %d splits, but --splits is %d; leave one out", t->config.proxy,
                    o->balance, n, o->splits);
    t->n_splits = n;
    free(modules);
    return rc;
}

static int count_tiles(const struct bb_tiling *t)
{
    int tiles = 0;

    for (int i = 0; i < t->n_spatial; i++)
        tiles += t->splits[i].width;
    return tiles;
}

/* Returns the required number of data-parallel copies: of both replicas of gems, else of the pipeline. */
static int min_copies(const struct bb_tiling *t)
{
    return t->config.tiles.hybrid ? 2 : 1;
}

static long long ranks_per_replica(const struct bb_tiling *t, int splits)
{
    return count_tiles(t) + (long long)(splits - t->n_spatial) * t->local_dp;
}

static int min_splits(const struct bb_tiling *t)
{
    int splits = t->n_spatial ? t->n_spatial + 1 : 2;
    /* gems with tiles: the tiles of both replicas need separate ranks, so a replica needs at least twice as many
     * ranks as tiles */
    int disjoint = t->gems && t->n_spatial ? t->n_spatial + count_tiles(t) : 0;

    return splits > disjoint ? splits : disjoint;
}

/* Returns a number of splits (pipeline stages) for which the number of ranks is a multiple of the ranks per replica, or
 * 0 if there is none. The result is --splits if this option is set; DEFAULT_STAGES without tiles if
 * possible; otherwise the smallest possible number. The numbers of tiles must be set before the call. */
static int fitting_splits(const struct bb_tiling *t)
{
    int min = min_splits(t);

    if (t->n_splits)
        return t->config.ranks % ranks_per_replica(t, t->n_splits) == 0 ? t->n_splits : 0;
    if (!t->n_spatial && t->config.ranks % ranks_per_replica(t, DEFAULT_STAGES) == 0 &&
        t->config.ranks >= ranks_per_replica(t, DEFAULT_STAGES) * min_copies(t) && t->net.n_modules >= DEFAULT_STAGES)
        return DEFAULT_STAGES;
    for (int n = min; n <= t->net.n_modules && ranks_per_replica(t, n) * min_copies(t) <= t->config.ranks; n++)
        if (t->config.ranks % ranks_per_replica(t, n) == 0)
            return n;
    return !t->gems && !t->n_spatial && t->config.ranks == t->local_dp ? 1 : 0;
}

/* Sets the numbers of tiles and of splits (pipeline stages) that the user has not specified, so that they fit the
 * number of ranks if possible. */
static void resolve_defaults(struct bb_tiling *t)
{
    int splits = fitting_splits(t);

    if (!splits && !t->config.tiles.spatial_parts) {
        set_parts(t, DEFAULT_PARTS / 2);
        splits = fitting_splits(t);
        if (!splits)
            set_parts(t, DEFAULT_PARTS);
    }
    if (!t->n_splits)
        t->n_splits = splits ? splits : min_splits(t);
}

/* Rejects numbers of tiles and of spatial splits (pipeline stages that work on tiles) that require more splits than
 * the network has modules (blocks or cells). */
static int validate_tiles(const struct bb_tiling *t)
{
    int min = min_splits(t), unit = is_value(t->config.tiles.slice, "square") ? 4 : 2, parts = unit,
        spatial = t->n_spatial;

    if (min <= t->net.n_modules)
        return 0;
    if (!t->gems)
        return bb_err(BB_EUSAGE, "%s: %s has %d modules, too few for %d spatial splits, expected at most %d",
                      t->config.proxy, t->net.name, t->net.n_modules, t->n_spatial, t->net.n_modules - 1);
    while (spatial > 1 && spatial + unit * spatial > t->net.n_modules)
        spatial--;
    while (spatial + unit * parts * spatial <= t->net.n_modules)
        parts *= unit;
    return bb_err(BB_EUSAGE,
                  "%s: %s has %d modules, too few for the %d splits with which the tiles of both replicas are on "
                  "separate ranks; possible: --spatial-parts %d --spatial-splits %d with %d ranks",
                  t->config.proxy, t->net.name, t->net.n_modules, min, parts, spatial, 2 * parts * spatial);
}

static int validate_splits(const struct bb_tiling *t)
{
    const char *proxy = t->config.proxy;
    int tiles = count_tiles(t), rc = validate_tiles(t);

    if (rc)
        return rc;
    if (t->n_splits < 2 && (t->gems || t->n_spatial))
        return bb_err(BB_EUSAGE, "%s: %d split, expected %d or more", proxy, t->n_splits, min_splits(t));
    if (t->n_spatial >= t->n_splits)
        return bb_err(
            BB_EUSAGE,
            "%s: %d spatial splits of %d splits in total leave none to join the tiles, expected %d splits or more",
            proxy, t->n_spatial, t->n_splits, min_splits(t));
    if (t->n_splits > t->net.n_modules)
        return bb_err(BB_EUSAGE, "%s: %s has %d modules, too few for %d splits, expected at most %d", proxy,
                      t->net.name, t->net.n_modules, t->n_splits, t->net.n_modules);
    if (t->gems && ranks_per_replica(t, t->n_splits) < 2LL * tiles)
        return bb_err(BB_EUSAGE,
                      "%s: with %d splits, %d tiles per replica and %lld ranks in total, the tiles of both replicas "
                      "cannot have separate ranks, expected %d splits or more",
                      proxy, t->n_splits, tiles, ranks_per_replica(t, t->n_splits), min_splits(t));
    return 0;
}

static int validate_join(const struct bb_tiling *t, int before, int parts, int i)
{
    if (before % parts)
        return bb_err(BB_EUSAGE,
                      "%s: the %d tiles of spatial split %d cannot be merged into %d tiles of the next split; try: "
                      "--spatial-parts %d",
                      t->config.proxy, before, i - 1, parts, before);
    if (before != parts && is_value(t->config.tiles.slice, "square"))
        return bb_err(BB_EUSAGE,
                      "%s: %d square tiles cannot be merged into %d; try: --slice vertical, or --spatial-parts %d",
                      t->config.proxy, before, parts, before);
    return 0;
}

/* Sets the grid of tiles of each spatial split (pipeline stage that works on tiles). Tiles of one split are merged
 * into the tiles of the next split, so its number of tiles must be a multiple of that of the next split. Square
 * tiles cannot be merged, so with square tiles all spatial splits must have the same number of tiles. */
static int resolve_slices(struct bb_tiling *t)
{
    bool even = t->n_spatial == 0 || t->splits[0].width == t->splits[t->n_spatial - 1].width;
    const char *slice = t->config.tiles.slice ? t->config.tiles.slice : even ? NULL : "vertical";
    int rc = 0;

    for (int i = 0; i < t->n_spatial; i++) {
        if (t->splits[i].width > MAX_WIDTH)
            return bb_err(BB_EUSAGE, "%s: %d tiles per image, expected at most %d; try: --spatial-parts %d",
                          t->config.proxy, t->splits[i].width, MAX_WIDTH, MAX_WIDTH);
        TRY(validate_join(t, t->splits[i ? i - 1 : 0].width, t->splits[i].width, i));
        TRY(bb_slices_init(&t->splits[i].layers.slices, t->config.proxy, slice, t->splits[i].width));
    }
out:
    return rc;
}

/* Sets the number of passes from --replications. A pass is the forward and backward of all micro-batches in one
 * replica. All passes of a step together have at most BB_MAX_LAYERS micro-batches. */
static int resolve_replications(struct bb_tiling *t)
{
    int m = t->config.micro_batches ? t->config.micro_batches : 1;
    int *eta = &t->config.tiles.replications;

    *eta = *eta ? *eta : t->gems ? 2 : 1;
    if (t->gems && *eta % 2)
        return bb_err(BB_EUSAGE,
                      "%s: %d replications, expected an even number, half of them in each direction, or 1; try: "
                      "--replications %d",
                      t->config.proxy, *eta, *eta + 1);
    if (*eta > BB_MAX_LAYERS / m)
        return bb_err(BB_EUSAGE,
                      "%s: %d replications with %d micro-batches each, expected at most %d micro-batches in total; "
                      "try: fewer --micro-batches",
                      t->config.proxy, *eta, m, BB_MAX_LAYERS);
    return 0;
}

static int validate_ranks(const struct bb_tiling *t)
{
    long long mp = ranks_per_replica(t, t->n_splits);
    int whole = t->n_splits - t->n_spatial;
    const char *tiles = count_tiles(t) ? bb_step_text(t->step, "%d tiles + ", count_tiles(t)) : "";

    if (mp > BB_MAX_LAYERS)
        return bb_err(BB_EUSAGE, "%s: a replica has %lld ranks, expected at most %d", t->config.proxy, mp,
                      BB_MAX_LAYERS);
    if (t->config.tiles.hybrid && t->config.ranks < mp * min_copies(t))
        return bb_err(BB_EUSAGE,
                      "%s: Hybrid needs two or more copies of both replicas, %lld ranks each; possible: %lld ranks",
                      t->config.proxy, mp, mp * min_copies(t));
    return bb_args_check_ranks(&t->config, (int)mp,
                               bb_step_text(t->step, "%s%d split%s%s", tiles, whole, bb_plural(whole),
                                            t->local_dp > 1 ? " x local replicas" : ""));
}

/* Sets the sizes of micro-batches, and their number from --global-batch-size and the number of replicas. Then checks
 * the total number of micro-batches of all passes again. */
static int resolve_micro_batches(struct bb_tiling *t)
{
    struct bb_proxy_config *c = &t->config;
    int replicas = c->ranks / (int)ranks_per_replica(t, t->n_splits), passes = c->tiles.replications, rc;
    char near[BB_MULTIPLES_TEXT];
    const char *made_of;

    TRY(bb_args_batches(c, t->local_dp, replicas, &t->batches));
    for (int i = 0; i < t->batches.n; i++)
        if (t->batches.size[i] % t->local_dp)
            return bb_err(
                BB_EUSAGE, "%s: micro-batch size %d is not divisible by %d local replicas; try: --micro-batch-size %s",
                c->proxy, t->batches.size[i], t->local_dp, bb_multiples(t->batches.size[i], t->local_dp, near));
    made_of = bb_step_text(t->step, "%d replica%s x %d pass%s x micro-batches of %s", replicas, bb_plural(replicas),
                           passes, passes == 1 ? "" : "es", bb_batches_text(t->step, &t->batches));
    TRY(bb_args_micro_batches(c, 1, passes * t->batches.samples, made_of, "", &c->micro_batches));
    TRY(resolve_replications(t));
out:
    return rc;
}

/* Sets the pipeline schedule from --schedule. Splits have one part of the model, and GEMS defines its own order of the
 * two replicas. */
static int resolve_schedule(struct bb_tiling *t)
{
    const char *word = t->config.transformer.schedule;

    t->schedule = (struct bb_schedule){.kind = (enum bb_schedule_kind)bb_args_index(word, bb_schedule_names, BB_GPIPE),
                                       .stages = t->n_splits,
                                       .micro_batches = t->config.micro_batches,
                                       .chunks = 1};
    if (t->schedule.kind == BB_GPIPE || (t->schedule.kind == BB_1F1B && !t->gems))
        return 0;
    return bb_err(BB_EUSAGE, "%s: schedule %s is not supported by this proxy; try: --schedule gpipe%s", t->config.proxy,
                  word, t->gems ? "" : " or 1f1b");
}

/* --stages is another name of --splits. */
static int resolve_stages(struct bb_tiling *t)
{
    int stages = t->config.stages, *splits = &t->config.tiles.splits;

    if (stages && *splits && stages != *splits)
        return bb_err(BB_EUSAGE, "%s: --stages %d and --splits %d have the same meaning; leave one out",
                      t->config.proxy, stages, *splits);
    *splits = *splits ? *splits : stages;
    return 0;
}

/* Rejects more blocks per halo than follow each other in a spatial split: a larger number has no effect. */
static int validate_fused_layers(const struct bb_tiling *t)
{
    const int fused = t->config.tiles.fused_layers;
    int most = 1, module = 0;

    for (int i = 0; i < t->n_spatial; i++)
        for (int n = t->splits[i].layers.n, chain = 0; n > 0; n--) {
            chain = t->net.modules[module++].fusion == BB_FUSE_CHAIN ? chain + 1 : 0;
            most = MAX(most, chain);
        }
    if (fused <= most)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: --fused-layers %d is above %d, the largest number of blocks of '%s' that can share a halo in a "
                  "spatial split; try: --fused-layers %d",
                  t->config.proxy, fused, most, t->net.name, most);
}

int bb_resolve_tiles(struct bb_tiling *t)
{
    struct bb_proxy_config *c = &t->config;
    int rc, share;

    t->local_dp = c->tiles.local_dp ? c->tiles.local_dp : 1;
    BB_NEW(t->splits, t->net.n_modules + MAX_SPATIAL_SPLITS);
    TRY(validate_options(t));
    TRY(resolve_stages(t));
    TRY(resolve_replications(t));
    TRY(resolve_parts(t));
    TRY(resolve_balance(t));
    resolve_defaults(t);
    TRY(resolve_slices(t));
    TRY(validate_splits(t));
    TRY(validate_ranks(t));
    TRY(resolve_micro_batches(t));
    TRY(resolve_schedule(t));
    c->tflops = c->tflops > 0 ? c->tflops : BB_DEFAULT_TFLOPS;
    c->tiles.halo_bwd = c->tiles.halo_bwd ? c->tiles.halo_bwd : "none";
    c->tiles.fused_layers = c->tiles.fused_layers ? c->tiles.fused_layers : 1;
    /* without --balance, all splits have equal numbers of modules (blocks or cells), and the last split also gets the
     * remainder */
    share = t->net.n_modules / t->n_splits;
    for (int i = 0; !c->tiles.balance && i < t->n_splits; i++)
        t->splits[i].layers.n = i < t->n_splits - 1 ? share : t->net.n_modules - share * i;
    TRY(validate_fused_layers(t));
out:
    return rc;
}
