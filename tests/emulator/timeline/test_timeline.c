/*
 * test_timeline.c - a timeline with several hosts, all played by one process, against results computed by hand. Links
 * and NICs carry 10 GB/s, so 1000 bytes take 100 ns. Hosts 0 and 1 share a NIC; each host has its own links.
 */
#include "timeline/state.h"

#include "bootstrap/base/clock.h"
#include "proxies/simulation/machine/cluster.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3 };

static const struct bb_cluster machine = {
    .intra = {.gbps = 10}, .memory_gbps = 100, .sm_count = 10, .tflops_float32 = 0.001};

struct job {
    struct emu_timeline *t;
    int host[HOSTS], lane[HOSTS];
    uint64_t turn; /* of the next operation without peers */
};

static bool is_over(const struct emu_peers *peers)
{
    (void)peers;
    return false;
}

static int set_up(void **state)
{
    static struct job job;

    job = (struct job){.t = emu_timeline_open(&machine, -1)};
    if (job.t == NULL)
        return 1;
    emu_timeline_lock(job.t);
    for (int i = 0; i < HOSTS; i++) {
        struct emu_gpu_parts parts;

        for (int part = 0; part < EMU_PARTS; part++) {
            parts.gbps[part] = 10;
            parts.shared[part] = part == EMU_NIC_OUT || part == EMU_NIC_IN ? i / 2 : -1;
        }
        emu_timeline_add_host(job.t, (int)getpid(), i, &job.host[i]);
        job.lane[i] = emu_timeline_add_lane(job.t, job.host[i], 0, &parts);
    }
    emu_timeline_unlock(job.t);
    *state = &job;
    return 0;
}

static int tear_down(void **state)
{
    struct job *job = *state;

    emu_timeline_close(job->t);
    return 0;
}

static int put(struct job *job, int who, double issue_ns, const struct emu_demand *demand, uint64_t turn)
{
    int step;

    emu_timeline_lock(job->t);
    emu_timeline_run_host(job->t, job->host[who], issue_ns);
    step = emu_timeline_add(job->t, job->lane[who], issue_ns, demand, turn, true);
    emu_timeline_unlock(job->t);
    return step;
}

/* A transfer over the NIC that takes ns alone. */
static struct emu_demand over_the_nic(double ns)
{
    struct emu_demand demand = {.sms = 1, .transfer_ns = ns};

    demand.bytes[EMU_NIC_OUT] = ns * 10;
    return demand;
}

/* An operation with the given peers; peers NULL: of a communicator with one member. */
static int send(struct job *job, int who, double issue_ns, double ns, const struct emu_peers *peers)
{
    const struct emu_peers alone = {.comm = 100, .members = 1, .is_over = is_over};
    struct emu_demand demand = over_the_nic(ns);

    demand.peers = peers ? peers : &alone;
    return put(job, who, issue_ns, &demand, peers ? 0 : job->turn++);
}

/* The host issues nothing more. */
static void lose_host(struct job *job, int who)
{
    emu_timeline_lock(job->t);
    emu_timeline_lose_host(job->t, job->host[who]);
    emu_timeline_unlock(job->t);
}

/* Loss of an operation in ns; -1: not known yet. */
static int64_t lost_ns(struct job *job, int step, int64_t *end_ns)
{
    int64_t extra_ns = -1;

    emu_timeline_lock(job->t);
    if (!emu_timeline_collect(job->t, step, &extra_ns, end_ns))
        extra_ns = -1;
    emu_timeline_unlock(job->t);
    return extra_ns;
}

/* The first flow runs alone from 0 to 100, then both have half of the NIC: the first has 100 left and ends at 300;
 * the second has 200 of 300 left then and ends at 500. */
