/*
 * busbar_rank.c - main() of busbar-rank, the program of one rank: the part of `bench` and `proxy` that uses MPI, NCCL
 * and CUDA. The supervisor (bootstrap/supervise) starts it with the name of an entry point and the arguments of the
 * command.
 */
#include "bootstrap/base/alloc.h"
#include "bootstrap/base/environment.h"
#include "bootstrap/base/err.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/rank/rank.h"
#include "bootstrap/start/launcher.h"
#include "collectives/comm/comm_options.h"
#include "collectives/compute/compute_options.h"
#include "collectives/copy/copy_options.h"
#include "collectives/health/health_options.h"
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "collectives/overlap/overlap_options.h"
#include "collectives/p2p/p2p_options.h"
#include "collectives/sweep/bench_options.h"
#include "proxies/offline/bench_plan/expectation.h"
#include "proxies/proxy_main.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int run_bench(int argc, char **argv)
{
    return bb_bench_run(bb_expectation_forecast, argc, argv);
}

static int run_copy(int argc, char **argv)
{
    return bb_bench_copy_run(bb_expectation_forecast, argc, argv);
}

static int run_health(int argc, char **argv)
{
    return bb_health_rank_main(&bb_health_set, bb_expectation_forecast, argc, argv);
}

static int run_rails(int argc, char **argv)
{
    return bb_health_rank_main(&bb_bench_rails_set, bb_expectation_forecast, argc, argv);
}

static int run_nodes(int argc, char **argv)
{
    return bb_health_rank_main(&bb_bench_nodes_set, bb_expectation_forecast, argc, argv);
}

/* Entry points: each returns 0, a negative error code, or a positive code, which is success. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} entries[] = {
    {"bb_bench_run", run_bench},
    {"bb_bench_compute_run", bb_bench_compute_run},
    {"bb_bench_copy_run", run_copy},
    {"bb_bench_rails_run", run_rails},
    {"bb_bench_nodes_run", run_nodes},
    {"bb_bench_p2p_run", bb_bench_p2p_run},
    {"bb_bench_comm_run", bb_bench_comm_run},
    {"bb_bench_overlap_run", bb_bench_overlap_run},
    {"bb_nccl_tests_run", bb_nccl_tests_run},
    {"bb_proxy_run", bb_proxy_run},
    {"bb_health_run", run_health},
};

static int run_entry(const char *name, int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        if (strcmp(name, entries[i].name) == 0)
            return entries[i].run(argc, argv);
    return bb_err(BB_EUSAGE, "busbar-rank is started by busbar; try: busbar bench --help");
}

int main(int argc, char **argv)
{
    int rc, error;

    bb_supervised_begin();
    bb_warn_hold(1); /* until bb_session_setup_gpus() */
    if (bb_launcher_rank() <= 0)
        bb_environment_warn();
    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe then fails with EPIPE and is reported */
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with EFBIG and is reported */
    bb_memory_guard(bb_supervised_exit);
    rc = run_entry(argc > 1 ? argv[1] : "", argc - 2, argv + 2);
    if ((error = bb_outfile_error(stdout)) != 0 && rc >= 0)
        rc = bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(error));
    bb_warn_hold(0);
    bb_supervised_end(bb_exit_code(rc));
    return bb_exit_code(rc);
}
