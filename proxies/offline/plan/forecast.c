/* forecast.c - report the compute rates, assumptions and error of the prediction of real training, as text and JSON;
 * see forecast.h. */
#include "proxies/offline/plan/forecast.h"

#include "bootstrap/base/units.h"
#include "bootstrap/results/results.h"
#include "proxies/form/author/args.h"

#include <math.h>
#include <string.h>

/* Errors of predicted step times against the published steps of one kind. mean: of the absolute relative error; signed:
 * with its sign (negative: predicted times are too short); within: error that 80 % of `of` layouts do not exceed (steps
 * that differ only in the version of the software count once), those of the kind or, if they are fewer than 4, all of the
 * software, with or without Mamba layers (and at least the largest error of the kind); of fewer than 12 layouts at least that of the software.
 * `python3 tests/cli/accuracy.py --write` writes the rows. */
static const struct kind {
    const char *software;
    enum bb_gpu_generation generation;
    enum { DENSE, MANY_EXPERTS, MAMBA } layers;
    int bits; /* of the operands of GEMMs with weights */
    bool long_context;
    int steps;
    double mean, signed_mean, within;
    int of;
} kinds[] = {
#include "proxies/offline/plan/accuracy.def"
};

/* ---- GPU memory ---- */

static double needed_bytes(const struct bb_plan *plan)
{
    double training = bb_step_training_bytes(plan->step);

    return training > 0 ? round(training) : (double)bb_plan_memory(plan);
}

bool bb_forecast_fits(const struct bb_plan *plan, const struct bb_forecast *f)
{
    return f->gpu_bytes == 0 || needed_bytes(plan) <= f->gpu_bytes;
}

bool bb_forecast_is_tight(const struct bb_plan *plan, const struct bb_forecast *f)
{
    return f->gpu_bytes > 0 && needed_bytes(plan) > BB_SAFE_MEMORY * f->gpu_bytes;
}

#define GUESS_TEXT 128

/* Return the memory savings (recomputation, precision-aware optimizer) with which training fits, as command line
 * options; NULL if there are none. */
static const char *memory_guess(const struct bb_forecast *f, char text[GUESS_TEXT])
{
    const char *optimizer = f->precision_aware ? "--use-precision-aware-optimizer" : "", *gap = optimizer[0] ? " " : "";

    if (!f->recompute)
        return f->precision_aware ? optimizer : NULL;
    if (f->recompute_modules) /* not with --recompute none, which may be given if nothing is assumed */
        snprintf(text, GUESS_TEXT, "%s%s%s--recompute-modules %s", optimizer, gap,
                 f->is_assumed ? "" : "--recompute selective ", f->recompute_modules);
    else if (f->recompute_layers > 0)
        snprintf(text, GUESS_TEXT, "%s%s--recompute %s --recompute-num-layers %d", optimizer, gap, f->recompute,
                 f->recompute_layers);
    else
        snprintf(text, GUESS_TEXT, "%s%s--recompute %s", optimizer, gap, f->recompute);
    return text;
}

/* Return the fastest recomputation that fits if the experts have equal load. */
static const char *equal_load_options(const struct bb_forecast *f, char text[GUESS_TEXT])
{
    if (f->faster_modules)
        snprintf(text, GUESS_TEXT, "--recompute-modules %s", f->faster_modules);
    else
        snprintf(text, GUESS_TEXT, "--recompute full --recompute-num-layers %d", f->fewest_layers);
    return text;
}

