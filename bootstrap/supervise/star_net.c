/* star_net.c - sockets of the supervisors: listening, sending and receiving messages, authentication tags. */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/star.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint32_t STAR_MAGIC = 0xbb0ca112;
enum { WRITABLE_MS = 10 };

/* Enables TCP keep-alive, because a host that fails does not close its connections. The kernel sends probes after
 * 10 s without data and closes the connection after 30 s without a response. */
void bb_star_keep_alive(int fd)
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
    socklen_t length = sizeof(*at);
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

/* Opens one listening socket per address of this host. No socket uses the wildcard address, so the setting
 * net.ipv6.bindv6only has no effect. */
int bb_star_listen(bool loopback, struct bb_star_endpoint *at, int fds[BB_STAR_ADDRESSES], int *n)
{
    struct sockaddr_in *first = (struct sockaddr_in *)&at->at[0];
    int wanted;

    *n = at->n = 0;
    memset(at->at, 0, sizeof(at->at));
    if (loopback) {
        first->sin_family = AF_INET;
        first->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at->n = 1;
    } else {
        bb_star_list_addresses(at);
    }
    wanted = at->n;
    for (int i = 0; i < wanted; i++)
        if ((fds[*n] = listen_at(&at->at[i])) >= 0)
            at->at[(*n)++] = at->at[i];
    at->n = *n;
    if (wanted > 0 && *n == 0)
        return bb_err(BB_EFAIL, "supervisor: cannot listen: %s", strerror(errno));
    return 0;
}

int bb_star_accept(int listen_fd, const struct bb_siphash_key *token, struct bb_star_link *link)
{
    struct bb_star_msg challenge = bb_star_msg(BB_STAR_CHALLENGE, 0, 0);

    *link = (struct bb_star_link){.called = true, .token = token, .since_s = bb_now_s()};
    link->fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link->fd < 0)
        return 0;
    bb_star_keep_alive(link->fd);
    if (getrandom(&link->nonce, sizeof(link->nonce), GRND_NONBLOCK) != sizeof(link->nonce)) {
        bb_star_close(link);
        return 0;
    }
    challenge.nonce = link->nonce;
    if (bb_star_send(link, &challenge, 0))
        bb_star_close(link);
    return link->fd >= 0;
}

/* ---- authentication tags ---- */

void bb_star_take_key(struct bb_star_link *link, const struct bb_siphash_key *token, uint64_t nonce)
{
    for (uint64_t half = 0; half < 2; half++)
        link->key.k[half] = bb_siphash(token, (const uint64_t[]){half, link->nonce, nonce}, 3 * sizeof(nonce));
    link->keyed = true;
    link->sent = link->received = 0;
}

/* Returns the authentication tag of a message. from_called: true if the sender is the side that accepted the
 * connection. number: sequence number of the message on this connection and in this direction. */
static uint64_t tag_of(const struct bb_star_link *link, const struct bb_star_msg *msg, bool from_called,
                       uint64_t number)
{
    struct {
        uint64_t from_called, number;
        struct bb_star_msg msg;
    } all;

    memset(&all, 0, sizeof(all));
    all.from_called = from_called;
    all.number = number;
    memcpy(&all.msg, msg, sizeof(all.msg));
    all.msg.tag = 0;
    return bb_siphash(&link->key, &all, sizeof(all));
}

/* ---- messages ---- */

int bb_star_send(struct bb_star_link *link, struct bb_star_msg *msg, double patience_s)
{
    size_t done = 0;
    double end_s = bb_now_s() + patience_s;

    msg->tag = link->keyed ? tag_of(link, msg, link->called, link->sent) : 0;
    while (link->fd >= 0 && done < sizeof(*msg)) {
        ssize_t n = send(link->fd, (const char *)msg + done, sizeof(*msg) - done, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && errno != EINTR) {
            if (errno != EAGAIN || bb_now_s() >= end_s + (done ? 1 : 0))
                break;
            (void)poll(&(struct pollfd){.fd = link->fd, .events = POLLOUT}, 1, WRITABLE_MS);
        }
    }
    if (done && done < sizeof(*msg))
        shutdown(link->fd, SHUT_RDWR); /* after an incomplete message the receiver could not find the start of the
                                          next one */
    link->sent += done == sizeof(*msg);
    return done == sizeof(*msg) ? 0 : -1;
}

int bb_star_receive(struct bb_star_link *link, struct bb_star_msg *msg)
{
    char *at = (char *)&link->in;
    ssize_t n = recv(link->fd, at + link->have, sizeof(link->in) - link->have, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    link->have += n > 0 ? (size_t)n : 0;
    if (link->have < sizeof(link->in))
        return 0;
    if (link->in.magic != STAR_MAGIC)
        return -1;
    link->have = 0;
    if (link->called && !link->keyed)
        bb_star_take_key(link, link->token, link->in.nonce);
    if (link->keyed && link->in.tag != tag_of(link, &link->in, !link->called, link->received++))
        return -1;
    *msg = link->in;
    msg->seen.text[BB_SEEN_TEXT - 1] = msg->seen.wait[BB_SEEN_TEXT - 1] = '\0';
    return 1;
}

void bb_star_close(struct bb_star_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->have = 0;
}

struct bb_star_msg bb_star_msg(enum bb_star_kind kind, int rank, int code)
{
    struct bb_star_msg msg;

    memset(&msg, 0, sizeof(msg)); /* also clear the padding, because it is sent too */
    msg.magic = STAR_MAGIC;
    msg.kind = (uint16_t)kind;
    msg.code = (int16_t)code;
    msg.rank = (uint32_t)rank;
    return msg;
}
