/*
 * proxy_main.c - the part of `busbar proxy` that needs neither MPI nor a GPU: options, help and validation. The
 * rank (busbar_rank.c) parses the same command line again and runs the step.
 */
#include "proxies/proxy_main.h"

#include "bootstrap/base/units.h"
#include "bootstrap/supervise/supervise.h"
#include "proxies/form/models/profile.h"
#include "proxies/simulation/machine/cluster.h"
#include "proxies/workloads/registry/registry.h"
#include "proxies/workloads/registry/smoke.h"
#include "proxies/workloads/transformer/training_bytes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define FIELD(name) offsetof(struct bb_proxy_run_options, name)

static const struct bb_opt run_options[] = {
    OPT_INT('w', "warmup", FIELD(warmup), "3", "N", 0, 1e6, "untimed steps before the timed steps"),
    OPT_INT('n', "steps", FIELD(steps), "20", "N", 1, 1e6, "timed steps", .everyday = true),
    OPT_INT(0, "traced-steps", FIELD(traced_steps), "3", "N", 0, 1e4,
            "additional steps with CUDA events around every operation, from which the overlap metrics are computed"),
    OPT_STRING(0, "compute-sms", FIELD(compute_sms), "1", "N|free",
               "timed: number of SMs that a kernel occupies; if a kernel and NCCL together need more SMs than the GPU "
               "has, they delay each other. free: all SMs except those that NCCL may use (NCCL_MAX_CTAS, else 32, for "
               "each communicator; at "
               "most half of the SMs for several)"),
    OPT_DOUBLE(0, "compute-gbps", FIELD(compute_gbps), "0", "RATE", 0, 1e5,
               "timed: memory traffic that a kernel generates, in 1e9 bytes per second"),
    OPT_FLAG(
        0, "no-alone", FIELD(no_alone),
        "skip the runs with only compute and with only communication, which measure the slowdown caused by overlap"),
    OPT_FLAG(
        0, "quick", FIELD(quick),
        "with NAME all: run every proxy in its smallest configuration for these ranks, with counts scaled by 0.001, "
        "and print one table"),
    OPT_FLAG('G', "graph", FIELD(graph),
             "also capture the whole step in a CUDA graph and time its replay, in addition to normal steps"),
    OPT_FLAG(0, "start-barrier", FIELD(start_barrier),
             "also time steps that start only after all ranks have issued the whole step, which excludes launch "
             "overhead; the step must fit the launch queues"),
    OPT_DOUBLE(0, "peak-tflops", FIELD(peak_tflops), NULL, "RATE", 0.001, 1e6,
               "peak TFLOP/s of one GPU in the element type; adds the model FLOPs utilization (MFU) to the report"),
    OPT_OUTPUT(0, "trace", FIELD(trace),
               "write the timeline of the last traced step to FILE as Perfetto trace events, for at most 64 ranks "
               "including the slowest"),
    OPT_STRING(0, "cluster", FIELD(cluster), NULL, "NAME|FILE",
               "also predict the step for this cluster, and print predicted and measured times side by side",
               .choice_at = bb_cluster_name_at),
    OPT_TEXTS(0, "set", FIELD(changes), "KEY=VALUE", BB_SET_HELP),
    OPT_STRING(0, "slow", FIELD(slow_list), NULL, "LIST",
               "make ranks slow, separated by commas: with rank=1:1.5 the kernels of rank 1 take 1.5 times as long"),
    OPT_STRING(0, "delay", FIELD(delay_list), NULL, "LIST",
               "let ranks start each step late, separated by commas: rank=1:100us (us, ms or s)"),
    OPT_BUFFERS(FIELD(common.buffers)),
    OPT_FLAG('c', "check", FIELD(check),
             "first run every communication operation once with known data and verify the results", .everyday = true),
    {0},
};

static const struct bb_opt_table tables[] = {
    BB_STEP_TABLES(FIELD(step)),
    {.title = "The run", .opts = run_options},
    {.title = "Common options", .opts = bb_common_options, .base = FIELD(common)},
    {0},
};

