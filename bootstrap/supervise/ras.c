/* ras.c - see ras.h. The protocol is text: one line with a command; the server closes the connection after the answer
 * (NCCL 2.30, ras/client.cc). */
#include "bootstrap/supervise/ras.h"

#include "bootstrap/base/clock.h"

#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Members of a job wait two seconds for the server's decision about a hang, one of which the server may use to collect
 * states (supervisor.c). */
static const double LIMIT_S = 0.5;
static const char DEFAULT_ADDRESS[] = "localhost:28028", COMMAND[] = "VERBOSE STATUS\n";

/* Waits until the socket is ready for `events`. Returns false after the time end_s. */
static bool wait_ready(int fd, short events, double end_s)
{
    struct pollfd p = {.fd = fd, .events = events};
    const double left_s = end_s - bb_now_s();

    return left_s > 0 && poll(&p, 1, (int)(1e3 * left_s) + 1) > 0;
}

/* Begins to connect to a numeric address. Returns the socket, or -1. */
static int dial(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *at = NULL;
    int fd = -1;

    if (getaddrinfo(host, port, &hints, &at) == 0)
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)!connect(fd, at->ai_addr, at->ai_addrlen); /* send() reports an error */
    if (at)
        freeaddrinfo(at);
    return fd;
}

static void ask(const char *host, const char *port, char *answer, size_t capacity, double end_s)
{
    const int fd = dial(host, port);
    size_t have = 0;
    ssize_t got = 1;

    if (fd < 0)
        return;
    if (wait_ready(fd, POLLOUT, end_s) && send(fd, COMMAND, strlen(COMMAND), MSG_NOSIGNAL) > 0)
        for (; got > 0 && have < capacity - 1 && wait_ready(fd, POLLIN, end_s); have += got > 0 ? (size_t)got : 0)
            got = recv(fd, answer + have, capacity - 1 - have, 0);
    answer[have] = '\0';
    close(fd);
}

void bb_ras_ask(char *answer, size_t capacity)
{
    const char *given = getenv("NCCL_RAS_ADDR");
    const double end_s = bb_now_s() + LIMIT_S;
    char address[256], *host = address, *port;

    answer[0] = '\0';
    snprintf(address, sizeof(address), "%s", given ? given : DEFAULT_ADDRESS);
    if (!(port = strrchr(address, ':')))
        return;
    *port++ = '\0';
    if (host[0] == '[') /* [::1]:28028 */
        *(host++ + strcspn(address, "]")) = '\0';
    if (strcmp(host, "localhost") != 0) {
        ask(host, port, answer, capacity, end_s);
        return;
    }
    ask("127.0.0.1", port, answer, capacity, end_s);
    if (!answer[0])
        ask("::1", port, answer, capacity, end_s);
}
