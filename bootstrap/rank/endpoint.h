/* endpoint.h - the servers among the supervisors of a job (bootstrap/supervise/star.h), and their addresses. */
#ifndef BB_BOOTSTRAP_RANK_ENDPOINT_H
#define BB_BOOTSTRAP_RANK_ENDPOINT_H

#include "bootstrap/base/siphash.h"

#include <sys/socket.h>

/* Addresses at which a supervisor listens, and the secret token of the job. Plain data, so that MPI can broadcast
 * it. n is 0 if the supervisor does not listen. */
#define BB_STAR_ADDRESSES 8
struct bb_star_endpoint {
    struct bb_siphash_key token;
    int n;
    struct sockaddr_storage at[BB_STAR_ADDRESSES];
};

/* Servers: the supervisor of rank 0, and that of another rank, which takes over if the first is lost or does not
 * answer. */
enum { BB_STAR_SERVERS = 2 };

/* bb_star_backup - returns the rank whose supervisor is the backup server: the first rank of the second node, so that
 * it outlives the first node, else the rank after the `first` ranks of the first supervisor; -1: none. node_of: [size]
 * node of each rank. */
int bb_star_backup(int size, const int *node_of, int first);

#endif
