/* plan_export.c - the list of output file formats of `busbar plan`; see plan_export.h. */
#include "proxies/offline/plan/plan_export.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"

#include <string.h>
#include <sys/stat.h>

struct export
{
    const char *name, *what;
    int (*write)(const struct bb_plan_report *, FILE *);
    bool predicted; /* true: the file contains the prediction; '-' is then an ordinary file name; false: '-'
                       means stdout */
};

#define PREDICTED_ROW(name, what, help) {#name, what, bb_plan_write_##name, true},
#define ROW(name, what, help)           {#name, what, bb_plan_write_##name, false},

static const struct export exports[] = {BB_PREDICTION_EXPORTS(PREDICTED_ROW) BB_PLAN_EXPORTS(ROW)};

static bool is_stdout(const struct export *e, const char *file)
{
    return !e->predicted && bb_outfile_is_stdout(file);
}

int bb_plan_exports_check_writable(const char *const *files)
{
    int rc = 0;

    for (int i = 0; i < BB_N_PLAN_EXPORTS && rc == 0; i++)
        if (files[i] && !is_stdout(&exports[i], files[i]))
            rc = bb_outfile_check(files[i], exports[i].what);
    return rc;
}

void bb_plan_report_file(FILE *out, const char *what, const char *path)
{
    char bytes[BB_BYTES_TEXT];
    struct stat file;

    if (out && stat(path, &file) == 0 && S_ISREG(file.st_mode))
        fprintf(out, "# wrote %s: %s, %s\n", path, what, bb_format_bytes((size_t)file.st_size, bytes));
    else if (out && strcmp(what, "chakra") == 0)
        fprintf(out, "# wrote %s.RANK.et: %s, one file per rank; %s.groups.json: the ranks of its communicators\n",
                path, what, path);
}

static int write_export(const struct export *e, const char *path, const struct bb_plan_report *report)
{
    struct bb_outfile file;
    int rc;

    if (is_stdout(e, path))
        return e->write(report, stdout);
    TRY(bb_outfile_open(&file, path, e->what));
    TRY(bb_outfile_close(&file, e->what, e->write(report, file.out)));
    bb_plan_report_file(report->text, e->what, path);
out:
    return rc;
}

int bb_plan_exports_write(const char *const *files, const struct bb_plan_report *report)
{
    struct bb_plan_report one = *report;
    int rc = 0;

    for (int i = 0; i < BB_N_PLAN_EXPORTS; i++) {
        const bool writes = files[i] && (report->prediction || !exports[i].predicted);
        const int written = writes ? write_export(&exports[i], files[i], &one) : 0;

        rc = rc ? rc : written;
        one.rc = one.rc ? one.rc : written;
    }
    return rc;
}
