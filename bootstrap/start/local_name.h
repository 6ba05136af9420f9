/* local_name.h - names of abstract Unix sockets through which the ranks of a job on one host find each other. An
 * abstract socket has no file; the kernel removes the name when the owning process exits. */
#ifndef BB_BOOTSTRAP_START_LOCAL_NAME_H
#define BB_BOOTSTRAP_START_LOCAL_NAME_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct bb_local_name {
    struct sockaddr_un at;
    socklen_t length;
};

/* bb_local_name - returns the socket name made of `prefix` and an identifier of the job, which all ranks of the job
 * on this host share and no other job on the host has. launcher: process id of the job's launcher. */
struct bb_local_name bb_local_name(const char *prefix, pid_t launcher);

/* bb_local_listen - bind to the name and listen. Returns the descriptor, or -1 with errno set (EADDRINUSE: another
 * process owns the name). */
int bb_local_listen(const struct bb_local_name *name);

/*
 * bb_local_connect - connect to the owner of a name, without blocking.
 *   pid      out: process id of the owner, 0 if the owner is in another PID namespace; may be NULL
 *   Returns  the descriptor; -1 with errno set if the name has no owner, or if another user owns it (EACCES)
 */
int bb_local_connect(const struct bb_local_name *name, pid_t *pid);

#endif
