/* resolve_tiles.c - resolves and validates the command-line options of the proxies `spatial` and `gems` (see
 * resolve_tiles.h; tiling.h defines splits, tiles and replicas). */
#include "proxies/spatial/resolve_tiles.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "proxies/author/args.h"
#include "proxies/step/config.h"
#include "proxies/step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WIDTH 2048 /* maximum number of tiles of a split (pipeline stage) */

/* ---- options whose value is a list of numbers, for example "8,4" ---- */

/* Parses the list `text` of an option, for example "8,4", into numbers[max]. Returns the number of elements, or a
 * negative error. */
static int read_list(const char *proxy, const char *option, const char *text, int *numbers, int max)
{
    const char *rest = text;
    char word[BB_LIST_WORD];
    int n = 0;

    while (bb_list_next(&rest, word)) {
        if (n == max)
            return bb_err(BB_EUSAGE, "%s: --%s '%s' has more than %d numbers", proxy, option, text, max);
        if (!*word || strlen(word) > 15)
            return bb_err(BB_EUSAGE, "%s: --%s '%s', expected integers separated by commas; try: 4,4", proxy, option,
                          text);
        if (bb_parse_int(word, 1, BB_MAX_LAYERS, &numbers[n++]))
            return bb_err(BB_EUSAGE, "%s: --%s: '%s' is not an integer from 1 to %d", proxy, option, word,
                          BB_MAX_LAYERS);
    }
    return n;
}

/* ---- rejection of contradictory options ---- */

static bool is_value(const char *given, const char *word)
{
    return given && strcmp(given, word) == 0;
}

