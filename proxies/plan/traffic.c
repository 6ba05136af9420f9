/* traffic.c - counts programs and puts ranks that move the same together (see traffic.h). */
#include "proxies/plan/traffic.h"

#include <stdlib.h>
#include <string.h>

const char *bb_traffic_kind(const struct bb_traffic_row *row)
{
    if (row->kind == BB_OP_COLLECTIVE)
        return bb_colls[row->coll].name;
    return row->kind == BB_OP_SEND ? "send" : "recv";
}

size_t bb_traffic_memory(const struct bb_traffic_role *role)
{
    size_t total = role->work_bytes;

    for (int use = 0; use < BB_USES; use++)
        total += role->memory_bytes[use];
    return total;
}

/* ---- one rank ---- */

static int no_memory(void)
{
    return bb_err(BB_EFAIL, "out of memory for the traffic of a step");
}

static bool belongs(const struct bb_traffic_row *row, const struct bb_op *op, int group)
{
    return row->kind == op->kind && row->group == group && row->count == op->count && row->dtype == op->dtype &&
           (op->kind != BB_OP_COLLECTIVE || row->coll == op->coll);
}

/* A role while it is counted, with its rows by what belongs to them: uneven exchanges have thousands. */
struct counting {
    struct bb_traffic_role *role;
    int *slots; /* [n_slots, a power of two] a row, BB_NONE: free */
    size_t n_slots;
    struct peer_cell *cells; /* [n_cells, a power of two] the peers of all rows: a parameter server has thousands */
    size_t n_cells, n_peers;
};

struct peer_cell {
    int row, peer; /* peer: of the row, counted from 1; 0: free */
};

static size_t slot_of(const struct counting *c, enum bb_op_kind kind, enum bb_coll_kind coll, int group, size_t count)
{
    uint64_t h = ((uint64_t)count * 64 + (uint64_t)group) * 8 + (uint64_t)kind;

    h = (h ^ (kind == BB_OP_COLLECTIVE ? (uint64_t)coll << 32 : 0)) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32) & (c->n_slots - 1);
}

/* Room for one more row, at most half full. */
static int widen(struct counting *c)
{
    size_t wanted = c->n_slots ? 2 * c->n_slots : 64;
    int *bigger;

    if (2 * (size_t)c->role->n_rows < c->n_slots)
        return 0;
    bigger = malloc(sizeof(int) * wanted);
    if (!bigger)
        return -BB_EFAIL;
    free(c->slots);
    c->slots = bigger;
    c->n_slots = wanted;
    for (size_t i = 0; i < wanted; i++)
        bigger[i] = BB_NONE;
    for (int r = 0; r < c->role->n_rows; r++) {
        const struct bb_traffic_row *row = &c->role->rows[r];
        size_t slot = slot_of(c, row->kind, row->coll, row->group, row->count);

        while (bigger[slot] != BB_NONE)
            slot = (slot + 1) & (wanted - 1);
        bigger[slot] = r;
    }
    return 0;
}

static struct bb_traffic_row *row_for(struct counting *c, const struct bb_layout *l, const struct bb_op *op)
{
    struct bb_traffic_role *role = c->role;
    struct bb_traffic_row *bigger;
    int group = l->comms[op->comm].group;
    size_t slot;

    if (widen(c))
        return NULL;
    slot = slot_of(c, op->kind, op->coll, group, op->count);
    for (; c->slots[slot] != BB_NONE; slot = (slot + 1) & (c->n_slots - 1))
        if (belongs(&role->rows[c->slots[slot]], op, group))
            return &role->rows[c->slots[slot]];
    bigger = realloc(role->rows, sizeof(*bigger) * (size_t)(role->n_rows + 1));
    if (!bigger)
        return NULL;
    role->rows = bigger;
    bigger[role->n_rows] = (struct bb_traffic_row){.kind = op->kind,
                                                   .coll = op->coll,
                                                   .group = group,
                                                   .group_size = l->groups[group].size,
                                                   .count = op->count,
                                                   .dtype = op->dtype};
    c->slots[slot] = role->n_rows;
    return &role->rows[role->n_rows++];
}

static struct peer_cell *cell_of(const struct counting *c, int row, int offset)
{
    uint64_t h = ((uint64_t)(uint32_t)offset << 20 ^ (uint64_t)row) * 0x9e3779b97f4a7c15u;
    size_t cell = (size_t)(h >> 32) & (c->n_cells - 1);

    while (c->cells[cell].peer &&
           (c->cells[cell].row != row || c->role->rows[row].peers[c->cells[cell].peer - 1].offset != offset))
        cell = (cell + 1) & (c->n_cells - 1);
    return &c->cells[cell];
}

