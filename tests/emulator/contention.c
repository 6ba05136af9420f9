/*
 * contention.c - contention between the operations on one GPU, for machines whose profile has "sharing" (model:
 * profiles/clusters/README.md). The operations that the host issues are added to a timeline (timeline/timeline.h),
 * which computes how long each is delayed. The worker of a stream holds an operation back until its delay (its loss) is
 * known; that takes no virtual time.
 *
 * By default each process has its own timeline, which assumes that all ranks arrive at a collective when this rank
 * does. Where GPUs of several processes share NICs or uplinks, the processes share one timeline: there the operations
 * wait for their peers, and end at the times that the timeline computes.
 */
#include "bootstrap/base/clock.h"
#include "internal.h"
#include "proxies/simulation/machine/fabric.h"
#include "proxies/simulation/machine/shared_resources.h"
#include "timeline/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE_S = 1, IDLE_CHECKS = 8 };

static struct {
    struct emu_timeline *line;
    int host;
    bool is_shared, has_ended;
    bool shares_resources; /* GPUs compete there for the NICs and uplinks that they share */
    bool is_reported;      /* the failure has been printed */
    uint64_t name;         /* with shares_resources: pid of the process that created the timeline; otherwise 0 */
    int machine_ranks[EMU_MAX_DEVICES]; /* of devices that NCCL has placed, plus 1; 0: unknown */
} contention;

/* After the death of a process the others continue without a timeline (the job will most likely end too). A full
 * timeline would give wrong times, so it ends the process. */
static void report_timeline_end(void)
{
    bool owner_died;
    const char *failure = emu_timeline_failure(contention.line, &owner_died);

    if (!contention.is_reported)
        fprintf(stderr, "emulated GPUs: the contention model failed: %s%s\n", failure,
                owner_died ? "; from now on operations do not slow each other down" : "");
    contention.is_reported = true;
    if (!owner_died)
        _exit(1);
}

/* Returns false if there is no usable timeline: none was opened, it has failed, or this is a fork() child. */
static bool lock_line(void)
{
    if (!contention.line || contention.has_ended || emu.is_copy)
        return false;
    if (emu_timeline_lock(contention.line))
        return true;
    report_timeline_end();
    return false;
}

/* ---- the machine ---- */

static int machine_rank(int device)
{
    if (contention.machine_ranks[device] > 0)
        return contention.machine_ranks[device] - 1;
    const int size = emu_world_size();
    struct emu_location location =
        emu_location_of(size > 1 ? emu_world_rank() : device, size > 1 ? size : EMU_MAX_DEVICES);
    const int per_node = emu.machine.gpus_per_node;

    return location.node * per_node + location.gpu % per_node;
}

/* 0 if the uplinks of the tier are not oversubscribed: then nothing uses them in the timeline. */
static double uplink_gbps(enum bb_tier tier, int rank)
{
    if (!bb_fabric_is_oversubscribed(&emu.machine, tier))
        return 0;
    return bb_fabric_uplink_gbps(&emu.machine, tier) * (tier == BB_LEAF ? emu_leaf_factor(rank) : 1);
}

static struct emu_gpu_parts parts_of(int device)
{
    const int rank = machine_rank(device);
    struct emu_gpu_parts parts;

    for (int i = 0; i < EMU_PARTS; i++)
        parts.shared[i] = -1;
    parts.gbps[EMU_LINK_OUT] = parts.gbps[EMU_LINK_IN] = emu.machine.intra.gbps;
    parts.gbps[EMU_NIC_OUT] = parts.gbps[EMU_NIC_IN] = bb_slow_nics_gbps(&emu.slow, &emu.machine, rank);
    parts.gbps[EMU_PATH_OUT] = parts.gbps[EMU_PATH_IN] =
        bb_resource_gbps(&emu.machine, &emu.slow, BB_RESOURCE_PATH, rank);
    parts.gbps[EMU_LEAF_OUT] = parts.gbps[EMU_LEAF_IN] = uplink_gbps(BB_LEAF, rank);
    parts.gbps[EMU_POD_OUT] = parts.gbps[EMU_POD_IN] = uplink_gbps(BB_POD, rank);
    parts.gbps[EMU_MEMORY] = bb_cluster_nccl_memory_gbps(&emu.machine);
    if (!contention.shares_resources)
        return parts;
    parts.shared[EMU_NIC_OUT] = parts.shared[EMU_NIC_IN] = bb_cluster_rank_nic(&emu.machine, rank);
    if (bb_resource_can_limit(&emu.machine, BB_RESOURCE_PATH))
        parts.shared[EMU_PATH_OUT] = parts.shared[EMU_PATH_IN] = parts.shared[EMU_NIC_OUT];
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_oversubscribed(&emu.machine, (enum bb_tier)tier)) {
            const int part = tier == BB_LEAF ? EMU_LEAF_OUT : EMU_POD_OUT;

            parts.shared[part] = parts.shared[part + 1] = bb_fabric_switch(&emu.machine, (enum bb_tier)tier, rank);
        }
    return parts;
}

