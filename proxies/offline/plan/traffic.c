/* traffic.c - counts the traffic of each rank, and combines ranks with equal traffic into roles; see traffic.h. */
#include "proxies/offline/plan/traffic.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/key_index.h"

#include <stdlib.h>
#include <string.h>

size_t bb_traffic_memory(const struct bb_traffic_role *role)
{
    size_t total = role->work_bytes;

    for (int use = 0; use < BB_USES; use++)
        total += role->memory_bytes[use];
    return total;
}

/* ---- traffic of one rank ---- */

/*
 * State while the traffic of one rank is counted. A row of the traffic table (struct bb_traffic_row) sums all
 * operations of the same kind, group, data type and element count. `rows` and `peers` are hash indices because linear
 * searches would be slow: an alltoallv may add thousands of rows, and a parameter server has thousands of peers.
 */
struct counting {
    const struct bb_layout *layout;
    int rank;
    struct bb_traffic_role *role;
    struct bb_key_index rows;  /* maps kind, group, data type and element count (struct row_key) to the index of the
                                  row in the traffic table */
    struct bb_key_index peers; /* maps a row of the traffic table and a peer (struct peer_key) to an index in calls[] */
    size_t *calls;             /* [peers.n] number of calls for each pair of row and peer */
    struct bb_key_index alltoallv; /* distinct alltoallv operations of the program; maps struct alltoallv_key to an
                                      index in repeats[] */
    size_t *repeats;        /* [alltoallv.n] number of executions of each distinct alltoallv; 0 after its messages are
                               counted */
    struct bb_op *messages; /* temporary list of the sends and receives of one alltoallv */
    int n_messages;
};

struct row_key {
    int kind, coll, group, dtype;
    size_t count;
};

struct peer_key {
    int row, offset;
};

struct alltoallv_key {
    const struct bb_alltoallv *table;
    size_t count;
    int comm, dtype, own, reversed;
};

static int find_row(struct counting *c, const struct bb_layout *l, const struct bb_op *op)
{
    struct bb_traffic_role *role = c->role;
    const int group = l->comms[op->comm].group;
    const struct row_key key = {.kind = (int)op->kind,
                                .coll = op->kind == BB_OP_COLLECTIVE ? (int)op->coll : 0,
                                .group = group,
                                .dtype = (int)op->dtype,
                                .count = op->count};
    int row = bb_key_index_add(&c->rows, &key);

    if (row < role->n_rows)
        return row;
    BB_GROW(role->rows, role->n_rows);
    role->rows[role->n_rows++] = (struct bb_traffic_row){.kind = op->kind,
                                                         .coll = op->coll,
                                                         .group = group,
                                                         .group_size = l->groups[group].size,
                                                         .count = op->count,
                                                         .dtype = op->dtype};
    return row;
}

static void count_peer(struct counting *c, int row, int offset, size_t times)
{
    const struct peer_key key = {row, offset};
    int known = c->peers.n, peer = bb_key_index_add(&c->peers, &key);

    if (peer == known) {
        BB_GROW(c->calls, known);
        c->calls[peer] = 0;
    }
    c->calls[peer] += times;
}

/* Adds `times` executions of a collective, send or receive to its row of the traffic table, and to the call counts
 * of the row's peers. */
static void count_calls(struct counting *c, const struct bb_op *op, size_t times)
{
    const int number = find_row(c, c->layout, op);
    struct bb_traffic_row *row = &c->role->rows[number];

    row->calls += times;
    row->bytes += times * bb_op_payload_bytes(op, row->group_size);
    if (op->kind == BB_OP_COLLECTIVE)
        return;
    count_peer(c, number,
               op->peer_kind == BB_PEER_OFFSET ? op->peer : op->peer - bb_group_index(c->layout, row->group, c->rank),
               times);
}

/* ---- alltoallv: many micro-batches execute the same alltoallv, so its messages are listed only once ---- */

static int find_alltoallv(struct counting *c, const struct bb_op *op)
{
    struct alltoallv_key key;

    memset(&key, 0, sizeof(key));
    key.table = op->table;
    key.count = op->count;
    key.comm = op->comm;
    key.dtype = (int)op->dtype;
    key.own = op->peer;
    key.reversed = op->reversed;
    return bb_key_index_add(&c->alltoallv, &key);
}

static void count_repeats(struct counting *c, const struct bb_program *p)
{
    for (size_t i = 0; i < p->n_ops; i++) {
        const struct bb_op *op = &p->ops[i];
        int known = c->alltoallv.n, which;

        if (op->kind != BB_OP_ALLTOALLV)
            continue;
        which = find_alltoallv(c, op);
        if (which == known) {
            BB_GROW(c->repeats, known);
            c->repeats[which] = 0;
        }
        c->repeats[which]++;
        c->n_messages = 2 * op->table->n > c->n_messages ? 2 * op->table->n : c->n_messages;
    }
    BB_NEW(c->messages, c->n_messages);
}

