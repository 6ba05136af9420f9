/*
 * report_main.c - `busbar report`: finds Python and the script that makes the page (profiles/report/report.py), checks
 * the words, and hands over to them. C never draws, and nothing else of busbar needs Python.
 */
#include "bootstrap/report/report_main.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/start/program_folder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct options {
    const char *output;
};

#define FIELD(name) offsetof(struct options, name)

static const struct bb_opt rows[] = {
    OPT_STRING('o', "output", FIELD(output), NULL, "FILE", "the page (HTML), replaced in one go"),
    {0},
};

static const struct bb_opt_table tables[] = {{.title = "Options", .opts = rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar report RESULT.json... -o FILE",
    .doc =
        "One page of pictures from the JSON of bench, proxy, plan, compare, sweep and nccl-tests, and from traces of\n"
        "--trace, in any mix: bandwidth and time over size, links, steps with what they hid and exposed, timelines,\n"
        "memory, scaling, comparisons, studies. The page asks for nothing from any network. Needs Python 3 with the\n"
        "package plotly; sh bootstrap/setup.sh brings it.",
    .tables = tables,
};

/* Below the program's folder, where it was built, else where it is installed. */
static const char *const scripts[] = {"/report/report.py", "/../share/busbar/profiles/report/report.py"};

static int find_script(const char *folder, char path[PATH_MAX])
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(*scripts); i++) {
        if (snprintf(path, PATH_MAX, "%s%s", folder, scripts[i]) >= PATH_MAX)
            return bb_err(BB_EFAIL, "the path of busbar is too long: %s", folder);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return bb_err(BB_EFAIL, "report needs its script, but there is neither %s%s nor %s%s: install all of busbar",
                  folder, scripts[0], folder, scripts[1]);
}

/* What setup.sh made in the build folder, else the machine's. */
static void find_python(const char *folder, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s/python/bin/python3", folder) >= PATH_MAX || access(path, X_OK) != 0)
        strcpy(path, "python3");
}

/* By its own path Python finds what lies beside it. -B: nothing is written beside the scripts. */
static int run_script(const char *python, char *script, const char *output, const struct bb_positionals *files)
{
    char *argv[BB_POSITIONALS_MAX + 8] = {(char *)python, "-B", script, "-o", (char *)output, "--"};
    int n = 6;

    for (int i = 0; i < files->n; i++)
        argv[n++] = (char *)files->word[i];
    execvp(python, argv);
    return bb_err(BB_EFAIL, "report needs Python 3, and %s cannot be started: %s", python, strerror(errno));
}

static int check_arguments(const struct options *o, const struct bb_positionals *files)
{
    if (files->n == 0)
        return bb_err(BB_EUSAGE, "no file given, expected results: busbar report RESULT.json... -o FILE");
    if (!o->output)
        return bb_err(BB_EUSAGE, "no page named, expected -o FILE: busbar report RESULT.json... -o FILE");
    for (int i = 0; i < files->n; i++)
        if (strcmp(files->word[i], o->output) == 0)
            return bb_err(BB_EUSAGE, "-o %s is also a result: the page would replace it", o->output);
    return bb_outfile_check(o->output, "the page");
}

int bb_report_main(int argc, char **argv)
{
    char folder[PATH_MAX], script[PATH_MAX], python[PATH_MAX];
    struct options options;
    struct bb_positionals files;
    int rc;

    TRY(bb_opts_parse(&set, &options, argc, argv, &files, stdout));
    TRY(check_arguments(&options, &files));
    TRY(bb_program_folder(folder));
    TRY(find_script(folder, script));
    find_python(folder, python);
    rc = run_script(python, script, options.output, &files);
out:
    return rc;
}
