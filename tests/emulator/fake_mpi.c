/* fake_mpi.c - a fake MPI for the test of hosts.c: logs each call and the sum of its arguments. */
#include "fake_mpi.h"

#include <stdio.h>
#include <string.h>

char fake_mpi_log[256];

static int note(const char *name, long sum)
{
    const size_t at = strlen(fake_mpi_log);

    snprintf(fake_mpi_log + at, sizeof(fake_mpi_log) - at, "%s %ld ", name, sum);
    return 7;
}

int MPI_Test(const long *request, int *flag, const long *status)
{
    *flag = *request == 1;
    return note("test", *request + *status) - 7;
}

int MPI_Barrier(long comm)
{
    return note("barrier", comm);
}

int MPI_Wait(const long *request, const long *status)
{
    return note("wait", *request + *status);
}

int MPI_Waitall(int n, const long *requests, const long *statuses)
{
    return note("waitall", n + *requests + *statuses);
}

int MPI_Bcast(const long *data, int n, long type, int root, long comm)
{
    return note("bcast", *data + n + type + root + comm);
}

int MPI_Allreduce(const long *send, const long *recv, int n, long type, long op, long comm)
{
    return note("allreduce", *send + *recv + n + type + op + comm);
}

int MPI_Allgather(const long *send, int n, long type, const long *recv, int recv_n, long recv_type, long comm)
{
    return note("allgather", *send + n + type + *recv + recv_n + recv_type + comm);
}
