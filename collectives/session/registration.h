/*
 * registration.h - allocates the buffer arena and registers it with NCCL: with the communicator (ncclCommRegister) or
 * as a symmetric window (ncclCommWindowRegister). If the running NCCL does not support the requested kind of
 * registration, the arena is not registered, and bb_registration.why contains the reason.
 */
#ifndef BB_COLLECTIVES_SESSION_REGISTRATION_H
#define BB_COLLECTIVES_SESSION_REGISTRATION_H

#include "bootstrap/world/comms.h"
#include "cuda/data/buffers.h"

/* Kinds of registration, with the values of nccl-tests' option -R. */
enum bb_registration_kind { BB_REGISTER_NONE, BB_REGISTER_LOCAL, BB_REGISTER_SYMMETRIC, BB_REGISTER_COUNT };

struct bb_registration {
    enum bb_registration_kind kind; /* kind of the existing registration; BB_REGISTER_NONE if NCCL does not support
                                       the requested kind */
    const char *why;                /* why `kind` is not the requested kind; NULL: it is */
    void *memory;                   /* arena from ncclMemAlloc; NULL: not allocated */
    bool window;                    /* the handle is a window, also if it is not symmetric */
    void *handle;                   /* NCCL's handle of the registration or the window; NULL: none */
};

extern const char *const bb_registration_names[BB_REGISTER_COUNT]; /* "none", "local", "symmetric" */

/*
 * bb_window_is_symmetric - whether NCCL's operations can use a window as symmetric memory. NCCL 2.29 and newer return no
 * window otherwise. Older versions return a window or a local registration also if the ranks cannot access each other's
 * memory, so the function requires that the first `ranks` ranks of the run are on one node and that this rank's GPU can
 * access all GPUs that the process sees.
 *   window   handle from ncclCommWindowRegister
 */
bool bb_window_is_symmetric(const struct bb_world *w, int ranks, const void *window);

/*
 * bb_registration_init    - allocate the arena on the current device and register it. Collective over the communicator.
 *   r        out: the registration, which owns the arena's memory. bb_registration_release also accepts a partly
 *            initialized registration
 *   arena    out: address and size of the arena
 *   bytes    size of the arena
 *   asked    requested kind, not BB_REGISTER_NONE
 *   comm     communicator to register with
 *   Returns  0, also if NCCL does not support the kind, or a negative error code
 * bb_registration_release - deregister and free the arena. Call before the communicator is destroyed.
 */
int bb_registration_init(struct bb_registration *r, struct bb_guarded *arena, size_t bytes,
                         enum bb_registration_kind asked, struct bb_comm *comm) BB_MUST_CHECK;
void bb_registration_release(struct bb_registration *r, struct bb_guarded *arena, struct bb_comm *comm);

#endif
