/* test_rank_page.c - the shared page and the socket between a rank and its supervisor. */
#include "bootstrap/base/clock.h"
#include "bootstrap/rank/rank_page.h"
#include "tests/check.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- page ---- */

static void stores_the_last_step_and_wait(void **state)
{
    struct bb_rank_page page = {0};
    struct bb_seen seen;
    char longest[2 * BB_SEEN_TEXT];

    (void)state;
    bb_rank_page_write(&page, "warm-up", "", false);
    bb_rank_page_write(&page, NULL, "a barrier", true);
    bb_rank_page_read(&page, &seen);
    assert_int_equal(seen.step, 1);
    assert_string_equal(seen.text, "warm-up");
    assert_string_equal(seen.wait, "a barrier");
    assert_int_equal(seen.called, 1);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    bb_rank_page_write(&page, longest, "", false);
    bb_rank_page_read(&page, &seen);
    assert_int_equal(seen.step, 2);
    assert_int_equal(strlen(seen.text), BB_SEEN_TEXT - 1);
    assert_string_equal(seen.wait, "");
    assert_int_equal(seen.called, 0);
}

/* Writes texts of which each consists of one letter, until the process is killed. */
static void write_for_ever(struct bb_rank_page *page)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0;; i++) {
        char text[BB_SEEN_TEXT];

        memset(text, 'a' + i % 26, sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        bb_rank_page_write(page, text, text, false);
        for (volatile int pause = 0; pause < 1000;)
            pause++;
    }
}

static bool is_complete(const struct bb_seen *seen)
{
    return strlen(seen->text) == BB_SEEN_TEXT - 1 &&
           strspn(seen->text, (char[]){seen->text[0], '\0'}) == BB_SEEN_TEXT - 1 && strcmp(seen->wait, seen->text) == 0;
}

/* The texts of a running writer are complete. Exception: the kernel interrupts the writer in the middle for long. */
static void a_reader_sees_complete_texts(void **state)
{
    struct bb_rank_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const double end_s = bb_now_s() + 0.3;
    int n = 0, n_complete = 0;
    struct bb_seen seen;
    pid_t writer;

    (void)state;
    assert_ptr_not_equal(page, MAP_FAILED);
    if ((writer = fork()) == 0)
        write_for_ever(page);
    do
        bb_rank_page_read(page, &seen);
    while (seen.step == 0);
    for (; bb_now_s() < end_s; n++) {
        bb_rank_page_read(page, &seen);
        n_complete += is_complete(&seen);
    }
    kill(writer, SIGKILL);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    munmap(page, sizeof(*page));
    print_message("  %d of %d texts are complete\n", n_complete, n);
    assert_true(n_complete > 0.9 * n);
}

/* A writer that was killed in the middle leaves an odd version and a text without end: the reader does not wait. */
static void reads_the_page_of_a_writer_killed_in_the_middle(void **state)
{
    struct bb_rank_page page = {0};
    double start_s = bb_now_s();
    struct bb_seen seen;

    (void)state;
    bb_rank_page_write(&page, "a step", "", false);
    atomic_fetch_add(&page.version, 1);
    memset(page.seen.text, 'x', sizeof(page.seen.text));
    memset(page.seen.wait, 'y', sizeof(page.seen.wait));
    bb_rank_page_read(&page, &seen);
    assert_true(bb_now_s() - start_s < 0.5);
    assert_int_equal(seen.step, 1);
    assert_int_equal(strlen(seen.text), BB_SEEN_TEXT - 1);
    assert_int_equal(strlen(seen.wait), BB_SEEN_TEXT - 1);
}

/* ---- socket ---- */

struct channel {
    int fd;
    struct bb_rank_receiver receiver;
};

static struct channel open_channel(void)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    return (struct channel){.fd = ends[0], .receiver.fd = ends[1]};
}

static void close_channel(struct channel *c)
{
    if (c->fd >= 0)
        close(c->fd);
    close(c->receiver.fd);
    bb_rank_receiver_release(&c->receiver);
    assert_int_equal(c->receiver.fd, -1);
}

