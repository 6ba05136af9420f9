/* plan_compute.c - `busbar plan compute`: predicts the table of kernels that `busbar bench compute` prints, and kernels of
 * given shapes. */
#include "proxies/plan_compute.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/json_read.h"
#include "bootstrap/cli/report_header.h"
#include "bootstrap/results/results.h"
#include "bootstrap/results/table.h"
#include "collectives/compute/compute_cases.h"
#include "collectives/compute/compute_options.h"
#include "proxies/form/models/profile.h"
#include "proxies/offline/bench_plan/published.h"
#include "proxies/plan_options.h"
#include "proxies/simulation/machine/software.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SOFTWARE "megatron-plain" /* default of --software, and that of the published rates */

struct options {
    const char *cluster, *dtype, *gradients, *software, *precision, *shapes, *json;
    struct bb_opt_texts changes;
    size_t bytes;
    bool fp8, quiet;
};

static const char *const precisions[] = {"fp8", "mxfp8", "nvfp4", NULL};
static const char *const types[] = {"float", "half", "bfloat16", NULL};

#define FIELD(name) offsetof(struct options, name)
static const struct bb_opt option_rows[] = {
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE", "the GPUs ('busbar list clusters'; required)",
               .choice_at = bb_cluster_name_at),
    OPT_TEXTS(0, "set", FIELD(changes), "KEY=VALUE", BB_SET_HELP),
    OPT_CHOICE('d', "datatype", FIELD(dtype), "bfloat16", "TYPE", types, "element type"),
    OPT_CHOICE(0, "grad-dtype", FIELD(gradients), "float", "TYPE", types, "element type of the gradients of wgrad"),
    OPT_CHOICE(0, "software", FIELD(software), SOFTWARE, "NAME", bb_software_names,
               "rates of GEMMs and attention; megatron: those of tuned recipes"),
    OPT_FLAG(0, "fp8", FIELD(fp8), "GEMMs have FP8 operands"),
    OPT_CHOICE(0, "gemm-precision", FIELD(precision), NULL, "TYPE", precisions,
               "GEMMs have operands of this type: fp8, on Blackwell mxfp8 or nvfp4"),
    OPT_SIZE(0, "size", FIELD(bytes), "256M", "BYTES", 1024, 1ull << 40,
             "approximate bytes moved by a memory-bound kernel"),
    OPT_STRING(0, "shapes", FIELD(shapes), NULL, "FILE", "file with more shapes, separated by blanks or lines"),
    OPT_OUTPUT_DASH(0, "json", FIELD(json), "write busbar.plan/1 to FILE, '-' for stdout (instead of the text)"),
    OPT_FLAG(0, "quiet", FIELD(quiet), "no table"),
    {0},
};
static const struct bb_opt_table tables[] = {{.title = "Options", .opts = option_rows}, {0}};

static const struct bb_opts set = {
    .usage = "busbar plan compute [gemm] [memory_kernels] [SHAPE...] --cluster NAME|FILE [OPTION...]",
    .doc = "Predicts the kernels of busbar bench compute (default: gemm and memory_kernels) or of these shapes:\n"
           "gemm:MxNxK[xBATCH], wgrad:MxNxK[xBATCH] (adds to gradients), grouped:GROUPSxMxNxK (M: rows per\n"
           "expert), grouped_wgrad:GROUPSxMxNxK, attention:BATCHxTOKENSxHEADSxDIM and\n"
           "attention_backward:BATCHxTOKENSxHEADSxDIM (causal, fused), or the name of a memory-bound kernel (adam).",
    .exits = {[2] = "usage error"},
    .examples = "  busbar plan compute gemm:8192x8192x8192 attention:1x8192x32x128 --cluster h100-sxm-ib\n",
    .tables = tables,
    .size = sizeof(struct options)};

/* One row: up to four GEMMs of one fused kernel, or one kernel. */
struct kernel {
    char name[128];
    const char *section;
    struct bb_kernel_list_item items[4];
    int n_items;
    double us, tflops, gbps;
    const char *limit;
};

struct table {
    const struct options *o;
    struct bb_cluster cluster;
    enum bb_dtype_id dtype;
    enum bb_gemm_precision precision;
    struct kernel *kernels;
    size_t n;
};

static const struct bb_field fields[] = {
    {"section", BB_SHOWS(struct kernel, section)},
    {"name", "kernel", "", 40, 0, BB_SHOWS(struct kernel, name), .form = BB_FORM_LEFT},
    {"time_us", "time", "(us)", 12, 2, BB_SHOWS(struct kernel, us)},
    {"tflops", "TFLOP/s", "", 9, 1, BB_SHOWS(struct kernel, tflops)},
    {"gbps", "GB/s", "", 9, 1, BB_SHOWS(struct kernel, gbps)},
    {"limited_by", "limited by", "", 11, 0, BB_SHOWS(struct kernel, limit)},
    {0},
};

