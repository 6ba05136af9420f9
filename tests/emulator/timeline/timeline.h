/*
 * timeline.h - a discrete-event simulation of the operations on the streams of one process, or of all processes of a
 * job. It determines how much concurrent operations slow each other down: transfers share links, NICs and uplinks at
 * max-min fair rates (proxies/simulation/machine/flows.h, as in `busbar plan`), kernels lose SMs and memory bandwidth
 * to NCCL.
 *
 *   host     a process that issues operations. Simulated time never passes a point at which a running host could still
 *            issue something
 *   lane     a stream
 *   step     an entry of a lane: an operation, a moment to record, or a moment to wait for
 *   moment   a point in a lane whose time is unknown until the lane reaches it (as a CUDA event)
 *   call     a collective call: begins when all members of the communicator have arrived
 *   endpoint one side of a message: a message begins when both endpoints have arrived
 *
 * All state is in one block of memory without pointers, so that processes can share it. There is no simulation thread:
 * each process that issues something or waits runs the events that are due. Ids count from 1; 0 means none.
 */
#ifndef EMU_TIMELINE_H
#define EMU_TIMELINE_H

#include "engine.h"

#include <stdint.h>

#pragma GCC visibility push(hidden)

#define EMU_TIMELINE "emu-timeline" /* name of the memory file (memfd) */

struct emu_timeline; /* this process's view of a timeline */

/*
 * emu_timeline_open - create a timeline in a memory file, or attach to one.
 *   fd       the descriptor of an existing timeline, which the new view owns; -1: create
 *   Returns  NULL if out of memory, or if the descriptor is not a timeline of this build
 */
struct emu_timeline *emu_timeline_open(const struct bb_cluster *machine, int fd);
void emu_timeline_close(struct emu_timeline *t);
int emu_timeline_descriptor(const struct emu_timeline *t);

/*
 * Lock and unlock the timeline. All functions below require the lock. emu_timeline_unlock first runs all due events.
 * emu_timeline_lock returns false, without the lock, once the timeline has failed: a capacity was exceeded, or a
 * process died while it held the lock (*owner_died). emu_timeline_failure returns the text of the failure.
 */
bool emu_timeline_lock(struct emu_timeline *t);
void emu_timeline_unlock(struct emu_timeline *t);
const char *emu_timeline_failure(const struct emu_timeline *t, bool *owner_died);

/* ---- hosts ---- */

/*
 * emu_timeline_add_host - claim a rank of the job for a process.
 *   host     out: the id of the host
 *   Returns  EMU_RANK_CLAIMED, or EMU_RANK_TAKEN if another live process has this rank, or EMU_RANK_LEFT if the process
 *            of this rank has ended (the timeline belongs to an earlier job)
 */
enum emu_rank_claim { EMU_RANK_CLAIMED, EMU_RANK_TAKEN, EMU_RANK_LEFT };
enum emu_rank_claim emu_timeline_add_host(struct emu_timeline *t, int pid, int rank, int *host);
void emu_timeline_remove_host(struct emu_timeline *t, int host); /* removes its lanes too, which frees what they hold */

/* The state of a host. A host that waits for a moment, a lane or a step runs again as soon as the time of the end is
 * known; no event passes that time. */
void emu_timeline_run_host(struct emu_timeline *t, int host, double clock_ns);
void emu_timeline_wait_moment(struct emu_timeline *t, int host, int moment, double clock_ns);
/* lane 0: all lanes of the host */
void emu_timeline_wait_lane(struct emu_timeline *t, int host, int lane, double clock_ns);
/* until any step of the lane ends; lane 0: of any lane */
void emu_timeline_wait_step(struct emu_timeline *t, int host, int lane, double clock_ns);
/*
 * emu_timeline_await_hosts: the host waits for other hosts by means outside the timeline, such as MPI_Barrier. When all
 * hosts wait in this way, all run again, each with its own clock. polls: the host polls and notices that
 * emu_timeline_returns has changed.
 * emu_timeline_end_wait: such a wait has ended, also one that was not reported. The waits of the others may have ended,
 * too, so all hosts that poll run again; those that still wait must call emu_timeline_await_hosts again.
 * emu_timeline_lose_host: nothing is known about the host, which no longer holds up the simulated time.
 */
