/* probe_main.h - main() of a program that is both supervisor and rank: the supervisor executes the program again. */
#ifndef BB_TESTS_BOOTSTRAP_PROBE_MAIN_H
#define BB_TESTS_BOOTSTRAP_PROBE_MAIN_H

#include "bootstrap/rank/rank.h"
#include "bootstrap/supervise/supervise.h"

#include <stdlib.h>
#include <unistd.h>

/* Supervises `ranks` ranks of this program with the arguments argv[1], ... Returns the exit code of the job. */
static inline int supervise_self(int argc, char **argv, double timeout_s, int ranks)
{
    struct bb_rank_program program = {.command = "probe", .entry = "probe", .argc = argc - 1, .argv = argv + 1};

    if (readlink("/proc/self/exe", program.path, sizeof(program.path) - 1) < 0)
        return BB_EFAIL;
    return bb_exit_code(bb_supervise_program(&program, timeout_s, ranks));
}

/* In the supervisor: starts the ranks. In a rank: calls run_rank with the arguments of the program; argv[0] is the name
 * of the entry point. Returns the exit code of the process. */
static inline int probe_main(int argc, char **argv, int ranks, int (*run_rank)(int argc, char **argv))
{
    int code;

    if (!getenv("BUSBAR_RANK"))
        return supervise_self(argc, argv, 60, ranks);
    bb_supervised_begin();
    code = run_rank(argc - 1, argv + 1);
    bb_supervised_end(code);
    return code;
}

#endif
