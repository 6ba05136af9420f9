/* slurm.c - writes a study as Slurm array jobs. */
#include "bootstrap/sweep/launch_runs.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/outfile.h"
#include "bootstrap/base/units.h"
#include "bootstrap/sweep/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { TASKS_PER_ARRAY = 1000 };

/* One Slurm array job and its combinations, one per array task. All tasks of an array job have the same sbatch
 * options. */
struct array {
    const struct bb_sweep_run **task;
    size_t n;
};

static const json_t *slurm_key(const struct bb_launch_runs *p, const char *key)
{
    return json_object_get(json_object_get(p->study->root, "slurm"), key);
}

static size_t slurm_count(const struct bb_launch_runs *p, const char *key, size_t default_count)
{
    const json_t *value = slurm_key(p, key);

    return value ? (size_t)json_integer_value(value) : default_count;
}

/* Returns whether one of the sbatch options contains text `a` or `b`; at_start: begins with it. */
static bool any_line_has(const struct bb_launch_runs *p, const char *a, const char *b, bool at_start)
{
    const json_t *lines = slurm_key(p, "lines");

    for (size_t i = 0; i < json_array_size(lines); i++) {
        const char *line = json_string_value(json_array_get(lines, i));
        const char *found_a = strstr(line, a), *found_b = strstr(line, b);

        if (at_start ? found_a == line || found_b == line : found_a || found_b)
            return true;
    }
    return false;
}

static int max_ranks(const struct array *a)
{
    int max_tasks = 1;

    for (size_t i = 0; i < a->n; i++)
        max_tasks = a->task[i]->ranks > max_tasks ? a->task[i]->ranks : max_tasks;
    return max_tasks;
}

/* ---- contents of a script ---- */

/* Prints a user-defined sbatch option with {ranks} and {nodes} replaced. */
static void put_line(const char *line, int ranks, size_t gpus_per_node, FILE *out)
{
    char ranks_text[16], nodes_text[32];
    struct bb_argv words = {0};

    snprintf(ranks_text, sizeof(ranks_text), "%d", ranks);
    snprintf(nodes_text, sizeof(nodes_text), "%zu", ((size_t)ranks + gpus_per_node - 1) / gpus_per_node);
    bb_argv_add(&words, "#SBATCH %s\n", line);
    bb_argv_replace(&words, "{ranks}", ranks_text);
    bb_argv_replace(&words, "{nodes}", nodes_text);
    fputs(words.word[0], out);
    bb_argv_release(&words);
}

/* Prints the sbatch option for the log file. '%', '"' and '\' in the folder are escaped, because sbatch interprets
 * them in file names. */
static void put_log_name(const char *dir, FILE *out)
{
    fputs("#SBATCH --output=\"", out);
    for (; *dir; dir++) {
        if (*dir == '%' || *dir == '"' || *dir == '\\')
            fputc(*dir == '%' ? '%' : '\\', out);
        fputc(*dir, out);
    }
    fputs("/slurm-%A_%a.out\"\n", out);
}

/* Returns whether the sbatch options for nodes and GPUs follow from gpus_per_node: the file has no option with {nodes}. */
static bool has_nodes_of_gpus(const struct bb_launch_runs *p)
{
    return slurm_key(p, "gpus_per_node") && !any_line_has(p, "{nodes}", "{nodes}", false);
}

/* Prints the options for nodes of `gpus` GPUs with one rank per GPU. Options of the file follow them and override them. */
static void put_nodes(const struct bb_launch_runs *p, size_t ranks, size_t gpus, FILE *out)
{
    size_t nodes = (ranks + gpus - 1) / gpus, used = ranks < gpus ? ranks : gpus;

    fprintf(out, "#SBATCH --nodes=%zu\n#SBATCH --ntasks-per-node=%zu\n", nodes, used);
    if (!any_line_has(p, "--gpus", "--gres", true) && !any_line_has(p, "-G", "-G", true))
        fprintf(out, "#SBATCH --gpus-per-node=%zu\n", used);
}

static void put_head(const struct bb_launch_runs *p, const struct array *a, FILE *out)
{
    size_t at_once = slurm_count(p, "at_once", 0), gpus = slurm_count(p, "gpus_per_node", 1);
    const json_t *lines = slurm_key(p, "lines");

    fprintf(out, "#!/bin/sh\n#SBATCH --job-name=%s\n#SBATCH --array=1-%zu", p->study->name, a->n);
    if (at_once)
        fprintf(out, "%%%zu", at_once);
    fputc('\n', out);
    put_log_name(p->dir, out);
    if (!any_line_has(p, "--ntasks", "-n", true))
        fprintf(out, "#SBATCH --ntasks=%d\n", max_ranks(a));
    if (has_nodes_of_gpus(p))
        put_nodes(p, (size_t)max_ranks(a), gpus, out);
    for (size_t i = 0; i < json_array_size(lines); i++)
        put_line(json_string_value(json_array_get(lines, i)), max_ranks(a), gpus, out);
}

