/* nccl_tests_text.c - see nccl_tests_text.h. The parser recognizes each line of the output by its leading words. */
#include "collectives/compare/nccl_tests_text.h"

#include "bootstrap/base/units.h"
#include "collectives/ops/coll.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 48, NAME = 64, PLACES = 2, LEAST_GBPS = 10 };

/* Columns with at most one value per row; algbw and busbw: of the first placement. */
enum { SIZE, TYPE, REDOP, ROOT, ALGBW, BUSBW, COLUMNS };
static const char *const column_names[COLUMNS] = {"size", "type", "redop", "root", "algbw", "busbw"};

/* Position of each column in the words of a table row, derived from the table heading; -1: the table has no such
 * column. */
struct columns {
    int at[COLUMNS], n; /* n: number of words in a table row */
    struct {
        int time, wrong;
        bool by_cpu; /* true: the time is the host time of the calls (nccl-tests -C 1); false: the GPU time */
    } place[PLACES];
};

struct log {
    const struct bb_nccl_tests_output *p;
    const char *path;
    int line;
    char *word[WORDS];
    int n;
    char program[NAME]; /* name of the nccl-tests program, for example "all_reduce_perf"; "": the output does not
                           contain it */
    json_t *root, *config, *devices, *results; /* the tree, and borrowed references into it */
    json_t *seen;                              /* object whose keys are the GPUs of all device lines */
    json_t *runs;                              /* trees of the runs before this one */
    struct columns columns;
    long long max_bytes, largest; /* the largest size according to the settings, 0: unknown; of the rows */
    double step;                  /* added to each size, or, with is_factor, multiplied; 0: unknown */
    bool is_factor;
    bool in_table;
    double bus_factor; /* busbw / algbw of one table row with enough significant digits to identify the collective by
                          this ratio; 0: no such row */
};

static int reject_line(const struct log *l, const char *what)
{
    return bb_err(BB_EUSAGE, "%s: line %d: %s", l->path, l->line, what);
}

/* ---- splitting a line into words ---- */

/* Skips the tag that a launcher prints at the start of each line: "[1,0]<stdout>:" from mpirun, "0: " from srun. */
static char *skip_tag(char *line)
{
    static const char tag[] = "]<stdout>:";
    char *end = *line == '[' ? strstr(line, tag) : NULL;
    size_t digits;

    if (end)
        return end + strlen(tag);
    end = line + strspn(line, " ");
    digits = strspn(end, "0123456789");
    return digits > 0 && end[digits] == ':' && end[digits + 1] == ' ' ? end + digits + 1 : line;
}

static void split_words(struct log *l, char *line)
{
    char *rest = NULL;

    l->n = 0;
    for (char *word = strtok_r(line, " \t\r\n", &rest); word && l->n < WORDS; word = strtok_r(NULL, " \t\r\n", &rest))
        l->word[l->n++] = word;
}

/* Returns the word after `word`; NULL if the line does not contain `word` or ends with it. */
static const char *word_after(const struct log *l, const char *word)
{
    for (int i = 0; i + 1 < l->n; i++)
        if (strcmp(l->word[i], word) == 0)
            return l->word[i + 1];
    return NULL;
}

static bool parse_integer(const char *word, long long *number)
{
    char *end;

    if (!word || !isdigit((unsigned char)*word))
        return false;
    errno = 0;
    *number = strtoll(word, &end, 10);
    return *end == '\0' && errno == 0;
}

static void set_integer(json_t *object, const char *key, const char *word)
{
    long long number;

    if (parse_integer(word, &number))
        json_object_set_new(object, key, json_integer(number));
}

/* ---- the runs of one output ---- */

static void clear_run(struct log *l)
{
    json_decref(l->root);
    json_decref(l->seen);
    l->root = json_pack("{s:i, s:{s:[]}, s:[]}", "version", 3, "config", "devices", "results");
    l->seen = json_object();
    l->config = json_object_get(l->root, "config");
    l->devices = json_object_get(l->config, "devices");
    l->results = json_object_get(l->root, "results");
    l->columns.n = 0;
    l->in_table = false;
    l->max_bytes = l->largest = 0;
    l->step = l->bus_factor = 0;
    *l->program = '\0';
}

