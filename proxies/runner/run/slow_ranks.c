/* slow_ranks.c - finds the ranks that delay the others: slow GPUs, late ranks, and the waiting times of all ranks (see
 * run_report.h). */
#include "proxies/runner/run/run_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank is slow if its kernels take more than SLOW times the typical time of its role, or more than SLIGHTLY times and
 * longer than the spread of the other ranks explains (bb_stats_outliers). It is late if the others of its role wait longer
 * than the rank itself by the fraction LATE_BY of the step, or by the fraction LATE and twice as long or while the rank is
 * idle longer (neither compute nor communication) by half of this time, and if this is NEXT times that of any other rank;
 * or if its idle time is longer by the fraction LATE of the step and NEXT times, and the others wait longer by half of it.
 * The cause is the part of its step that is longer than those of the others, by at least the fraction CAUSE of the step. A
 * rank is not late if kernels are the cause and the spread of the others, of MIN_SPREAD ranks, explains them. */
static const double SLOW = 1.1, SLIGHTLY = 1.02, BEYOND = 1.001, LATE = 0.01, LATE_BY = 0.05, NEXT = 1.5, CAUSE = 0.001;

enum { MIN_SPREAD = 4 };
enum { MAX_NAMED = 2, MAX_GROUPS = 3 }; /* maximum numbers of slow ranks, and of slow groups, that the text names */

/* ---- waiting times ---- */

static double waiting_us(const void *measured, int rank, int group)
{
    return ((const struct bb_measured *)measured)->traced[rank].groups[group].waiting_us;
}

/* Returns the time for which the calls of a rank wait for its peers. Waiting that kernels hide counts, because it delays
 * the transfers after it, and these may be exposed. */
static double waits_us(const struct bb_measured *m, int groups, int rank)
{
    double us = 0;

    for (int i = 0; i < groups; i++)
        us += isnan(m->traced[rank].groups[i].waiting_us) ? 0 : m->traced[rank].groups[i].waiting_us;
    return us;
}

/* The time of a rank in each part of the step that can make the rank late (enum bb_late_cause). */
struct parts {
    double us[BB_LATE_CAUSES];
};

static struct parts parts_of(const struct bb_measured *m, int groups, int rank)
{
    const struct bb_rank_breakdown *f = &m->traced[rank];
    struct parts p = {{[BB_LATE_IDLE] = f->idle_us, [BB_LATE_KERNELS] = f->compute_us}};

    for (int i = 0; i < groups; i++)
        p.us[BB_LATE_TRANSFERS] += isnan(f->groups[i].transfer_us) ? 0 : f->groups[i].transfer_us;
    return p;
}

/* Returns the lower median of each part over n ranks, which a slow or late rank of two does not change. us: [n] memory. */
static struct parts typical_parts(const struct bb_measured *m, int groups, const int *ranks, size_t n, double *us)
{
    struct parts typical;

    for (int part = 0; part < BB_LATE_CAUSES; part++) {
        for (size_t i = 0; i < n; i++)
            us[i] = parts_of(m, groups, ranks[i]).us[part];
        bb_sort_doubles(us, n);
        typical.us[part] = us[(n - 1) / 2];
    }
    return typical;
}

/* Returns the part of the step by which a rank exceeds the typical rank most, and sets *us to the excess. */
static enum bb_late_cause longest_part(const struct bb_measured *m, int groups, int rank, const struct parts *typical,
                                       double *us)
{
    const struct parts own = parts_of(m, groups, rank);
    enum bb_late_cause longest = BB_LATE_IDLE;

    for (int part = 0; part < BB_LATE_CAUSES; part++)
        if (own.us[part] - typical->us[part] > own.us[longest] - typical->us[longest])
            longest = part;
    *us = own.us[longest] - typical->us[longest];
    return longest;
}

/* The rank that waits least compared with the upper median rank of its role, and by how much; next_us: that of the next.
 * Waits of several calls for one delay add up, so the delay itself is that of `cause`: cause_us. */
struct late {
    int rank;
    double us, next_us, cause_us;
    enum bb_late_cause cause;
};

static void add_late(struct late *late, const struct late *rank, bool named)
{
    const double next_us = late->us;

    if (rank->us > late->us) {
        *late = *rank;
        late->next_us = next_us;
        late->rank = named ? rank->rank : BB_NONE;
    } else
        late->next_us = fmax(late->next_us, rank->us);
}

