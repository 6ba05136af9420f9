/*
 * test_study.c - study files: which are accepted and rejected, that random text is safe, which combinations they expand
 * to, and that a shell reads quoted words back unchanged.
 */
#include "bootstrap/cli/opts.h"
#include "bootstrap/sweep/expand.h"
#include "bootstrap/sweep/state.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- a command for the studies ---- */

struct toy {
    int size;
    double factor;
    bool flag;
    const char *text, *word;
};

static const char *const toy_words[] = {"float", "half", NULL};
static const struct bb_opt toy_rows[] = {
    {.letter = 's', .name = "size", .kind = BB_OPT_INT, .offset = offsetof(struct toy, size), .min = 1, .max = 100},
    {.name = "factor", .kind = BB_OPT_DOUBLE, .offset = offsetof(struct toy, factor)},
    {.name = "flag", .kind = BB_OPT_FLAG, .offset = offsetof(struct toy, flag)},
    {.name = "text", .kind = BB_OPT_STRING, .offset = offsetof(struct toy, text)},
    {.name = "dtype", .kind = BB_OPT_CHOICE, .offset = offsetof(struct toy, word), .choices = toy_words},
    {0},
};
static const struct bb_opt_table toy_tables[] = {{.opts = toy_rows}, {0}};
static const struct bb_opts toy_set = {.usage = "toy", .tables = toy_tables};

static int check_toy(int argc, char **argv)
{
    return bb_opts_check(&toy_set, argc, argv);
}

static const struct bb_study_command commands[] = {{.name = "toy", .launched = true, .check = check_toy},
                                                   {.name = "paper", .check = check_toy}};

/* The reader takes a file name; this file is in memory. */
static int load_text(struct bb_study *study, const char *text, size_t length)
{
    static char path[32];
    static int file = -1;

    if (file < 0) {
        file = memfd_create("a.json", 0);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    }
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, length, 0), (ssize_t)length);
    return bb_study_load(study, path);
}

static int expand_limited(const char *text, size_t max_combinations, struct bb_study *study, struct bb_sweep_runs *c)
{
    const struct bb_expand_plan plan = {.commands = commands, .n_commands = 1, .max_combinations = max_combinations};
    int rc = load_text(study, text, strlen(text));

    *c = (struct bb_sweep_runs){0};
    return rc ? rc : bb_expand(c, study, &plan);
}

static int expand(const char *text, struct bb_study *study, struct bb_sweep_runs *c)
{
    return expand_limited(text, 1000, study, c);
}

/* ---- rejected studies ---- */

