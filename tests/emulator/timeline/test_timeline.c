/*
 * test_timeline.c - one timeline of several processes, against figures by hand: here one process plays its hosts. Links
 * and NICs carry 10 GB/s, so 1000 bytes take 100 ns; hosts 0 and 1 have a NIC between them, each has its own links.
 */
#include "timeline/timeline.h"

#include "proxies/machine/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HOSTS = 3 };

static const struct bb_cluster machine = {.intra = {.gbps = 10}, .memory_gbps = 100, .sm_count = 10};

struct job {
    struct emu_timeline *t;
    int host[HOSTS], lane[HOSTS];
    uint64_t turn;
};

static bool is_over(const struct emu_meeting *meeting)
{
    (void)meeting;
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
            parts.place[part] = part == EMU_NIC_OUT || part == EMU_NIC_IN ? i / 2 : -1;
        }
        job.host[i] = emu_timeline_add_host(job.t, (int)getpid());
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

/* Over the NIC, so many ns alone, from issue_ns on. */
static int send(struct job *job, int who, double issue_ns, double ns, const struct emu_meeting *meeting, uint64_t turn)
{
    struct emu_effort effort = {.sms = 1, .transfer_ns = ns, .meeting = meeting};
    int step;

    effort.bytes[EMU_NIC_OUT] = ns * 10;
    emu_timeline_lock(job->t);
    emu_timeline_run_host(job->t, job->host[who], issue_ns);
    step = emu_timeline_add(job->t, job->lane[who], issue_ns, &effort, turn, true);
    emu_timeline_unlock(job->t);
    return step;
}

/* It issues nothing more. */
static void leave(struct job *job, int who)
{
    emu_timeline_lock(job->t);
    emu_timeline_lose_host(job->t, job->host[who]);
    emu_timeline_unlock(job->t);
}

/* What an operation lost, -1: nobody knows yet. */
static int64_t lost_ns(struct job *job, int step, int64_t *end_ns)
{
    int64_t extra_ns = -1;

    emu_timeline_lock(job->t);
    if (!emu_timeline_take(job->t, step, &extra_ns, end_ns))
        extra_ns = -1;
    emu_timeline_unlock(job->t);
    return extra_ns;
}

/* 0 to 100 alone, then half of the NIC each: the first has 100 left at 100, ends at 300; the other, with 200 of 300
 * left then, at 500. */
static void flows_begin_and_end_at_different_moments(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int first = send(job, 0, 0, 200, NULL, 0), second = send(job, 1, 100, 300, NULL, 0),
              elsewhere = send(job, 2, 0, 200, NULL, 0);

    leave(job, 0);
    leave(job, 2);
    assert_int_equal(lost_ns(job, first, &end_ns), -1); /* the second host could still issue something */
    leave(job, 1);
    assert_int_equal(lost_ns(job, first, &end_ns), 100);
    assert_int_equal(lost_ns(job, second, &end_ns), 100);
    assert_int_equal(lost_ns(job, elsewhere, &end_ns), 0); /* another NIC */
}

/* A host that runs holds up what is after its clock, no more. */
static void nothing_passes_a_host_that_runs(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL, 0), late = send(job, 1, 250, 100, NULL, 0);

    leave(job, 0);
    leave(job, 2);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, late, &end_ns), -1);
    leave(job, 1);
    assert_int_equal(lost_ns(job, late, &end_ns), 0);
}

/* Members come at 0 and 400; all that the NIC has from then on is theirs, but for what another one sends. */
static void members_meet(void **state)
{
    struct job *job = *state;
    uint64_t turn = 0;
    const struct emu_meeting meeting = {.comm = 7, .members = 2, .turn = &turn, .is_over = is_over};
    const int one = send(job, 0, 0, 200, &meeting, 0), other = send(job, 2, 400, 200, &meeting, 0),
              beside = send(job, 1, 400, 100, NULL, 0);
    int64_t ends[2], end_ns;

    for (int i = 0; i < HOSTS; i++)
        leave(job, i);
    assert_int_equal(lost_ns(job, beside, &end_ns), 100); /* half of the NIC until 600 */
    assert_true(lost_ns(job, one, &ends[0]) > 0 && lost_ns(job, other, &ends[1]) >= 0);
    assert_int_equal(ends[0], 700); /* 100 of its 200 by 600 */
    assert_int_equal(ends[1], 700);
}

