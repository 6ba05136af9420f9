/* servers.c - builds the programs of workers and parameter servers: workers push gradients, servers update
 * parameters, workers pull parameters (see servers.h). */
#include "proxies/replicas/servers.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>

#define RECEIVE_SETS 2 /* a dedicated server alternates between this number of sets of one receive buffer per worker */

struct chunk {
    size_t count;
    int first_unit, server;
    /* indices, in the role's program, of the buffers for the gradients and for the parameters of the chunk (bucket);
     * BB_NONE: the role (workers, or one server) has no such buffer */
    int gradients, parameters;
    /* Indices of operations in the program of the role (workers, or one server). pushed: the send (worker) or
     * receive (server) of the chunk's gradients; ready: the operation after which the role has the chunk's updated
     * parameters: the pull (worker) or the update (server). */
    int pushed, ready;
    const char *push_what, *pull_what;
};

struct bb_servers {
    struct bb_servers_spec spec;
    struct bb_dp_config policy;
    struct bb_script *script;
    struct bb_script_lane push[BB_SERVER_LANES], pull[BB_SERVER_LANES];
    struct bb_buckets buckets;
    struct bb_gradient_arrival *arrivals;
    struct chunk *chunks;
    int n, next;    /* n: number of chunks (gradient buckets); next: index of the next chunk that the worker pushes to
                       its server */
    int *receive;   /* [RECEIVE_SETS][workers] indices of the receive buffers of a dedicated parameter server; NULL for
                       workers */
    size_t largest; /* number of elements of the largest chunk (gradient bucket) */
};

static bool uses_root(const struct bb_servers *s)
{
    return s->policy.kind == BB_SYNC_PS;
}

static bool is_worker(const struct bb_servers *s)
{
    return uses_root(s) || s->spec.server == BB_NONE;
}

static int count_workers(const struct bb_servers *s)
{
    return s->spec.comms.ranks - s->spec.comms.servers;
}

static bool is_served_here(const struct bb_servers *s, const struct chunk *c)
{
    return s->spec.server != BB_NONE && c->server == s->spec.server;
}

/* ---- communicators for pushes and pulls ---- */

static void add_lane(struct bb_step *step, int group, struct bb_servers_comms *comms, int lane)
{
    const char *push = comms->servers < 2 ? "push" : bb_step_text(step, "push %d", lane);
    const char *pull = comms->servers < 2 ? "pull" : bb_step_text(step, "pull %d", lane);

    comms->push[lane] = bb_layout_add_comm(&step->layout, push, group);
    comms->pull[lane] = bb_layout_add_comm(&step->layout, pull, group);
}

int bb_servers_layout(struct bb_step *step, const struct bb_dp_config *p, int group, struct bb_servers_comms *comms)
{
    int ranks = step->layout.ranks;

    *comms = (struct bb_servers_comms){.ranks = ranks};
    if (p->kind != BB_SYNC_PS)
        comms->servers = p->kind == BB_SYNC_PS_P2P ? 1 : p->servers ? p->servers : 2;
    if (comms->servers >= ranks)
        return bb_err(BB_EUSAGE, "%s: no worker is left: %d rank%s, parameter servers: %d; try: %d ranks%s",
                      step->proxy, ranks, ranks == 1 ? "" : "s", comms->servers, comms->servers + 1,
                      p->kind == BB_SYNC_PS_SHARDED && ranks > 1 ? ", or fewer --servers" : "");
    if (ranks > 1)
        comms->lanes = comms->servers < 1 ? 1 : comms->servers < BB_SERVER_LANES ? comms->servers : BB_SERVER_LANES;
    for (int i = 0; i < comms->lanes; i++)
        add_lane(step, group, comms, i);
    return 0;
}

/* ---- chunks (gradient buckets) and their buffers ---- */

static int first_unit(const struct bb_servers *s, const struct bb_sync_bucket *buckets)
{
    int first = s->spec.n_units;

    for (int i = buckets->first; i < buckets->first + buckets->n; i++) {
        int unit = s->arrivals[s->buckets.members[i]].unit;

        first = unit < first ? unit : first;
    }
    return first;
}

static void describe_chunk(struct bb_servers *s, int index)
{
    int servers = s->spec.comms.servers;
    struct chunk *c = &s->chunks[index];

    *c = (struct chunk){.count = s->buckets.list[index].count,
                        .first_unit = first_unit(s, &s->buckets.list[index]),
                        .server = servers ? index % servers : 0,
                        .gradients = BB_NONE,
                        .parameters = BB_NONE,
                        .pushed = BB_NONE,
                        .ready = BB_NONE,
                        .push_what = bb_step_text(s->spec.step, "gradients %d", index),
                        .pull_what = bb_step_text(s->spec.step, "parameters %d", index)};
    s->largest = c->count > s->largest ? c->count : s->largest;
    s->script->dtype = s->policy.grads;
    if (is_worker(s))
        c->gradients = bb_script_buffer(s->script, "gradients", BB_USE_GRADIENTS, c->count);
    s->script->dtype = s->policy.params;
    if (is_worker(s) || is_served_here(s, c))
        c->parameters = bb_script_buffer(s->script, "parameters", BB_USE_PARAMETERS, c->count);
}

