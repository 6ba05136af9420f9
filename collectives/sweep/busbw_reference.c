/* busbw_reference.c - see busbw_reference.h. */
#include "collectives/sweep/busbw_reference.h"

#include "bootstrap/base/alloc.h"
#include "collectives/session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bb_machine_facts bb_machine_facts_of(const struct bb_session *s, int ranks, int ranks_per_node)
{
    return (struct bb_machine_facts){.gpu = s->device.name,
                                     .emulated = s->device.emulated,
                                     .nics = bb_nics_read(NULL),
                                     .node_gpus = s->device.node_gpus,
                                     .ranks = ranks,
                                     .ranks_per_node = ranks_per_node,
                                     .one_host = s->world.nodes == 1};
}

static const char *placement_of(const struct bb_case *c)
{
    return c->in_place ? "in_place" : "out_of_place";
}

/* Returns whether a text of a row, NULL if it does not apply, is `text`. */
static bool is_text(const char *of_row, const char *text)
{
    return !of_row || strcmp(of_row, text) == 0;
}

bool bb_busbw_reference_matches(const struct bb_timing *row, const struct bb_case *c, const char *mode)
{
    return is_text(row->what, bb_colls[c->kind].name) && row->bytes == (long long)bb_case_bytes(c) &&
           is_text(row->dtype, bb_dtypes[c->dtype].name) &&
           (c->redop == BB_COPY || is_text(row->op, bb_redops[c->redop].name)) && row->root == c->root &&
           is_text(row->placement, placement_of(c)) && is_text(row->mode, mode);
}

static long long ranks_of(const struct bb_result_file *file)
{
    return bb_result_file_is_nccl_tests(file) ? bb_result_file_nccl_tests_ranks(file->root)
                                              : json_integer_value(json_object_get(file->root, "ranks"));
}

/* Checks that a group has as many ranks and nodes as the file. nccl-tests' files do not contain the number of nodes. */
static int check_group(const struct bb_busbw_reference *r, const struct bb_world *w, const int *groups, int group)
{
    const json_t *nodes = json_object_get(r->file.root, "nodes");
    const int n_nodes = bb_group_node_count(w, groups, group);
    char name[BB_GROUP_TEXT], of_nodes[40] = "";
    int n_ranks = 0;

    for (int rank = 0; rank < w->size; rank++)
        n_ranks += groups[rank] == group;
    if (ranks_of(&r->file) == n_ranks && (!json_is_integer(nodes) || json_integer_value(nodes) == n_nodes))
        return 0;
    if (json_is_integer(nodes))
        snprintf(of_nodes, sizeof of_nodes, " on %lld node%s", (long long)json_integer_value(nodes),
                 bb_plural(json_integer_value(nodes)));
    return bb_err_job(BB_EUSAGE, "%s: %s is for %lld rank%s%s, but %s has %d rank%s on %d node%s", r->option, r->path,
                      ranks_of(&r->file), bb_plural(ranks_of(&r->file)), of_nodes,
                      n_ranks == w->size ? "this run" : bb_group_text(w, groups, group, name), n_ranks,
                      bb_plural(n_ranks), n_nodes, bb_plural(n_nodes));
}

/* Checks that an option of a measurement has the value of this run. key: in the results; 0 if the file lacks it */
static int check_option(const struct bb_busbw_reference *r, const json_t *options, const char *key, char letter,
                        int own)
{
    const json_t *value = json_object_get(options, key);

    if (!json_is_integer(value) || json_integer_value(value) == own)
        return 0;
    return bb_err_job(BB_EUSAGE, "%s: %s was measured with -%c %lld, this run has -%c %d; try: -%c %lld", r->option,
                      r->path, letter, (long long)json_integer_value(value), letter, own, letter,
                      (long long)json_integer_value(value));
}

/* Checks that the times of a measurement are like those of this run: by the same clock, of the same ranks, and with as many
 * operations in a call. Those of nccl-tests are by the host clock without a choice, and the mean of all ranks by default. */
static int check_times(const struct bb_busbw_reference *r)
{
    const bool is_nccl_tests = bb_result_file_is_nccl_tests(&r->file);
    const json_t *options = json_object_get(r->file.root, is_nccl_tests ? "config" : "options");
    const bool host = r->file.n > 0 && r->file.rows->clock == BB_CLOCK_HOST;
    int rc;

    if (bb_result_file_predicted(&r->file))
        return 0;
    if (json_is_true(json_object_get(r->file.root, "shared_gpu")))
        return bb_err_job(BB_EUSAGE,
                          "%s: ranks of %s shared a GPU, so its times are meaningless; expected one rank per GPU",
                          r->option, r->path);
    TRY(check_option(r, options, is_nccl_tests ? "aggregated_iterations" : "agg_iters", 'm', r->aggregate));
    if (!is_nccl_tests)
        TRY(check_option(r, options, "average", 'a', r->rank_aggregation));
    if (host && !is_nccl_tests && !r->host_clock)
        rc = bb_err_job(BB_EUSAGE, "%s: %s was measured with --clock host; try: a run without it, or --clock host",
                        r->option, r->path);
out:
    return rc;
}

/* Returns whether a file is a result; else, as for health, it is a cluster profile, which has no schema. */
static bool is_result(json_t *root)
{
    return json_object_get(root, "schema") || bb_result_file_is_nccl_tests(&(struct bb_result_file){.root = root});
}

