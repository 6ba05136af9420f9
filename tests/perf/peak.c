/*
 * peak.c - wall time and peak memory of one command, from outside: peak COMMAND [WORD...] prints "SECONDS KIB", and
 * nothing of what the command prints. A program this small starts it, since a child's figure begins at what its parent
 * held when it was started: of any child, Python shows no less than its own memory.
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

static void run(char **words)
{
    int null = open("/dev/null", O_WRONLY);

    if (null >= 0)
        dup2(null, STDOUT_FILENO);
    execvp(words[0], words);
    perror(words[0]);
    _exit(127);
}

int main(int argc, char **argv)
{
    const double began = seconds();
    struct rusage usage;
    pid_t child;
    int status;

    if (argc < 2) {
        fputs("Usage: peak COMMAND [WORD...]\n", stderr);
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
