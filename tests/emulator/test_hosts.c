/* test_hosts.c - reports of hosts.c about waits: with MPI, the host is away during the wait, and back afterwards. */
#include "fake_mpi.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* Same names as in the emulated runtime, which hosts.c looks up. */
void emu_host_away(void);
void emu_host_back(void);
void emu_host_pauses(void);
void emu_host_polls(void);

void emu_host_away(void)
{
    strcat(fake_mpi_log, "away ");
}

void emu_host_back(void)
{
    strcat(fake_mpi_log, "back ");
}

void emu_host_pauses(void)
{
    strcat(fake_mpi_log, "pauses ");
}

void emu_host_polls(void)
{
    strcat(fake_mpi_log, "polls ");
}

#define EXPECT_LOG(text)                                                                                               \
    do {                                                                                                               \
        assert_string_equal(fake_mpi_log, text);                                                                       \
        fake_mpi_log[0] = '\0';                                                                                        \
    } while (0)

/* Each argument is a distinct power of two, so the log shows that all are passed on. */
static void blocking_call_reports_away(void **state)
{
    const long one = 1, two = 2, eight = 8;

    (void)state;
    assert_int_equal(MPI_Barrier(1), 7);
    EXPECT_LOG("away barrier 1 back ");
    assert_int_equal(MPI_Wait(&one, &two), 7);
    EXPECT_LOG("away wait 3 back ");
    assert_int_equal(MPI_Waitall(4, &one, &two), 7);
    EXPECT_LOG("away waitall 7 back ");
    assert_int_equal(MPI_Bcast(&one, 2, 4, 8, 16), 7);
    EXPECT_LOG("away bcast 31 back ");
    assert_int_equal(MPI_Allreduce(&one, &two, 4, 8, 16, 32), 7);
    EXPECT_LOG("away allreduce 63 back ");
    assert_int_equal(MPI_Allgather(&one, 2, 4, &eight, 16, 32, 64), 7);
    EXPECT_LOG("away allgather 127 back ");
}

static void mpi_test_reports_polls_until_done(void **state)
{
    const long open = 4, done = 1, status = 2;
    int flag;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(MPI_Test(&open, &flag, &status), 0);
    EXPECT_LOG("test 6 polls test 6 polls test 6 polls ");
    assert_int_equal(MPI_Test(&done, &flag, &status), 0);
    EXPECT_LOG("test 3 back ");
}

static void pauses_are_reported(void **state)
{
    (void)state;
    assert_int_equal(sched_yield(), 0);
    EXPECT_LOG("pauses ");
    assert_int_equal(nanosleep(&(struct timespec){.tv_nsec = 1}, NULL), 0);
    EXPECT_LOG("pauses ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocking_call_reports_away),
                                       cmocka_unit_test(mpi_test_reports_polls_until_done),
                                       cmocka_unit_test(pauses_are_reported)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