static void receives_a_message_in_pieces(void **state)
{
    static const struct bb_rank_header sent = {.request = BB_RANK_TIMEOUT, .code = -3, .bytes = 5};
    struct channel c = open_channel();
    struct bb_rank_header got;
    const void *data;
    char bytes[sizeof(sent) + 5];

    (void)state;
    memcpy(bytes, &sent, sizeof(sent));
    memcpy(bytes + sizeof(sent), "hello", 5);
    for (int times = 0; times < 2; times++)
        for (size_t i = 0; i < sizeof(bytes); i++) {
            assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), 0);
            assert_int_equal(send(c.fd, &bytes[i], 1, 0), 1);
            if (i + 1 == sizeof(bytes)) {
                assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), 1);
                assert_memory_equal(&got, &sent, sizeof(got));
                assert_memory_equal(data, "hello", 5);
            }
        }
    close_channel(&c);
}

static void receives_messages_one_by_one(void **state)
{
    struct channel c = open_channel();
    struct bb_rank_header got;
    const void *data;

    (void)state;
    assert_int_equal(bb_rank_send(c.fd, BB_RANK_HANG, 0, NULL, 0), 0);
    assert_int_equal(bb_rank_send(c.fd, BB_RANK_FAIL, 3, "ab", 2), 0);
    close(c.fd);
    c.fd = -1;
    assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), 1);
    assert_int_equal(got.request, BB_RANK_HANG);
    assert_int_equal(got.bytes, 0);
    assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), 1);
    assert_int_equal(got.request, BB_RANK_FAIL);
    assert_int_equal(got.code, 3);
    assert_memory_equal(data, "ab", 2);
    assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), -1);
    close_channel(&c);
}

/* The world of thousands of ranks is larger than the buffer of a socket. */
static void receives_a_large_message(void **state)
{
    enum { BYTES = 4 << 20 };
    struct channel c = open_channel();
    struct bb_rank_header got;
    const char *data;
    char *sent = malloc(BYTES);
    pid_t sender;
    int n;

    (void)state;
    assert_non_null(sent);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)(i % 251);
    if ((sender = fork()) == 0)
        _exit(bb_rank_send(c.fd, BB_RANK_WORLD, 0, sent, BYTES));
    while ((n = bb_rank_receive(&c.receiver, &got, (const void **)&data)) == 0)
        usleep(100);
    assert_int_equal(n, 1);
    assert_int_equal(got.bytes, BYTES);
    assert_memory_equal(data, sent, BYTES);
    assert_int_equal(waitpid(sender, &n, 0), sender);
    assert_int_equal(n, 0);
    free(sent);
    close_channel(&c);
}

static void rejects_invalid_data(void **state)
{
    static const struct {
        struct bb_rank_header header;
        size_t bytes; /* number of bytes of the header that arrive before the connection is closed */
        bool closed;
    } rows[] = {
        {{BB_RANK_WORLD, 0, UINT32_MAX}, sizeof(struct bb_rank_header), false}, /* too large */
        {{BB_RANK_WORLD, 0, 1u << 30}, sizeof(struct bb_rank_header), false},
        {{BB_RANK_WORLD, 0, 4}, sizeof(struct bb_rank_header), true}, /* ends before the payload */
        {{BB_RANK_WORLD, 0, 4}, 5, true},                             /* ends within the header */
        {{BB_RANK_WORLD, 0, 4}, 0, true},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct channel c = open_channel();
        struct bb_rank_header got;
        const void *data;

        assert_int_equal(send(c.fd, &rows[i].header, rows[i].bytes, 0), rows[i].bytes);
        if (rows[i].closed) {
            close(c.fd);
            c.fd = -1;
        }
        assert_int_equal(bb_rank_receive(&c.receiver, &got, &data), rows[i].closed ? -1 : -2);
        close_channel(&c);
    }
}

/* The end of the other process is an error, not SIGPIPE. */
static void sending_to_a_closed_connection_fails(void **state)
{
    struct channel c = open_channel();

    (void)state;
    shutdown(c.receiver.fd, SHUT_RDWR);
    assert_int_not_equal(bb_rank_send(c.fd, BB_RANK_HANG, 0, NULL, 0), 0);
    close_channel(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_the_last_step_and_wait),
        cmocka_unit_test(a_reader_sees_complete_texts),
        cmocka_unit_test(reads_the_page_of_a_writer_killed_in_the_middle),
        cmocka_unit_test(receives_a_message_in_pieces),
        cmocka_unit_test(receives_messages_one_by_one),
        cmocka_unit_test(receives_a_large_message),
        cmocka_unit_test(rejects_invalid_data),
        cmocka_unit_test(sending_to_a_closed_connection_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