/* The timeline does not model hazards that let an operation begin before or after the arrival of its members.
 * Returns the variable that requests such a hazard, or NULL. */
static const char *requested_hazard(void)
{
    static const char *const names[] = {"EMU_HARDWARE_QUEUES", "EMU_SEND_AHEAD", "EMU_SMS"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (emu_env_number(names[i], 1024) > 0)
            return names[i];
    return NULL;
}

/* Whether a timeline is needed on which GPUs compete for NICs and uplinks: of all processes of the job, or of a
 * single process. */
static bool wants_shared_resources(void)
{
    const char *hazard = requested_hazard();

    if (!bb_cluster_gpus_share_nics(&emu.machine) && !bb_fabric_has_oversubscribed_tier(&emu.machine))
        return false;
    if (hazard && emu_world_size() > 1)
        emu_die(
            "%s=%s is not supported with several processes on '%s', whose GPUs share NICs or uplinks; use a profile "
            "with a NIC per GPU and no oversubscribed uplinks",
            hazard, getenv(hazard), emu.machine.name);
    return !hazard;
}

void emu_contention_load(void)
{
    emu.contends = emu.machine.has_sharing && !emu.real_time;
    if (!emu.contends)
        return;
    contention.shares_resources = wants_shared_resources();
    if (contention.shares_resources && emu_world_size() > 1) {
        contention.line = emu_timeline_of_job(&contention.name, &contention.host);
        contention.is_shared = contention.shares_resources = contention.line != NULL;
    } else if (contention.shares_resources)
        contention.name = (uint64_t)getpid();
    if (contention.line)
        return;
    contention.line = emu_timeline_open(&emu.machine, -1);
    if (!contention.line)
        emu_give_up("out of memory for the contention model");
    if (!lock_line())
        return;
    emu_timeline_add_host(contention.line, (int)getpid(), 0, &contention.host);
    emu_timeline_unlock(contention.line);
}

/* ---- other processes ---- */

uint64_t emu_timeline_name(void)
{
    emu_init();
    return contention.name;
}

void emu_host_away(void)
{
    if (!contention.is_shared || !lock_line())
        return;
    emu_timeline_await_hosts(contention.line, contention.host, false);
    emu_timeline_unlock(contention.line);
}

/* A host that polls reports its wait if it still waits some polls and some time after the last end of another host's wait,
 * because the same event, such as an MPI_Ibarrier, may have ended both, and this host may notice it later. It reports again
 * after AWAY_S, because the timeline may have resumed it too early. */
static const double GRACE_S = 0.0005, AWAY_S = 0.05;
enum { GRACE_POLLS = 8 };
static _Thread_local struct {
    bool calls;       /* has called CUDA or NCCL since its last pause */
    bool queries;     /* the last of these calls was a query of work that had not ended */
    int polls;        /* of this wait, since another host's wait ended; 0: none */
    double first_s;   /* time of the first of these polls */
    double away_s;    /* time of the report that this thread waits; 0: it has not reported a wait */
    uint32_t returns; /* emu_timeline_returns at the last poll */
} poll;

/* No report if the wait of another host has ended since this poll began: the same event may have ended this wait. */
static void report_polls(void)
{
    if (!lock_line())
        return;
    if (emu_timeline_returns(contention.line) == poll.returns)
        emu_timeline_await_hosts(contention.line, contention.host, true);
    emu_timeline_unlock(contention.line);
}

static void note_poll(void)
{
    const uint32_t returns = emu_timeline_returns(contention.line);
    const double now_s = bb_now_s();

    if (poll.polls == 0 || poll.returns != returns) {
        poll.returns = returns;
        poll.polls = 0;
        poll.first_s = now_s;
        poll.away_s = 0;
    }
    poll.polls++;
    if (poll.polls >= GRACE_POLLS && now_s - poll.first_s >= GRACE_S && now_s - poll.away_s >= AWAY_S) {
        poll.away_s = now_s;
        report_polls();
    }
}

void emu_host_polls(void)
{
    if (contention.is_shared)
        note_poll();
    poll.calls = poll.queries = true; /* the pause after this poll is not another one */
}

static bool is_running(void)
{
    bool is;

    if (!lock_line())
        return false;
    is = emu_timeline_is_running(contention.line, contention.host);
    emu_timeline_unlock(contention.line);
    return is;
}

/* A host that pauses polls for memory that it shares with other ranks, except after an unsuccessful query and while it
 * waits for its GPU, and always if it pauses twice without a call of CUDA or NCCL in between. Already the first pause
 * counts: the others wait since before, and the next call of this host ends the waits of all. */
void emu_host_pauses(void)
{
    if (contention.is_shared && getpid() == gettid() && (!poll.calls || (!poll.queries && is_running())))
        note_poll();
    poll.calls = false;
}

cudaError_t emu_host_queries_again(void)
{
    poll.queries = true;
    return cudaErrorNotReady;
}

/* Reports that a wait for other processes has ended. */
static void end_wait_locked(void)
{
    poll.polls = 0;
    poll.away_s = 0;
    if (contention.is_shared && lock_line()) {
        emu_timeline_end_wait(contention.line, contention.host, (double)emu.host_ns);
        emu_timeline_unlock(contention.line);
    }
}

void emu_host_calls_locked(void)
{
    poll.calls = true;
    poll.queries = false;
    if (poll.polls > 0)
        end_wait_locked();
}

void emu_host_back(void)
{
    if (!contention.is_shared)
        return;
    emu_lock();
    end_wait_locked();
    emu_unlock();
}

void emu_host_lost(void)
{
    if (!contention.is_shared || !lock_line())
        return;
    emu_timeline_lose_host(contention.line, contention.host);
    emu_timeline_unlock(contention.line);
}

void emu_host_found(void)
{
    if (!contention.is_shared)
        return;
    emu_lock();
    if (lock_line()) {
        if (emu_timeline_has_lost(contention.line, contention.host))
            emu_timeline_run_host(contention.line, contention.host, (double)emu.host_ns);
        emu_timeline_unlock(contention.line);
    }
    emu_unlock();
}

void emu_set_machine_rank(int device, int rank)
{
    struct emu_gpu_parts parts;

    if (!emu.contends || device < 0 || device >= EMU_MAX_DEVICES)
        return;
    emu_lock();
    contention.machine_ranks[device] = rank + 1;
    parts = parts_of(device);
    if (lock_line()) {
        emu_timeline_set_gpu_parts(contention.line, contention.host, device, &parts);
        emu_timeline_unlock(contention.line);
    }
    emu_unlock();
}

/* ---- interface for the engine ---- */

/* The host runs again and issues something on the stream. Returns false if there is no usable timeline. */
static bool open_lane(struct CUstream_st *s)
{
    struct emu_gpu_parts parts;

    if (!lock_line())
        return false;
    emu_timeline_run_host(contention.line, contention.host, (double)emu.host_ns);
    if (s->lane > 0)
        return true;
    parts = parts_of(s->device);
    s->lane = emu_timeline_add_lane(contention.line, contention.host, s->device, &parts);
    return true;
}

void emu_contention_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record)
{
    if (!emu.contends || !open_lane(s))
        return;
    if (record) {
        mark->moment = emu_timeline_add_moment(contention.line);
        emu_timeline_record(contention.line, s->lane, (double)emu.host_ns, mark->moment);
    } else if (mark->moment != 0)
        emu_timeline_wait(contention.line, s->lane, (double)emu.host_ns, mark->moment);
    else
        emu_timeline_wait(contention.line, s->lane, fmax((double)emu.host_ns, (double)mark->time_ns), 0);
    emu_timeline_unlock(contention.line);
}

