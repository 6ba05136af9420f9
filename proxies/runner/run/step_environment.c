/* step_environment.c - sets the environment variables of CUDA and NCCL (see step_environment.h). */
#include "proxies/runner/run/step_environment.h"

#include "bootstrap/base/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int set_default(const char *name, const char *value)
{
    return setenv(name, value, 0) ? bb_err(BB_EFAIL, "setenv %s: %s", name, strerror(errno)) : 0;
}

enum { MAX_QUEUES = 32 };

int bb_step_set_environment(bool concurrent_streams)
{
    int rc;

    TRY(set_default("CUDA_DEVICE_MAX_CONNECTIONS", "32"));
    if (concurrent_streams)
        TRY(set_default("NCCL_RUNTIME_CONNECT", "0"));
out:
    return rc;
}

int bb_hardware_queues(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int queues = MAX_QUEUES;

    return text && bb_parse_int(text, 1, MAX_QUEUES, &queues) ? MAX_QUEUES : queues;
}
