/*
 * sleep_watch.c - preloaded into busbar (LD_PRELOAD): appends one byte to the file SLEEP_WATCH for each sleep of the
 * program.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int nanosleep(const struct timespec *requested, struct timespec *remaining)
{
    int (*real)(const struct timespec *, struct timespec *);
    const char *path = getenv("SLEEP_WATCH");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

    if (file >= 0 && write(file, ".", 1) != 1)
        abort();
    if (file >= 0)
        close(file);
    *(void **)&real = dlsym(RTLD_NEXT, "nanosleep");
    return real(requested, remaining);
}