/* Replaces the list of devices by the ranks and nodes that the user states. */
static void set_stated_devices(struct log *l)
{
    const char *listed = json_string_value(json_object_get(json_array_get(l->devices, 0), "device_info"));
    json_t *name = json_string(listed ? listed : "unknown");

    json_array_clear(l->devices);
    json_object_del(l->root, "shared_gpu");
    for (int rank = 0; rank < l->p->ranks; rank++)
        json_array_append_new(l->devices,
                              json_pack("{s:i, s:i, s:o, s:O}", "rank", rank, "group", 0, "hostname",
                                        json_sprintf("node %lld", (long long)rank * l->p->nodes / l->p->ranks),
                                        "device_info", name));
    json_decref(name);
}

static int check_whole(const struct log *l);
static void warn_of_missing_sizes(const struct log *l);
static int resolve_program(struct log *l, const char *operation);

static int end_run(struct log *l)
{
    int rc;

    if (l->p->ranks > 0)
        set_stated_devices(l);
    TRY(check_whole(l));
    warn_of_missing_sizes(l);
    TRY(resolve_program(l, l->p->operation));
    json_array_append(l->runs, l->root);
    clear_run(l);
out:
    return rc;
}

/* Ends the previous run at the first line of the next one. */
static int begin_run(struct log *l)
{
    if (json_array_size(l->results) == 0) /* this line belongs to the run that has begun */
        return 0;
    return l->p->several ? end_run(l) : reject_line(l, "a second run of nccl-tests begins; expected one run per file");
}

/* ---- parsers of the lines above the table ---- */

static int read_program(struct log *l)
{
    const char *name = l->n > 4 ? l->word[4] : "";

    if (l->n < 4 || strcmp(l->word[3], "starting:") != 0) /* "concluded:" */
        return 0;
    if (begin_run(l) != 0)
        return -BB_EUSAGE;
    snprintf(l->program, sizeof(l->program), "%s", name);
    return 0;
}

/* Reads "minBytes 8 maxBytes 1073741824 step: 2(factor)" or "... step: 1048576(bytes)". */
static void read_sizes(struct log *l)
{
    const char *step = word_after(l, "step:");
    char *unit = NULL;

    (void)parse_integer(word_after(l, "maxBytes"), &l->max_bytes);
    l->step = step ? strtod(step, &unit) : 0;
    l->is_factor = unit && strcmp(unit, "(factor)") == 0;
}

/* Reads "... warmup iters: 1 iters: 20 agg iters: 1 ...". */
static int read_settings(struct log *l)
{
    if (begin_run(l) != 0)
        return -BB_EUSAGE;
    if (json_object_get(l->config, "ngpus"))
        return reject_line(l,
                           "a second run of nccl-tests begins before the table of the first (nccl-tests built without "
                           "MPI runs each rank separately)");
    json_object_set_new(l->config, "nthreads", json_integer(1)); /* nccl-tests prints one line per GPU, so each
                                                                    listed device has one thread and one GPU */
    json_object_set_new(l->config, "ngpus", json_integer(1));
    for (int i = 1; i + 1 < l->n; i++)
        if (strcmp(l->word[i], "iters:") == 0)
            set_integer(l->config,
                        strcmp(l->word[i - 1], "warmup") == 0 ? "warmup_iters"
                        : strcmp(l->word[i - 1], "agg") == 0  ? "aggregated_iterations"
                                                              : "iterations",
                        l->word[i + 1]);
    read_sizes(l);
    set_integer(l->config, "graph", word_after(l, "graph:"));
    set_integer(l->config, "gpus_per_thread", word_after(l, "nGpus"));
    return 0;
}

static int read_processes(struct log *l)
{
    json_object_set_new(l->root, "process_per_gpu", json_true());
    return 0;
}

