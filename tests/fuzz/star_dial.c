/*
 * star_dial.c - a supervisor connects to a server, but another program listens on the address: it sends arbitrary
 * bytes. The supervisor's nonce is random in every input, so the bytes cannot contain the tag of a valid answer.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/star.h"
#include "tests/fuzz/fuzz.h"

#include <limits.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bb_star_endpoint server = {.token = {.k = {1, 2}}, .n = 1};
    const struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, 1, 1);
    const double patience_s[2] = {10, 10};
    struct bb_star_link link = {.fd = -1};
    struct bb_star_dial d;
    int ends[2], done = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        return 0;
    bb_star_dial_begin(&d, &server, &hello, patience_s);
    d.links[0].fd = ends[0];
    d.states[0] = BB_CONNECTED;
    d.tried = 1;
    d.refusals = INT_MAX / 2; /* no further connection after an invalid answer */
    (void)!send(ends[1], data, size, MSG_NOSIGNAL);
    shutdown(ends[1], SHUT_WR);
    for (size_t i = 0; i <= size / sizeof(struct bb_star_msg) + 1 && done == 0; i++)
        done = bb_star_dial_step(&d, &link);
    close(ends[1]);
    HOLDS(done < 0); /* the bytes are invalid, or the connection ends before the answer */
    HOLDS(link.fd < 0 && d.links[0].fd < 0);
    return 0;
}
