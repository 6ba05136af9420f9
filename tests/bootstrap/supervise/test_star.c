/*
 * test_star.c - the connections between supervisors: addresses, authentication, and the messages that the server and
 * the backup server accept. The supervisors are objects of this process; the tests call their functions in turn.
 */
#include "bootstrap/base/clock.h"
#include "bootstrap/supervise/supervisor.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3 };
static char hosts[RANKS][BB_HOST_TEXT] = {"a", "b", "c"};
static const double patience_s[2] = {2, 10};

/* ---- a supervisor without processes ---- */

struct host {
    struct bb_supervisor s;
    struct bb_child child;
    struct bb_rank_page page;
    struct bb_star_endpoint at;
    int node_of[RANKS];
};

/* Starts the supervisor of `rank`, which listens. token: token of the server for the backup server, else NULL. */
static void start_host(struct host *h, int rank, int nodes, const struct bb_siphash_key *token)
{
    memset(h, 0, sizeof(*h));
    h->child = (struct bb_child){
        .rank = rank, .page = &h->page, .alive = true, .socket.fd = -1, .stderr_fd = -1, .results_fd = -1};
    for (int r = 0; r < RANKS; r++)
        h->node_of[r] = nodes > 1 ? r : 0;
    h->s = (struct bb_supervisor){.state = BB_STATE_RUNNING,
                                  .role = BB_ROLE_ALONE,
                                  .children = &h->child,
                                  .n_children = 1,
                                  .timeout_s = 20,
                                  .writer.control.fd = -1,
                                  .star = {.dialing = -1, .self = -1}};
    h->s.job = (struct bb_job){.rank = rank, .size = RANKS, .nodes = nodes, .hosts = hosts, .node_of = h->node_of};
    assert_int_equal(bb_peers_world(&h->s, &h->at), 0);
    if (token) {
        h->s.star.token = h->at.token = *token;
        h->s.role = BB_ROLE_MEMBER;
    }
}

static void serve(struct host *h)
{
    bb_peers_read(&h->s, bb_now_s());
}

/* Connects with a first message, while supervisor h runs. Returns 1, or -1 if the attempt failed. */
static int dial(struct host *h, const struct bb_star_endpoint *to, const struct bb_star_msg *first,
                struct bb_star_link *link, struct bb_star_msg *reply)
{
    struct bb_star_dial d;
    int done;

    bb_star_dial_begin(&d, to, first, patience_s);
    while ((done = bb_star_dial_step(&d, link)) == 0) {
        if (h)
            serve(h);
        usleep(1000);
    }
    *reply = d.reply;
    return done;
}

static int join(struct host *h, const struct bb_star_endpoint *to, int rank, struct bb_star_link *link)
{
    const struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, rank, 1);
    struct bb_star_msg reply;
    const int done = dial(h, to, &hello, link, &reply);

    assert_true(done < 0 || reply.kind == BB_STAR_HELLO);
    return done;
}

/* ---- addresses ---- */

static struct sockaddr_storage closed_port(void)
{
    struct sockaddr_storage at = {0};

    *(struct sockaddr_in *)&at =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return at;
}

static void tries_all_addresses(void **state)
{
    struct host server;
    struct bb_star_endpoint detour = {.n = 2};
    struct bb_star_link link;

    (void)state;
    start_host(&server, 0, 1, NULL);
    assert_int_equal(server.at.n, 1);
    detour.token = server.at.token;
    detour.at[0] = closed_port();
    detour.at[1] = server.at.at[0];
    assert_int_equal(join(&server, &detour, 2, &link), 1);
    assert_true(server.s.star.peers[2].joined);
    assert_false(server.s.star.peers[1].joined);
    bb_star_close(&link);
    bb_peers_release(&server.s);
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
    struct bb_star_endpoint detour = {.n = BB_STAR_ADDRESSES};
    struct bb_star_link link;
    struct host server;
    int fds[BB_STAR_ADDRESSES][4];
    double start_s;

    (void)state;
    start_host(&server, 0, 1, NULL);
    for (int i = 0; i < BB_STAR_ADDRESSES; i++)
        make_silent(&detour.at[i], fds[i]);
    detour.token = server.at.token;
    start_s = bb_now_s();
    assert_int_equal(join(&server, &detour, 1, &link), -1);
    assert_true(bb_now_s() - start_s < patience_s[0] + 0.5);
    detour.at[BB_STAR_ADDRESSES - 1] = server.at.at[0]; /* only the last address replies */
    start_s = bb_now_s();
    assert_int_equal(join(&server, &detour, 1, &link), 1);
    assert_true(bb_now_s() - start_s < patience_s[0] - 0.1);
    bb_star_close(&link);
    for (int i = 0; i < BB_STAR_ADDRESSES; i++)
        for (int k = 0; k < 4; k++)
            close(fds[i][k]);
    bb_peers_release(&server.s);
}

