/*
 * watchdog_visitor.c - bytes from a program that connects to rank 0 or to the backup reporter and does not know the
 * run's token. The first byte selects the receiver; the remaining bytes arrive in chunks whose size is the second byte.
 */
#include "tests/fuzz/watchdog.h"

static void send_bytes(int fd, const uint8_t *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) < 0)
        return; /* the watchdog has closed the connection */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bb_watchdog_link intruder;
    const size_t piece = size > 1 && data[1] ? data[1] : 64;
    struct fuzz_watchdog d;

    if (size < 2)
        return 0;
    start_watchdog(&d, data[0] & 1);
    connect_link(&d.visitors[0], &intruder);
    for (size_t at = 2; at < size; at += piece) {
        send_bytes(intruder.fd, data + at, size - at < piece ? size - at : piece);
        read_visitors(&d.watchdog);
    }
    for (int i = 1; i < d.watchdog.n_peers; i++)
        HOLDS(!d.peers[i].joined); /* a connection without the token never becomes a peer */
    HOLDS(!d.watchdog.ending);
    check_texts(&d);
    bb_watchdog_close(&intruder);
    read_visitors(&d.watchdog);
    HOLDS(d.visitors[0].fd < 0);
    stop_watchdog(&d);
    return 0;
}
