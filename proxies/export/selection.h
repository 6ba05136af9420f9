/* selection.h - parses a list of indices and ranges between 0 and n - 1, such as "0,8-15". No side effects. */
#ifndef BB_PROXIES_EXPORT_SELECTION_H
#define BB_PROXIES_EXPORT_SELECTION_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_selection {
    bool *chosen; /* [n] true for each selected index; released by bb_selection_release */
    int n;
};

/*
 * bb_selection_parse - parse a list of indices and ranges between 0 and n - 1.
 *   s        out: the caller releases it with bb_selection_release, also after an error
 *   option   name of the option without "--", for the error line
 *   what     what is selected, for example "ranks", for the error line
 *   text     the list
 *   n        number of indices
 *   Returns  0; -BB_EUSAGE after printing an error line; -BB_EFAIL when out of memory
 */
int bb_selection_parse(struct bb_selection *s, const char *option, const char *what, const char *text,
                       int n) BB_MUST_CHECK;
void bb_selection_release(struct bb_selection *s);

#endif
