/*
 * gems.c - the proxy gems: GEMS, bi-directional model parallelism as MPI4DL implements it. Two replicas of one network
 * run on the same ranks, the second in inverse order. With S splits (pipeline stages), rank r has split r of one
 * replica and split S - 1 - r of the other. The forward pass of the second replica follows the backward pass of the
 * first from rank to rank, in time that would otherwise be idle. A rank stores the activations of at most one replica
 * at a time.
 *
 * The step of every rank consists of ETA passes (--replications) over different samples. A pass is the forward and
 * backward of all micro-batches in one replica; passes alternate between both replicas (2 passes: MAST; more: MASTER).
 * In a pass a rank executes, for each micro-batch, receive, forward, send, and then, for each micro-batch, receive,
 * backward, send. At the end, the ranks that have the same split sum its gradients: ranks r and S - 1 - r of all pairs
 * of replicas. Each rank runs two all-reduces, first that of the split with the lower index. With tiles, the tiles of
 * both replicas sum their gradients. With an odd number of ranks, the middle rank has the same split of both replicas
 * and adds their gradients locally.
 *
 * With --comm-opt there is no all-reduce between the replicas. The replica of pass 0 is the *leader*, the other one the
 * *follower*. The *partner* of a rank is the rank whose follower has the same split as the rank's leader. After the
 * leader's forward pass, each rank sends the leader's parameters to its partner. The rank of the leader's last split,
 * which continues directly with its backward pass, receives before its (last) forward and sends after its backward
 * pass. Its partner, the rank of the leader's first split, posts the receive when the activation gradients of the last
 * micro-batch have arrived. This order cannot deadlock and hides the transfers. After the follower's last forward pass,
 * the leader's gradients are sent in the same way and added to those of the follower, and only the follower is updated.
 * In the next step the two replicas swap these roles, so even and odd steps alternate. A program is one even step;
 * --odd-step selects the odd step, which is its mirror image.
 */
#include "proxies/form/author/proxy.h"
#include "proxies/workloads/spatial/tile_stage.h"

#include <strings.h>

/* State of one role (ranks with the same program) while its program is built. */
struct gems_role {
    struct bb_tile_stage stage;
    struct bb_replica *leader, *follower;
    /* is_middle: the rank has the same split (pipeline stage) of both replicas; is_first, is_last: the rank has the
     * first or the last split of the leader (the replica whose forward pass runs first) */
    bool is_middle, is_first, is_last;
    int received; /* index of the operation that receives the leader's parameters (leader: the replica whose forward
                     pass runs first); BB_NONE: not added yet */
    struct bb_script_lane pair;
};

static size_t count_parameters(const struct bb_replica *replica)
{
    return replica->split->layers.parameters;
}

/* ---- --comm-opt: messages between rank r and its partner, rank mp - 1 - r (mp: ranks per pair of replicas) ---- */

#define PARTNER 1 /* offset from a rank to its partner in the group `pair`, which consists of these two ranks */

/* Adds one message between rank r and its partner, rank mp - 1 - r (mp: ranks per pair of replicas). send true:
 * sends data of this rank's split (pipeline stage) of the leader, the replica that runs first; false: receives data
 * of its split of the follower, the second replica. use: purpose of the message's buffer. Returns the index of the
 * operation. */
static int start_message(struct gems_role *p, bool send, const char *what, enum bb_buffer_use use)
{
    struct bb_script *s = &p->stage.script;
    size_t count = count_parameters(send ? p->leader : p->follower);

    return (send ? bb_script_send : bb_script_recv)(s, p->pair, what, PARTNER, count,
                                                    bb_script_buffer(s, what, use, count));
}

/* Adds a send to and a receive from the partner, rank mp - 1 - r, in one group call, so neither message waits for
 * the other. sent, received: purposes of the two buffers. Returns the index of the receive. */
static int exchange_with_partner(struct gems_role *p, const char *what, enum bb_buffer_use sent,
                                 enum bb_buffer_use received)
{
    int op;

    bb_script_group_start(&p->stage.script);
    (void)start_message(p, true, what, sent);
    op = start_message(p, false, what, received);
    bb_script_group_end(&p->stage.script);
    return op;
}

/* Adds the messages with the parameters of the leader (the replica that runs first) for --comm-opt, after the forward
 * or backward of all micro-batches in pass 0. After the forward, the rank of the leader's first split (pipeline stage)
 * sends to its partner, and the ranks of the inner splits send and receive. After the backward, the rank of the
 * leader's last split sends. micro_batches adds the receives of the ranks of the first and last split. */