static int read_blocking(struct log *l)
{
    json_object_set_new(l->config, "blocking_collectives", json_true());
    return 0;
}

/* Records a GPU as used. If the GPU is already in use by another rank, marks the file: shared GPUs make the timings
 * meaningless. Older versions print only the bus of the PCI address, "[0x01]", which all GPUs of a host may have in
 * common; then the device number distinguishes them. */
static void record_gpu(struct log *l, const char *host, const char *pci)
{
    const char *device = strchr(pci, ':') ? "" : word_after(l, "device");
    char gpu[512];

    snprintf(gpu, sizeof(gpu), "%.400s %.50s %.50s", host, pci, device ? device : "");
    if (json_object_get(l->seen, gpu))
        json_object_set_new(l->root, "shared_gpu", json_true());
    json_object_set_new(l->seen, gpu, json_true());
}

/* Reads a device line, "#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3".
 * nccl-tests prints "Group" since version 2.12. */
static int read_device(struct log *l)
{
    const char *host = word_after(l, "on");
    long long rank, group = 0;
    char name[NAME] = "";
    size_t used = 0;
    json_t *device;
    int pci = 0;

    while (pci < l->n && l->word[pci][0] != '[')
        pci++;
    for (int i = pci + 1; i < l->n && used + 1 < NAME; i++) /* the rest of the line is the name of the GPU */
        used += (size_t)snprintf(name + used, NAME - used, "%s%s", used ? " " : "", l->word[i]);
    if (l->p->ranks > 0 && (json_array_size(l->devices) > 0 || !*name))
        return 0; /* of a list that may be incomplete, only the name of the GPUs is read */
    if (!parse_integer(word_after(l, "Rank"), &rank) || !host || !*name)
        return reject_line(l, "incomplete device line; expected '#  Rank 0 Group 0 Pid 1 on HOST device 0 [ID] NAME'");
    if (rank != (long long)json_array_size(l->devices) && l->p->ranks == 0)
        return bb_err(BB_EUSAGE,
                      "%s: line %d: rank %lld instead of %zu; expected every rank once (nccl-tests built without MPI "
                      "runs each rank separately); for a shortened list try: all_reduce:16x2=%s with 16 ranks on 2 "
                      "nodes",
                      l->path, l->line, rank, json_array_size(l->devices), l->path);
    (void)parse_integer(word_after(l, "Group"), &group);
    record_gpu(l, host, l->word[pci]);
    device = json_pack("{s:I, s:I, s:s, s:s}", "rank", (json_int_t)rank, "group", (json_int_t)group, "hostname", host,
                       "device_info", name);
    if (!device)
        return reject_line(l, "the device name is not valid UTF-8");
    json_array_append_new(l->devices, device);
    return 0;
}

/* Reads "NCCL version 2.28.9+cuda13.0", a line printed by NCCL itself. */
static int read_version(struct log *l)
{
    int major, minor, patch;

    if (l->n > 2 && sscanf(l->word[2], "%3d.%3d.%3d", &major, &minor, &patch) == 3 && major > 0)
        json_object_set_new(l->root, "nccl_version", json_integer(major * 10000 + minor * 100 + patch));
    return 0;
}

/* Reads "# nccl-tests version 2.18.3 nccl-headers=23003 nccl-library=23003". */
static int read_library(struct log *l)
{
    static const char key[] = "nccl-library=";

    for (int i = 0; i < l->n; i++)
        if (strncmp(l->word[i], key, strlen(key)) == 0)
            set_integer(l->root, "nccl_version", l->word[i] + strlen(key));
    return 0;
}

/* The first line of nccl-tests. busbar prints its own version last. */
static int read_first_line(struct log *l)
{
    return begin_run(l) != 0 ? -BB_EUSAGE : read_library(l);
}

static int read_emulated(struct log *l)
{
    json_object_set_new(l->root, "emulated", json_true());
    return 0;
}

/* ---- parsers of the table heading and the table rows ---- */

