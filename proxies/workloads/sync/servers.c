/* servers.c - parameter servers: workers push gradients, servers update parameters, workers pull parameters (see
 * sync.h). */
#include "proxies/workloads/sync/sync_state.h"

#include "bootstrap/base/alloc.h"

#include <sys/param.h>

#define RECEIVE_SETS 2 /* a dedicated server alternates between this number of sets of one receive buffer per worker */

static bool is_worker(const struct bb_sync *s)
{
    return s->policy.kind == BB_SYNC_PS || s->spec.server == BB_NONE;
}

static int count_workers(const struct bb_sync *s)
{
    return s->spec.comms.n - s->spec.comms.servers;
}

static int server_of(const struct bb_sync *s, int b)
{
    return b % MAX(s->spec.comms.servers, 1);
}

static bool is_served_here(const struct bb_sync *s, int b)
{
    return s->spec.server != BB_NONE && server_of(s, b) == s->spec.server;
}

/* ---- communicators, lanes and buffers ---- */

int bb_server_comms(struct bb_step *step, const struct bb_dp_config *p, int group, struct bb_sync_comms *comms)
{
    int ranks = comms->n;

    if (p->kind != BB_SYNC_PS)
        comms->servers = p->kind == BB_SYNC_PS_P2P ? 1 : p->options.servers ? p->options.servers : 2;
    if (comms->servers >= ranks)
        return bb_err(BB_EUSAGE, "%s: no worker is left: %d rank%s, parameter servers: %d; %s", step->proxy, ranks,
                      bb_plural(ranks), comms->servers,
                      p->kind == BB_SYNC_PS_SHARDED && ranks > 1
                          ? bb_step_text(step, "try: --servers %d", MIN(ranks - 1, 2))
                          : bb_step_text(step, "possible: %d ranks", comms->servers + 1));
    if (ranks > 1)
        comms->lanes = MIN(MAX(comms->servers, 1), BB_SERVER_LANES);
    for (int i = 0; i < comms->lanes; i++) {
        const char *number = comms->servers < 2 ? "" : bb_step_text(step, " %d", i);

        comms->push[i] = bb_layout_add_comm(&step->layout, bb_step_text(step, "push%s", number), group);
        comms->pull[i] = bb_layout_add_comm(&step->layout, bb_step_text(step, "pull%s", number), group);
    }
    return 0;
}

void bb_server_buffers(struct bb_sync *s)
{
    const struct bb_sync_comms *c = &s->spec.comms;
    int n = is_worker(s) ? 0 : RECEIVE_SETS * count_workers(s);
    enum bb_dtype_id dtype = s->script->dtype;

    if (c->servers > s->n)
        s->script->program->rc = bb_err(
            BB_EUSAGE, "%s: %d servers, but only %d chunk%s of gradients; try: --servers %d, or a smaller --bucket-mb",
            s->spec.step->proxy, c->servers, s->n, bb_plural(s->n), s->n);
    for (int i = 0; i < c->lanes; i++)
        if (is_worker(s) || i == s->spec.server % c->lanes) {
            s->push[i] = bb_script_lane(s->script, &s->spec.step->layout, c->push[i]);
            s->pull[i] = bb_script_lane(s->script, &s->spec.step->layout, c->pull[i]);
        }
    for (int i = 0; i < s->n; i++) {
        struct bb_bucket_state *b = &s->buckets[i];

        s->script->dtype = s->policy.grads;
        if (is_worker(s))
            b->full = bb_script_buffer(s->script, "gradients", BB_USE_GRADIENTS, b->count);
        s->script->dtype = s->policy.params;
        if (is_worker(s) || is_served_here(s, i))
            b->param_full = bb_script_buffer(s->script, "parameters", BB_USE_PARAMETERS, b->count);
    }
    s->script->dtype = s->policy.grads;
    BB_NEW(s->receive, n);
    for (int i = 0; i < n; i++)
        s->receive[i] = bb_script_buffer(s->script, "gradients of a worker", BB_USE_COMMUNICATION, s->largest);
    s->script->dtype = dtype;
}

/* ---- operations of one bucket ---- */

static void set_phase(struct bb_sync *s, enum bb_phase phase)
{
    s->script->phase = phase;
    s->script->dtype = phase == BB_PHASE_GRADIENTS ? s->policy.grads : s->policy.params;
    s->script->layer = BB_NONE;
}

/* Add this role's side of the push (push: true) or the pull of bucket b: with ps, a collective whose root is rank 0;
 * otherwise the message to or from rank `peer`. Returns the operation. */
