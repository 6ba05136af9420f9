/* bench_options.c - the options of `busbar bench COLLECTIVE`. Options that nccl-tests also has have the same short
 * and long names. */
#include "collectives/sweep/bench_options.h"

#include "bootstrap/base/units.h"
#include "bootstrap/cli/size_list.h"
#include "collectives/ops/device_support.h"
#include "collectives/ops/foreign_options.h"
#include "collectives/overlap/overlap_metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *dtype_or_all(size_t i)
{
    return i == BB_DTYPE_COUNT ? "all" : bb_dtype_name_at(i);
}

static const char *redop_or_all(size_t i)
{
    return i == BB_REDOP_COUNT ? "all" : bb_redop_name_at(i);
}

static const char *coll_or_all(size_t i)
{
    return i < BB_COLL_KIND_COUNT ? bb_colls[i].name : i == BB_COLL_KIND_COUNT ? "all" : NULL;
}

static const char *const placements[] = {"both", "out_of_place", "in_place", NULL};

#define FIELD(name) offsetof(struct bb_bench_options, name)
const struct bb_opt bb_bench_case_rows[] = {
    OPT_SIZE('b', "minbytes", FIELD(min_bytes), "8", "BYTES", 0, BB_SIZE_LARGEST, "first size (K M G are 1024-based)",
             .everyday = true),
    OPT_SIZE('e', "maxbytes", FIELD(max_bytes), "32M", "BYTES", 0, BB_SIZE_LARGEST, "last size", .everyday = true),
    OPT_DOUBLE('f', "stepfactor", FIELD(factor), NULL, "FACTOR", 0, 1e6,
               "factor between sizes if above 1 (if neither -f nor -i is given: 4 from 8 to 32M, otherwise 2)",
               .everyday = true),
    OPT_SIZE('i', "stepbytes", FIELD(step_bytes), NULL, "BYTES", 0, BB_SIZE_LARGEST,
             "increment between sizes, unless -f is above 1"),
    OPT_CHOICE_AT('d', "datatype", FIELD(dtype), "float", "TYPE", dtype_or_all, "element type", .everyday = true),
    OPT_CHOICE_AT('o', "op", FIELD(redop), "sum", "OP", redop_or_all, "reduction operation", .everyday = true),
    OPT_STRING('r', "root", FIELD(roots), "0", "RANK",
               "root rank of rooted collectives; all or -1: every rank in turn"),
    OPT_STRING(0, "sizes", FIELD(sizes), NULL, "LIST", "explicit sizes such as 8,1K,3M, instead of -b -e -f -i",
               .everyday = true),
    OPT_CHOICE(0, "placement", FIELD(placement), "both", "WHERE", placements,
               "measure out of place, in place, or both"),
    OPT_STRING(0, "matrix", FIELD(matrix), NULL, "FILE",
               "alltoallv: file with the bytes from rank ROW to rank COLUMN, blanks between them; sets the size"),
    OPT_DOUBLE(0, "matrix-scale", FIELD(matrix_scale), "1", "FACTOR", 0, 1e12,
               "alltoallv: multiplies the numbers in the --matrix file"),
    OPT_DOUBLE(0, "imbalance", FIELD(imbalance), "1", "PART", 0, 1,
               "alltoallv without --matrix: from 0 (equal counts) to 1 (counts proportional to the rank distance)"),
    {0},
};

static const char *const tuner_formats[] = {"nccl", "ncclx", NULL};

