/*
 * watchdog_peer.c - messages of a peer that knows the token: any kind, number, signal and text, in any order. The first
 * byte selects the receiver, rank 0 or another rank. Each message is a header of 14 bytes followed by its two texts.
 */
#include "tests/fuzz/watchdog.h"

struct head {
    uint8_t from, kind, text, wait; /* text, wait: lengths of the two texts in bytes */
    int16_t code;
    uint16_t rank;
    int32_t signal;
    uint16_t step;
};

enum { HEAD = 14, CLOSES = 15 };

/* Decodes a message. Returns the number of bytes that it used. */
static size_t read_message(struct head *h, struct bb_watchdog_msg *msg, const uint8_t *data, size_t size)
{
    uint8_t bytes[HEAD + 2 * BB_WATCHDOG_TEXT] = {0};

    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    *h = (struct head){
        bytes[0], bytes[1] % 16, bytes[2] % (BB_WATCHDOG_TEXT + 1), bytes[3] % (BB_WATCHDOG_TEXT + 1), 0, 0, 0, 0};
    memcpy(&h->code, bytes + 4, 2);
    memcpy(&h->rank, bytes + 6, 2);
    memcpy(&h->signal, bytes + 8, 4);
    memcpy(&h->step, bytes + 12, 2);
    *msg = bb_watchdog_msg(h->kind, h->rank, h->code);
    msg->signal = h->signal;
    msg->seen.step = h->step;
    memcpy(msg->seen.text, bytes + HEAD, h->text);
    memcpy(msg->seen.wait, bytes + HEAD + h->text, h->wait);
    return HEAD + (size_t)h->text + h->wait;
}

/* Sends a message as a connected peer, or as a new connection with a valid key. */
static void send_message(struct fuzz_watchdog *d, const struct head *h, struct bb_watchdog_msg *msg)
{
    const int i = d->watchdog.rank == 0 ? h->from % RANKS : 0;
    struct bb_watchdog_link *caller = &d->callers[i], visitor;

    if (h->kind == CLOSES) {
        bb_watchdog_close(caller);
    } else if (h->from & 0x80) {
        connect_link(&d->visitors[0], &visitor);
        bb_watchdog_take_key(&visitor, &token, msg->nonce);
        bb_watchdog_send(&visitor, msg, 0);
        read_visitor(&d->watchdog, &d->visitors[0]);
        bb_watchdog_close(&visitor);
    } else {
        bb_watchdog_send(caller, msg, 0);
    }
    read_peer(&d->watchdog, &d->peers[i]);
}

static void connect_callers(struct fuzz_watchdog *d, uint8_t absent)
{
    for (int i = d->watchdog.rank == 0; i < d->watchdog.n_peers; i++) {
        if (absent >> i & 1)
            continue;
        connect_link(&d->peers[i].link, &d->callers[i]);
        share_key(&d->peers[i].link, &d->callers[i]);
        d->peers[i].joined = true;
    }
}

/* Runs the decisions that the watchdog's thread takes when time passes. */
static void judge(struct fuzz_watchdog *d)
{
    struct bb_watchdog *w = &d->watchdog;

    if (w->lost_s > 0 && !w->ending)
        bb_watchdog_judge_lost(w);
    if (w->judge_s > 0 && !w->ending)
        bb_watchdog_judge_hang(w);
    if (w->signal && !w->ending)
        bb_watchdog_judge_signal(w);
    send_state(w, bb_now_s());
    say_bye(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bb_watchdog_msg msg;
    struct head h;
    struct fuzz_watchdog d;

    if (size < 2)
        return 0;
    start_watchdog(&d, data[0] & 1);
    connect_callers(&d, data[1] & (data[0] & 1 ? 0 : 0xff));
    for (size_t at = 2; at < size;) {
        at += read_message(&h, &msg, data + at, size - at);
        send_message(&d, &h, &msg);
        check_texts(&d);
    }
    judge(&d);
    HOLDS(d.watchdog.ending <= 0 && d.watchdog.ending >= -BB_EBELOW);
    HOLDS(d.watchdog.ending < 0 || !d.watchdog.end_heard);
    stop_watchdog(&d);
    return 0;
}
