/* nccl_tests_words.c - arguments and environment of scripts for nccl-tests; lines with '=' are variables. */
#include "collectives/nccl_tests/nccl_tests_options.h"
#include "tests/fuzz/fuzz.h"

static const char *const variables[] = {"NCCL_TESTS_MIN_BW",           "NCCL_TESTS_DEVICE",
                                        "NCCL_TESTS_ALLTOALLV_SPREAD", "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE",
                                        "NCCL_TESTS_SPLIT_MASK",       "NCCL_TESTS_SPLIT"};
enum { N_VARIABLES = sizeof variables / sizeof *variables };

/* Sets the variables among the lines and removes them from the list. Returns the number of remaining arguments. */
static int set_variables(int n, char **word)
{
    int left = 0;

    for (int i = 0; i < N_VARIABLES; i++)
        unsetenv(variables[i]);
    for (int i = 0; i < n; i++) {
        char *value = strchr(word[i], '=');

        if (!value || word[i][0] != 'N') {
            word[left++] = word[i];
            continue;
        }
        *value++ = '\0';
        setenv(variables[(strlen(word[i]) + (unsigned char)word[i][1]) % N_VARIABLES], value, 1);
    }
    word[left] = NULL;
    return left;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *word[FUZZ_ARGUMENTS + 1];
    char names[][16] = {"alltoallv_perf", "all_reduce_perf", "sendrecv_perf"};
    struct bb_nccl_tests_options options = {0};
    struct bb_positionals collective = {.n = 1};
    struct bb_sweep sweep = {0};
    int n = set_variables(fuzz_arguments(names[size % 3], text, word), word);

    collective.word[0] = bb_colls[bb_nccl_tests_kind(word[0])].name;
    if (bb_nccl_tests_parse(&options, n, word) == 0 && !options.bench.matrix)
        (void)!bb_bench_resolve(&options.bench, &sweep, &collective);
    bb_bench_release_sweep(&sweep);
    free(text);
    return 0;
}