/* Each is rejected with exit status 2 and one line that contains `parts`. */
static const struct {
    const char *text, *parts[3];
} bad[] = {
    {"", {"/proc/self/fd/", "not JSON"}},
    {"[]", {"not a study"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"command\": \"toy\"}", {"not JSON", "duplicate"}},
    {"{\"comand\": \"toy\"}", {"comand", "did you mean 'command'"}},
    {"{\"command\": \"toy\", \"slurm\": {\"line\": []}}", {"slurm.line", "'lines'"}},
    {"{\"command\": \"toy\"}", {"ranks"}},
    {"{\"ranks\": 2}", {"no command"}},
    {"{\"command\": \"tyo\", \"ranks\": 2}", {"'tyo'", "toy"}},
    {"{\"command\": 5}", {"command is 5"}},
    {"{\"command\": [\"toy\", 5]}", {"command[1] is 5"}},
    {"{\"command\": [\"toy\", [\"a\"], [\"b\"]]}", {"2 words", "choices"}},
    {"{\"command\": [\"toy\", \"--help\"], \"ranks\": 1}", {"--help"}},
    {"{\"command\": [\"toy\", \"--json=x\"], \"ranks\": 1}", {"--json", "leave it out"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"options\": {\"json\": \"x\"}}", {"--json", "leave it out"}},
    {"{\"command\": \"toy --csv x\", \"ranks\": 1}", {"--csv", "leave it out"}},
    {"{\"command\": \"./x {size}\", \"values\": {\"sise\": 4}}", {"placeholder 'size'", "did you mean 'sise'"}},
    {"{\"command\": \"./x {ranks} {json}\"}", {"placeholder 'ranks'"}},
    {"{\"command\": \"./x {json}\", \"values\": {\"size\": 4}}", {"values.size is not used", "{size}"}},
    {"{\"command\": \"./x\", \"values\": {\"json\": 4}}", {"values.json", "{json}", "another name"}},
    {"{\"command\": \"./x\", \"values\": {\"a-b\": 4}}", {"values.a-b", "not a valid placeholder name"}},
    {"{\"command\": \"./x\", \"values\": {\"a\": null}}", {"values.a is null"}},
    {"{\"command\": \"./x\", \"metrics\": {\"t\": \"time: (\\\\d+)\"}}", {"metrics.t", "contains \\d", "[0-9]"}},
    {"{\"command\": \"./x 'a b'\"}", {"command is \"./x 'a b'\"", "list of words"}},
    {"{\"command\": \"./x\"}", {"./x has no metrics", "{json}"}},
    {"{\"command\": \"./x\", \"metrics\": {}}", {"metrics is {}"}},
    {"{\"command\": \"./x\", \"metrics\": {\"t\": \"time: [0-9.]+\"}}", {"metrics.t", "no group"}},
    {"{\"command\": \"./x\", \"metrics\": {\"t\": \"time: ([0-9.]+\"}}", {"metrics.t", "regular expression"}},
    {"{\"command\": \"./x\", \"metrics\": {\"t.p50\": \"([0-9.]+)\"}}", {"metrics.t.p50", "metric name"}},
    {"{\"command\": \"./x\", \"environment\": {\"A\": \"{json}\"}, \"metrics\": {\"t\": \"([0-9]+)\"}}", {"{json}"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"metrics\": {\"t\": \"([0-9]+)\"}}", {"metrics", "'toy'", "leave it out"}},
    {"{\"command\": \"toy {json}\", \"ranks\": 1}", {"{json}", "'toy'"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"options\": {\"sise\": 4}}", {"'--sise=4'", "did you mean '--size'"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"options\": {\"size\": [4, 400]}}", {"size=400", "'400'", "from 1 to 100"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"options\": {\"dtype\": [\"float\", \"hafl\"]}}", {"dtype=hafl", "'half'"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"options\": {\"flag\": 1}}", {"--flag", "takes no value"}},
    {"{\"command\": \"toy\", \"options\": {\"--size\": 1}}", {"without dashes"}},
    {"{\"command\": \"toy\", \"options\": {\"size\": []}}", {"options.size is []", "non-empty list"}},
    {"{\"command\": \"toy\", \"options\": {\"size\": [1, 2, 1]}}", {"options.size has 1 twice"}},
    {"{\"command\": \"toy\", \"options\": {\"size\": {}}}", {"options.size is {}"}},
    {"{\"command\": \"toy\", \"environment\": {\"A-B\": 1}}", {"A-B", "not a valid variable name"}},
    {"{\"command\": \"toy\", \"environment\": {\"A\": true}}", {"environment.A is true"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 0]}", {"ranks[1] is 0", "from 1"}},
    {"{\"command\": \"toy\", \"ranks\": 1.5}", {"ranks is 1.5"}},
    {"{\"command\": \"toy\", \"timeout_s\": -1}", {"timeout_s is -1"}},
    {"{\"command\": \"toy\", \"name\": \"a/b\"}", {"name is \"a/b\"", "letters"}},
    {"{\"command\": \"toy\", \"about\": \"a\\nb\"}", {"about", "one line"}},
    {"{\"command\": \"toy\", \"choices\": {\"c\": {}}}", {"choices.c is {}"}},
    {"{\"command\": \"toy\", \"choices\": {\"c\": {\"a\": {\"rank\": 1}}}}", {"choices.c.a.rank", "'ranks'"}},
    {"{\"command\": \"toy\", \"choices\": {\"c\\nrm\": {\"a\": {}}}}", {"control character"}},
    {"{\"command\": \"toy\", \"choices\": {\"c\": {\"\": {}}}}", {"choices.c is empty"}},
    {"{\"command\": \"toy\", \"cases\": [{\"ranks\": 1}]}", {"cases[0]", "name"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"cases\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}", {"same name"}},
    {"{\"command\": \"toy\", \"ranks\": 1, \"cases\": [{\"name\": \"a\"}, {\"name\": \"b\"}]}",
     {"the same", "1 (case=a)", "2 (case=b)"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"leave_out\": [{\"rank\": 1}]}", {"leave_out", "'rank'", "'ranks'"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"leave_out\": [{\"ranks\": 3}]}", {"ranks has no value 3"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"leave_out\": [{\"ranks\": [1, 2]}]}", {"every combination"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"options\": {\"size\": [1, 2]}, \"leave_out\": [{\"ranks\": 1}, "
     "{\"ranks\": 1, \"size\": 2}, {\"ranks\": 2, \"size\": 1}], \"repeats\": 0}",
     {"repeats is 0"}},
    {"{\"command\": \"toy\", \"ranks\": 2, \"leave_out\": [{\"ranks\": 2}]}", {"the study has no axes"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"columns\": [{\"value\": \"x\", \"relative_to\": {\"ranks\": 4}}]}",
     {"relative_to", "no value 4"}},
    {"{\"command\": \"toy\", \"columns\": [{\"value\": \"x\", \"relative_to\": {\"ranks\": [4]}}]}", {"one reference"}},
    {"{\"command\": \"toy\", \"columns\": [{\"name\": \"x\"}]}", {"columns[0]", "value"}},
    {"{\"command\": \"toy\", \"launch\": {\"with\": \"ssh\"}}", {"launch.with is \"ssh\"", "mpirun"}},
    {"{\"command\": \"toy\", \"slurm\": {\"lines\": [\"--array=1-4\"]}}", {"--array", "at_once"}},
    {"{\"command\": \"toy\", \"slurm\": {\"lines\": [\"-p x\\n#SBATCH -t 1\"]}}", {"slurm.lines[0]", "one line"}},
    {"{\"command\": \"toy\", \"slurm\": {\"at_once\": 0}}", {"slurm.at_once is 0"}},
    {"{\"command\": \"toy\", \"ranks\": [1, 2], \"choices\": {\"ranks\": {\"a\": {}}}}", {"two axes", "'ranks'"}},
};

static void rejects_invalid_studies(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        struct bb_sweep_runs c;
        struct bb_study study;
        struct capture captured;
        int rc;

        capture_begin(&captured);
        rc = expand(bad[i].text, &study, &c);
        capture_end(&captured);
        bb_sweep_runs_release(&c);
        bb_study_release(&study);
        if (rc != -BB_EUSAGE || !strchr(captured.text, '\n') || strchr(captured.text, '\n')[1])
            fail_msg("%s gave %d and: %s", bad[i].text, rc, captured.text);
        for (size_t w = 0; w < 3 && bad[i].parts[w]; w++)
            if (!strstr(captured.text, bad[i].parts[w]))
                fail_msg("%s: no \"%s\" in: %s", bad[i].text, bad[i].parts[w], captured.text);
    }
}

static void rejects_a_rule_without_effect(void **state)
{
    struct bb_sweep_runs c;
    struct bb_study study;
    struct capture captured;

    (void)state;
    capture_begin(&captured);
    assert_int_equal(expand("{\"command\": \"toy\", \"ranks\": [1, 2], \"cases\": [{\"name\": \"a\", \"ranks\": 1}, "
                            "{\"name\": \"b\"}], \"leave_out\": [{\"case\": \"a\", \"ranks\": 2}]}",
                            &study, &c),
                     -BB_EUSAGE);
    capture_end(&captured);
    assert_non_null(strstr(captured.text, "leave_out[0] leaves out nothing"));
    bb_sweep_runs_release(&c);
    bb_study_release(&study);
}

static void rejects_too_many_combinations(void **state)
{
    static const char text[] = "{\"command\": \"toy\", \"ranks\": [1, 2, 3], \"repeats\": 5}";
    struct bb_sweep_runs c;
    struct bb_study study;
    struct capture captured;

    (void)state;
    for (int max_combinations = 14; max_combinations <= 15; max_combinations++) {
        capture_begin(&captured);
        assert_int_equal(expand_limited(text, (size_t)max_combinations, &study, &c),
                         max_combinations == 15 ? 0 : -BB_EUSAGE);
        capture_end(&captured);
        bb_sweep_runs_release(&c);
        bb_study_release(&study);
    }
}

/* ---- combinations ---- */

static const char valid_study[] =
    "{\"command\": [\"toy\", \"-s\", \"3\"], \"options\": {\"factor\": [0.1, 2], \"flag\": [true, false], \"text\": "
    "null},"
    " \"environment\": {\"B\": [\"x y\", null], \"A\": 1}, \"ranks\": 4, \"launch_arguments\": [\"--bind-to\"],"
    " \"choices\": {\"transport\": {\"near\": {}, \"far\": {\"environment\": {\"A\": 2}, \"ranks\": [8, 16]}}},"
    " \"leave_out\": [{\"factor\": 2, \"flag\": true}], \"timeout_s\": 7}";

static const struct bb_sweep_run *find(const struct bb_sweep_runs *c, const char *settings)
{
    char text[512];

    for (size_t i = 0; i < c->n; i++)
        if (strcmp(bb_settings_text(&c->one[i], text, sizeof(text)), settings) == 0)
            return &c->one[i];
    fail_msg("no combination %s", settings);
    return NULL;
}

/* A list within the command is an axis; at most one is allowed. */
static void list_in_the_command_is_an_axis(void **state)
{
    struct bb_sweep_runs c;
    struct bb_study study;

    (void)state;
    assert_int_equal(expand("{\"command\": [\"toy\", [\"a\", \"b\"]], \"ranks\": 2}", &study, &c), 0);
    assert_int_equal(c.n, 2);
    assert_string_equal(c.one[1].words.word[1], "b");
    bb_sweep_runs_release(&c);
    bb_study_release(&study);
}

static void expands_all_combinations(void **state)
{
    struct bb_sweep_runs c;
    struct bb_study study;
    const struct bb_sweep_run *one;

    (void)state;
    assert_int_equal(expand(valid_study, &study, &c), 0);
    assert_int_equal(c.n, 6 + 12); /* (2 factors x 2 flags - 1 left out) x 2 values of B = 6, once for near and twice
                                      for far */
    one = find(&c, "transport=near factor=0.1 flag=yes B=x y");
    assert_int_equal(one->ranks, 4);
    assert_int_equal(one->words.n, 5);
    assert_string_equal(one->words.word[3], "--factor=0.1");
    assert_string_equal(one->words.word[4], "--flag");
    assert_string_equal(one->environment.word[0], "A=1");
    assert_string_equal(one->environment.word[1], "B=x y");
    assert_string_equal(one->launch_arguments.word[0], "--bind-to");
    assert_true(one->timeout_s == 7 && one->launched);
    one = find(&c, "transport=far factor=2 flag=no B=- ranks=16");
    assert_int_equal(one->words.n, 4);
    assert_string_equal(one->environment.word[0], "A=2");
    assert_string_equal(one->environment.word[1], "B");
    assert_int_equal(one->ranks, 16);
    bb_sweep_runs_release(&c);
    bb_study_release(&study);
}

/* Programs other than busbar: values fill placeholders within words, and braces that are not placeholders stay. */
static void fills_placeholders_of_programs(void **state)
{
    struct bb_sweep_runs c;
    struct bb_study study;

    (void)state;
    assert_int_equal(
        expand("{\"command\": [\"./x\", \"{n}:{n}\", \"${n} {\\\"a\\\": 1} {}\", \"{json}\"], \"ranks\": [1, 2],"
               " \"values\": {\"n\": [8, \"{n} a\"]}, \"environment\": {\"A\": \"{ranks}\"},"
               " \"options\": {\"json\": \"{id}\"}, \"launch_arguments\": [\"-N{n}\"]}",
               &study, &c),
        0);
    assert_int_equal(c.n, 4);
    assert_true(c.one[3].is_program && c.one[3].launched && c.one[3].writes_json && !c.one[3].takes_ranks);
    assert_string_equal(c.one[0].words.word[1], "8:8");
    assert_string_equal(c.one[3].words.word[1], "{n} a:{n} a");
    assert_string_equal(c.one[3].words.word[2], "${n} {\"a\": 1} {}");
    assert_string_equal(c.one[3].words.word[3], "{json}");
    assert_string_equal(c.one[3].words.word[4] + strlen("--json="), c.one[3].id);
    assert_string_equal(c.one[3].environment.word[0], "A=2");
    assert_string_equal(c.one[0].launch_arguments.word[0], "-N8");
    bb_sweep_runs_release(&c);
    bb_study_release(&study);
}

/* An id depends only on the contents of its run, not on the order of keys or on other runs of the study. */
static void ids_depend_only_on_contents(void **state)
{
    static const char *const texts[] = {
        "{\"command\": \"toy\", \"ranks\": 4, \"environment\": {\"A\": 1, \"B\": 2}, \"options\": {\"size\": [1, 2]}}",
        "{\"options\": {\"size\": [2, 3, 1]}, \"environment\": {\"B\": \"2\", \"A\": \"1\"}, \"ranks\": 4, "
        "\"command\": \"toy\", \"timeout_s\": 9, \"about\": \"the same\"}"};
    struct bb_sweep_runs c[2];
    struct bb_study study[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(expand(texts[i], &study[i], &c[i]), 0);
    assert_string_equal(c[0].one[0].id, c[1].one[2].id);
    assert_string_equal(c[0].one[1].id, c[1].one[0].id);
    assert_string_not_equal(c[0].one[0].id, c[0].one[1].id);
    for (int i = 0; i < 2; i++) {
        bb_sweep_runs_release(&c[i]);
        bb_study_release(&study[i]);
    }
}

/* ---- ranks from the command line, and run states on disk ---- */

/* Rank counts of the command line replace those of the file: one is a setting, several form an axis. */
static void command_line_ranks_replace_those_of_the_file(void **state)
{
    static const char text[] = "{\"command\": \"toy\", \"ranks\": 3, \"options\": {\"size\": [1, 2]}}";
    static const struct {
        const char *ranks;
        int rc;
        size_t n;
    } rows[] = {{NULL, 0, 2},         {"4", 0, 2},          {"2,4,8", 0, 6},
                {"x", -BB_EUSAGE, 0}, {"0", -BB_EUSAGE, 0}, {"2,", -BB_EUSAGE, 0}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const struct bb_expand_plan plan = {
            .commands = commands, .n_commands = 1, .ranks = rows[i].ranks, .max_combinations = 100};
        struct bb_sweep_runs c = {0};
        struct bb_study study;

        print_message("  %s\n", rows[i].ranks ? rows[i].ranks : "-");
        assert_int_equal(load_text(&study, text, strlen(text)), 0);
        assert_int_equal(bb_expand(&c, &study, &plan), rows[i].rc);
        if (rows[i].rc == 0)
            assert_int_equal(c.n, rows[i].n);
        bb_sweep_runs_release(&c);
        bb_study_release(&study);
    }
}

static void put(const char *dir, const struct bb_sweep_run *c, const char *ending, const char *text)
{
    char *path = bb_sweep_file(dir, c, ending);
    FILE *file = fopen(path, "w");

    fputs(text, file);
    fclose(file);
    free(path);
}

static void derives_the_state_from_files(void **state)
{
    static const struct {
        const char *result, *run;
        enum bb_sweep_state state;
    } cases[] = {
        {NULL, NULL, BB_SWEEP_TO_DO},
        {"{\"schema\": \"busbar.bench/1\", \"status\": \"running\"}", NULL, BB_SWEEP_TO_DO}, /* killed during the run */
        {"{\"schema\": \"busbar.bench/1\", \"stat", NULL, BB_SWEEP_TO_DO}, /* killed while it wrote the file */
        /* killed before its .run.json file was written */
        {"{\"schema\": \"busbar.bench/1\", \"status\": \"ok\"}", NULL, BB_SWEEP_COMPLETE},
        {"{\"schema\": \"busbar.plan/1\"}", "{\"exit_status\": 0, \"seconds\": 1}", BB_SWEEP_COMPLETE},
        {"{\"schema\": \"busbar.plan/1\"}", "{\"exit_status\": 5}", BB_SWEEP_BELOW}, /* plan --must-fit */
        {"{\"schema\": \"busbar.bench/1\", \"status\": \"ok\"}", "{\"exit_status\": 137}", BB_SWEEP_FAILED},
        {"{}", "{\"exit_status\": 0, \"seconds\": 1}", BB_SWEEP_FAILED},
        {NULL, "{\"exit_status\": 2, \"seconds\": 1}", BB_SWEEP_FAILED},
        {NULL, "{\"exit_status\": 2, \"sec", BB_SWEEP_TO_DO},
        {"{\"schema\": \"busbar.bench/1\", \"status\": \"wrong data\"}", "{\"exit_status\": 3}", BB_SWEEP_FAILED},
    };
    char dir[] = "bb_study_XXXXXX";
    struct bb_sweep_run c = {.id = "0123456789abcdef"};

    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_sweep_found found;

        assert_int_equal(bb_sweep_remove_files(dir, &c), 0);
        if (cases[i].result)
            put(dir, &c, ".json", cases[i].result);
        if (cases[i].run)
            put(dir, &c, ".run.json", cases[i].run);
        bb_sweep_load_state(dir, &c, &found);
        if (found.state != cases[i].state)
            fail_msg("case %zu is %d", i, (int)found.state);
        bb_sweep_found_release(&found);
    }
    assert_int_equal(bb_sweep_remove_files(dir, &c), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Results of a program with exit status 0: the rows of its metrics, or the problem. */
static void derives_metrics_from_output(void **state)
{
    static const struct {
        const char *metrics, *out, *json, *expected; /* json: the program's file; NULL: the metrics are patterns */
    } cases[] = {
        {"{\"a\": \"A: ([0-9.]+)\"}", "x\nA: 7.5 s\n", NULL, "{\"results\":[{\"a\":7.5}]}"},
        {"{\"n\": \"^([0-9]+) \", \"t\": \" ([0-9.]+)$\", \"mean\": \"mean=(.*)$\"}", "1 2.5\r\n4 5\nmean=1e3", NULL,
         "{\"mean\":1000.0,\"results\":[{\"n\":1,\"t\":2.5},{\"n\":4,\"t\":5}]}"},
        {"{\"a\": \"A(: ([0-9]+))?\"}", "A\nA\n", NULL, "metric a: no line of the output matches 'A(: ([0-9]+))?'"},
        {"{\"a\": \"A: (.*)\"}", "A: 1\nA: nan\n", NULL, "metric a: 'nan' is not a number (pattern 'A: (.*)')"},
        {"{\"a\": \"^([0-9])\", \"b\": \"b([0-9])\"}", "1b1\n2b2\n3\n", NULL,
         "metric b: 2 lines match, but 3 lines match a; expected the same number, or one"},
        {"{\"a\": \"e([0-9])\"}", "", NULL, "{\"results\":[{\"a\":4}]}"}, /* only stderr, below, has a match */
        {"{\"a\": \"t.0\"}", "", "{\"t\": [3]}", "{\"t\":[3],\"a\":3}"},
        {"{\"a\": \"t\"}", "", "{\"results\": [{\"t\": 1}, {\"t\": 2}]}",
         "{\"results\":[{\"t\":1,\"a\":1},{\"t\":2,\"a\":2}]}"},
        {"{\"a\": \"t\"}", "", "{\"results\": [{\"t\": 1}, {}]}", "metric a: the JSON file has no number at 't'"},
        {"{\"a\": \"t\"}", "", "[]", "the program wrote no JSON object to {json}, "},
    };
    char dir[] = "bb_study_XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct bb_sweep_run c = {.id = "0123456789abcdef",
                                 .is_program = true,
                                 .writes_json = cases[i].json,
                                 .metrics = json_loads(cases[i].metrics, 0, NULL)};
        json_t *result;
        char *problem, *text;

        put(dir, &c, ".out", cases[i].out);
        put(dir, &c, ".err", "e4\n");
        put(dir, &c, ".json", cases[i].json ? cases[i].json : "");
        result = bb_sweep_read_metrics(dir, &c, &problem);
        assert_true(!result == !!problem);
        text = result ? json_dumps(result, JSON_COMPACT) : problem;
        assert_memory_equal(text, cases[i].expected, strlen(cases[i].expected));
        free(text);
        json_decref(result);
        json_decref(c.metrics);
        assert_int_equal(bb_sweep_remove_files(dir, &c), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* ---- random studies ---- */

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/*
 * Studies with bytes changed, cut, duplicated and swapped yield 0 or -BB_EUSAGE. FUZZ_ROUNDS sets the number of rounds
 * (lower on an emulated processor).
 */
static void random_studies_do_not_crash(void **state)
{
    static const char inserts[] = "{}[]\":,0-1e9truenull\\u0000 \n\x80\xff";
    const char *given = getenv("FUZZ_ROUNDS");
    const int rounds = given ? atoi(given) : 20000;
    uint32_t seed = 5;
    int accepted = 0;

    (void)state;
    bb_err_mute(1);
    for (int round = 0; round < rounds; round++) {
        const char *from = round % 3 ? valid_study : bad[(size_t)round % ROWS(bad)].text;
        const struct bb_expand_plan plan = {.commands = commands, .n_commands = 2, .max_combinations = 100};
        char text[1024];
        size_t n = strlen(from);
        struct bb_sweep_runs c = {0};
        struct bb_study study;
        int rc;

        memcpy(text, from, n);
        for (uint32_t edits = next(&seed) % 4; edits > 0 && n > 0; edits--) {
            size_t at = next(&seed) % n, other = next(&seed) % n;

            if (next(&seed) % 3 == 0)
                n = n > 8 && next(&seed) % 8 == 0 ? at : n;
            else if (next(&seed) % 2)
                text[at < n ? at : 0] = inserts[next(&seed) % (sizeof(inserts) - 1)];
            else
                memmove(text + at, text + other, n - (at > other ? at : other));
        }
        rc = load_text(&study, text, n);
        rc = rc ? rc : bb_expand(&c, &study, &plan);
        if (rc != 0 && rc != -BB_EUSAGE)
            fail_msg("%.*s gave %d", (int)n, text, rc);
        accepted += rc == 0;
        bb_sweep_runs_release(&c);
        bb_study_release(&study);
    }
    bb_err_mute(0);
    assert_in_range(accepted, rounds / 20, rounds - rounds / 20); /* both accepted and rejected studies were tested */
}

/* A real shell reads quoted words back unchanged, including newlines and bytes above 127. */
static void shell_reads_quoted_words_unchanged(void **state)
{
    static const char some[] = "ab '\"$`\\\n\t;&|<>(){}*?[]#~=%!-\x80\xc3\xa4";
    char *script = NULL, word[16], back[16];
    size_t size, n_words = 300;
    uint32_t seed = 7;
    FILE *text = open_memstream(&script, &size), *shell;

    (void)state;
    fputs("printf '%s\\0'", text);
    for (size_t i = 0; i < n_words; i++) {
        size_t n = next(&seed) % 12;

        for (size_t k = 0; k < n; k++)
            word[k] = some[next(&seed) % (sizeof(some) - 1)];
        word[n] = '\0';
        fputc(' ', text);
        bb_quote(word, text);
    }
    fclose(text);
    shell = popen(script, "r");
    seed = 7;
    for (size_t i = 0; i < n_words; i++) {
        size_t n = next(&seed) % 12;

        for (size_t k = 0; k < n; k++)
            word[k] = some[next(&seed) % (sizeof(some) - 1)];
        word[n] = '\0';
        assert_int_equal(fread(back, 1, n + 1, shell), n + 1);
        assert_memory_equal(back, word, n + 1);
    }
    assert_int_equal(pclose(shell), 0);
    free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejects_invalid_studies),
        cmocka_unit_test(rejects_a_rule_without_effect),
        cmocka_unit_test(rejects_too_many_combinations),
        cmocka_unit_test(list_in_the_command_is_an_axis),
        cmocka_unit_test(expands_all_combinations),
        cmocka_unit_test(command_line_ranks_replace_those_of_the_file),
        cmocka_unit_test(ids_depend_only_on_contents),
        cmocka_unit_test(derives_the_state_from_files),
        cmocka_unit_test(fills_placeholders_of_programs),
        cmocka_unit_test(derives_metrics_from_output),
        cmocka_unit_test(random_studies_do_not_crash),
        cmocka_unit_test(shell_reads_quoted_words_unchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