void bb_forecast_guess_text(const struct bb_forecast *f, char *text, size_t size)
{
    char without[BB_BYTES_TEXT], missing[BB_BYTES_TEXT], time[BB_ROUNDED_TEXT], guess_text[GUESS_TEXT],
        options[GUESS_TEXT];
    int n;
    const char *guess = memory_guess(f, guess_text);

    if (!guess || !f->is_assumed)
        return;
    n = snprintf(text, size, "by busbar: %s%s; ", guess, f->recompute ? " (--recompute none prevents this)" : "");
    if (f->fewest_layers > 0 || f->faster_modules)
        n +=
            snprintf(text + n, size - (size_t)n,
                     "it limits the additional memory of experts that get more tokens than others to one layer; if all "
                     "experts get the same number of tokens (Megatron-LM: --moe-router-force-load-balancing), %s also "
                     "fits (%s a step); ",
                     equal_load_options(f, options), bb_format_rounded_time(bb_us_of(f->fewest_ns), time));
    n += snprintf(text + n, size - (size_t)n, "without %s, ",
                  !f->recompute        ? "it"
                  : f->precision_aware ? "both"
                                       : "recomputation");
    if (f->without_ns > 0)
        n += snprintf(text + n, size - (size_t)n, "%s a step, but ",
                      bb_format_rounded_time(bb_us_of(f->without_ns), time));
    n +=
        snprintf(text + n, size - (size_t)n, "training needs %s, ", bb_format_bytes((size_t)f->without_bytes, without));
    if (f->without_bytes > f->gpu_bytes)
        snprintf(text + n, size - (size_t)n, "%s too much",
                 bb_format_bytes((size_t)(f->without_bytes - f->gpu_bytes), missing));
    else
        snprintf(text + n, size - (size_t)n, "more than %.0f%%", 100 * BB_SAFE_MEMORY);
}

#define PARAMETER_BYTES 2 /* minimum in mixed precision */

double bb_forecast_min_gpus(const struct bb_step *step, const struct bb_forecast *f)
{
    const double trained = step->trained_parameters > 0 ? step->trained_parameters : step->parameters;

    return ceil((step->parameters * PARAMETER_BYTES + trained * f->trained_bytes) / f->gpu_bytes);
}

static const char *fitting_text(const struct bb_fitting *f, char text[BB_BYTES_TEXT])
{
    if (f->nodes)
        snprintf(text, BB_BYTES_TEXT, "%d (%d GPUs)", f->nodes, f->ranks);
    else
        snprintf(text, BB_BYTES_TEXT, "%d", f->ranks);
    return text;
}

/* Writes that no layout fits on any tried number of GPUs, and without which options one does. */
static void write_unfit(const struct bb_forecast *f, int ranks, char *text, size_t size)
{
    const struct bb_fitting *fit = &f->fitting;
    int n = snprintf(text, size, "; no layout fits%s%s on %d", fit->kept[0] ? " with" : "", fit->kept, ranks);

    if (fit->last > ranks)
        n += snprintf(text + n, size - (size_t)n, " to %d", fit->last);
    n += snprintf(text + n, size - (size_t)n, " GPUs");
    if (fit->without[0])
        snprintf(text + n, size - (size_t)n, "; try: --ranks %d --best-layout --global-batch-size %d%s%s", fit->ranks,
                 fit->batch, f->excluded, fit->without);
}

