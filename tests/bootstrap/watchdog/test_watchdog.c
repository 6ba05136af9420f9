/*
 * test_watchdog.c - the watchdog without MPI: ranks as objects of one process, reached through every address that the
 * host has, with strangers at the door.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/start/speaker.h"
#include "bootstrap/watchdog/watchdog_internal.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static char hosts[3][BB_HOST_TEXT] = {"a", "b", "c"};

/* A connection to rank 0 by somebody who does not know the run. */
static int knock(const struct bb_watchdog_endpoint *ticket)
{
    const struct sockaddr *at = (const struct sockaddr *)&ticket->at[0];
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(
        connect(fd, at, at->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)), 0);
    return fd;
}

/* True when the other side closes; but for its challenge it has no other way to answer. */
static bool is_shown_the_door(int fd)
{
    char challenge[1024];
    ssize_t n;

    do
        n = recv(fd, challenge, sizeof(challenge), 0);
    while (n > 0);
    close(fd);
    return n <= 0;
}

static void *leave(void *watchdog)
{
    bb_watchdog_leave(watchdog);
    return NULL;
}

static void start_job(struct bb_watchdog *watchdog[3], bool one_host)
{
    struct bb_watchdog_endpoint ticket;

    for (int r = 0; r < 3; r++)
        assert_int_equal(bb_watchdog_start(&watchdog[r], 20), 0);
    assert_int_equal(bb_watchdog_serve(watchdog[0], 3, hosts, one_host, &ticket), 0);
    for (int r = 1; r < 3 && ticket.n > 0; r++) {
        bb_watchdog_join(watchdog[r], r, 3, hosts, &ticket);
        assert_true(watchdog[r]->attended);
    }
}

static void leave_job(struct bb_watchdog *watchdog[3])
{
    pthread_t leaving[3];

    for (int r = 0; r < 3; r++)
        pthread_create(&leaving[r], NULL, leave, watchdog[r]);
    for (int r = 0; r < 3; r++)
        pthread_join(leaving[r], NULL);
}

static void run_job(bool one_host)
{
    struct bb_watchdog *watchdog[3];

    start_job(watchdog, one_host);
    bb_watchdog_reached(watchdog[2], "a step");
    leave_job(watchdog);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(bb_watchdog_ending(watchdog[r]), 0);
        assert_true(watchdog[r]->left);
        bb_watchdog_stop(watchdog[r]);
    }
}

static void test_loopback(void **state)
{
    (void)state;
    run_job(true);
}

struct departure {
    struct bb_watchdog *watchdog;
    atomic_int done;
    pthread_t thread;
};

static void *depart(void *arg)
{
    struct departure *d = arg;

    bb_watchdog_depart(d->watchdog);
    d->done = 1;
    return NULL;
}

/* Rank 2 is still in MPI_Finalize for 0.3 s. */
static void test_departure(void **state)
{
    struct bb_watchdog *watchdog[3];
    struct departure departures[3] = {{0}};

    (void)state;
    start_job(watchdog, true);
    leave_job(watchdog);
    for (int r = 0; r < 3; r++) {
        departures[r].watchdog = watchdog[r];
        if (r == 2) {
            usleep(300000);
            assert_int_equal(departures[0].done + departures[1].done, 0);
        }
        pthread_create(&departures[r].thread, NULL, depart, &departures[r]);
    }
    for (int r = 0; r < 3; r++)
        pthread_join(departures[r].thread, NULL);
    for (int r = 2; r >= 0; r--) {
        bb_watchdog_stop(watchdog[r]);
        usleep(20000);
        assert_int_equal(r > 0 ? bb_watchdog_ending(watchdog[0]) : 0, 0);
    }
}

static void tell_gone(struct bb_watchdog *from, int to)
{
    struct bb_watchdog_msg gone = bb_watchdog_msg(WATCHDOG_GONE, (uint32_t)from->rank, 0);

    pthread_mutex_lock(&from->lock);
    assert_int_equal(bb_watchdog_send(&from->peers[to].link, &gone, 1), 0);
    pthread_mutex_unlock(&from->lock);
}

/* Nobody leaves while rank 0 may be telling others that all have ended; but one that has heard it does when rank 0 is
 * killed. */
