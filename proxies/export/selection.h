/* selection.h - which of 0 .. n-1 a user means: "0,8-15". Pure. */
#ifndef BB_PROXIES_EXPORT_SELECTION_H
#define BB_PROXIES_EXPORT_SELECTION_H

#include "bootstrap/base/err.h"

#include <stdbool.h>

struct bb_selection {
    bool *chosen; /* [n] */
    int n;
};

/* bb_selection_parse - numbers and ranges of them, from 0 to n - 1. option and what ("ranks") are for the message.
 * -BB_EUSAGE: something else (said); release is fine then. */
int bb_selection_parse(struct bb_selection *s, const char *option, const char *what, const char *text,
                       int n) BB_MUST_CHECK;
void bb_selection_release(struct bb_selection *s);

#endif