/* The server listens on each advertised address and on no other (not on INADDR_ANY). */
static void listens_only_on_advertised_addresses(void **state)
{
    (void)state;
    for (int loopback = 0; loopback < 2; loopback++) {
        struct bb_star_endpoint ticket;
        int fds[BB_STAR_ADDRESSES], n;

        assert_int_equal(bb_star_listen(loopback, &ticket, fds, &n), 0);
        assert_int_equal(n, ticket.n);
        for (int i = 0; i < n; i++) {
            struct sockaddr_storage at = {0};
            socklen_t length = sizeof(at);
            const struct sockaddr_in *v4 = (struct sockaddr_in *)&at;

            assert_int_equal(getsockname(fds[i], (struct sockaddr *)&at, &length), 0);
            assert_memory_equal(&at, &ticket.at[i], length);
            if (at.ss_family == AF_INET)
                assert_true(loopback ? v4->sin_addr.s_addr == htonl(INADDR_LOOPBACK)
                                     : v4->sin_addr.s_addr != INADDR_ANY);
            else
                assert_false(IN6_IS_ADDR_UNSPECIFIED(&((struct sockaddr_in6 *)&at)->sin6_addr));
            close(fds[i]);
        }
    }
}

/* The server is reachable through each of its IPv4 and IPv6 addresses alone. */
static void each_address_accepts_connections(void **state)
{
    struct host server;

    (void)state;
    start_host(&server, 0, RANKS, NULL);
    if (server.at.n == 0)
        print_message("skipped: this machine has no address but loopback\n");
    bb_peers_release(&server.s);
    for (int i = 0; i < server.at.n; i++) {
        struct bb_star_endpoint one;
        struct bb_star_link link;

        start_host(&server, 0, RANKS, NULL);
        one = (struct bb_star_endpoint){.n = 1, .at = {server.at.at[i]}, .token = server.at.token};
        assert_int_equal(join(&server, &one, 1, &link), 1);
        bb_star_close(&link);
        bb_peers_release(&server.s);
    }
}

static void prefers_interfaces_like_nccl_socket_ifname(void **state)
{
    static const char *const names[] = {"docker0", "eth0", "eth1", "eth10", "ib0"};
    static const struct {
        const char *variable, *best; /* the first of the preferred elements of names[] */
        const char *worst;           /* the least preferred element; NULL: several elements are equally bad */
    } rows[] = {
        {NULL, "ib0", "docker0"},      {"", "ib0", "docker0"},        {"ib", "ib0", "docker0"},
        {"eth10", "eth10", "docker0"}, {"=eth0", "eth0", "docker0"},  {"=ib0,=x", "ib0", "docker0"},
        {"wlan,ib", "ib0", "docker0"}, {"^docker", "ib0", "docker0"}, {"^=eth1", "ib0", "eth1"},
        {"^eth", "ib0", NULL},         {"^ib", "eth0", "ib0"},        {"=eth", "ib0", "docker0"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *best = names[0], *worst = names[0];

        for (size_t k = 1; k < ROWS(names); k++) {
            int one = bb_star_preference(names[k], rows[i].variable);
            best = one < bb_star_preference(best, rows[i].variable) ? names[k] : best;
            worst = one > bb_star_preference(worst, rows[i].variable) ? names[k] : worst;
        }
        assert_string_equal(best, rows[i].best);
        if (rows[i].worst)
            assert_string_equal(worst, rows[i].worst);
    }
}

/* ---- clients that do not belong to the job ---- */

/* Opens a connection without a message. */
static int connect_silently(const struct bb_star_endpoint *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)&to->at[0], sizeof(struct sockaddr_in)), 0);
    return fd;
}

