/* cluster.c - reads cluster profiles and computes durations from them (the definition: profiles/clusters/README.md). */
#include "proxies/simulate/cluster.h"

#include "cuda/work/kernel_list.h"
#include "proxies/models/profile.h"

#include <math.h>
#include <stdio.h>

/* ---- reading ---- */

#define AT(member)                 offsetof(struct bb_cluster, member)
#define WHOLE(key, member)         BB_FIELD(key, BB_JSON_WHOLE, AT(member), .min = 1, .max = 1e9)
#define NUMBER(key, member, least) BB_FIELD(key, BB_JSON_NUMBER, AT(member), .min = least)
#define TINY                       1e-9

static const struct bb_json_field fields[] = {WHOLE("gpus_per_node", gpus_per_node),
                                              WHOLE("sm_count", sm_count),
                                              WHOLE("clock_khz", clock_khz),
                                              NUMBER("launch_us", launch_us, 0),
                                              NUMBER("nccl_launch_us", nccl_launch_us, 0),
                                              NUMBER("kernel_us", kernel_us, 0),
                                              NUMBER("memory_gbps", memory_gbps, TINY),
                                              NUMBER("memory_bytes", memory_bytes, 1),
                                              NUMBER("tflops.float32", tflops_float32, 0),
                                              NUMBER("tflops.float16", tflops_float16, 0),
                                              NUMBER("tflops.bfloat16", tflops_bfloat16, 0),
                                              NUMBER("tflops.float64", tflops_float64, 0),
                                              NUMBER("intra.latency_us", intra.latency_us, 0),
                                              NUMBER("intra.gbps", intra.gbps, TINY),
                                              NUMBER("inter.latency_us", inter.latency_us, 0),
                                              NUMBER("inter.gbps", inter.gbps, TINY),
                                              BB_FIELD("name", BB_JSON_ANY, 0),
                                              BB_FIELD("description", BB_JSON_ANY, 0),
                                              BB_FIELD("source", BB_JSON_ANY, 0),
                                              {0}};

int bb_cluster_load(const char *word, struct bb_cluster *cluster)
{
    const char *name;
    json_t *root;
    int rc;

    *cluster = (struct bb_cluster){.gpus_per_node = 1};
    rc = bb_profile_load("clusters", word, &root);
    if (rc)
        return rc;
    TRY(bb_json_refuse_unknown(root, word, fields, ""));
    TRY(bb_json_text_at(root, "name", word, &name));
    snprintf(cluster->name, sizeof(cluster->name), "%s", name);
    TRY(bb_json_read(root, word, fields, cluster));
out:
    json_decref(root);
    return rc;
}

/* ---- durations ---- */

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

/* Rounds of ceil(log2 n) steps: a reduction that all ranks end with is gathered and spread. */
static int count_rounds(const struct bb_coll *coll)
{
    return (coll->flags & BB_COLL_REDUCES) && !(coll->flags & (BB_COLL_ROOTED | BB_COLL_SLICED)) ? 2 : 1;
}

static int log2_up(int n)
{
    int steps = 0;

    while (1L << steps < n)
        steps++;
    return steps;
}

int64_t bb_cluster_collective_ns(const struct bb_cluster *c, const struct bb_op *op, int n, bool one_node)
{
    double bytes = (double)bb_op_payload_bytes(op, n);
    const struct bb_link *link = one_node ? &c->intra : &c->inter;
    const struct bb_coll *coll = &bb_colls[op->coll];

    if (n == 1)
        return op->src != BB_NONE && op->src == op->dst ? 0 : bb_cluster_self_ns(c, bytes);
    return llround(count_rounds(coll) * log2_up(n) * link->latency_us * 1e3 + coll->bus_factor(n) * bytes / link->gbps);
}

double bb_cluster_load_ns(const struct bb_cluster *c, const struct bb_load *load)
{
    double out = load->out[1] / c->intra.gbps + load->out[0] / c->inter.gbps;
    double in = load->in[1] / c->intra.gbps + load->in[0] / c->inter.gbps;

    return out > in ? out : in;
}

int64_t bb_cluster_message_ns(const struct bb_cluster *c, bool one_node, double load_ns)
{
    return llround((one_node ? &c->intra : &c->inter)->latency_us * 1e3 + load_ns);
}

int64_t bb_cluster_self_ns(const struct bb_cluster *c, double bytes)
{
    return llround(2 * bytes / c->memory_gbps);
}