static void exchange_parameters(struct gems_role *p, enum bb_pass_direction direction)
{
    if (direction == BB_FORWARD ? p->is_first : p->is_last)
        (void)start_message(p, true, "parameters", BB_USE_PARAMETERS);
    else if (direction == BB_FORWARD && !p->is_last)
        p->received = exchange_with_partner(p, "parameters", BB_USE_PARAMETERS, BB_USE_PARAMETERS);
}

static void accumulate_gradients(struct gems_role *p, size_t count)
{
    if (p->stage.script.real)
        bb_script_memory_kernel(&p->stage.script, p->stage.tiling->step, "accumulate", BB_MEMORY_KERNEL_ACCUMULATE,
                                count, 1, BB_NONE, BB_NONE);
}

/* Adds the update of the follower, the replica that runs second: waits for the gradients of the leader (the first
 * replica), adds them to those of the follower, reduces the sum over the follower's tiles and over all pairs of
 * replicas, and updates the parameters. received: index of the receive of the leader's gradients. */
static void update_follower(struct gems_role *p, int received)
{
    const struct bb_layer_split *split = p->follower->split;
    struct bb_script *s = &p->stage.script;
    size_t count = count_parameters(p->follower);
    int gradients = bb_script_buffer(s, "gradients", BB_USE_GRADIENTS, count);

    s->phase = BB_PHASE_GRADIENTS;
    bb_script_wait(s, received);
    accumulate_gradients(p, count);
    if (split->layers.tiled)
        bb_script_wait(s, bb_tile_stage_reduce(&p->stage, split->comm_spatial, true, count, gradients));
    bb_script_wait(s, bb_tile_stage_reduce(&p->stage, p->stage.tiling->comm_dp, false, count, gradients));
    bb_tile_stage_optimizer(&p->stage, count);
}

/* ---- without --comm-opt: all-reduces between the two replicas ---- */

static int start_all_reduce(struct gems_role *p, const struct bb_replica *replica)
{
    bool tiled = replica->split->layers.tiled;
    size_t count = count_parameters(replica);

    return bb_tile_stage_reduce(&p->stage, tiled ? replica->split->comm_spatial : p->stage.tiling->comm_pair, tiled,
                                count, bb_script_buffer(&p->stage.script, "gradients", BB_USE_GRADIENTS, count));
}

static void reduce_replicas(struct gems_role *p)
{
    const struct bb_replica *a = p->leader, *b = p->follower;
    struct bb_script *s = &p->stage.script;
    bool ordered = a->at.split < b->at.split;
    size_t count = count_parameters(a);

    s->phase = BB_PHASE_GRADIENTS;
    if (p->is_middle) {
        int buffer = bb_script_buffer(s, "gradients", BB_USE_GRADIENTS, count);

        accumulate_gradients(p, count);
        bb_script_wait(s, bb_tile_stage_reduce(&p->stage, p->stage.tiling->comm_middle, false, count, buffer));
    } else {
        int lower = start_all_reduce(p, ordered ? a : b), upper = start_all_reduce(p, ordered ? b : a);

        bb_script_wait(s, lower);
        bb_script_wait(s, upper);
    }
    bb_tile_stage_optimizer(&p->stage, count);
    bb_tile_stage_optimizer(&p->stage, count_parameters(b));
}

/* ---- passes of the step (a pass: forward and backward of all micro-batches in one replica) ---- */

/* Adds the forward or backward of all micro-batches of one replica in pass number `pass`, and with --comm-opt the
 * messages between partners. Returns the index of the operation that receives the gradients of the leader (the
 * replica that runs first); BB_NONE if there is none. */
static int micro_batches(struct gems_role *p, int pass, enum bb_pass_direction direction)
{
    struct bb_replica *replica = pass % 2 == 0 ? p->leader : p->follower;
    bool exchanges = p->stage.tiling->config.tiles.comm_opt && !p->is_middle;
    struct bb_script *s = &p->stage.script;
    int m = p->stage.tiling->config.micro_batches;

    for (int i = 0; i < m; i++) {
        s->micro_batch = pass * m + i;
        bb_tile_stage_receive(&p->stage, replica, direction);
        /* The ranks of the first and the last split of the leader receive the parameters between the receive of the
         * last micro-batch and its compute, the last in the forward pass, the first in the backward pass. */
        if (exchanges && pass == 0 && i == m - 1 && (direction == BB_FORWARD ? p->is_last : p->is_first))
            p->received = start_message(p, false, "parameters", BB_USE_PARAMETERS);
        bb_tile_stage_compute_and_send(&p->stage, replica, direction, BB_NONE);
    }
    s->micro_batch = BB_NONE;
    if (exchanges && pass == 0)
        exchange_parameters(p, direction);
    if (exchanges && pass == p->stage.tiling->config.tiles.replications - 1 && direction == BB_FORWARD)
        return exchange_with_partner(p, "gradients of the leader", BB_USE_GRADIENTS, BB_USE_COMMUNICATION);
    return BB_NONE;
}

