/*
 * nccl_tests_options.c - the options of nccl-tests. Most exist in `busbar bench` with the same letter but another
 * default; the others are defined here. Also reads nccl-tests' environment variables.
 */
#include "collectives/nccl_tests/nccl_tests_options.h"

#include "bootstrap/base/units.h"
#include "bootstrap/supervise/child.h"
#include "bootstrap/supervise/supervise.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 256, SPELLED_TEXT = 48 };
static const double UNLIMITED_S = 1e9; /* no timeout: about 30 years, so that adding a clock value does not overflow */
static const char suffix[] = BB_NCCL_TESTS_SUFFIX;

int bb_nccl_tests_kind(const char *path)
{
    const char *name = bb_base_name(path);
    size_t length = strlen(name), end = strlen(suffix);
    char word[32];

    if (length <= end || length - end >= sizeof word || strcmp(name + length - end, suffix) != 0)
        return -1;
    snprintf(word, sizeof word, "%.*s", (int)(length - end), name);
    return bb_coll_find(word);
}

/* ---- tables of options ---- */

#define FIELD(name) offsetof(struct bb_nccl_tests_options, name)
static const struct bb_opt own_rows[] = {
    OPT_INT('t', "nthreads", FIELD(threads), "1", "N", 1, BB_GPUS_MAX,
            "threads per process; each thread becomes a rank in its own process, as with -g"),
    OPT_INT('g', "ngpus", FIELD(gpus), "1", "N", 1, BB_GPUS_MAX,
            "GPUs per thread; the process forks N x threads - 1 further ranks, with or without MPI"),
    OPT_INT('p', "parallel_init", FIELD(parallel_init), "0", "0|1", 0, 1,
            "no effect: ranks are processes and always initialize in parallel"),
    OPT_DOUBLE('T', "timeout", FIELD(timeout_s), "0", "SECONDS", 0, 1e6,
               "timeout of each wait, after which the run ends with exit 4; 0: no timeout"),
    OPT_OUTPUT_DASH('J', "output_file", FIELD(bench.common.json),
                    "write the results in nccl-tests' JSON format, - for stdout; an existing file is kept (FILE.0 ..)"),
    OPT_INT(
        'D', "device_implementation", FIELD(device_kernel), "0", "N", 0, 4,
        "device API kernels (busbar's own), all_reduce and alltoall: 1: LSA, element by element; 2: LSA, 16 bytes at "
        "a time; 3 (alltoall): GIN; 4: multimem (all_reduce), GIN between and LSA within nodes (alltoall); 0: none"),
    OPT_SHARE_GPU(FIELD(bench.common.share_gpu)),
    OPT_QUIET(FIELD(bench.common.quiet)),
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "Options of nccl-tests", .opts = own_rows},
    {.title = "Options of nccl-tests and busbar bench", .opts = bb_bench_case_rows, .base = FIELD(bench)},
    {.title = "Measurement options of nccl-tests and busbar bench", .opts = bb_bench_option_rows, .base = FIELD(bench)},
    {0},
};

/* Defaults of nccl-tests that differ from busbar bench, as arguments that are inserted before the user's arguments. */
static const char *const defaults[] = {"-b32M", "-e32M", "-i1M", "-f1", "-n20", "-w1", "-c1", "-a1", "--repeats=1"};
enum { N_DEFAULTS = sizeof defaults / sizeof *defaults };

/* ---- conversion of arguments from nccl-tests' syntax to busbar's syntax ---- */

/* The arguments after conversion to busbar's syntax. */
struct spelling {
    char *word[2 * WORDS_MAX];
    int n;
    char texts[2 * WORDS_MAX][SPELLED_TEXT]; /* text of the converted arguments that differ from the user's arguments */
    int n_texts;
};

static void add_word(struct spelling *s, const char *word)
{
    s->word[s->n++] = (char *)(uintptr_t)word;
}

/*
 * Returns the long name of the option that getopt_long, the parser of nccl-tests, would select for `word`: the option
 * with this name, or the only option whose name begins with `word`. Only options with a one-letter form are considered,
 * because nccl-tests lacks the others. Returns NULL if no option or several options match, or if `word` is the full
 * name of an option without a letter.
 */
static const char *find_name(const char *word, size_t length)
{
    const struct bb_opt *const all[] = {own_rows, bb_bench_case_rows, bb_bench_option_rows};
    const char *found = NULL;
    int n = 0;

    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
        for (const struct bb_opt *row = all[t]; row->name; row++) {
            if (strncmp(row->name, word, length) != 0)
                continue;
            if (strlen(row->name) == length)
                return row->letter ? row->name : NULL;
            if (row->letter) {
                found = row->name;
                n++;
            }
        }
    return n == 1 ? found : NULL;
}