/* Reads the tree of a result file, or of a forecast if r->path is not a result file. forecast NULL: none is made. */
static int load_tree(struct bb_busbw_reference *r, bb_forecast *forecast, const struct bb_machine_facts *facts,
                     const struct bb_sweep *sweep, const char **path, json_t **root)
{
    const bool is_path = strchr(r->path, '/') || strchr(r->path, '.');
    int rc = 0;

    *path = r->path;
    if (!forecast || is_path)
        TRY(bb_result_tree_load(r->path, path, root));
    if (!forecast || (*root && is_result(*root)))
        return 0;
    json_decref(*root);
    *root = NULL;
    r->is_forecast = true;
    rc = forecast(facts, r->path, sweep, root);
out:
    return rc;
}

int bb_busbw_reference_load(struct bb_busbw_reference *r, const struct bb_world *w, const int *groups,
                            bb_forecast *forecast, const struct bb_machine_facts *facts, const struct bb_sweep *sweep)
{
    const char *path;
    json_t *root = NULL;
    int rc;

    TRY(load_tree(r, forecast, facts, sweep, &path, &root));
    if (!root)
        return 0;
    r->other_nodes = r->is_forecast && json_is_true(json_object_get(json_object_get(root, "predicted"), "other_nodes"));
    TRY(bb_result_file_from_tree(&r->file, path, root));
    if (r->is_forecast)
        return 0;
    if (r->file.n > 0 && r->file.rows->mode && strcmp(r->file.rows->mode, "host") == 0)
        return bb_err_job(BB_EUSAGE, "%s: contains CPU times of the calls (-C 1), expected times of the operations",
                          r->path);
    TRY(check_times(r));
    bb_warn_if_incomplete(r->path, root, true);
    bb_warn_if_restricted(r->path, root);
    for (size_t i = 0; i < r->file.n; i++)
        if (r->file.rows[i].group >= 0)
            return bb_err_job(
                BB_EUSAGE, "%s: %s was measured with --split; try: a run with the ranks of one group, without --split",
                r->option, r->path);
    for (int rank = 0; rank < w->size; rank++)
        TRY(check_group(r, w, groups, groups[rank]));
out:
    return rc;
}

/* State of bb_busbw_reference_add. */
struct addition {
    struct bb_busbw_reference *reference;
    const struct bb_sweep *sweep;
    const char *mode;
};

static int add_placement(struct addition *a, const struct bb_case *c)
{
    struct bb_busbw_reference *r = a->reference;
    const struct bb_timing *row = r->file.rows, *end = row + r->file.n;
    struct bb_busbw_threshold threshold = {.scope = BB_BUSBW_SIZE, .bytes = bb_case_bytes(c)};
    const char *quality = ""; /* that the rows of the case lack */
    char size[BB_BYTES_TEXT];
    double algbw_gbps;

    if (!a->sweep->overlapping && !bb_case_possible(c))
        return 0;
    for (; row < end && (row->wrong > 0 || !bb_busbw_reference_matches(row, c, a->mode)); row++)
        if (row->wrong > 0 && bb_busbw_reference_matches(row, c, a->mode))
            quality = "correct ";
    if (row == end && r->partial) {
        if (r->missing++ == 0)
            snprintf(r->first_missing, sizeof r->first_missing, "%s %s, mode %s", bb_colls[c->kind].name,
                     bb_format_bytes(threshold.bytes, size), a->mode);
        return 0;
    }
    if (row == end)
        return bb_err_job(BB_EUSAGE, "%s: %s has no %sresult of %s %s, %s, %s, %s, mode %s", r->option, r->path,
                          quality, bb_colls[c->kind].name, bb_format_bytes(threshold.bytes, size),
                          bb_dtypes[c->dtype].name, c->redop == BB_COPY ? "no reduction" : bb_redops[c->redop].name,
                          placement_of(c), a->mode);
    bb_case_bandwidths(c, row->time_us, &algbw_gbps, &threshold.gbps);
    if (isnan(threshold.gbps) && r->partial) /* one rank */
        return 0;
    threshold.gbps *= r->fraction > 0 ? r->fraction : 1;
    threshold.from = row;
    BB_GROW(r->item, r->n);
    r->item[r->n++] = threshold;
    return 0;
}

static int add_case(void *arg, const struct bb_case *out_of_place)
{
    struct addition *a = arg;
    struct bb_case in_place = *out_of_place;
    int rc = 0;

    in_place.in_place = true;
    if (a->sweep->out_of_place)
        TRY(add_placement(a, out_of_place));
    if (a->sweep->in_place)
        TRY(add_placement(a, &in_place));
out:
    return rc;
}

int bb_busbw_reference_add(struct bb_busbw_reference *r, const struct bb_sweep *sweep, int coll, const char *mode,
                           int ranks)
{
    return bb_sweep_each(sweep, coll, ranks, add_case, &(struct addition){r, sweep, mode});
}

double bb_busbw_reference_expected(const struct bb_busbw_reference *r, const struct bb_case *c, const char *mode)
{
    for (int i = 0; i < r->n; i++)
        if (bb_busbw_reference_matches(r->item[i].from, c, mode))
            return r->item[i].gbps / (r->fraction > 0 ? r->fraction : 1);
    return NAN;
}

void bb_busbw_reference_release(struct bb_busbw_reference *r)
{
    bb_result_file_release(&r->file);
    free(r->path);
    free(r->item);
    *r = (struct bb_busbw_reference){0};
}
