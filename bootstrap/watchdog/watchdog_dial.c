/* watchdog_dial.c - connects to rank 0 or to a backup reporter (the server). The addresses of the server are tried
 * in order; the next address is tried when the previous ones have not answered within EACH_S. */
#include "bootstrap/base/clock.h"
#include "bootstrap/watchdog/watchdog_internal.h"

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

enum attempt_state { NOT_TRIED, CONNECTING, CONNECTED, GREETED, TRY_AGAIN, GIVEN_UP };

struct dialling {
    const struct bb_watchdog_endpoint *ticket;
    struct bb_watchdog_msg first, reply;
    double answer_s; /* seconds to wait for an answer after the server has accepted the connection */
    struct bb_watchdog_link links[BB_WATCHDOG_ADDRESSES];
    enum attempt_state states[BB_WATCHDOG_ADDRESSES];
    int tried, refusals;
    double next_s, end_s; /* next_s: time at which the next address is tried; end_s: time at which the whole attempt
                             to connect fails */
    double again_s;       /* time of the next attempt to reconnect */
};

/* Closes a failed connection. If the server had accepted the connection, it may have closed it only to free a slot
 * for pending connections, so this rank reconnects, at most REFUSALS_MAX times. */
static void give_up(struct dialling *d, int i)
{
    const bool called = d->states[i] == CONNECTED || d->states[i] == GREETED;

    bb_watchdog_close(&d->links[i]);
    d->states[i] = called && d->refusals++ < REFUSALS_MAX ? TRY_AGAIN : GIVEN_UP;
    d->again_s = bb_now_s() + AGAIN_S;
    d->next_s = 0;
}

static void call_address(struct dialling *d, int i)
{
    const struct sockaddr_storage *at = &d->ticket->at[i];

    d->states[i] = CONNECTING;
    d->links[i] = (struct bb_watchdog_link){.fd = -1};
    d->links[i].fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->links[i].fd < 0 ||
        (connect(d->links[i].fd, (const struct sockaddr *)at, address_length(at->ss_family)) && errno != EINPROGRESS))
        give_up(d, i);
}

static void try_next(struct dialling *d)
{
    d->next_s = bb_now_s() + EACH_S;
    call_address(d, d->tried++);
}

static void try_again(struct dialling *d)
{
    for (int i = 0; i < d->tried && bb_now_s() >= d->again_s; i++)
        if (d->states[i] == TRY_AGAIN)
            call_address(d, i);
}

/* Handles the result of connect(). If the server has accepted the connection, no firewall blocks it, but the server
 * may be busy, so the time limits are extended. */
static void look_at_connection(struct dialling *d, int i)
{
    int error = 0;
    socklen_t length = sizeof(error);

    if (getsockopt(d->links[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) || error) {
        give_up(d, i);
        return;
    }
    bb_watchdog_watch_link(d->links[i].fd);
    d->states[i] = CONNECTED;
    d->next_s = bb_now_s() + d->answer_s / 10;
    d->end_s = bb_now_s() + d->answer_s;
}

/* Receives CHALLENGE and sends the first message (HELLO or SPEAK). */
static void greet(struct dialling *d, int i)
{
    struct bb_watchdog_link *link = &d->links[i];
    struct bb_watchdog_msg challenge;
    int got = bb_watchdog_receive(link, &challenge);

    if (got == 0)
        return;
    if (got < 0 || challenge.kind != WATCHDOG_CHALLENGE ||
        getrandom(&d->first.nonce, sizeof(d->first.nonce), GRND_NONBLOCK) != sizeof(d->first.nonce)) {
        give_up(d, i);
        return;
    }
    link->nonce = challenge.nonce;
    bb_watchdog_take_key(link, &d->ticket->token, d->first.nonce);
    d->states[i] = GREETED;
    if (bb_watchdog_send(link, &d->first, 1))
        give_up(d, i);
}

/* Receives the answer. Returns 1 if a valid answer has arrived. Another host may have the same private address as
 * the server, but it lacks the run's token, so its answer is invalid. */
static int hear(struct dialling *d, int i)
{
    int got = bb_watchdog_receive(&d->links[i], &d->reply);

    if (got < 0)
        give_up(d, i);
    return got == 1;
}

/* Waits for events on the addresses tried so far. Returns the index of the address that has answered, or -1 if none
 * has. */
static int await_answer(struct dialling *d)
{
    struct pollfd polls[BB_WATCHDOG_ADDRESSES];
    const double until_s = d->tried < d->ticket->n && d->next_s < d->end_s ? d->next_s : d->end_s;
    const double left_s = until_s - bb_now_s();
    const int ms = 1 + (int)(1e3 * (d->refusals > 0 && left_s > AGAIN_S ? AGAIN_S : left_s));

    for (int i = 0; i < d->tried; i++)
        polls[i] = (struct pollfd){.fd = d->links[i].fd, .events = d->states[i] == CONNECTING ? POLLOUT : POLLIN};
    if (poll(polls, (nfds_t)d->tried, ms > 0 ? ms : 0) <= 0)
        return -1;
    for (int i = 0; i < d->tried; i++) {
        if (polls[i].fd < 0 || !polls[i].revents)
            continue;
        if (d->states[i] == CONNECTING)
            look_at_connection(d, i);
        else if (d->states[i] == CONNECTED)
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

int bb_watchdog_dial(const struct bb_watchdog_endpoint *ticket, const struct bb_watchdog_msg *first,
                     const double patience_s[2], struct bb_watchdog_link *link, struct bb_watchdog_msg *reply)
{
    struct dialling d = {
        .ticket = ticket, .first = *first, .answer_s = patience_s[1], .end_s = bb_now_s() + patience_s[0]};
    int answered = -1;

    for (int i = 0; i < BB_WATCHDOG_ADDRESSES; i++)
        d.links[i].fd = -1;
    while (answered < 0 && !is_hopeless(&d)) {
        try_again(&d);
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
    *reply = d.reply;
    return 0;
}
