/* pmi.c - commands of the PMI 1.1 wire protocol. */
#include "bootstrap/start/pmi.h"

#include <stdio.h>
#include <stdlib.h>

bool bb_pmi_connected(void)
{
    return getenv("PMI_FD") != NULL;
}

void bb_pmi_abort(int code, bool initialized)
{
    const int fd = atoi(getenv("PMI_FD"));

    if (!initialized)
        dprintf(fd, "cmd=init pmi_version=1 pmi_subversion=1\n");
    dprintf(fd, "cmd=abort exitcode=%d\n", code);
}
