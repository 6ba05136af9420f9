/*
 * contention.c - what the operations on one GPU take from each other, where the machine's profile has "sharing" (the
 * law: profiles/clusters/README.md). What the host issues is told to a timeline (timeline.h), which reckons ahead what
 * each operation loses; that much longer the operation lasts. Until its loss is known an operation is held back; that
 * takes no virtual time.
 *
 * A process has a timeline of its own, on which every peer comes when this rank does. Where GPUs of several processes
 * share NICs or uplinks, the processes share one: there operations meet, and its ends are theirs.
 */
#include "internal.h"
#include "proxies/machine/fabric.h"
#include "timeline.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATIENCE_S = 1 };

static struct {
    struct emu_timeline *line;
    int host;
    bool is_shared;
} ahead;

/* ---- the machine ---- */

static int machine_rank(int device)
{
    const int size = emu_world_size();
    struct emu_seat seat = emu_seat_of(size > 1 ? emu_world_rank() : device, size > 1 ? size : EMU_MAX_DEVICES);
    const int per_node = emu.machine.gpus_per_node;

    return seat.node * per_node + seat.gpu % per_node;
}

/* Where they are not scarce, nothing is said to use them. */
static double uplink_gbps(enum bb_tier tier, int rank)
{
    if (!bb_fabric_is_scarce(&emu.machine, tier))
        return 0;
    return bb_fabric_uplink_gbps(&emu.machine, tier) * (tier == BB_LEAF ? emu_leaf_part(rank) : 1);
}

static struct emu_gpu_parts parts_of(int device)
{
    const int rank = machine_rank(device);
    struct emu_gpu_parts parts;

    for (int i = 0; i < EMU_PARTS; i++)
        parts.place[i] = -1;
    parts.gbps[EMU_LINK_OUT] = parts.gbps[EMU_LINK_IN] = emu.machine.intra.gbps;
    parts.gbps[EMU_NIC_OUT] = parts.gbps[EMU_NIC_IN] = bb_slow_nics_gbps(&emu.slow, &emu.machine, rank);
    parts.gbps[EMU_LEAF_OUT] = parts.gbps[EMU_LEAF_IN] = uplink_gbps(BB_LEAF, rank);
    parts.gbps[EMU_POD_OUT] = parts.gbps[EMU_POD_IN] = uplink_gbps(BB_POD, rank);
    parts.gbps[EMU_MEMORY] = bb_cluster_nccl_memory_gbps(&emu.machine);
    if (!ahead.is_shared)
        return parts;
    parts.place[EMU_NIC_OUT] = parts.place[EMU_NIC_IN] = bb_cluster_rank_nic(&emu.machine, rank);
    for (int tier = 0; tier < BB_TIERS; tier++)
        if (bb_fabric_is_scarce(&emu.machine, (enum bb_tier)tier)) {
            const int part = tier == BB_LEAF ? EMU_LEAF_OUT : EMU_POD_OUT;

            parts.place[part] = parts.place[part + 1] = bb_fabric_place(&emu.machine, (enum bb_tier)tier, rank);
        }
    return parts;
}

static void attach(struct emu_timeline *line)
{
    if (!line)
        emu_die("no memory for what runs at once");
    ahead.line = line;
    emu_timeline_lock(line);
    ahead.host = emu_timeline_add_host(line, (int)getpid());
    emu_timeline_unlock(line);
}

void emu_contention_load(void)
{
    emu.contends = emu.machine.shares && !emu.real_time;
    if (emu.contends)
        attach(emu_timeline_open(&emu.machine, -1));
}

/* ---- one timeline for several processes ---- */

bool emu_wants_shared_timeline(void)
{
    emu_init();
    return emu.contends && emu_world_size() > 1 && emu.n_queues == 0 && emu.launch_queue == 0 &&
           emu_env_number("EMU_SEND_AHEAD", 16) == 0 &&
           (bb_cluster_gpus_share_nics(&emu.machine) || bb_fabric_has_scarce(&emu.machine));
}