static int late_rank(const struct late *late)
{
    return late->us > NEXT * late->next_us ? late->rank : BB_NONE;
}

/* Returns the kernel time from which a rank of n is beyond the spread of the others, 0 for too few ranks to know their
 * spread. us: [n] memory. */
static double outlier_compute_us(const struct bb_measured *m, const int *ranks, size_t n, double *us)
{
    size_t others;

    for (size_t i = 0; i < n; i++)
        us[i] = m->traced[ranks[i]].compute_us;
    bb_sort_doubles(us, n);
    others = bb_stats_outliers(us, n, BEYOND);
    return n < MIN_SPREAD ? 0 : others < n ? us[others] : INFINITY;
}

/* Compares n ranks of a role: how much less they wait (late), and how much longer they are idle (idle). Their times differ
 * only for a late rank: the other ranks of its pipeline wait for it before they synchronize with the other replicas, and
 * the replicas wait then. */
static void find_late(const struct bb_measured *m, int groups, const int *ranks, int n, struct late *late,
                      struct late *idle)
{
    struct parts typical;
    double *us, typical_us, outlier_us;

    BB_NEW(us, (size_t)n);
    outlier_us = outlier_compute_us(m, ranks, (size_t)n, us);
    typical = typical_parts(m, groups, ranks, (size_t)n, us);
    for (int i = 0; i < n; i++)
        us[i] = waits_us(m, groups, ranks[i]);
    bb_sort_doubles(us, (size_t)n);
    typical_us = us[n / 2];
    free(us);
    for (int i = 0; i < n; i++) {
        const struct bb_rank_breakdown *f = &m->traced[ranks[i]];
        const double own_us = waits_us(m, groups, ranks[i]), idle_us = f->idle_us - typical.us[BB_LATE_IDLE];
        struct late rank = {.rank = ranks[i], .us = typical_us - own_us};
        const bool clear = own_us < typical_us / 2 || idle_us > rank.us / 2;

        rank.cause = longest_part(m, groups, ranks[i], &typical, &rank.cause_us);
        if (rank.cause_us < CAUSE * f->step_us)
            rank.cause = BB_LATE_CAUSES;
        add_late(late, &rank,
                 rank.us > (clear ? LATE : LATE_BY) * f->step_us &&
                     (rank.cause != BB_LATE_KERNELS || f->compute_us >= outlier_us));
        add_late(idle, &(struct late){ranks[i], idle_us, .cause_us = idle_us, .cause = BB_LATE_IDLE},
                 idle_us > LATE * f->step_us && rank.us > idle_us / 2);
    }
}

static bool is_single(const struct bb_step *step, int rank)
{
    int n = 0;

    for (int i = 0; i < step->layout.ranks && n < 2; i++)
        n += step->role_of[i] == step->role_of[rank];
    return n == 1;
}

/* Sets the rank that is idle longest, of the ranks without another rank of their role: late, or its role has idle time. */
static void find_idle(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w)
{
    struct late idle = {.rank = BB_NONE};

    for (int r = 0; r < m->ranks; r++)
        if (is_single(step, r))
            add_late(&idle, &(struct late){.rank = r, .us = m->traced[r].idle_us},
                     m->traced[r].idle_us > LATE * m->traced[r].step_us);
    w->idle_rank = m->ranks > 1 ? late_rank(&idle) : BB_NONE;
    w->idle_us = idle.us - idle.next_us;
}

/* Adds the rows of each role, and finds the rank that waits least, and the rank that is idle longest. */
static void compare_roles(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w,
                          struct late *late, struct late *idle)
{
    int *ranks;

    BB_NEW(ranks, m->ranks);
    for (int i = 0; i < step->n_roles; i++) {
        struct bb_wait_role role = {&step->layout, &step->roles[i].program, step->roles[i].name, ranks, 0};

        for (int r = 0; r < m->ranks; r++)
            if (step->role_of[r] == i)
                ranks[role.n++] = r;
        if (role.n > 0) {
            bb_wait_table_add(w, &role, waiting_us, m);
            find_late(m, step->layout.n_groups, ranks, role.n, late, idle);
        }
    }
    free(ranks);
}