const struct bb_opt bb_bench_option_rows[] = {
    OPT_ITERS(FIELD(iterations)),
    OPT_REPEATS(FIELD(repeats)),
    OPT_WARMUP(FIELD(warmup)),
    OPT_INT('c', "check", FIELD(checks), "1", "N", 0, 1e4,
            "verification passes per result; the first pass verifies the last timed operation, each further pass an "
            "operation of its own, which is not timed; 0: no verification",
            .everyday = true),
    OPT_INT('m', "agg_iters", FIELD(aggregate), "1", "N", 1, 1024,
            "operations of each iteration, issued as one NCCL group; a sample has N times as many operations; "
            "times are per operation"),
    OPT_INT('z', "blocking", FIELD(blocking), "0", "MODE", 0, BB_BLOCK_COUNT - 1,
            "wait of the host after each iteration: 0: none; 1: wait and barrier; 2: wait; 3: wait, then an untimed "
            "barrier"),
    OPT_INT('y', "stream_null", FIELD(null_stream), "0", "0|1", 0, 1, "1: use the null stream"),
    OPT_INT(
        'G', "cudagraph", FIELD(graph_launches), "0", "N", 0, 1e4,
        "capture the iterations in a CUDA graph and launch it N times per sample, after a warm-up launch; 0: no graph"),
    OPT_INT('C', "report_cputime", FIELD(host_time), "0", "0|1", 0, 1,
            "1: report the host time to enqueue an operation"),
    OPT_INT('a', "average", FIELD(rank_aggregation), "3", "HOW", 0, BB_AGGREGATE_COUNT - 1,
            "time of a sample: 0: first rank; 1: mean over ranks; 2: fastest rank; 3: slowest rank"),
    OPT_INT('R', "local_register", FIELD(registration), "0", "HOW", 0, 2,
            "registration of buffers: 0: none; 1: with the communicator; 2: as symmetric windows"),
    OPT_BUFFERS(FIELD(common.buffers)),
    OPT_INT('x', "cta_policy", FIELD(cta_policy), "-1", "POLICY", -1, 2,
            "CTA policy of the communicator: 0 default, 1 efficiency, 2 zero (copy engines); -1: NCCL's own"),
    OPT_INT(0, "min-ctas", FIELD(min_ctas), NULL, "N", 0, 1024, "minimum CTAs of an operation; 0: NCCL's choice"),
    OPT_INT(0, "max-ctas", FIELD(max_ctas), NULL, "N", 0, 1024, "maximum CTAs of an operation; 0: NCCL's choice"),
    OPT_INT(0, "nvlink-centric-sched", FIELD(nvlink_centric_sched), "0", "0|1", 0, 1,
            "1: set nvlinkCentricSched in the communicator's configuration (NCCL 2.28)"),
    OPT_INT(0, "max-p2p-peers", FIELD(max_p2p_peers), "0", "N", 0, 1 << 20,
            "set maxP2pPeers in the communicator's configuration (NCCL 2.30); 0: NCCL's choice"),
    OPT_CHOICE(0, "device", FIELD(device), NULL, "HOW", bb_device_paths,
               "run all_reduce or alltoall as busbar's own kernel on NCCL's device API, with symmetric windows (-R 2); "
               "lsa: loads and stores; multimem: multicast memory, all_reduce only; gin: the network; "
               "hybrid: gin between and lsa within nodes"),
    OPT_INT('V', "device_cta_count", FIELD(device_ctas), NULL, "N", 1, 128, "CTAs of --device kernels (default 16)"),
    OPT_INT('u', "unalign", FIELD(unalign), "0", "N", 0, 1 << 20, "offset both buffers by N elements"),
    OPT_STRING(0, "split", FIELD(split), NULL, "MASK",
               "split ranks into concurrent groups: the group is the rank AND, OR, MOD or DIV a number, such as MOD:2 "
               "or AND:0x3; groups of different sizes and collectives at once: busbar proxy transformer --tp 8 --dp 2"),
    OPT_INT('I', "per_iter_timing", FIELD(per_iteration), "0", "0|1", 0, 1,
            "1: report minimum, maximum, 99th percentile and variation of the iterations of the last sample, in mode "
            "sync of all samples; time of each iteration: all_reduce_perf -I 1 -J FILE"),
    OPT_INT('K', "per_iter_skip", FIELD(skipped), "0", "N", 0, 1e6, "number of leading iterations that -I omits"),
    OPT_INT('N', "run_cycles", FIELD(cycles), "1", "N", 0, 1e9, "repeat the whole sweep; 0: until interrupted"),
    OPT_INT('S', "report_timestamps", FIELD(timestamps), "0", "0|1", 0, 1, "1: add the time of day to each row"),
    OPT_INT('M', "memory", FIELD(memory), "0", "0|1", 0, 1, "1: report GPU memory usage"),
    OPT_STRING(0, "sweep-variants", FIELD(sweep_variants), NULL, "LIST",
               "compare variants of a collective, each with its own communicator and buffers, and mark the fastest: "
               "plain (the reference), registered (-R 1), symmetric (-R 2), zero-sm (-R 2 -x 2), graph (-G 1), device"),
    OPT_FLAG(0, "with-gemm", FIELD(with_gemm), "--sweep-variants: also concurrent with GEMMs"),
    OPT_STRING(0, "gemm", FIELD(gemm), "4096", "MxNxK", "--with-gemm: dimensions of the bfloat16 GEMM; N means NxNxN"),
    OPT_OUTPUT(0, "write-tuner", FIELD(write_tuner),
               "with --sweep-algorithms: write a tuner configuration with the algorithms that are faster than NCCL's "
               "choice, after a second measurement; no file if there are none"),
    OPT_CHOICE(0, "tuner-format", FIELD(tuner_format), "nccl", "FORMAT", tuner_formats,
               "--write-tuner: nccl: example tuner plugin of NCCL; ncclx: tuner of NCCLX"),
    OPT_DOUBLE(0, "tuner-gain", FIELD(tuner_gain_percent), "3", "PERCENT", 0, 1e6,
               "--write-tuner: smallest gain, which must also be significant"),
    OPT_STRING(
        0, "min-busbw", FIELD(min_busbw), NULL, "LIST|FILE:%",
        "exit 5 if the bus bandwidth of a collective, with --split of a group, is below the given GB/s, or cannot be "
        "determined: 300 (mean), 1G:300 (one size), peak:300 (fastest row), all_reduce:1G:300 (of one collective); "
        "several: 300,1G:350; plan.json:90%: 90 % "
        "of each result in a file of busbar plan COLLECTIVE or of bench. Also limits latencies: 8:0.0007 is 20 us of "
        "all_reduce on 8 ranks, bench.json:90% is time / 0.9",
        .everyday = true),
    {0},
};