static void count_alltoallv(struct counting *c, const struct bb_op *op)
{
    const int which = find_alltoallv(c, op);
    const int n = c->repeats[which] > 0 ? bb_alltoallv_messages(op, c->messages) : 0;

    for (int m = 0; m < n; m++)
        count_calls(c, &c->messages[m], c->repeats[which]);
    c->repeats[which] = 0;
}

static void count_op(struct counting *c, const struct bb_op *op)
{
    if (op->kind == BB_OP_ALLTOALLV)
        count_alltoallv(c, op);
    else if (bb_op_is_comm(op))
        count_calls(c, op, 1);
    c->role->compute_us += op->compute_us; /* 0 for communication */
    c->role->flops += op->flops;
}

/* Appends each peer to the peer list of its row in the traffic table, in the order of first occurrence. */
static void list_peers(struct counting *c)
{
    const struct peer_key *keys = (const void *)c->peers.keys;

    for (int p = 0; p < c->peers.n; p++) {
        struct bb_traffic_row *row = &c->role->rows[keys[p].row];

        BB_GROW(row->peers, row->n_peers);
        row->peers[row->n_peers++] = (struct bb_traffic_peer){keys[p].offset, c->calls[p]};
    }
}

static void release_role(struct bb_traffic_role *role)
{
    for (int i = 0; i < role->n_rows; i++)
        free(role->rows[i].peers);
    free(role->rows);
    free(role->ranks);
    *role = (struct bb_traffic_role){0};
}

static void count_rank(const struct bb_step *step, int rank, struct bb_traffic_role *role)
{
    const struct bb_program *p = bb_step_program(step, rank);
    struct counting c = {.layout = &step->layout,
                         .rank = rank,
                         .role = role,
                         .rows = {.key_bytes = sizeof(struct row_key)},
                         .peers = {.key_bytes = sizeof(struct peer_key)},
                         .alltoallv = {.key_bytes = sizeof(struct alltoallv_key)}};

    *role = (struct bb_traffic_role){.name = step->roles[step->role_of[rank]].name, .program = p};
    count_repeats(&c, p);
    for (size_t i = 0; i < p->n_ops; i++)
        count_op(&c, &p->ops[i]);
    list_peers(&c);
    for (int use = 0; use < BB_USES; use++)
        role->memory_bytes[use] = bb_program_bytes(p, (enum bb_buffer_use)use);
    memcpy(role->training_bytes, step->roles[step->role_of[rank]].training_bytes, sizeof(role->training_bytes));
    role->work_bytes = bb_program_work_bytes(p);
    bb_key_index_release(&c.rows);
    bb_key_index_release(&c.peers);
    bb_key_index_release(&c.alltoallv);
    free(c.calls);
    free(c.repeats);
    free(c.messages);
}

/* ---- combining ranks with equal traffic into roles ---- */

static bool same_row(const struct bb_traffic_row *a, const struct bb_traffic_row *b)
{
    if (a->kind != b->kind || a->coll != b->coll || a->group != b->group || a->count != b->count ||
        a->dtype != b->dtype || a->calls != b->calls || a->n_peers != b->n_peers)
        return false;
    for (int i = 0; i < a->n_peers; i++)
        if (a->peers[i].offset != b->peers[i].offset || a->peers[i].calls != b->peers[i].calls)
            return false;
    return true;
}

static bool same_traffic(const struct bb_traffic_role *a, const struct bb_traffic_role *b)
{
    if (a->n_rows != b->n_rows || a->compute_us != b->compute_us || a->flops != b->flops ||
        memcmp(a->memory_bytes, b->memory_bytes, sizeof(a->memory_bytes)) != 0 || a->work_bytes != b->work_bytes ||
        memcmp(a->training_bytes, b->training_bytes, sizeof(a->training_bytes)) != 0)
        return false;
    for (int i = 0; i < a->n_rows; i++)
        if (!same_row(&a->rows[i], &b->rows[i]))
            return false;
    return true;
}

/*
 * Returns a hash of a role's traffic. Roles with different hashes have different traffic, so only roles with equal
 * hashes need the expensive comparison.
 */
static uint64_t digest_of(const struct bb_traffic_role *role)
{
    uint64_t digest = (uint64_t)role->n_rows;

    for (int r = 0; r < role->n_rows; r++) {
        const struct bb_traffic_row *row = &role->rows[r];

        digest = (digest ^ row->count ^ row->calls << 40) * 0x9e3779b97f4a7c15u;
        for (int i = 0; i < row->n_peers; i++)
            digest = (digest ^ (uint64_t)row->peers[i].offset ^ row->peers[i].calls << 32) * 0x9e3779b97f4a7c15u;
    }
    return digest;
}

/*
 * State while ranks are combined into the roles of the plan. Ranks are first put into classes: the ranks of a class
 * have the same step role (the program that the builder of the step assigned) and, for each communicator with
 * operations that address peers by absolute rank, the same rank in this communicator. Their traffic is therefore equal,
 * and only the first rank of each class is counted. Classes with equal traffic then form one role of the plan.
 */
