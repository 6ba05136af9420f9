/*
 * region_sweeper.c - a program that removes the name of a communicator's shared region when no process uses the region
 * any more: all ranks have joined, or are dead. Usage: emu-region-sweeper FILE. A rank starts it as a program of its
 * own: a fork of the rank would copy the rank's page tables, and the rank would pay a page fault for each page that it
 * writes afterwards.
 */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct stat st;
    int fd;

    if (argc != 2)
        return 2;
    if (fork() != 0) /* the rank waits for this process, not for the end of the region */
        return 0;
    close_range(0, ~0U, 0);
    fd = open(argv[1], O_RDWR | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0)
        unlink(argv[1]);
    return 0;
}
