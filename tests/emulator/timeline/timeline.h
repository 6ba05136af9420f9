/*
 * timeline.h - one view of what runs when, of one process's GPUs or of all processes of a job: what its streams are
 * given, in the order of time, and what operations take from each other while they last (max-min fair rates of
 * proxies/machine/flows.h, by which plan reckons, too).
 *
 *   host     a process that issues. No moment is passed that a host could still issue something for
 *   lane     a stream
 *   step     what a lane is given: an operation, a moment to tell, a moment to wait for
 *   moment   of a lane; unknown until the lane gets there
 *   call  of the members of a collective, which begins when all have come; of the two sides of a message
 *
 * All lies in one piece of memory, without pointers, so that processes can share it: whoever issues something or waits
 * lets happen what can. Numbers of things begin with 1; 0 is none.
 */
#ifndef EMU_TIMELINE_H
#define EMU_TIMELINE_H

#include "engine.h"

#include <stdint.h>

#pragma GCC visibility push(hidden)

#define EMU_TIMELINE "emu-timeline" /* of its memory */

struct emu_timeline; /* what this process knows of it */

/* A new one in memory of this process, which others may share by the descriptor; fd -1: attaches to it. NULL: no
 * memory, or none of ours. */
struct emu_timeline *emu_timeline_open(const struct bb_cluster *machine, int fd);
void emu_timeline_close(struct emu_timeline *t);
int emu_timeline_descriptor(const struct emu_timeline *t);

/* Between these two, all calls below. Unlocking lets happen what can. false: it is not locked, and tells nothing any
 * more, for a process has filled it, or has died in the midst of a change (is_torn): _trouble has the words. */
bool emu_timeline_lock(struct emu_timeline *t);
void emu_timeline_unlock(struct emu_timeline *t);
const char *emu_timeline_failure(const struct emu_timeline *t, bool *owner_died);

/* ---- hosts ---- */

/* A rank of the job has one host, once: a process that comes when it is taken is another one of that rank, or of a job
 * that came later, where the rank has left. */
enum emu_rank_claim { EMU_RANK_CLAIMED, EMU_RANK_TAKEN, EMU_RANK_LEFT };
enum emu_rank_claim emu_timeline_add_host(struct emu_timeline *t, int pid, int rank, int *host);
void emu_timeline_remove_host(struct emu_timeline *t, int host); /* and its lanes: what they hold is free again */

/* What a host does. It goes on by itself, where it waits, when that is known: then nothing happens after it. */
void emu_timeline_run_host(struct emu_timeline *t, int host, double clock_ns);
void emu_timeline_wait_moment(struct emu_timeline *t, int host, int moment, double clock_ns);
void emu_timeline_wait_lane(struct emu_timeline *t, int host, int lane, double clock_ns); /* 0: for all of its lanes */
void emu_timeline_wait_step(struct emu_timeline *t, int host, int lane, double clock_ns); /* until one there ends */
/* It waits for other hosts, by means that nobody sees here: when all do they go on, each with its clock. _lose: nobody
 * knows for what, or whether it lives. */
void emu_timeline_await_hosts(struct emu_timeline *t, int host);
void emu_timeline_lose_host(struct emu_timeline *t, int host);
/* Loses hosts of which nothing was heard for so many seconds, and removes those whose processes are gone. */
void emu_timeline_check_hosts(struct emu_timeline *t, double patience_s);

/* No host runs, and nothing would ever happen: whoever waits has to do without. */
bool emu_timeline_is_stuck(const struct emu_timeline *t);

/* Sleeps, without the lock, until there is news for the host since it was seen, at most 0.25 s. */
uint32_t emu_timeline_wakeups(struct emu_timeline *t, int host);
void emu_timeline_sleep(struct emu_timeline *t, int host, uint32_t seen);
void emu_timeline_wake(struct emu_timeline *t, int host);

/* ---- lanes ---- */

/* The parts of a GPU: what each carries, and its number among those that other GPUs use, too, -1: its own. */
struct emu_gpu_parts {
    double gbps[EMU_PARTS];
    int shared[EMU_PARTS];
};

/* It is known, or known better, where a GPU is that has lanes. */
void emu_timeline_set_gpu_parts(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts);
int emu_timeline_add_lane(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts);
void emu_timeline_remove_lane(struct emu_timeline *t, int lane); /* what it was given has ended; it tells its moments */
double emu_timeline_lane_ns(const struct emu_timeline *t, int lane); /* when it has ended what has happened so far */

/* ---- moments ---- */

int emu_timeline_add_moment(struct emu_timeline *t); /* one reference */
void emu_timeline_drop_moment(struct emu_timeline *t, int moment);
bool emu_timeline_knows(const struct emu_timeline *t, int moment, double *when_ns);

/* ---- steps ---- */

void emu_timeline_record(struct emu_timeline *t, int lane, double issue_ns, int moment);
void emu_timeline_wait(struct emu_timeline *t, int lane, double issue_ns, int moment);
/* turn: of a collective, counted by its communicator. The step is the caller's until it is taken, 0: it told not to
 * keep it. */
int emu_timeline_add(struct emu_timeline *t, int lane, double issue_ns, const struct emu_demand *demand, uint64_t turn,
                     bool keep);
int emu_timeline_end_of(struct emu_timeline *t, int step); /* the moment of a kept one; one reference */
/* Whether it has ended: then what it lost, when it ended, and it is no more. */
bool emu_timeline_collect(struct emu_timeline *t, int step, int64_t *extra_ns, int64_t *end_ns);
void emu_timeline_abandon(struct emu_timeline *t, int step); /* it ends now; whom it should meet is not told */

#pragma GCC visibility pop
#endif