/* Writes how training could fit: with memory savings, with the best layout, or only with more GPUs. */
static void advise_layout(const struct bb_plan *plan, const struct bb_forecast *f, char *text, size_t size)
{
    static const char modules[] = " without --recompute-modules";
    const struct bb_fitting *fit = &f->fitting;
    const double min_gpus = bb_forecast_min_gpus(plan->step, f);
    char guess_text[GUESS_TEXT], options[GUESS_TEXT], need[BB_BYTES_TEXT];
    const char *guess = memory_guess(f, guess_text);

    if (guess) {
        int n = snprintf(text, size, "; try: %s%s", guess,
                         f->recompute && !f->recompute_modules && strstr(f->excluded, modules) ? modules : "");

        if (f->fewest_layers > 0 || f->faster_modules)
            snprintf(text + n, size - (size_t)n, ", or, if the load of the experts is forced to be equal: %s",
                     equal_load_options(f, options));
    } else if (f->serial_bytes > 0)
        snprintf(text, size,
                 "; --overlap-moe-expert-parallel-comm excludes --recompute full, with which training needs %s; try: "
                 "--recompute full without --overlap-moe-expert-parallel-comm%s, or --best-layout --global-batch-size "
                 "%.0f%s",
                 bb_format_bytes((size_t)f->serial_bytes, need), strstr(f->excluded, modules) ? modules : "",
                 plan->step->samples, f->excluded);
    else if (f->savings)
        snprintf(text, size, "; with %s it needs %s; try: %s, or --best-layout --global-batch-size %.0f%s", f->savings,
                 bb_format_bytes((size_t)f->saving_bytes, need), f->savings, plan->step->samples, f->excluded);
    else if (fit->without[0])
        write_unfit(f, plan->step->layout.ranks, text, size);
    else if (fit->ranks > plan->step->layout.ranks)
        snprintf(text, size,
                 "; %s%s%sthe next number of %s on which a layout fits is %s; try: --ranks %d --best-layout "
                 "--global-batch-size %d%s",
                 fit->kept[0] ? "with the given options" : "", fit->kept, fit->kept[0] ? ", " : "",
                 fit->nodes ? "whole nodes" : "GPUs", fitting_text(fit, need), fit->ranks, fit->batch, f->excluded);
    else if (min_gpus > plan->step->layout.ranks)
        snprintf(text, size, "; parameters, gradients and optimizer need %.0f or more GPUs in any layout", min_gpus);
    else if (!bb_forecast_fits(plan, f) && fit->last > 0 && fit->ranks == 0)
        write_unfit(f, plan->step->layout.ranks, text, size);
    else
        snprintf(text, size, "; try: --best-layout --global-batch-size %.0f%s",
                 fit->batch ? fit->batch : plan->step->samples, f->excluded);
}

/* Writes how training could fit, without a cluster on which layouts are searched. */
static void advise_options(const struct bb_plan *plan, const struct bb_forecast *f, char *text, size_t size)
{
    const double min_gpus = bb_forecast_min_gpus(plan->step, f);
    const bool needs_more = min_gpus > plan->step->layout.ranks;
    char need[BB_BYTES_TEXT];
    int n = 0;

    if (f->savings)
        n = snprintf(text, size, "; it fits with %s (%s)", f->savings, bb_format_bytes((size_t)f->saving_bytes, need));
    if (needs_more)
        snprintf(text + n, size - (size_t)n,
                 "; %sparameters, gradients and optimizer need %.0f or more GPUs in any layout",
                 f->savings ? "without LoRA, " : "", min_gpus);
    else if (!f->savings)
        snprintf(text, size, "; for layouts that fit, try: --cluster NAME --best-layout --global-batch-size %.0f%s",
                 plan->step->samples, f->excluded);
}

void bb_forecast_memory_text(const struct bb_plan *plan, const struct bb_forecast *f, char *text, size_t size)
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];
    const double bytes = needed_bytes(plan);
    const bool trains = bb_step_training_bytes(plan->step) > 0;
    int n = snprintf(text, size, "%s %s%s", trains ? "training needs" : "buffers of the proxy (not of training) need",
                     bb_format_bytes_beside((size_t)bytes, (size_t)f->gpu_bytes, need),
                     trains && plan->step->unfused_attention && !f->attention ? " (attention unfused)" : "");

    if (f->gpu_bytes > 0)
        n += snprintf(text + n, size - (size_t)n, " of %s per GPU: %s", bb_format_bytes((size_t)f->gpu_bytes, have),
                      !bb_forecast_fits(plan, f)      ? "DOES NOT FIT"
                      : bb_forecast_is_tight(plan, f) ? BB_MAY_NOT_FIT
                                                      : "fits");
    if (f->node_bytes > 0)
        n += snprintf(text + n, size - (size_t)n, "; %s %s of host memory per node", f->offloaded,
                      bb_format_bytes((size_t)f->node_bytes, have));
    if (bb_forecast_is_tight(plan, f) && bb_forecast_fits(plan, f) && f->software)
        advise_layout(plan, f, text + n, size - (size_t)n);
    else if (f->recomputes_less) /* activation_checkpoint of torchtitan/trainer.py: SelectiveAC */
        snprintf(text + n, size - (size_t)n, "; no recomputation (torchtitan's default: --recompute ops)");
    else if (f->saves_nothing)
        snprintf(text + n, size - (size_t)n,
                 "; --recompute selective saves nothing: fused attention stores no scores%s",
                 f->software && bb_software_is_torch(f->software->name) ? " (torchtitan's selective is --recompute ops)"
                                                                        : "");
}

