/* step_environment.c - sets the environment variables of CUDA and NCCL (see step_environment.h). */
#include "proxies/runner/run/step_environment.h"

#include "bootstrap/base/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_default(const char *name, const char *value)
{
    return setenv(name, value, 0) ? bb_err(BB_EFAIL, "setenv %s: %s", name, strerror(errno)) : 0;
}

enum { MIN_QUEUES = 4, MAX_QUEUES = 32 };

/* entry: becomes a part of the environment, which contains a pointer to it. bb_step_enable changes its first character to
 * N. */
static struct {
    const char *name;
    char entry[40];
} reserved[] = {
    [BB_STEP_CONNECT_AT_INIT] = {"NCCL_RUNTIME_CONNECT", "_CCL_RUNTIME_CONNECT=0"},
    [BB_STEP_ORDER_LAUNCHES] = {"NCCL_LAUNCH_ORDER_IMPLICIT", "_CCL_LAUNCH_ORDER_IMPLICIT=1"},
};

int bb_step_set_environment(int sharing)
{
    const int queues = sharing > 1 ? MAX_QUEUES / sharing : MAX_QUEUES;
    char text[16];
    int rc;

    snprintf(text, sizeof(text), "%d", queues > MIN_QUEUES ? queues : MIN_QUEUES);
    TRY(set_default("CUDA_DEVICE_MAX_CONNECTIONS", text));
    for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
        if (!getenv(reserved[i].name) && putenv(reserved[i].entry))
            rc = bb_err(BB_EFAIL, "putenv: %s", strerror(errno));
out:
    return rc;
}

void bb_step_enable(enum bb_step_variable variable)
{
    __atomic_store_n(reserved[variable].entry, 'N', __ATOMIC_RELEASE);
}

int bb_hardware_queues(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int queues = MAX_QUEUES;

    return text && bb_parse_int(text, 1, MAX_QUEUES, &queues) ? MAX_QUEUES : queues;
}