static void test_nobody_leaves_amid_the_round(void **state)
{
    struct bb_watchdog *watchdog[3];
    struct departure departures[3] = {{0}};

    (void)state;
    start_job(watchdog, true);
    leave_job(watchdog);
    for (int r = 1; r < 3; r++) {
        departures[r].watchdog = watchdog[r];
        pthread_create(&departures[r].thread, NULL, depart, &departures[r]);
        tell_gone(watchdog[0], r);
    }
    usleep(100000);
    assert_int_equal(departures[1].done + departures[2].done, 0);
    tell_gone(watchdog[0], 1);
    pthread_join(departures[1].thread, NULL);
    assert_int_equal(departures[2].done, 0);
    pthread_mutex_lock(&watchdog[0]->lock);
    shutdown(watchdog[0]->peers[2].link.fd, SHUT_RDWR);
    pthread_mutex_unlock(&watchdog[0]->lock);
    pthread_join(departures[2].thread, NULL);
    for (int r = 2; r >= 0; r--) {
        assert_int_equal(bb_watchdog_ending(watchdog[r]), 0);
        bb_watchdog_stop(watchdog[r]);
    }
}

static void test_every_interface(void **state)
{
    (void)state;
    run_job(false);
}

static void test_addresses_in_turn(void **state)
{
    struct bb_watchdog_endpoint ticket, detour = {.n = 2};
    struct bb_watchdog *server, *client;
    struct sockaddr_in *closed = (struct sockaddr_in *)&detour.at[0];

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&client, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    detour.token = ticket.token;
    detour.at[1] = ticket.at[0];
    *closed =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bb_watchdog_join(client, 2, 3, hosts, &detour);
    assert_true(client->attended);
    bb_watchdog_stop(server);
    bb_watchdog_stop(client);
}

/* A firewall that drops packets: the queue of a listener who takes nobody is full, and calls stay without an answer. */
static void make_silent(struct sockaddr_storage *at, int fds[4])
{
    struct sockaddr_in *in = (struct sockaddr_in *)at;
    socklen_t length = sizeof(*in);

    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)in, length), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    assert_int_equal(getsockname(fds[0], (struct sockaddr *)in, &length), 0);
    for (int i = 1; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)in, length);
    }
}

static void test_firewall(void **state)
{
    struct bb_watchdog_endpoint ticket, detour = {.n = BB_WATCHDOG_ADDRESSES};
    static const double patience_s[] = {2, 10};
    struct bb_watchdog_msg hello = bb_watchdog_msg(WATCHDOG_HELLO, 1, 0), reply;
    struct bb_watchdog_link link;
    struct bb_watchdog *server;
    int fds[BB_WATCHDOG_ADDRESSES][4];
    double start_s;

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    for (int i = 0; i < BB_WATCHDOG_ADDRESSES; i++)
        make_silent(&detour.at[i], fds[i]);
    detour.token = ticket.token;
    start_s = bb_now_s();
    assert_int_equal(bb_watchdog_dial(&detour, &hello, patience_s, &link, &reply), -BB_EFAIL);
    assert_true(bb_now_s() - start_s < 2.5);
    detour.at[BB_WATCHDOG_ADDRESSES - 1] = ticket.at[0]; /* the last one answers */
    start_s = bb_now_s();
    assert_int_equal(bb_watchdog_dial(&detour, &hello, patience_s, &link, &reply), 0);
    assert_true(bb_now_s() - start_s < 1.9);
    bb_watchdog_close(&link);
    for (int i = 0; i < BB_WATCHDOG_ADDRESSES; i++)
        for (int k = 0; k < 4; k++)
            close(fds[i][k]);
    bb_watchdog_stop(server);
}

/* A socket at each address that the others are told, and nowhere else. */
static void test_bound(void **state)
{
    struct bb_watchdog_endpoint ticket;
    int fds[BB_WATCHDOG_ADDRESSES], n;

    (void)state;
    assert_int_equal(bb_watchdog_listen(false, &ticket, fds, &n), 0);
    assert_int_equal(n, ticket.n);
    for (int i = 0; i < n; i++) {
        struct sockaddr_storage at;
        socklen_t length = sizeof(at);

        assert_int_equal(getsockname(fds[i], (struct sockaddr *)&at, &length), 0);
        if (at.ss_family == AF_INET)
            assert_int_not_equal(((struct sockaddr_in *)&at)->sin_addr.s_addr, INADDR_ANY);
        else
            assert_false(IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&at)->sin6_addr));
        close(fds[i]);
    }
}