/* Rejects options that the proxy does not support, and options that are given without the option that they require. */
static int refuse_single_options(const struct bb_proxy_config *c, bool gems)
{
    const struct bb_tiles_options *o = &c->tiles;
    const bool tiled = !gems || o->spatial_parts;
    const struct {
        bool given;
        const char *option;
        bool wanted;
        const char *other; /* the option that `option` requires, which is given if `wanted`; NULL: the proxy does not
                              support `option` */
    } pairs[] = {
        {!gems && o->replications, "replications", false, NULL},
        {!gems && o->comm_opt, "comm-opt", false, NULL},
        {!gems && o->odd_step, "odd-step", false, NULL},
        {o->odd_step, "odd-step", o->comm_opt, "comm-opt"},
        {o->slice, "slice", tiled, "spatial-parts"},
        {o->spatial_splits, "spatial-splits", tiled, "spatial-parts"},
        {o->halo_d2, "halo-d2", tiled, "spatial-parts"},
        {o->halo_bwd, "halo-bwd", tiled, "spatial-parts"},
        {o->halo_overlap, "halo-overlap", tiled, "spatial-parts"},
        {o->spatial_gradients, "spatial-gradients", tiled, "spatial-parts"},
        {o->fused_layers, "fused-layers", o->halo_d2, "halo-d2"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (!pairs[i].given || pairs[i].wanted)
            continue;
        if (!pairs[i].other)
            return bb_err(BB_EUSAGE, "%s: --%s is not supported by this proxy; leave it out", c->proxy,
                          pairs[i].option);
        return bb_err(BB_EUSAGE, "%s: --%s requires --%s; add that option, or leave this one out", c->proxy,
                      pairs[i].option, pairs[i].other);
    }
    return 0;
}

static int refuse_options(const struct bb_proxy_config *c, bool gems)
{
    const struct bb_tiles_options *o = &c->tiles;
    const bool outputs = is_value(o->halo_bwd, "dy");
    int rc;

    if (gems && o->local_dp)
        return bb_err(
            BB_EUSAGE,
            "%s: --local-dp requires proxy spatial, because GEMS runs its second replica on these ranks (MPI4DL's own "
            "script stops with an error, too); leave it out",
            c->proxy);
    TRY(refuse_single_options(c, gems));
    if (o->halo_d2 && (outputs || o->halo_overlap))
        return bb_err(BB_EUSAGE, "%s: --halo-d2 and --%s cannot be combined: %s; leave one of them out", c->proxy,
                      outputs ? "halo-bwd dy" : "halo-overlap",
                      outputs ? "a fused halo exchanges only gradients of its inputs (--halo-bwd dx)"
                              : "overlap requires a separate halo for each layer");
out:
    return rc;
}

/* ---- numbers of tiles, splits (pipeline stages), modules (blocks or cells) and passes (forward and backward in a
 * replica) ---- */

/* Sets the number of tiles of each spatial split (pipeline stage that works on tiles) from --spatial-parts, which is
 * a list, or one number for all spatial splits. */
static int resolve_parts(struct bb_resolved_tiles *s, const struct bb_proxy_config *c)
{
    const struct bb_tiles_options *o = &c->tiles;
    int n;

    s->n_spatial = o->spatial_splits;
    if (!o->spatial_parts) {
        s->n_spatial = s->gems ? 0 : s->n_spatial ? s->n_spatial : 1;
        s->default_parts = s->n_spatial > 0;
        if (s->n_spatial > BB_MAX_SPATIAL_SPLITS)
            return bb_err(BB_EUSAGE, "%s: %d spatial splits, expected 1 to %d", c->proxy, s->n_spatial,
                          BB_MAX_SPATIAL_SPLITS);
        return 0;
    }
    n = read_list(c->proxy, "spatial-parts", o->spatial_parts, s->parts, BB_MAX_SPATIAL_SPLITS);
    if (n < 0)
        return n;
    s->n_spatial = s->n_spatial ? s->n_spatial : n;
    if (s->n_spatial > BB_MAX_SPATIAL_SPLITS || (n > 1 && n != s->n_spatial))
        return bb_err(BB_EUSAGE,
                      "%s: --spatial-parts %s lists %d split%s, but %d splits are spatial; expected one number, or one "
                      "per spatial split (at most %d)",
                      c->proxy, o->spatial_parts, n, n == 1 ? "" : "s", s->n_spatial, BB_MAX_SPATIAL_SPLITS);
    for (int i = 1; n == 1 && i < s->n_spatial; i++)
        s->parts[i] = s->parts[0];
    return 0;
}

/* Sets the number of splits (pipeline stages) and the number of modules (blocks or cells) of each split from
 * --balance. Without --balance, sets only the number of splits, from --splits. */
static int resolve_balance(struct bb_resolved_tiles *s, const struct bb_proxy_config *c, const struct bb_net *net)
{
    const char *text = c->tiles.balance;
    long long sum = 0;
    int n;

    s->n_splits = c->tiles.splits;
    BB_NEW(s->modules, net->n_modules);
    if (!text)
        return 0;
    n = read_list(c->proxy, "balance", text, s->modules, net->n_modules);
    for (int i = 0; i < n; i++)
        sum += s->modules[i];
    if (n < 0)
        return n;
    if (sum != net->n_modules)
        return bb_err(BB_EUSAGE, "%s: --balance %s adds up to %lld modules, but %s has %d; try: %d for the last split",
                      c->proxy, text, sum, net->name, net->n_modules, (int)(s->modules[n - 1] + net->n_modules - sum));
    if (s->n_splits && s->n_splits != n)
        return bb_err(BB_EUSAGE, "%s: --balance %s lists %d splits, but --splits is %d; leave one out", c->proxy, text,
                      n, s->n_splits);
    s->n_splits = n;
    return 0;
}

static int count_tiles(const struct bb_resolved_tiles *s)
{
    int tiles = 0;

    for (int i = 0; i < s->n_spatial; i++)
        tiles += s->parts[i];
    return tiles;
}

static long long ranks_per_replica(const struct bb_resolved_tiles *s, int splits)
{
    return count_tiles(s) + (long long)(splits - s->n_spatial) * s->local_dp;
}

static int min_splits(const struct bb_resolved_tiles *s)
{
    int splits = s->n_spatial ? s->n_spatial + 1 : 2;
    /* gems with tiles: the tiles of both replicas need separate ranks, so a replica needs at least twice as many
     * ranks as tiles */
    int disjoint = s->gems && s->n_spatial ? s->n_spatial + count_tiles(s) : 0;

    return splits > disjoint ? splits : disjoint;
}

/* Returns a number of splits (pipeline stages), at most `max`, for which the number of ranks is a multiple of the
 * ranks per replica; 0 if there is none. The result is --splits if this option is set; 4 for gems without tiles if 4
 * is possible; otherwise the smallest possible number. The numbers of tiles must be set before the call. */
static int fitting_splits(const struct bb_resolved_tiles *s, const struct bb_proxy_config *c, int max)
{
    int min = min_splits(s);

    if (s->n_splits)
        return c->ranks % ranks_per_replica(s, s->n_splits) == 0 ? s->n_splits : 0;
    if (s->gems && !s->n_spatial && c->ranks % 4 == 0 && max >= 4)
        return 4;
    for (int n = min; n <= max && ranks_per_replica(s, n) <= c->ranks; n++)
        if (c->ranks % ranks_per_replica(s, n) == 0)
            return n;
    return 0;
}

static void set_parts(struct bb_resolved_tiles *s, int parts)
{
    for (int i = 0; i < s->n_spatial; i++)
        s->parts[i] = parts;
}

/* Sets the numbers of tiles and of splits (pipeline stages) that the user has not specified, so that they fit the
 * number of ranks if possible. */
static void resolve_defaults(struct bb_resolved_tiles *s, const struct bb_proxy_config *c, int n_modules)
{
    static const int default_part_counts[] = {4, 2};
    int splits = 0;

    for (int i = 0; splits == 0 && i < (s->default_parts ? 2 : 1); i++) {
        if (s->default_parts)
            set_parts(s, default_part_counts[i]);
        splits = fitting_splits(s, c, n_modules);
    }
    if (splits == 0 && s->default_parts)
        set_parts(s, default_part_counts[0]);
    s->n_splits = splits ? splits : s->n_splits ? s->n_splits : min_splits(s);
}

/* Rejects numbers of tiles and of spatial splits (pipeline stages that work on tiles) that require more splits than
 * the network has modules (blocks or cells). */
static int refuse_tiles(const struct bb_resolved_tiles *s, const struct bb_proxy_config *c, const struct bb_net *net)
{
    int min = min_splits(s), unit = is_value(c->tiles.slice, "square") ? 4 : 2, parts = unit, spatial = s->n_spatial;

    if (min <= net->n_modules)
        return 0;
    if (!s->gems)
        return bb_err(BB_EUSAGE, "%s: %s has %d modules, too few for %d spatial splits; try: --spatial-splits %d",
                      c->proxy, net->name, net->n_modules, s->n_spatial, net->n_modules - 1);
    while (spatial > 1 && spatial + unit * spatial > net->n_modules)
        spatial--;
    while (spatial + unit * parts * spatial <= net->n_modules)
        parts *= unit;
    return bb_err(BB_EUSAGE,
                  "%s: %s has %d modules, too few for the %d splits with which the tiles of both replicas are on "
                  "separate ranks; try: --spatial-parts %d with --spatial-splits %d",
                  c->proxy, net->name, net->n_modules, min, parts, spatial);
}

static int refuse_splits(const struct bb_resolved_tiles *s, const struct bb_proxy_config *c, const struct bb_net *net)
{
    int tiles = count_tiles(s), rc = refuse_tiles(s, c, net);

    if (rc)
        return rc;
    if (s->n_splits < 2)
        return bb_err(BB_EUSAGE, "%s: %d split, expected 2 or more; try: --splits %d", c->proxy, s->n_splits,
                      min_splits(s));
    if (s->n_spatial >= s->n_splits && c->tiles.spatial_parts && strchr(c->tiles.spatial_parts, ','))
        return bb_err(BB_EUSAGE,
                      "%s: %d spatial splits of %d splits in total leave none to join the tiles; try: --splits %d",
                      c->proxy, s->n_spatial, s->n_splits, min_splits(s));
    if (s->n_spatial >= s->n_splits)
        return bb_err(BB_EUSAGE,
                      "%s: %d spatial splits of %d splits in total leave none to join the tiles; try: --splits %d or "
                      "--spatial-splits %d",
                      c->proxy, s->n_spatial, s->n_splits, min_splits(s), s->n_splits - 1);
    if (s->n_splits > net->n_modules)
        return bb_err(BB_EUSAGE, "%s: %s has %d modules, too few for %d splits; try: --splits %d", c->proxy, net->name,
                      net->n_modules, s->n_splits, net->n_modules);
    if (s->gems && ranks_per_replica(s, s->n_splits) < 2LL * tiles)
        return bb_err(BB_EUSAGE,
                      "%s: with %d splits, %d tiles per replica and %lld ranks in total, the tiles of both replicas "
                      "cannot have separate ranks; try: --splits %d",
                      c->proxy, s->n_splits, tiles, ranks_per_replica(s, s->n_splits), min_splits(s));
    return 0;
}

static int refuse_join(const struct bb_proxy_config *c, int before, int parts, int i)
{
    if (before % parts)
        return bb_err(BB_EUSAGE,
                      "%s: the %d tiles of spatial split %d cannot be merged into %d tiles of the next split; try: "
                      "--spatial-parts %d",
                      c->proxy, before, i - 1, parts, before);
    if (before != parts && is_value(c->tiles.slice, "square"))
        return bb_err(BB_EUSAGE,
                      "%s: %d square tiles cannot be merged into %d; try: --slice vertical, or --spatial-parts %d",
                      c->proxy, before, parts, before);
    return 0;
}

/* Sets the grid of tiles of each spatial split (pipeline stage that works on tiles). Tiles of one split are merged
 * into the tiles of the next split, so its number of tiles must be a multiple of that of the next split. Square
 * tiles cannot be merged, so with square tiles all spatial splits must have the same number of tiles. */
static int resolve_slices(struct bb_resolved_tiles *s, const struct bb_proxy_config *c)
{
    bool even = s->n_spatial == 0 || s->parts[0] == s->parts[s->n_spatial - 1];
    const char *slice = c->tiles.slice ? c->tiles.slice : even ? NULL : "vertical";
    int rc = 0;

    for (int i = 0; i < s->n_spatial; i++) {
        if (s->parts[i] > MAX_WIDTH)
            return bb_err(BB_EUSAGE, "%s: %d tiles per image, expected at most %d; try: --spatial-parts %d", c->proxy,
                          s->parts[i], MAX_WIDTH, MAX_WIDTH);
        TRY(refuse_join(c, s->parts[i ? i - 1 : 0], s->parts[i], i));
        TRY(bb_slices_init(&s->slices[i], c->proxy, slice, s->parts[i]));
    }
out:
    return rc;
}

static int refuse_batch(const struct bb_resolved_tiles *s, struct bb_proxy_config *c)
{
    char near[BB_MULTIPLES_TEXT];

    c->micro_batch_size = c->micro_batch_size ? c->micro_batch_size : s->local_dp;
    if (c->micro_batch_size % s->local_dp == 0)
        return 0;
    return bb_err(BB_EUSAGE,
                  "%s: micro-batch size %d is not divisible by %d local replicas; try: --micro-batch-size %s", c->proxy,
                  c->micro_batch_size, s->local_dp, bb_multiples(c->micro_batch_size, s->local_dp, near));
}

/* Sets the number of passes from --replications. A pass is the forward and backward of all micro-batches in one
 * replica. All passes of a step together have at most BB_MAX_LAYERS micro-batches. */
static int resolve_replications(struct bb_proxy_config *c, bool gems)
{
    int m = c->micro_batches ? c->micro_batches : 1;
    int *eta = &c->tiles.replications;

    *eta = *eta ? *eta : gems ? 2 : 1;
    if (gems && *eta % 2)
        return bb_err(BB_EUSAGE,
                      "%s: %d replications, expected an even number, half of them in each direction; try: "
                      "--replications %d",
                      c->proxy, *eta, *eta + 1);
    if (*eta > BB_MAX_LAYERS / m)
        return bb_err(BB_EUSAGE,
                      "%s: %d replications with %d micro-batches each, expected at most %d micro-batches in total; "
                      "try: --micro-batches %d",
                      c->proxy, *eta, m, BB_MAX_LAYERS, BB_MAX_LAYERS / *eta);
    return 0;
}

/* Sets the default options that do not depend on the numbers of ranks, splits and tiles. */
static void fill_defaults(struct bb_proxy_config *c)
{
    c->tflops = c->tflops > 0 ? c->tflops : BB_DEFAULT_TFLOPS;
    c->tiles.halo_bwd = c->tiles.halo_bwd ? c->tiles.halo_bwd : "none";
    c->tiles.fused_layers = c->tiles.fused_layers ? c->tiles.fused_layers : 1;
}

static int refuse_ranks(const struct bb_resolved_tiles *s, const struct bb_proxy_config *c)
{
    long long mp = ranks_per_replica(s, s->n_splits);
    int whole = s->n_splits - s->n_spatial, n = 0;
    char why[96];

    if (mp > BB_MAX_LAYERS)
        return bb_err(BB_EUSAGE, "%s: a replica has %lld ranks, expected at most %d", c->proxy, mp, BB_MAX_LAYERS);
    if (count_tiles(s))
        n = snprintf(why, sizeof(why), "%d tiles + ", count_tiles(s));
    snprintf(why + n, sizeof(why) - (size_t)n, "%d split%s%s", whole, whole == 1 ? "" : "s",
             s->local_dp > 1 ? " x local replicas" : "");
    return bb_args_check_ranks(c, (int)mp, why);
}

/* Sets the number of micro-batches from --global-batch-size and the number of replicas, and then checks the total
 * number of micro-batches of all passes again. */
static int resolve_micro_batches(const struct bb_resolved_tiles *s, struct bb_proxy_config *c)
{
    int replicas = c->ranks / (int)ranks_per_replica(s, s->n_splits), passes = c->tiles.replications;
    char made_of[96];
    int rc;

    snprintf(made_of, sizeof(made_of), "%d replica%s x %d pass%s x micro-batches of %d", replicas,
             replicas == 1 ? "" : "s", passes, passes == 1 ? "" : "es", c->micro_batch_size);
    TRY(bb_args_micro_batches(c, 1, (long long)replicas * passes * c->micro_batch_size, made_of, &c->micro_batches));
    TRY(resolve_replications(c, s->gems));
out:
    return rc;
}

/* Sets the number of modules (blocks or cells) of each split (pipeline stage): equal numbers, and the last split
 * also gets the remainder. Does nothing if --balance has set these numbers. */
static void distribute_modules(struct bb_resolved_tiles *s, const struct bb_proxy_config *c, int n_modules)
{
    int share = n_modules / s->n_splits;

    for (int i = 0; !c->tiles.balance && i < s->n_splits; i++)
        s->modules[i] = i < s->n_splits - 1 ? share : n_modules - share * (s->n_splits - 1);
}

int bb_resolve_tiles(struct bb_resolved_tiles *s, struct bb_proxy_config *c, const struct bb_net *net, bool gems)
{
    int rc;

    *s = (struct bb_resolved_tiles){.gems = gems, .local_dp = c->tiles.local_dp ? c->tiles.local_dp : 1};
    TRY(refuse_options(c, gems));
    TRY(resolve_replications(c, gems));
    TRY(resolve_parts(s, c));
    TRY(resolve_balance(s, c, net));
    resolve_defaults(s, c, net->n_modules);
    TRY(resolve_slices(s, c));
    TRY(refuse_splits(s, c, net));
    TRY(refuse_batch(s, c));
    TRY(refuse_ranks(s, c));
    TRY(resolve_micro_batches(s, c));
    fill_defaults(c);
    distribute_modules(s, c, net->n_modules);
out:
    return rc;
}

void bb_resolved_tiles_release(struct bb_resolved_tiles *s)
{
    free(s->modules);
    *s = (struct bb_resolved_tiles){0};
}
