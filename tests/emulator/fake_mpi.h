/* fake_mpi.h - fake versions of the MPI functions that hosts.c intercepts, for its test. MPI handles are numbers. */
#ifndef EMU_FAKE_MPI_H
#define EMU_FAKE_MPI_H

extern char fake_mpi_log[256];

int MPI_Test(const long *request, int *flag, const long *status);
int MPI_Barrier(long comm);
int MPI_Wait(const long *request, const long *status);
int MPI_Waitall(int n, const long *requests, const long *statuses);
int MPI_Bcast(const long *data, int n, long type, int root, long comm);
int MPI_Allreduce(const long *send, const long *recv, int n, long type, long op, long comm);
int MPI_Allgather(const long *send, int n, long type, const long *recv, int recv_n, long recv_type, long comm);

#endif
