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

/* A rank is slow if its kernels take more than SLOW times the typical time of its role. It is late if the others of its role
 * wait longer than the rank itself by the fraction LATE_BY of the step, or by the fraction LATE and twice as long or while
 * the rank is idle longer (neither compute nor communication) by half of this time, and if this is NEXT times that of any
 * other rank. */
static const double SLOW = 1.1, LATE = 0.01, LATE_BY = 0.05, NEXT = 1.5;

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

/* The rank that waits least compared with the upper median rank of its role, and by how much; next_us: that of the next;
 * idle_us: how much longer the rank is idle than the lower median rank. */
struct late {
    int rank;
    double us, next_us, idle_us;
};

static void add_late(struct late *late, int rank, double us, double idle_us, bool named)
{
    if (us > late->us)
        *late = (struct late){named ? rank : BB_NONE, us, late->us, idle_us};
    else
        late->next_us = fmax(late->next_us, us);
}

static int late_rank(const struct late *late)
{
    return late->us > NEXT * late->next_us ? late->rank : BB_NONE;
}

/* Compares n ranks of a role. Their times differ only for a late rank: the other ranks of its pipeline wait for it before
 * they synchronize with the other replicas, and the replicas wait then. */
static void find_late(const struct bb_measured *m, int groups, const int *ranks, int n, struct late *late)
{
    double *us, typical_us, idle_us;

    BB_NEW(us, (size_t)n);
    for (int i = 0; i < n; i++)
        us[i] = m->traced[ranks[i]].idle_us;
    bb_sort_doubles(us, (size_t)n);
    idle_us = us[(n - 1) / 2];
    for (int i = 0; i < n; i++)
        us[i] = waits_us(m, groups, ranks[i]);
    bb_sort_doubles(us, (size_t)n);
    typical_us = us[n / 2];
    free(us);
    for (int i = 0; i < n; i++) {
        const struct bb_rank_breakdown *f = &m->traced[ranks[i]];
        const double own_us = waits_us(m, groups, ranks[i]), less_us = typical_us - own_us;
        const double longer_us = f->idle_us - idle_us;
        const bool clear = own_us < typical_us / 2 || longer_us > less_us / 2;

        add_late(late, ranks[i], less_us, longer_us, less_us > (clear ? LATE : LATE_BY) * f->step_us);
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
            add_late(&idle, r, m->traced[r].idle_us, 0, m->traced[r].idle_us > LATE * m->traced[r].step_us);
    w->idle_rank = m->ranks > 1 ? late_rank(&idle) : BB_NONE;
    w->idle_us = idle.us - idle.next_us;
}

/* Adds the rows of each role, and finds the late rank. */
static void compare_roles(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w,
                          struct late *late)
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
            find_late(m, step->layout.n_groups, ranks, role.n, late);
        }
    }
    free(ranks);
}

