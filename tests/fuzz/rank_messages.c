/*
 * rank_messages.c - bytes that a rank sends to its supervisor. The first byte is the size of the chunks in which they
 * arrive. Endpoints of JOIN are ignored, because the supervisor would connect to arbitrary addresses.
 */
#include "tests/fuzz/supervisor.h"

/* Replaces the function that connects to the servers, for the call in ranks.c. */
#define bb_peers_join join_no_server
static void join_no_server(struct bb_supervisor *s, const struct bb_star_endpoint *endpoints)
{
    (void)endpoints;
    bb_supervisor_event(s, BB_EVENT_UNREACHABLE);
}
#include "bootstrap/supervise/ranks.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t chunk = size > 0 && data[0] ? data[0] : 4096;
    struct fuzz_supervisor f;
    int ends[2];

    if (size < 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        return 0;
    start_supervisor(&f, 0, 1);
    f.child.socket.fd = ends[0];
    for (size_t at = 1; at < size; at += chunk) {
        char ignored[4096];

        (void)!send(ends[1], data + at, size - at < chunk ? size - at : chunk, MSG_NOSIGNAL);
        bb_ranks_read(&f.s);
        while (recv(ends[1], ignored, sizeof(ignored), MSG_DONTWAIT) > 0)
            continue;
    }
    close(ends[1]);
    bb_ranks_read(&f.s);
    HOLDS(f.child.socket.fd < 0);
    take_end(&f.s, &f.child, 0);
    for (int i = 0; i < BB_STATES && f.s.state != BB_STATE_OVER; i++)
        bb_supervisor_event(&f.s, BB_EVENT_TIMER); /* all time limits pass, so the error line is composed */
    HOLDS(strlen(f.s.line) < BB_VERDICT_LINE);
    stop_supervisor(&f);
    return 0;
}
