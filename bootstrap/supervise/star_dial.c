/* star_dial.c - connects a supervisor to a server: the supervisor of rank 0 or the backup server. The addresses of the
 * server are tried in order; the next address is tried when the previous ones have not answered within EACH_S. */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/star.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

static const double EACH_S = 0.1;   /* seconds until the next address is tried; usually the first address works */
static const double AGAIN_S = 0.05; /* seconds to wait before reconnecting to a server that closed the connection */
enum { REFUSALS_MAX = 6 };

/* Closes a failed connection. If the server had accepted the connection, the server may have closed it only because too
 * many connections were pending, so this supervisor reconnects, at most REFUSALS_MAX times. */
static void give_up(struct bb_star_dial *d, int i)
{
    const bool called = d->states[i] == BB_CONNECTED;

    bb_star_close(&d->links[i]);
    d->states[i] = called && d->refusals++ < REFUSALS_MAX ? BB_TRY_AGAIN : BB_GIVEN_UP;
    d->again_s = bb_now_s() + AGAIN_S;
    d->next_s = 0;
}

static void call_address(struct bb_star_dial *d, int i)
{
    const struct sockaddr_storage *at = &d->to.at[i];
    const int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    d->states[i] = BB_CONNECTING;
    d->links[i] = (struct bb_star_link){.fd = fd};
    if (fd < 0 || (connect(fd, (const struct sockaddr *)at, sizeof(*at)) && errno != EINPROGRESS))
        give_up(d, i);
}

/* Answers CHALLENGE with HELLO. Returns whether HELLO is sent. */
static bool greet(struct bb_star_dial *d, struct bb_star_link *link)
{
    if (d->reply.kind != BB_STAR_CHALLENGE ||
        getrandom(&d->first.nonce, sizeof(d->first.nonce), GRND_NONBLOCK) != sizeof(d->first.nonce))
        return false;
    link->nonce = d->reply.nonce;
    bb_star_take_key(link, &d->to.token, d->first.nonce);
    return bb_star_send(link, &d->first, 1) == 0;
}

/* Handles the result of connect() to address i. After a success, no firewall drops the packets, but the server may be
 * busy, so the time limits are extended. */
static void look_at_connection(struct bb_star_dial *d, int i, bool failed)
{
    if (failed) {
        give_up(d, i);
        return;
    }
    bb_star_keep_alive(d->links[i].fd);
    d->states[i] = BB_CONNECTED;
    d->next_s = bb_now_s() + d->answer_s / 10;
    d->end_s = bb_now_s() + d->answer_s;
}

/* Handles events on the connection to address i. Returns whether a valid answer to HELLO has arrived. The answer of
 * another host that has the same private address as the server is invalid, because that host lacks the job's token. */
static bool read_address(struct bb_star_dial *d, int i)
{
    struct bb_star_link *link = &d->links[i];
    const bool connecting = d->states[i] == BB_CONNECTING, greeted = link->keyed;
    struct pollfd p = {.fd = link->fd, .events = connecting ? POLLOUT : POLLIN};
    int got;

    if (link->fd < 0 || poll(&p, 1, 0) <= 0)
        return false;
    if (connecting) {
        look_at_connection(d, i, p.revents & POLLERR);
        return false;
    }
    got = bb_star_receive(link, &d->reply);
    if (got < 0 || (got > 0 && !greeted && !greet(d, link)))
        give_up(d, i);
    return got > 0 && greeted;
}

void bb_star_dial_begin(struct bb_star_dial *d, const struct bb_star_endpoint *to, const struct bb_star_msg *first,
                        const double patience_s[2])
{
    *d = (struct bb_star_dial){
        .to = *to, .first = *first, .answer_s = patience_s[1], .end_s = bb_now_s() + patience_s[0]};
    for (int i = 0; i < BB_STAR_ADDRESSES; i++)
        d->links[i].fd = -1;
}

void bb_star_dial_end(struct bb_star_dial *d)
{
    for (int i = 0; i < BB_STAR_ADDRESSES; i++)
        bb_star_close(&d->links[i]);
}

int bb_star_dial_step(struct bb_star_dial *d, struct bb_star_link *link)
{
    const double now_s = bb_now_s();
    bool hopeless = d->tried == d->to.n;

    if (!hopeless && now_s >= d->next_s) {
        d->next_s = now_s + EACH_S;
        call_address(d, d->tried++);
    }
    for (int i = 0; i < d->tried; i++) {
        if (d->states[i] == BB_TRY_AGAIN && now_s >= d->again_s)
            call_address(d, i);
        if (read_address(d, i)) {
            *link = d->links[i];
            d->links[i].fd = -1;
            bb_star_dial_end(d);
            return 1;
        }
        hopeless = hopeless && d->states[i] == BB_GIVEN_UP;
    }
    if (!hopeless && now_s < d->end_s)
        return 0;
    bb_star_dial_end(d);
    return -1;
}