/* All that was issued so far has its loss. Marks and operations keep the timeline that they were on. */
static void move_to(struct emu_timeline *line)
{
    emu_timeline_lock(ahead.line);
    emu_timeline_wait_lane(ahead.line, ahead.host, 0, (double)emu.host_ns);
    emu_timeline_unlock(ahead.line);
    emu_timeline_lock(ahead.line);
    for (struct CUstream_st *s = emu.streams; s; s = s->next)
        if (s->lane > 0) {
            s->free_ns = emu_timeline_lane_ns(ahead.line, s->lane);
            emu_timeline_remove_lane(ahead.line, s->lane);
            s->lane = 0;
        }
    emu_timeline_unlock(ahead.line);
    ahead.is_shared = true;
    attach(line);
}

int emu_shared_timeline(void)
{
    int fd;

    emu_lock();
    if (!ahead.is_shared)
        move_to(emu_timeline_open(&emu.machine, -1));
    fd = emu_timeline_fd(ahead.line);
    emu_unlock();
    return fd;
}

bool emu_share_timeline(int pid, int fd)
{
    struct emu_timeline *line;
    char path[64];
    int own;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
    own = open(path, O_RDWR | O_CLOEXEC);
    line = own < 0 ? NULL : emu_timeline_open(&emu.machine, own);
    if (!line)
        return false;
    emu_lock();
    move_to(line);
    emu_unlock();
    return true;
}

bool emu_has_shared_timeline(void)
{
    return ahead.is_shared;
}

void emu_host_away(void)
{
    if (!ahead.is_shared)
        return;
    emu_timeline_lock(ahead.line);
    emu_timeline_meet_hosts(ahead.line, ahead.host);
    emu_timeline_unlock(ahead.line);
}

void emu_host_back(void)
{
    if (!ahead.is_shared)
        return;
    emu_lock();
    emu_timeline_lock(ahead.line);
    emu_timeline_run_host(ahead.line, ahead.host, (double)emu.host_ns);
    emu_timeline_unlock(ahead.line);
    emu_unlock();
}

void emu_host_lost(void)
{
    if (!ahead.is_shared)
        return;
    emu_timeline_lock(ahead.line);
    emu_timeline_lose_host(ahead.line, ahead.host);
    emu_timeline_unlock(ahead.line);
}

/* ---- what the engine tells and asks ---- */

/* The host goes on, and gives the stream something. */
static void open_lane(struct CUstream_st *s)
{
    struct emu_gpu_parts parts;

    emu_timeline_lock(ahead.line);
    emu_timeline_run_host(ahead.line, ahead.host, (double)emu.host_ns);
    if (s->lane > 0)
        return;
    parts = parts_of(s->device);
    s->lane = emu_timeline_add_lane(ahead.line, ahead.host, s->device, &parts, s->free_ns);
}

/* A mark of a timeline that the process has left is known there. */
static double learn(struct emu_mark *mark)
{
    double when_ns = (double)mark->time_ns;

    if (mark->moment != 0 && mark->line != ahead.line) {
        emu_timeline_lock(mark->line);
        emu_timeline_knows(mark->line, mark->moment, &when_ns);
        emu_timeline_unlock(mark->line);
    }
    return when_ns;
}

void emu_ahead_mark_locked(struct CUstream_st *s, struct emu_mark *mark, bool record)
{
    double known_ns;

    if (!emu.contends)
        return;
    known_ns = learn(mark);
    open_lane(s);
    if (record) {
        mark->line = ahead.line;
        mark->moment = emu_timeline_add_moment(ahead.line);
        emu_timeline_tell(ahead.line, s->lane, (double)emu.host_ns, mark->moment);
    } else if (mark->moment != 0 && mark->line == ahead.line)
        emu_timeline_wait(ahead.line, s->lane, (double)emu.host_ns, mark->moment);
    else
        emu_timeline_wait(ahead.line, s->lane, fmax((double)emu.host_ns, known_ns), 0);
    emu_timeline_unlock(ahead.line);
}