static void assign_column(struct columns *c, int *places, const char *name, int at)
{
    const bool by_cpu = strcmp(name, "cputime") == 0;

    for (int i = 0; i < COLUMNS; i++)
        if (c->at[i] < 0 && strcmp(name, column_names[i]) == 0)
            c->at[i] = at;
    if ((by_cpu || strcmp(name, "time") == 0) && *places < PLACES) {
        c->place[*places].by_cpu = by_cpu;
        c->place[(*places)++].time = at;
    } else if ((strcmp(name, "#wrong") == 0 || strcmp(name, "error") == 0) && *places > 0)
        c->place[*places - 1].wrong = at;
}

static int read_columns(struct log *l)
{
    struct columns c = {{-1, -1, -1, -1, -1, -1}, l->n - 1, {{-1, -1, false}, {-1, -1, false}}};
    int places = 0;

    for (int i = 1; i < l->n; i++)
        assign_column(&c, &places, l->word[i], i - 1);
    if (l->columns.n > 0)
        return reject_line(l, "a second table begins; expected one table per file");
    if (c.at[SIZE] < 0 || c.at[TYPE] < 0 || places == 0)
        return reject_line(l, "not a table heading of nccl-tests; expected columns 'size', 'type' and 'time'");
    l->columns = c;
    l->in_table = true;
    return 0;
}

static int end_table(struct log *l)
{
    l->in_table = false;
    return 0;
}

/* Adds the number in column `at` of the current row to an object. Adds null if that word is N/A or if the table lacks
 * the column (at < 0). */
static int set_number(const struct log *l, json_t *object, const char *key, int at)
{
    const char *word = at < 0 ? "N/A" : l->word[at];
    double number = NAN;
    char *end;

    if (strcmp(word, "N/A") != 0) {
        number = strtod(word, &end);
        if (end == word || *end || number < 0)
            return bb_err(BB_EUSAGE, "%s: line %d: '%.40s' in column %d is not a number", l->path, l->line, word,
                          at + 1);
    }
    return json_object_set_new(object, key, isfinite(number) ? json_real(number) : json_null());
}

/* Adds the time in column `at` of a row, in us. A time of 0 for data, or an infinite one, is none of a clock. */
static int set_time(const struct log *l, json_t *object, const char *key, int at, json_int_t bytes)
{
    const double us = strtod(l->word[at], NULL);

    if (strcmp(l->word[at], "N/A") != 0 && (isinf(us) || (us == 0 && bytes > 0)))
        return bb_err(BB_EUSAGE, "%s: line %d: '%.40s' in column %d is not a time in us", l->path, l->line, l->word[at],
                      at + 1);
    return set_number(l, object, key, at);
}

/* Returns the column of a place that corresponds to column `first` of the first place; -1: none. */
static int column_of_place(const struct columns *c, int place, int first)
{
    int at = first < 0 ? -1 : first + c->place[place].time - c->place[0].time;

    return at < c->n ? at : -1;
}

static int add_place(const struct log *l, json_t *row, int place)
{
    const struct columns *c = &l->columns;
    json_t *times = json_object();
    int rc;

    json_object_set_new(row, place ? "in_place" : "out_of_place", times);
    TRY(set_time(l, times, c->place[place].by_cpu ? "cpu_time" : "time", c->place[place].time,
                 json_integer_value(json_object_get(row, "size"))));
    TRY(set_number(l, times, "alg_bw", column_of_place(c, place, c->at[ALGBW])));
    TRY(set_number(l, times, "bus_bw", column_of_place(c, place, c->at[BUSBW])));
    TRY(set_number(l, times, "nwrong", c->place[place].wrong));
out:
    return rc;
}

/* Records the ratio busbw / algbw of the current row. Skips rows below LEAST_GBPS, whose two printed decimals are
 * too imprecise. */
