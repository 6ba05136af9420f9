/* slow_ranks.c - finds the ranks that delay the others: slow GPUs, late ranks, and the waiting times of all ranks (see
 * run_report.h). */
#include "proxies/runner/run/run_report.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "bootstrap/results/table.h"

#include <math.h>
#include <stdlib.h>

/* A rank is slow if its kernels take more than SLOW times the typical time of its role, and late if the median rank of
 * its role waits for more than the fraction LATE of the step, and more than twice as long as the rank itself. */
static const double SLOW = 1.1, LATE = 0.01;

enum { MAX_NAMED = 2 }; /* maximum number of slow ranks that the text names */

/* ---- waiting times ---- */

static double waiting_us(const void *measured, int rank, int group)
{
    return ((const struct bb_measured *)measured)->traced[rank].groups[group].waiting_us;
}

struct traced_ranks {
    const struct bb_measured *m;
    int groups;
};

/* Returns the rank for which a rank waits longest; BB_NONE: it does not wait. total_us: out, its waiting time. */
static int waited_for(const struct traced_ranks *t, int rank, double *total_us)
{
    double most_us = 0;
    int most = BB_NONE;

    *total_us = 0;
    for (int i = 0; i < t->groups; i++) {
        const struct bb_group_breakdown *g = &t->m->traced[rank].groups[i];
        const double us = g->waited_for == BB_NONE || isnan(g->waiting_us) ? 0 : g->waited_for_share * g->waiting_us;

        *total_us += isnan(g->waiting_us) ? 0 : g->waiting_us;
        most = us > most_us ? g->waited_for : most;
        most_us = fmax(us, most_us);
    }
    return most;
}

/* Returns whether a rank waits less than half as long as the median rank of its role. A role all of whose ranks wait
 * less than other roles has more work, and none of its ranks is late. */
static bool waits_less_than_role(const struct traced_ranks *t, const struct bb_step *step, int rank)
{
    struct bb_stats stats;
    double own_us, *us;
    size_t n = 0;

    BB_NEW(us, t->m->ranks);
    (void)waited_for(t, rank, &own_us);
    for (int i = 0; i < t->m->ranks; i++)
        if (step->role_of[i] == step->role_of[rank])
            (void)waited_for(t, i, &us[n++]);
    bb_stats_compute(us, n, &stats);
    free(us);
    return own_us < stats.p50 / 2 && stats.p50 > LATE * t->m->traced[rank].step_us;
}

/* Returns the rank for which the others wait. Follows who waits for whom, from the rank that waits longest, until a rank
 * waits for no other or a rank repeats; the rank of this chain that waits least in total is late. BB_NONE: it waits more
 * than half as long as the first rank. */
static int find_late(const struct bb_wait_table *w, const struct traced_ranks *traced)
{
    double total_us, least_us = INFINITY, first_us = NAN, longest_us = 0;
    int rank = BB_NONE, late = BB_NONE;
    bool *visited;

    for (int i = 0; i < w->n; i++) {
        rank = w->rows[i].waited_for_us > longest_us ? w->rows[i].most_rank : rank;
        longest_us = fmax(longest_us, w->rows[i].waited_for_us);
    }
    BB_NEW(visited, traced->m->ranks);
    while (rank != BB_NONE && !visited[rank]) {
        const int next = waited_for(traced, rank, &total_us);

        visited[rank] = true;
        first_us = isnan(first_us) ? total_us : first_us;
        if (total_us < least_us) {
            late = rank;
            least_us = total_us;
        }
        rank = next;
    }
    free(visited);
    return least_us <= first_us / 2 ? late : BB_NONE;
}

void bb_run_waiting(const struct bb_measured *m, const struct bb_step *step, struct bb_wait_table *w)
{
    struct traced_ranks traced = {m, step->layout.n_groups};
    int *ranks;

    *w = (struct bb_wait_table){.measured = true};
    BB_NEW(ranks, m->ranks);
    for (int i = 0; m->traced && i < step->n_roles; i++) {
        struct bb_wait_role role = {&step->layout, &step->roles[i].program, step->roles[i].name, ranks, 0};

        for (int r = 0; r < m->ranks; r++)
            if (step->role_of[r] == i)
                ranks[role.n++] = r;
        if (role.n > 0)
            bb_wait_table_add(w, &role, waiting_us, m);
    }
    for (int i = 0; i < w->n; i++) {
        const struct bb_group_breakdown *g = &m->traced[w->rows[i].most_rank].groups[w->rows[i].group_index];

        w->rows[i].waited_for = g->waited_for;
        w->rows[i].waited_for_us = g->waited_for_share * g->waiting_us;
    }
    w->late_rank = find_late(w, &traced);
    if (w->late_rank != BB_NONE && !waits_less_than_role(&traced, step, w->late_rank))
        w->late_rank = BB_NONE;
    free(ranks);
}

