/* telemetry.c - see telemetry.h. */
#include "collectives/session/telemetry.h"

int bb_telemetry_open(struct bb_telemetry *o, struct bb_world *world, const struct bb_device_info *device)
{
    unsigned bits;
    int rc;

    bb_nvml_open(&o->nvml, device, world->rank == 0);
    bits = (unsigned)(o->nvml.library != NULL) | (unsigned)(o->nvml.mig || device->is_instance) << 1 |
           (unsigned)o->nvml.mps << 2;
    rc = bb_world_any(world, &bits);
    o->no_nvml = !(bits & 1);
    o->mig = bits & 2;
    o->mps = bits & 4;
    if (o->mig && world->rank == 0)
        bb_warn("a GPU is split into MIG instances: results are those of one instance");
    if (o->mps && world->rank == 0)
        bb_warn("a GPU is used through MPS: results are valid only while no other process uses that GPU");
    return rc;
}

int bb_telemetry_save(const struct bb_telemetry *o, struct bb_results *results)
{
    return bb_results_set_all(results,
                              json_pack("{s:o, s:o}", "mig", o->no_nvml && !o->mig ? json_null() : json_boolean(o->mig),
                                        "mps", o->no_nvml ? json_null() : json_boolean(o->mps)));
}

void bb_telemetry_release(struct bb_telemetry *o)
{
    bb_nvml_release(&o->nvml);
}

void bb_telemetry_begin_warmup(const struct bb_telemetry *o)
{
    if (!o)
        return;
    bb_profiler_begin();
    bb_tuner_begin_recording();
}

void bb_telemetry_begin_timing(const struct bb_telemetry *o, struct bb_telemetry_row *seen)
{
    *seen = (struct bb_telemetry_row){0};
    if (!o)
        return;
    bb_profiler_end(&seen->choice);
    bb_tuner_end_recording(&seen->costs);
    bb_nvml_sample(&o->nvml, &seen->before);
}

void bb_telemetry_end_timing_local(const struct bb_telemetry *o, struct bb_telemetry_row *seen)
{
    if (!o || o->no_nvml)
        return;
    bb_nvml_sample(&o->nvml, &seen->after);
    seen->sampled = o->nvml.library != NULL;
    seen->gpu_flags = bb_nvml_flags(&seen->before, &seen->after);
}

int bb_telemetry_end_timing(const struct bb_telemetry *o, struct bb_world *world, struct bb_telemetry_row *seen)
{
    if (!o || o->no_nvml)
        return 0;
    bb_telemetry_end_timing_local(o, seen);
    return bb_world_any(world, &seen->gpu_flags);
}

json_t *bb_telemetry_gpu(const struct bb_telemetry_row *seen)
{
    if (!seen->sampled)
        return json_null();
    return json_pack("{s:o, s:o}", "before", bb_nvml_json(&seen->before), "after", bb_nvml_json(&seen->after));
}
