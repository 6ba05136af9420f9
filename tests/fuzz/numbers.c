/* numbers.c - numbers, sizes, lists and rules in option values; spelling suggestions. */
#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/sweep/busbw_thresholds.h"
#include "collectives/sweep/cases.h"
#include "tests/fuzz/fuzz.h"

static void parse_numbers(const char *text)
{
    char written[BB_BYTES_TEXT];
    size_t bytes = 0;
    double number;
    int whole;

    if (bb_parse_bytes(text, &bytes) == 0)
        HOLDS(bytes < (size_t)1 << 63 && *bb_format_bytes(bytes, written));
    if (bb_parse_int(text, -5, 1000, &whole) == 0)
        HOLDS(whole >= -5 && whole <= 1000);
    if (bb_parse_double(text, &number) == 0)
        HOLDS(number - number == 0);
}

static void parse_lists(const char *text)
{
    static struct bb_busbw_thresholds busbw_thresholds;
    struct bb_sizes sizes;
    struct bb_split split;

    if (bb_sizes_parse(&sizes, "--sizes", text, 1) == 0)
        HOLDS(sizes.n <= BB_SIZES_MAX && bb_sizes_max(&sizes) <= BB_SIZE_LARGEST);
    (void)bb_busbw_thresholds_parse(&busbw_thresholds, text);
    if (bb_split_parse(&split, text) == 0)
        for (int rank = 0; rank < 5000; rank += 999)
            HOLDS(bb_split_group(&split, rank) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const words[] = {"float", "half", "bfloat16", "fp8_e4m3", "all_reduce", "min-bytes", "", "x"};
    char *text = fuzz_text(data, size);

    parse_numbers(text);
    parse_lists(text);
    (void)bb_nearest_word(text, words, sizeof words / sizeof *words);
    free(text);
    return 0;
}
