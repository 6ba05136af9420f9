/* interfaces.c - choice of the address that other hosts connect to. Two parts: interface, NCCL_SOCKET_IFNAME. */
#include "bootstrap/supervise/star.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *part[FUZZ_PARTS];

    fuzz_parts(text, part);
    HOLDS(bb_star_preference(part[0], part[1]) >= 0);
    free(text);
    return 0;
}