void bb_run_waiting(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w)
{
    struct late late = {.rank = BB_NONE};

    *w = (struct bb_wait_table){.measured = true, .late_rank = BB_NONE, .idle_rank = BB_NONE};
    if (!m->traced)
        return;
    compare_roles(m, step, w, &late);
    find_idle(m, step, w);
    for (int i = 0; i < w->n; i++) {
        const struct bb_group_breakdown *g = &m->traced[w->rows[i].most_rank].groups[w->rows[i].group_index];

        w->rows[i].waited_for = g->waited_for;
        w->rows[i].waited_for_us = g->waited_for_share * g->waiting_us;
    }
    w->late_rank = late_rank(&late);
    w->late_us = late.us;
    w->late_idle_us = late.idle_us;
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

/* Adds the slow ranks of the class of rank `first`, its lowest rank. classes: [ranks] class_of() each rank; us: [ranks] memory. */
static void add_slow_of(const struct bb_run_report *r, int group, int first, const int *classes, double *us,
                        struct slow_list *list)
{
    const struct bb_session *s = r->session;
    size_t members = 0;
    double typical_us;

    for (int i = first; i < s->world.size; i++)
        if (classes[i] == classes[first])
            us[members++] = time_of(r, i, group);
    list->single += group == BB_NONE && members == 1 && s->world.size > 1;
    if (group != BB_NONE && members > 1 && exposes_network(r, first, group)) {
        list->compared = true;
        list->parted |= !spans_all_nodes(r, first, group);
    }
    if (group != BB_NONE && members == 1 && exposes_network(r, first, group))
        add_alone(list, r, group);
    bb_sort_doubles(us, members);
    typical_us = bb_stats_typical(us, members, SLOW);
    for (int i = first; i < s->world.size; i++) {
        const struct slow_rank slow = {.rank = i,
                                       .gpu = s->devices[i].ordinal,
                                       .host = s->world.hosts[i],
                                       .pci = s->devices[i].pci,
                                       .role = r->step->roles[r->step->role_of[i]].name,
                                       .group = group == BB_NONE ? NULL : r->step->layout.groups[group].name,
                                       .group_index = group,
                                       .us = time_of(r, i, group),
                                       .slowdown = time_of(r, i, group) / typical_us};

        if (classes[i] == classes[first] && slow.slowdown > SLOW &&
            (!slow.group || slow.us - typical_us > LATE * r->measured->traced[i].step_us))
            add_slow(list, &slow);
    }
}

/* Adds the ranks with slow kernels (group BB_NONE), or with slow transfers in a group. */
static void list_slow_of(const struct bb_run_report *r, int group, struct slow_list *list)
{
    const int ranks = r->session->world.size;
    int *classes;
    double *us;

    BB_NEW(classes, ranks);
    BB_NEW(us, ranks);
    for (int i = 0; i < ranks; i++)
        classes[i] = class_of(r, i, group);
    for (int i = 0, first; i < ranks; i++) {
        for (first = 0; classes[first] != classes[i]; first++)
            ;
        if (first == i)
            add_slow_of(r, group, first, classes, us, list);
    }
    free(classes);
    free(us);
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
    const char *before = "";
    char time[BB_TIME_TEXT];

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
    fprintf(out, "%s): transfers take %s, %.2f x the time of other groups", size > MAX_RANKS ? " .." : "",
            bb_format_time(slow->us, time), slow->slowdown);
    fprintf(out, " (%s longer)\n", bb_format_time(slow->us - slow->us / slow->slowdown, time));
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

/* Prints why nothing is known to be slow. */
static void print_not_judged(const struct bb_run_report *r, const struct slow_list *transfers, bool all_judged,
                             FILE *out)
{
    const bool judges = r->forecast->known && !r->forecast->other_nodes;
    const char *option = r->forecast->known ? "" : "--cluster NAME|FILE, or ";

    if (!judges && transfers->alone[0] && !transfers->compared)
        fprintf(
            out,
            "# NICs not judged as slow or not: no other group has the shape of group %s, so transfer times cannot be "
            "compared; to judge them: %s%s health\n",
            transfers->alone, option, bb_environment_program());
    else if (!judges && transfers->compared && !transfers->parted)
        fprintf(out,
                "# a node whose NICs are all slow would not be named: the compared groups span all nodes; to judge "
                "nodes: %s%s health\n",
                option, bb_environment_program());
    else if (judges)
        bb_run_forecast_print_longer(r->forecast, all_judged, out);
}

/* Prints a late rank: it is idle longer than the others of its role, or waits less, by `us`. A rank that starts its first
 * kernels late, but before their input arrives, delays no other rank. */
static void print_late(const struct bb_run_report *r, int late, bool idle, double us, FILE *out)
{
    char time[BB_ROUNDED_TEXT], text[BB_RANK_TEXT];

    fprintf(out,
            "# late: %s, %s: %s %s %s than the other ranks of the role, which wait for it%s; where "
            "kernels hide the waiting, the transfers after it end later\n",
            bb_session_rank_text(r->session, late, text), r->step->roles[r->step->role_of[late]].name,
            idle ? "idle" : "waits", bb_format_rounded_time(us, time), idle ? "longer" : "less",
            r->measured->traced[late].bubble_us > us / 2 ? ", or a pipeline bubble hides its delay" : "");
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
            add_late(idle, i, traced[i].idle_us - us[(n - 1) / 2], 0,
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
        print_late(r, late, true, idle.us, out);
}

/* Prints those ranks whose compute or idle time is longer than that of the others, though their roles differ. */
static void print_longer_roles(const struct bb_run_report *r, FILE *out)
{
    const struct bb_session *s = r->session;
    const struct bb_wait_table *w = r->waiting;
    struct slow_list list = {0};
    char time[BB_ROUNDED_TEXT], text[BB_RANK_TEXT];
    int *classes, first = 0;
    double *us;

    BB_NEW(classes, s->world.size);
    BB_NEW(us, s->world.size);
    for (int i = s->world.size - 1; i >= 0; i--) {
        classes[i] = is_single(r->step, i) ? 0 : BB_NONE;
        first = classes[i] == 0 ? i : first;
    }
    add_slow_of(r, BB_NONE, first, classes, us, &list);
    for (size_t i = list.n > MAX_NAMED ? list.n - MAX_NAMED : 0; i < list.n; i++)
        fprintf(out, "# slow, or its role has more work: %s, %s: kernels take %s, %.2f x the typical time\n",
                bb_session_rank_text(s, list.ranks[i].rank, text), list.ranks[i].role,
                bb_format_rounded_time(list.ranks[i].us, time), list.ranks[i].slowdown);
    if (w->n > 0 && w->idle_rank != BB_NONE)
        fprintf(out, "# late, or its role has idle time: %s, %s: idle %s longer than the others\n",
                bb_session_rank_text(s, w->idle_rank, text), r->step->roles[r->step->role_of[w->idle_rank]].name,
                bb_format_rounded_time(w->idle_us, time));
    free(list.ranks);
    free(classes);
    free(us);
}

void bb_run_culprit_print(const struct bb_run_report *r, FILE *out)
{
    const struct bb_wait_table *w = r->waiting;
    const int late = w->n > 0 ? w->late_rank : BB_NONE;
    const bool idle = w->late_idle_us > w->late_us / 2;
    struct slow_list gpus = list_slow(r, false), transfers = list_slow(r, true);

    if (gpus.single > 0 && (r->full || (gpus.n == 0 && late == BB_NONE)))
        fprintf(out,
                "# %d of %d ranks: no other rank has their role, so that a slow or late rank cannot be distinguished "
                "from a role with more work or idle time; to judge them: more ranks (replicas)\n",
                gpus.single, r->session->world.size);
    if (gpus.single > 0)
        print_longer_roles(r, out);
    if (gpus.n > MAX_NAMED)
        fprintf(out, "# slow: %zu of %d ranks, the slowest last:\n", gpus.n, r->session->world.size);
    for (size_t i = gpus.n > MAX_NAMED ? gpus.n - MAX_NAMED : 0; i < gpus.n; i++)
        bb_table_sentence(out, slow_gpu_fields, &gpus.ranks[i]);
    print_slow_transfers(r, &transfers, out);
    if (gpus.n > 0)
        print_also_late(r, &gpus.ranks[gpus.n - 1], out);
    else if (late != BB_NONE && (transfers.n == 0 || idle))
        print_late(r, late, idle, idle ? w->late_idle_us : w->late_us, out);
    else if (transfers.n == 0)
        print_not_judged(r, &transfers, gpus.single == 0, out);
    free(gpus.ranks);
    free(transfers.ranks);
}