/* Returns whether the server closes the connection without an answer other than its challenge. */
static bool is_rejected(struct host *h, int fd)
{
    char data[sizeof(struct bb_star_msg)];
    const double end_s = bb_now_s() + 3;
    size_t got = 0;
    ssize_t n = -1;

    while (n != 0 && bb_now_s() < end_s) {
        serve(h);
        n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
        if (n < 0 && errno == ECONNRESET)
            n = 0;
    }
    close(fd);
    return n == 0 && got <= sizeof(data);
}

/* Answers the challenge of the server with this message. wrong: nonzero: with a wrong key. */
static int answer_challenge(struct host *h, struct bb_star_msg msg, uint64_t wrong)
{
    struct bb_star_link link = {.fd = connect_silently(&h->at)};
    struct bb_siphash_key token = h->s.star.token;
    struct bb_star_msg challenge;

    while (bb_star_receive(&link, &challenge) == 0)
        serve(h);
    assert_int_equal(challenge.kind, BB_STAR_CHALLENGE);
    token.k[0] ^= wrong;
    link.nonce = challenge.nonce;
    bb_star_take_key(&link, &token, msg.nonce);
    assert_int_equal(bb_star_send(&link, &msg, 1), 0);
    return link.fd;
}

static void rejects_invalid_first_messages(void **state)
{
    static const struct {
        enum bb_star_kind kind;
        int rank, code;
        uint64_t wrong;
        bool accepted;
    } rows[] = {
        {BB_STAR_FAIL, 1, BB_EDATA, 0, false}, /* the first message must be HELLO */
        {BB_STAR_STATE, 1, 0, 0, false},       {BB_STAR_HELLO, 77, 1, 0, false}, {BB_STAR_HELLO, 0, 1, 0, false},
        {BB_STAR_HELLO, 1, 0, 0, false},       {BB_STAR_HELLO, 1, 3, 0, false},  {BB_STAR_HELLO, 2, 32767, 0, false},
        {BB_STAR_HELLO, 1, -1, 0, false},      {BB_STAR_HELLO, 1, 1, 1, false}, /* wrong key */
        {BB_STAR_HELLO, 1, 1, 0, true},        {BB_STAR_HELLO, 1, 1, 0, false}, /* the rank is connected already */
        {BB_STAR_HELLO, 2, 1, 0, true},
    };
    struct host server;
    int fds[ROWS(rows)];

    (void)state;
    start_host(&server, 0, 1, NULL);
    for (size_t i = 0; i < ROWS(rows); i++) {
        fds[i] = answer_challenge(&server, bb_star_msg(rows[i].kind, rows[i].rank, rows[i].code), rows[i].wrong);
        if (!rows[i].accepted && !is_rejected(&server, fds[i]))
            fail_msg("row %zu is accepted", i);
        for (double end_s = bb_now_s() + 3;
             rows[i].accepted && !server.s.star.peers[rows[i].rank].joined && bb_now_s() < end_s;)
            serve(&server);
        assert_true(!rows[i].accepted || server.s.star.peers[rows[i].rank].joined);
    }
    assert_int_equal(server.s.state, BB_STATE_RUNNING);
    assert_int_equal(server.s.trouble.cause, BB_CAUSE_NONE);
    for (size_t i = 0; i < ROWS(rows); i++)
        if (rows[i].accepted)
            close(fds[i]);
    bb_peers_release(&server.s);
}

static void rejects_unauthenticated_clients(void **state)
{
    struct host server;
    struct bb_star_endpoint wrong;
    struct bb_star_link link;
    char noise[4096];
    int loud;

    (void)state;
    start_host(&server, 0, 1, NULL);
    loud = connect_silently(&server.at);
    memset(noise, 'x', sizeof(noise));
    assert_true(send(loud, noise, sizeof(noise), MSG_NOSIGNAL) > 0);
    assert_true(is_rejected(&server, loud));
    wrong = server.at;
    wrong.token.k[1]++;
    assert_int_equal(join(&server, &wrong, 1, &link), -1);
    assert_false(server.s.star.peers[1].joined);
    bb_peers_release(&server.s);
}