static void overlapping_flows_share_the_nic(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int first = send(job, 0, 0, 200, NULL), second = send(job, 1, 100, 300, NULL),
              elsewhere = send(job, 2, 0, 200, NULL);

    lose_host(job, 0);
    lose_host(job, 2);
    assert_int_equal(lost_ns(job, first, &end_ns), -1); /* host 1 could still issue something */
    lose_host(job, 1);
    assert_int_equal(lost_ns(job, first, &end_ns), 100);
    assert_int_equal(lost_ns(job, second, &end_ns), 100);
    assert_int_equal(lost_ns(job, elsewhere, &end_ns), 0); /* another NIC */
}

/* The update counter of the flows wraps around while the first flow runs. */
static void update_counter_wraps_around(void **state)
{
    struct job *job = *state;

    job->t->b->update = INT_MAX - 3;
    overlapping_flows_share_the_nic(state);
    assert_int_equal(job->t->b->update, 1);
}

/* A running host delays only what is after its clock. */
static void running_host_bounds_time(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL), late = send(job, 1, 250, 100, NULL);

    lose_host(job, 0);
    lose_host(job, 2);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, late, &end_ns), -1);
    lose_host(job, 1);
    assert_int_equal(lost_ns(job, late, &end_ns), 0);
}

/* Members arrive at 0 and 400. From then on they use the whole NIC, except for another operation's share. */
static void collective_waits_for_members(void **state)
{
    struct job *job = *state;
    const struct emu_peers peers = {.comm = 7, .members = 2, .is_over = is_over};
    const int one = send(job, 0, 0, 200, &peers), other = send(job, 2, 400, 200, &peers),
              concurrent = send(job, 1, 400, 100, NULL);
    int64_t ends[2], end_ns;

    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, concurrent, &end_ns), 100); /* half of the NIC until 600 */
    assert_true(lost_ns(job, one, &ends[0]) > 0 && lost_ns(job, other, &ends[1]) >= 0);
    assert_int_equal(ends[0], 700); /* 100 of its 200 by 600 */
    assert_int_equal(ends[1], 700);
}

/* NCCL's kernel holds half of the SMs from its launch on, also while it waits for a member that arrives at 400, and
 * moves its bytes until 600. A GEMM of 1000 ns has done 300 by then, and has all SMs afterwards. */
static void waiting_collective_holds_sms(void **state)
{
    struct job *job = *state;
    const struct bb_kernel_list_item gemm = {.gemm = {.m = 10, .n = 10, .k = 5, .batch = 1, .dtype = BB_FLOAT}};
    const struct emu_peers peers = {.comm = 7, .members = 2, .is_over = is_over};
    struct emu_demand nccl = over_the_nic(200);
    struct emu_gpu_parts parts = {{0}, {0}};
    int64_t ends[3];
    int lane, one, late, concurrent;

    nccl.sms = 5;
    nccl.peers = &peers;
    emu_timeline_lock(job->t);
    lane = emu_timeline_add_lane(job->t, job->host[0], 0, &parts); /* a second stream on the same GPU */
    concurrent = emu_timeline_add(job->t, lane, 0, &(struct emu_demand){.alone_ns = 1000, .gemm = &gemm}, 0, true);
    emu_timeline_unlock(job->t);
    one = put(job, 0, 0, &nccl, 0);
    late = put(job, 2, 400, &nccl, 0);
    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_true(lost_ns(job, one, &ends[0]) >= 0 && lost_ns(job, late, &ends[1]) >= 0);
    assert_int_equal(ends[0], 600);
    assert_int_equal(ends[1], 600);
    assert_int_equal(lost_ns(job, concurrent, &ends[2]), 300);
}

static int post(struct job *job, int who, int rank, const struct emu_message *message, double issue_ns, double ns)
{
    const struct emu_peers peers = {
        .comm = 9, .rank = rank, .members = 2, .messages = message, .n_messages = 1, .is_over = is_over};

    return send(job, who, issue_ns, ns, &peers);
}