/* IPv4 and IPv6 alike: a rank that is told only one of them finds rank 0 there. */
static void test_each_address_answers(void **state)
{
    static const double patience_s[] = {2, 10};
    struct bb_watchdog_msg hello = bb_watchdog_msg(WATCHDOG_HELLO, 1, 0), reply;
    struct bb_watchdog_endpoint all, one;
    struct bb_watchdog_link link;
    struct bb_watchdog *server;

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, false, &all), 0);
    if (all.n == 0)
        print_message("skipped: this machine has no address but loopback\n");
    for (int i = 0; i < all.n; i++) {
        one = (struct bb_watchdog_endpoint){.n = 1, .at = {all.at[i]}, .token = all.token};
        assert_int_equal(bb_watchdog_dial(&one, &hello, patience_s, &link, &reply), 0);
        bb_watchdog_close(&link);
        hello = bb_watchdog_msg(WATCHDOG_HELLO, 1 + (uint32_t)(i + 1) % 2, 0);
    }
    bb_watchdog_stop(server);
}

static void test_preferred_interfaces(void **state)
{
    static const char *const names[] = {"docker0", "eth0", "eth1", "eth10", "ib0"};
    static const struct {
        const char *variable, *best; /* the best of names[], with the default route over eth1 */
        const char *worst;           /* NULL: several are alike */
    } rows[] = {
        {NULL, "eth1", NULL},          {"", "eth1", NULL},
        {"ib", "ib0", NULL},           {"eth10", "eth10", NULL},
        {"=eth0", "eth0", NULL},       {"=ib0,=x", "ib0", NULL},
        {"wlan,ib", "ib0", NULL},      {"^docker", "eth1", "docker0"},
        {"^=eth1", "docker0", "eth1"}, {"^eth", "docker0", NULL},
        {"=eth", "eth1", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *best = names[0], *worst = names[0];

        for (size_t k = 1; k < ROWS(names); k++) {
            int one = bb_watchdog_preference(names[k], rows[i].variable, "eth1");
            best = one < bb_watchdog_preference(best, rows[i].variable, "eth1") ? names[k] : best;
            worst = one > bb_watchdog_preference(worst, rows[i].variable, "eth1") ? names[k] : worst;
        }
        assert_string_equal(best, rows[i].best);
        if (rows[i].worst)
            assert_string_equal(worst, rows[i].worst);
    }
}

/* What a visitor says in answer to the challenge, with the key or without it. */
static int say(const struct bb_watchdog_endpoint *ticket, enum bb_watchdog_kind kind, uint32_t rank, uint64_t wrong)
{
    struct bb_watchdog_link link = {.fd = knock(ticket)};
    struct bb_watchdog_msg msg = bb_watchdog_msg(kind, rank, BB_EDATA), challenge;
    struct bb_siphash_key token = ticket->token;

    while (bb_watchdog_receive(&link, &challenge) == 0)
        usleep(1000);
    assert_int_equal(challenge.kind, WATCHDOG_CHALLENGE);
    token.k[0] ^= wrong;
    link.nonce = challenge.nonce;
    bb_watchdog_take_key(&link, &token, msg.nonce);
    assert_int_equal(bb_watchdog_send(&link, &msg, 1), 0);
    return link.fd;
}

static void test_strangers(void **state)
{
    struct bb_watchdog_endpoint ticket, wrong;
    struct bb_watchdog *server, *client;
    struct capture said;
    char noise[4096];
    int silent, loud;

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&client, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    silent = knock(&ticket);
    loud = knock(&ticket);
    memset(noise, 'x', sizeof(noise));
    assert_true(send(loud, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
    assert_true(is_shown_the_door(loud));
    assert_true(is_shown_the_door(say(&ticket, WATCHDOG_FAIL, 1, 0))); /* no HELLO: not obeyed */
    assert_true(is_shown_the_door(say(&ticket, WATCHDOG_HELLO, 77, 0)));
    assert_true(is_shown_the_door(say(&ticket, WATCHDOG_HELLO, 1, 1)));
    wrong = ticket;
    wrong.token.k[1]++;
    capture_begin(&said);
    bb_watchdog_join(client, 1, 3, hosts, &wrong);
    assert_non_null(strstr(capture_end(&said), "rank 0 (a) is unreachable"));
    assert_false(client->attended);
    assert_int_equal(bb_watchdog_ending(server), 0);
    close(silent);
    bb_watchdog_stop(server);
    bb_watchdog_stop(client);
}

/* More silent visitors than there are seats: a rank gets in all the same. */
static void test_full_table(void **state)
{
    enum { SILENT = 200 };
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *server, *client;
    int silent[SILENT];

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&client, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    for (int i = 0; i < SILENT; i++)
        silent[i] = knock(&ticket);
    bb_watchdog_join(client, 1, 3, hosts, &ticket);
    assert_true(client->attended);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    bb_watchdog_stop(server);
    bb_watchdog_stop(client);
}

/* A message that was changed, or comes a second time, ends the connection. */
static void test_tags(void **state)
{
    const struct bb_siphash_key token = {{1, 2}};
    struct bb_watchdog_link from = {.nonce = 3}, to = {.nonce = 3, .called = true};
    struct bb_watchdog_msg msg = bb_watchdog_msg(WATCHDOG_END, 0, 4), copy;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    from.fd = ends[0];
    to.fd = ends[1];
    bb_watchdog_take_key(&from, &token, 5);
    bb_watchdog_take_key(&to, &token, 5);
    assert_int_equal(bb_watchdog_send(&from, &msg, 1), 0);
    assert_int_equal(bb_watchdog_receive(&to, &copy), 1);
    assert_int_equal(send(from.fd, &copy, sizeof(copy), 0), sizeof(copy));
    assert_int_equal(bb_watchdog_receive(&to, &copy), -1); /* again */
    assert_int_equal(bb_watchdog_send(&from, &msg, 1), 0);
    from.sent = to.received;
    assert_int_equal(bb_watchdog_send(&from, &msg, 1), 0);
    assert_int_equal(bb_watchdog_receive(&to, &copy), -1);
    to.received = from.sent - 1;
    assert_int_equal(bb_watchdog_receive(&to, &copy), 1);
    copy.code++;
    to.received--;
    assert_false(bb_watchdog_verify(&to, &copy));
    bb_watchdog_close(&from);
    bb_watchdog_close(&to);
}

/* Connections of a process that is killed close one after the other: who asks may know before the deputy does. */
static void test_deputy_is_told_of_a_loss(void **state)
{
    struct bb_watchdog_msg question = bb_watchdog_msg(WATCHDOG_SPEAK, 2, BB_ETIMEOUT);
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *server, *deputy;
    struct capture said;
    char job[32];

    (void)state;
    snprintf(job, sizeof(job), "test-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1); /* a word of our own, whatever runs beside */
    strcpy(question.seen.wait, "a barrier");
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&deputy, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    bb_watchdog_join(deputy, 1, 3, hosts, &ticket);
    assert_true(deputy->attended);
    capture_begin(&said);
    pthread_mutex_lock(&deputy->lock);
    bb_watchdog_asked(deputy, &question);
    pthread_mutex_unlock(&deputy->lock);
    assert_string_equal(capture_end(&said), "busbar: rank 0 (a) is lost; last seen: start\n");
    bb_watchdog_stop(deputy);
    bb_watchdog_stop(server);
    unsetenv("PMIX_NAMESPACE");
}

/* A hang that nobody can explain is still reported, and ends with the code of a timeout. */
static void test_alone(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture said;

    (void)state;
    assert_int_equal(bb_watchdog_start(&watchdog, 0.5), 0);
    bb_watchdog_reached(watchdog, "bench all_reduce 4 MiB");
    capture_begin(&said);
    assert_int_equal(bb_watchdog_expired(watchdog, "a stream"), -BB_ETIMEOUT);
    bb_watchdog_stop(watchdog);
    assert_string_equal(capture_end(&said),
                        "busbar: timeout in bench all_reduce 4 MiB: a stream did not end within 0.5 s\n");
}

/* Ranks 1 and 2, and the first ranks of the second and the third node. */
static void test_who_deputises(void **state)
{
    static const struct {
        int size, node_of[12], n, rank[BB_WATCHDOG_DEPUTIES];
    } rows[] = {{.size = 1},
                {2, {0, 0}, 1, {1}},
                {8, {0}, 2, {1, 2}},
                {3, {0, 1, 2}, 2, {1, 2}},
                {5, {0, 1, 2, 3, 4}, 2, {1, 2}},
                {6, {0, 0, 0, 1, 1, 1}, 3, {1, 2, 3}},
                {12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, 4, {1, 2, 4, 8}},
                {12, {0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3}, 4, {1, 2, 6, 8}},
                {8, {0, 0, 1, 1, 2, 2, 3, 3}, 3, {1, 2, 4}}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct bb_watchdog_deputies got;

        bb_watchdog_choose_deputies(&got, rows[i].size, rows[i].node_of);
        assert_int_equal(got.n, rows[i].n);
        assert_memory_equal(got.rank, rows[i].rank, sizeof(got.rank));
    }
}

/* Rank 1 of three finds out that a barrier does not end: how long until it knows the verdict. */
static double verdict_s(void)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog[3];
    struct capture said;
    double start_s;
    int rc;

    for (int r = 0; r < 3; r++)
        assert_int_equal(bb_watchdog_start(&watchdog[r], 20), 0);
    assert_int_equal(bb_watchdog_serve(watchdog[0], 3, hosts, true, &ticket), 0);
    for (int r = 1; r < 3; r++)
        bb_watchdog_join(watchdog[r], r, 3, hosts, &ticket);
    start_s = bb_now_s();
    capture_begin(&said);
    rc = bb_watchdog_expired(watchdog[1], "a barrier");
    start_s = bb_now_s() - start_s;
    for (int r = 0; r < 3; r++)
        bb_watchdog_stop(watchdog[r]);
    assert_non_null(strstr(capture_end(&said), "a barrier did not end within 20 s"));
    assert_int_equal(rc, -BB_ETIMEOUT);
    return start_s;
}

/* Where every rank answers, nobody waits for more to come, which takes a second in all. A busy machine may need a few
 * tries. */
static void test_everybody_answers(void **state)
{
    bool soon = false;

    (void)state;
    for (int i = 0; i < 5 && !soon; i++)
        soon = verdict_s() < 0.95;
    assert_true(soon);
}

static bool speaks(struct bb_watchdog *watchdog)
{
    bool ours;

    pthread_mutex_lock(&watchdog->lock);
    ours = bb_watchdog_speaks(watchdog, 4);
    pthread_mutex_unlock(&watchdog->lock);
    return ours;
}

/* The word of the host is taken. Rank 0 needs none once it is heard by all, but until then; nobody else does without. */
static void test_who_is_heard_by_all(void **state)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog[3];
    char job[32];
    double start_s;
    int word;

    (void)state;
    snprintf(job, sizeof(job), "heard-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    word = bb_speaker_take(4);
    assert_true(word >= 0);
    for (int r = 0; r < 3; r++)
        assert_int_equal(bb_watchdog_start(&watchdog[r], 20), 0);
    assert_int_equal(bb_watchdog_serve(watchdog[0], 3, hosts, true, &ticket), 0);
    bb_watchdog_join(watchdog[1], 1, 3, hosts, &ticket);
    start_s = bb_now_s();
    assert_false(speaks(watchdog[0]));
    assert_true(bb_now_s() < start_s + 1); /* nor does it wait long for one that has the word and is stuck */
    bb_watchdog_join(watchdog[2], 2, 3, hosts, &ticket);
    assert_true(speaks(watchdog[0]));
    assert_false(speaks(watchdog[1]));
    for (int r = 0; r < 3; r++)
        bb_watchdog_stop(watchdog[r]);
    close(word);
    unsetenv("PMIX_NAMESPACE");
}

struct holder {
    int word;
    bool says;
};

/* Has said its line, or is killed before it did, while others look at it. */
static void *hold_word(void *arg)
{
    const struct holder *holder = arg;

    usleep(30000);
    if (holder->says)
        bb_speaker_says(holder->word);
    else
        close(holder->word);
    return NULL;
}

/* Nobody ends before the line stands there, since prterun kills all when the first has ended: who finds the word taken
 * waits for it, and says it where the one that has the word is gone. */
static void test_who_has_the_word_says_the_line(void **state)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog;
    char job[32];

    (void)state;
    for (int says = 0; says < 2; says++) {
        struct holder holder = {.says = says};
        pthread_t thread;
        double start_s;

        snprintf(job, sizeof(job), "word-%d-%ld", says, (long)getpid());
        setenv("PMIX_NAMESPACE", job, 1);
        assert_true((holder.word = bb_speaker_take(4)) >= 0);
        assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
        assert_int_equal(bb_watchdog_serve(watchdog, 3, hosts, true, &ticket), 0);
        assert_int_equal(pthread_create(&thread, NULL, hold_word, &holder), 0);
        start_s = bb_now_s();
        assert_int_equal(speaks(watchdog), !says);
        assert_true(bb_now_s() > start_s + 0.02);
        pthread_join(thread, NULL);
        if (says)
            close(holder.word);
        bb_watchdog_stop(watchdog);
    }
    unsetenv("PMIX_NAMESPACE");
}

static void set_launched(struct bb_watchdog *watchdog, bool launched)
{
    pthread_mutex_lock(&watchdog->lock);
    watchdog->launched = launched;
    pthread_mutex_unlock(&watchdog->lock);
}

/* A connection broke, both ends live, and the other one has said that rank 0 is lost: rank 0 does not say a second
 * line. Where nobody had the word it says its own. */
static void test_a_connection_that_breaks(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture said;
    char job[32];

    (void)state;
    for (int taken = 0; taken < 2; taken++) {
        int word = -1;

        snprintf(job, sizeof(job), "broken-%d-%ld", taken, (long)getpid());
        setenv("PMIX_NAMESPACE", job, 1);
        if (taken)
            assert_true((word = bb_speaker_take(4)) >= 0);
        assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
        set_launched(watchdog, true);
        capture_begin(&said);
        bb_watchdog_say_lost(watchdog, "rank 1 (b) is lost");
        capture_end(&said);
        assert_string_equal(said.text, taken ? "" : "busbar: rank 1 (b) is lost\n");
        set_launched(watchdog, false);
        bb_watchdog_stop(watchdog);
        if (word >= 0)
            close(word);
    }
    unsetenv("PMIX_NAMESPACE");
}

/* What rank 0 says of a signal after it was stopped for a while; `broken`: to a rank that has ended meanwhile. */
static const char *after_a_stop(struct bb_watchdog *watchdog, bool broken, struct capture *said)
{
    struct bb_peer peers[2] = {{.link.fd = -1}, {.link.fd = broken ? -1 : STDIN_FILENO, .joined = true}};

    pthread_mutex_lock(&watchdog->lock);
    watchdog->hosts = hosts;
    watchdog->peers = peers;
    watchdog->n_peers = watchdog->size = 2;
    watchdog->slept = watchdog->keeps = true; /* nor does it end this process for a while */
    watchdog->signal = SIGTERM;
    capture_begin(said);
    bb_watchdog_judge_signal(watchdog);
    capture_end(said);
    watchdog->ending = 0;
    watchdog->ended_by = watchdog->signal = 0;
    watchdog->peers = NULL;
    watchdog->n_peers = 0;
    watchdog->size = 1;
    pthread_mutex_unlock(&watchdog->lock);
    return said->text;
}

/* The others have said why, where one has ended; where all were stopped, and woken by the signal, nobody has. */
static void test_a_signal_after_a_stop(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture said;
    char job[32];

    (void)state;
    snprintf(job, sizeof(job), "stopped-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
    assert_string_equal(after_a_stop(watchdog, true, &said), "");
    assert_string_equal(after_a_stop(watchdog, false, &said), "busbar: ended by SIGTERM; last seen: start\n");
    bb_watchdog_stop(watchdog);
    unsetenv("PMIX_NAMESPACE");
}

/* Rank 0 of two: serves, then is stopped. */
static void be_first_rank(int ticket_fd)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog;

    if (bb_watchdog_start(&watchdog, 20) != 0 || bb_watchdog_serve(watchdog, 2, hosts, true, &ticket) != 0 ||
        write(ticket_fd, &ticket, sizeof(ticket)) != sizeof(ticket))
        _exit(9);
    for (;;)
        pause();
}

static void be_second_rank(const struct bb_watchdog_endpoint *ticket, int joined_fd)
{
    struct bb_watchdog *watchdog;

    if (!freopen("/dev/null", "w", stderr) || bb_watchdog_start(&watchdog, 20) != 0)
        _exit(9);
    bb_watchdog_join(watchdog, 1, 2, hosts, ticket);
    if (write(joined_fd, "", 1) != 1)
        _exit(9);
    for (;;)
        pause();
}

/* What a launcher sends ends a rank also where rank 0, which it tells, does not answer. */
static void test_a_signal_of_which_nobody_answers(void **state)
{
    struct bb_watchdog_endpoint ticket;
    pid_t first, second, ended = 0;
    int ends[2], status = 0;
    char joined;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    if ((first = fork()) == 0)
        be_first_rank(ends[1]);
    assert_int_equal(read(ends[0], &ticket, sizeof(ticket)), sizeof(ticket));
    if ((second = fork()) == 0)
        be_second_rank(&ticket, ends[1]);
    assert_int_equal(read(ends[0], &joined, 1), 1);
    kill(first, SIGSTOP);
    kill(second, SIGTERM);
    for (int ms = 0; ended == 0 && ms < 8000; ms += 10) {
        usleep(10000);
        ended = waitpid(second, &status, WNOHANG);
    }
    kill(first, SIGKILL);
    kill(second, SIGKILL);
    waitpid(first, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(ended, second);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BB_EFAIL);
}

/* In a child: a library's exit(), the time of which and then the line go to the pipe. */
static void be_left_by_a_library(int fd)
{
    struct bb_watchdog *watchdog;
    double now_s;

    dup2(fd, STDERR_FILENO);
    if (bb_watchdog_start(&watchdog, 20) != 0)
        _exit(9);
    now_s = bb_now_s();
    if (write(fd, &now_s, sizeof(now_s)) != sizeof(now_s))
        _exit(9);
    exit(0);
}

/* Seconds from the exit() to its line. */
static double told_after_s(void)
{
    char line[128] = "";
    int ends[2], status;
    double left_s, said_s;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    if ((child = fork()) == 0)
        be_left_by_a_library(ends[1]);
    assert_int_equal(read(ends[0], &left_s, sizeof(left_s)), sizeof(left_s));
    assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
    said_s = bb_now_s();
    assert_string_equal(line, "busbar: ended by a library that called exit(); last seen: start\n");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BB_EFAIL);
    close(ends[0]);
    close(ends[1]);
    return said_s - left_s;
}

/* Of a signal others may know more: an exit() is its own cause, and told without a wait. A busy machine may need a few
 * tries. */
static void test_an_exit_is_told_at_once(void **state)
{
    bool soon = false;

    (void)state;
    for (int i = 0; i < 5 && !soon; i++)
        soon = told_after_s() < 0.12;
    assert_true(soon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_exit_is_told_at_once),
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_a_signal_of_which_nobody_answers),
        cmocka_unit_test(test_every_interface),
        cmocka_unit_test(test_departure),
        cmocka_unit_test(test_nobody_leaves_amid_the_round),
        cmocka_unit_test(test_addresses_in_turn),
        cmocka_unit_test(test_firewall),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_each_address_answers),
        cmocka_unit_test(test_preferred_interfaces),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_who_deputises),
        cmocka_unit_test(test_who_is_heard_by_all),
        cmocka_unit_test(test_who_has_the_word_says_the_line),
        cmocka_unit_test(test_a_connection_that_breaks),
        cmocka_unit_test(test_a_signal_after_a_stop),
        cmocka_unit_test(test_everybody_answers),
        cmocka_unit_test(test_deputy_is_told_of_a_loss),
        cmocka_unit_test(test_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
