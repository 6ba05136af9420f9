/*
 * osu_allreduce.c - an MPI program of the tests with the option -m MIN:MAX and the output of OSU's osu_allreduce. Any other word is
 * an error, so a sweep that adds options of busbar fails. After the table it prints the sum of all elements of the last size.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 20 };

int main(int argc, char **argv)
{
    static float in[1 << 16], out[1 << 16];
    int min = 0, max = 0, rank, ranks;

    if (argc != 3 || strcmp(argv[1], "-m") != 0 || sscanf(argv[2], "%d:%d", &min, &max) != 2 || max > (int)sizeof(in)) {
        fprintf(stderr, "osu_allreduce: invalid option -- '%s'\n", argc > 1 ? argv[argc - 1] : "");
        return 1;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < max / 4; i++)
        in[i] = 1;
    if (rank == 0)
        printf("\n# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n");
    for (int bytes = min; bytes <= max; bytes *= 2) {
        double start = MPI_Wtime();

        for (int i = 0; i < CALLS; i++)
            MPI_Allreduce(in, out, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("%-10d%18.2f\n", bytes, (MPI_Wtime() - start) * 1e6 / CALLS);
    }
    if (rank == 0)
        fprintf(stderr, "sum: %.0f\n", (double)out[0] * max / 4);
    MPI_Finalize();
    return 0;
}