/* Options that nccl-tests' names do not have. */
static const struct bb_opt expected_rows[] = {
    OPT_STRING(0, "expect", FIELD(expect), NULL, "NAME|FILE",
               "add the expected bus bandwidth: auto (profile of this machine), a cluster profile, or a result file of "
               "an earlier run",
               .everyday = true),
    OPT_STRING(0, "min-of-expected", FIELD(min_of_expected), NULL, "PERCENT",
               "exit 5 if a result of 1 MiB or more is below PERCENT (90%) of the expected bus bandwidth, or cannot be "
               "compared; requires --expect",
               .everyday = true),
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "Cases", .opts = bb_bench_case_rows},
    {.title = "Measurement", .opts = bb_bench_option_rows},
    {.title = "Expected bandwidth", .opts = expected_rows},
    {.title = "Sampling", .opts = bb_sampling_option_rows, .base = FIELD(sampling)},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

const struct bb_opts bb_bench_set = {
    .choice_at = coll_or_all,
    .usage = "busbar bench COLLECTIVE... [OPTION...]",
    .doc = "Times NCCL operations: one row per size. COLLECTIVE is a name of `busbar list collectives`, or all.\n"
           "Start it with one rank per GPU.\n"
           "Other subcommands, each with its own options (--help): `busbar bench p2p` measures pairs of ranks,\n"
           "`copy` copies between GPUs and hosts, `rails` the rails of the fabric, `comm` the cost of communicators,\n"
           "`overlap` GEMMs concurrent with collectives, `compute` GEMMs and memory-bound kernels.",
    .examples = "  mpirun -n 8 busbar bench all_reduce -b 8 -e 1G\n"
                "  mpirun -n 8 busbar bench all_reduce --sizes 1G --min-busbw 1G:300\n"
                "  mpirun -n 8 busbar bench all_gather reduce_scatter --sizes 64M --json fabric.json\n"
                "  mpirun -n 8 busbar bench p2p\n"
                "  mpirun -n 8 busbar bench compute --quick\n",
    .after = "Modes: stream times N back-to-back operations on one stream between CUDA events and divides by N;\n"
             "sync times one operation at a time after a barrier; graph is like stream, launched as a CUDA graph.\n"
             "A sample is the time of the slowest rank; a row shows the median of its samples. algbw = size / time.\n"
             "busbw = algbw times a factor per collective (`busbar list collectives`): for a ring the rate in\n"
             "one direction of the slowest link. Compare busbw in a node with a GPU's NVLink rate, between nodes with\n"
             "all NICs of a node together (8 x 48.5 GB/s); tree and NVLS may exceed it, on two nodes almost twice.\n"
             "1 GB/s = 1e9 bytes/s. Sizes of collectives with one slice per rank are rounded down to a multiple of\n"
             "16 bytes per slice.",
    .foreign = bb_bench_foreign_options,
    .exits = {BB_EXITS_RANKS, [5] = "below --min-busbw or --min-of-expected"},
    .tables = tables,
};

/* Fills `list` with indices into a table, such as the table of data types: only the index `named`, or, if named < 0,
 * all indices from 0 to count - 1. Returns the number of indices. */
static int select_rows(int *list, int named, int count)
{
    if (named >= 0) {
        list[0] = named;
        return 1;
    }
    for (int i = 0; i < count; i++)
        list[i] = i;
    return count;
}

