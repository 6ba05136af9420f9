/*
 * child.h - a test scenario in a process of its own, so that it starts with fresh emulated GPUs, an environment of its
 * choice, and clocks at 0.
 */
#ifndef EMU_TEST_CHILD_H
#define EMU_TEST_CHILD_H

#include <stdio.h>

/* In a scenario: says what failed and fails it. */
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
    int status;      /* exit status of the process, or the above; a scenario's return value is its exit status */
    char err[16384]; /* what it wrote to stderr                                                                */
};

/* Runs scenario with the settings ("NAME=value", NULL-terminated, may be NULL) added to the environment; EMU_CLUSTER is
 * the test profile unless the settings say otherwise. */
void child_run(struct child *child, int (*scenario)(void), const char *const *settings);

/* The same for a scenario that must pass: prints its stderr and fails the cmocka test when it does not. */
void child_pass(int (*scenario)(void), const char *const *settings);

#endif
