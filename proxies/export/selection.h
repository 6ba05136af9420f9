/* selection.h - parses a selection of indices from 0 to n - 1, such as "0,8-15". Pure function. */
#ifndef BB_PROXIES_EXPORT_SELECTION_H
#define BB_PROXIES_EXPORT_SELECTION_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_selection {
    bool *chosen; /* [n] true for each selected index; owned */
    int n;
};

/*
 * bb_selection_parse - parse a list of indices and ranges from 0 to n - 1.
 *   option, what  name of the option, and what is selected ("ranks"), for the error line
 *   Returns       0; -BB_EUSAGE after printing an error line; -BB_EFAIL when out of memory
 *   Owner         the caller releases s with bb_selection_release, also after an error
 */
int bb_selection_parse(struct bb_selection *s, const char *option, const char *what, const char *text,
                       int n) BB_MUST_CHECK;
void bb_selection_release(struct bb_selection *s);

#endif
