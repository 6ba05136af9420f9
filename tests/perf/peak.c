/*
 * peak.c - prints wall time and peak memory of a command: peak COMMAND [ARGUMENT...] prints "SECONDS KIB" and discards
 * the command's stdout. Linux starts a child's ru_maxrss at the resident size of its parent, so a small program has to
 * be the parent: with Python as the parent, no child would show less than Python's own memory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run(char **command)
{
    int null = open("/dev/null", O_WRONLY);

    if (null >= 0)
        dup2(null, STDOUT_FILENO);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

int main(int argc, char **argv)
{
    const double began = seconds();
    struct rusage usage;
    pid_t child;
    int status;

    if (argc < 2) {
        fputs("Usage: peak COMMAND [ARGUMENT...]\n", stderr);
        return 2;
    }
    child = fork();
    if (child == 0)
        run(argv + 1);
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
        perror("peak");
        return 1;
    }
    printf("%.6f %ld\n", seconds() - began, usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
