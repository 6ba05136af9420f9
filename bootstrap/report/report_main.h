/* report_main.h - `busbar report`: the JSON of other commands as one page of pictures. */
#ifndef BB_BOOTSTRAP_REPORT_REPORT_MAIN_H
#define BB_BOOTSTRAP_REPORT_REPORT_MAIN_H

#include "bootstrap/base/err.h"

/* bb_report_main - the command; argv[0] is its name. Does not come back where all went well: the process becomes the
 * one that makes the page. -BB_EUSAGE: the words, -BB_EFAIL: there is no Python or no script (said). */
int bb_report_main(int argc, char **argv) BB_MUST_CHECK;

#endif