/* Room for one more peer, at most half full. */
static int widen_cells(struct counting *c)
{
    if (2 * c->n_peers < c->n_cells)
        return 0;
    free(c->cells);
    c->n_cells = c->n_cells ? 2 * c->n_cells : 64;
    c->cells = calloc(c->n_cells, sizeof(*c->cells));
    if (!c->cells)
        return no_memory();
    for (int r = 0; r < c->role->n_rows; r++)
        for (int i = 0; i < c->role->rows[r].n_peers; i++)
            *cell_of(c, r, c->role->rows[r].peers[i].offset) = (struct peer_cell){r, i + 1};
    return 0;
}

static int count_peer(struct counting *c, struct bb_traffic_row *row, const struct bb_op *op, int index)
{
    int offset = op->peer_kind == BB_PEER_OFFSET ? op->peer : op->peer - index, number = (int)(row - c->role->rows), rc;
    struct bb_traffic_peer *bigger;
    struct peer_cell *cell;

    rc = widen_cells(c);
    if (rc)
        return rc;
    cell = cell_of(c, number, offset);
    if (cell->peer) {
        row->peers[cell->peer - 1].calls++;
        return 0;
    }
    bigger = realloc(row->peers, sizeof(*bigger) * (size_t)(row->n_peers + 1));
    if (!bigger)
        return no_memory();
    row->peers = bigger;
    bigger[row->n_peers++] = (struct bb_traffic_peer){offset, 1};
    *cell = (struct peer_cell){number, row->n_peers};
    c->n_peers++;
    return 0;
}

static int count_op(struct counting *c, const struct bb_layout *l, const struct bb_op *op, int rank)
{
    struct bb_traffic_row *row;

    if (!bb_op_is_comm(op)) {
        c->role->compute_us += op->compute_us;
        c->role->flops += op->flops;
        return 0;
    }
    row = row_for(c, l, op);
    if (!row)
        return no_memory();
    row->calls++;
    row->bytes += bb_op_payload_bytes(op, row->group_size);
    return op->kind == BB_OP_COLLECTIVE ? 0 : count_peer(c, row, op, bb_group_index(l, row->group, rank));
}

static void release_role(struct bb_traffic_role *role)
{
    for (int i = 0; i < role->n_rows; i++)
        free(role->rows[i].peers);
    free(role->rows);
    free(role->ranks);
    *role = (struct bb_traffic_role){0};
}

static int count_rank(const struct bb_step *step, int rank, struct bb_traffic_role *role)
{
    const struct bb_program *p = bb_step_program(step, rank);
    struct counting c = {.role = role};
    int rc = 0;

    *role = (struct bb_traffic_role){.name = step->roles[step->role_of[rank]].name, .program = p};
    for (size_t i = 0; i < p->n_ops; i++)
        TRY(count_op(&c, &step->layout, &p->ops[i], rank));
    for (int use = 0; use < BB_USES; use++)
        role->memory_bytes[use] = bb_program_bytes(p, (enum bb_buffer_use)use);
    memcpy(role->training_bytes, step->roles[step->role_of[rank]].training_bytes, sizeof(role->training_bytes));
    role->work_bytes = bb_program_work_bytes(p);
out:
    free(c.slots);
    free(c.cells);
    if (rc)
        release_role(role);
    return rc;
}

/* ---- roles with the same traffic ---- */

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

/* A role of the plan per builder's role, except where peers are absolute: there each place in the communicators has
 * rows of its own. A seat is what ranks share that are alike in both; the first of them speaks for it. */
struct seat {
    int rank, role; /* rank BB_NONE: free; role of the plan */
};

struct sorting {
    const struct bb_step *step;
    struct bb_traffic *traffic;
    uint32_t *by_index; /* [n_roles] bit c: the role's peers on communicator c are absolute */
    struct seat *seats; /* [n_seats, a power of two], by hash                               */
    size_t n_seats;
    int *role_of; /* [ranks] of the plan */
    bool apart;   /* other programs, other roles */
};

static bool same_seat(const struct sorting *s, int a, int b)
{
    const struct bb_layout *l = &s->step->layout;
    int role = s->step->role_of[a];

    if (role != s->step->role_of[b])
        return false;
    for (int c = 0; c < l->n_comms; c++)
        if (s->by_index[role] & 1u << c &&
            bb_group_index(l, l->comms[c].group, a) != bb_group_index(l, l->comms[c].group, b))
            return false;
    return true;
}

static struct seat *seat_of(const struct sorting *s, int rank)
{
    const struct bb_layout *l = &s->step->layout;
    int role = s->step->role_of[rank];
    uint64_t h = (uint64_t)role + 1;
    size_t slot;