/* ---- slow GPUs ---- */

struct slow_gpu {
    int rank, gpu;
    const char *host, *role;
    double compute_us, slowdown;
};

#define SLOW_GPU(name) BB_SHOWS(struct slow_gpu, name)
static const struct bb_field slow_fields[] = {
    {"rank", "# slow: rank ", "", 0, 0, SLOW_GPU(rank)},
    {"host", " (", "", 0, 0, SLOW_GPU(host)},
    {"gpu", ", GPU ", ")", 0, 0, SLOW_GPU(gpu)},
    {"role", ", ", "", 0, 0, SLOW_GPU(role)},
    {"compute_us", ": kernels take ", "", 0, 0, SLOW_GPU(compute_us), .form = BB_FORM_TIME},
    {"slowdown", ", ", " x the typical time of the role\n", 0, 2, SLOW_GPU(slowdown)},
    {0},
};

/* Returns the slow ranks of all roles, the slowest rank last, and their number; released by the caller. Ranks that
 * share a GPU are not judged. single: out, number of ranks that are not judged because no other rank has their role */
static struct slow_gpu *list_slow(const struct bb_run_report *r, size_t *n, int *single)
{
    const struct bb_session *s = r->session;
    const struct bb_rank_breakdown *traced = r->measured->traced;
    struct slow_gpu *list = NULL;
    double *us;

    *n = 0;
    *single = 0;
    BB_NEW(us, s->world.size);
    for (int role = 0; traced && !s->shared_gpu && role < r->step->n_roles; role++) {
        size_t members = 0;
        double typical_us;

        for (int i = 0; i < s->world.size; i++)
            if (r->step->role_of[i] == role)
                us[members++] = traced[i].compute_us;
        *single += members == 1 && s->world.size > 1;
        bb_sort_doubles(us, members);
        typical_us = bb_stats_typical(us, members, SLOW);
        for (int i = 0; i < s->world.size; i++) {
            struct slow_gpu gpu = {i,
                                   s->devices[i].ordinal,
                                   s->world.hosts[i],
                                   r->step->roles[role].name,
                                   traced[i].compute_us,
                                   traced[i].compute_us / typical_us};

            if (r->step->role_of[i] != role || !(gpu.slowdown > SLOW))
                continue;
            BB_GROW(list, *n);
            list[(*n)++] = gpu;
            if (*n > 1 && list[*n - 2].slowdown > gpu.slowdown) {
                list[*n - 1] = list[*n - 2];
                list[*n - 2] = gpu;
            }
        }
    }
    free(us);
    return list;
}

json_t *bb_run_slow_json(const struct bb_run_report *r)
{
    int single;
    size_t n;
    struct slow_gpu *list = list_slow(r, &n, &single);
    json_t *json = bb_table_list(slow_fields, list, n, sizeof(*list));

    free(list);
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

void bb_run_culprit_print(const struct bb_run_report *r, FILE *out)
{
    const int late = r->waiting->n > 0 ? r->waiting->late_rank : BB_NONE;
    int single;
    size_t n;
    struct slow_gpu *list = list_slow(r, &n, &single);

    if (single > 0 && (r->full || (n == 0 && late == BB_NONE)))
        fprintf(
            out,
            "# GPUs not judged as slow or not: %d of %d ranks, because no other rank has their role; to judge them: "
            "more ranks (replicas)\n",
            single, r->session->world.size);
    if (n > MAX_NAMED)
        fprintf(out, "# slow: %zu of %d ranks, the slowest last:\n", n, r->session->world.size);
    for (size_t i = n > MAX_NAMED ? n - MAX_NAMED : 0; i < n; i++)
        bb_table_sentence(out, slow_fields, &list[i]);
    if (n == 0 && late != BB_NONE)
        fprintf(out, "# late: rank %d (%s, GPU %d), %s: the other ranks of the role wait for it\n", late,
                r->session->world.hosts[late], r->session->devices[late].ordinal,
                r->step->roles[r->step->role_of[late]].name);
    free(list);
}