/* Writes the memory that training needs with all layers recomputed, and whether a fused loss makes it fit. */
static int write_full_need(const struct bb_forecast *f, char *text, size_t size)
{
    char need[BB_BYTES_TEXT];
    int n;

    if (f->full_bytes > 0)
        n = snprintf(text, size, "; with --recompute full it needs %s",
                     bb_format_bytes_beside((size_t)f->full_bytes, (size_t)f->gpu_bytes, need));
    else
        n = snprintf(text, size, "; it does not fit with --recompute full either");
    if (f->full_bytes > 0 && f->full_bytes <= f->gpu_bytes)
        n += snprintf(text + n, size - (size_t)n, ", more than %.0f%%", 100 * BB_SAFE_MEMORY);
    if (f->fused_bytes > 0)
        n += snprintf(text + n, size - (size_t)n, "; it fits with --loss fused (%s with --recompute full)",
                      bb_format_bytes((size_t)f->fused_bytes, need));
    return n;
}

bool bb_forecast_misfit_text(const struct bb_plan *plan, const struct bb_forecast *f, bool predicted,
                             char text[BB_MISFIT_TEXT])
{
    char need[BB_BYTES_TEXT], have[BB_BYTES_TEXT];
    int n;

    text[0] = '\0';
    if (!f || bb_forecast_fits(plan, f))
        return false;
    n = snprintf(text, BB_MISFIT_TEXT, "needs %s of %s per GPU",
                 bb_format_bytes_beside((size_t)needed_bytes(plan), (size_t)f->gpu_bytes, need),
                 bb_format_bytes((size_t)f->gpu_bytes, have));
    if (f->none_fits && f->serial_bytes == 0)
        n += write_full_need(f, text + n, BB_MISFIT_TEXT - (size_t)n);
    else if (f->fused_bytes > 0)
        n += snprintf(text + n, BB_MISFIT_TEXT - (size_t)n, "; it fits with --loss fused --recompute full (%s)",
                      bb_format_bytes((size_t)f->fused_bytes, need));
    if (strcmp(plan->step->proxy, "transformer") == 0)
        (predicted ? advise_layout : advise_options)(plan, f, text + n, BB_MISFIT_TEXT - (size_t)n);
    return true;
}

json_t *bb_forecast_memory(const struct bb_plan *plan, const struct bb_forecast *f)
{
    const bool fits = bb_forecast_fits(plan, f);
    json_t *memory = json_pack(
        "{s:s, s:I, s:I, s:b, s:b, s:I}", "of", bb_step_training_bytes(plan->step) > 0 ? "training" : "buffers",
        "needed_bytes", (json_int_t)llround(needed_bytes(plan)), "available_bytes", (json_int_t)f->gpu_bytes, "fits",
        fits, "tight", fits && bb_forecast_is_tight(plan, f), "buffers_bytes", (json_int_t)bb_plan_memory(plan));

    if (f->node_bytes > 0)
        json_object_set_new(memory, "host_bytes_per_node", json_integer((json_int_t)llround(f->node_bytes)));
    return memory;
}

/* ---- compute rates ---- */

static const char *const rates_names[BB_RATES] = {
    [BB_RATES_MACHINE] = "machine", [BB_RATES_GIVEN] = "given", [BB_RATES_PROXY] = "proxy"};