    for (int c = 0; c < l->n_comms; c++)
        if (s->by_index[role] & 1u << c)
            h = h * 0x9e3779b97f4a7c15u + (uint64_t)(bb_group_index(l, l->comms[c].group, rank) + 1);
    slot = (size_t)((h * 0x9e3779b97f4a7c15u) >> 32) & (s->n_seats - 1);
    while (s->seats[slot].rank != BB_NONE && !same_seat(s, s->seats[slot].rank, rank))
        slot = (slot + 1) & (s->n_seats - 1);
    return &s->seats[slot];
}

static void find_absolute_peers(struct sorting *s)
{
    for (int r = 0; r < s->step->n_roles; r++) {
        const struct bb_program *p = &s->step->roles[r].program;

        for (size_t i = 0; i < p->n_ops; i++)
            if ((p->ops[i].kind == BB_OP_SEND || p->ops[i].kind == BB_OP_RECV) &&
                p->ops[i].peer_kind == BB_PEER_ABSOLUTE)
                s->by_index[r] |= 1u << p->ops[i].comm;
    }
}

/* At most half full, however many ranks are alone on their seats. */
static int make_seats(struct sorting *s)
{
    int ranks = s->step->layout.ranks;

    for (s->n_seats = 16; s->n_seats < 2 * (size_t)ranks;)
        s->n_seats *= 2;
    s->by_index = calloc((size_t)s->step->n_roles + 1, sizeof(*s->by_index));
    s->seats = malloc(s->n_seats * sizeof(*s->seats));
    s->role_of = malloc(((size_t)ranks + 1) * sizeof(*s->role_of));
    if (!s->by_index || !s->seats || !s->role_of)
        return no_memory();
    for (size_t i = 0; i < s->n_seats; i++)
        s->seats[i] = (struct seat){BB_NONE, BB_NONE};
    find_absolute_peers(s);
    return 0;
}

/* The plan's role of a rank whose seat is seen for the first time. */
static int settle(struct sorting *s, int rank, int *which)
{
    struct bb_traffic_role role, *bigger;
    int rc = count_rank(s->step, rank, &role);

    if (rc)
        return rc;
    for (*which = 0; *which < s->traffic->n; (*which)++)
        if (same_traffic(&s->traffic->roles[*which], &role) &&
            !(s->apart && s->traffic->roles[*which].program != role.program)) {
            release_role(&role);
            return 0;
        }
    bigger = realloc(s->traffic->roles, sizeof(*bigger) * (size_t)(s->traffic->n + 1));
    if (!bigger) {
        release_role(&role);
        return no_memory();
    }
    s->traffic->roles = bigger;
    bigger[s->traffic->n++] = role;
    return 0;
}

static int list_ranks(struct sorting *s)
{
    struct bb_traffic *t = s->traffic;
    int rc = 0;

    for (int r = 0; r < s->step->layout.ranks; r++) {
        struct seat *seat = seat_of(s, r);

        if (seat->rank == BB_NONE)
            TRY(settle(s, r, &seat->role));
        seat->rank = seat->rank == BB_NONE ? r : seat->rank;
        s->role_of[r] = seat->role;
        t->roles[seat->role].n_ranks++;
    }
    for (int i = 0; i < t->n; i++) {
        t->roles[i].ranks = malloc(sizeof(int) * (size_t)t->roles[i].n_ranks);
        TRY(t->roles[i].ranks ? 0 : no_memory());
        t->roles[i].n_ranks = 0;
    }
    for (int r = 0; r < s->step->layout.ranks; r++) {
        struct bb_traffic_role *role = &t->roles[s->role_of[r]];

        role->ranks[role->n_ranks++] = r;
    }
out:
    return rc;
}

static int sort(struct bb_traffic *t, const struct bb_step *step, bool apart)
{
    struct sorting s = {.step = step, .traffic = t, .apart = apart};
    int rc;

    *t = (struct bb_traffic){0};
    TRY(make_seats(&s));
    TRY(list_ranks(&s));
out:
    free(s.by_index);
    free(s.seats);
    free(s.role_of);
    if (rc)
        bb_traffic_release(t);
    return rc;
}

int bb_traffic_init(struct bb_traffic *t, const struct bb_step *step)
{
    return sort(t, step, false);
}

int bb_traffic_init_apart(struct bb_traffic *t, const struct bb_step *step)
{
    return sort(t, step, true);
}

void bb_traffic_release(struct bb_traffic *t)
{
    for (int i = 0; i < t->n; i++)
        release_role(&t->roles[i]);
    free(t->roles);
    *t = (struct bb_traffic){0};
}
