/* test_opts.c - the option table: defaults, syntax, rejected input with spelling suggestions, and help of a fixed
 * width. */
#include "bootstrap/cli/opts.h"
#include "tests/bootstrap/capture.h"
#include "tests/check.h"

struct cfg {
    int before;
    struct bb_common common;
    size_t min_bytes;
    int iters;
    double factor;
    bool check, graph;
    const char *dtype, *op, *file;
};

static const char *op_at(size_t i)
{
    static const char *const ops[] = {"sum", "prod", "min", "max"};

    return i < 4 ? ops[i] : NULL;
}

static const char *const dtypes[] = {"float", "half", "bfloat16", NULL};

#define FIELD(name) offsetof(struct cfg, name)
static const struct bb_opt own_options[] = {
    OPT_SIZE('b', "min-bytes", FIELD(min_bytes), "32M", "BYTES", 0, 0, "first size"),
    OPT_INT('n', "iters", FIELD(iters), "20", "N", 1, 1000, "timed iterations"),
    OPT_DOUBLE('f', "factor", FIELD(factor), "2", NULL, 1, 64, "a factor"),
    OPT_FLAG('c', "check", FIELD(check), "check the data"),
    OPT_FLAG('G', "graph", FIELD(graph), "use a graph"),
    OPT_CHOICE('d', "dtype", FIELD(dtype), "float", "TYPE", dtypes, "data type"),
    OPT_CHOICE_AT('o', "op", FIELD(op), "sum", "OP", op_at, "operation"),
    OPT_STRING(0, "file", FIELD(file), NULL, "A_LONG_NAME_FOR_A_FILE",
               "an option whose name fills the left side and whose help is so long that it has to be broken over more "
               "than one line"),
    {0},
};
static const struct bb_opt_table tables[] = {
    {.title = "Options", .opts = own_options},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};
static const struct bb_opts set = {
    .usage = "busbar test WORD... [OPTION...]", .doc = "A test.", .after = "The end.", .tables = tables};

/* Parses the arguments in `line`, which are separated by '|'. */
static int parse(const char *line, struct cfg *cfg, struct bb_positionals *positionals)
{
    static char text[1024];
    static char *argv[128];
    FILE *help;
    int argc = 1, rc;

    argv[0] = "busbar";
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = text; *line && word; argc++) {
        argv[argc] = word;
        word = strchr(word, '|');
        if (word)
            *word++ = '\0';
    }
    argv[argc] = NULL;
    memset(cfg, 0x55, sizeof(*cfg));
    help = fopen("/dev/null", "w");
    rc = bb_opts_parse(&set, cfg, argc, argv, positionals, help);
    fclose(help);
    return rc;
}

/* Numbers and lists, also without a struct for the values (the options of a sweep are only checked). */
static void reads_lists_of_numbers(void **state)
{
    static const struct bb_opt rows[] = {OPT_INTS(0, "sizes", 0, "3", "N[,N...]", 1, 9, "sizes"), {0}};
    static const struct bb_opt_table list_tables[] = {{.title = "Options", .opts = rows}, {0}};
    static const struct bb_opts lists = {.usage = "busbar test [OPTION...]", .tables = list_tables};
    static const struct {
        char *argument;
        int rc, first;
        const char *list;
    } cases[] = {{"--sizes=7", 0, 7, NULL},
                 {"--sizes=5,7", 0, 5, "5,7"},
                 {"--sizes=5,", -BB_EUSAGE, 0, NULL},
                 {"--sizes=5,10", -BB_EUSAGE, 0, NULL}};
    struct bb_positionals positionals;
    struct bb_opt_ints value;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        char *argv[] = {"busbar", cases[i].argument, NULL};

        memset(&value, 0x55, sizeof(value));
        assert_int_equal(bb_opts_parse(&lists, &value, 2, argv, &positionals, stdout), cases[i].rc);
        assert_int_equal(bb_opts_check(&lists, 2, argv), cases[i].rc);
        if (cases[i].rc)
            continue;
        assert_int_equal(value.first, cases[i].first);
        assert_true(cases[i].list ? strcmp(value.list, cases[i].list) == 0 : value.list == NULL);
        assert_non_null(bb_opts_find_changed(list_tables, &value, &positionals));
    }
    assert_int_equal(bb_opts_parse(&lists, &value, 1, (char *[]){"busbar", NULL}, &positionals, stdout), 0);
    assert_true(value.first == 3 && value.list == NULL && !bb_opts_find_changed(list_tables, &value, &positionals));
}

