/*
 * test_watchdog.c - the watchdog without MPI: ranks are objects of one process and connect through all addresses of the
 * host. Unauthenticated clients connect, too.
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

/* Opens a connection to rank 0 from a client that does not know the key of the run. */
static int connect_unauthenticated(const struct bb_watchdog_endpoint *ticket)
{
    const struct sockaddr *at = (const struct sockaddr *)&ticket->at[0];
    int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(
        connect(fd, at, at->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)), 0);
    return fd;
}

/* Returns true when the server closes the connection; the server sends nothing but its challenge. */
static bool is_closed_by_server(int fd)
{
    char challenge[1024];
    ssize_t n;

    do
        n = recv(fd, challenge, sizeof(challenge), 0);
    while (n > 0);
    close(fd);
    return n <= 0;
}

static void *leave_run(void *watchdog)
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
        pthread_create(&leaving[r], NULL, leave_run, watchdog[r]);
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

static void connects_over_loopback(void **state)
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

/* Rank 2 enters the departure phase 0.3 s late, as with a slow MPI_Finalize; no other rank may leave before it. */
static void waits_until_all_ranks_have_finalized_mpi(void **state)
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

static void send_gone(struct bb_watchdog *from, int to)
{
    struct bb_watchdog_msg gone = bb_watchdog_msg(WATCHDOG_GONE, (uint32_t)from->rank, 0);

    pthread_mutex_lock(&from->lock);
    assert_int_equal(bb_watchdog_send(&from->peers[to].link, &gone, 1), 0);
    pthread_mutex_unlock(&from->lock);
}

/*
 * A rank leaves only after the second GONE message, because rank 0 may still be sending the first one to other ranks.
 * If rank 0 dies, a rank that has received one GONE message leaves, too.
 */
static void leaves_only_after_the_second_gone_message(void **state)
{
    struct bb_watchdog *watchdog[3];
    struct departure departures[3] = {{0}};

    (void)state;
    start_job(watchdog, true);
    leave_job(watchdog);
    for (int r = 1; r < 3; r++) {
        departures[r].watchdog = watchdog[r];
        pthread_create(&departures[r].thread, NULL, depart, &departures[r]);
        send_gone(watchdog[0], r);
    }
    usleep(100000);
    assert_int_equal(departures[1].done + departures[2].done, 0);
    send_gone(watchdog[0], 1);
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

static void connects_over_all_interfaces(void **state)
{
    (void)state;
    run_job(false);
}

static void tries_all_addresses(void **state)
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

/* Simulates a firewall that drops packets: the backlog of a listener that never accepts is full, so connects get no
 * reply. */
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

static void gives_up_on_addresses_that_do_not_reply(void **state)
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
    detour.at[BB_WATCHDOG_ADDRESSES - 1] = ticket.at[0]; /* only the last address replies */
    start_s = bb_now_s();
    assert_int_equal(bb_watchdog_dial(&detour, &hello, patience_s, &link, &reply), 0);
    assert_true(bb_now_s() - start_s < 1.9);
    bb_watchdog_close(&link);
    for (int i = 0; i < BB_WATCHDOG_ADDRESSES; i++)
        for (int k = 0; k < 4; k++)
            close(fds[i][k]);
    bb_watchdog_stop(server);
}

/* The server listens on each advertised address and on no other (not on INADDR_ANY). */
static void listens_only_on_advertised_addresses(void **state)
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

/* The server is reachable through each of its IPv4 and IPv6 addresses alone. */
static void each_address_accepts_connections(void **state)
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