/* ---- shapes ---- */

static struct kernel *add(struct table *t, const char *section, const char *name)
{
    struct kernel *k;

    BB_GROW(t->kernels, t->n);
    k = &t->kernels[t->n++];
    *k = (struct kernel){.section = section};
    snprintf(k->name, sizeof(k->name), "%s", name);
    return k;
}

static void add_gemm(struct table *t, struct kernel *k, int64_t m, int64_t n, int64_t depth, int64_t batch)
{
    k->items[k->n_items++] =
        (struct bb_kernel_list_item){.precision = strcmp(k->section, "attention") == 0 ? BB_GEMM_DTYPE : t->precision,
                                     .share = 1,
                                     .gemm = {.m = m, .n = n, .k = depth, .batch = batch, .dtype = t->dtype}};
}

/* The GEMMs of causal attention: scores and context, and their gradients in the backward pass. */
static void add_attention(struct table *t, struct kernel *k, const int64_t *v, bool backward)
{
    for (int pass = 0; pass < (backward ? 2 : 1); pass++) {
        add_gemm(t, k, v[1], v[1], v[3], v[0] * v[2]);
        add_gemm(t, k, v[1], v[3], v[1], v[0] * v[2]);
    }
    for (int i = 0; i < k->n_items; i++) {
        k->items[i].fusion = backward ? BB_KERNEL_IN_ATTENTION_BACKWARD : BB_KERNEL_IN_ATTENTION;
        k->items[i].share = 0.5;
    }
}

#define MAX_EDGE (1 << 24)

/* Reads 3 or 4 numbers with x between them. Returns how many; 0: the text has another form. */
static int read_numbers(const char *text, int64_t v[4])
{
    int n = 0;

    while (n < 4) {
        char *end;

        errno = 0;
        v[n] = strtoll(text, &end, 10);
        if (end == text || v[n] < 1 || v[n] > MAX_EDGE || errno)
            return 0;
        n++;
        if (*end == '\0')
            return n < 3 ? 0 : n;
        if (*end != 'x')
            return 0;
        text = end + 1;
    }
    return 0;
}