void bb_run_waiting(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w)
{
    struct late late = {.rank = BB_NONE}, idle = {.rank = BB_NONE};

    *w = (struct bb_wait_table){.measured = true, .late_rank = BB_NONE, .idle_rank = BB_NONE};
    if (!m->traced)
        return;
    compare_roles(m, step, w, &late, &idle);
    /* Ranks of another replica may wait for the same delay in more groups, and ranks of slow links wait less. */
    if (late_rank(&idle) != BB_NONE && (late_rank(&late) == BB_NONE || late.cause >= BB_LATE_TRANSFERS))
        late = idle;
    find_idle(m, step, w);
    for (int i = 0; i < w->n; i++) {
        const struct bb_group_breakdown *g = &m->traced[w->rows[i].most_rank].groups[w->rows[i].group_index];

        w->rows[i].waited_for = g->waited_for;
        w->rows[i].waited_for_us = g->waited_for_share * g->waiting_us;
    }
    w->late_rank = late_rank(&late);
    w->late_us = late.cause_us;
    w->late_cause = late.cause;
}

/* ---- slow GPUs and slow communication ---- */

/* A rank whose kernels, or whose transfers in a group, take longer than those of comparable ranks. */
struct slow_rank {
    int rank, gpu;
    const char *host, *pci, *role, *group; /* group: NULL: the kernels are slow */
    int group_index;
    double us, slowdown;
};

#define SLOW_RANK(name) BB_SHOWS(struct slow_rank, name)
static const struct bb_field slow_gpu_fields[] = {
    {"rank", "# slow: rank ", "", 0, 0, SLOW_RANK(rank)},
    {"host", " (", "", 0, 0, SLOW_RANK(host)},
    {"gpu", ", GPU ", "", 0, 0, SLOW_RANK(gpu)},
    {NULL, ", ", ")", 0, 0, SLOW_RANK(pci)}, /* in JSON: devices[] */
    {"role", ", ", "", 0, 0, SLOW_RANK(role)},
    {"compute_us", ": kernels take ", "", 0, 0, SLOW_RANK(us), .form = BB_FORM_TIME},
    {"slowdown", ", ", " x the typical time of the role\n", 0, 2, SLOW_RANK(slowdown)},
    {0},
};
static const struct bb_field slow_transfer_fields[] = {
    {"rank", SLOW_RANK(rank)},         {"host", SLOW_RANK(host)},
    {"gpu", SLOW_RANK(gpu)},           {"role", SLOW_RANK(role)},
    {"group", SLOW_RANK(group)},       {"transfer_us", SLOW_RANK(us)},
    {"slowdown", SLOW_RANK(slowdown)}, {0},
};

struct slow_list {
    struct slow_rank *ranks; /* the slowest last */
    size_t n;
    int single;    /* number of ranks that are not judged because no other rank has their role */
    bool compared; /* transfers: a group over several nodes with exposed time is compared with another group */
    bool parted;   /* one of them leaves out a node, so a node that slows all its groups is found */
    int last_alone;
    char alone[64]; /* transfers: the other groups over several nodes with exposed time: " tp, dp" */
};

static double time_of(const struct bb_run_report *r, int rank, int group)
{
    const struct bb_rank_breakdown *f = &r->measured->traced[rank];

    return group == BB_NONE ? f->compute_us : f->groups[group].transfer_us;
}

/* Returns a number that is equal for ranks whose times are comparable: ranks of a role, and for transfers in a group, of
 * the same index in their group, whose consecutive members change the node equally often. */
static int class_of(const struct bb_run_report *r, int rank, int group)
{
    const struct bb_layout *l = &r->step->layout;
    const int *node_of = r->session->world.node_of;
    const int instance = group == BB_NONE ? BB_NONE : bb_group_instance(l, group, rank);
    int changes = 0;

    if (instance == BB_NONE)
        return r->step->role_of[rank];
    for (int i = 1; i < l->groups[group].size; i++)
        changes +=
            node_of[bb_group_member(l, group, instance, i)] != node_of[bb_group_member(l, group, instance, i - 1)];
    return (changes * l->groups[group].size + bb_group_index(l, group, rank)) * r->step->n_roles +
           r->step->role_of[rank];
}

