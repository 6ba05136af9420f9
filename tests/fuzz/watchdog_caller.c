/*
 * watchdog_caller.c - a rank connects to rank 0 or to the backup reporter, but another program listens on the address:
 * it sends its challenge, and then arbitrary bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "bootstrap/watchdog/watchdog_dial.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bb_watchdog_endpoint ticket = {.token = {.k = {1, 2}}, .n = 1};
    struct dialling d = {.ticket = &ticket, .first = bb_watchdog_msg(WATCHDOG_HELLO, 1, 0), .answer_s = 1, .tried = 1};
    int ends[2], answered = 0;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
        return 0;
    d.links[0] = (struct bb_watchdog_link){.fd = ends[0]};
    d.states[0] = CONNECTED;
    (void)!send(ends[1], data, size, MSG_NOSIGNAL);
    while (d.states[0] == CONNECTED && d.links[0].have < size && size >= sizeof(struct bb_watchdog_msg))
        greet(&d, 0);
    if (d.states[0] == GREETED)
        answered = hear(&d, 0);
    HOLDS(!answered);
    HOLDS(memchr(d.reply.seen.text, '\0', BB_WATCHDOG_TEXT));
    bb_watchdog_close(&d.links[0]);
    close(ends[1]);
    return 0;
}