static int add_shape(struct table *t, const char *word)
{
    static const struct {
        const char *prefix, *section;
        int numbers;
        bool backward; /* a weight gradient, or the backward pass of attention */
    } kinds[] = {{"gemm:", "gemm", 3, false},           {"wgrad:", "gemm", 3, true},
                 {"grouped:", "grouped", 4, false},     {"grouped_wgrad:", "grouped", 4, true},
                 {"attention:", "attention", 4, false}, {"attention_backward:", "attention", 4, true}};
    const int n_kinds = (int)(sizeof(kinds) / sizeof(kinds[0]));
    struct kernel *k;
    int64_t v[4];
    int i = 0, n;

    while (i < n_kinds && strncmp(word, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
        i++;
    n = i < n_kinds ? read_numbers(word + strlen(kinds[i].prefix), v) : 0;
    if (n == 0 || n < kinds[i].numbers)
        return bb_err(BB_EUSAGE,
                      "'%s' is not a kernel, expected gemm: or wgrad:MxNxK[xBATCH], grouped: or "
                      "grouped_wgrad:GROUPSxMxNxK, attention: or attention_backward:BATCHxTOKENSxHEADSxDIM, or a "
                      "memory-bound kernel such as adam",
                      word);
    k = add(t, kinds[i].section, word);
    if (strcmp(k->section, "attention") == 0) {
        add_attention(t, k, v, kinds[i].backward);
        return 0;
    }
    if (kinds[i].numbers == 4)
        add_gemm(t, k, v[1], v[2], v[3], v[0]);
    else
        add_gemm(t, k, v[0], v[1], v[2], n == 4 ? v[3] : 1);
    k->items[0].gemm.trans_a = kinds[i].backward;
    k->items[0].experts = kinds[i].numbers == 4 ? (int)v[0] : 0;
    return 0;
}

/* Adds the memory-bound kernels of bench compute with this name; NULL: all. Returns whether there is one. */
static bool add_memory_kernels(struct table *t, const char *name)
{
    struct bb_memory_kernel_case c;
    bool found = false;

    for (int i = 0; bb_compute_memory_kernel(i, t->dtype, t->o->bytes, &c); i++)
        if (!name || strcmp(name, c.name) == 0) {
            struct kernel *k = add(t, bb_compute_section_names[BB_COMPUTE_MEMORY_KERNELS], c.name);

            k->items[k->n_items++] =
                (struct bb_kernel_list_item){.is_memory_kernel = true, .memory_kernel = c.memory_kernel};
            found = true;
        }
    return found;
}

static void add_bench_gemms(struct table *t)
{
    struct bb_gemm_case cases[BB_COMPUTE_GEMMS];
    const int n = bb_compute_gemms(t->dtype, false, cases);

    for (int i = 0; i < n; i++) {
        const struct bb_gemm_shape *s = &cases[i].shape;
        char name[sizeof(t->kernels->name)];

        snprintf(name, sizeof(name), "%.*s %lldx%lldx%lldx%lld", BB_COMPUTE_NAME, cases[i].name, (long long)s->m,
                 (long long)s->n, (long long)s->k, (long long)s->batch);
        add_gemm(t, add(t, "gemm", name), s->m, s->n, s->k, s->batch);
    }
}

static int add_word(struct table *t, const char *word)
{
    if (strcmp(word, "gemm") == 0)
        add_bench_gemms(t);
    else if (strcmp(word, "memory_kernels") == 0)
        (void)add_memory_kernels(t, NULL);
    else if (!add_memory_kernels(t, word))
        return add_shape(t, word);
    return 0;
}

static int add_file(struct table *t, const char *path)
{
    const char *problem;
    FILE *file = bb_input_open(path, &problem);
    const size_t before = t->n;
    char word[128];
    int rc = 0;

    if (!file)
        return bb_err(BB_EUSAGE, "--shapes: cannot read %s: %s", path, problem);
    while (rc == 0 && fscanf(file, "%127s", word) == 1)
        rc = add_word(t, word);
    if (rc == 0 && ferror(file))
        rc = bb_err(BB_EUSAGE, "--shapes: cannot read %s: %s", path, strerror(errno));
    else if (rc == 0 && t->n == before)
        rc = bb_err(BB_EUSAGE, "--shapes: %s contains no shape, expected shapes such as gemm:8192x8192x8192", path);
    fclose(file);
    return rc;
}

/* ---- prediction ---- */

/* Loads the profile with the rates of the software. Its factor of memory-bound kernels is that of a whole step, in which
 * plain software has more kernels than the model, so a single kernel has the rate of the profile. */
static int load_cluster(const struct options *o, struct bb_cluster *c)
{
    double memory;
    int rc;

    TRY(bb_cluster_load_changed(o->cluster, &o->changes, c));
    bb_cluster_warn_units(c);
    TRY(bb_plan_validate_precision(c, o->precision));
    c->models_training = true;
    c->gradient_bytes = bb_dtypes[bb_dtype_find(o->gradients)].bytes;
    memory = c->achieved.memory;
    bb_software_apply(bb_software_of(o->software, false, false), c);
    c->achieved.memory = memory;
out:
    return rc;
}

/* Operations of a framework that a call of fused attention takes the host time of: 90 us on the host of eight B200 with
 * PyTorch and Transformer Engine (MooreThreads/SimuMax, configs/system), where 9 us are one operation. */
#define ATTENTION_OPERATIONS 10

/* Returns the host time of a kernel that only frameworks launch, in ns: a group has one launch per GEMM. */
static double host_ns(const struct bb_cluster *c, const struct kernel *k)
{
    const int n = strcmp(k->section, "attention") == 0 ? ATTENTION_OPERATIONS : k->items[0].experts;

    return c->has_host ? n * (c->launch_us + c->host.op_us) * 1e3 : 0;
}

static void predict(const struct bb_cluster *c, struct kernel *k)
{
    double ns = 0, flops = 0, bytes = 0;
    const double launch_ns = fmax(c->kernel_us * 1e3 * k->n_items, host_ns(c, k));
    bool by_memory = false;

    for (int i = 0; i < k->n_items; i++) {
        const struct bb_kernel_list_item *item = &k->items[i];

        ns += (double)bb_cluster_kernel_on_sms_ns(c, item, c->sm_count, &by_memory);
        if (item->is_memory_kernel)
            bytes += (double)bb_memory_kernel_bytes(&item->memory_kernel);
        else
            flops +=
                bb_gemm_flops(&item->gemm) * item->share * (item->fusion == BB_KERNEL_IN_ATTENTION_BACKWARD ? 1.25 : 1);
    }
    if (strcmp(k->section, "attention") != 0 && !k->items[0].is_memory_kernel)
        bytes = (double)bb_gemm_bytes(&k->items[0].gemm);
    by_memory &= ns > launch_ns;
    ns = fmax(ns, launch_ns);
    k->us = ns / 1e3;
    k->tflops = flops > 0 ? flops / ns / 1e3 : NAN;
    k->gbps = bytes > 0 ? bytes / ns : NAN;
    k->limit = by_memory ? "memory" : ns <= launch_ns ? "launch" : "arithmetic";
}

/* Returns the errors of the sections of the table as a list of texts. The published rates are of 16-bit operands. */
static json_t *accuracy_of(const struct table *t)
{
    json_t *list = json_array(), *sections = json_object();
    char text[BB_PUBLISHED_TEXT], kind[64];

    for (size_t i = 0; i < t->n; i++) {
        const char *section = t->kernels[i].section;
        const char *other = t->precision && strcmp(section, "attention") != 0 ? bb_gemm_formats[t->precision].name
                            : t->dtype == BB_FLOAT                            ? "float"
                                                                              : NULL;
        bool differs;

        if (json_object_get(sections, section))
            continue;
        json_object_set_new(sections, section, json_null());
        snprintf(kind, sizeof(kind), "%s%s%s", section, other ? " in " : "", other ? other : "");
        bb_published_text(&t->cluster, kind, 0, text);
        differs = strcmp(t->o->software, SOFTWARE) != 0 && !strstr(text, "no published");
        json_array_append_new(list, json_sprintf("%s%s", text, differs ? " (of software " SOFTWARE ")" : ""));
    }
    json_decref(sections);
    return list;
}

static void print(const struct table *t, int argc, char **argv)
{
    json_t *accuracy = accuracy_of(t), *text;
    bool attention = false;
    size_t k;

    for (size_t i = 0; i < t->n; i++)
        attention |= strcmp(t->kernels[i].section, "attention") == 0;

    bb_print_report_header(stdout, argc, argv);
    printf("# predicted for %s (modelled, not measured), %s%s%s, software %s; GEMMs: MxNxKxBATCH\n%s#\n",
           t->cluster.name, t->o->dtype, t->precision ? ", GEMMs in " : "",
           t->precision ? bb_gemm_formats[t->precision].name : "", t->o->software,
           attention
               ? "# attention is causal: TFLOP/s count only the scores that the mask keeps; backward: five GEMMs\n"
               : "");
    bb_table_heading(stdout, fields);
    for (size_t i = 0; i < t->n; i++)
        bb_table_row(stdout, fields, &t->kernels[i]);
    json_array_foreach(accuracy, k, text)
    {
        printf("# accuracy: %s\n", json_string_value(text));
    }
    json_decref(accuracy);
}

static json_t *json_of(const struct table *t, int argc, char **argv)
{
    json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:{s:s, s:o}, s:o, s:o}", "schema", "busbar.plan/1", "busbar",
                             BUSBAR_VERSION, "command", bb_json_words(argc, argv), "options",
                             bb_json_options(&set, t->o), "predicted", "cluster", t->cluster.name, "accuracy",
                             accuracy_of(t), "results", bb_table_list(fields, t->kernels, t->n, sizeof(*t->kernels)),
                             "profiles", bb_profile_checksums(t->o->cluster, NULL));

    bb_results_set_end(root, 0, NULL);
    return root;
}

