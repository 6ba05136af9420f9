/* nccl_tests_text.c - printed output of nccl-tests as input of `busbar calibrate`. Two parts: the text, and the
 * collective if the text does not name it. */
#include "collectives/compare/result_reader.h"
#include "proxies/offline/calibrate/measurements/measurements.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *part[FUZZ_PARTS], word[96];
    struct bb_result_file file;
    struct bb_measurements measurements;
    const char *words[] = {word};

    fuzz_parts(text, part);
    snprintf(word, sizeof(word), "%.40s%s%s", part[1], *part[1] ? "=" : "", fuzz_file(0, part[0], strlen(part[0])));
    if (bb_result_file_load(&file, word) == 0)
        HOLDS(file.root && (file.n == 0 || file.rows[0].what));
    bb_result_file_release(&file);
    if (bb_measurements_read(&measurements, words, 1) == 0)
        HOLDS(measurements.n_rows > 0 && measurements.files[0].ranks >= measurements.files[0].nodes);
    bb_measurements_release(&measurements);
    free(text);
    return 0;
}