void emu_timeline_await_hosts(struct emu_timeline *t, int host, bool polls);
void emu_timeline_end_wait(struct emu_timeline *t, int host, double clock_ns);
uint32_t emu_timeline_returns(const struct emu_timeline *t); /* callable without the lock */
void emu_timeline_lose_host(struct emu_timeline *t, int host);
bool emu_timeline_is_running(const struct emu_timeline *t, int host);
bool emu_timeline_has_lost(const struct emu_timeline *t, int host);
/*
 * Removes hosts whose process has ended, and loses running hosts that wait without reporting it: hosts that call nothing
 * and whose first thread sleeps for patience_s, or polls for patience_s of processor time. A host that gets no processor
 * is not lost. Checks at most every half of patience_s.
 */
void emu_timeline_check_hosts(struct emu_timeline *t, double patience_s);

/* No host runs and no event is pending, so that no wait would ever end. */
bool emu_timeline_is_stuck(const struct emu_timeline *t);

/*
 * emu_timeline_sleep waits, without the lock, until a wake-up of the host since emu_timeline_wakeups returned `seen`,
 * at most 0.25 s.
 */
uint32_t emu_timeline_wakeups(struct emu_timeline *t, int host);
void emu_timeline_sleep(struct emu_timeline *t, int host, uint32_t seen);
void emu_timeline_wake(struct emu_timeline *t, int host);

/* ---- lanes ---- */

/*
 * The resources of a GPU (enum emu_part): their rates, and their number among the resources of that kind which several
 * GPUs share; -1: private to the GPU.
 */
struct emu_gpu_parts {
    double gbps[EMU_PARTS];
    int shared[EMU_PARTS];
};

/* Updates the resources of a GPU that may already have lanes, when its position in the machine becomes known. */
void emu_timeline_set_gpu_parts(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts);
int emu_timeline_add_lane(struct emu_timeline *t, int host, int device, const struct emu_gpu_parts *parts);
void emu_timeline_remove_lane(struct emu_timeline *t, int lane);     /* drops all remaining steps and records their
                                                                    moments */
double emu_timeline_lane_ns(const struct emu_timeline *t, int lane); /* end of the latest step that has ended */

/* ---- moments ---- */

int emu_timeline_add_moment(struct emu_timeline *t); /* the caller owns one reference */
void emu_timeline_drop_moment(struct emu_timeline *t, int moment);
bool emu_timeline_knows(const struct emu_timeline *t, int moment, double *when_ns);

/* ---- steps ---- */

void emu_timeline_record(struct emu_timeline *t, int lane, double issue_ns, int moment);
void emu_timeline_wait(struct emu_timeline *t, int lane, double issue_ns, int moment);
/*
 * emu_timeline_add - add an operation.
 *   turn     of a collective: its number among the communicator's collectives
 *   keep     the caller fetches the result with emu_timeline_collect, or drops it with emu_timeline_abandon
 *   Returns  the step; 0 with keep false
 */
int emu_timeline_add(struct emu_timeline *t, int lane, double issue_ns, const struct emu_demand *demand, uint64_t turn,
                     bool keep);
int emu_timeline_end_of(struct emu_timeline *t, int step); /* the moment at which a kept step ends; the caller owns
                                                              one reference */
/* Returns whether the step has ended. If so, stores its loss and its end (0: not tied to peers), and frees the step. */
bool emu_timeline_collect(struct emu_timeline *t, int step, int64_t *extra_ns, int64_t *end_ns);
void emu_timeline_abandon(struct emu_timeline *t, int step); /* the step ends now, without its peers */

#pragma GCC visibility pop
#endif
