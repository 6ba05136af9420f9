/* report_main.h - `busbar report`: an HTML page of charts from the results of other commands. */
#ifndef BB_BOOTSTRAP_REPORT_REPORT_MAIN_H
#define BB_BOOTSTRAP_REPORT_REPORT_MAIN_H

#include "bootstrap/base/err.h"

#include <jansson.h>

/* Loads the printed output of nccl-tests as the JSON tree that nccl-tests writes with -J. word: the path, or
 * OPERATION=PATH; path: out: start of the path inside `word`; root: out: new reference. Returns 0, or a negative error
 * code after printing an error. */
typedef int bb_load_printed_fn(const char *word, const char **path, json_t **root);

/*
 * bb_report_main - run the command; argv[0] is its name. load: loads files that are not JSON; passed by the caller,
 * because bootstrap/ does not depend on collectives/. On success the function does not return, because the process
 * executes the Python script that writes the page. Returns -BB_EUSAGE for invalid arguments, or -BB_EFAIL if Python or
 * the script is missing, after printing one error line.
 */
int bb_report_main(int argc, char **argv, bb_load_printed_fn *load) BB_MUST_CHECK;

#endif