static void spell_out(struct spelling *s, const char *word);

static bool add_long(struct spelling *s, const char *word)
{
    const size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    const char *full = length > 0 ? find_name(word + 2, length) : NULL;

    if (!full)
        return false;
    snprintf(s->texts[s->n_texts], SPELLED_TEXT, "--%s", full);
    add_word(s, s->texts[s->n_texts++]);
    if (word[2 + length])
        spell_out(s, word + 2 + length + 1);
    return true;
}

/* Parses a size such as "8GB", "32mb", "1.5 g" or "1e6" as nccl-tests does with sscanf("%lf %1s"): letters after the
 * unit are ignored. */
static bool read_size(const char *text, size_t *bytes)
{
    static const char units[] = "kmg";
    const char *unit = NULL;
    char *end;
    double number = strtod(text, &end);

    if (end == text)
        return false;
    end += strspn(end, " ");
    if (*end && !(unit = strchr(units, tolower((unsigned char)*end))))
        return false;
    while (isalpha((unsigned char)*end))
        end++;
    number = ldexp(number, unit ? 10 * (int)(unit - units + 1) : 0);
    if (*end || !(number >= 0 && number < 0x1p63))
        return false;
    *bytes = (size_t)number;
    return true;
}

/* Converts the value of -b, -e or -i to a number of bytes. before: text to write before the number, "" or the
 * option's letter. Returns NULL if no conversion applies; then busbar's own parser accepts or rejects the value. */
static const char *spell_size(struct spelling *s, const char *before, const char *text)
{
    size_t bytes;

    if (bb_parse_bytes(text, &bytes) == 0 || !read_size(text, &bytes))
        return NULL;
    snprintf(s->texts[s->n_texts], SPELLED_TEXT, "%s%zu", before, bytes);
    return s->texts[s->n_texts++];
}

static bool is_size_option(const char *word)
{
    static const char *const names[] = {"-b", "-e", "-i", "--minbytes", "--maxbytes", "--stepbytes"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i]) == 0)
            return true;
    return false;
}

static void spell_out(struct spelling *s, const char *word)
{
    const bool is_value = s->n > 1 && is_size_option(s->word[s->n - 1]);
    const bool is_joined = !is_value && word[0] == '-' && word[1] && strchr("bei", word[1]) && word[2];
    const char option[] = {'-', word[0] ? word[1] : '\0', '\0'};
    const char *spelled = is_value ? spell_size(s, "", word) : is_joined ? spell_size(s, option, word + 2) : NULL;

    if (spelled)
        add_word(s, spelled);
    else if (is_value || !add_long(s, word))
        add_word(s, word);
}

/* ---- parser ---- */

static int parse_words(struct bb_nccl_tests_options *o, int argc, char **argv)
{
    char usage[80];
    struct spelling words = {.n = 0};
    struct bb_opts set = {
        .usage = usage,
        .doc = "Accepts the options of the nccl-tests program with this name and prints its table and "
               "footer.\nDefaults of nccl-tests: -b 32M -e 32M -i 1M -f 1 -n 20 -w 1 -c 1 -a 1 --repeats 1. "
               "For\nthese options, the defaults in parentheses below apply only to busbar bench.\n"
               "See also `busbar bench --help`.",
        .tables = tables};
    struct bb_positionals others;
    int rc;

    if (argc + N_DEFAULTS > WORDS_MAX)
        return bb_err(BB_EUSAGE, "too many arguments, expected at most %d", WORDS_MAX - N_DEFAULTS);
    snprintf(usage, sizeof usage, "%s%s [OPTION...]", bb_colls[bb_nccl_tests_kind(argv[0])].name, suffix);
    add_word(&words, argv[0]);
    for (int i = 0; i < N_DEFAULTS; i++)
        add_word(&words, defaults[i]);
    for (int i = 1; i < argc; i++)
        spell_out(&words, argv[i]);
    rc = bb_opts_parse(&set, o, words.n, words.word, &others, stdout);
    if (rc == 0 && others.n > 0)
        rc = bb_err(BB_EUSAGE, "unexpected argument '%s', expected options only", others.word[0]);
    return rc;
}

/* ---- environment ---- */

