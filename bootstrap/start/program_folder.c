/* program_folder.c - folder of the running executable. */
#include "bootstrap/start/program_folder.h"

#include <string.h>
#include <unistd.h>

int bb_program_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    char *slash;

    if (n <= 0)
        return bb_err(BB_EFAIL, "cannot determine the folder of busbar: /proc/self/exe is not readable");
    folder[n] = '\0';
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return 0;
}
