/* rank_page.c - shared page and socket between a rank and its supervisor. */
#include "bootstrap/rank/rank_page.h"

#include "bootstrap/base/alloc.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_TRIES = 1000, MESSAGE_MAX = 1 << 28, FIRST_CAPACITY = 1 << 12 };

int bb_rank_orphan_signal(void)
{
    return getenv("PMI_FD") ? SIGRTMIN + 8 : SIGKILL;
}

/* ---- page ---- */

/* Returns the version before the change. */
static unsigned begin_change(struct bb_rank_page *page)
{
    const unsigned version = atomic_load_explicit(&page->version, memory_order_relaxed);

    atomic_store_explicit(&page->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    return version;
}

static void end_change(struct bb_rank_page *page, unsigned version)
{
    atomic_store_explicit(&page->version, version + 2, memory_order_release);
}

void bb_rank_page_write(struct bb_rank_page *page, const char *step, const char *wait, bool called)
{
    const unsigned version = begin_change(page);

    if (step) {
        page->seen.step++;
        snprintf(page->seen.text, BB_SEEN_TEXT, "%s", step);
    }
    snprintf(page->seen.wait, BB_SEEN_TEXT, "%s", wait);
    page->seen.called = called;
    end_change(page, version);
}

void bb_rank_page_leave(struct bb_rank_page *page, const char *why)
{
    const unsigned version = begin_change(page);

    page->seen.step++;
    page->seen.leaving = 1;
    snprintf(page->seen.text, BB_SEEN_TEXT, "%s", why);
    page->seen.wait[0] = '\0';
    end_change(page, version);
}

void bb_rank_page_count_exchange(struct bb_rank_page *page)
{
    const unsigned version = begin_change(page);

    page->seen.exchanges++;
    end_change(page, version);
}

void bb_rank_page_read(const struct bb_rank_page *page, struct bb_seen *seen)
{
    for (int i = 0; i < READ_TRIES; i++) {
        const unsigned before = atomic_load_explicit(&page->version, memory_order_acquire);

        memcpy(seen, &page->seen, sizeof(*seen));
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && before == atomic_load_explicit(&page->version, memory_order_relaxed))
            break;
    }
    seen->text[BB_SEEN_TEXT - 1] = seen->wait[BB_SEEN_TEXT - 1] = '\0';
}

/* ---- socket ---- */

static int send_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN)
            (void)poll(&p, 1, -1);
        else if (n < 0 && errno != EINTR)
            return errno;
        data += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int bb_rank_send(int fd, enum bb_rank_request request, int code, const void *data, size_t bytes)
{
    const struct bb_rank_header header = {.request = request, .code = code, .bytes = (uint32_t)bytes};
    const int error = send_all(fd, (const char *)&header, sizeof(header));

    return error ? error : send_all(fd, data, bytes);
}

/* Increases the capacity of r->data to at least `bytes`. */
static void reserve(struct bb_rank_receiver *r, size_t bytes)
{
    if (bytes <= r->capacity)
        return;
    r->capacity = bytes > FIRST_CAPACITY ? bytes : FIRST_CAPACITY;
    r->data = bb_resize(r->data, r->capacity, 1);
}

int bb_rank_receive(struct bb_rank_receiver *r, struct bb_rank_header *header, const void **payload)
{
    size_t needed = sizeof(*header);

    for (;;) {
        ssize_t n;

        if (r->have >= sizeof(*header)) {
            memcpy(header, r->data, sizeof(*header));
            needed = sizeof(*header) + header->bytes;
        }
        if (needed > MESSAGE_MAX)
            return -2;
        reserve(r, needed);
        if (r->have >= sizeof(*header) && r->have == needed)
            break;
        n = recv(r->fd, r->data + r->have, needed - r->have, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n <= 0)
            return -1;
        r->have += (size_t)n;
    }
    *payload = r->data + sizeof(*header);
    r->have = 0;
    return 1;
}

void bb_rank_receiver_release(struct bb_rank_receiver *r)
{
    free(r->data);
    *r = (struct bb_rank_receiver){.fd = -1};
}
