/* plugins.c - calls of NCCL to busbar's profiler and tuner plugins (collectives/session), with arbitrary arguments. */
#include "collectives/session/profiler.h"
#include "collectives/session/profiler_plugin.h"
#include "collectives/session/tuner.h"
#include "collectives/session/tuner_plugin.h"
#include "tests/fuzz/fuzz.h"

static void call_profiler(const uint8_t *data, char *part[FUZZ_PARTS])
{
    struct bb_event_v5 event = {.type = data[0] % 8};
    struct bb_choice choice;
    void *context, *handle;
    int mask;

    if (event.type == BB_EVENT_P2P)
        event.p2p = (struct bb_event_p2p){.function = part[0], .peer = data[1], .channels = data[2]};
    else
        event.coll = (struct bb_event_coll){.function = part[0],
                                            .channels = data[1],
                                            .warps = data[2],
                                            .algorithm = part[1][0] == '0' ? NULL : part[1],
                                            .protocol = part[2][0] == '0' ? NULL : part[2]};
    HOLDS(ncclProfiler_v5.init(&context, 1, &mask, "c", 1, 2, 0, NULL) == ncclSuccess);
    bb_profiler_begin();
    for (int i = 0; i <= data[3]; i++)
        HOLDS(ncclProfiler_v5.start(context, &handle, &event) == ncclSuccess);
    bb_profiler_end(&choice);
    HOLDS(memchr(choice.algorithm, '\0', sizeof choice.algorithm) &&
          memchr(choice.protocol, '\0', sizeof choice.protocol));
    HOLDS(ncclProfiler_v5.finalize(context) == ncclSuccess);
    (void)bb_algorithm_protocol_of(choice.algorithm, choice.protocol);
}

static void call_tuner(const uint8_t *data, const uint8_t *costs, size_t size)
{
    const int algorithms = 1 + data[1] % 12, protocols = 1 + data[2] % 6;
    struct bb_algorithm_protocol wanted = {data[3] % 9 - 1, data[0] % 5 - 1};
    float *table = calloc((size_t)(algorithms * protocols), sizeof *table);
    struct bb_tuner_costs heard;
    int channels = 0;

    if (!table)
        return;
    if (size > (size_t)(algorithms * protocols) * sizeof *table)
        size = (size_t)(algorithms * protocols) * sizeof *table;
    memcpy(table, costs, size);
    bb_tuner_begin_recording();
    bb_tuner_force(data[0] & 0x80 ? NULL : &wanted);
    HOLDS(ncclTunerPlugin_v4.choose(NULL, 0, 8, 1, (float **)(void *)table, algorithms, protocols, 0, &channels) ==
          ncclSuccess);
    bb_tuner_end_recording(&heard);
    HOLDS(heard.known);
    free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text, *part[FUZZ_PARTS];

    if (size < 4)
        return 0;
    text = fuzz_text(data + 4, size - 4);
    call_tuner(data, data + 4, size - 4);
    fuzz_parts(text, part);
    call_profiler(data, part);
    free(text);
    return 0;
}
