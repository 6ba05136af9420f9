/* program_folder.c - folder of the running executable. */
#include "bootstrap/start/program_folder.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
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

char *bb_program_file(const char *name)
{
    /* relative to the folder of the executable: in a build folder, and in an installation */
    static const char *const folders[] = {"", "/../share/busbar/profiles", "/../share/busbar"};
    char folder[PATH_MAX], *path = NULL;

    for (size_t i = 0; !path && i < sizeof folders / sizeof *folders && bb_program_folder(folder) == 0; i++) {
        path = bb_format("%s%s/%s", folder, folders[i], name);
        if (access(path, R_OK) != 0) {
            free(path);
            path = NULL;
        }
    }
    return path;
}
