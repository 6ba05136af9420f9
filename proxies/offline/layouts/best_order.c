/* best_order.c - compare the orders of the parallelism axes (tp, cp, ep, dp, pp) by inter-node bytes (see
 * best_order.h). */
#include "proxies/offline/layouts/best_order.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "proxies/form/step/program.h"
#include "proxies/workloads/registry/registry.h"

#include <stdlib.h>
#include <string.h>

/* ---- permutations of the axes ---- */

/* List the axes that have more than one rank in the dense grid (attention, MLPs) or in the expert grid (experts), in
 * the default order of the axes. Returns the number of these axes. */
static int axes_in_use(const struct bb_grid *g, enum bb_grid_axis axes[BB_GRID_AXES])
{
    int n = 0;

    for (enum bb_grid_axis a = BB_AXIS_TP; a < BB_GRID_AXES; a++)
        if (bb_grid_size(g, a, false) > 1 || (g->experts && bb_grid_size(g, a, true) > 1))
            axes[n++] = a;
    return n;
}

/* Write permutation `number` of n axes to `order` as text such as "tp-cp-dp". Permutations are numbered in
 * lexicographic order; number 0 is the default order. */
static void write_permutation(const enum bb_grid_axis *axes, int n, int number, char order[BB_GRID_ORDER_SIZE])
{
    bool used[BB_GRID_AXES] = {false};
    int permutations = 1;

    for (int i = 2; i < n; i++)
        permutations *= i;
    order[0] = '\0';
    for (int place = 0; place < n; place++) {
        int skip = number / permutations, a = 0;

        for (; used[a] || skip > 0; a++)
            skip -= !used[a];
        used[a] = true;
        strcat(order, place ? "-" : "");
        strcat(order, bb_grid_axis_names[axes[a]]);
        number %= permutations;
        permutations /= n - place > 2 ? n - place - 1 : 1;
    }
}

/*
 * List the axes of the order string `order` (such as "tp-cp-dp") that are also in axes[n], the axes with more than one
 * rank. Axes with one rank have no effect: "tp-cp-dp" and "tp-dp" are equal when cp is 1. Returns the number of axes
 * listed.
 */
static int read_axes_in_use(const char *order, const enum bb_grid_axis *axes, int n,
                            enum bb_grid_axis used[BB_GRID_AXES])
{
    enum bb_grid_axis all[BB_GRID_AXES];
    int n_all = bb_grid_parse_order(order, all), n_used = 0;

    for (int i = 0; i < n_all; i++)
        for (int j = 0; j < n; j++)
            if (all[i] == axes[j])
                used[n_used++] = all[i];
    return n_used;
}

/* ---- inter-node bytes of each order ---- */

static int column_of(struct bb_best_order *best, const char *group)
{
    for (int g = 0; g < best->n_groups; g++)
        if (strncmp(best->groups[g], group, sizeof(best->groups[g]) - 1) == 0)
            return g;
    if (best->n_groups == BB_MAX_GROUPS)
        return BB_MAX_GROUPS - 1;
    snprintf(best->groups[best->n_groups], sizeof(best->groups[0]), "%s", group);
    return best->n_groups++;
}

/*
 * Build the step of one order and count its inter-node bytes. Returns -BB_EUSAGE without printing an error line for an
 * invalid order of the axes. The caller counts invalid orders.
 */
static int count_inter_node_bytes(const struct bb_proxy *proxy, const struct bb_proxy_config *config,
                                  struct bb_best_order *best, struct bb_order_row *row)
{
    struct bb_proxy_config candidate = *config;
    struct bb_internode internode;
    struct bb_step step;
    int rc;

    candidate.transformer.order = row->order[0] ? row->order : NULL;
    bb_err_speculative(true);
    rc = bb_step_build(&step, proxy, &candidate);
    bb_err_speculative(false);
    if (rc)
        return rc;
    bb_internode_count(&step, best->gpus_per_node, &internode);
    best->nodes = internode.nodes;
    row->bytes = internode.bytes;
    row->busiest = internode.busiest;
    for (int g = 0; g < step.layout.n_groups; g++)
        if (internode.group[g] > 0)
            row->group[column_of(best, step.layout.groups[g].name)] += internode.group[g];
    bb_step_release(&step);
    return 0;
}