/* Bits of the operands of GEMMs with weights. */
static int bits_of(const struct bb_forecast *f)
{
    return f->precision ? bb_gemm_formats[f->precision].bits : 8 * (int)bb_dtypes[f->dtype].bytes;
}

static void machine_text(const struct bb_forecast *f, const struct bb_cluster *c, char *text, size_t size)
{
    double peak = f->precision ? bb_cluster_low_precision_tflops(c, f->precision) : bb_cluster_tflops(c, f->dtype);
    double part = f->precision ? c->achieved.gemm_float8 : c->achieved.gemm;

    if (!c->has_achieved)
        snprintf(text, size, "nominal peaks of %s, so compute times are lower bounds", c->name);
    else
        snprintf(text, size, "%s%s%s: %d-bit GEMMs%s%s %.*f of %.*f TFLOP/s, memory %.0f of %.0f GB/s%s%s%s%s%s",
                 c->name, f->software ? ", software " : "", f->software ? f->software->name : "", bits_of(f),
                 f->precision > BB_GEMM_FP8 ? " in " : "",
                 f->precision > BB_GEMM_FP8 ? bb_gemm_formats[f->precision].name : "", peak * part < 100, peak * part,
                 peak < 100, peak, c->memory_gbps * c->achieved.memory, c->memory_gbps,
                 f->attention ? "; attention " : "", f->attention ? f->attention : "",
                 f->attention_guessed
                     ? " (assumed: this model has dropout, which this GPU's fused attention lacks; set --attention)"
                     : "",
                 c->models_training ? "" : "; kernels of the proxy",
                 f->host && strcmp(f->host, "graph") == 0 ? "; CUDA graphs" : "");
}

double bb_forecast_peak_tflops(const struct bb_forecast *f, const struct bb_cluster *c, const char **type)
{
    if (!f->precision && f->dtype != BB_FLOAT)
        return NAN;
    *type = !f->precision ? "float" : bits_of(f) == 8 ? "8-bit peak" : "4-bit peak";
    return f->precision ? bb_cluster_low_precision_tflops(c, f->precision) : bb_cluster_tflops(c, f->dtype);
}

static void given_text(const struct bb_forecast *f, const struct bb_cluster *c, char *text, size_t size)
{
    char rate[128] = "compute time as given on the command line";

    if (f->head_tflops > 0)
        snprintf(rate, sizeof(rate),
                 "layers as given on the command line; embedding and head at %.1f TFLOP/s (--tflops)", f->head_tflops);
    else if (f->tflops > 0)
        snprintf(rate, sizeof(rate), "%.1f TFLOP/s for all shapes, as given on the command line", f->tflops);
    snprintf(text, size, "%s; optimizer and other memory-bound kernels at the %.0f GB/s of %s", rate,
             bb_cluster_memory_gbps(c), c->name);
}

void bb_forecast_rates_text(const struct bb_forecast *f, const struct bb_cluster *c, char *text, size_t size)
{
    if (f->rates == BB_RATES_MACHINE)
        machine_text(f, c, text, size);
    else if (f->rates == BB_RATES_GIVEN)
        given_text(f, c, text, size);
}

void bb_forecast_limit_text(const struct bb_forecast *f, const char *machine, bool computes, char *text, size_t size)
{
    if (f->rates != BB_RATES_PROXY)
        return;
    if (computes && f->tflops > 0)
        snprintf(text, size, "at a fixed %.1f TFLOP/s (--tflops%s), NOT at the rate of %s%s", f->tflops,
                 f->tflops == BB_DEFAULT_TFLOPS ? ", default" : "", machine,
                 f->tflops == BB_DEFAULT_TFLOPS ? "; at its own rate: --compute gemm" : "");
    else if (computes)
        snprintf(text, size, "times of the proxy, NOT of %s", machine);
    else
        snprintf(text, size, "none (--compute none)%s%s", f->with_compute ? "; try: " : "",
                 f->with_compute ? f->with_compute : "");
}

