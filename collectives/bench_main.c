/*
 * bench_main.c - `busbar bench` as far as it needs neither MPI nor a GPU: whose words they are, help, refusals. What
 * runs is in the GPU half (bootstrap/start/gpu_half.h), which reads the same words again.
 */
#include "collectives/bench_main.h"

#include "bootstrap/start/gpu_half.h"
#include "collectives/modes.h"
#include "collectives/sweep/bench_options.h"

static int check_words(int argc, char **argv)
{
    struct bb_bench_options options = {0}; /* what no option fills, too */
    struct bb_sweep sweep = {0};
    int rc = bb_bench_parse(&options, &sweep, argc, argv, stdout);

    bb_bench_release_sweep(&sweep);
    return rc;
}

int bb_bench_main(int argc, char **argv)
{
    const struct bb_bench_mode *mode = argc > 1 ? bb_bench_mode_find(argv[1]) : NULL;
    int rc = mode ? bb_opts_read(mode->options, NULL, argc - 1, argv + 1) : check_words(argc, argv);

    return rc ? rc : bb_gpu_run("bench", mode ? mode->run : "bb_bench_run", argc, argv);
}

int bb_bench_check(int argc, char **argv)
{
    const struct bb_bench_mode *mode = argc > 1 ? bb_bench_mode_find(argv[1]) : NULL;

    if (mode)
        return bb_opts_check(mode->options, argc - 1, argv + 1);
    if (bb_opts_check(&bb_bench_set, argc, argv) != 0)
        return -BB_EUSAGE;
    return check_words(argc, argv);
}
