/* bench_words.c - arguments of `busbar bench`, one per line. */
#include "collectives/bench_main.h"
#include "collectives/sweep/bench_options.h"
#include "tests/fuzz/fuzz.h"

static int count_row(void *arg, const struct bb_case *c)
{
    (void)c;
    return ++*(int *)arg > 1000;
}

static void visit_sweep(int n, char **word)
{
    struct bb_bench_options options = {0};
    struct bb_sweep sweep = {0};
    int rows = 0;

    if (bb_bench_parse(&options, &sweep, n, word, stdout) == 0 && sweep.n_colls > 0) {
        HOLDS(bb_sweep_largest(&sweep) <= bb_sweep_arena_bytes(&sweep, 2, false));
        bb_sweep_each(&sweep, sweep.colls[0], 2, count_row, &rows);
    }
    bb_bench_release_sweep(&sweep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *word[FUZZ_ARGUMENTS + 1], name[] = "bench";
    int n = fuzz_arguments(name, text, word);

    (void)!bb_bench_check(n, word);
    visit_sweep(n, word);
    free(text);
    return 0;
}