json_t *bb_forecast_compute(const struct bb_forecast *f, const struct bb_cluster *c)
{
    bool machine = f->rates == BB_RATES_MACHINE;
    json_t *guessed = json_array();
    char guess_text[GUESS_TEXT];
    const char *guess = memory_guess(f, guess_text);

    if (f->attention_guessed)
        json_array_append_new(guessed, json_sprintf("--attention %s", f->attention));
    if (guess && f->is_assumed)
        json_array_append_new(guessed, json_string(guess));
    return json_pack("{s:s, s:s?, s:o, s:o, s:b, s:s?, s:b, s:s?, s:s?, s:o, s:s?, s:o, s:o}", "rates",
                     rates_names[f->rates], "software", machine && f->software ? f->software->name : NULL, "tflops",
                     bb_json_real(f->tflops > 0 && !machine ? f->tflops
                                  : machine                 ? bb_cluster_tflops(c, f->dtype)
                                                            : NAN),
                     "efficiency", bb_json_real(machine && c->has_achieved ? c->achieved.gemm : NAN), "nominal",
                     !c->has_achieved, "attention", f->attention, "fp8", f->precision == BB_GEMM_FP8, "gemm_precision",
                     bb_gemm_formats[f->precision].name, "host", f->host, "guessed", guessed, "added",
                     f->is_assumed ? guess : NULL, "without_added_us",
                     bb_json_real(f->without_ns > 0 ? bb_us_of(f->without_ns) : NAN), "fewest_recompute_layers",
                     f->is_assumed && f->fewest_layers > 0 ? json_integer(f->fewest_layers) : json_null());
}

/* ---- error of the model on published steps ---- */

#define KIND_TEXT 100
static const char *kind_text(const struct bb_forecast *f, const struct bb_cluster *c, char text[KIND_TEXT])
{
    static const char *const experts[] = {"dense", "few experts (counted as dense)", "many experts"};
    char gpus[BB_GPUS_TEXT];

    snprintf(text, KIND_TEXT, "%s, %s, %s, %d bits%s", f->software->name, bb_cluster_gpus_text(c, gpus),
             f->mamba ? "Mamba" : experts[f->experts], bits_of(f), f->long_context ? ", long context" : "");
    return text;
}

/* Returns the errors of the published steps of the same kind; NULL if there are none. */
static const struct kind *kind_of(const struct bb_forecast *f, const struct bb_cluster *c)
{
    const int layers = f->mamba ? MAMBA : f->experts == BB_EXPERTS_MANY ? MANY_EXPERTS : DENSE;

    if (f->rates != BB_RATES_MACHINE || !f->software || !f->attention || f->dtype == BB_FLOAT || bb_cluster_is_ada(c) ||
        bb_cluster_has_pcie(c))
        return NULL;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].software, f->software->name) == 0 && kinds[i].generation == bb_cluster_generation(c) &&
            (int)kinds[i].layers == layers && kinds[i].bits == bits_of(f) && kinds[i].long_context == f->long_context)
            return &kinds[i];
    return NULL;
}

void bb_forecast_dispatch_text(const struct bb_forecast *f, char *text, size_t size)
{
    if (f->node_limit > 0)
        snprintf(text, size,
                 "each token is sent to each of its experts; as this model was trained, try: --moe-dispatch dedup "
                 "--moe-node-limit %d",
                 f->node_limit);
    else if (f->dispatch_advice)
        snprintf(text, size, "exposed traffic of experts takes %.0f%% of the step%s", 100 * f->exposed_experts,
                 f->dispatch_advice);
}

bool bb_forecast_captures(const struct bb_forecast *f, const struct bb_cluster *c)
{
    return !f->is_dropless || c->graphs_fuse_experts;
}

static bool is_tuned(const struct bb_forecast *f, const struct bb_cluster *c)
{
    return f->software && strcmp(f->software->name, "megatron") == 0 && f->precision != BB_GEMM_NVFP4 &&
           !bb_cluster_has_pcie(c);
}