static int add_collective(struct bb_sweep *s, const char *word)
{
    static const struct bb_foreign_name modes[] = {
        {"osu_latency osu_bw osu_bibw pingpong ping-pong latency bandwidth", "p2p", "p2p", NULL}, {0}};
    const int kind = bb_coll_find(word);
    char size[16];
    size_t bytes;

    if (bb_foreign_find(modes, word, strlen(word)))
        return bb_err(BB_EUSAGE, "%s: latency and bandwidth of each pair of ranks; try: busbar bench p2p", word);
    if (strcmp(word, "all") == 0)
        return bb_err(BB_EUSAGE, "'all' cannot be combined with names of collectives");
    for (int i = 0; i < s->n_colls; i++)
        if (s->colls[i] == kind)
            return bb_err(BB_EUSAGE, "collective %s is given twice", word);
    snprintf(size, sizeof(size), "1%.12s", word);
    if (kind < 0 && isalpha((unsigned char)*word) && bb_parse_bytes(size, &bytes) == 0)
        return bb_err(BB_EUSAGE, "'%s' is a unit of bytes, which follows its number without a blank (for example 128M)",
                      word);
    if (kind < 0)
        return bb_reject_unknown_at("collective", word, coll_or_all);
    s->colls[s->n_colls++] = kind;
    return 0;
}

static int add_collectives(struct bb_sweep *s, const struct bb_positionals *positionals)
{
    int rc = 0;

    if (positionals->n == 0)
        return bb_err(BB_EUSAGE, "no collective given, expected names from `busbar list collectives`, or all");
    if (positionals->n == 1 && strcmp(positionals->word[0], "all") == 0)
        s->n_colls = select_rows(s->colls, -1, BB_COLL_KIND_COUNT);
    else
        for (int i = 0; i < positionals->n && rc == 0; i++)
            rc = add_collective(s, positionals->word[i]);
    return rc;
}

static int check_sizes(const struct bb_bench_options *o)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT];
    size_t value = o->min_bytes, unit = 0;

    for (; value > 0 && value % 1024 == 0 && unit < 4; unit++)
        value /= 1024;
    if (o->min_bytes > o->max_bytes)
        return bb_err(BB_EUSAGE, "first size %zu (-b, %s) is above the last size %zu (-e, %s); try: -e %zu%s",
                      o->min_bytes, bb_format_bytes(o->min_bytes, low), o->max_bytes,
                      bb_format_bytes(o->max_bytes, high), value, units[unit]);
    if (o->factor != 0 && o->factor <= 1 && o->step_bytes == 0 && o->min_bytes != o->max_bytes)
        return bb_err(BB_EUSAGE, "step factor %g (-f) does not increase the size, try: -f 2, or an increment with -i",
                      o->factor);
    return 0;
}

/* Rejects a range of more sizes than MAX_SIZES: their rows would take hours, and the memory of the host. */
static int check_count(const struct bb_sweep *s)
{
    enum { MAX_SIZES = 100000 };
    const bool scales = s->factor > 1;
    char low[BB_BYTES_TEXT], high[BB_BYTES_TEXT], text[32], given[BB_BYTES_TEXT];
    size_t step = 1024;

    if (bb_sweep_count_sizes(s, MAX_SIZES + 1) <= MAX_SIZES)
        return 0;
    while ((s->max_bytes - s->min_bytes) / step >= MAX_SIZES)
        step *= 2;
    snprintf(text, sizeof(text), "-i %zu%s", step >> (step < 1 << 20 ? 10 : 20), step < 1 << 20 ? "K" : "M");
    if (scales)
        snprintf(given, sizeof(given), "%.10g", s->factor);
    else
        bb_format_bytes(s->step_bytes, given);
    return bb_err(BB_EUSAGE, "%s %s gives more than %d sizes from %s (-b) to %s (-e); try: %s",
                  scales ? "step factor (-f)" : "increment (-i)", given, MAX_SIZES, bb_format_bytes(s->min_bytes, low),
                  bb_format_bytes(s->max_bytes, high), scales ? "-f 2" : text);
}

static bool mode_is(const struct bb_bench_options *o, const char *name)
{
    const char *mode = o->sampling.mode;

    return mode && (strcmp(mode, name) == 0 || strcmp(mode, "all") == 0);
}

static int check_modes(const struct bb_bench_options *o)
{
    const char *mode = o->sampling.mode;

    if (mode && o->blocking != 0)
        return bb_err(BB_EUSAGE, "--mode %s cannot be combined with -z %d: both select how operations are timed", mode,
                      o->blocking);
    if (mode && o->graph_launches > 0 && !mode_is(o, "graph"))
        return bb_err(BB_EUSAGE, "--mode %s cannot be combined with -G %d, try: --mode graph", mode, o->graph_launches);
    if (mode && o->per_iteration && !mode_is(o, "stream") && !mode_is(o, "sync"))
        return bb_err(BB_EUSAGE, "-I 1 requires --mode stream or sync: a graph cannot time one operation");
    if (mode_is(o, "sync") && o->skipped > 0)
        return bb_err(BB_EUSAGE, "-K requires --mode stream; in mode sync try: -w");
    if (o->null_stream && (o->graph_launches > 0 || mode_is(o, "graph")))
        return bb_err(BB_EUSAGE, "the null stream (-y 1) cannot be captured in a graph: omit -y 1 or %s",
                      mode ? "--mode" : "-G");
    return 0;
}

