/* plan_main.c - `busbar plan`: options to step, step to plan, plan to text and JSON. */
#include "proxies/plan_main.h"

#include "bootstrap/base/outfile.h"
#include "bootstrap/results/results.h"
#include "proxies/plan/plan.h"
#include "proxies/registry/best_order.h"
#include "proxies/registry/registry.h"

#include <errno.h>
#include <string.h>

#define MOST_RANKS (1 << 24)

struct plan_options {
    struct bb_proxy_config shape;
    const char *json, *cluster, *trace;
    bool ops, best_order;
};

#define FIELD(name) offsetof(struct plan_options, name)

static const struct bb_opt plan_options[] = {
    OPT_INT(0, "ranks", FIELD(shape.ranks), NULL, "N", 1, MOST_RANKS, "ranks of the job: needed"),
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE",
               "predict the step's time on this cluster ('busbar list clusters')"),
    OPT_STRING(0, "trace", FIELD(trace), NULL, "FILE",
               "with --cluster: write the predicted timeline to FILE, as events that Perfetto opens; the slowest and "
               "other ranks, at most 64"),
    OPT_FLAG(0, "ops", FIELD(ops), "also every operation of each role, in the order in which the host issues them"),
    OPT_FLAG(0, "best-order", FIELD(best_order),
             "of transformer: also every order of the axes (--order), by the bytes that cross nodes in a step; nodes "
             "from --gpus-per-node or --cluster"),
    OPT_STRING(0, "json", FIELD(json), NULL, "FILE",
               "write busbar.plan/1 to FILE, '-' for stdout (instead of the text)"),
    {0},
};

static const struct bb_opt_table tables[] = {
    {.title = "The plan", .opts = plan_options},
    BB_STEP_TABLES(FIELD(shape)),
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

/* What was found out. */
struct findings {
    struct bb_step step;
    struct bb_plan plan;
    struct bb_prediction prediction;
    struct bb_best_order best;
    bool predicted;
};

static const struct bb_prediction *prediction_of(const struct findings *f)
{
    return f->predicted ? &f->prediction : NULL;
}

static int add_findings(json_t *root, const struct findings *f, bool ops)
{
    int rc, bad = 0;

    TRY(bb_plan_body(root, &f->plan, ops));
    if (f->predicted)
        bad |= json_object_set_new(root, "predicted", bb_plan_predicted(&f->plan, &f->prediction));
    if (f->best.n > 0)
        bad |= json_object_set_new(root, "best_order", bb_best_order_json(&f->best));
    rc = bad ? bb_err(BB_EFAIL, "out of memory for the plan's JSON") : 0;
out:
    return rc;
}

static int write_json(const struct findings *f, const struct plan_options *o)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:o}", "schema", "busbar.plan/1", "busbar", BUSBAR_VERSION, "proxy",
                             f->step.proxy, "options", bb_json_options(&set, o));
    int rc = root ? add_findings(root, f, o->ops) : bb_err(BB_EFAIL, "out of memory for the plan's JSON");

    if (rc == 0 && strcmp(o->json, "-") != 0)
        rc = write_file(root, o->json);
    else if (rc == 0 && (json_dumpf(root, stdout, JSON_INDENT(1)) || putchar('\n') == EOF))
        rc = bb_err(BB_EFAIL, "cannot write to stdout: %s", strerror(errno));
    json_decref(root);
    return rc;
}

static int show(const struct findings *f, const struct plan_options *o, int argc, char **argv)
{
    if (o->json && strcmp(o->json, "-") == 0)
        return write_json(f, o);
    printf("# busbar %s  busbar", BUSBAR_VERSION);
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    putchar('\n');
    bb_plan_print(&f->plan, prediction_of(f), o->ops, stdout);
    if (f->best.n > 0)
        bb_best_order_print(&f->best, stdout);
    return o->json ? write_json(f, o) : 0;
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
    struct bb_cluster cluster;
    struct findings f = {0};
    bool sound;
    int rc;

    if (o->cluster)
        TRY(bb_cluster_load(o->cluster, &cluster));
    if (o->cluster && shape.gpus_per_node == 0)
        shape.gpus_per_node = cluster.gpus_per_node;
    TRY(bb_step_build(&f.step, proxy, &shape));
    TRY(bb_plan_count(&f.plan, &f.step, o->ops));
    sound = f.plan.checks.matched && f.plan.checks.deadlock_free;
    f.predicted = o->cluster && sound;
    if (f.predicted)
        TRY(bb_predict(&f.step, &cluster, &f.prediction));
    if (o->trace && sound)
        TRY(write_trace(&f.step, &f.prediction, o->trace));
    if (o->best_order)
        TRY(bb_best_order(proxy, &shape, shape.gpus_per_node, &f.best));
    TRY(show(&f, o, argc, argv));
    rc = bb_checks_refuse(&f.plan.checks);
out:
    bb_best_order_release(&f.best);
    bb_prediction_release(&f.prediction);
    bb_plan_release(&f.plan);
    bb_step_release(&f.step);
    return rc;
}

static int parse(int argc, char **argv, struct plan_options *o, const struct bb_proxy **proxy)
{
    struct bb_words words;
    int rc;

    TRY(bb_opts_parse(&set, o, argc, argv, &words, stdout));
    TRY(bb_proxy_configure(&o->shape, &words, proxy));
    if (o->shape.ranks == 0)
        return bb_err(BB_EUSAGE, "%s: plan needs --ranks N, how many ranks the job has", (*proxy)->name);
    if (o->trace && !o->cluster)
        return bb_err(BB_EUSAGE, "--trace needs the cluster to predict for; nearest: --cluster h100-sxm-ib");
    if (o->shape.scaling.baseline)
        return bb_err(BB_EUSAGE, "--baseline is for what a run measures, and a plan measures nothing; leave it out");
    if (o->best_order && !((*proxy)->takes & BB_TAKES_TRANSFORMER))
        return bb_err(BB_EUSAGE, "%s: --best-order is about the axes of transformer; leave it out", (*proxy)->name);
    if (o->best_order && !o->cluster && o->shape.gpus_per_node == 0)
        return bb_err(BB_EUSAGE, "--best-order needs the nodes: --gpus-per-node N or --cluster NAME; nearest: "
                                 "--gpus-per-node 8");
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
