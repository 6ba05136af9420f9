/* star_dial.c - connects to rank 0 or to a backup reporter (the server). The addresses of the server are tried
 * in order; the next address is tried when the previous ones have not answered within EACH_S. */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/star.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static const double EACH_S = 0.1;   /* seconds until the next address is tried; usually the first address works */
static const double AGAIN_S = 0.05; /* seconds to wait before reconnecting to a server that closed the connection */
enum { REFUSALS_MAX = 6 };

static socklen_t address_length(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* Closes a failed connection. If the server had accepted the connection, it may have closed it only to free a slot
 * for pending connections, so this rank reconnects, at most REFUSALS_MAX times. */
static void give_up(struct bb_star_dial *d, int i)
{
    const bool called = d->states[i] == BB_CONNECTED || d->states[i] == BB_GREETED;

    bb_star_close(&d->links[i]);
    d->states[i] = called && d->refusals++ < REFUSALS_MAX ? BB_TRY_AGAIN : BB_GIVEN_UP;
    d->again_s = bb_now_s() + AGAIN_S;
    d->next_s = 0;
}

static void call_address(struct bb_star_dial *d, int i)
{
    const struct sockaddr_storage *at = &d->to.at[i];

    d->states[i] = BB_CONNECTING;
    d->links[i] = (struct bb_star_link){.fd = -1};
    d->links[i].fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->links[i].fd < 0 ||
        (connect(d->links[i].fd, (const struct sockaddr *)at, address_length(at->ss_family)) && errno != EINPROGRESS))
        give_up(d, i);
}

static void try_next(struct bb_star_dial *d)
{
    d->next_s = bb_now_s() + EACH_S;
    call_address(d, d->tried++);
}

static void try_again(struct bb_star_dial *d)
{
    for (int i = 0; i < d->tried && bb_now_s() >= d->again_s; i++)
        if (d->states[i] == BB_TRY_AGAIN)
            call_address(d, i);
}

/* Handles the result of connect(). If the server has accepted the connection, no firewall blocks it, but the server
 * may be busy, so the time limits are extended. */
static void look_at_connection(struct bb_star_dial *d, int i)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(d->links[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) || error) {
        give_up(d, i);
        return;
    }
    bb_star_keep_alive(d->links[i].fd);
    d->states[i] = BB_CONNECTED;
    d->next_s = bb_now_s() + d->answer_s / 10;
    d->end_s = bb_now_s() + d->answer_s;
}

/* Receives CHALLENGE and sends the first message (HELLO). */
static void greet(struct bb_star_dial *d, int i)
{
    struct bb_star_link *link = &d->links[i];
    struct bb_star_msg challenge;
    int got = bb_star_receive(link, &challenge);

    if (got == 0)
        return;
    if (got < 0 || challenge.kind != BB_STAR_CHALLENGE ||
        getrandom(&d->first.nonce, sizeof(d->first.nonce), GRND_NONBLOCK) != sizeof(d->first.nonce)) {
        give_up(d, i);
        return;
    }
    link->nonce = challenge.nonce;
    bb_star_take_key(link, &d->to.token, d->first.nonce);
    d->states[i] = BB_GREETED;
    if (bb_star_send(link, &d->first, 1))
        give_up(d, i);
}

/* Receives the answer. Returns 1 if a valid answer has arrived. Another host may have the same private address as
 * the server, but it lacks the run's token, so its answer is invalid. */
static int hear(struct bb_star_dial *d, int i)
{
    int got = bb_star_receive(&d->links[i], &d->reply);

    if (got < 0)
        give_up(d, i);
    return got == 1;
}

/* Handles what has arrived on the addresses tried so far. */
static void read_answers(struct bb_star_dial *d)
{
    for (int i = 0; i < d->tried && d->answered < 0; i++) {
        struct pollfd p = {.fd = d->links[i].fd, .events = d->states[i] == BB_CONNECTING ? POLLOUT : POLLIN};

        if (p.fd < 0 || poll(&p, 1, 0) <= 0)
            continue;
        if (d->states[i] == BB_CONNECTING)
            look_at_connection(d, i);
        else if (d->states[i] == BB_CONNECTED)
            greet(d, i);
        else if (hear(d, i))
            d->answered = i;
    }
}

static bool is_hopeless(const struct bb_star_dial *d)
{
    for (int i = 0; i < d->to.n; i++)
        if (d->states[i] != BB_GIVEN_UP)
            return bb_now_s() >= d->end_s;
    return true;
}

void bb_star_dial_begin(struct bb_star_dial *d, const struct bb_star_endpoint *to, const struct bb_star_msg *first,
                        const double patience_s[2])
{
    *d = (struct bb_star_dial){
        .to = *to, .first = *first, .answer_s = patience_s[1], .answered = -1, .end_s = bb_now_s() + patience_s[0]};
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
    try_again(d);
    if (d->tried < d->to.n && bb_now_s() >= d->next_s)
        try_next(d);
    read_answers(d);
    if (d->answered < 0 && !is_hopeless(d))
        return 0;
    if (d->answered >= 0) {
        *link = d->links[d->answered];
        d->links[d->answered].fd = -1;
    }
    bb_star_dial_end(d);
    return d->answered >= 0 ? 1 : -1;
}