void emu_contention_drop_mark_locked(struct emu_mark *mark)
{
    if (mark->moment == 0 || !lock_line())
        return;
    emu_timeline_drop_moment(contention.line, mark->moment);
    emu_timeline_unlock(contention.line);
}

/* The operations of one communicator run in their issue order, on whatever streams. */
static void follow_order(struct CUstream_st *s, const struct emu_order *order)
{
    if (order->moment != 0 && order->lane != s->lane)
        emu_timeline_wait(contention.line, s->lane, (double)emu.host_ns, order->moment);
}

static void keep_order(const struct CUstream_st *s, struct emu_order *order, int step)
{
    emu_timeline_drop_moment(contention.line, order->moment);
    order->moment = emu_timeline_end_of(contention.line, step);
    order->lane = s->lane;
}

void emu_order_release(struct emu_order *order)
{
    if (order->moment == 0 || !lock_line())
        return;
    emu_timeline_drop_moment(contention.line, order->moment);
    emu_timeline_unlock(contention.line);
    order->moment = 0;
}

/* A start barrier kernel (waits) is not delayed: the worker runs it at once, and the host ends it at any time. */
void emu_contention_op_locked(struct CUstream_st *s, struct emu_item *item)
{
    const struct emu_demand *e = item->op.demand;
    uint64_t turn = 0;

    item->loss_known = true;
    if (!emu.contends || !e || !open_lane(s))
        return;
    item->loss_known = e->waits;
    if (e->order)
        follow_order(s, e->order);
    if (e->peers && e->peers->n_messages == 0)
        turn = e->order->turn++;
    item->step = emu_timeline_add(contention.line, s->lane, (double)emu.host_ns, e, turn, !e->waits);
    if (e->order)
        keep_order(s, e->order, item->step);
    emu_timeline_unlock(contention.line);
}