static int check_tuner(const struct bb_bench_options *o)
{
    if (!o->write_tuner && (o->tuner_gain_percent != 3 || strcmp(o->tuner_format, tuner_formats[0]) != 0))
        return bb_err(BB_EUSAGE, "--tuner-format and --tuner-gain require --write-tuner FILE");
    if (!o->write_tuner)
        return 0;
    if (!o->sampling.sweep_algorithms)
        return bb_err(BB_EUSAGE, "--write-tuner requires --sweep-algorithms");
    if (o->graph_launches > 0 || mode_is(o, "graph") || mode_is(o, "all"))
        return bb_err(BB_EUSAGE,
                      "--write-tuner measures in one mode and without CUDA graphs, in which NCCL registers the "
                      "buffers; try: --mode stream or --mode sync");
    return 0;
}

/* Options of bench, except those of tables 0 (cases) and 3 (common), that apply to --sweep-variants. */
static const char *const variant_options[] = {
    "sweep-variants", "with-gemm",  "gemm",      "iters",       "repeats", "warmup_iters",  "check",
    "agg_iters",      "buffers",    "min-ctas",  "max-ctas",    "unalign", "start-barrier", "start-barrier-limit",
    "warmup",         "confidence", "max-iters", "max-seconds", "shuffle", "average"};

static bool applies_to_variants(const struct bb_opt *opt)
{
    bool found = false;

    for (size_t i = 0; i < sizeof variant_options / sizeof *variant_options; i++)
        found = found || strcmp(variant_options[i], opt->name) == 0;
    for (const struct bb_opt *o = bb_bench_case_rows; o->name; o++)
        found = found || o == opt;
    for (const struct bb_opt *o = bb_common_options; o->name; o++)
        found = found || o == opt;
    return found;
}

/* Validates --sweep-variants. Three sizes, unless sizes are given, and one placement fit in a report of 25 lines. */
static int resolve_variants(struct bb_bench_options *o, struct bb_sweep *sweep, const struct bb_positionals *line)
{
    bool sized = false;
    int rc;

    if (!o->sweep_variants && (o->with_gemm || strcmp(o->gemm, "4096") != 0))
        return bb_err(BB_EUSAGE, "%s requires --sweep-variants", o->with_gemm ? "--with-gemm" : "--gemm");
    if (!o->sweep_variants)
        return 0;
    if (strcmp(o->sampling.clock, "host") == 0) /* also under the names of nccl-tests */
        return bb_err(BB_EUSAGE, "--sweep-variants times by CUDA events, not by the host clock, try: busbar bench");
    TRY(bb_variants_parse(o->sweep_variants, o->variants, &o->n_variants));
    TRY(bb_gemm_dimensions_parse(o->gemm, o->gemm_mnk));
    for (int i = 0; i < line->n_given; i++) {
        const char letter = (char)line->given[i]->letter;

        if (!applies_to_variants(line->given[i]))
            return bb_err(BB_EUSAGE, "--sweep-variants cannot be combined with --%s", line->given[i]->name);
        sized = sized || letter == 'b' || letter == 'e' || strcmp(line->given[i]->name, "sizes") == 0;
    }
    if (strcmp(o->redop, "mulsum") == 0 || strcmp(o->redop, "all") == 0)
        return bb_err(BB_EUSAGE, "--sweep-variants cannot be combined with -o %s: mulsum is bound to a communicator",
                      o->redop);
    if (!sized && !o->matrix)
        TRY(bb_sizes_parse(&sweep->sizes, "--sizes", "64K,1M,16M", 0));
    sweep->in_place = sweep->in_place && !sweep->out_of_place;
out:
    return rc;
}