/* A message lasts from the arrival of both ends for as long as the slower end takes, plus the longer latency. */
static void message_waits_for_both_ends(void **state)
{
    struct job *job = *state;
    const struct emu_message out = {.peer = 1, .sends = true, .latency_ns = 50}, in = {.peer = 0, .latency_ns = 20};
    const int sender = post(job, 0, 0, &out, 0, 200), receiver = post(job, 2, 1, &in, 300, 200),
              concurrent = send(job, 1, 300, 200, NULL);
    int64_t ends[2], end_ns;

    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, concurrent, &end_ns), 200);
    assert_true(lost_ns(job, sender, &ends[0]) >= 0 && lost_ns(job, receiver, &ends[1]) >= 0);
    assert_int_equal(ends[0], 300 + 400 + 50);
    assert_int_equal(ends[1], 300 + 400 + 50);
}

/* A removed host's transfer no longer uses the NIC. It is removed at time 100. */
static void removed_host_releases_flows(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL), clock = send(job, 2, 0, 100, NULL);

    send(job, 1, 0, 1000, NULL);
    lose_host(job, 0);
    lose_host(job, 1);
    emu_timeline_lock(job->t);
    emu_timeline_wait_lane(job->t, job->host[2], 0, 0);
    emu_timeline_unlock(job->t);
    assert_int_equal(lost_ns(job, clock, &end_ns), 0);
    emu_timeline_lock(job->t);
    emu_timeline_remove_host(job->t, job->host[1]);
    emu_timeline_unlock(job->t);
    lose_host(job, 2);
    assert_int_equal(lost_ns(job, one, &end_ns), 50);
}

/* A waiting host runs again when its wait ends, and then bounds the time again. */
static void waiting_host_resumes(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL), other = send(job, 2, 0, 300, NULL);

    lose_host(job, 1);
    for (int i = 0; i < HOSTS; i += 2) {
        emu_timeline_lock(job->t);
        emu_timeline_wait_lane(job->t, job->host[i], 0, 0);
        emu_timeline_unlock(job->t);
    }
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, other, &end_ns), -1);
    lose_host(job, 0);
    assert_int_equal(lost_ns(job, other, &end_ns), 0);
}

/* When all hosts wait for each other outside the timeline, all continue at their clocks. */
static void hosts_await_each_other(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL);

    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(lost_ns(job, one, &end_ns), -1);
        emu_timeline_lock(job->t);
        emu_timeline_await_hosts(job->t, job->host[i], false);
        emu_timeline_unlock(job->t);
    }
    assert_int_equal(lost_ns(job, one, &end_ns), -1); /* all run again, at 0 */
    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
}

static void await_hosts(struct job *job, int who)
{
    emu_timeline_lock(job->t);
    emu_timeline_await_hosts(job->t, job->host[who], true);
    emu_timeline_unlock(job->t);
}

/* When the wait of one host ends, those of the others may have ended, too: they hold up the time until they report
 * again that they wait. */
static void end_of_a_wait_resumes_polling_hosts(void **state)
{
    struct job *job = *state;
    const uint32_t before = emu_timeline_returns(job->t);
    int64_t end_ns;
    int one;

    for (int i = 1; i < HOSTS; i++)
        await_hosts(job, i);
    emu_timeline_lock(job->t);
    emu_timeline_end_wait(job->t, job->host[0], 0);
    emu_timeline_unlock(job->t);
    assert_int_equal(emu_timeline_returns(job->t), before + 1);
    one = send(job, 0, 0, 200, NULL);
    lose_host(job, 0);
    for (int i = 1; i < HOSTS; i++) {
        assert_int_equal(lost_ns(job, one, &end_ns), -1);
        await_hosts(job, i);
    }
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
}

/* The demand of an operation without peers includes the assumed load of others on the NIC: it does not contend with
 * operations here a second time. */
static void step_without_peers_uses_private_resources(void **state)
{
    struct job *job = *state;
    const struct emu_demand demand = over_the_nic(200);
    const int one = put(job, 0, 0, &demand, 0), other = put(job, 1, 0, &demand, 0);
    int64_t end_ns;

    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, other, &end_ns), 0);
}