static void prefers_interfaces_like_nccl_socket_ifname(void **state)
{
    static const char *const names[] = {"docker0", "eth0", "eth1", "eth10", "ib0"};
    static const struct {
        const char *variable, *best; /* the preferred element of names[] when the default route uses eth1 */
        const char *worst;           /* the least preferred element; NULL: several elements are equally bad */
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

/* Answers the challenge with a message of this kind; wrong != 0: with a wrong key. */
static int answer_challenge(const struct bb_watchdog_endpoint *ticket, enum bb_watchdog_kind kind, uint32_t rank,
                            uint64_t wrong)
{
    struct bb_watchdog_link link = {.fd = connect_unauthenticated(ticket)};
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

static void rejects_unauthenticated_clients(void **state)
{
    struct bb_watchdog_endpoint ticket, wrong;
    struct bb_watchdog *server, *client;
    struct capture captured;
    char noise[4096];
    int silent, loud;

    (void)state;
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&client, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    silent = connect_unauthenticated(&ticket);
    loud = connect_unauthenticated(&ticket);
    memset(noise, 'x', sizeof(noise));
    assert_true(send(loud, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
    assert_true(is_closed_by_server(loud));
    assert_true(
        is_closed_by_server(answer_challenge(&ticket, WATCHDOG_FAIL, 1, 0))); /* the first message must be HELLO */
    assert_true(is_closed_by_server(answer_challenge(&ticket, WATCHDOG_HELLO, 77, 0)));
    assert_true(is_closed_by_server(answer_challenge(&ticket, WATCHDOG_HELLO, 1, 1)));
    wrong = ticket;
    wrong.token.k[1]++;
    capture_begin(&captured);
    bb_watchdog_join(client, 1, 3, hosts, &wrong);
    assert_non_null(strstr(capture_end(&captured), "rank 0 (a) is unreachable"));
    assert_false(client->attended);
    assert_int_equal(bb_watchdog_ending(server), 0);
    close(silent);
    bb_watchdog_stop(server);
    bb_watchdog_stop(client);
}

/* With more silent clients than slots for pending connections, a rank still connects. */
static void rank_connects_despite_many_silent_clients(void **state)
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
        silent[i] = connect_unauthenticated(&ticket);
    bb_watchdog_join(client, 1, 3, hosts, &ticket);
    assert_true(client->attended);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    bb_watchdog_stop(server);
    bb_watchdog_stop(client);
}

/* A modified or repeated message ends the connection. */
static void rejects_modified_and_repeated_messages(void **state)
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
    assert_int_equal(bb_watchdog_receive(&to, &copy), -1); /* repeated message */
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

/*
 * The connections of a killed process close one after the other, so a rank may report the loss of rank 0 before the
 * backup reporter notices it.
 */
static void backup_reporter_reports_the_loss_of_rank_0(void **state)
{
    struct bb_watchdog_msg question = bb_watchdog_msg(WATCHDOG_SPEAK, 2, BB_ETIMEOUT);
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *server, *backup;
    struct capture captured;
    char job[32];

    (void)state;
    snprintf(job, sizeof(job), "test-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1); /* a job name that no concurrent test uses */
    strcpy(question.seen.wait, "a barrier");
    assert_int_equal(bb_watchdog_start(&server, 20), 0);
    assert_int_equal(bb_watchdog_start(&backup, 20), 0);
    assert_int_equal(bb_watchdog_serve(server, 3, hosts, true, &ticket), 0);
    bb_watchdog_join(backup, 1, 3, hosts, &ticket);
    assert_true(backup->attended);
    capture_begin(&captured);
    pthread_mutex_lock(&backup->lock);
    bb_watchdog_asked(backup, &question);
    pthread_mutex_unlock(&backup->lock);
    assert_string_equal(capture_end(&captured), "busbar: rank 0 (a) is lost; last seen: start\n");
    bb_watchdog_stop(backup);
    bb_watchdog_stop(server);
    unsetenv("PMIX_NAMESPACE");
}

/* A timeout without a known cause is still reported, and the run ends with the exit code of a timeout. */
static void reports_a_timeout_of_a_single_rank(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture captured;

    (void)state;
    assert_int_equal(bb_watchdog_start(&watchdog, 0.5), 0);
    bb_watchdog_reached(watchdog, "bench all_reduce 4 MiB");
    capture_begin(&captured);
    assert_int_equal(bb_watchdog_expired(watchdog, "a stream"), -BB_ETIMEOUT);
    bb_watchdog_stop(watchdog);
    assert_string_equal(capture_end(&captured),
                        "busbar: timeout in bench all_reduce 4 MiB: a stream did not end within 0.5 s\n");
}

/* The backup reporters are ranks 1 and 2, and the first ranks of the second and the third node. */
static void chooses_backup_reporters_on_several_nodes(void **state)
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

/* Rank 1 of three reports that a barrier does not end. Returns the seconds until the verdict. */
static double time_verdict_s(void)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog[3];
    struct capture captured;
    double start_s;
    int rc;

    for (int r = 0; r < 3; r++)
        assert_int_equal(bb_watchdog_start(&watchdog[r], 20), 0);
    assert_int_equal(bb_watchdog_serve(watchdog[0], 3, hosts, true, &ticket), 0);
    for (int r = 1; r < 3; r++)
        bb_watchdog_join(watchdog[r], r, 3, hosts, &ticket);
    start_s = bb_now_s();
    capture_begin(&captured);
    rc = bb_watchdog_expired(watchdog[1], "a barrier");
    start_s = bb_now_s() - start_s;
    for (int r = 0; r < 3; r++)
        bb_watchdog_stop(watchdog[r]);
    assert_non_null(strstr(capture_end(&captured), "a barrier did not end within 20 s"));
    assert_int_equal(rc, -BB_ETIMEOUT);
    return start_s;
}

/*
 * If all ranks answer, the verdict does not wait for the full second in which further answers are accepted. A busy
 * machine may need several attempts.
 */
static void verdict_does_not_wait_when_all_ranks_answer(void **state)
{
    bool soon = false;

    (void)state;
    for (int i = 0; i < 5 && !soon; i++)
        soon = time_verdict_s() < 0.95;
    assert_true(soon);
}

static bool may_report(struct bb_watchdog *watchdog)
{
    bool may;

    pthread_mutex_lock(&watchdog->lock);
    may = bb_watchdog_speaks(watchdog, 4);
    pthread_mutex_unlock(&watchdog->lock);
    return may;
}

/*
 * Another process holds the reporter's claim of this host. Rank 0 reports without a claim once all ranks are connected,
 * but not earlier; other ranks always need the claim.
 */
static void rank_0_needs_no_claim_when_all_ranks_are_connected(void **state)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog[3];
    char job[32];
    double start_s;
    int claim;

    (void)state;
    snprintf(job, sizeof(job), "connected-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    claim = bb_speaker_take(4);
    assert_true(claim >= 0);
    for (int r = 0; r < 3; r++)
        assert_int_equal(bb_watchdog_start(&watchdog[r], 20), 0);
    assert_int_equal(bb_watchdog_serve(watchdog[0], 3, hosts, true, &ticket), 0);
    bb_watchdog_join(watchdog[1], 1, 3, hosts, &ticket);
    start_s = bb_now_s();
    assert_false(may_report(watchdog[0]));
    assert_true(bb_now_s() < start_s + 1); /* the wait for a blocked reporter is short, too */
    bb_watchdog_join(watchdog[2], 2, 3, hosts, &ticket);
    assert_true(may_report(watchdog[0]));
    assert_false(may_report(watchdog[1]));
    for (int r = 0; r < 3; r++)
        bb_watchdog_stop(watchdog[r]);
    close(claim);
    unsetenv("PMIX_NAMESPACE");
}

struct reporter {
    int claim;
    bool prints;
};

/* After 30 ms, marks the error as printed, or releases the claim without output like a killed reporter. */
static void *print_or_release(void *arg)
{
    const struct reporter *reporter = arg;

    usleep(30000);
    if (reporter->prints)
        bb_speaker_says(reporter->claim);
    else
        close(reporter->claim);
    return NULL;
}

/*
 * No rank exits before the error line is printed, because prterun kills all ranks when the first one has exited. A rank
 * that finds the claim taken waits for the line, and prints its own line if the reporter dies.
 */
static void waits_for_the_reporter_and_replaces_a_dead_one(void **state)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog;
    char job[32];

    (void)state;
    for (int prints = 0; prints < 2; prints++) {
        struct reporter reporter = {.prints = prints};
        pthread_t thread;
        double start_s;

        snprintf(job, sizeof(job), "claim-%d-%ld", prints, (long)getpid());
        setenv("PMIX_NAMESPACE", job, 1);
        assert_true((reporter.claim = bb_speaker_take(4)) >= 0);
        assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
        assert_int_equal(bb_watchdog_serve(watchdog, 3, hosts, true, &ticket), 0);
        assert_int_equal(pthread_create(&thread, NULL, print_or_release, &reporter), 0);
        start_s = bb_now_s();
        assert_int_equal(may_report(watchdog), !prints);
        assert_true(bb_now_s() > start_s + 0.02);
        pthread_join(thread, NULL);
        if (prints)
            close(reporter.claim);
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

/*
 * A connection broke, but both processes are alive. If the other rank holds the claim and has reported the loss of rank
 * 0, rank 0 prints nothing; without a claim rank 0 prints its own line.
 */
static void broken_connection_is_reported_once(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture captured;
    char job[32];

    (void)state;
    for (int claimed = 0; claimed < 2; claimed++) {
        int claim = -1;

        snprintf(job, sizeof(job), "broken-%d-%ld", claimed, (long)getpid());
        setenv("PMIX_NAMESPACE", job, 1);
        if (claimed)
            assert_true((claim = bb_speaker_take(4)) >= 0);
        assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
        set_launched(watchdog, true);
        capture_begin(&captured);
        bb_watchdog_say_lost(watchdog, "rank 1 (b) is lost");
        capture_end(&captured);
        assert_string_equal(captured.text, claimed ? "" : "busbar: rank 1 (b) is lost\n");
        set_launched(watchdog, false);
        bb_watchdog_stop(watchdog);
        if (claim >= 0)
            close(claim);
    }
    unsetenv("PMIX_NAMESPACE");
}

/*
 * Returns the output of rank 0 for a signal after a suspension. `broken`: the connection to the other rank was lost
 * meanwhile.
 */
static const char *output_after_suspension(struct bb_watchdog *watchdog, bool broken, struct capture *captured)
{
    struct bb_peer peers[2] = {{.link.fd = -1}, {.link.fd = broken ? -1 : STDIN_FILENO, .joined = true}};

    pthread_mutex_lock(&watchdog->lock);
    watchdog->hosts = hosts;
    watchdog->peers = peers;
    watchdog->n_peers = watchdog->size = 2;
    watchdog->slept = watchdog->keeps = true; /* `keeps`: this process is not ended for a while, either */
    watchdog->signal = SIGTERM;
    capture_begin(captured);
    bb_watchdog_judge_signal(watchdog);
    capture_end(captured);
    watchdog->ending = 0;
    watchdog->ended_by = watchdog->signal = 0;
    watchdog->peers = NULL;
    watchdog->n_peers = 0;
    watchdog->size = 1;
    pthread_mutex_unlock(&watchdog->lock);
    return captured->text;
}

/*
 * After a suspension rank 0 prints nothing if another rank has exited: that rank has already reported the cause. If all
 * ranks were suspended and the signal resumed them, no rank has reported, so rank 0 prints its line.
 */
static void signal_after_suspension_is_reported_once(void **state)
{
    struct bb_watchdog *watchdog;
    struct capture captured;
    char job[32];

    (void)state;
    snprintf(job, sizeof(job), "stopped-%ld", (long)getpid());
    setenv("PMIX_NAMESPACE", job, 1);
    assert_int_equal(bb_watchdog_start(&watchdog, 20), 0);
    assert_string_equal(output_after_suspension(watchdog, true, &captured), "");
    assert_string_equal(output_after_suspension(watchdog, false, &captured),
                        "busbar: ended by SIGTERM; last seen: start\n");
    bb_watchdog_stop(watchdog);
    unsetenv("PMIX_NAMESPACE");
}

/* Rank 0 of two: serves until the test stops it with SIGSTOP. */
static void run_first_rank(int ticket_fd)
{
    struct bb_watchdog_endpoint ticket;
    struct bb_watchdog *watchdog;

    if (bb_watchdog_start(&watchdog, 20) != 0 || bb_watchdog_serve(watchdog, 2, hosts, true, &ticket) != 0 ||
        write(ticket_fd, &ticket, sizeof(ticket)) != sizeof(ticket))
        _exit(9);
    for (;;)
        pause();
}

static void run_second_rank(const struct bb_watchdog_endpoint *ticket, int joined_fd)
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

/* A signal ends a rank even if rank 0, which receives the rank's report of the signal, does not answer. */
static void signal_ends_a_rank_when_rank_0_does_not_answer(void **state)
{
    struct bb_watchdog_endpoint ticket;
    pid_t first, second, ended = 0;
    int ends[2], status = 0;
    char joined;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    if ((first = fork()) == 0)
        run_first_rank(ends[1]);
    assert_int_equal(read(ends[0], &ticket, sizeof(ticket)), sizeof(ticket));
    if ((second = fork()) == 0)
        run_second_rank(&ticket, ends[1]);
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

/* In a child process: writes the current time to the pipe, then exits like a library; the error line follows in the
 * pipe. */
static void exit_like_a_library(int fd)
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

/* Returns the seconds from the exit() call to the error line. */
static double time_exit_report_s(void)
{
    char line[128] = "";
    int ends[2], status;
    double exit_s, printed_s;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    if ((child = fork()) == 0)
        exit_like_a_library(ends[1]);
    assert_int_equal(read(ends[0], &exit_s, sizeof(exit_s)), sizeof(exit_s));
    assert_true(read(ends[0], line, sizeof(line) - 1) > 0);
    printed_s = bb_now_s();
    assert_string_equal(line, "busbar: ended by a library that called exit(); last seen: start\n");
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), BB_EFAIL);
    close(ends[0]);
    close(ends[1]);
    return printed_s - exit_s;
}

/*
 * After a signal a rank waits, because other ranks may know the cause. An unexpected exit() is its own cause and is
 * reported without a wait. A busy machine may need several attempts.
 */
static void reports_an_unexpected_exit_at_once(void **state)
{
    bool soon = false;

    (void)state;
    for (int i = 0; i < 5 && !soon; i++)
        soon = time_exit_report_s() < 0.12;
    assert_true(soon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_an_unexpected_exit_at_once),
        cmocka_unit_test(connects_over_loopback),
        cmocka_unit_test(signal_ends_a_rank_when_rank_0_does_not_answer),
        cmocka_unit_test(connects_over_all_interfaces),
        cmocka_unit_test(waits_until_all_ranks_have_finalized_mpi),
        cmocka_unit_test(leaves_only_after_the_second_gone_message),
        cmocka_unit_test(tries_all_addresses),
        cmocka_unit_test(gives_up_on_addresses_that_do_not_reply),
        cmocka_unit_test(listens_only_on_advertised_addresses),
        cmocka_unit_test(each_address_accepts_connections),
        cmocka_unit_test(prefers_interfaces_like_nccl_socket_ifname),
        cmocka_unit_test(rejects_unauthenticated_clients),
        cmocka_unit_test(rank_connects_despite_many_silent_clients),
        cmocka_unit_test(rejects_modified_and_repeated_messages),
        cmocka_unit_test(chooses_backup_reporters_on_several_nodes),
        cmocka_unit_test(rank_0_needs_no_claim_when_all_ranks_are_connected),
        cmocka_unit_test(waits_for_the_reporter_and_replaces_a_dead_one),
        cmocka_unit_test(broken_connection_is_reported_once),
        cmocka_unit_test(signal_after_suspension_is_reported_once),
        cmocka_unit_test(verdict_does_not_wait_when_all_ranks_answer),
        cmocka_unit_test(backup_reporter_reports_the_loss_of_rank_0),
        cmocka_unit_test(reports_a_timeout_of_a_single_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
