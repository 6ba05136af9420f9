/* result_row.c - see result_row.h. */
#include "collectives/session/result_row.h"

static struct bb_cell channels_cell(const void *row)
{
    const struct bb_choice *choice = &((const struct bb_telemetry_row *)row)->choice;

    return choice->kind == BB_CHOICE_NONE ? BB_NONE_AS(NULL) : BB_INT(choice->channels);
}

static struct bb_cell gpu_cell(const void *row)
{
    return BB_JSON(bb_telemetry_gpu(row));
}

/* What NCCL chose, and the state of the GPU. */
static const struct bb_field seen_fields[] = {
    {"algorithm", BB_SHOWS(struct bb_telemetry_row, choice.algorithm)},
    {"protocol", BB_SHOWS(struct bb_telemetry_row, choice.protocol)},
    {"channels", .value = channels_cell},
    {"gpu", .value = gpu_cell},
    {0},
};

static struct bb_cell flags_cell(const void *row)
{
    json_t *flags = ((const struct bb_result_common *)row)->flags;

    return flags ? BB_JSON(flags) : (struct bb_cell){.kind = BB_CELL_ABSENT};
}

static const struct bb_field common_fields[] = {
    {"flags", .value = flags_cell},
    {0},
};

int bb_result_save(struct bb_results *results, json_t *result, const struct bb_result_common *common)
{
    int rc = common->seen ? bb_table_json(result, seen_fields, common->seen) : 0;

    TRY(rc);
    TRY(bb_table_json(result, common_fields, common));
    return bb_results_row(results, result);
out:
    json_decref(result);
    return rc;
}

/* emulated, shared_gpu and the doubts; one that comes up for the first time is said with what helps. */
static json_t *flags_of(struct bb_session *s, unsigned doubts, const char *what)
{
    json_t *flags = json_array();
    unsigned news = doubts & ~s->doubts;

    if (s->device.emulated)
        json_array_append_new(flags, json_string("emulated"));
    if (s->shared_gpu)
        json_array_append_new(flags, json_string("shared_gpu"));
    bb_nvml_json_flags(flags, doubts);
    s->doubts |= news;
    for (int i = 0; s->world.rank == 0 && i < BB_NVML_FLAGS; i++)
        if (news & 1u << i)
            bb_warn("%s and maybe further rows: %s", what, bb_nvml_doubts[i].advice);
    return flags;
}

int bb_result_put(struct bb_session *s, const struct bb_field *fields, const void *row,
                  const struct bb_telemetry_row *seen, unsigned doubts, const char *what)
{
    const struct bb_result_common common = {.seen = seen, .flags = flags_of(s, doubts, what)};
    json_t *result = json_object();
    int rc;

    TRY(bb_table_json(result, fields, row));
    return bb_result_save(s->json, result, &common);
out:
    json_decref(common.flags);
    json_decref(result);
    return rc;
}
