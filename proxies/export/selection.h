/* selection.h - parses a selection of the indices 0 .. n-1, such as "0,8-15". Pure. */
#ifndef BB_PROXIES_EXPORT_SELECTION_H
#define BB_PROXIES_EXPORT_SELECTION_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_selection {
    bool *chosen; /* [n] whether the index is selected; owned */
    int n;
};

/*
 * bb_selection_parse - parse a list of indices and ranges from 0 to n - 1.
 *   option, what  option and plural noun ("ranks") for the message
 *   Returns       0; -BB_EUSAGE after printing one line; -BB_EFAIL without memory
 *   Owner         the caller calls bb_selection_release, also after a failure
 */
int bb_selection_parse(struct bb_selection *s, const char *option, const char *what, const char *text,
                       int n) BB_MUST_CHECK;
void bb_selection_release(struct bb_selection *s);

#endif
