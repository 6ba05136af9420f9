/* watchdog_net.c - the watchdog's sockets: listen, dial, whole messages. */
#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t WATCHDOG_MAGIC = 0xbb0ca112;
static const double CONNECT_S = 2; /* all that a start may lose to a firewall that drops packets           */
static const double ANSWER_S = 10; /* from one who took the call: thousands of ranks may call rank 0 at once */
static const double EACH_S = 0.1;  /* mostly the first address connects, and rank 0 has one visitor a rank   */

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
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), only = 0;

    if (fd < 0)
        return -1;
    if (at->ss_family == AF_INET6) /* net.ipv6.bindv6only may have made it deaf to IPv4 */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
    if (bind(fd, (struct sockaddr *)at, length) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)at, &length)) {
        close(fd);
        return -1;
    }
    return fd;
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
    bb_watchdog_list_addresses(ticket);
    for (int i = 0; i < ticket->n; i++)
        set_port(&ticket->at[i], port);
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

/* ---- dialling: all addresses of rank 0, the next one when the ones before have not answered ---- */

enum attempt_state { NOT_TRIED, CONNECTING, GREETED, GIVEN_UP };

struct dialling {
    const struct bb_watchdog_endpoint *ticket;
    struct bb_watchdog_msg hello;
    struct bb_watchdog_link links[BB_WATCHDOG_ADDRESSES];
    enum attempt_state states[BB_WATCHDOG_ADDRESSES];
    int tried;
    double next_s, end_s; /* when the next one is tried, when all is given up */
};

static void give_up(struct dialling *d, int i)
{
    bb_watchdog_close(&d->links[i]);
    d->states[i] = GIVEN_UP;
    d->next_s = 0;
}

static void try_next(struct dialling *d)
{
    const int i = d->tried++;
    const struct sockaddr_storage *at = &d->ticket->at[i];

    d->next_s = bb_now_s() + EACH_S;
    d->states[i] = CONNECTING;
    d->links[i].fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->links[i].fd < 0 ||
        (connect(d->links[i].fd, (const struct sockaddr *)at, address_length(at->ss_family)) && errno != EINPROGRESS))
        give_up(d, i);
}

/* Connected, or refused. Who takes the call is no firewall, but may have much to do. */
static void greet(struct dialling *d, int i)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(d->links[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) || error ||
        bb_watchdog_send(&d->links[i], &d->hello, 1)) {
        give_up(d, i);
        return;
    }
    watch_link(d->links[i].fd);
    d->states[i] = GREETED;
    d->next_s = bb_now_s() + ANSWER_S / 10;
    d->end_s = bb_now_s() + ANSWER_S;
}

/* 1: HELLO came back. Another host may have the same private address. */
static int hear(struct dialling *d, int i)
{
    struct bb_watchdog_msg back;
    int got = bb_watchdog_receive(&d->links[i], &back);

    if (got == 1 && back.kind == WATCHDOG_HELLO && back.token == d->hello.token)
        return 1;
    if (got != 0)
        give_up(d, i);
    return 0;
}

/* Waits for news of those that are tried; returns the address that answered, -1: none yet. */
static int await_answer(struct dialling *d)
{
    struct pollfd polls[BB_WATCHDOG_ADDRESSES];
    const double until_s = d->tried < d->ticket->n && d->next_s < d->end_s ? d->next_s : d->end_s;
    const int ms = (int)(1e3 * (until_s - bb_now_s())) + 1;

    for (int i = 0; i < d->tried; i++)
        polls[i] = (struct pollfd){.fd = d->links[i].fd, .events = d->states[i] == CONNECTING ? POLLOUT : POLLIN};
    if (poll(polls, (nfds_t)d->tried, ms > 0 ? ms : 0) <= 0)
        return -1;
    for (int i = 0; i < d->tried; i++) {
        if (polls[i].fd < 0 || !polls[i].revents)
            continue;
        if (d->states[i] == CONNECTING)
            greet(d, i);
        else if (hear(d, i))
            return i;
    }
    return -1;
}

static bool is_hopeless(const struct dialling *d)
{
    for (int i = 0; i < d->ticket->n; i++)
        if (d->states[i] != GIVEN_UP)
            return bb_now_s() >= d->end_s;
    return true;
}

int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, uint32_t rank, struct bb_watchdog_link *link)
{
    struct dialling d = {
        .ticket = ticket, .hello = bb_watchdog_msg(WATCHDOG_HELLO, rank, 0), .end_s = bb_now_s() + CONNECT_S};
    int answered = -1;

    d.hello.token = ticket->token;
    for (int i = 0; i < BB_WATCHDOG_ADDRESSES; i++)
        d.links[i].fd = -1;
    while (answered < 0 && !is_hopeless(&d)) {
        if (d.tried < ticket->n && bb_now_s() >= d.next_s)
            try_next(&d);
        else
            answered = await_answer(&d);
    }
    for (int i = 0; i < ticket->n; i++)
        if (i != answered)
            bb_watchdog_close(&d.links[i]);
    if (answered < 0)
        return -BB_EFAIL;
    *link = d.links[answered];
    return 0;
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
