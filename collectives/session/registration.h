/*
 * registration.h - the arena of a run in memory that NCCL knows: registered with the communicator, or as a symmetric
 * window. What the running NCCL does not support is said in one warning by rank 0, and the run goes on without it.
 */
#ifndef BB_COLLECTIVES_SESSION_REGISTRATION_H
#define BB_COLLECTIVES_SESSION_REGISTRATION_H

#include "bootstrap/world/comms.h"
#include "cuda/data/buffers.h"

/* Numbered as nccl-tests' option -R. */
enum bb_registration_kind { BB_REGISTER_NONE, BB_REGISTER_LOCAL, BB_REGISTER_SYMMETRIC, BB_REGISTER_COUNT };

struct bb_registration {
    enum bb_registration_kind kind; /* what was reached, not what was asked for */
    void *memory;                   /* of ncclMemAlloc                          */
    void *handle;                   /* of a registration or a window            */
};

extern const char *const bb_registration_names[BB_REGISTER_COUNT]; /* none local symmetric */

/*
 * bb_registration_init - an arena of `bytes` on the current device, registered as asked; collective over the
 * communicator. arena->area is owned by the registration. Release works on a half-made one, before the communicator's.
 */
int bb_registration_init(struct bb_registration *r, struct bb_guarded *arena, size_t bytes,
                         enum bb_registration_kind asked, struct bb_comm *comm) BB_MUST_CHECK;
void bb_registration_release(struct bb_registration *r, struct bb_guarded *arena, struct bb_comm *comm);

#endif