struct grouping {
    const struct bb_step *step;
    struct bb_traffic *traffic;
    uint32_t *absolute; /* [n_roles] bit c is set when the step role's program addresses peers on communicator c by
                           absolute rank */
    /* finds the classes of ranks with equal traffic. Keys: int[1 + n_comms]: the step role, then the rank in each
     * communicator whose peers are addressed by absolute rank (0 for other communicators) */
    struct bb_key_index classes;
    int *class_role;     /* [classes.n] index of the plan's role that contains the class */
    uint64_t *digests;   /* [traffic.n] hash of the traffic of each role of the plan */
    bool split_programs; /* true: ranks with different programs get different roles */
};

static void find_absolute_peers(struct grouping *g)
{
    for (int r = 0; r < g->step->n_roles; r++) {
        const struct bb_program *p = &g->step->roles[r].program;

        for (size_t i = 0; i < p->n_ops; i++)
            if (p->ops[i].kind == BB_OP_ALLTOALLV || ((p->ops[i].kind == BB_OP_SEND || p->ops[i].kind == BB_OP_RECV) &&
                                                      p->ops[i].peer_kind == BB_PEER_ABSOLUTE))
                g->absolute[r] |= 1u << p->ops[i].comm;
    }
}

static int find_class(struct grouping *g, int rank)
{
    const struct bb_layout *l = &g->step->layout;
    int role = g->step->role_of[rank], key[1 + BB_MAX_COMMS] = {role};

    for (int c = 0; c < l->n_comms && g->absolute[role]; c++)
        if (g->absolute[role] & 1u << c)
            key[1 + c] = bb_group_index(l, l->comms[c].group, rank);
    return bb_key_index_add(&g->classes, key);
}

/*
 * Finds the role of the plan whose traffic equals that of `rank`, or adds a new role to the plan. Returns the index of
 * the role.
 *   rank   first rank of a class of ranks with equal traffic
 */
static int add_role(struct grouping *g, int rank)
{
    struct bb_traffic *t = g->traffic;
    struct bb_traffic_role role;
    uint64_t digest;

    count_rank(g->step, rank, &role);
    digest = digest_of(&role);
    for (int known = 0; known < t->n; known++)
        if (g->digests[known] == digest && same_traffic(&t->roles[known], &role) &&
            !(g->split_programs && t->roles[known].program != role.program)) {
            release_role(&role);
            return known;
        }
    BB_GROW(t->roles, t->n);
    BB_GROW(g->digests, t->n);
    g->digests[t->n] = digest;
    t->roles[t->n] = role;
    return t->n++;
}

static void find_roles(struct grouping *g)
{
    struct bb_traffic_role *role;

    for (int r = 0; r < g->step->layout.ranks; r++) {
        int known = g->classes.n, class_id = find_class(g, r);

        if (class_id == known) {
            BB_GROW(g->class_role, known);
            g->class_role[class_id] = add_role(g, r);
        }
        role = &g->traffic->roles[g->class_role[class_id]];
        BB_GROW(role->ranks, role->n_ranks);
        role->ranks[role->n_ranks++] = r;
    }
}

void bb_traffic_init(struct bb_traffic *t, const struct bb_step *step, bool split_programs)
{
    struct grouping g = {.step = step,
                         .traffic = t,
                         .classes = {.key_bytes = sizeof(int) * (size_t)(1 + step->layout.n_comms)},
                         .split_programs = split_programs};

    *t = (struct bb_traffic){0};
    BB_NEW(g.absolute, step->n_roles);
    find_absolute_peers(&g);
    find_roles(&g);
    free(g.absolute);
    bb_key_index_release(&g.classes);
    free(g.class_role);
    free(g.digests);
}

void bb_traffic_release(struct bb_traffic *t)
{
    for (int i = 0; i < t->n; i++)
        release_role(&t->roles[i]);
    free(t->roles);
    *t = (struct bb_traffic){0};
}

#define SHOWS(name) BB_SHOWS(struct bb_traffic_shown, name)
const struct bb_field bb_traffic_fields[] = {
    {"kind", "kind", "", 14, 0, SHOWS(kind), .form = BB_FORM_LEFT},
    {"group", "group", "", 10, 0, SHOWS(group), .form = BB_FORM_LEFT},
    {"group_size", "ranks", "", 5, 0, SHOWS(of.group_size)},
    {"count", "count", "", 13, 0, SHOWS(of.count), .form = BB_FORM_THOUSANDS},
    {"dtype", "type", "", 8, 0, SHOWS(dtype), .form = BB_FORM_LEFT},
    {"calls", "calls", "", 6, 0, SHOWS(of.calls)},
    {"call_bytes", "size", "", 10, 0, SHOWS(call_bytes), .form = BB_FORM_BYTES},
    {"bytes", "payload", "", 10, 0, SHOWS(of.bytes), .form = BB_FORM_BYTES},
    {"peers", SHOWS(peers)},
    {0},
};

struct bb_traffic_shown bb_traffic_show(const struct bb_layout *layout, const struct bb_traffic_row *row)
{
    return (struct bb_traffic_shown){.kind = bb_op_kind_name(row->kind, row->coll),
                                     .group = layout->groups[row->group].name,
                                     .dtype = bb_dtypes[row->dtype].name,
                                     .call_bytes = row->bytes / (row->calls ? row->calls : 1),
                                     .of = *row};
}