/* Returns whether a rank uses NICs in a group, and the exposed time of the group is more than LATE of the step. */
static bool exposes_network(const struct bb_run_report *r, int rank, int group)
{
    const struct bb_layout *l = &r->step->layout;
    const struct bb_rank_breakdown *f = &r->measured->traced[rank];
    const int *node_of = r->session->world.node_of;
    const int instance = bb_group_instance(l, group, rank);
    bool spans = false;

    for (int i = 0; instance != BB_NONE && i < l->groups[group].size; i++)
        spans |= node_of[bb_group_member(l, group, instance, i)] != node_of[rank];
    return spans && f->groups[group].exposed_us > LATE * f->step_us;
}

/* Returns whether the group of a rank has a rank on each node. */
static bool spans_all_nodes(const struct bb_run_report *r, int rank, int group)
{
    const struct bb_layout *l = &r->step->layout;
    const struct bb_world *w = &r->session->world;
    const int instance = bb_group_instance(l, group, rank);
    bool spans = true;

    for (int node = 0, i; node < w->nodes && spans; node++) {
        for (i = 0; i < l->groups[group].size && w->node_of[bb_group_member(l, group, instance, i)] != node; i++)
            ;
        spans = i < l->groups[group].size;
    }
    return spans;
}

static void add_slow(struct slow_list *list, const struct slow_rank *rank)
{
    size_t at = list->n;

    BB_GROW(list->ranks, list->n);
    list->n++;
    for (; at > 0 && list->ranks[at - 1].slowdown > rank->slowdown; at--)
        list->ranks[at] = list->ranks[at - 1];
    list->ranks[at] = *rank;
}

static void add_alone(struct slow_list *list, const struct bb_run_report *r, int group)
{
    const size_t length = strlen(list->alone);

    if (length == 0 || list->last_alone != group)
        snprintf(list->alone + length, sizeof(list->alone) - length, "%s%s", length > 0 ? ", " : "",
                 r->step->layout.groups[group].name);
    list->last_alone = group;
}

/* Ranks whose kernels (group BB_NONE), or whose transfers in a group, are compared (class_of). */
struct slow_class {
    int group;
    int *ranks;
    size_t n;
    double *us; /* [n] memory */
};

/* Returns whether the kernels of a rank are slower by themselves: neither longer transfers, which slow them down, nor idle
 * time is a larger part of its delay. */
static bool computes_longer(const struct bb_run_report *r, const struct slow_class *c, int rank, double typical_us)
{
    const int groups = r->step->layout.n_groups;
    struct parts typical = typical_parts(r->measured, groups, c->ranks, c->n, c->us);
    double longer_us;

    typical.us[BB_LATE_KERNELS] = typical_us;
    return longest_part(r->measured, groups, rank, &typical, &longer_us) == BB_LATE_KERNELS;
}

/* Returns the typical time of a class, and sets *least_us to the least time of a rank that is slightly slow, INFINITY if
 * there is none. Ranks that are more than slightly slow are left out. */
static double typical_time(const struct bb_run_report *r, const struct slow_class *c, double *least_us)
{
    size_t n = c->n, others;
    double typical_us;

    for (size_t i = 0; i < n; i++)
        c->us[i] = time_of(r, c->ranks[i], c->group);
    bb_sort_doubles(c->us, n);
    typical_us = bb_stats_typical(c->us, n, SLOW);
    *least_us = INFINITY;
    if (c->group != BB_NONE || is_single(r->step, c->ranks[0]))
        return typical_us;
    while (c->us[n - 1] > SLOW * typical_us)
        n--;
    others = bb_stats_outliers(c->us, n, SLIGHTLY);
    if (others < n)
        *least_us = c->us[others];
    return bb_stats_typical(c->us, others, SLOW);
}

/* Counts what the transfers of a class can show about NICs. */
static void count_network(const struct bb_run_report *r, const struct slow_class *c, struct slow_list *list)
{
    if (c->group == BB_NONE || !exposes_network(r, c->ranks[0], c->group))
        return;
    if (c->n == 1)
        add_alone(list, r, c->group);
    list->compared |= c->n > 1;
    list->parted |= c->n > 1 && !spans_all_nodes(r, c->ranks[0], c->group);
}

