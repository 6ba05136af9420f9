/* local_name.h - names of sockets that the ranks of a job on one host find each other by: the kernel's, nothing on disk,
 * and gone with the process that has them. */
#ifndef BB_BOOTSTRAP_START_LOCAL_NAME_H
#define BB_BOOTSTRAP_START_LOCAL_NAME_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

struct bb_local_name {
    struct sockaddr_un at;
    socklen_t length;
};

/* bb_local_name - `prefix` and what the ranks of this job on this host have in common, and other jobs there have not. */
struct bb_local_name bb_local_name(const char *prefix, pid_t launcher);

/* bb_local_listen - a descriptor that has the name; -1 with errno: EADDRINUSE, another one has it. */
int bb_local_listen(const struct bb_local_name *name);

/* bb_local_connect - a descriptor of a connection to who has the name, if it is of our own user, and its process where
 * pid is not NULL (0: not seen from here); -1: nobody, with errno. Does not wait. */
int bb_local_connect(const struct bb_local_name *name, pid_t *pid);

#endif