static int make_chunks(struct bb_servers *s)
{
    int n = bb_sync_arrivals(s->spec.units, s->spec.n_units, false, &s->arrivals);
    enum bb_dtype_id dtype = s->script->dtype;

    bb_buckets_make(&s->buckets, &s->policy.rule, s->arrivals, n, bb_dtypes[s->policy.grads].bytes,
                    s->spec.comms.ranks);
    s->n = s->buckets.n;
    if (s->spec.comms.servers > s->n)
        return bb_err(BB_EUSAGE,
                      "%s: %d servers, but only %d chunk%s of gradients; try: --servers %d, or a smaller --bucket-mb",
                      s->spec.step->proxy, s->spec.comms.servers, s->n, s->n == 1 ? "" : "s", s->n);
    BB_NEW(s->chunks, s->n);
    for (int i = 0; i < s->n; i++)
        describe_chunk(s, i);
    s->script->dtype = dtype;
    return 0;
}

static void add_receivers(struct bb_servers *s)
{
    enum bb_dtype_id dtype = s->script->dtype;
    int n = RECEIVE_SETS * count_workers(s);

    if (is_worker(s))
        return;
    BB_NEW(s->receive, n);
    s->script->dtype = s->policy.grads;
    for (int i = 0; i < n; i++)
        s->receive[i] = bb_script_buffer(s->script, "gradients of a worker", BB_USE_COMMUNICATION, s->largest);
    s->script->dtype = dtype;
}

int bb_servers_init(struct bb_servers **servers, const struct bb_servers_spec *spec)
{
    struct bb_servers *s;
    int rc = 0;

    BB_NEW(s, 1);
    *servers = s;
    s->spec = *spec;
    s->policy = *spec->policy;
    s->script = spec->script;
    for (int i = 0; i < spec->comms.lanes; i++)
        if (is_worker(s) || i == spec->server % spec->comms.lanes) {
            s->push[i] = bb_script_lane(s->script, &spec->step->layout, spec->comms.push[i]);
            s->pull[i] = bb_script_lane(s->script, &spec->step->layout, spec->comms.pull[i]);
        }
    TRY(make_chunks(s));
    add_receivers(s);
out:
    return rc;
}

void bb_servers_release(struct bb_servers *s)
{
    if (!s)
        return;
    bb_buckets_release(&s->buckets);
    free(s->arrivals);
    free(s->chunks);
    free(s->receive);
    free(s);
}

static int lane_of(const struct bb_servers *s, const struct chunk *c)
{
    return c->server % s->spec.comms.lanes;
}

/* ---- pushes of gradients and pulls of parameters ---- */

static void set_labels(struct bb_servers *s, enum bb_phase phase)
{
    s->script->phase = phase;
    s->script->dtype = phase == BB_PHASE_GRADIENTS ? s->policy.grads : s->policy.params;
}

static void push_chunk(struct bb_servers *s, struct chunk *c)
{
    set_labels(s, BB_PHASE_GRADIENTS);
    if (s->spec.comms.lanes == 0)
        return;
    c->pushed = uses_root(s) ? bb_script_rooted_collective(s->script, s->push[lane_of(s, c)], c->push_what, BB_REDUCE,
                                                           0, c->count, c->gradients, c->gradients)
                             : bb_script_send(s->script, s->push[lane_of(s, c)], c->push_what, c->server, c->count,
                                              c->gradients);
}

static void pull_chunk(struct bb_servers *s, struct chunk *c)
{
    set_labels(s, BB_PHASE_OPTIMIZER);
    if (s->spec.comms.lanes == 0)
        return;
    c->ready = uses_root(s) ? bb_script_rooted_collective(s->script, s->pull[lane_of(s, c)], c->pull_what, BB_BROADCAST,
                                                          0, c->count, c->parameters, c->parameters)
                            : bb_script_recv(s->script, s->pull[lane_of(s, c)], c->pull_what, c->server, c->count,
                                             c->parameters);
}

static void update_chunk(struct bb_servers *s, struct chunk *c)
{
    set_labels(s, BB_PHASE_OPTIMIZER);
    bb_sync_memory_kernel(
        s->script, s->spec.step, "update",
        &(struct bb_script_memory_kernel){
            .kind = s->policy.optimizer, .count = c->count, .times = 1, .src = BB_NONE, .dst = c->parameters});
}