static void stores_defaults(void **state)
{
    struct cfg cfg;
    struct bb_positionals positionals;

    (void)state;
    assert_int_equal(parse("", &cfg, &positionals), 0);
    assert_int_equal(positionals.n, 0);
    assert_int_equal(cfg.min_bytes, 32 << 20);
    assert_int_equal(cfg.iters, 20);
    assert_true(cfg.factor == 2);
    assert_false(cfg.check || cfg.graph || cfg.common.share_gpu || cfg.common.quiet);
    assert_ptr_equal(cfg.dtype, dtypes[0]);
    assert_ptr_equal(cfg.op, op_at(0));
    assert_null(cfg.file);
    assert_null(cfg.common.json);
    assert_true(cfg.common.timeout_s == 600);
}

static void accepts_every_option_syntax(void **state)
{
    struct cfg cfg;
    struct bb_positionals positionals;

    (void)state;
    setenv("POSIXLY_CORRECT", "1", 1); /* must not change the result */
    assert_int_equal(parse("all_reduce|-b|8|--iters=5|-cG|-d|half|--op|max|other|-f1.5|--file=|--json|-|--|-b|--x",
                           &cfg, &positionals),
                     0);
    unsetenv("POSIXLY_CORRECT");
    assert_int_equal(positionals.n, 4);
    assert_string_equal(positionals.word[0], "all_reduce");
    assert_string_equal(positionals.word[1], "other");
    assert_string_equal(positionals.word[2], "-b");
    assert_string_equal(positionals.word[3], "--x");
    assert_int_equal(cfg.min_bytes, 8);
    assert_int_equal(cfg.iters, 5);
    assert_true(cfg.check && cfg.graph && cfg.factor == 1.5);
    assert_ptr_equal(cfg.dtype, dtypes[1]);
    assert_ptr_equal(cfg.op, op_at(3));
    assert_string_equal(cfg.file, "");
    assert_string_equal(cfg.common.json, "-");
    assert_int_equal(parse("-b|1|-b|2|-cb3", &cfg, &positionals), 0);
    assert_int_equal(cfg.min_bytes, 3);
    assert_int_equal(parse("--file|--json", &cfg, &positionals), 0); /* a value may begin with a dash */
    assert_string_equal(cfg.file, "--json");
}

static void rejects_invalid_options(void **state)
{
    static const struct {
        const char *line, *expected;
    } cases[] = {
        {"--itres|5", "unknown option '--itres', did you mean '--iters'?"},
        {"--iter=5", "unknown option '--iter=5', did you mean '--iters'?"}, /* abbreviations are not accepted */
        {"--zzzzzz", "unknown option '--zzzzzz'; --help lists all options"},
        {"-q", "unknown option '-q'; --help lists all options"},
        {"-min-bytes", "unknown option '-min-bytes', did you mean '--min-bytes'?"},
        {"-b", "option '-b' requires a value: --min-bytes=BYTES"},
        {"--file", "option '--file' requires a value: --file=A_LONG_NAME_FOR_A_FILE"},
        {"--check=yes", "option '--check' takes no value, got 'yes'"},
        {"-b|-5", "--min-bytes: '-5' is not valid, expected bytes such as 8, 4K, 1.5M, 2G or 1T"},
        {"-b|8Q", "--min-bytes: '8Q' is not valid"},
        {"-n|0", "--iters: '0' is not valid, expected a whole number from 1 to 1000"},
        {"-n|", "--iters: '' is not valid"},
        {"-f|0.5", "--factor: '0.5' is not valid, expected a number from 1 to 64"},
        {"--timeout|0", "--timeout: '0' is not valid, expected a number from 0.1 to 1000000"},
        {"-d|flaot", "unknown value for --dtype: 'flaot', did you mean 'float'? (one of: float half bfloat16)"},
        {"-o|xyzzy", "unknown value for --op: 'xyzzy', expected one of: sum prod min max"},
        {"-d|Float", "did you mean 'float'?"},
    };
    struct cfg cfg;
    struct bb_positionals positionals;

    (void)state;
    for (size_t i = 0; i < ROWS(cases); i++) {
        struct capture captured;
        int rc;

        capture_begin(&captured);
        rc = parse(cases[i].line, &cfg, &positionals);
        capture_end(&captured);
        if (rc != -BB_EUSAGE || !strstr(captured.text, cases[i].expected) ||
            strchr(captured.text, '\n') != strrchr(captured.text, '\n'))
            fail_msg("%s: %d, %s", cases[i].line, rc, captured.text);
    }
}

