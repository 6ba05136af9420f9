/*
 * star_visitor.c - bytes from a program that connects to the server or to the backup server and does not know the job's
 * token. The first byte selects the receiver; the remaining bytes arrive in chunks whose size is the second byte.
 */
#include "tests/fuzz/supervisor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t chunk = size > 1 && data[1] ? data[1] : 64;
    struct bb_star_link stranger;
    struct fuzz_supervisor f;

    if (size < 2)
        return 0;
    start_supervisor(&f, data[0] & 1, RANKS);
    open_star(&f);
    f.s.state = BB_STATE_RUNNING;
    f.s.role = f.s.job.rank == 0 ? BB_ROLE_SERVER : BB_ROLE_MEMBER;
    start_server(&f);
    connect_link(&f, &stranger);
    for (size_t at = 2; at < size; at += chunk) {
        (void)!send(stranger.fd, data + at, size - at < chunk ? size - at : chunk, MSG_NOSIGNAL); /* fails if the
                                                                          supervisor has closed the connection */
        bb_peers_read(&f.s, bb_now_s());
    }
    for (int r = 0; r < RANKS; r++)
        HOLDS(f.s.star.peers[r].joined == (r == f.s.job.rank)); /* no connection becomes a peer without the token */
    HOLDS(f.s.state == BB_STATE_RUNNING);
    bb_star_close(&stranger);
    bb_peers_read(&f.s, bb_now_s());
    HOLDS(f.s.star.links[BB_STAR_SERVERS].fd < 0);
    stop_supervisor(&f);
    return 0;
}