/* With more silent clients than slots for pending connections, a supervisor still connects. */
static void connects_despite_many_silent_clients(void **state)
{
    enum { SILENT = 200 };
    struct bb_star_link link;
    struct host server;
    int silent[SILENT];

    (void)state;
    start_host(&server, 0, 1, NULL);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = connect_silently(&server.at);
        serve(&server);
    }
    assert_int_equal(join(&server, &server.at, 1, &link), 1);
    bb_star_close(&link);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    bb_peers_release(&server.s);
}

/* A server closes pending connections when it has no slot for another one: the client connects again, a few times. */
static void reconnects_after_the_server_closed_the_connection(void **state)
{
    static const struct {
        int closed, done;
    } rows[] = {{0, 1}, {3, 1}, {1000, -1}};
    const struct bb_star_msg hello = bb_star_msg(BB_STAR_HELLO, 1, 1);
    struct bb_star_endpoint at = {.token = {{1, 2}}};
    int fds[BB_STAR_ADDRESSES], n;

    (void)state;
    assert_int_equal(bb_star_listen(true, &at, fds, &n), 0);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct bb_star_link accepted = {.fd = -1}, link;
        struct bb_star_msg msg, reply = bb_star_msg(BB_STAR_HELLO, 0, 0);
        struct bb_star_dial d;
        int done, closed = 0;

        bb_star_dial_begin(&d, &at, &hello, patience_s);
        while ((done = bb_star_dial_step(&d, &link)) == 0) {
            if (accepted.fd < 0 && bb_star_accept(fds[0], &at.token, &accepted) && closed++ < rows[i].closed)
                bb_star_close(&accepted);
            if (accepted.fd >= 0 && !accepted.keyed && bb_star_receive(&accepted, &msg) == 1)
                assert_int_equal(bb_star_send(&accepted, &reply, 1), 0);
            usleep(1000);
        }
        assert_int_equal(done, rows[i].done);
        bb_star_close(&accepted);
        if (done > 0)
            bb_star_close(&link);
    }
    close(fds[0]);
}

/* A message that is repeated, changed or sent back to its sender ends the connection. */
static void rejects_modified_and_repeated_messages(void **state)
{
    enum change { NOTHING, REPEATED, CHANGED, SENT_BACK };
    const struct bb_siphash_key token = {{1, 2}};

    (void)state;
    for (enum change change = NOTHING; change <= SENT_BACK; change++) {
        struct bb_star_link from = {.nonce = 3}, to = {.nonce = 3, .called = true};
        struct bb_star_msg msg = bb_star_msg(BB_STAR_END, 0, 4), copy;
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
        from.fd = ends[0];
        to.fd = ends[1];
        bb_star_take_key(&from, &token, 5);
        bb_star_take_key(&to, &token, 5);
        assert_int_equal(bb_star_send(&from, &msg, 1), 0);
        assert_int_equal(bb_star_receive(&to, &copy), 1);
        to.received -= change != REPEATED;
        to.called = change != SENT_BACK;
        copy.code += change == CHANGED;
        assert_int_equal(send(from.fd, &copy, sizeof(copy), 0), sizeof(copy));
        assert_int_equal(bb_star_receive(&to, &copy), change == NOTHING ? 1 : -1);
        bb_star_close(&from);
        bb_star_close(&to);
    }
}

/* ---- reports of members, and the backup server ---- */

/* Sends a message of a connected supervisor, and lets the server read it. */
static void deliver(struct host *server, struct bb_star_link *link, struct bb_star_msg msg)
{
    assert_int_equal(bb_star_send(link, &msg, 1), 0);
    for (int i = 0; i < 20; i++, usleep(1000))
        serve(server);
}