static int check_combinations(const struct bb_bench_options *o)
{
    if (o->graph_launches > 0 && o->blocking != 0)
        return bb_err(BB_EUSAGE,
                      "-G %d cannot be combined with -z %d: the host cannot wait between operations of a graph",
                      o->graph_launches, o->blocking);
    if (o->graph_launches > 0 && o->per_iteration)
        return bb_err(BB_EUSAGE,
                      "-G %d cannot be combined with -I 1: the iterations of a graph are not timed one by "
                      "one",
                      o->graph_launches);
    if (o->skipped >= o->iterations)
        return bb_err(BB_EUSAGE, "-K %d skips all %d iterations (-n)", o->skipped, o->iterations);
    if (o->registration > 0 && strcmp(o->common.buffers, "cuda") == 0)
        return bb_err(BB_EUSAGE, "-R %d registers memory of ncclMemAlloc and cannot be combined with --buffers cuda",
                      o->registration);
    if (o->max_ctas > 0 && o->min_ctas > o->max_ctas)
        return bb_err(BB_EUSAGE, "--min-ctas %d is above --max-ctas %d", o->min_ctas, o->max_ctas);
    if (o->sampling.sweep_algorithms && o->split)
        return bb_err(BB_EUSAGE,
                      "--sweep-algorithms cannot be combined with --split %s: each group would rank algorithms on "
                      "its own",
                      o->split);
    if (o->sampling.sweep_algorithms && o->warmup == 0)
        return bb_err(BB_EUSAGE, "--sweep-algorithms requires -w 1 or more: NCCL's choice is recorded in the warm-up");
    if (o->sampling.sweep_algorithms && o->cta_policy > 0)
        return bb_err(
            BB_EUSAGE,
            "--sweep-algorithms cannot be combined with CTA policy %d (-x), which selects the algorithm itself",
            o->cta_policy);
    return 0;
}

static int check_device(struct bb_bench_options *o, const struct bb_sweep *s)
{
    int rc = 0;

    if (!o->device)
        return o->device_ctas > 0 && o->device_ctas != BB_DEVICE_CTAS
                   ? bb_err(BB_EUSAGE, "-V %d requires --device", o->device_ctas)
                   : 0;
    if (o->registration == 1)
        return bb_err(BB_EUSAGE, "--device %s requires symmetric windows; try: -R 2", o->device);
    if (o->sampling.sweep_algorithms || o->sweep_variants)
        return bb_err(BB_EUSAGE, "--device %s cannot be combined with %s: the kernel is busbar's own", o->device,
                      o->sampling.sweep_algorithms ? "--sweep-algorithms" : "--sweep-variants");
    o->registration = 2;
    o->device_ctas = o->device_ctas > 0 ? o->device_ctas : BB_DEVICE_CTAS;
    for (int i = 0; i < s->n_colls; i++)
        for (int d = 0; d < s->n_dtypes; d++)
            for (int r = 0; r < s->n_redops && rc == 0; r++)
                rc = bb_device_check(o->device, s->colls[i], s->dtypes[d], s->redops[r]);
    return rc;
}

/* Returns whether the command line sets the option to another value than its default; programs of nccl-tests have none of these
 * names. */
static bool is_changed(const struct bb_positionals *line, const char *name, double value)
{
    for (int i = 0; i < line->n_given; i++)
        if (strcmp(line->given[i]->name, name) == 0)
            return value != strtod(line->given[i]->def, NULL);
    return false;
}

static int read_alltoallv_counts(const struct bb_bench_options *o, struct bb_sweep *sweep,
                                 const struct bb_positionals *line)
{
    const bool scaled = is_changed(line, "matrix-scale", o->matrix_scale),
               imbalanced = is_changed(line, "imbalance", o->imbalance);

    for (int i = 0; i < sweep->n_colls; i++)
        sweep->has_alltoallv |= (bb_colls[sweep->colls[i]].flags & BB_COLL_VARIABLE_COUNTS) != 0;
    if (!sweep->has_alltoallv && (o->matrix || scaled || imbalanced))
        return bb_err(BB_EUSAGE, "--%s is for alltoallv, which is not among the given collectives",
                      o->matrix ? "matrix"
                      : scaled  ? "matrix-scale"
                                : "imbalance");
    if (scaled && !o->matrix)
        return bb_err(BB_EUSAGE, "--matrix-scale requires --matrix FILE");
    if (imbalanced && o->matrix)
        return bb_err(BB_EUSAGE, "--matrix determines the counts, so --imbalance has no effect; leave one of them out");
    sweep->alltoallv_counts.imbalance = o->imbalance;
    return o->matrix ? bb_alltoallv_counts_read(&sweep->alltoallv_counts, o->matrix, o->matrix_scale) : 0;
}

void bb_bench_release_sweep(struct bb_sweep *sweep)
{
    bb_alltoallv_counts_release(&sweep->alltoallv_counts);
}

double bb_bench_factor(const struct bb_bench_options *o)
{
    if (o->factor > 1 || o->step_bytes > 0)
        return o->factor > 1 ? o->factor : 0;
    return o->min_bytes == 8 && o->max_bytes == 32 << 20 ? 4 : 2; /* the default sizes fit in a report of 25 lines */
}