void emu_ahead_forget_locked(struct emu_mark *mark)
{
    if (mark->moment == 0)
        return;
    emu_timeline_lock(mark->line);
    emu_timeline_drop_moment(mark->line, mark->moment);
    emu_timeline_unlock(mark->line);
}

/* The worker lets an operation that waits for the host run at once, and frees it whenever it ends. */
void emu_ahead_op_locked(struct CUstream_st *s, struct emu_item *item)
{
    const struct emu_effort *e = item->op.effort;
    uint64_t turn = 0;

    item->settled = !emu.contends || !e || e->waits;
    if (!emu.contends || !e)
        return;
    if (e->meeting && e->meeting->n_messages == 0)
        turn = (*e->meeting->turn)++;
    open_lane(s);
    item->line = ahead.line;
    item->step = emu_timeline_add(ahead.line, s->lane, (double)emu.host_ns, e, turn, !e->waits);
    emu_timeline_unlock(ahead.line);
}

void emu_ahead_until_locked(const struct emu_mark *mark, const struct CUstream_st *s)
{
    if (!emu.contends || !(mark || s))
        return;
    emu_timeline_lock(ahead.line);
    if (mark && mark->moment != 0 && mark->line == ahead.line)
        emu_timeline_wait_moment(ahead.line, ahead.host, mark->moment, (double)emu.host_ns);
    if (s && s->lane > 0)
        emu_timeline_wait_lane(ahead.line, ahead.host, s->lane, (double)emu.host_ns);
    emu_timeline_unlock(ahead.line);
}

/* Whether it is known what the item loses; what else there is to see. */
static bool look(struct emu_item *item, bool after_others, uint32_t *news)
{
    const struct emu_effort *e = item->op.effort;

    emu_timeline_lock(item->line);
    if (after_others)
        emu_timeline_look_after(item->line, PATIENCE_S);
    *news = emu_timeline_news(item->line, ahead.host);
    if (!emu_timeline_is_sound(item->line))
        item->settled = true;
    else if (emu_timeline_take(item->line, item->step, &item->extra_ns, &item->end_ns))
        item->settled = true;
    else if (e->meeting && e->meeting->is_over(e->meeting)) {
        emu_timeline_abandon(item->line, item->step);
        item->settled = true;
    }
    emu_timeline_unlock(item->line);
    return item->settled;
}

/* A host that waits outside CUDA does not say so: after a while it is taken to. */
void emu_ahead_hold_locked(struct CUstream_st *s, struct emu_item *item)
{
    uint32_t news, before = 0;
    bool quiet = false;

    (void)s;
    while (!item->settled && !emu.stopping && !look(item, quiet, &news)) {
        emu_unlock();
        emu_timeline_sleep(item->line, ahead.host, news);
        emu_lock();
        quiet = news == before;
        before = news;
    }
}

void emu_settle(void)
{
    if (!emu.contends)
        return;
    emu_lock();
    emu_timeline_lock(ahead.line);
    emu_timeline_wait_lane(ahead.line, ahead.host, 0, (double)emu.host_ns);
    emu_timeline_unlock(ahead.line);
    emu_unlock();
}

/* What is left is done for real: nobody waits any more for when it was reckoned to be. Nothing of it transfers, since
 * the worker has waited for each loss. */
void emu_ahead_close_locked(struct CUstream_st *s)
{
    if (s->lane == 0)
        return;
    emu_timeline_lock(ahead.line);
    emu_timeline_remove_lane(ahead.line, s->lane);
    emu_timeline_unlock(ahead.line);
    s->lane = 0;
}

void emu_ahead_end_locked(void)
{
    if (!emu.contends)
        return;
    emu_timeline_lock(ahead.line);
    emu_timeline_remove_host(ahead.line, ahead.host);
    emu_timeline_wake(ahead.line, ahead.host);
    emu_timeline_unlock(ahead.line);
}