static int read_number(const char *variable, double least, double most, double *value)
{
    const char *text = getenv(variable);

    if (text && (bb_parse_double(text, value) || *value < least || *value > most))
        return bb_err(BB_EUSAGE, "%s='%s' is not valid, expected a number from %g to %g", variable, text, least, most);
    return 0;
}

static void read_split(struct bb_nccl_tests_options *o)
{
    const char *mask = getenv("NCCL_TESTS_SPLIT_MASK"), *split = getenv("NCCL_TESTS_SPLIT");

    if (o->bench.split || (!mask && !split))
        return;
    if (mask)
        snprintf(o->split, sizeof o->split, "AND:0x%s", strncmp(mask, "0x", 2) == 0 ? mask + 2 : mask);
    else
        snprintf(o->split, sizeof o->split, "%s", split);
    o->bench.split = o->split;
}

static int read_environment(struct bb_nccl_tests_options *o, int kind)
{
    double device = 0, least = 0;
    int rc;

    TRY(read_number("NCCL_TESTS_MIN_BW", 0, 1e9, &least));
    if (!o->bench.min_busbw && least > 0) {
        snprintf(o->min_busbw, sizeof o->min_busbw, "%.17g", 0.9 * least); /* nccl-tests accepts bandwidths down to
                                                                              90 % of NCCL_TESTS_MIN_BW */
        o->bench.min_busbw = o->min_busbw;
        o->bench.min_busbw_from_nccl_tests = true;
    }
    TRY(read_number("NCCL_TESTS_DEVICE", 0, 1e6, &device));
    o->bench.first_device = (int)device;
    read_split(o);
    if (kind == BB_ALLTOALLV) {
        TRY(read_number("NCCL_TESTS_ALLTOALLV_SPREAD", 0, 1, &o->bench.imbalance));
        TRY(read_number("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 0, 1e12, &o->bench.matrix_scale));
        if (!o->bench.matrix)
            o->bench.matrix = getenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
    }
out:
    return rc;
}

/* Selects the kernel of -D. Without -D, -V has no effect, as in nccl-tests. */
static int choose_device(struct bb_nccl_tests_options *o, int kind)
{
    const int d = o->device_kernel;

    if (d == 0)
        o->bench.device_ctas = 0;
    if (d == 0)
        return 0;
    if (kind != BB_ALL_REDUCE && kind != BB_ALLTOALL)
        return bb_err(BB_EUSAGE, "-D %d: no device API kernel for %s, expected -D 0", d, bb_colls[kind].name);
    if (d == 3 && kind == BB_ALL_REDUCE)
        return bb_err(BB_EUSAGE, "-D 3: multimem kernels that access elements one by one are not supported; try: -D 4");
    o->bench.device = d <= 2 ? "lsa" : kind == BB_ALL_REDUCE ? "multimem" : d == 3 ? "gin" : "hybrid";
    o->bench.element_wise = d == 1;
    return 0;
}

/* ---- entry points ---- */

int bb_nccl_tests_parse(struct bb_nccl_tests_options *o, int argc, char **argv)
{
    const int kind = bb_nccl_tests_kind(argv[0]);
    int rc;

    TRY(parse_words(o, argc, argv));
    TRY(choose_device(o, kind));
    o->bench.sampling.clock = "host";
    o->bench.nvlink_centric_sched = 1;
    o->bench.max_p2p_peers = kind == BB_SENDRECV ? 2 : 0;
    o->bench.common.timeout_s = o->timeout_s > 0 ? o->timeout_s : UNLIMITED_S;
    if (o->threads * o->gpus > BB_GPUS_MAX)
        return bb_err(BB_EUSAGE, "%d threads (-t) with %d GPUs each (-g) exceed the limit of %d ranks", o->threads,
                      o->gpus, BB_GPUS_MAX);
    TRY(read_environment(o, kind));
out:
    return rc;
}

int bb_nccl_tests_main(int argc, char **argv)
{
    struct bb_nccl_tests_options o = {0}; /* zero-initialized, because some fields are not set by any option */
    const struct bb_positionals collective = {.word = {bb_colls[bb_nccl_tests_kind(argv[0])].name}, .n = 1};
    struct bb_sweep sweep = {0};
    int rc;

    TRY(bb_nccl_tests_parse(&o, argc, argv));
    TRY(bb_bench_resolve(&o.bench, &sweep, &collective));
    rc = bb_supervise(argv[0], "bb_nccl_tests_run", o.bench.common.timeout_s, o.threads * o.gpus, NULL, argc, argv);
out:
    bb_bench_release_sweep(&sweep);
    return rc;
}
