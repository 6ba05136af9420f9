/*
 * report_main.c - `busbar report`: validates the arguments, finds Python and the script that writes the page
 * (profiles/report/report.py), and executes the script. No other command needs Python.
 */
#include "bootstrap/report/report_main.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/cli/opts.h"
#include "bootstrap/start/program_folder.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *output;
    bool quiet; /* do not print the name of the page */
};

#define FIELD(name) offsetof(struct options, name)

static const struct bb_opt rows[] = {
    OPT_OUTPUT('o', "output", FIELD(output), "HTML page to write; an existing file is replaced atomically"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "print only errors, not the name of the page"),
    {0},
};

static const struct bb_opt_table tables[] = {{.title = "Options", .opts = rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar report RESULT... -o FILE",
    .doc = "One page of charts from JSON results of bench, health, proxy, plan, compare, calibrate, sweep and\n"
           "nccl-tests, from printed output of nccl-tests (FILE or OPERATION=FILE) and from traces (files of\n"
           "--trace of proxy and plan), in any combination: bandwidth and time over size, links, steps with hidden\n"
           "and exposed communication, timelines, memory, scaling, comparisons, studies. The page loads nothing from a "
           "network.\n"
           "Only its owner can read the page, as the results (mode 0600), because they name hosts and commands; to "
           "share it: chmod 644.\n"
           "Requires Python 3 with the package plotly, which sh bootstrap/setup.sh --report installs.",
    .exits = {BB_EXITS_OFFLINE},
    .examples = "  busbar report fabric.json step.json -o report.html\n",
    .tables = tables,
};

/* Returns whether a file is left to the script, which also reports unreadable files: a regular file with JSON, which
 * begins with '{'. */
static bool is_json(const char *word)
{
    struct stat about;
    const bool is_pipe = stat(word, &about) == 0 && !S_ISREG(about.st_mode);
    FILE *file = is_pipe ? NULL : fopen(word, "r");
    char first = '\0';
    bool printed = file ? fscanf(file, " %c", &first) == 1 && first != '{' : is_pipe || strchr(word, '=') != NULL;

    if (file)
        fclose(file);
    return !printed;
}

/* Replaces the word of a printed output by "PATH=/dev/fd/N", an unnamed file with its JSON, which the script inherits. */
static int convert_printed(const char **word, bb_load_printed_fn *load)
{
    const char *path;
    json_t *root;
    int fd, rc;

    TRY(load(*word, &path, &root));
    fd = memfd_create("printed output", 0);
    if (fd < 0 || json_dumpfd(root, fd, 0) != 0)
        rc = bb_err(BB_EFAIL, "%s: cannot store its JSON: %s", path, strerror(errno));
    json_decref(root);
    *word = bb_format("%s=/dev/fd/%d", path, fd);
out:
    return rc;
}

/* Executes the script; returns only on failure. Python finds the other modules in the script's folder. -B: Python
 * writes no __pycache__ there. */
static int run_script(const char *python, char *script, const struct options *o, const struct bb_positionals *files)
{
    char *argv[BB_POSITIONALS_MAX + 8] = {(char *)python, "-B", script, "-o", (char *)o->output};
    int n = 5;

    if (o->quiet)
        argv[n++] = "--quiet";
    argv[n++] = "--";
    for (int i = 0; i < files->n; i++)
        argv[n++] = (char *)files->word[i];
    execvp(python, argv);
    return bb_err(BB_EFAIL, "report needs Python 3, and %s cannot be started: %s", python, strerror(errno));
}

/* A page under the name of a picture or a table would not open. Pipes and devices have any name. */
static int check_ending(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    struct stat about;

    if (!dot || strcasecmp(dot, ".html") == 0 || strcasecmp(dot, ".htm") == 0 ||
        (stat(path, &about) == 0 && !S_ISREG(about.st_mode)))
        return 0;
    return bb_err(BB_EUSAGE, "-o %s: the page is HTML, expected a name with .html; try: -o %.*s.html", path,
                  (int)(dot - path), path);
}

static int check_arguments(const struct options *o, const struct bb_positionals *files)
{
    struct stat file;

    if (files->n == 0)
        return bb_err(BB_EUSAGE, "no result file given: busbar report RESULT... -o FILE");
    if (!o->output)
        return bb_err(BB_EUSAGE, "no output file given: busbar report RESULT... -o FILE");
    for (int i = 0; i < files->n; i++)
        if (strcmp(files->word[i], "-") == 0)
            return bb_err(BB_EUSAGE, "- is not stdin; try: /dev/stdin");
        else if (stat(files->word[i], &file) == 0 && S_ISDIR(file.st_mode))
            return bb_err(BB_EUSAGE, "%s is a folder; the results of a sweep: %s/sweep.json", files->word[i],
                          files->word[i]);
    return check_ending(o->output) ? -BB_EUSAGE : bb_outfile_check(o->output, "the page");
}

int bb_report_main(int argc, char **argv, bb_load_printed_fn *load)
{
    char folder[PATH_MAX], python[PATH_MAX], *script = bb_program_file("report/report.py");
    struct options options;
    struct bb_positionals files;
    int rc;

    TRY(bb_opts_parse(&set, &options, argc, argv, &files, stdout));
    TRY(check_arguments(&options, &files));
    for (int i = 0; i < files.n; i++)
        if (!is_json(files.word[i]))
            TRY(convert_printed(&files.word[i], load));
    TRY(bb_program_folder(folder));
    if (!script)
        return bb_err(
            BB_EFAIL,
            "report needs its script report/report.py, which is neither in %s nor in its ../share/busbar/profiles: "
            "install busbar completely",
            folder);
    /* the Python of the virtual environment that setup.sh creates in the build folder, else the system's python3 */
    if (snprintf(python, PATH_MAX, "%s/python/bin/python3", folder) >= PATH_MAX || access(python, X_OK) != 0)
        strcpy(python, "python3");
    rc = run_script(python, script, &options, &files);
out:
    free(script);
    return rc;
}