static void add_slow_of(const struct bb_run_report *r, const struct slow_class *c, struct slow_list *list)
{
    const struct bb_session *s = r->session;
    double least_us;
    const double typical_us = typical_time(r, c, &least_us);

    list->single += c->group == BB_NONE && c->n == 1 && s->world.size > 1;
    count_network(r, c, list);
    for (size_t i = 0; i < c->n; i++) {
        const int rank = c->ranks[i];
        const struct slow_rank slow = {.rank = rank,
                                       .gpu = s->devices[rank].ordinal,
                                       .host = s->world.hosts[rank],
                                       .pci = s->devices[rank].pci,
                                       .role = r->step->roles[r->step->role_of[rank]].name,
                                       .group = c->group == BB_NONE ? NULL : r->step->layout.groups[c->group].name,
                                       .group_index = c->group,
                                       .us = time_of(r, rank, c->group),
                                       .slowdown = time_of(r, rank, c->group) / typical_us};

        if ((slow.slowdown > SLOW &&
             (!slow.group || slow.us - typical_us > LATE * r->measured->traced[rank].step_us)) ||
            (slow.us >= least_us && computes_longer(r, c, rank, typical_us)))
            add_slow(list, &slow);
    }
}

/* Adds the ranks with slow kernels (group BB_NONE), or with slow transfers in a group. */
static void list_slow_of(const struct bb_run_report *r, int group, struct slow_list *list)
{
    const int ranks = r->session->world.size;
    struct slow_class c = {.group = group};
    int *classes;

    BB_NEW(classes, ranks);
    BB_NEW(c.ranks, ranks);
    BB_NEW(c.us, ranks);
    for (int i = 0; i < ranks; i++)
        classes[i] = class_of(r, i, group);
    for (int first = 0; first < ranks; first++) {
        c.n = 0;
        for (int i = 0; i < ranks && (c.n > 0 || i <= first); i++)
            if (classes[i] == classes[first])
                c.ranks[c.n++] = i;
        if (c.ranks[0] == first)
            add_slow_of(r, &c, list);
    }
    free(classes);
    free(c.ranks);
    free(c.us);
}

/* Returns whether a slow GPU in the group of `slow` explains its transfers: it is slower than they are, and its kernels
 * for the transfers are slow, too. */
static bool is_explained(const struct bb_run_report *r, const struct slow_rank *slow, const struct slow_list *gpus)
{
    const struct bb_layout *l = &r->step->layout;
    const int instance = bb_group_instance(l, slow->group_index, slow->rank);

    for (size_t i = 0; i < gpus->n; i++)
        if (bb_group_instance(l, slow->group_index, gpus->ranks[i].rank) == instance &&
            gpus->ranks[i].slowdown > slow->slowdown)
            return true;
    return false;
}

/* Lists the ranks with slow kernels, or those with slow transfers that no slow GPU explains. Ranks that share a GPU are
 * not judged. The caller frees list.ranks. */
static struct slow_list list_slow(const struct bb_run_report *r, bool transfers)
{
    struct slow_list gpus = {0}, list = {0};
    size_t kept = 0;

    if (!r->measured->traced || r->session->shared_gpu)
        return list;
    list_slow_of(r, BB_NONE, &gpus);
    if (!transfers)
        return gpus;
    for (int group = 0; group < r->step->layout.n_groups; group++)
        list_slow_of(r, group, &list);
    for (size_t i = 0; i < list.n; i++)
        if (!is_explained(r, &list.ranks[i], &gpus))
            list.ranks[kept++] = list.ranks[i];
    list.n = kept;
    free(gpus.ranks);
    return list;
}

json_t *bb_run_slow_json(const struct bb_run_report *r, bool transfers)
{
    struct slow_list list = list_slow(r, transfers);
    json_t *json =
        bb_table_list(transfers ? slow_transfer_fields : slow_gpu_fields, list.ranks, list.n, sizeof(*list.ranks));

    free(list.ranks);
    return json;
}

/* Names the rank that computes longest if its kernels take over 10 % longer than those of the slowest rank of the step:
 * the other ranks wait for it, although they may end later. */