/* Prints a word of a command in a comment: quoted, and without line breaks, which would end the comment. */
static void put_comment_word(const char *word, FILE *out)
{
    char *visible = bb_visible_text(word);

    bb_quote(visible, out);
    free(visible);
}

static void put_functions(const struct bb_launch_runs *p, const struct bb_argv *gather, FILE *out)
{
    fputs("# Written by busbar sweep: one task per combination of a study. To gather the results:\n# cd ", out);
    put_comment_word(p->here, out);
    fputs(" &&", out);
    for (size_t i = 0; i < gather->n; i++) {
        fputc(' ', out);
        put_comment_word(gather->word[i], out);
    }
    fputs("\nset -u\ndir=", out);
    bb_quote(p->dir, out);
    fputs("\n\n# kept FILE JSON: record an input file; a file that the run writes is not older than the start.\n"
          "kept() {\n"
          "    ! [ \"$1\" -ot \"$file.run.json\" ] || files=\"$files, $2\"\n"
          "}\n\n"
          "record() {\n"
          "    files=\n"
          "    inputs\n"
          "    printf '{\"schema\": \"busbar.sweep.run/1\", %s\"files\": {%s}, \"environment\": %s}\\n' \\\n"
          "        \"$1\" \"${files#, }\" \"$environment\"\n"
          "}\n\n"
          "# run ID SECONDS COMMAND...: run one combination; SECONDS 0: no limit. The end is recorded last.\n"
          "run() {\n"
          "    file=$dir/$1 limit=$2\n"
          "    shift 2\n"
          "    rm -f \"$file.run.json\" \"$file.json\"\n"
          "    record '' >\"$file.run.json\"\n"
          "    begin=$(date +%s)\n"
          "    if [ \"$limit\" = 0 ]; then\n"
          "        \"$@\" >\"$file.out\" 2>\"$file.err\" </dev/null\n"
          "    else\n"
          "        timeout -k 5 \"$limit\" \"$@\" >\"$file.out\" 2>\"$file.err\" </dev/null\n"
          "    fi\n"
          "    status=$?\n"
          "    end=\"\\\"exit_status\\\": $status, \\\"seconds\\\": $(($(date +%s) - begin)), \"\n"
          "    record \"$end\" >\"$file.run.json.tmp\" &&\n"
          "        mv \"$file.run.json.tmp\" \"$file.run.json\"\n"
          "    return \"$status\"\n"
          "}\n\n",
          out);
}

static void put_variables(const struct bb_argv *environment, FILE *out)
{
    for (size_t i = 0; i < environment->n; i++) {
        const char *variable = environment->word[i], *equals = strchr(variable, '=');

        if (equals) {
            fprintf(out, "    export %.*s=", (int)(equals - variable), variable);
            bb_quote(equals + 1, out);
            fputc('\n', out);
        } else {
            fprintf(out, "    unset %s\n", variable);
        }
    }
}

/* Prints the inputs of a combination at this time: its files as calls of kept(), and the variables of the shell. */
static void put_inputs(const struct bb_sweep_run *c, FILE *out)
{
    json_t *inputs = bb_sweep_inputs(c), *mark;
    char *text = json_dumps(json_object_get(inputs, "environment"), 0);
    const char *path;

    fputs("    environment=", out);
    bb_quote(text, out);
    fputs("\n    inputs() {\n        :\n", out);
    free(text);
    json_object_foreach(json_object_get(inputs, "files"), path, mark)
    {
        json_t *pair = json_pack("{s:O}", path, mark);

        text = json_dumps(pair, JSON_EMBED);
        fputs("        kept ", out);
        bb_quote(path, out);
        fputc(' ', out);
        bb_quote(text, out);
        fputc('\n', out);
        free(text);
        json_decref(pair);
    }
    fputs("    }\n", out);
    json_decref(inputs);
}

static void put_task(const struct bb_launch_runs *p, const struct bb_sweep_run *c, size_t task, FILE *out)
{
    struct bb_argv words = bb_launch_runs_argv(p, c, true);

    fprintf(out, "%zu)\n", task);
    put_variables(&c->environment, out);
    put_inputs(c, out);
    fprintf(out, "    run %s %.15g ", c->id, c->timeout_s);
    bb_quote_all(&words, out);
    fputs("\n    ;;\n", out);
    bb_argv_release(&words);
}

