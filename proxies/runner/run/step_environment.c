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

/* Entry of the environment, which contains a pointer to this array. bb_step_connect_at_init changes the first character
 * to N. */
static char connect_at_init[] = "_CCL_RUNTIME_CONNECT=0";

int bb_step_set_environment(int sharing)
{
    const int queues = sharing > 1 ? MAX_QUEUES / sharing : MAX_QUEUES;
    char text[16];
    int rc;

    snprintf(text, sizeof(text), "%d", queues > MIN_QUEUES ? queues : MIN_QUEUES);
    TRY(set_default("CUDA_DEVICE_MAX_CONNECTIONS", text));
    if (!getenv("NCCL_RUNTIME_CONNECT") && putenv(connect_at_init))
        rc = bb_err(BB_EFAIL, "putenv: %s", strerror(errno));
out:
    return rc;
}

void bb_step_connect_at_init(void)
{
    __atomic_store_n(connect_at_init, 'N', __ATOMIC_RELEASE);
}

int bb_hardware_queues(void)
{
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int queues = MAX_QUEUES;

    return text && bb_parse_int(text, 1, MAX_QUEUES, &queues) ? MAX_QUEUES : queues;
}
