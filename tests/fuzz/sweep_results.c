/*
 * sweep_results.c - collection of the results of a study, and selection of rows. Five parts: a result, the exit record
 * of its run, its stderr, --where, --sort.
 */
#include "bootstrap/base/csv.h"
#include "bootstrap/sweep/view.h"
#include "collectives/bench_main.h"
#include "tests/fuzz/fuzz.h"

static const char study_text[] =
    "{\"command\": \"bench all_reduce\", \"options\": {\"minbytes\": [\"8\", \"1K\"]}, \"ranks\": 2, \"columns\": "
    "[\"time_us.p50\", \"results.0.bytes\", {\"name\": \"r\", \"value\": \"time_us.p50\", \"relative_to\": "
    "{\"minbytes\": \"8\"}}]}";
static const struct bb_study_command commands[] = {{.name = "bench", .launched = true, .check = bb_bench_check}};
static const struct bb_expand_plan plan = {.commands = commands, .n_commands = 1, .max_combinations = 9};

static char folder[] = "/dev/shm/busbar-fuzz-XXXXXX";
static struct bb_study study;
static struct bb_sweep_runs runs;

static void remove_folder(void)
{
    (void)!bb_sweep_remove_files(folder, &runs.one[0]);
    rmdir(folder);
}

static void prepare_study(void)
{
    if (runs.n > 0)
        return;
    HOLDS(bb_study_load(&study, fuzz_file(0, study_text, strlen(study_text))) == 0);
    HOLDS(bb_expand(&runs, &study, &plan) == 0 && runs.n == 2 && mkdtemp(folder));
    atexit(remove_folder);
}

static void write_file(const char *ending, const char *text)
{
    char *path = bb_sweep_file(folder, &runs.one[0], ending);
    FILE *file = path ? fopen(path, "w") : NULL;

    HOLDS(file && fputs(text, file) >= 0 && fclose(file) == 0);
    free(path);
}

static void gather(const struct bb_sweep_view *view)
{
    FILE *out = fopen("/dev/null", "w");
    struct bb_gathered all;

    if (bb_view_check(view, &study, &runs) == 0) {
        bb_gather(&all, &study, &runs, folder);
        HOLDS(all.count[0] + all.count[1] + all.count[2] + all.count[3] == runs.n);
        json_decref(bb_gathered_json(&all));
        bb_csv_write(all.columns, all.rows, out);
        if (bb_view_apply(view, &all) == 0)
            bb_gathered_text(&all, true, out);
        bb_gathered_release(&all);
    }
    fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *part[FUZZ_PARTS];
    struct bb_sweep_view view = {0};

    fuzz_parts(text, part);
    prepare_study();
    write_file(".json", part[0]);
    write_file(".run.json", part[1]);
    write_file(".err", part[2]);
    view.where = *part[3] ? part[3] : NULL;
    view.sort = *part[4] ? part[4] : NULL;
    gather(&view);
    free(text);
    return 0;
}