static void record_bus_factor(struct log *l)
{
    const struct columns *c = &l->columns;
    const double algbw = c->at[ALGBW] < 0 ? 0 : strtod(l->word[c->at[ALGBW]], NULL);
    const double busbw = c->at[BUSBW] < 0 ? 0 : strtod(l->word[c->at[BUSBW]], NULL);

    if (algbw >= LEAST_GBPS && isfinite(algbw) && busbw > 0)
        l->bus_factor = busbw / algbw;
}

/* Versions before 2.13 leave the reduction blank in operations without one: inserts "none". */
static void fill_blank_redop(struct log *l)
{
    const int at = l->columns.at[REDOP];

    if (at < 0 || l->n != l->columns.n - 1 || at >= l->n || isalpha((unsigned char)l->word[at][0]))
        return;
    memmove(l->word + at + 1, l->word + at, sizeof(*l->word) * (size_t)(l->n++ - at));
    l->word[at] = "none";
}

static int read_row(struct log *l)
{
    const struct columns *c = &l->columns;
    long long bytes;
    json_t *row;
    int rc = 0;

    fill_blank_redop(l);
    if (l->n < c->n || !parse_integer(l->word[c->at[SIZE]], &bytes))
        return bb_err(BB_EUSAGE, "%s: line %d: the row has %d words, expected %d columns with an integer size", l->path,
                      l->line, l->n, c->n);
    row = json_pack("{s:I, s:s, s:s, s:s}", "size", (json_int_t)bytes, "type", l->word[c->at[TYPE]], "redop",
                    c->at[REDOP] < 0 ? "none" : l->word[c->at[REDOP]], "root",
                    c->at[ROOT] < 0 ? "-1" : l->word[c->at[ROOT]]);
    if (!row)
        return reject_line(l, "the row is not valid UTF-8");
    for (int place = 0; place < PLACES; place++)
        if (c->place[place].time >= 0)
            TRY(add_place(l, row, place));
    record_bus_factor(l);
    l->largest = bytes > l->largest ? bytes : l->largest;
    json_array_append(l->results, row);
out:
    json_decref(row);
    return rc;
}

/* ---- selecting the parser of each line ---- */

static const struct {
    const char *words[4]; /* leading words of the lines that `read` parses */
    int (*read)(struct log *l);
} lines[] = {
    {{"#", "Collective", "test"}, read_program},
    {{"#", "nThread"}, read_settings},
    {{"#", "-g"}, read_processes},
    {{"#", "Blocking", "Enabled:"}, read_blocking},
    {{"#", "Rank"}, read_device},
    {{"#", "nccl-tests", "version"}, read_first_line},
    {{"#", "busbar", "version"}, read_library},
    {{"NCCL", "version"}, read_version},
    {{"#", "emulated", "GPUs:"}, read_emulated},
    {{"#", "size"}, read_columns},
    {{"#", "Out", "of", "bounds"}, end_table},
};

static bool begins_with(const struct log *l, const char *const words[4])
{
    for (int i = 0; i < 4 && words[i]; i++)
        if (i >= l->n || strcmp(l->word[i], words[i]) != 0)
            return false;
    return true;
}

static int read_line(struct log *l)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (begins_with(l, lines[i].words))
            return lines[i].read(l);
    if (l->in_table && l->n > 0 && isdigit((unsigned char)l->word[0][0]))
        return read_row(l);
    return 0;
}

static int read_lines(struct log *l, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0;

    while (rc == 0 && getline(&line, &room, file) >= 0) {
        l->line++;
        split_words(l, skip_tag(line));
        rc = read_line(l);
    }
    if (rc == 0 && !feof(file))
        rc = bb_err(BB_EFAIL, "%s: %s", l->path, strerror(errno));
    free(line);
    return rc;
}

/* ---- checks of the whole output ---- */

/* Checks the operation that the user states for output that does not contain it. Returns an error if the ratio busbw
 * / algbw in the output is not the bus factor of the stated operation. */