const struct bb_opts bb_proxy_set = {
    .choice_at = bb_proxy_name_at,
    .find_subject = bb_proxy_find_subject,
    .examples = "  mpirun -n 8 busbar proxy transformer --model gpt2_small --tp 2\n"
                "  mpirun -n 8 busbar proxy transformer --model llama3_8b --layers 8 --dp-sync zero3\n"
                "  mpirun -n 8 busbar proxy data_parallel --model resnet50 --check\n"
                "  mpirun -n 8 busbar proxy gpt2_large 48 4 --trace step.trace.json\n"
                "  mpirun -n 8 busbar proxy all --quick\n",
    .foreign = bb_foreign_options,
    .programs = bb_foreign_programs,
    .usage = "busbar proxy NAME [ARG...] [OPTION...]\n       busbar proxy all --quick [OPTION...]",
    .doc =
        "Runs the communication of a distributed training step as NCCL traffic on CUDA streams and reports how much\n"
        "of it overlapped with compute. NAME is a name from `busbar list proxies`; some proxies accept numbers after\n"
        "the name. Start one rank per GPU: mpirun -n 8 busbar proxy gpt2_large",
    .after = "All ranks start a step together. The step time is the time of the slowest rank, from CUDA events.\n"
             "hidden: communication time that overlapped with compute. exposed: communication time without compute.\n"
             "idle: neither compute nor communication. Traced steps are run separately, because tracing adds "
             "overhead.\n" BB_LOCK_STEP_NOTE,
    .exits = {BB_EXITS_RANKS},
    .tables = tables,
};

/*
 * Reject CUDA_LAUNCH_BLOCKING with --start-barrier, because they deadlock: the host would wait in the first launch
 * until its kernel ends, but the kernel waits for the start barrier, which the same host thread opens only after all
 * launches.
 */
static int validate_start_barrier(void)
{
    const char *blocks = getenv("CUDA_LAUNCH_BLOCKING");

    if (blocks && *blocks && strcmp(blocks, "0") != 0)
        return bb_err(BB_EUSAGE,
                      "--start-barrier requires asynchronous launches, but CUDA_LAUNCH_BLOCKING=%s makes them "
                      "synchronous; unset it, or leave out --start-barrier",
                      blocks);
    return 0;
}

/* Reject NCCL_GRAPH_MIXING_SUPPORT=0 with --graph: normal steps and graph replays use the same communicators, and
 * NCCL does not support this mix if the variable is 0. */
static int validate_graph(const struct bb_proxy_config *step, bool is_transformer)
{
    const char *mixing = getenv("NCCL_GRAPH_MIXING_SUPPORT");

    if (mixing && strcmp(mixing, "0") == 0)
        return bb_err(BB_EUSAGE, "--graph mixes graph and non-graph steps on one communicator, but "
                                 "NCCL_GRAPH_MIXING_SUPPORT=0 is set; unset it, or leave out --graph");
    return is_transformer ? bb_training_validate_graph(step, false) : 0;
}

static const char free_sms[] = "free";

int bb_compute_sms(const char *requested, int sm_count, int comms)
{
    const char *ctas = getenv("NCCL_MAX_CTAS");
    int sms, nccl_sms;

    if (!ctas || bb_parse_int(ctas, 1, sm_count, &nccl_sms) != 0)
        nccl_sms = 32; /* assumed when NCCL_MAX_CTAS is unset or invalid: NCCL usually uses at most 32 channels
                          (thread blocks) per communicator */
    if (strcmp(requested, free_sms) == 0)
        sms = sm_count - MIN(comms * nccl_sms, MAX(nccl_sms, sm_count / 2));
    else if (bb_parse_int(requested, 1, sm_count, &sms) != 0)
        sms = sm_count;
    return sms < 1 ? 1 : sms;
}

static int validate_sms(const char *requested)
{
    int sms;

    if (strcmp(requested, free_sms) == 0 || bb_parse_int(requested, 1, 10000, &sms) == 0)
        return 0;
    return bb_err(BB_EUSAGE, "--compute-sms: '%s' is not valid, expected a whole number from 1 to 10000, or free",
                  requested);
}

/* Reject --compute-sms and --compute-gbps unless --compute is timed: only timed kernels use these options. */
static int validate_timed_options(const struct bb_proxy_run_options *o)
{
    bool non_default = strcmp(o->compute_sms, "1") != 0 || o->compute_gbps > 0;

    if (!non_default || strcmp(o->step.compute, "timed") == 0)
        return 0;
    return bb_err(BB_EUSAGE, "%s: %s requires timed kernels, but --compute is %s; try: --compute timed", o->step.proxy,
                  o->compute_gbps > 0 ? "--compute-gbps" : "--compute-sms", o->step.compute);
}

/* Parse --slow and --delay. A run cannot make kernels shorter or links slower. */
static int parse_slow(struct bb_proxy_run_options *o)
{
    int rc = 0;

    if (o->slow_list)
        TRY(bb_slow_parse(&o->slow, "--slow", o->slow_list));
    for (int i = 0; i < o->slow.n; i++)
        if (o->slow.items[i].kind != BB_SLOW_RANK || o->slow.items[i].factor < 1)
            return bb_err(BB_EUSAGE,
                          "--slow: '%s' is not possible in a run, expected rank=R:TIMES with TIMES of 1 or more; for "
                          "links and faster kernels, try: busbar plan",
                          o->slow_list);
    if (o->slow_list && o->step.compute && strcmp(o->step.compute, "none") == 0)
        return bb_err(BB_EUSAGE, "--slow makes kernels slow, but --compute is none; try: --delay, or --compute timed");
    if (o->delay_list)
        TRY(bb_slow_parse_delays(&o->slow, "--delay", o->delay_list));
out:
    return rc;
}