/* Rejects --placement in_place if none of the collectives has this form: all results would be N/A. */
static int check_placement(const struct bb_sweep *s)
{
    for (int i = 0; i < s->n_colls; i++)
        if (s->out_of_place || bb_colls[s->colls[i]].inplace != BB_INPLACE_NONE)
            return 0;
    return bb_err(BB_EUSAGE,
                  "--placement in_place: %s cannot run in place, because received data would overwrite data that are "
                  "still to be sent; try: --placement out_of_place",
                  bb_colls[s->colls[0]].name);
}

int bb_bench_resolve_cases(struct bb_bench_options *o, struct bb_sweep *sweep, const struct bb_positionals *positionals)
{
    bool has_size = false;
    int rc;

    *sweep = (struct bb_sweep){0};
    TRY(add_collectives(sweep, positionals));
    TRY(check_sizes(o));
    if (strcmp(o->roots, "all") == 0)
        o->root = -1;
    else if (bb_parse_int(o->roots, -1, 1 << 30, &o->root))
        return bb_err(BB_EUSAGE, "--root: '%s' is not valid, expected a rank (0 or above) or all", o->roots);
    for (int i = 0; i < positionals->n_given; i++)
        has_size |= positionals->given[i]->letter && strchr("be", positionals->given[i]->letter);
    if (o->matrix && (o->sizes || (has_size && o->min_bytes != o->max_bytes)))
        return bb_err(BB_EUSAGE, "--matrix determines the size: leave out --sizes, and -b unless equal to -e");
    if (o->matrix)
        o->max_bytes = o->min_bytes;
    for (int i = 0; o->sizes && i < positionals->n_given; i++)
        if (positionals->given[i]->letter && strchr("befi", positionals->given[i]->letter))
            return bb_err(BB_EUSAGE, "--sizes %s lists all sizes, so -%c has no effect; leave one of them out",
                          o->sizes, positionals->given[i]->letter);
    if (o->sizes)
        TRY(bb_sizes_parse(&sweep->sizes, "--sizes", o->sizes, 0));
    sweep->n_dtypes = select_rows(sweep->dtypes, bb_dtype_find(o->dtype), BB_DTYPE_COUNT);
    sweep->n_redops = select_rows(sweep->redops, bb_redop_find(o->redop), BB_REDOP_COUNT);
    sweep->root = o->root;
    sweep->min_bytes = o->min_bytes;
    sweep->max_bytes = o->max_bytes;
    sweep->step_bytes = o->step_bytes;
    sweep->factor = bb_bench_factor(o);
    TRY(check_count(sweep));
    sweep->out_of_place = strcmp(o->placement, "in_place") != 0;
    sweep->in_place = strcmp(o->placement, "out_of_place") != 0;
    TRY(check_placement(sweep));
    TRY(read_alltoallv_counts(o, sweep, positionals));
out:
    return rc;
}

/* Parses --min-of-expected into the thresholds, and rejects a second list of limits. */
static int resolve_expected(struct bb_bench_options *o)
{
    struct bb_busbw_thresholds *t = &o->busbw_thresholds;
    double number;
    int rc;

    if (o->expect && bb_parse_double(o->expect, &number) == 0)
        return bb_err(BB_EUSAGE, "--expect: unknown cluster '%s'; a required bus bandwidth is --min-busbw %s",
                      o->expect, number > 0 ? o->expect : "GB/S (for example --min-busbw 300)");
    if (o->min_of_expected && !o->expect)
        return bb_err(BB_EUSAGE, "--min-of-expected requires --expect; try: --expect auto --min-of-expected %s",
                      o->min_of_expected);
    if (o->min_of_expected && o->min_busbw)
        return bb_err(BB_EUSAGE, "--min-of-expected cannot be combined with --min-busbw %s; try: only one of them",
                      o->min_busbw);
    TRY(bb_busbw_thresholds_parse(t, o->min_busbw));
    if (o->host_time && (o->expect || o->min_busbw))
        return bb_err(BB_EUSAGE, "%s cannot be combined with -C 1: the host's time to enqueue has no bus bandwidth",
                      o->expect ? "--expect" : "--min-busbw (NCCL_TESTS_MIN_BW)");
    if (o->expect && t->path_length > 0)
        return bb_err(BB_EUSAGE,
                      "--min-busbw %s cannot be combined with --expect; try: --expect %.*s "
                      "--min-of-expected %g%%",
                      o->min_busbw, t->path_length, o->min_busbw, 100 * t->fraction);
    if (!o->min_of_expected)
        return 0;
    if (bb_parse_percent(o->min_of_expected, 1000, &t->fraction))
        return bb_err(
            BB_EUSAGE,
            "--min-of-expected: '%s' is not valid, expected a percentage up to 1000%%, with %% if below 1; try: 90%%",
            o->min_of_expected);
out:
    return rc;
}