static int check_factor(const struct log *l, const char *operation)
{
    const int kind = bb_coll_find(operation), ranks = (int)json_array_size(l->devices);
    const double expected = kind < 0 ? 0 : bb_colls[kind].bus_factor(ranks);

    if (l->bus_factor <= 0 || expected <= 0 || fabs(l->bus_factor / expected - 1) < 0.02)
        return 0;
    return bb_err(BB_EUSAGE, "%s: busbw / algbw is %.3g, but %s on %d ranks has %.3g", l->path, l->bus_factor,
                  operation, ranks, expected);
}

/* Returns the operation that the name of the file contains, or whose bus factor no other has; else "OPERATION". */
static const char *likely_operation(const struct log *l)
{
    const char *name = bb_base_name(l->path), *found = NULL;
    const double factor = bb_colls[BB_ALL_REDUCE].bus_factor((int)json_array_size(l->devices));

    for (int k = 0; k < BB_COLL_KIND_COUNT; k++)
        if (strstr(name, bb_colls[k].name) && (!found || strlen(bb_colls[k].name) > strlen(found)))
            found = bb_colls[k].name;
    return found ? found : fabs(l->bus_factor / factor - 1) < 0.02 ? bb_colls[BB_ALL_REDUCE].name : "OPERATION";
}

/* Determines the operation from the output, or from `operation` as stated by the user (NULL: not stated). If both
 * are known, they must agree. */
static int resolve_program(struct log *l, const char *operation)
{
    char expected[NAME] = "";

    if (operation)
        snprintf(expected, sizeof(expected), "%.40s_perf", operation);
    if (!operation && !*l->program)
        return bb_err(BB_EUSAGE,
                      "%s: the output does not contain the operation (versions of nccl-tests before 2.16.7); try: "
                      "%s=%s",
                      l->path, likely_operation(l), l->path);
    if (*l->program && strncmp(l->program, expected, strlen(expected)) != 0)
        return bb_err(BB_EUSAGE, "%s: output of %s, not of %s", l->path, l->program, operation);
    json_object_set_new(l->root, "args", json_pack("[s]", *l->program ? l->program : expected));
    return *l->program ? 0 : check_factor(l, operation);
}

static int check_whole(const struct log *l)
{
    if (l->columns.n == 0)
        return bb_err(BB_EUSAGE,
                      "%s: not a result file: neither a JSON object nor nccl-tests output with a table; busbar's own "
                      "results are read from --json, not from --csv",
                      l->path);
    if (json_array_size(l->results) == 0)
        return bb_err(BB_EUSAGE, "%s: nccl-tests' table has no rows; expected the whole output of a run", l->path);
    if (json_array_size(l->devices) == 0)
        return bb_err(BB_EUSAGE,
                      "%s: no devices above nccl-tests' table; expected the whole output of a run, with one line per "
                      "rank ('#  Rank  0 Group  0 ...'), or try: all_reduce:16x2=%s with 16 ranks on 2 nodes",
                      l->path, l->path);
    return 0;
}

/* Warns if the settings of the run have a size after the last one of its table: the run was ended, or its output was cut. */
static void warn_of_missing_sizes(const struct log *l)
{
    const double next = l->is_factor ? (double)l->largest * l->step : (double)l->largest + l->step;
    char largest[BB_BYTES_TEXT], max[BB_BYTES_TEXT];

    if (l->max_bytes > 0 && l->largest > 0 && next > (double)l->largest && next <= (double)l->max_bytes)
        bb_warn("%s: the table%s%s ends at %s, before maxBytes %s of its header: the output is incomplete", l->path,
                *l->program ? " of " : "", l->program, bb_format_bytes((size_t)l->largest, largest),
                bb_format_bytes((size_t)l->max_bytes, max));
}

int bb_nccl_tests_text_read(const struct bb_nccl_tests_output *p, json_t **runs)
{
    struct log l = {.p = p, .path = p->path, .line = p->lines, .runs = json_array()};
    int rc;

    *runs = NULL;
    clear_run(&l);
    TRY(read_lines(&l, p->file));
    TRY(end_run(&l));
    *runs = json_incref(l.runs);
out:
    json_decref(l.root);
    json_decref(l.seen);
    json_decref(l.runs);
    return rc;
}