static int move_bucket(struct bb_sync *s, int b, bool push, int peer, int buffer)
{
    const struct bb_bucket_state *k = &s->buckets[b];
    const char *what = push ? k->what : k->gather_what;
    struct bb_script_lane lane;
    int op;

    set_phase(s, push ? BB_PHASE_GRADIENTS : BB_PHASE_OPTIMIZER);
    if (s->spec.comms.lanes == 0)
        return BB_NONE;
    lane = (push ? s->push : s->pull)[server_of(s, b) % s->spec.comms.lanes];
    if (s->policy.kind == BB_SYNC_PS)
        return bb_script_rooted_collective(s->script, lane, what, push ? BB_REDUCE : BB_BROADCAST, 0, k->count, buffer,
                                           buffer);
    s->script->peer_kind = BB_PEER_ABSOLUTE;
    op = (push == is_worker(s) ? bb_script_send : bb_script_recv)(s->script, lane, what, peer, k->count, buffer);
    s->script->peer_kind = BB_PEER_OFFSET;
    return op;
}

void bb_server_push(struct bb_sync *s, int b)
{
    s->buckets[b].reduced = move_bucket(s, b, true, server_of(s, b), s->buckets[b].full);
}

/* Add the messages of bucket b between this server and all workers in one group call. buffers: [workers] if push is
 * true: the receive buffers; otherwise unused. Returns the last operation. */
static int move_all(struct bb_sync *s, int b, bool push, const int *buffers)
{
    int op = BB_NONE;

    bb_script_group_start(s->script);
    for (int w = 0; w < count_workers(s); w++)
        op = move_bucket(s, b, push, s->spec.comms.servers + w, push ? buffers[w] : s->buckets[b].param_full);
    bb_script_group_end(s->script);
    return op;
}

static void update_bucket(struct bb_sync *s, int b)
{
    set_phase(s, BB_PHASE_OPTIMIZER);
    bb_sync_memory_kernel(s, "update", s->policy.optimizer, bb_sync_update_count(&s->policy, s->buckets[b].count), 1,
                          BB_NONE, s->buckets[b].param_full);
}

/* ---- end of the step ---- */

static void finish_worker(struct bb_sync *s)
{
    for (int b = 0; b < s->n; b++) {
        if (is_served_here(s, b)) {
            bb_script_wait(s->script, s->buckets[b].reduced);
            update_bucket(s, b);
        }
        (void)move_bucket(s, b, false, server_of(s, b), s->buckets[b].param_full);
    }
}

/* Add the program of a dedicated server. For each of its buckets: the receives from all workers, the sum and the
 * update; then the sends of all its buckets. The receives of a bucket wait until the sum of an earlier bucket has
 * emptied their set of buffers. */
static void write_server(struct bb_sync *s)
{
    int emptied[RECEIVE_SETS] = {BB_NONE, BB_NONE}, set = 0;

    for (int b = s->spec.server; b < s->n; b += s->spec.comms.servers, set = (set + 1) % RECEIVE_SETS) {
        const int *buffers = &s->receive[set * count_workers(s)];

        bb_script_new_thread(s->script, emptied[set]);
        bb_script_wait(s->script, move_all(s, b, true, buffers));
        bb_sync_memory_kernel(s, "sum", BB_MEMORY_KERNEL_ACCUMULATE, s->buckets[b].count, count_workers(s), buffers[0],
                              BB_NONE);
        emptied[set] = (int)s->script->program->n_ops - 1;
        update_bucket(s, b);
        s->buckets[b].gathered = (int)s->script->program->n_ops - 1;
    }
    for (int b = s->spec.server; b < s->n; b += s->spec.comms.servers) {
        bb_script_new_thread(s->script, s->buckets[b].gathered);
        (void)move_all(s, b, false, NULL);
    }
}

void bb_server_finish(struct bb_sync *s)
{
    if (is_worker(s))
        finish_worker(s);
    else
        write_server(s);
}

/* ---- training memory ---- */

void bb_sync_role_memory(const struct bb_sync *s, double bytes[BB_USES])
{
    bool servers = bb_sync_has_servers(s->policy.kind), all = !servers || is_worker(s);
    double total = servers ? 0 : (double)s->n_elements, served = total;
    double of_all[BB_USES] = {0}, of_served[BB_USES] = {0};

    for (int b = 0; b < s->n && servers; b++) {
        total += (double)s->buckets[b].count;
        served += is_served_here(s, b) ? (double)s->buckets[b].count : 0;
    }
    bb_sync_memory(&s->policy, &s->spec.comms, total, of_all);
    bb_sync_memory(&s->policy, &s->spec.comms, served, of_served);
    bytes[BB_USE_PARAMETERS] += all ? of_all[BB_USE_PARAMETERS] : of_served[BB_USE_PARAMETERS];
    bytes[BB_USE_GRADIENTS] += all ? of_all[BB_USE_GRADIENTS] : 0;
    bytes[BB_USE_OPTIMIZER] += of_served[BB_USE_OPTIMIZER];
    bytes[BB_USE_COMMUNICATION] += (double)s->n_shared * (double)s->largest * bb_dtypes[s->policy.grads].bytes;
    if (!all)
        bytes[BB_USE_COMMUNICATION] +=
            (double)RECEIVE_SETS * count_workers(s) * (double)s->largest * bb_dtypes[s->policy.grads].bytes;
    bb_sync_add_update_peak(bb_sync_update_peak_bytes(&s->policy, &s->spec.comms, total), bytes);
}