bool bb_forecast_overlaps_tp(const struct bb_forecast *f, const struct bb_cluster *c)
{
    return is_tuned(f, c) && bb_cluster_generation(c) != BB_AMPERE;
}

void bb_forecast_recipes_text(const struct bb_forecast *f, const struct bb_cluster *c, char *text, size_t size)
{
    const bool tuned = is_tuned(f, c), tp = f->lacks_tp_overlap && bb_forecast_overlaps_tp(f, c);
    const bool experts =
        tuned && f->experts == BB_EXPERTS_MANY && bits_of(f) == 8 && bb_cluster_generation(c) == BB_BLACKWELL;
    const bool graph = experts && f->host && strcmp(f->host, "graph") != 0 && !f->graphs_modules;
    const bool overlap = experts && f->lacks_moe_overlap;

    if (tp || graph || overlap)
        snprintf(text, size,
                 "NVIDIA's published steps of this kind (Megatron-Bridge, 2026) have more options; try:%s%s%s",
                 tp ? " --tp-comm-overlap" : "", graph ? " --graph" : "",
                 overlap ? " --overlap-moe-expert-parallel-comm" : "");
}

json_t *bb_forecast_model_error(const struct bb_forecast *f, const struct bb_cluster *c)
{
    const struct kind *kind = kind_of(f, c);
    char text[KIND_TEXT];

    return kind ? json_pack("{s:s, s:i, s:f, s:f, s:f, s:i}", "kind", kind_text(f, c, text), "steps", kind->steps,
                            "mean", kind->mean, "signed", kind->signed_mean, "within", kind->within, "within_steps",
                            kind->of)
                : json_null();
}

/* Number of steps of a kind from which `within` is a range of this kind; tests/cli/accuracy.py, band_of. */
#define MIN_STEPS 4

double bb_forecast_error(const struct bb_forecast *f, const struct bb_cluster *c)
{
    const struct kind *kind = kind_of(f, c);

    return !kind ? 0 : kind->steps < MIN_STEPS ? kind->within : kind->mean;
}

/* Writes the range of the errors of all steps with Mamba layers. */
static void write_mamba_range(char *text, size_t size)
{
    double min = INFINITY, max = 0;
    int steps = 0;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].layers == MAMBA) {
            steps += kinds[i].steps;
            min = fmin(min, kinds[i].within);
            max = fmax(max, kinds[i].within);
        }
    snprintf(text, size,
             "; other kinds with Mamba (%d published steps): 80%% within %.0f to %.0f%%, depending on the kind", steps,
             100 * min, 100 * max);
}

void bb_forecast_accuracy_text(const struct bb_forecast *f, const struct bb_cluster *c, char *text, size_t size)
{
    const struct kind *kind = kind_of(f, c);
    char name[KIND_TEXT];
    int n;

    if (kind) {
        n = snprintf(text, size, "%s (%d published step%s): ", kind_text(f, c, name), kind->steps,
                     bb_plural(kind->steps));
        if (kind->steps > 1)
            n += snprintf(text + n, size - (size_t)n, "error %.0f%%, ", 100 * kind->mean);
        n += snprintf(text + n, size - (size_t)n, "forecast%s %.0f%% too %s; ", kind->steps > 1 ? "s on average" : "",
                      100 * fabs(kind->signed_mean), kind->signed_mean < 0 ? "short" : "long");
        n += snprintf(text + n, size - (size_t)n,
                      kind->steps < MIN_STEPS ? "too few for a range: assume %.0f%% or more" : "80%% within %.0f%%",
                      100 * kind->within);
        if (f->perturbed[0] || c->is_own)
            snprintf(text + n, size - (size_t)n, "; none of these published steps was predicted with%s%s",
                     c->is_own ? " this cluster profile" : "", f->perturbed);
    } else {
        n = snprintf(text, size, "no published step of this kind%s%s", f->software ? ": " : "",
                     f->software ? kind_text(f, c, name) : "");
        if (f->mamba && f->software)
            write_mamba_range(text + n, size - (size_t)n);
    }
}
