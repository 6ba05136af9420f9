/* plan.c - `busbar plan`: options to step, step to plan, plan to text and JSON. */
#include "proxies/plan.h"

#include "bootstrap/outfile.h"
#include "bootstrap/results.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MOST_RANKS (1 << 24)

/* ---- making ------------------------------------------------------------------------------------------------------ */

static int count_and_check(struct bb_plan *plan, const struct bb_step *step)
{
    int rc;

    *plan = (struct bb_plan){.step = step};
    TRY(bb_traffic_init(&plan->traffic, step));
    TRY(bb_step_check(step, &plan->checks));
out:
    if (rc)
        bb_plan_release(plan);
    return rc;
}

int bb_plan_init(struct bb_plan *plan, const struct bb_step *step)
{
    int rc = count_and_check(plan, step);

    return rc ? rc : bb_checks_refuse(&plan->checks);
}

void bb_plan_release(struct bb_plan *plan)
{
    bb_traffic_release(&plan->traffic);
    bb_checks_release(&plan->checks);
    *plan = (struct bb_plan){0};
}

size_t bb_plan_memory(const struct bb_plan *plan)
{
    size_t most = 0;

    for (int i = 0; i < plan->traffic.n; i++) {
        size_t bytes = bb_traffic_memory(&plan->traffic.roles[i]);

        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The first operation with real work; what timed kernels stand for says nothing of a GPU's peak. */
static const struct bb_op *with_work(const struct bb_program *p)
{
    for (size_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].work)
            return &p->ops[i];
    return NULL;
}

double bb_plan_utilisation(const struct bb_plan *plan, const struct bb_prediction *p)
{
    double flops = 0, ns = (double)p->classes[p->slowest].all.step_ns;
    const struct bb_op *op = NULL;

    for (int i = 0; i < plan->traffic.n; i++) {
        const struct bb_traffic_role *role = &plan->traffic.roles[i];

        flops += role->flops * role->n_ranks;
        op = op ? op : with_work(role->program);
    }
    if (!op || ns <= 0)
        return NAN;
    return flops / (bb_cluster_tflops(&p->cluster, op->dtype) * 1e3 * ns * plan->step->layout.ranks);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

struct plan_options {
    struct bb_proxy_config shape;
    const char *json, *cluster, *trace;
    bool ops;
};

#define FIELD(name) offsetof(struct plan_options, name)

static const struct bb_opt plan_options[] = {
    {.name = "ranks",
     .kind = BB_OPT_INT,
     .offset = FIELD(shape.ranks),
     .arg = "N",
     .help = "ranks of the job: needed",
     .min = 1,
     .max = MOST_RANKS},
    {.name = "cluster",
     .kind = BB_OPT_STRING,
     .offset = FIELD(cluster),
     .arg = "NAME|FILE",
     .help = "predict the step's time on this cluster ('busbar list clusters')"},
    {.name = "trace",
     .kind = BB_OPT_STRING,
     .offset = FIELD(trace),
     .arg = "FILE",
     .help = "with --cluster: write the predicted timeline to FILE, as events that Perfetto opens; the slowest and "
             "other ranks, at most 64"},
    {.name = "ops",
     .kind = BB_OPT_FLAG,
     .offset = FIELD(ops),
     .help = "also every operation of each role, in the order in which the host issues them"},
    {.name = "json",
     .kind = BB_OPT_STRING,
     .offset = FIELD(json),
     .arg = "FILE",
     .help = "write busbar.plan/1 to FILE, '-' for stdout (instead of the text)"},
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "The plan", .opts = plan_options},
    {.title = "The step", .opts = bb_proxy_options, .base = FIELD(shape)},
    {.title = "A transformer", .opts = bb_transformer_options, .base = FIELD(shape.transformer)},
    {.title = "Data parallelism", .opts = bb_sync_options, .base = FIELD(shape.sync)},
    {.title = "Spatial parallelism and GEMS", .opts = bb_tiles_options, .base = FIELD(shape.tiles)},
    {.title = "A scaling study", .opts = bb_scaling_options, .base = FIELD(shape.scaling)},
    {0},
};

static const struct bb_opts set = {
    .usage = "busbar plan NAME [WORD...] --ranks N [OPTION...]",
    .doc = "Builds the step of a proxy for any number of ranks, without GPU and MPI: who moves what, how much memory\n"
           "its buffers take, whether every message meets its other side and nothing can deadlock, and, from the cost\n"
           "model of a cluster profile, how long it would take. NAME is a name of `busbar list proxies`; some take\n"
           "numbers after it: busbar plan gpt2_large 64 8 --ranks 32",
    .after = "Exit status: 0 ok, 1 the step is not sound, 2 usage or a layout that cannot be.",
    .tables = tables,
};

static int write_file(const json_t *root, const char *path)
{
    struct bb_outfile file;
    int rc = bb_outfile_open(&file, path, "the plan");

    if (rc)
        return rc;
    if ((json_dumpf(root, file.out, JSON_INDENT(1)) || fputc('\n', file.out) == EOF) && !ferror(file.out))
        rc = bb_err(BB_EFAIL, "out of memory for the plan's JSON");
    return bb_outfile_close(&file, "the plan", rc);
}

static int write_json(const struct bb_plan *plan, const struct bb_prediction *p, const struct plan_options *o)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:o}", "schema", "busbar.plan/1", "busbar", BUSBAR_VERSION, "proxy",
                             plan->step->proxy, "options", bb_json_options(&set, o));
    int rc = root ? bb_plan_body(root, plan, o->ops) : bb_err(BB_EFAIL, "out of memory for the plan's JSON");

    if (rc == 0 && p && json_object_set_new(root, "predicted", bb_plan_predicted(plan, p)))
        rc = bb_err(BB_EFAIL, "out of memory for the plan's JSON");
    if (rc == 0 && strcmp(o->json, "-") != 0)
        rc = write_file(root, o->json);
    else if (rc == 0 && (json_dumpf(root, stdout, JSON_INDENT(1)) || putchar('\n') == EOF))
        rc = bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(errno));
    json_decref(root);
    return rc;
}