/* A lane waits for the end of a step of another lane: 200 ns, then 100. */
static void lane_waits_for_other_lane(void **state)
{
    struct job *job = *state;
    const struct emu_peers alone = {.comm = 100, .members = 1, .is_over = is_over};
    struct emu_demand demand = over_the_nic(100);
    const int one = send(job, 0, 0, 200, NULL);
    int64_t end_ns;
    int moment, other;

    demand.peers = &alone;
    emu_timeline_lock(job->t);
    moment = emu_timeline_end_of(job->t, one);
    emu_timeline_wait(job->t, job->lane[2], 0, moment);
    emu_timeline_drop_moment(job->t, moment);
    emu_timeline_unlock(job->t);
    other = put(job, 2, 0, &demand, job->turn++);
    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(end_ns, 200);
    assert_int_equal(lost_ns(job, other, &end_ns), 0);
    assert_int_equal(end_ns, 300);
}

/* The position of a GPU may become known late: host 2's GPU turns out to share the NIC of the other two. */
static void gpu_parts_known_late(void **state)
{
    struct job *job = *state;
    struct emu_gpu_parts parts;
    int64_t end_ns;

    for (int part = 0; part < EMU_PARTS; part++) {
        parts.gbps[part] = 10;
        parts.shared[part] = part == EMU_NIC_OUT || part == EMU_NIC_IN ? 0 : -1;
    }
    emu_timeline_lock(job->t);
    emu_timeline_set_gpu_parts(job->t, job->host[2], 0, &parts);
    emu_timeline_unlock(job->t);
    const int one = send(job, 0, 0, 200, NULL), other = send(job, 2, 0, 200, NULL);

    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, one, &end_ns), 200);
    assert_int_equal(lost_ns(job, other, &end_ns), 200);
}

/* The host waits until one of two steps ends, at 100. The second end, at 200, is not passed. */
static void wait_for_any_step(void **state)
{
    struct job *job = *state;
    const int one = send(job, 0, 0, 100, NULL), two = send(job, 0, 0, 100, NULL);
    int64_t end_ns;

    lose_host(job, 1);
    lose_host(job, 2);
    emu_timeline_lock(job->t);
    emu_timeline_wait_step(job->t, job->host[0], job->lane[0], 0);
    emu_timeline_unlock(job->t);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, two, &end_ns), -1);
    lose_host(job, 0);
    assert_int_equal(lost_ns(job, two, &end_ns), 0);
}

/* ---- hosts that do not report their waits ---- */

static void sleep_for_ever(int cpu)
{
    (void)cpu;
    pause();
}

static void poll_for_ever(int cpu)
{
    (void)cpu;
    for (;;)
        (void)getppid();
}

/* On the processor of the test, with a priority at which the kernel lets it run only when the test does not. */
static void starve(int cpu)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET((size_t)cpu, &cpus);
    sched_setaffinity(0, sizeof(cpus), &cpus);
    sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    poll_for_ever(cpu);
}

/* Whether a host whose process calls nothing is lost, with a patience of 50 ms, within at most this time, in which the
 * test keeps its processor busy. */
static bool is_lost_within(struct job *job, void (*behave)(int cpu), double limit_s)
{
    const double start_s = bb_now_s();
    const int cpu = sched_getcpu();
    cpu_set_t all, one;
    bool lost = false;
    int host;

    sched_getaffinity(0, sizeof(all), &all);
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    const pid_t child = fork();

    if (child == 0) {
        behave(cpu);
        _exit(1);
    }
    if (behave == starve)
        sched_setaffinity(0, sizeof(one), &one);
    emu_timeline_lock(job->t);
    emu_timeline_add_host(job->t, child, HOSTS, &host);
    emu_timeline_unlock(job->t);
    while (!lost && bb_now_s() < start_s + limit_s) {
        emu_timeline_lock(job->t);
        emu_timeline_check_hosts(job->t, 0.05);
        lost = emu_timeline_has_lost(job->t, host);
        emu_timeline_unlock(job->t);
    }
    sched_setaffinity(0, sizeof(all), &all);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return lost;
}

