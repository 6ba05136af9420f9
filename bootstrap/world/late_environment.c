/* late_environment.c - reserved slots in the environment. The slots are static variables, because `environ` refers
 * to them for the rest of the process. */
#include "bootstrap/world/late_environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MARK[] = "_BUSBAR_LATE_";

extern char **environ;

int bb_late_environment_reserve(void)
{
    static char places[BB_LATE_VARIABLES][BB_LATE_VARIABLE_BYTES];

    if (*places[0])
        return 0;
    for (int i = 0; i < BB_LATE_VARIABLES; i++) {
        snprintf(places[i], sizeof(places[i]), "%s%d=", MARK, i);
        if (putenv(places[i]))
            return bb_err(BB_EFAIL, "putenv: %s", strerror(errno));
    }
    return 0;
}

static char *find_place(void)
{
    for (char **at = environ; at && *at; at++)
        if (strncmp(*at, MARK, sizeof(MARK) - 1) == 0)
            return *at;
    return NULL;
}

/* Writes value and "=" first and the name last, backwards, so that readers do not find the variable before it is
 * complete. */
int bb_late_environment_set(const char *name, const char *value)
{
    size_t length = strlen(name), bytes = strlen(value) + 1;
    char *place = length + 1 + bytes <= BB_LATE_VARIABLE_BYTES ? find_place() : NULL;

    if (getenv(name))
        return 0;
    if (!place)
        return setenv(name, value, 0) ? bb_err(BB_EFAIL, "setenv %s: %s", name, strerror(errno)) : 0;
    memcpy(place + length + 1, value, bytes);
    place[length] = '=';
    for (size_t i = length; i-- > 0;)
        place[i] = name[i];
    return 0;
}