void bb_run_longest_print(const struct bb_run_report *r, int slowest, FILE *out)
{
    const struct bb_rank_breakdown *traced = r->measured->traced;
    char time[BB_ROUNDED_TEXT];
    int longest = slowest;

    for (int i = 0; i < r->session->world.size; i++)
        if (traced[i].compute_us > traced[longest].compute_us)
            longest = i;
    if (traced[longest].compute_us > SLOW * traced[slowest].compute_us && traced[slowest].compute_us > 0)
        fprintf(out, "# most compute: rank %d (%s) computes %s, %.2f x the time of rank %d\n", longest,
                r->step->roles[r->step->role_of[longest]].name,
                bb_format_rounded_time(traced[longest].compute_us, time),
                traced[longest].compute_us / traced[slowest].compute_us, slowest);
}

/* Prints a group whose transfers are slow, with at most MAX_RANKS of its ranks, without the end of the line. */
static void print_slow_transfer(const struct bb_run_report *r, const struct slow_rank *slow, FILE *out)
{
    enum { MAX_RANKS = 8 };
    const struct bb_layout *l = &r->step->layout;
    const int instance = bb_group_instance(l, slow->group_index, slow->rank), size = l->groups[slow->group_index].size;
    const struct bb_time_unit unit = bb_time_unit(slow->us);
    const char *before = "";

    fprintf(out, "# slow communication: group %s of ranks", slow->group);
    for (int i = 0; i < size && i < MAX_RANKS; i++)
        fprintf(out, "%s %d", i > 0 ? "," : "", bb_group_member(l, slow->group_index, instance, i));
    fprintf(out, "%s (", size > MAX_RANKS ? " .." : "");
    for (int i = 0; i < size && i < MAX_RANKS; i++) {
        const char *host = r->session->world.hosts[bb_group_member(l, slow->group_index, instance, i)];

        if (strcmp(host, before) != 0)
            fprintf(out, "%s%s", i > 0 ? ", " : "", host);
        before = host;
    }
    fprintf(out, "%s): transfers take %.*f %s, %.2f x the time of other groups (%.*f %s longer)\n",
            size > MAX_RANKS ? " .." : "", unit.decimals, slow->us / unit.us, unit.name, slow->slowdown, unit.decimals,
            (slow->us - slow->us / slow->slowdown) / unit.us, unit.name);
}

static bool same_group(const struct bb_run_report *r, const struct slow_rank *a, const struct slow_rank *b)
{
    const struct bb_layout *l = &r->step->layout;

    return a->group_index == b->group_index &&
           bb_group_instance(l, a->group_index, a->rank) == bb_group_instance(l, a->group_index, b->rank);
}

/* Prints the slowest groups, the slowest first. The list has each slow rank of a group. */
static void print_slow_transfers(const struct bb_run_report *r, const struct slow_list *list, FILE *out)
{
    int groups = 0;

    for (size_t i = list->n, j; i-- > 0;) {
        for (j = i + 1; j < list->n && !same_group(r, &list->ranks[i], &list->ranks[j]); j++)
            ;
        if (j == list->n && ++groups <= MAX_GROUPS)
            print_slow_transfer(r, &list->ranks[i], out);
    }
    if (groups > MAX_GROUPS)
        fprintf(out, "# slow communication: %d more group%s\n", groups - MAX_GROUPS, bb_plural(groups - MAX_GROUPS));
    if (groups > 0)
        fprintf(out, "# to find the link: %s bench p2p\n", bb_environment_program());
}

/* Returns whether all ranks of a node, at least two, are in the list. */
static bool is_slow_node(const struct bb_world *w, const struct slow_list *list, int node)
{
    size_t slow = 0, all = 0;

    for (int i = 0; i < w->size; i++)
        all += w->node_of[i] == node;
    for (size_t i = 0; i < list->n; i++)
        slow += w->node_of[list->ranks[i].rank] == node;
    return all > 1 && slow == all;
}

/* Prints a node whose ranks are all in the list. */
static void print_slow_node(const struct bb_world *w, const struct slow_list *list, int node, FILE *out)
{
    const struct slow_rank *least = list->ranks, *most = list->ranks;
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++)
        if (w->node_of[list->ranks[i].rank] == node) {
            most = &list->ranks[i];
            least = n++ == 0 ? most : least;
        }
    fprintf(out, "# slow: all %zu ranks of %s: kernels take %.2f", n, most->host, least->slowdown);
    if (most->slowdown - least->slowdown >= 0.01)
        fprintf(out, " to %.2f", most->slowdown);
    fprintf(out, " x the typical time of the role; check what its GPUs share: power, cooling, clock limits\n");
}

