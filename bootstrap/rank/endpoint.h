/* endpoint.h - addresses of the two supervisors of a job to which all others connect (the servers, see
 * bootstrap/supervise/star.h). */
#ifndef BB_BOOTSTRAP_RANK_ENDPOINT_H
#define BB_BOOTSTRAP_RANK_ENDPOINT_H

#include "bootstrap/rank/siphash.h"

#include <sys/socket.h>

/* Addresses at which a supervisor listens, and the secret token of the job. The struct contains no pointers, so that
 * MPI can broadcast it. */
#define BB_STAR_ADDRESSES 8
struct bb_star_endpoint {
    struct bb_siphash_key token; /* set only in the endpoint of rank 0's supervisor */
    int n;                       /* number of addresses; 0: the supervisor does not listen */
    struct sockaddr_storage at[BB_STAR_ADDRESSES];
};

/* Number of servers: the supervisor of rank 0, and the backup server, which takes over if the first is lost or does not
 * answer. */
enum { BB_STAR_SERVERS = 2 };

/* bb_star_backup - return the rank whose supervisor is the backup server: the lowest rank on another node than rank 0,
 * so that the backup server survives a failure of that node; with one node, the first rank of the second supervisor.
 * node_of: [size] node of each rank; first: number of ranks of the first supervisor. Returns -1 if the job has only one
 * supervisor. */
int bb_star_backup(int size, const int *node_of, int first);

#endif
