/*
 * child.h - runs a test scenario in a child process. Each scenario has its own emulated GPUs and environment, and its
 * clocks start at 0.
 */
#ifndef EMU_TEST_CHILD_H
#define EMU_TEST_CHILD_H

#include <stdio.h>

/* For use inside a scenario: if the condition is false, print it and fail the scenario. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)
#define EXPECT_RC(call, expected)                                                                                      \
    do {                                                                                                               \
        int rc_ = (int)(call);                                                                                         \
        if (rc_ != (int)(expected)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s returned %d, not %s\n", __FILE__, __LINE__, #call, rc_, #expected);             \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)
#define OK(call) EXPECT_RC(call, 0)

enum {
    CHILD_HUNG = 1000,
    CHILD_SIGNAL = 2000
}; /* CHILD_HUNG: the child was killed after 20 s; CHILD_SIGNAL + n:
                                                    signal n ended the child */

struct child {
    int status;      /* exit status of the child (the return value of the scenario), CHILD_HUNG or CHILD_SIGNAL + n */
    char err[16384]; /* stderr of the child, truncated to this size */
};

/*
 * child_run - run a scenario in a child process.
 *   settings  ["NAME=value"..., NULL] variables added to the environment; may be NULL. Without EMU_CLUSTER the test
 *             profile is used.
 */
void child_run(struct child *child, int (*scenario)(void), const char *const *settings);

/* Runs a scenario in a child process. If the scenario does not return 0, prints its stderr and fails the cmocka
 * test. */
void child_pass(int (*scenario)(void), const char *const *settings);

#endif