static void put_script(const struct bb_launch_runs *p, const struct array *a, const struct bb_argv *gather, FILE *out)
{
    const json_t *setup = slurm_key(p, "setup");

    put_head(p, a, out);
    put_functions(p, gather, out);
    fputs("cd ", out);
    bb_quote(p->here, out);
    fputs(" || exit 1\n", out);
    for (size_t i = 0; i < json_array_size(setup); i++)
        fprintf(out, "%s\n", json_string_value(json_array_get(setup, i)));
    fputs("case ${SLURM_ARRAY_TASK_ID:?submit this script with sbatch} in\n", out);
    for (size_t i = 0; i < a->n; i++)
        put_task(p, a->task[i], i + 1, out);
    fprintf(out,
            "*)\n    echo \"task $SLURM_ARRAY_TASK_ID does not exist; expected 1 to %zu\" >&2\n    exit 2\n"
            "    ;;\nesac\n",
            a->n);
}

/* Submits a script with sbatch, which prints its own errors. Prints the id of the array job. */
static int submit_array(const char *path, size_t tasks, FILE *out)
{
    char *command, id[64] = "";
    size_t bytes;
    FILE *text = bb_open_text(&command, &bytes), *sbatch;
    int status = -1;

    fputs("sbatch --parsable ", text);
    bb_quote(path, text);
    bb_close_text(text, &command);
    sbatch = popen(command, "r");
    free(command);
    if (sbatch) {
        if (fgets(id, sizeof(id), sbatch))
            id[strcspn(id, ";\n")] = '\0'; /* sbatch prints ID, or ID;CLUSTER */
        status = pclose(sbatch);
    }
    if (status != 0 || !id[0])
        return bb_err(BB_EFAIL, "sbatch did not accept %s (exit status %d)", path,
                      WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    fprintf(out, "array job %s: %zu task%s, %s\n", id, tasks, bb_plural(tasks), path);
    return 0;
}

/* Writes the script of one array job. number: suffix of the script's file name (NAME-1.slurm); 0: no suffix, for a
 * study with a single array job */
static int write_array(const struct bb_launch_runs *p, const struct array *a, int number, enum bb_slurm_action action,
                       const struct bb_argv *gather, FILE *out)
{
    char *path = number ? bb_format("%s/%s-%d.slurm", p->dir, p->study->name, number)
                        : bb_format("%s/%s.slurm", p->dir, p->study->name);
    struct bb_outfile file;
    int rc;

    if (action == BB_SLURM_PRINT) {
        fprintf(out, "# file: %s\n", path);
        put_script(p, a, gather, out);
        free(path);
        return 0;
    }
    TRY(bb_outfile_open_private(&file, path, "the array job")); /* mode 0600: the script sets environment variables */
    put_script(p, a, gather, file.out);
    TRY(bb_outfile_close(&file, "the array job", 0));
    if (action == BB_SLURM_SUBMIT)
        TRY(submit_array(path, a->n, out));
    else {
        fputs("sbatch ", out);
        bb_quote(path, out);
        fputc('\n', out);
    }
out:
    free(path);
    return rc;
}

/* ---- distribution of combinations among array jobs ---- */

/* Moves at most max_tasks combinations from left[n], which are not yet in an array job, to the next array job `a`.
 * by_ranks: moves only combinations with the same number of ranks as left[0]. */
static void take_array(const struct bb_sweep_run **left, size_t *n, bool by_ranks, size_t max_tasks, struct array *a)
{
    size_t kept = 0;
    int ranks = left[0]->ranks;

    a->n = 0;
    for (size_t i = 0; i < *n; i++)
        if (a->n < max_tasks && (!by_ranks || left[i]->ranks == ranks))
            a->task[a->n++] = left[i];
        else
            left[kept++] = left[i];
    *n = kept;
}

int bb_slurm_write(const struct bb_launch_runs *p, const struct bb_sweep_run *const wanted[], size_t n,
                   enum bb_slurm_action action, const struct bb_argv *gather, FILE *out)
{
    size_t left_n = n, max_tasks = slurm_count(p, "tasks_per_array", TASKS_PER_ARRAY);
    const struct bb_sweep_run **left;
    struct array a = {0};
    const bool by_ranks = has_nodes_of_gpus(p) || any_line_has(p, "{ranks}", "{nodes}", false);
    int rc = 0, number = 0;

    BB_NEW(left, n);
    BB_NEW(a.task, n);
    memcpy(left, wanted, n * sizeof(*left));
    while (rc == 0 && left_n > 0) {
        take_array(left, &left_n, by_ranks, max_tasks, &a);
        rc = write_array(p, &a, number || left_n ? ++number : 0, action, gather, out);
    }
    free(left);
    free(a.task);
    return rc;
}