/* Adds the operations by which a server receives one chunk (gradient bucket) from all workers and sums their
 * gradients. buffers: [workers] indices of the receive buffers. Returns the index of the last operation added. */
static int collect_chunk(struct bb_servers *s, struct chunk *c, const int *buffers)
{
    set_labels(s, BB_PHASE_GRADIENTS);
    bb_script_group_start(s->script);
    for (int w = 0; w < count_workers(s); w++)
        c->pushed = bb_script_recv(s->script, s->push[lane_of(s, c)], c->push_what, s->spec.comms.servers + w, c->count,
                                   buffers[w]);
    bb_script_group_end(s->script);
    bb_script_wait(s->script, c->pushed);
    bb_sync_memory_kernel(s->script, s->spec.step, "sum",
                          &(struct bb_script_memory_kernel){.kind = BB_MEMORY_KERNEL_ACCUMULATE,
                                                            .count = c->count,
                                                            .times = count_workers(s),
                                                            .src = buffers[0],
                                                            .dst = BB_NONE});
    return (int)s->script->program->n_ops - 1;
}

static void write_server(struct bb_servers *s)
{
    int emptied[RECEIVE_SETS] = {BB_NONE, BB_NONE}, set = 0;

    for (int i = 0; i < s->n; i++) {
        if (!is_served_here(s, &s->chunks[i]))
            continue;
        bb_script_new_thread(s->script, emptied[set]);
        emptied[set] = collect_chunk(s, &s->chunks[i], &s->receive[set * count_workers(s)]);
        update_chunk(s, &s->chunks[i]);
        s->chunks[i].ready = (int)s->script->program->n_ops - 1;
        set = (set + 1) % RECEIVE_SETS;
    }
    for (int i = 0; i < s->n; i++) {
        if (!is_served_here(s, &s->chunks[i]))
            continue;
        bb_script_new_thread(s->script, s->chunks[i].ready);
        bb_script_group_start(s->script);
        for (int w = 0; w < count_workers(s); w++)
            (void)bb_script_send(s->script, s->pull[lane_of(s, &s->chunks[i])], s->chunks[i].pull_what,
                                 s->spec.comms.servers + w, s->chunks[i].count, s->chunks[i].parameters);
        bb_script_group_end(s->script);
    }
}

/* ---- functions that the builder of the training step calls ---- */

void bb_servers_after_backward(struct bb_servers *s, int unit)
{
    struct bb_script before = *s->script;

    s->script->peer_kind = BB_PEER_ABSOLUTE;
    for (; !s->policy.no_overlap && s->next < s->n && s->chunks[s->next].first_unit >= unit; s->next++)
        push_chunk(s, &s->chunks[s->next]);
    s->script->peer_kind = before.peer_kind;
    s->script->phase = before.phase;
    s->script->dtype = before.dtype;
}

void bb_servers_finish_step(struct bb_servers *s)
{
    struct bb_script before = *s->script;

    s->script->peer_kind = BB_PEER_ABSOLUTE;
    if (!is_worker(s))
        write_server(s);
    for (; is_worker(s) && s->next < s->n; s->next++)
        push_chunk(s, &s->chunks[s->next]);
    for (int i = 0; is_worker(s) && i < s->n; i++) {
        if (is_served_here(s, &s->chunks[i])) {
            bb_script_wait(s->script, s->chunks[i].pushed);
            update_chunk(s, &s->chunks[i]);
        }
        pull_chunk(s, &s->chunks[i]);
    }
    s->script->peer_kind = before.peer_kind;
    s->script->phase = before.phase;
    s->script->dtype = before.dtype;
}

/* ---- training memory of a worker or server ---- */

void bb_servers_memory(const struct bb_servers *s, double bytes[BB_USES])
{
    const struct bb_sync_comms alone = {.n = 1};
    double all[BB_USES] = {0}, part[BB_USES] = {0}, total = 0, own = 0;

    for (int i = 0; i < s->n; i++) {
        total += (double)s->chunks[i].count;
        own += is_served_here(s, &s->chunks[i]) ? (double)s->chunks[i].count : 0;
    }
    bb_sync_memory(&s->policy, &alone, total, all);
    bb_sync_memory(&s->policy, &alone, own, part);
    bytes[BB_USE_PARAMETERS] += is_worker(s) ? all[BB_USE_PARAMETERS] : part[BB_USE_PARAMETERS];
    bytes[BB_USE_GRADIENTS] += is_worker(s) ? all[BB_USE_GRADIENTS] : 0;
    bytes[BB_USE_OPTIMIZER] += part[BB_USE_OPTIMIZER];
    if (!is_worker(s))
        bytes[BB_USE_COMMUNICATION] +=
            (double)RECEIVE_SETS * count_workers(s) * (double)s->largest * bb_dtypes[s->policy.grads].bytes;
}