static int show(const struct bb_plan *plan, const struct bb_prediction *p, const struct plan_options *o, int argc,
                char **argv)
{
    if (o->json && strcmp(o->json, "-") == 0)
        return write_json(plan, p, o);
    printf("# busbar %s  busbar", BUSBAR_VERSION);
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    putchar('\n');
    bb_plan_print(plan, p, o->ops, stdout);
    return o->json ? write_json(plan, p, o) : 0;
}

static int write_trace(const struct bb_step *step, const struct bb_prediction *p, const char *path)
{
    struct bb_timeline t;
    char source[128];
    int rc;

    TRY(bb_timeline_init(&t, step, &p->classes[p->slowest].rank, 1));
    snprintf(source, sizeof(source), "predicted for %.100s", p->cluster.name);
    t.source = source;
    t.clock = "predicted: all ranks begin at 0";
    TRY(bb_predict_timeline(step, &p->cluster, &t));
    TRY(bb_timeline_save(&t, path));
out:
    bb_timeline_release(&t);
    return rc;
}

static int make(const struct plan_options *o, const struct bb_proxy *proxy, int argc, char **argv)
{
    struct bb_proxy_config shape = o->shape;
    struct bb_prediction prediction = {0};
    struct bb_cluster cluster;
    struct bb_plan plan = {0};
    struct bb_step step = {0};
    int rc, refused;
    bool sound;

    if (o->cluster)
        TRY(bb_cluster_load(o->cluster, &cluster));
    if (o->cluster && shape.gpus_per_node == 0)
        shape.gpus_per_node = cluster.gpus_per_node;
    TRY(bb_step_build(&step, proxy, &shape));
    TRY(count_and_check(&plan, &step));
    sound = plan.checks.matched && plan.checks.deadlock_free;
    if (o->cluster && sound)
        TRY(bb_predict(&step, &cluster, &prediction));
    if (o->trace && sound)
        TRY(write_trace(&step, &prediction, o->trace));
    TRY(show(&plan, o->cluster && sound ? &prediction : NULL, o, argc, argv));
    refused = bb_checks_refuse(&plan.checks);
    rc = refused;
out:
    bb_prediction_release(&prediction);
    bb_plan_release(&plan);
    bb_step_release(&step);
    return rc;
}

static int parse(int argc, char **argv, struct plan_options *o, const struct bb_proxy **proxy)
{
    struct bb_words words;
    int rc;

    TRY(bb_opts_parse(&set, o, argc, argv, &words, stdout));
    TRY(bb_proxy_configure(&o->shape, &words, proxy));
    if (o->shape.ranks == 0)
        return bb_err(BB_EUSAGE, "plan needs --ranks N, the ranks of the job; nearest: --ranks %d",
                      o->shape.stages > 0 ? o->shape.stages : 1);
    if (o->trace && !o->cluster)
        return bb_err(BB_EUSAGE, "--trace needs the cluster to predict for; nearest: --cluster h100-sxm-ib");
out:
    return rc;
}

int bb_plan_main(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct plan_options o = {0};
    int rc;

    TRY(parse(argc, argv, &o, &proxy));
    if (o.trace)
        TRY(bb_timeline_check_path(o.trace));
    TRY(make(&o, proxy, argc, argv));
out:
    return rc;
}

int bb_plan_check(int argc, char **argv)
{
    const struct bb_proxy *proxy;
    struct plan_options o = {0};
    int rc = bb_opts_check(&set, argc, argv);

    return rc ? rc : parse(argc, argv, &o, &proxy);
}
