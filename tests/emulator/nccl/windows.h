/* windows.h - symmetric windows and device communicators: memory that all ranks of a node map. A rank maps the memory of
 * every rank at equal distances, as NCCL does. Registration is collective and, like the creation of a communicator,
 * divided into two calls so that one thread can register for several ranks. */
#ifndef EMU_NCCL_WINDOWS_H
#define EMU_NCCL_WINDOWS_H

#include "comm.h"
#include "device_structs.h"

struct en_window {
    struct en_window *next; /* in the list of its communicator */
    ncclComm_t comm;
    char *base; /* this rank's memory */
    size_t bytes;
    bool owned; /* base is released with the window: the resources of a device communicator */
    char *all;  /* mapped memory of all ranks; lsa.flat is the part of this node */
    struct en_lsa lsa;
    struct en_gin *gin; /* of a device communicator; NULL: none */
    void *handle;       /* ncclWindow_t; NULL: not mapped */
    void **out;         /* where a window's handle is stored */
    void *device_comm;  /* struct ncclDevComm to fill in; NULL: a window */
    struct en_requirements wanted;
    uint64_t serial;
    uint32_t generation;
};

/* Whether the ranks can access each other's memory: on one node or over GIN, and not disabled. */
bool en_windows_possible(ncclComm_t comm);

ncclResult_t en_window_post(struct en_window *w);
ncclResult_t en_window_wait(struct en_window *w);
void en_windows_release(ncclComm_t comm); /* all windows of a communicator */

#endif
