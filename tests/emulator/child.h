/*
 * child.h - runs a test scenario in a child process, with fresh emulated GPUs, its own environment, and clocks at 0.
 */
#ifndef EMU_TEST_CHILD_H
#define EMU_TEST_CHILD_H

#include <stdio.h>

/* Inside a scenario: print the failed condition and fail the scenario. */
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

enum { CHILD_HUNG = 1000, CHILD_SIGNAL = 2000 }; /* killed after 20 s; ended by signal n: CHILD_SIGNAL + n */

struct child {
    int status;      /* exit status of the child, or a value above; a scenario's return value is its exit status */
    char err[16384]; /* the child's stderr, cut to this size */
};

/*
 * child_run - run a scenario in a child process.
 *   settings  ["NAME=value"..., NULL] added to the environment; may be NULL; EMU_CLUSTER defaults to the test profile
 */
void child_run(struct child *child, int (*scenario)(void), const char *const *settings);

/* Like child_run for a scenario that must return 0; otherwise prints its stderr and fails the cmocka test. */
void child_pass(int (*scenario)(void), const char *const *settings);

#endif