static void rejects_too_many_positionals(void **state)
{
    char line[512] = "a";
    struct cfg cfg;
    struct bb_positionals positionals;
    struct capture captured;

    (void)state;
    for (int i = 1; i < BB_POSITIONALS_MAX; i++)
        strcat(line, "|a");
    assert_int_equal(parse(line, &cfg, &positionals), 0);
    assert_int_equal(positionals.n, BB_POSITIONALS_MAX);
    capture_begin(&captured);
    assert_int_equal(parse(strcat(line, "|b"), &cfg, &positionals), -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&captured), "too many positional arguments at 'b', expected at most 64"));
}

static void suggests_a_similar_word(void **state)
{
    struct capture captured;

    (void)state;
    capture_begin(&captured);
    assert_int_equal(bb_reject_unknown("proxy", "gpt", (const char *const[]){"gpt2_large", "bert_large"}, 2),
                     -BB_EUSAGE);
    assert_non_null(strstr(capture_end(&captured),
                           "unknown proxy 'gpt', did you mean 'gpt2_large'? (one of: gpt2_large bert_large)"));
}

/* The list of accepted words is truncated at the length limit of a message. */
static void truncates_the_list_of_accepted_words(void **state)
{
    char longest[600 + 1];
    const char *line;
    const char *positionals[] = {longest, longest, longest, "last"};
    struct capture captured;

    (void)state;
    memset(longest, 'w', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    capture_begin(&captured);
    assert_int_equal(bb_reject_unknown("proxy", "gpt", positionals, 4), -BB_EUSAGE);
    line = capture_end(&captured);
    assert_non_null(strstr(line, "unknown proxy 'gpt', expected one of: www"));
    assert_null(strstr(line, "last"));
}

static const char help_60[] = "Usage: busbar test WORD... [OPTION...]\n"
                              "\n"
                              "A test.\n"
                              "\n"
                              "Everyday options:\n"
                              "      --json=FILE     write the results as JSON, - for\n"
                              "                      stdout; only the owner can read it and\n"
                              "                      the file of --csv (mode 0600)\n"
                              "      --csv=FILE      write the rows of the results as CSV,\n"
                              "                      - for stdout; text that begins with =\n"
                              "                      + - or @ has an apostrophe in front,\n"
                              "                      for spreadsheets\n"
                              "  -g, --gpus=N        start N ranks, one per GPU, without\n"
                              "                      mpirun; under mpirun or srun, N for\n"
                              "                      each launched process (default 1)\n"
                              "\n"
                              "Options:\n"
                              "  -b, --min-bytes=BYTES\n"
                              "                      first size (default 32M)\n"
                              "  -n, --iters=N       timed iterations (default 20)\n";

static const char help_end[] =
    "      --file=A_LONG_NAME_FOR_A_FILE\n"
    "                              an option whose name fills the left side and whose help is so long\n"
    "                              that it has to be broken over more than one line\n"
    "\n"
    "Common options:\n"
    "      --junit=FILE            write the checks of the run as JUnit XML, for CI\n"
    "      --prometheus=FILE       write the checks, and the bus bandwidths of bench, as Prometheus\n"
    "                              metrics, for the textfile collector of node_exporter\n"
    "  -T, --timeout=SECONDS       limit of each wait; a longer wait ends the run with exit status 4\n"
    "                              (default 600)\n"
    "      --share-gpu             allow several ranks per GPU (for tests: timings are meaningless)\n"
    "      --ras                   enable NCCL's RAS service (NCCL_RAS_ENABLE=1); after a timeout its\n"
    "                              status of the job is printed and recorded\n"
    "      --no-supervisor         run the rank in this process, for debuggers (gdb --args)\n"
    "      --full                  print everything (default: the answer in at most 25 lines)\n"
    "      --quiet                 no table and no progress line\n"
    "  -h, --help                  print this help\n"
    "\n"
    "The end.\n";

static const char *help_of(const char *columns, const struct bb_opt_subject *subject, char text[4096])
{
    FILE *out = fmemopen(text, 4096, "w");

    setenv("COLUMNS", columns, 1);
    bb_opts_help(&set, subject, out);
    fclose(out);
    return text;
}

/* Lines have at least 60 and at most 100 columns. */
static void help_adapts_to_the_width(void **state)
{
    static const char *const lines[] = {"-h", "--help", "all_reduce|-b|8|--help|--nonsense", "-ch"};
    struct cfg cfg;
    struct bb_positionals positionals;
    char text[4096];

    (void)state;
    help_of("20", NULL, text);
    text[strlen(help_60)] = '\0';
    assert_string_equal(text, help_60);
    help_of("1000", NULL, text);
    assert_string_equal(text + strlen(text) - strlen(help_end), help_end);
    unsetenv("COLUMNS");
    assert_int_equal(bb_opts_width(stdin), 80);
    for (size_t i = 0; i < ROWS(lines); i++)
        assert_int_equal(parse(lines[i], &cfg, &positionals), BB_OPTS_HELP);
}

static void count_option(void *arg, const struct bb_opt *opt, const void *field)
{
    int *n = arg;

    ++*n;
    if (strcmp(opt->name, "timeout") == 0)
        assert_true(*(const double *)field == 7);
}

static void visits_every_option(void **state)
{
    struct cfg cfg;
    struct bb_positionals positionals;
    int n = 0;

    (void)state;
    assert_int_equal(parse("--timeout|7", &cfg, &positionals), 0);
    bb_opts_each(&set, &cfg, count_option, &n);
    assert_int_equal(n, 19);
}

/* Rejects more than 20 iterations together with the positional argument "all": a condition on two arguments. */
static int resolve_all(void *cfg, const struct bb_positionals *positionals)
{
    struct cfg *c = cfg;

    c->before = positionals->n;
    return positionals->n > 0 && strcmp(positionals->word[0], "all") == 0 && c->iters > 20 ? -BB_EUSAGE : 0;
}

static void read_calls_resolve_after_parsing(void **state)
{
    char *many[] = {"x", "-n", "21", "all"}, *some[] = {"x", "-n", "21", "one", "two"}, *bad[] = {"x", "-n", "0"};
    struct bb_opts resolved = set;
    struct cfg cfg;

    (void)state;
    resolved.size = sizeof(struct cfg);
    resolved.resolve = resolve_all;
    assert_int_equal(bb_opts_read(&resolved, &cfg, 5, some), 0);
    assert_int_equal(cfg.iters, 21);
    assert_int_equal(cfg.before, 2);
    assert_int_equal(bb_opts_read(&resolved, NULL, 4, many), -BB_EUSAGE);
    bb_err_mute(1);
    assert_int_equal(bb_opts_read(&resolved, NULL, 3, bad), -BB_EUSAGE); /* fails before resolve is called */
    bb_err_mute(0);
}

static void finds_the_first_changed_option(void **state)
{
    static const struct {
        const char *line, *changed;
    } rows[] = {{"", NULL},
                {"-b|32M|-o|sum|-d|float", "min-bytes"}, /* given, though with the default */
                {"-b|33M", "min-bytes"},
                {"-f|3|-n|21", "iters"},
                {"-G", "graph"},
                {"-d|half", "dtype"},
                {"--file|x", "file"},
                {"--timeout|7", NULL},
                {"-f|2.5", "factor"}};
    struct bb_positionals positionals;
    struct cfg cfg;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *changed;

        assert_int_equal(parse(rows[i].line, &cfg, &positionals), 0);
        changed = bb_opts_find_changed(&tables[0], &cfg, &positionals);
        if (rows[i].changed)
            assert_string_equal(changed, rows[i].changed);
        else
            assert_null(changed);
    }
    assert_string_equal(bb_opts_find_changed(&tables[1], &cfg, &positionals) ? "common" : "none", "none");
    assert_int_equal(parse("--timeout|7", &cfg, &positionals), 0);
    assert_string_equal(bb_opts_find_changed(&tables[1], &cfg, &positionals), "timeout");
}

/* Paragraphs are filled; lines that begin with a space are kept as they are; characters special to groff are
 * escaped. */
static void escapes_text_for_groff(void **state)
{
    char text[256] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    assert_non_null(out);
    bb_opts_print_man_text("Times --iters\nof them.\n  a -b\n\n.dot", out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "Times \\-\\-iters\nof them.\n.nf\n  a \\-b\n.fi\n.PP\n\\&.dot\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_lists_of_numbers),
        cmocka_unit_test(stores_defaults),
        cmocka_unit_test(accepts_every_option_syntax),
        cmocka_unit_test(rejects_invalid_options),
        cmocka_unit_test(rejects_too_many_positionals),
        cmocka_unit_test(suggests_a_similar_word),
        cmocka_unit_test(truncates_the_list_of_accepted_words),
        cmocka_unit_test(help_adapts_to_the_width),
        cmocka_unit_test(visits_every_option),
        cmocka_unit_test(read_calls_resolve_after_parsing),
        cmocka_unit_test(finds_the_first_changed_option),
        cmocka_unit_test(escapes_text_for_groff),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
