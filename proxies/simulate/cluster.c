/* cluster.c - reads cluster profiles and computes durations from them (the definition: profiles/clusters/README.md). */
#include "proxies/simulate/cluster.h"

#include "cuda/work/kernel_list.h"
#include "proxies/models/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading: a row per number ---- */

struct field {
    const char *object, *key; /* object: NULL at the top */
    size_t offset;
    double min;
    bool whole; /* an int, not a double */
};

#define AT(member) offsetof(struct bb_cluster, member)
#define TINY       1e-9

static const struct field fields[] = {
    {NULL, "gpus_per_node", AT(gpus_per_node), 1, true},
    {NULL, "sm_count", AT(sm_count), 1, true},
    {NULL, "clock_khz", AT(clock_khz), 1, true},
    {NULL, "launch_us", AT(launch_us), 0, false},
    {NULL, "nccl_launch_us", AT(nccl_launch_us), 0, false},
    {NULL, "kernel_us", AT(kernel_us), 0, false},
    {NULL, "memory_gbps", AT(memory_gbps), TINY, false},
    {NULL, "memory_bytes", AT(memory_bytes), 1, false},
    {"tflops", "float32", AT(tflops_float32), 0, false},
    {"tflops", "float16", AT(tflops_float16), 0, false},
    {"tflops", "bfloat16", AT(tflops_bfloat16), 0, false},
    {"tflops", "float64", AT(tflops_float64), 0, false},
    {"intra", "latency_us", AT(intra.latency_us), 0, false},
    {"intra", "gbps", AT(intra.gbps), TINY, false},
    {"inter", "latency_us", AT(inter.latency_us), 0, false},
    {"inter", "gbps", AT(inter.gbps), TINY, false},
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))

static bool known(const char *object, const char *key)
{
    if (!object && (key[0] == '_' || !strcmp(key, "name") || !strcmp(key, "description") || !strcmp(key, "source")))
        return true;
    for (size_t f = 0; f < N_FIELDS; f++) {
        const char *here = fields[f].object;

        if ((here == object || (here && object && !strcmp(here, object))) && !strcmp(fields[f].key, key))
            return true;
        if (!object && here && !strcmp(here, key))
            return true;
    }
    return false;
}

static int refuse_unknown(json_t *json, const char *object, const char *where)
{
    const char *key;
    json_t *value;

    json_object_foreach(json, key, value)
    {
        if (!known(object, key))
            return bb_err(BB_EUSAGE, "%s: unknown key '%s%s%s'", where, object ? object : "", object ? "." : "", key);
        if (json_is_object(value) && !object && refuse_unknown(value, key, where))
            return -BB_EUSAGE;
    }
    return 0;
}

static int read_field(const json_t *root, const struct field *f, const char *where, struct bb_cluster *cluster)
{
    json_t *object = (json_t *)root;
    double value;
    int rc;

    if (f->object)
        TRY(bb_profile_object(root, f->object, where, &object));
    TRY(bb_profile_number(object, f->key, where, f->min, &value));
    if (f->whole && (value > 1e9 || value != floor(value)))
        return bb_err(BB_EUSAGE, "%s: '%s' is %g, expected a whole number up to 1e9", where, f->key, value);
    if (f->whole)
        *(int *)((char *)cluster + f->offset) = (int)value;
    else
        *(double *)((char *)cluster + f->offset) = value;
out:
    return rc;
}

int bb_cluster_load(const char *word, struct bb_cluster *cluster)
{
    const char *name;
    json_t *root;
    int rc;

    *cluster = (struct bb_cluster){.gpus_per_node = 1};
    rc = bb_profile_load("clusters", word, &root);
    if (rc)
        return rc;
    TRY(refuse_unknown(root, NULL, word));
    TRY(bb_profile_string(root, "name", word, &name));
    snprintf(cluster->name, sizeof(cluster->name), "%s", name);
    for (size_t f = 0; f < N_FIELDS; f++)
        TRY(read_field(root, &fields[f], word, cluster));
out:
    json_decref(root);
    return rc;
}

/* ---- durations ---- */

const struct bb_link *bb_cluster_link(const struct bb_cluster *c, bool one_node)
{
    return one_node ? &c->intra : &c->inter;
}

static int64_t ns_of_us(double us)
{
    return llround(us * 1e3);
}

int64_t bb_cluster_issue_ns(const struct bb_cluster *c, bool compute)
{
    return ns_of_us(compute ? c->launch_us : c->nccl_launch_us);
}

int bb_cluster_launches(const struct bb_op *op)
{
    return op->work ? op->work->n * op->work_times : ns_of_us(op->compute_us) > 0;
}

double bb_cluster_tflops(const struct bb_cluster *c, enum bb_dtype_id dtype)
{
    return dtype == BB_HALF       ? c->tflops_float16
           : dtype == BB_BFLOAT16 ? c->tflops_bfloat16
           : dtype == BB_DOUBLE   ? c->tflops_float64
                                  : c->tflops_float32;
}

static int64_t item_ns(const struct bb_cluster *c, const struct bb_kernel_list_item *item)
{
    double ns = item->is_pass ? (double)bb_pass_bytes(&item->pass) / c->memory_gbps
                              : bb_gemm_flops(&item->gemm) / bb_cluster_tflops(c, item->gemm.dtype) / 1e3;

    return llround(fmax(c->kernel_us * 1e3, ns));
}

int64_t bb_cluster_compute_end_ns(const struct bb_cluster *c, const struct bb_op *op, int64_t start_ns, int64_t host_ns)
{
    int64_t end = start_ns, launch_ns = bb_cluster_issue_ns(c, true);

    if (!op->work)
        return start_ns + ns_of_us(op->compute_us);
    for (int i = 0; i < op->work->n * op->work_times; i++) {
        host_ns += launch_ns;
        end = (end > host_ns ? end : host_ns) + item_ns(c, &op->work->items[i % op->work->n]);
    }
    return end;
}

/* What crosses a rank's link, in payloads, and in how many rounds of ceil(log2 n) steps. */
static double link_factor(enum bb_coll_kind kind, int n)
{
    return bb_colls[kind].bus_factor(n);
}

static int rounds(enum bb_coll_kind kind)
{
    return kind == BB_ALL_REDUCE ? 2 : 1;
}

static int log2_up(int n)
{
    int steps = 0;

    while (1L << steps < n)
        steps++;
    return steps;
}

static bool in_place(const struct bb_op *op)
{
    return op->src != BB_NONE && op->src == op->dst;
}

int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_op *op, int n, bool one_node)
{
    double bytes = (double)bb_op_payload_bytes(op, n);
    const struct bb_link *link = bb_cluster_link(c, one_node);

    if (n == 1)
        return in_place(op) ? 0 : llround(2 * bytes / c->memory_gbps);
    return llround(rounds(op->coll) * log2_up(n) * link->latency_us * 1e3 +
                   link_factor(op->coll, n) * bytes / link->gbps);
}

double bb_cluster_load_ns(const struct bb_cluster *c, const struct bb_load *load)
{
    double out = load->out[1] / c->intra.gbps + load->out[0] / c->inter.gbps;
    double in = load->in[1] / c->intra.gbps + load->in[0] / c->inter.gbps;

    return out > in ? out : in;
}

int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns)
{
    return llround(bb_cluster_link(c, one_node)->latency_us * 1e3 + load_ns);
}

int64_t bb_cluster_self_ns(const struct bb_cluster *c, double bytes)
{
    return llround(2 * bytes / c->memory_gbps);
}