/* Rejects a limit for a collective that the run does not measure. */
static int check_limit_collectives(const struct bb_bench_options *o, const struct bb_sweep *sweep)
{
    const struct bb_busbw_thresholds *t = &o->busbw_thresholds;

    for (int i = 0; i < t->n; i++) {
        const struct bb_coll *coll = t->item[i].coll;
        bool found = coll == NULL;

        for (int c = 0; c < sweep->n_colls; c++)
            found |= coll == &bb_colls[sweep->colls[c]];
        if (!found)
            return bb_err(BB_EUSAGE, "--min-busbw: this run does not measure %s; try: bench %s %s", coll->name,
                          bb_colls[sweep->colls[0]].name, coll->name);
    }
    return 0;
}

/* Rejects a limit for a size outside of the run's sizes, which could not be checked at the end. A printed size, rounded down to
 * whole slices, may be below the first one; --matrix sets the size later. */
static int check_limit_sizes(const struct bb_bench_options *o, const struct bb_sweep *sweep)
{
    const struct bb_busbw_thresholds *t = &o->busbw_thresholds;
    size_t low = sweep->min_bytes, high = sweep->max_bytes;
    char size[BB_BYTES_TEXT], first[BB_BYTES_TEXT], last[BB_BYTES_TEXT];

    for (int i = 0; i < sweep->sizes.n; i++) {
        low = i == 0 || sweep->sizes.bytes[i] < low ? sweep->sizes.bytes[i] : low;
        high = i == 0 || sweep->sizes.bytes[i] > high ? sweep->sizes.bytes[i] : high;
    }
    for (int i = 0; i < t->n && !o->matrix; i++)
        if (t->item[i].scope == BB_BUSBW_SIZE && (t->item[i].bytes < low - low / 4 || t->item[i].bytes > high))
            return bb_err(BB_EUSAGE, "--min-busbw: %s is not among the sizes of this run, %s to %s; try: %s %zu",
                          bb_format_bytes(t->item[i].bytes, size), bb_format_bytes(low, first),
                          bb_format_bytes(high, last),
                          sweep->sizes.n > 0       ? "--sizes with"
                          : t->item[i].bytes < low ? "-b"
                                                   : "-e",
                          t->item[i].bytes);
    return 0;
}

/* Rejects --max-iters and --max-seconds without --confidence, whose limits they are, unless they have their defaults. */
static int check_confidence_limits(const struct bb_bench_options *o, const struct bb_positionals *line)
{
    const bool iterations = is_changed(line, "max-iters", (double)o->sampling.max_iterations),
               seconds = is_changed(line, "max-seconds", o->sampling.max_s);

    if (o->sampling.confidence || (!iterations && !seconds))
        return 0;
    return bb_err(BB_EUSAGE, "--%s requires --confidence; without it, -n and --repeats set the number of operations",
                  iterations ? "max-iters" : "max-seconds");
}

int bb_bench_resolve(struct bb_bench_options *o, struct bb_sweep *sweep, const struct bb_positionals *positionals)
{
    int rc;

    TRY(bb_bench_resolve_cases(o, sweep, positionals));
    TRY(check_device(o, sweep));
    TRY(check_modes(o));
    TRY(check_combinations(o));
    TRY(check_tuner(o));
    TRY(resolve_variants(o, sweep, positionals));
    TRY(check_confidence_limits(o, positionals));
    TRY(bb_sampling_resolve(&o->sampling));
    TRY(resolve_expected(o));
    TRY(check_limit_sizes(o, sweep));
    TRY(check_limit_collectives(o, sweep));
    sweep->shuffled = o->sampling.shuffle != NULL;
    sweep->seed = o->sampling.seed;
    sweep->unalign = (size_t)o->unalign;
    if (o->split)
        TRY(bb_split_parse(&sweep->split, o->split));
    sweep->is_split = o->split != NULL;
out:
    if (rc)
        bb_bench_release_sweep(sweep);
    return rc;
}

int bb_bench_parse(struct bb_bench_options *o, struct bb_sweep *sweep, int argc, char **argv, FILE *out)
{
    struct bb_positionals positionals;
    int rc;

    *sweep = (struct bb_sweep){0};
    TRY(bb_opts_parse(&bb_bench_set, o, argc, argv, &positionals, out));
    TRY(bb_bench_resolve(o, sweep, &positionals));
out:
    return rc;
}