static int parse_all(const struct bb_proxy_run_options *o, const struct bb_positionals *positionals)
{
    if (!o->quick)
        return bb_err(BB_EUSAGE, "'all' requires --quick: proxy all --quick");
    if (positionals->n > 1)
        return bb_err(BB_EUSAGE, "all: unexpected argument '%s'", positionals->word[1]);
    if (o->cluster)
        return bb_err(BB_EUSAGE, "--cluster requires a single proxy; name one instead of 'all'");
    if (o->start_barrier)
        return bb_err(BB_EUSAGE,
                      "--start-barrier requires a single proxy, because some steps exceed the launch queues; name "
                      "one proxy instead of 'all'");
    if (o->trace)
        return bb_err(BB_EUSAGE, "--trace requires a single proxy; name one instead of 'all'");
    return bb_smoke_validate(&o->step, positionals);
}

int bb_proxy_parse(struct bb_proxy_run_options *o, const struct bb_proxy **proxy, int argc, char **argv)
{
    struct bb_positionals positionals;
    int rc;

    *proxy = NULL;
    TRY(bb_opts_parse(&bb_proxy_set, o, argc, argv, &positionals, stdout));
    TRY(validate_sms(o->compute_sms));
    if (o->changes.n > 0 && !o->cluster)
        return bb_err(BB_EUSAGE, "--set requires --cluster; try: --cluster h100-sxm-ib");
    if (positionals.n > 0 && strcmp(positionals.word[0], "all") == 0) {
        TRY(parse_slow(o));
        return parse_all(o, &positionals);
    }
    if (o->quick)
        return bb_err(BB_EUSAGE,
                      "--quick requires 'all': proxy all --quick; to shrink one proxy, try: --scale-counts 0.001");
    o->given_times = o->step.forward_us > 0 || o->step.backward_us > 0;
    o->given_rate = o->given_times || o->step.tflops > 0;
    TRY(bb_proxy_configure(&o->step, &positionals, proxy));
    TRY(validate_timed_options(o));
    TRY(parse_slow(o));
    if (bb_precision_word(&o->step.transformer))
        return bb_err(BB_EUSAGE, "%s: --%s only applies to forecasts (plan --cluster); a run has GEMMs of --dtype",
                      o->step.proxy, o->step.transformer.precision ? "gemm-precision" : "fp8");
    if (o->step.sync.cpu_offload || o->step.transformer.offload_layers)
        return bb_err(BB_EUSAGE,
                      "%s: --%s only applies to forecasts (plan --cluster); a run copies nothing to the host",
                      o->step.proxy, o->step.sync.cpu_offload ? "optimizer-cpu-offload" : "cpu-offloading-num-layers");
    if (o->graph)
        TRY(validate_graph(&o->step, (*proxy)->features & BB_FEATURE_TRANSFORMER));
    if (o->start_barrier)
        TRY(validate_start_barrier());
    if (o->trace && o->traced_steps == 0)
        rc = bb_err(BB_EUSAGE, "--trace requires a traced step, but --traced-steps is 0; try: --traced-steps 1");
out:
    return rc;
}

static int check_arguments(int argc, char **argv, struct bb_proxy_run_options *o)
{
    const struct bb_proxy *proxy;

    *o = (struct bb_proxy_run_options){0};
    return bb_proxy_parse(o, &proxy, argc, argv);
}

int bb_proxy_main(int argc, char **argv)
{
    struct bb_proxy_run_options o;
    struct bb_results_head results = {.schema = "busbar.proxy/1", .no_rows = true};
    struct bb_cluster cluster;
    int rc = check_arguments(argc, argv, &o);

    if (rc == 0 && o.cluster)
        rc = bb_cluster_load_changed(o.cluster, &o.changes, &cluster);
    if (rc)
        return rc;
    if (o.quick)
        results = (struct bb_results_head){.schema = "busbar.proxies/1"};
    bb_results_set_targets(&results, &o.common);
    return bb_supervise("proxy", "bb_proxy_run", o.common.timeout_s, o.common.gpus, &results, argc, argv);
}

int bb_proxy_check(int argc, char **argv)
{
    struct bb_proxy_run_options o;
    int rc = bb_opts_check(&bb_proxy_set, argc, argv);

    TRY(rc);
    TRY(check_arguments(argc, argv, &o));
    if (o.step.model)
        TRY(bb_profile_validate_name("models", o.step.model));
    if (o.cluster)
        rc = bb_profile_validate_name("clusters", o.cluster);
out:
    return rc;
}