/* Prints nodes whose GPUs are all slow, and the other slow GPUs, the slowest last; with --full each slow GPU. */
static void print_slow_gpus(const struct bb_run_report *r, const struct slow_list *list, FILE *out)
{
    const struct bb_world *w = &r->session->world;
    size_t left = 0, nodes = 0;
    bool *whole; /* [nodes] all GPUs of the node are slow */

    BB_NEW(whole, w->nodes);
    for (int node = 0; node < w->nodes; node++)
        whole[node] = is_slow_node(w, list, node);
    for (size_t i = 0; i < list->n; i++)
        left += !whole[w->node_of[list->ranks[i].rank]];
    if (left > MAX_NAMED)
        fprintf(out, "# slow: %zu of %d ranks, the slowest last:\n", list->n, w->size);
    for (int node = 0; node < w->nodes; node++)
        if (whole[node] && (++nodes <= MAX_GROUPS || r->full))
            print_slow_node(w, list, node, out);
    if (nodes > MAX_GROUPS && !r->full)
        fprintf(out, "# slow: all ranks of %zu more node%s\n", nodes - MAX_GROUPS, bb_plural((int)nodes - MAX_GROUPS));
    for (size_t i = 0; i < list->n; i++)
        if (r->full || (!whole[w->node_of[list->ranks[i].rank]] && left-- <= MAX_NAMED))
            bb_table_sentence(out, slow_gpu_fields, &list->ranks[i]);
    free(whole);
}

/* Prints why nothing is known to be slow. */
static void print_not_judged(const struct bb_run_report *r, const struct slow_list *transfers, bool all_judged,
                             FILE *out)
{
    const bool judges = r->forecast->known && !r->forecast->other_nodes;
    const char *option = r->forecast->known ? "" : "; to compare communication with a prediction: --cluster NAME|FILE";

    if (!judges && transfers->alone[0] && !transfers->compared)
        fprintf(
            out,
            "# NICs not judged as slow or not: no other group has the shape of group %s, so transfer times cannot be "
            "compared; to judge each NIC: %s health%s\n",
            transfers->alone, bb_environment_program(), option);
    else if (!judges && transfers->compared && !transfers->parted)
        fprintf(out,
                "# a node whose NICs are all slow would not be named: the compared groups span all nodes; to judge "
                "nodes: %s health%s\n",
                bb_environment_program(), option);
    else if (judges)
        bb_run_forecast_print_longer(r->forecast, all_judged, out);
}

/* Prints a late rank, by how much the part of its step that is the cause is longer than those of the others of its role, and
 * what to check. A rank that starts its first kernels late, but before their input arrives, delays no other rank. */
static void print_late(const struct bb_run_report *r, int late, enum bb_late_cause cause, double us, FILE *out)
{
    static const struct {
        const char *takes, *longer, *check;
    } causes[] = {
        [BB_LATE_IDLE] = {"idle ", " longer than the",
                          "its GPU has no work then, so check its host: data loading, CPU load, launches"},
        [BB_LATE_KERNELS] = {"kernels take ", " longer than those of the", "check its GPU: clock, temperature, power"},
        [BB_LATE_TRANSFERS] = {"transfers take ", " longer than those of the", "check its NIC and links"},
        [BB_LATE_CAUSES] = {"waits", " less than the",
                            "its own times do not show why; to see the operations: --trace FILE"},
    };
    char time[BB_ROUNDED_TEXT], text[BB_RANK_TEXT];

    fprintf(out, "# late: %s, %s: %s%s%s other ranks of the role, which wait for it%s; %s\n",
            bb_session_rank_text(r->session, late, text), r->step->roles[r->step->role_of[late]].name,
            causes[cause].takes, cause == BB_LATE_CAUSES ? "" : bb_format_rounded_time(us, time), causes[cause].longer,
            r->measured->traced[late].bubble_us > us / 2 ? ", or a pipeline bubble hides its delay" : "",
            causes[cause].check);
}