static void a_supervisor_reports_only_its_own_ranks(void **state)
{
    struct bb_star_msg failed = bb_star_msg(BB_STAR_FAIL, 2, BB_EDATA);
    struct bb_star_link link;
    struct host server;

    (void)state;
    failed.cause = BB_CAUSE_PRINTED;
    start_host(&server, 0, 1, NULL);
    assert_int_equal(join(&server, &server.at, 1, &link), 1);
    deliver(&server, &link, failed);
    failed.rank = 77;
    deliver(&server, &link, failed);
    assert_int_equal(server.s.state, BB_STATE_RUNNING);
    failed.rank = 1;
    deliver(&server, &link, failed);
    assert_true(server.s.ending_s > 0);
    assert_int_equal(server.s.code, BB_EDATA);
    bb_star_close(&link);
    bb_peers_release(&server.s);
}

/* While the ranks are stopped, because a node is lost, their errors and timeouts are those of the loss; a further loss is not. */
static void errors_of_stopped_ranks_are_ignored(void **state)
{
    static const enum bb_cause causes[] = {BB_CAUSE_PRINTED, BB_CAUSE_HANG, BB_CAUSE_LOST};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct bb_star_msg failed = bb_star_msg(BB_STAR_FAIL, 1, BB_EFAIL);
        struct bb_star_link link;
        struct host server;

        snprintf(failed.error, sizeof(failed.error), "ncclRemoteError");
        failed.cause = (int16_t)causes[i];
        start_host(&server, 0, 1, NULL);
        assert_int_equal(join(&server, &server.at, 1, &link), 1);
        server.s.state = BB_STATE_RESTARTING;
        deliver(&server, &link, failed);
        assert_int_equal(server.s.trouble.cause, causes[i] == BB_CAUSE_LOST ? BB_CAUSE_LOST : BB_CAUSE_NONE);
        assert_int_equal(server.s.printed[0] != 0, causes[i] == BB_CAUSE_LOST);
        bb_star_close(&link);
        bb_peers_release(&server.s);
    }
}

/* A closed connection is a lost rank, unless all processes of the rank have ended in order. */
static void a_closed_connection_is_a_lost_rank(void **state)
{
    (void)state;
    for (int bye = 0; bye < 2; bye++) {
        struct bb_star_link link;
        struct host server;

        start_host(&server, 0, 1, NULL);
        assert_int_equal(join(&server, &server.at, 2, &link), 1);
        if (bye)
            deliver(&server, &link, bb_star_msg(BB_STAR_BYE, 2, 0));
        bb_star_close(&link);
        for (int i = 0; i < 50; i++) {
            serve(&server);
            usleep(1000);
        }
        assert_int_equal(server.s.trouble.cause, bye ? BB_CAUSE_NONE : BB_CAUSE_LOST);
        assert_int_equal(server.s.trouble.rank, bye ? 0 : 2);
        bb_peers_release(&server.s);
    }
}

/* Lets the backup server read what has arrived, and then its timer run out. Returns what it prints. */
static const char *verdict_of(struct host *backup, struct capture *captured)
{
    capture_begin(captured);
    for (int i = 0; i < 20; i++, usleep(1000))
        serve(backup);
    if (backup->s.state == BB_STATE_JUDGING)
        bb_supervisor_event(&backup->s, BB_EVENT_TIMER);
    return capture_end(captured);
}

static struct bb_star_msg await_message(struct bb_star_link *link)
{
    struct bb_star_msg msg = {0};

    for (int i = 0; i < 3000 && bb_star_receive(link, &msg) == 0; i++)
        usleep(1000);
    return msg;
}

/* The connection to the server is closed, or a member reports to the backup server, because the server does not
 * answer. The backup server then prints the line and ends the job. */
