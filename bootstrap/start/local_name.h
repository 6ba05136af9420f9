/* local_name.h - names of abstract Unix sockets by which the ranks of a job on one host find each other. They exist
 * only in the kernel and vanish with their process. */
#ifndef BB_BOOTSTRAP_START_LOCAL_NAME_H
#define BB_BOOTSTRAP_START_LOCAL_NAME_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct bb_local_name {
    struct sockaddr_un at;
    socklen_t length;
};

/* bb_local_name - socket name from `prefix` and an identifier that all ranks of this job on this host share and that
 * no other job on the host has. */
struct bb_local_name bb_local_name(const char *prefix, pid_t launcher);

/* bb_local_listen - bind and listen. Returns the descriptor, or -1 with errno; EADDRINUSE: another process owns the
 * name. */
int bb_local_listen(const struct bb_local_name *name);

/*
 * bb_local_connect - connect to the owner of a name, without blocking.
 *   pid      out: process id of the owner, 0 if it is in another PID namespace; may be NULL
 *   Returns  the descriptor; -1 with errno: there is no owner, or it belongs to another user (EACCES)
 */
int bb_local_connect(const struct bb_local_name *name, pid_t *pid);

#endif