void emu_contention_host_waits_locked(const struct emu_mark *mark, const struct CUstream_st *s)
{
    if (!(mark || s) || !lock_line())
        return;
    if (mark && mark->moment != 0)
        emu_timeline_wait_moment(contention.line, contention.host, mark->moment, (double)emu.host_ns);
    if (s && s->lane > 0)
        emu_timeline_wait_lane(contention.line, contention.host, s->lane, (double)emu.host_ns);
    emu_timeline_unlock(contention.line);
}

/* Fetches the loss of an item if it is known. An item is released without it when its communicator is aborted, or
 * when nothing has happened on a stuck timeline for long; then the wait for its peers happens in the operation
 * itself. */
static bool check_loss(struct emu_item *item, int idle_checks, uint32_t *news)
{
    const struct emu_demand *e = item->op.demand;
    bool is_over;

    if (!lock_line())
        return item->loss_known = true;
    if (idle_checks > 0)
        emu_timeline_check_hosts(contention.line, PATIENCE_S);
    is_over = (e->peers && e->peers->is_over(e->peers)) ||
              (idle_checks > IDLE_CHECKS && emu_timeline_is_stuck(contention.line));
    *news = emu_timeline_wakeups(contention.line, contention.host);
    if (emu_timeline_collect(contention.line, item->step, &item->extra_ns, &item->end_ns))
        item->loss_known = true;
    else if (is_over) {
        emu_timeline_abandon(contention.line, item->step);
        item->loss_known = true;
    }
    emu_timeline_unlock(contention.line);
    return item->loss_known;
}

/* A host that waits outside CUDA and MPI does not report it; emu_timeline_check_hosts treats it as lost after
 * PATIENCE_S. */
void emu_contention_await_loss_locked(struct emu_item *item)
{
    uint32_t news, before = 0;
    int idle_checks = 0;

    while (!item->loss_known && !emu.stopping && !check_loss(item, idle_checks, &news)) {
        emu_unlock();
        emu_timeline_sleep(contention.line, contention.host, news);
        emu_lock();
        idle_checks = news == before ? idle_checks + 1 : 0;
        before = news;
    }
}

void emu_host_waits_for_all(void)
{
    emu_lock();
    if (lock_line()) {
        emu_timeline_wait_lane(contention.line, contention.host, 0, (double)emu.host_ns);
        emu_timeline_unlock(contention.line);
    }
    emu_unlock();
}

/* s NULL: an operation of any stream. */
void emu_contention_host_waits_one_locked(const struct CUstream_st *s)
{
    if ((s && s->lane == 0) || !lock_line())
        return;
    emu_timeline_wait_step(contention.line, contention.host, s ? s->lane : 0, (double)emu.host_ns);
    emu_timeline_unlock(contention.line);
}

void emu_host_waits_for_one(void)
{
    emu_lock();
    emu_contention_host_waits_one_locked(NULL);
    emu_unlock();
}

/* The remaining steps have no effect on times any more. None of them transfers, because the worker waits for the
 * loss of each operation before running it. */
void emu_contention_close_stream_locked(struct CUstream_st *s)
{
    if (s->lane == 0 || !lock_line())
        return;
    emu_timeline_remove_lane(contention.line, s->lane);
    emu_timeline_unlock(contention.line);
    s->lane = 0;
}

void emu_contention_end_locked(void)
{
    if (!lock_line())
        return;
    emu_timeline_remove_host(contention.line, contention.host);
    emu_timeline_wake(contention.line, contention.host);
    emu_timeline_unlock(contention.line);
    contention.has_ended = true;
}