static int post(struct job *job, int who, int rank, const struct emu_message *message, double issue_ns, double ns)
{
    static uint64_t turn;
    const struct emu_meeting meeting = {
        .comm = 9, .rank = rank, .members = 2, .turn = &turn, .messages = message, .n_messages = 1, .is_over = is_over};

    return send(job, who, issue_ns, ns, &meeting, 0);
}

/* From when both have come, as long as the slower side takes, and the latency. */
static void messages_meet(void **state)
{
    struct job *job = *state;
    const struct emu_message out = {.peer = 1, .sends = true, .latency_ns = 50}, in = {.peer = 0, .latency_ns = 50};
    const int sender = post(job, 0, 0, &out, 0, 200), receiver = post(job, 2, 1, &in, 300, 200),
              beside = send(job, 1, 300, 200, NULL, 0);
    int64_t ends[2], end_ns;

    for (int i = 0; i < HOSTS; i++)
        leave(job, i);
    assert_int_equal(lost_ns(job, beside, &end_ns), 200);
    assert_true(lost_ns(job, sender, &ends[0]) >= 0 && lost_ns(job, receiver, &ends[1]) >= 0);
    assert_int_equal(ends[0], 300 + 400 + 50);
    assert_int_equal(ends[1], 300 + 400 + 50);
}

/* What a process that is gone moved takes nothing any more. It goes when time has come to 100. */
static void the_dead_hold_nothing(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL, 0), clock = send(job, 2, 0, 100, NULL, 0);

    send(job, 1, 0, 1000, NULL, 0);
    leave(job, 0);
    leave(job, 1);
    emu_timeline_lock(job->t);
    emu_timeline_wait_lane(job->t, job->host[2], 0, 0);
    emu_timeline_unlock(job->t);
    assert_int_equal(lost_ns(job, clock, &end_ns), 0);
    emu_timeline_lock(job->t);
    emu_timeline_remove_host(job->t, job->host[1]);
    emu_timeline_unlock(job->t);
    leave(job, 2);
    assert_int_equal(lost_ns(job, one, &end_ns), 50);
}

/* A host that waits goes on when it may, and then holds up the others again. */
static void who_waits_goes_on(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL, 0), other = send(job, 2, 0, 300, NULL, 0);

    leave(job, 1);
    for (int i = 0; i < HOSTS; i += 2) {
        emu_timeline_lock(job->t);
        emu_timeline_wait_lane(job->t, job->host[i], 0, 0);
        emu_timeline_unlock(job->t);
    }
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
    assert_int_equal(lost_ns(job, other, &end_ns), -1);
    leave(job, 0);
    assert_int_equal(lost_ns(job, other, &end_ns), 0);
}

/* All wait for each other by other means: they go on where they were. */
static void hosts_meet(void **state)
{
    struct job *job = *state;
    int64_t end_ns;
    const int one = send(job, 0, 0, 200, NULL, 0);

    for (int i = 0; i < HOSTS; i++) {
        assert_int_equal(lost_ns(job, one, &end_ns), -1);
        emu_timeline_lock(job->t);
        emu_timeline_meet_hosts(job->t, job->host[i]);
        emu_timeline_unlock(job->t);
    }
    assert_int_equal(lost_ns(job, one, &end_ns), -1); /* all run again, at 0 */
    for (int i = 0; i < HOSTS; i++)
        leave(job, i);
    assert_int_equal(lost_ns(job, one, &end_ns), 0);
}

#define TEST(what) cmocka_unit_test_setup_teardown(what, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(flows_begin_and_end_at_different_moments),
                                       TEST(nothing_passes_a_host_that_runs),
                                       TEST(members_meet),
                                       TEST(messages_meet),
                                       TEST(the_dead_hold_nothing),
                                       TEST(who_waits_goes_on),
                                       TEST(hosts_meet)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
