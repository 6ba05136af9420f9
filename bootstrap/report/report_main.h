/* report_main.h - `busbar report`: an HTML page of charts from the JSON results of other commands. */
#ifndef BB_BOOTSTRAP_REPORT_REPORT_MAIN_H
#define BB_BOOTSTRAP_REPORT_REPORT_MAIN_H

#include "bootstrap/base/err.h"

/*
 * bb_report_main - run the command; argv[0] is its name. On success the function does not return, because the process
 * executes the Python script that writes the page. Returns -BB_EUSAGE for invalid arguments, or -BB_EFAIL if Python or
 * the script is missing, after printing one error line.
 */
int bb_report_main(int argc, char **argv) BB_MUST_CHECK;

#endif