int bb_plan_compute(int argc, char **argv, bool check_only)
{
    struct options o;
    struct bb_positionals line;
    struct table t = {.o = &o};
    int rc = bb_opts_parse(&set, &o, argc, argv, &line, stdout);

    if (rc != 0)
        return rc;
    if (!o.cluster)
        return bb_err(BB_EUSAGE, "plan compute requires --cluster (for example --cluster h100-sxm-ib)");
    if (o.fp8 && o.precision && strcmp(o.precision, "nvfp4") == 0)
        return bb_err(BB_EUSAGE, "--fp8 and --gemm-precision nvfp4 exclude each other; leave one out");
    o.precision = o.precision ? o.precision : o.fp8 ? "fp8" : NULL;
    t.precision = bb_gemm_precision_of(o.precision);
    t.dtype = (enum bb_dtype_id)bb_dtype_find(o.dtype);
    for (int i = 1; i < line.n; i++)
        TRY(add_word(&t, line.word[i]));
    if (o.shapes)
        TRY(add_file(&t, o.shapes));
    for (int i = 0, none = t.n == 0; none && i < BB_COMPUTE_TIMED; i++)
        TRY(add_word(&t, bb_compute_section_names[i]));
    TRY(bb_results_validate(o.json, NULL));
    if (check_only)
        goto out;
    TRY(load_cluster(&o, &t.cluster));
    for (size_t i = 0; i < t.n; i++)
        predict(&t.cluster, &t.kernels[i]);
    if (o.json)
        TRY(bb_json_save(o.json, "the plan's JSON", json_of(&t, argc, argv), 0));
    if (!o.quiet && !bb_results_on_stdout(o.json, NULL))
        print(&t, argc, argv);
out:
    free(t.kernels);
    return rc;
}