/* Adds how much longer the ranks of a role are idle than the lower median rank, which a slow GPU of the role does not change. */
static void add_idle_of_role(const struct bb_run_report *r, int role, double *us, struct late *idle)
{
    const struct bb_rank_breakdown *traced = r->measured->traced;
    size_t n = 0;

    for (int i = 0; i < r->session->world.size; i++)
        if (r->step->role_of[i] == role)
            us[n++] = traced[i].idle_us;
    if (n < 2)
        return;
    bb_sort_doubles(us, n);
    for (int i = 0; i < r->session->world.size; i++)
        if (r->step->role_of[i] == role)
            add_late(idle, &(struct late){.rank = i, .us = traced[i].idle_us - us[(n - 1) / 2]},
                     traced[i].idle_us - us[(n - 1) / 2] > LATE * traced[i].step_us);
}

/* Prints the late rank in addition to slow ones: the rank that is idle longer, if it is the slowest, or the slowest waits for
 * it. */
static void print_also_late(const struct bb_run_report *r, const struct slow_rank *slowest, FILE *out)
{
    struct late idle = {.rank = BB_NONE};
    double *us;
    int late;

    BB_NEW(us, r->session->world.size);
    for (int role = 0; role < r->step->n_roles; role++)
        add_idle_of_role(r, role, us, &idle);
    free(us);
    late = late_rank(&idle);
    if (late == slowest->rank ||
        (late != BB_NONE && waits_us(r->measured, r->step->layout.n_groups, slowest->rank) > idle.us / 2))
        print_late(r, late, BB_LATE_IDLE, idle.us, out);
}

/* Prints those ranks whose compute or idle time is longer than that of the others, though their roles differ. */
static void print_longer_roles(const struct bb_run_report *r, FILE *out)
{
    const struct bb_session *s = r->session;
    const struct bb_wait_table *w = r->waiting;
    struct slow_class c = {.group = BB_NONE};
    struct slow_list list = {0};
    char time[BB_ROUNDED_TEXT], text[BB_RANK_TEXT];

    BB_NEW(c.ranks, s->world.size);
    BB_NEW(c.us, s->world.size);
    for (int i = 0; i < s->world.size; i++)
        if (is_single(r->step, i))
            c.ranks[c.n++] = i;
    add_slow_of(r, &c, &list);
    for (size_t i = list.n > MAX_NAMED ? list.n - MAX_NAMED : 0; i < list.n; i++)
        fprintf(out, "# slow, or its role has more work: %s, %s: kernels take %s, %.2f x the typical time\n",
                bb_session_rank_text(s, list.ranks[i].rank, text), list.ranks[i].role,
                bb_format_rounded_time(list.ranks[i].us, time), list.ranks[i].slowdown);
    if (w->n > 0 && w->idle_rank != BB_NONE)
        fprintf(out, "# late, or its role has idle time: %s, %s: idle %s longer than the others\n",
                bb_session_rank_text(s, w->idle_rank, text), r->step->roles[r->step->role_of[w->idle_rank]].name,
                bb_format_rounded_time(w->idle_us, time));
    free(list.ranks);
    free(c.ranks);
    free(c.us);
}

void bb_run_culprit_print(const struct bb_run_report *r, FILE *out)
{
    const struct bb_wait_table *w = r->waiting;
    const int late = w->n > 0 ? w->late_rank : BB_NONE;
    struct slow_list gpus = list_slow(r, false), transfers = list_slow(r, true);

    if (gpus.single > 0 && (r->full || (gpus.n == 0 && late == BB_NONE)))
        fprintf(out,
                "# %d of %d ranks %s not judged as slow or late: no other rank has the same role, so that a slow rank "
                "cannot be distinguished from a role with more work; to judge them: more ranks (replicas)\n",
                gpus.single, r->session->world.size, gpus.single == 1 ? "is" : "are");
    if (gpus.single > 0)
        print_longer_roles(r, out);
    print_slow_gpus(r, &gpus, out);
    print_slow_transfers(r, &transfers, out);
    if (gpus.n > 0)
        print_also_late(r, &gpus.ranks[gpus.n - 1], out);
    else if (late != BB_NONE && (transfers.n == 0 || w->late_cause < BB_LATE_TRANSFERS))
        print_late(r, late, w->late_cause, w->late_us, out);
    else if (transfers.n == 0)
        print_not_judged(r, &transfers, gpus.single == 0, out);
    free(gpus.ranks);
    free(transfers.ranks);
}