static int compare_rows(const void *a, const void *b)
{
    const struct bb_order_row *x = a, *y = b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->busiest != y->busiest)
        return x->busiest < y->busiest ? -1 : 1;
    return x->number - y->number;
}

/* Resolve the sizes of the parallelism axes in the same way as the code that builds the proxy transformer. */
static int resolve_grid(const struct bb_proxy_config *c, struct bb_grid *grid)
{
    const struct bb_transformer_options *o = &c->transformer;
    struct bb_arch arch;
    int rc = bb_arch_load(c->model, &arch);

    if (rc)
        return rc;
    *grid = (struct bb_grid){.tp = o->tp, .cp = o->cp, .ep = o->ep, .dp = o->dp, .pp = o->pp, .etp = o->etp};
    grid->experts = arch.experts > 0;
    return bb_grid_resolve(grid, c->ranks, o->order, NULL, c->proxy);
}

int bb_best_order(const struct bb_proxy *proxy, const struct bb_proxy_config *config, int gpus_per_node,
                  struct bb_best_order *best)
{
    enum bb_grid_axis axes[BB_GRID_AXES], asked[BB_GRID_AXES], used[BB_GRID_AXES];
    struct bb_grid grid;
    int rc, n, n_asked, orders = 1;

    *best = (struct bb_best_order){.gpus_per_node = gpus_per_node};
    TRY(resolve_grid(config, &grid));
    n = axes_in_use(&grid, axes);
    n_asked = read_axes_in_use(grid.order, axes, n, asked);
    for (int i = 2; i <= n; i++)
        orders *= i;
    BB_NEW(best->rows, orders);
    for (int i = 0; i < orders; i++) {
        struct bb_order_row *row = &best->rows[best->n];

        *row = (struct bb_order_row){.number = i};
        write_permutation(axes, n, i, row->order);
        row->requested = read_axes_in_use(row->order, axes, n, used) == n_asked &&
                         memcmp(used, asked, sizeof(*used) * (size_t)n_asked) == 0;
        rc = count_inter_node_bytes(proxy, config, best, row);
        if (rc == -BB_EUSAGE && best->invalid++ == 0)
            snprintf(best->invalid_order, sizeof(best->invalid_order), "%s", row->order);
        else if (rc == 0)
            best->n++;
        else if (rc != -BB_EUSAGE)
            goto out;
    }
    qsort(best->rows, (size_t)best->n, sizeof(*best->rows), compare_rows);
    rc = 0;
out:
    if (rc)
        bb_best_order_release(best);
    return rc;
}

void bb_best_order_release(struct bb_best_order *best)
{
    free(best->rows);
    *best = (struct bb_best_order){0};
}

/* ---- output as text and as JSON ---- */

#define MAX_COLUMNS 4 /* maximum number of group columns in the printed table; the JSON output contains all groups */
#define MAX_LINES   12

static double sum_of(const struct bb_best_order *best, int group)
{
    double sum = 0;

    for (int i = 0; i < best->n; i++)
        sum += group == BB_NONE ? best->rows[i].bytes : best->rows[i].group[group];
    return sum;
}

/*
 * Choose up to MAX_COLUMNS groups (tp, dp, ...) as columns of the table. The groups are sorted by their inter-node
 * bytes summed over all orders, in descending order. Groups with less than 1e-6 of all bytes are omitted. Returns the
 * number of columns.
 */
static int choose_columns(const struct bb_best_order *best, int columns[MAX_COLUMNS])
{
    bool taken[BB_MAX_GROUPS] = {false};
    int n = 0, most;

    do {
        most = BB_NONE;
        for (int g = 0; g < best->n_groups; g++)
            if (!taken[g] && sum_of(best, g) > (most == BB_NONE ? 1e-6 * sum_of(best, BB_NONE) : sum_of(best, most)))
                most = g;
        if (most == BB_NONE)
            break;
        taken[most] = true;
        columns[n++] = most;
    } while (n < MAX_COLUMNS);
    return n;
}

/* Returns whether two orders have equal inter-node bytes: in total, of the busiest node, and of each group. */
static bool same_bytes(const struct bb_order_row *a, const struct bb_order_row *b)
{
    return a->bytes == b->bytes && a->busiest == b->busiest && memcmp(a->group, b->group, sizeof(a->group)) == 0;
}

