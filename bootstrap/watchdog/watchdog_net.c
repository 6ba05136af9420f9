/* watchdog_net.c - the watchdog's sockets: listen, dial, whole messages. */
#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t WATCHDOG_MAGIC = 0xbb0ca112;

static socklen_t address_length(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void set_port(struct sockaddr_storage *at, in_port_t port)
{
    if (at->ss_family == AF_INET)
        ((struct sockaddr_in *)at)->sin_port = port;
    else
        ((struct sockaddr_in6 *)at)->sin6_port = port;
}

/* A host that vanishes closes nothing: the kernel asks after 10 s of silence, and gives up after 30 s. */
static void watch_link(int fd)
{
    int on = 1, idle_s = 10, every_s = 5, times = 4, unacked_ms = 30000;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked_ms, sizeof(unacked_ms));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int listen_at(struct sockaddr_storage *at)
{
    socklen_t length = address_length(at->ss_family);
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)at, length) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)at, &length)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Addresses of this host that another one could reach: interfaces that are up, no loopback, no link-local. */
static void list_addresses(struct bb_watchdog_endpoint *ticket, int family, in_port_t port)
{
    struct ifaddrs *all, *i;

    if (getifaddrs(&all))
        return;
    for (i = all; i && ticket->n < BB_WATCHDOG_ADDRESSES; i = i->ifa_next) {
        struct sockaddr_storage *at = &ticket->at[ticket->n];

        if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
            (i->ifa_flags & IFF_LOOPBACK))
            continue;
        memcpy(at, i->ifa_addr, address_length(family));
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)at)->sin6_addr))
            continue;
        set_port(at, port);
        ticket->n++;
    }
    freeifaddrs(all);
}

static int listen_loopback(struct bb_watchdog_endpoint *ticket)
{
    struct sockaddr_in *at = (struct sockaddr_in *)&ticket->at[0];

    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ticket->n = 1;
    return listen_at(&ticket->at[0]);
}

/* One socket for both families where the system has IPv6, else IPv4 alone. */
static int listen_everywhere(struct bb_watchdog_endpoint *ticket)
{
    struct sockaddr_storage any6 = {.ss_family = AF_INET6}, any4 = {.ss_family = AF_INET};
    int fd = listen_at(&any6);
    in_port_t port = ((struct sockaddr_in6 *)&any6)->sin6_port;

    if (fd < 0) {
        fd = listen_at(&any4);
        port = ((struct sockaddr_in *)&any4)->sin_port;
    }
    list_addresses(ticket, AF_INET, port);
    list_addresses(ticket, AF_INET6, port);
    return fd;
}

int bb_watchdog_listen(bool loopback, struct bb_watchdog_endpoint *ticket, int *fd)
{
    memset(ticket, 0, sizeof(*ticket));
    if (getrandom(&ticket->token, sizeof(ticket->token), 0) != sizeof(ticket->token))
        return bb_err(BB_EFAIL, "watchdog: no random numbers: %s", strerror(errno));
    *fd = loopback ? listen_loopback(ticket) : listen_everywhere(ticket);
    if (*fd < 0)
        return bb_err(BB_EFAIL, "watchdog: cannot listen: %s", strerror(errno));
    return 0;
}

int bb_watchdog_accept(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        watch_link(fd);
    return fd;
}

/* 1: ready for `events`, 0: not within the time. */
static int ready_for(int fd, short events, double patience_s)
{
    struct pollfd p = {.fd = fd, .events = events};
    int n;

    do
        n = poll(&p, 1, (int)(patience_s * 1000));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

static int connect_to(const struct sockaddr_storage *at, double patience_s)
{
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t length = sizeof(error);

    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)at, address_length(at->ss_family)) && errno != EINPROGRESS)
        goto out;
    if (!ready_for(fd, POLLOUT, patience_s) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) || error)
        goto out;
    watch_link(fd);
    return fd;
out:
    close(fd);
    return -1;
}

/* Say HELLO and hear it back: another host may have the same private address. */
static int exchange_hello(struct bb_watchdog_link *link, uint32_t rank, uint64_t token, double patience_s)
{
    struct bb_watchdog_msg hello = bb_watchdog_msg(WATCHDOG_HELLO, rank, 0), back;
    double end_s = bb_now_s() + patience_s;
    int got = 0;

    hello.token = token;
    if (bb_watchdog_send(link, &hello, patience_s))
        return -1;
    while (got == 0 && bb_now_s() < end_s)
        if (ready_for(link->fd, POLLIN, end_s - bb_now_s()))
            got = bb_watchdog_receive(link, &back);
    return got == 1 && back.kind == WATCHDOG_HELLO && back.token == token ? 0 : -1;
}

int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, uint32_t rank, struct bb_watchdog_link *link)
{
    enum { CONNECT_S = 3, ANSWER_S = 10 };

    for (int i = 0; i < ticket->n; i++) {
        *link = (struct bb_watchdog_link){.fd = connect_to(&ticket->at[i], CONNECT_S)};
        if (link->fd >= 0 && exchange_hello(link, rank, ticket->token, ANSWER_S) == 0)
            return 0;
        bb_watchdog_close(link);
    }
    return -BB_EFAIL;
}

int bb_watchdog_send(struct bb_watchdog_link *link, const struct bb_watchdog_msg *msg, double patience_s)
{
    size_t done = 0;
    double end_s = bb_now_s() + patience_s;

    while (link->fd >= 0 && done < sizeof(*msg)) {
        ssize_t n = send(link->fd, (const char *)msg + done, sizeof(*msg) - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            if (errno != EAGAIN || bb_now_s() >= end_s + (done ? 1 : 0))
                break;
            ready_for(link->fd, POLLOUT, 0.01);
        }
    }
    if (done && done < sizeof(*msg))
        shutdown(link->fd, SHUT_RDWR); /* half a message: nothing that follows could be read */
    return done == sizeof(*msg) ? 0 : -1;
}

int bb_watchdog_receive(struct bb_watchdog_link *link, struct bb_watchdog_msg *msg)
{
    char *at = (char *)&link->in;
    ssize_t n = recv(link->fd, at + link->have, sizeof(link->in) - link->have, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    link->have += n > 0 ? (size_t)n : 0;
    if (link->have < sizeof(link->in))
        return 0;
    if (link->in.magic != WATCHDOG_MAGIC)
        return -1;
    link->have = 0;
    *msg = link->in;
    msg->seen.text[BB_WATCHDOG_TEXT - 1] = msg->seen.wait[BB_WATCHDOG_TEXT - 1] = '\0';
    return 1;
}

void bb_watchdog_close(struct bb_watchdog_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->have = 0;
}

struct bb_watchdog_msg bb_watchdog_msg(enum bb_watchdog_kind kind, uint32_t rank, int code)
{
    struct bb_watchdog_msg msg;

    memset(&msg, 0, sizeof(msg)); /* the padding travels too */
    msg.magic = WATCHDOG_MAGIC;
    msg.kind = (uint16_t)kind;
    msg.code = (int16_t)code;
    msg.rank = rank;
    return msg;
}