static void backup_server_takes_over(void **state)
{
    static const char *const expected[] = {"busbar: rank 0 (a) is lost; last seen: start\n",
                                           "busbar: timeout in a step after 20 s: rank 0 (a) did not arrive, last "
                                           "seen: start, does not answer; rank 1 (b) did not arrive, last seen: "
                                           "start; 1 of 3 ranks wait for a step\n"};
    const struct bb_siphash_key token = {{3, 4}};

    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        struct bb_star_msg hung = bb_star_msg(BB_STAR_FAIL, 2, BB_ETIMEOUT), end;
        struct bb_star_link link;
        struct capture captured;
        struct host backup;
        int ends[2];

        start_host(&backup, 1, 1, &token);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        backup.s.star.links[0].fd = ends[0];
        assert_int_equal(join(&backup, &backup.at, 2, &link), 1);
        hung.cause = BB_CAUSE_HANG;
        hung.seen = (struct bb_seen){.step = 1, .text = "a step", .wait = "a step"};
        if (silent) {
            deliver(&backup, &link, hung);
            hung.kind = BB_STAR_STATE; /* answers ASK */
            hung.code = 0;             /* not suspended */
            deliver(&backup, &link, hung);
        } else {
            close(ends[1]);
        }
        assert_string_equal(verdict_of(&backup, &captured), expected[silent]);
        do
            end = await_message(&link);
        while (end.kind == BB_STAR_STATE || end.kind == BB_STAR_ASK);
        assert_int_equal(end.kind, BB_STAR_END);
        assert_int_equal(end.code, BB_ETIMEOUT);
        if (silent)
            close(ends[1]);
        bb_star_close(&link);
        bb_peers_release(&backup.s);
    }
}

/* The backup server of three nodes prints the line if the server's node is lost, but not if the third node is lost too: then
 * the backup server's own network has failed, and the server prints the line. */
static void backup_server_without_network_prints_nothing(void **state)
{
    const struct bb_siphash_key token = {{3, 4}};

    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        struct bb_star_link link;
        struct capture captured;
        struct host backup;
        int ends[2];

        start_host(&backup, 1, 3, &token);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        backup.s.star.links[0].fd = ends[0];
        assert_int_equal(join(&backup, &backup.at, 2, &link), 1);
        close(ends[1]);
        if (cut)
            bb_star_close(&link);
        assert_string_equal(verdict_of(&backup, &captured),
                            cut ? "" : "busbar: rank 0 (a) is lost; last seen: start\n");
        assert_int_equal(backup.s.code, BB_ETIMEOUT);
        bb_star_close(&link);
        bb_peers_release(&backup.s);
    }
}

/* The backup server outlives the first node; on a single node it is the supervisor after that of rank 0. */
static void chooses_the_backup_server(void **state)
{
    static const struct {
        int size, first, node_of[8], backup;
    } rows[] = {{1, 1, {0}, -1},
                {2, 1, {0, 0}, 1},
                {8, 1, {0}, 1},
                {8, 4, {0}, 4},
                {8, 8, {0}, -1},
                {3, 1, {0, 1, 2}, 1},
                {6, 1, {0, 0, 0, 1, 1, 1}, 3},
                {8, 2, {0, 0, 0, 0, 1, 1, 2, 2}, 4},
                {4, 1, {0, 1, 0, 1}, 1}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_int_equal(bb_star_backup(rows[i].size, rows[i].node_of, rows[i].first), rows[i].backup);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tries_all_addresses),
        cmocka_unit_test(gives_up_on_addresses_that_do_not_reply),
        cmocka_unit_test(listens_only_on_advertised_addresses),
        cmocka_unit_test(each_address_accepts_connections),
        cmocka_unit_test(prefers_interfaces_like_nccl_socket_ifname),
        cmocka_unit_test(rejects_invalid_first_messages),
        cmocka_unit_test(rejects_unauthenticated_clients),
        cmocka_unit_test(connects_despite_many_silent_clients),
        cmocka_unit_test(reconnects_after_the_server_closed_the_connection),
        cmocka_unit_test(rejects_modified_and_repeated_messages),
        cmocka_unit_test(a_supervisor_reports_only_its_own_ranks),
        cmocka_unit_test(errors_of_stopped_ranks_are_ignored),
        cmocka_unit_test(a_closed_connection_is_a_lost_rank),
        cmocka_unit_test(backup_server_takes_over),
        cmocka_unit_test(backup_server_without_network_prints_nothing),
        cmocka_unit_test(chooses_the_backup_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