/* Returns the bytes of the groups without a column. */
static double others_of(const struct bb_order_row *row, const int *columns, int n)
{
    double bytes = row->bytes;

    for (int c = 0; c < n; c++)
        bytes -= row->group[columns[c]];
    return bytes > 0.5 ? bytes : 0;
}

/* Prints one line of the table. ties: number of other orders with equal inter-node bytes, printed as "+N"; columns: [n]
 * indices of the printed groups (tp, dp, ...). */
static void print_row(const struct bb_order_row *row, int ties, const int *columns, int n, FILE *out)
{
    char text[BB_BYTES_TEXT], more[16] = "";

    if (ties > 0)
        snprintf(more, sizeof(more), "+%d", ties);
    fprintf(out, "  %c %-14s %-4s %9s", row->requested ? '*' : ' ', row->order[0] ? row->order : "(one rank)", more,
            bb_format_bytes((size_t)row->bytes, text));
    fprintf(out, " %12s", bb_format_bytes((size_t)row->busiest, text));
    for (int c = 0; c < n; c++)
        fprintf(out, " %10s", bb_format_bytes((size_t)row->group[columns[c]], text));
    if (n == MAX_COLUMNS)
        fprintf(out, " %9s", bb_format_bytes((size_t)others_of(row, columns, n), text));
    fputc('\n', out);
}

/*
 * Print one table line for each set of orders with equal inter-node bytes: the first MAX_LINES sets, and the set of the
 * requested order. The line shows one order of the set: the requested order if the set contains it, else the first
 * order.
 */
static void print_rows(const struct bb_best_order *best, const int *columns, int n, FILE *out)
{
    int lines = 0, left = 0;

    for (int i = 0, next; i < best->n; i = next) {
        int first = i;

        for (next = i; next < best->n && same_bytes(&best->rows[i], &best->rows[next]); next++)
            if (best->rows[next].requested)
                first = next;
        if (lines >= MAX_LINES && !best->rows[first].requested) {
            left += next - i;
            continue;
        }
        print_row(&best->rows[first], next - i - 1, columns, n, out);
        lines++;
    }
    if (left > 0)
        fprintf(out, "  %d more order%s (%s has the most bytes); the JSON lists all orders\n", left, bb_plural(left),
                best->rows[best->n - 1].order);
}

void bb_best_order_print(const struct bb_best_order *best, FILE *out)
{
    int columns[MAX_COLUMNS], n = choose_columns(best, columns);

    fprintf(out,
            "\norders of the axes by inter-node bytes per step, %d node%s of %d GPUs (* this plan, +N equal orders)\n",
            best->nodes, bb_plural(best->nodes), best->gpus_per_node);
    fprintf(out, "    %-14s %-4s %9s %12s", "order", "", "all nodes", "busiest node");
    for (int c = 0; c < n; c++)
        fprintf(out, " %10s", best->groups[columns[c]]);
    fputs(n == MAX_COLUMNS ? "    others\n" : "\n", out);
    print_rows(best, columns, n, out);
    if (best->invalid > 0)
        fprintf(out, "  %d order%s invalid; to see why, try: --order %s\n", best->invalid,
                best->invalid == 1 ? " is" : "s are", best->invalid_order);
}

static json_t *row_json(const struct bb_best_order *best, const struct bb_order_row *row)
{
    json_t *groups = json_object();

    for (int g = 0; g < best->n_groups; g++)
        json_object_set_new(groups, best->groups[g], json_integer((json_int_t)row->group[g]));
    return json_pack("{s:s, s:b, s:I, s:I, s:o}", "order", row->order, "requested", row->requested, "inter_node_bytes",
                     (json_int_t)row->bytes, "busiest_node_bytes", (json_int_t)row->busiest, "groups", groups);
}

json_t *bb_best_order_json(const struct bb_best_order *best)
{
    json_t *orders = json_array();

    for (int i = 0; i < best->n; i++)
        json_array_append_new(orders, row_json(best, &best->rows[i]));
    return json_pack("{s:i, s:i, s:i, s:o}", "nodes", best->nodes, "gpus_per_node", best->gpus_per_node, "invalid",
                     best->invalid, "orders", orders);
}
