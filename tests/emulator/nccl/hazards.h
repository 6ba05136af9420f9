/* hazards.h - conditions in which the real NCCL blocks the host inside a call, or fails because memory is exhausted. An
 * environment variable switches each on (../README.md). */
#ifndef EMU_NCCL_HAZARDS_H
#define EMU_NCCL_HAZARDS_H

#include "comm.h"

/* en_hazards_join - read the settings of a new communicator; take the hardware queues of its internal streams, its shared
 * memory and its buffers. en_hazards_leave - release the memory. */
ncclResult_t en_hazards_join(ncclComm_t comm);
void en_hazards_leave(ncclComm_t comm);

/* The first collective of an algorithm connects the ranks. Two functions, so that one thread can connect several
 * ranks: post arrives at the barrier, wait waits until all ranks have arrived. */
void en_connect_post(ncclComm_t comm, const struct en_task *task);
ncclResult_t en_connect_wait(ncclComm_t comm);

/* The work FIFO: en_fifo_take reserves bytes for a plan and blocks the host while the FIFO is full; en_fifo_free
 * releases them when the kernel has ended. */
void en_fifo_take(struct en_plan *plan);
void en_fifo_free(struct en_plan *plan);

/* EMU_SMS: the operations of a device share its SMs, one for each of their CTAs. en_sms_issue numbers the launches in the
 * order of the calls; en_sms_take waits until the SMs of an operation are free, and with NCCL_LAUNCH_ORDER_IMPLICIT=1
 * until all earlier launches have begun; en_sms_free releases them at its end. */
void en_sms_issue(struct en_plan *plan);
enum en_end en_sms_take(struct en_plan *plan);
void en_sms_free(struct en_plan *plan);

/* When a collective begins on this rank. own_ns: arrival of this rank; latest_ns: latest arrival of all ranks. With
 * EMU_SEND_AHEAD a rank that only sends does not wait for the receivers, as long as their buffers have space. Called
 * on the thread of the running operation. */
int64_t en_begin_ns(ncclComm_t comm, const struct en_task *task, int64_t own_ns, int64_t latest_ns);

/* EMU_NCCL_WINDOW: minor version of the NCCL 2.x whose windows are emulated, by default that of the header; 0: no
 * windows. */
int en_window_minor(void);
bool en_has_multicast(void); /* EMU_MULTICAST_MIB */
/* EMU_GIN: whether the network supports GIN, in order or as adverse network (device_gin.h). */
enum en_gin_kind { EN_GIN_NONE, EN_GIN_ORDERED, EN_GIN_LATE };
enum en_gin_kind en_gin(void);

/* With EMU_SYMMETRIC_PERCENT=N, collectives of a communicator with windows run symmetric kernels, or copies by copy engines,
 * in N % of the time of ordinary kernels, and are not reported to profilers. en_symmetric_percent returns N, or 0 for an
 * ordinary kernel. */
bool en_is_by_copies(ncclComm_t comm, enum en_kind kind);
int en_symmetric_percent(ncclComm_t comm, enum en_kind kind);
bool en_is_off(const char *variable); /* the variable is set to 0 */

/* After the first capture of a communicator's operations, NCCL adds a wait for an event and a record to each operation
 * that is not captured (strongstream.cc), which takes EMU_MIXING_US. */
void en_mixing_capture(ncclComm_t comm);
int64_t en_mixing_ns(const struct en_plan *plan);

/* Entries of the launch queue that a plan occupies in addition to its own. */
int en_queue_entries(const struct en_plan *plan);

#endif