static void silent_host_is_lost_unless_starved(void **state)
{
    assert_true(is_lost_within(*state, sleep_for_ever, 30));
    tear_down(state);
    set_up(state);
    assert_true(is_lost_within(*state, poll_for_ever, 30));
    tear_down(state);
    set_up(state);
    assert_false(is_lost_within(*state, starve, 0.3));
}

/* A second process of a rank belongs to another job, or is a duplicate of that rank. */
static void rank_is_claimed_once(void **state)
{
    struct job *job = *state;
    int host = 0;

    emu_timeline_lock(job->t);
    assert_int_equal(emu_timeline_add_host(job->t, (int)getpid(), 1, &host), EMU_RANK_TAKEN);
    emu_timeline_remove_host(job->t, job->host[1]);
    assert_int_equal(emu_timeline_add_host(job->t, (int)getpid(), 1, &host), EMU_RANK_LEFT);
    assert_int_equal(host, 0);
    emu_timeline_unlock(job->t);
}

/* ---- failures ---- */

static void process_dies_with_lock(void **state)
{
    struct job *job = *state;
    bool owner_died = false;
    int status;
    const pid_t child = fork();

    if (child == 0) {
        (void)!emu_timeline_lock(job->t);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(emu_timeline_lock(job->t));
    assert_string_equal(emu_timeline_failure(job->t, &owner_died), "a process died while it held the lock");
    assert_true(owner_died);
    assert_false(emu_timeline_lock(job->t)); /* the failure is permanent */
}

static void capacity_error_names_resource(void **state)
{
    struct job *job = *state;
    bool owner_died = true;

    assert_true(emu_timeline_lock(job->t));
    for (int i = 0; i < TL_MOMENTS; i++)
        (void)emu_timeline_add_moment(job->t);
    emu_timeline_unlock(job->t);
    assert_false(emu_timeline_lock(job->t));
    assert_string_equal(emu_timeline_failure(job->t, &owner_died), "too many moments, at most 1048575");
    assert_false(owner_died);
}

/* Many short operations change the end of a long one, which makes more events than the queue holds; stale events are
 * dropped. */
static void stale_events_are_dropped(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int step = send(job, 0, 0, 200, NULL);

    assert_true(emu_timeline_lock(job->t));
    for (int i = 0; i <= TL_EVENTS; i++)
        tl_add_event(job->t, 1e9, TL_OF_LANE, job->lane[0], 1u << 20);
    emu_timeline_unlock(job->t);
    for (int i = 0; i < HOSTS; i++)
        lose_host(job, i);
    assert_int_equal(lost_ns(job, step, &end_ns), 0);
    assert_int_equal(end_ns, 200);
}

#define TEST(what) cmocka_unit_test_setup_teardown(what, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(overlapping_flows_share_the_nic),
                                       TEST(update_counter_wraps_around),
                                       TEST(running_host_bounds_time),
                                       TEST(collective_waits_for_members),
                                       TEST(waiting_collective_holds_sms),
                                       TEST(message_waits_for_both_ends),
                                       TEST(removed_host_releases_flows),
                                       TEST(waiting_host_resumes),
                                       TEST(hosts_await_each_other),
                                       TEST(end_of_a_wait_resumes_polling_hosts),
                                       TEST(step_without_peers_uses_private_resources),
                                       TEST(lane_waits_for_other_lane),
                                       TEST(gpu_parts_known_late),
                                       TEST(wait_for_any_step),
                                       TEST(silent_host_is_lost_unless_starved),
                                       TEST(rank_is_claimed_once),
                                       TEST(process_dies_with_lock),
                                       TEST(capacity_error_names_resource),
                                       TEST(stale_events_are_dropped)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