static void write_step(struct gems_role *p)
{
    int received = BB_NONE;

    for (int pass = 0; pass < p->stage.tiling->config.tiles.replications; pass++) {
        if (pass == 1)
            bb_script_wait(&p->stage.script, p->received);
        received = micro_batches(p, pass, BB_FORWARD);
        (void)micro_batches(p, pass, BB_BACKWARD);
    }
    if (p->stage.tiling->config.tiles.comm_opt)
        update_follower(p, received);
    else
        reduce_replicas(p);
}

static int build_role(struct bb_tiling *t, struct bb_role *role, int mp_rank)
{
    bool odd = t->config.tiles.odd_step;
    int position = odd ? t->mp - 1 - mp_rank : mp_rank, rc;
    struct gems_role p = {.received = BB_NONE, .is_middle = mp_rank == t->mp - 1 - mp_rank};

    p.is_first = position == 0;
    p.is_last = position == t->mp - 1;
    bb_tile_stage_init(&p.stage, t, &role->program, mp_rank);
    p.leader = &p.stage.replicas[odd ? BB_INVERSE : BB_DIRECT];
    p.follower = &p.stage.replicas[odd ? BB_DIRECT : BB_INVERSE];
    if (!p.is_middle)
        p.pair = bb_tile_stage_lane(&p.stage, t->comm_pair);
    role->name = bb_step_text(t->step, "splits %d and %d", p.stage.replicas[BB_DIRECT].at.split,
                              p.stage.replicas[BB_INVERSE].at.split);
    write_step(&p);
    bb_tile_stage_memory(&p.stage, role->training_bytes);
    rc = bb_script_result(&p.stage.script);
    bb_tile_stage_release(&p.stage);
    return rc;
}

/* One replication is one pass of the direct replica: the baseline of GEMS, a pipeline without the inverse replica. */
static int build_step(const struct bb_proxy_config *config, struct bb_step *step)
{
    if (config->tiles.replications == 1)
        return (config->tiles.spatial_parts ? bb_spatial_proxy : bb_layer_parallel_proxy).build(config, step);
    return bb_tiling_step(config, BB_TILING_GEMS, step, build_role);
}

/* ---- the names of the paper as positional arguments ---- */

enum design { MAST, MASTER, COMM_OPT, HYBRID, DESIGNS };
static const char *const designs[DESIGNS] = {"MAST", "MASTER", "comm-opt", "Hybrid"};

/* Sets --replications of MAST or MASTER. */
static int set_replications(struct bb_tiles_options *o, enum design design)
{
    const bool master = design == MASTER;

    if (o->replications && (master ? o->replications < 4 : o->replications != 2))
        return bb_err(BB_EUSAGE, "gems: %s has %s replications, but --replications is %d; leave one out",
                      designs[design], master ? "4 or more" : "2", o->replications);
    o->replications = o->replications ? o->replications : master ? 4 : 2;
    return 0;
}

static int read_designs(struct bb_proxy_config *c, const char *const *words, int n)
{
    int rc = 0, design;

    for (int i = 0; i < n; i++) {
        for (design = 0; design < DESIGNS && strcasecmp(words[i], designs[design]) != 0;)
            design++;
        if (design == DESIGNS)
            return bb_reject_unknown("design of gems", words[i], designs, DESIGNS);
        c->tiles.comm_opt |= design == COMM_OPT;
        c->tiles.hybrid |= design == HYBRID;
        if (design == MAST || design == MASTER)
            TRY(set_replications(&c->tiles, (enum design)design));
    }
out:
    return rc;
}

const struct bb_proxy bb_gems_proxy = {
    .name = "gems",
    .help =
        "GEMS: two replicas of a network in opposite directions on the same ranks. MAST: 2 passes per step; MASTER: 4 "
        "or more; comm-opt: no all-reduce between the replicas; Hybrid: also data-parallel",
    .features = BB_FEATURE_TILED,
    .compute = "timed",
    .positional = "[MAST|MASTER] [comm-opt] [Hybrid]",
    .parse_positionals = read_designs,
    .build = build_step};
