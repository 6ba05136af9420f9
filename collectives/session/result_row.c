/* result_row.c - see result_row.h. */
#include "collectives/session/result_row.h"

static json_t *channels_json(const void *seen)
{
    const struct bb_choice *choice = &((const struct bb_telemetry_row *)seen)->choice;

    return choice->kind == BB_CHOICE_NONE ? json_null() : json_integer(choice->channels);
}

static json_t *gpu_json(const void *seen)
{
    return bb_telemetry_gpu(seen);
}

/* JSON fields for NCCL's choice (algorithm, protocol, channels) and the state of the GPU. */
static const struct bb_field seen_fields[] = {
    {"algorithm", BB_SHOWS(struct bb_telemetry_row, choice.algorithm)},
    {"protocol", BB_SHOWS(struct bb_telemetry_row, choice.protocol)},
    {"channels", .value = channels_json},
    {"gpu", .value = gpu_json},
    {0},
};

json_t *bb_result_flags(const struct bb_session *s)
{
    json_t *flags = json_array();

    if (s->device.emulated)
        json_array_append_new(flags, json_string("emulated"));
    if (s->shared_gpu)
        json_array_append_new(flags, json_string("shared_gpu"));
    return flags;
}

int bb_result_save(struct bb_session *s, json_t *result, const struct bb_telemetry_row *seen, json_t *flags,
                   unsigned gpu_flags)
{
    if (seen)
        bb_table_json(result, seen_fields, seen);
    bb_nvml_json_flags(flags, gpu_flags);
    json_object_set_new(result, "flags", flags);
    return bb_results_row(s->json, result);
}

void bb_result_warn_gpu_flags(struct bb_session *s, unsigned gpu_flags, const char *what)
{
    const unsigned new_flags = gpu_flags & ~s->gpu_flags;

    s->gpu_flags |= new_flags;
    for (int i = 0; i < BB_NVML_FLAGS; i++)
        if (new_flags & 1u << i)
            bb_warn("%s and possibly other rows: %s", what, bb_nvml_flag_rows[i].advice);
}

int bb_result_put(struct bb_session *s, const struct bb_field *fields, const void *row,
                  const struct bb_telemetry_row *seen, unsigned gpu_flags, const char *what)
{
    json_t *result = json_object();

    bb_result_warn_gpu_flags(s, gpu_flags, what);
    bb_table_json(result, fields, row);
    return bb_result_save(s, result, seen, bb_result_flags(s), gpu_flags);
}
