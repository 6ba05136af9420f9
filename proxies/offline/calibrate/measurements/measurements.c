/* measurements.c - reads result files and checks that all of them are from the same machine (see measurements.h). */
#include "proxies/offline/calibrate/measurements/measurements.h"

#include "bootstrap/base/alloc.h"
#include "bootstrap/base/units.h"
#include "collectives/compare/result_reader.h"
#include "collectives/measure/sampling_options.h"
#include "proxies/offline/calibrate/measurements/measurement_rows.h"

#include <stdlib.h>
#include <string.h>

/* ---- machine and command of a file ---- */

static void copy_text(char *to, size_t size, const json_t *value)
{
    const char *text = json_string_value(value);

    snprintf(to, size, "%s", text ? text : "");
}

/* Reads the name of the GPUs, which must be the same for all ranks. */
static int read_device(struct bb_measurement_file *f, const json_t *devices, const char *field)
{
    json_t *device;
    size_t i;

    json_array_foreach(devices, i, device)
    {
        const char *name = json_string_value(json_object_get(device, field));

        if (i == 0)
            copy_text(f->device, sizeof(f->device), json_object_get(device, field));
        else if (name && strncmp(name, f->device, sizeof(f->device) - 1) != 0)
            return bb_err(BB_EUSAGE, "%s: rank %zu has GPU '%.60s', rank 0 '%.60s'; expected one kind of GPU", f->path,
                          i, name, f->device);
    }
    return 0;
}

/* Returns the number of different hosts in a list of devices. field: key of the host name. max: out: maximum number
 * of devices per host. */
static int count_hosts(const json_t *devices, const char *field, int *max)
{
    json_t *seen = json_object(), *device;
    int hosts;
    size_t i;

    *max = 0;
    json_array_foreach(devices, i, device)
    {
        const char *host = json_string_value(json_object_get(device, field));
        const int n = 1 + (int)json_integer_value(json_object_get(seen, host ? host : ""));

        json_object_set_new(seen, host ? host : "", json_integer(n));
        *max = n > *max ? n : *max;
    }
    hosts = (int)json_object_size(seen);
    json_decref(seen);
    return hosts;
}

/* Stores the command of a result file without its options, for example "bench all_reduce". */
static void name_command(struct bb_measurement_file *f, const json_t *command)
{
    size_t used = 0, i;
    json_t *word;

    json_array_foreach(command, i, word)
    {
        const char *text = json_string_value(word);

        if (!text || *text == '-')
            break;
        if (used < sizeof(f->what))
            used += (size_t)snprintf(f->what + used, sizeof(f->what) - used, "%s%s", used ? " " : "", text);
    }
}

/* Warns of the slow links and GPUs that the benchmark itself found, because the fit describes them as normal. */
static void name_slow_parts(struct bb_measurement_file *f, const json_t *root)
{
    const json_t *causes = json_object_get(root, "causes"), *gpus = json_object_get(root, "slow_gpus");
    const json_t *first = json_array_get(json_array_size(causes) > 0 ? causes : gpus, 0);

    if (!json_is_object(first))
        return;
    bb_result_slow_text(first, f->slow);
    bb_warn("%s: slow when measured: %s; repair it and measure again, or the profile describes a slow cluster", f->path,
            f->slow);
}

static int read_busbar_head(struct bb_measurement_file *f, const json_t *root)
{
    const json_t *environment = json_object_get(root, "environment");

    f->ranks = (int)json_integer_value(json_object_get(root, "ranks"));
    f->nodes = (int)json_integer_value(json_object_get(root, "nodes"));
    f->emulated = json_is_true(json_object_get(root, "emulated"));
    (void)count_hosts(json_object_get(root, "devices"), "host", &f->max_ranks_per_host);
    name_command(f, json_object_get(root, "command"));
    name_slow_parts(f, root);
    copy_text(f->started, sizeof(f->started), json_object_get(root, "started"));
    copy_text(f->nccl, sizeof(f->nccl), json_object_get(json_object_get(root, "nccl"), "runtime"));
    if (f->emulated)
        copy_text(f->emulated_cluster, sizeof(f->emulated_cluster), json_object_get(environment, "EMU_CLUSTER"));
    return read_device(f, json_object_get(root, "devices"), "name");
}

static int read_nccl_tests_head(struct bb_measurement_file *f, const json_t *root)
{
    const json_t *devices = bb_result_file_nccl_tests_devices(root);
    long long version = json_integer_value(json_object_get(root, "nccl_version"));

    f->is_nccl_tests = true;
    f->ranks = bb_result_file_nccl_tests_ranks(root);
    f->nodes = count_hosts(devices, "hostname", &f->max_ranks_per_host);
    if (json_array_size(devices) > 0) /* nccl-tests lists only the first GPU of each process: ranks / listed devices
                                         is the number of GPUs per process */
        f->max_ranks_per_host *= f->ranks / (int)json_array_size(devices);
    f->emulated = json_is_true(json_object_get(root, "emulated"));
    snprintf(f->what, sizeof(f->what), "nccl-tests");
    copy_text(f->started, sizeof(f->started), json_object_get(root, "start_time"));
    if (version > 0)
        snprintf(f->nccl, sizeof(f->nccl), "%lld.%lld.%lld", version / 10000, version / 100 % 100, version % 100);
    return read_device(f, devices, "device_info");
}

/* ---- validation ---- */

static int validate_kind(const char *path, const json_t *root, bool *is_nccl_tests)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));

    *is_nccl_tests =
        !schema && json_is_integer(json_object_get(root, "version")) && json_is_array(json_object_get(root, "results"));
    if (*is_nccl_tests || (schema && strcmp(schema, "busbar.bench/1") == 0))
        return 0;
    if (schema)
        return bb_err(
            BB_EUSAGE,
            "%s: schema '%.40s' has no measurements for calibrate, expected busbar.bench/1 or nccl-tests' JSON", path,
            schema);
    return bb_err(BB_EUSAGE, "%s: not a file of measurements, expected the JSON of busbar bench or of nccl-tests",
                  path);
}

static int validate_file(const struct bb_measurement_file *f, const json_t *root)
{
    if (json_is_true(json_object_get(root, "shared_gpu")))
        return bb_err(BB_EUSAGE,
                      "%s: several ranks shared a GPU, so its times are meaningless; expected one rank per GPU",
                      f->path);
    if (f->ranks < 1 || f->nodes < 1 || f->nodes > f->ranks || !*f->device)
        return bb_err(BB_EUSAGE,
                      "%s: the numbers of ranks and nodes or the devices are missing, which calibrate requires",
                      f->path);
    return 0;
}

static int reject_groups(const char *path, const char *option)
{
    return bb_err(BB_EUSAGE, "%s: several groups ran concurrently (%s), expected one", path, option);
}

static int reject_aggregation(const char *path)
{
    return bb_err(BB_EUSAGE, "%s: several operations in one call (-m), expected one", path);
}

/* Rejects results of busbar bench that are not times of single NCCL operations on all ranks; warns of restrictions. */
static int validate_bench(const struct bb_measurement_file *f, const json_t *root)
{
    const json_t *options = json_object_get(root, "options");
    const char *restricted = json_string_value(json_object_get(root, "restricted_by"));
    const json_int_t ctas = json_integer_value(json_object_get(options, "max_ctas"));
    const json_t *average = json_object_get(options, "average");

    if (json_is_string(json_object_get(options, "split")))
        return reject_groups(f->path, "--split");
    if (json_integer_value(json_object_get(options, "agg_iters")) > 1)
        return reject_aggregation(f->path);
    if (json_is_string(json_object_get(options, "device")))
        return bb_err(BB_EUSAGE, "%s: operations of busbar's own kernels (--device), expected operations of NCCL",
                      f->path);
    if (restricted)
        bb_warn("%s: measured with %s, which can lower the bandwidth; the profile describes the restricted machine",
                f->path, restricted);
    if (json_integer_value(json_object_get(options, "local_register")) == 2)
        bb_warn("%s: measured with symmetric windows (-R 2), for which NCCL has faster kernels; the profile describes "
                "these",
                f->path);
    if (json_is_integer(average) && json_integer_value(average) != BB_AGGREGATE_MAX)
        bb_warn("%s: measured with -a %lld, whose times are not those of the slowest rank, which plan predicts; try: "
                "-a %d",
                f->path, (long long)json_integer_value(average), BB_AGGREGATE_MAX);
    if (ctas > 0)
        bb_warn(
            "%s: measured with --max-ctas %lld, which can lower the bandwidth; the profile describes the restricted "
            "machine",
            f->path, (long long)ctas);
    return 0;
}

/* Rejects files of nccl-tests that do not contain times of single operations on all ranks. */
static int validate_nccl_tests(const struct bb_measurement_file *f, const json_t *root)
{
    const json_t *devices = bb_result_file_nccl_tests_devices(root), *config = json_object_get(root, "config");
    const json_t *last = json_array_get(devices, json_array_size(devices) - 1);
    const json_t *row = json_array_get(json_object_get(root, "results"), 0);

    if (json_integer_value(json_object_get(last, "group")) > 0)
        return reject_groups(f->path, "NCCL_TESTS_SPLIT");
    if (json_integer_value(json_object_get(config, "aggregated_iterations")) > 1)
        return reject_aggregation(f->path);
    if (json_object_get(json_object_get(row, "out_of_place"), "cpu_time") ||
        json_object_get(json_object_get(row, "in_place"), "cpu_time"))
        return bb_err(BB_EUSAGE, "%s: contains CPU times of the calls (-C 1), expected times of the operations",
                      f->path);
    return 0;
}

static int validate_same_machine(const struct bb_measurement_file *f, const struct bb_measurement_file *first)
{
    if (f->emulated != first->emulated)
        return bb_err(BB_EUSAGE, "%s is from emulated GPUs, %s from real GPUs; expected only one of the two",
                      f->emulated ? f->path : first->path, f->emulated ? first->path : f->path);
    if (strcmp(f->device, first->device) != 0)
        return bb_err(BB_EUSAGE, "%s: GPUs are '%s', but in %s '%s'; expected files of one machine", f->path, f->device,
                      first->path, first->device);
    if (strcmp(f->emulated_cluster, first->emulated_cluster) != 0 && !f->is_nccl_tests && !first->is_nccl_tests)
        return bb_err(BB_EUSAGE, "%s: EMU_CLUSTER was '%s', but in %s '%s'; expected files of one machine", f->path,
                      f->emulated_cluster, first->path, first->emulated_cluster);
    return 0;
}

/* ---- reading of all files ---- */

/* Writes why rows of a file are not used: " (0 bytes)", with several reasons " (0 bytes: 2, no cost model: 30)". */
static void write_unused(struct bb_measurement_file *f)
{
    static const char *const names[BB_UNUSED_REASONS] = {[BB_UNUSED_EMPTY] = "0 bytes",
                                                         [BB_UNUSED_WRONG] = "wrong data",
                                                         [BB_UNUSED_MODE] = "mode sync or graph",
                                                         [BB_UNUSED_START] = "no start barrier",
                                                         [BB_UNUSED_MODEL] = "no cost model",
                                                         [BB_UNUSED_COUNTS] = "alltoallv is not fitted",
                                                         [BB_UNUSED_TIME] = "no time"};
    int used = 0;

    for (int reason = BB_USED + 1; reason < BB_UNUSED_REASONS; reason++) {
        const size_t room = sizeof f->unused - (size_t)used;

        if (f->n_of[reason] == f->n_unused && f->n_unused > 0)
            snprintf(f->unused, sizeof f->unused, " (%s", names[reason]);
        else if (f->n_of[reason] > 0)
            used += snprintf(f->unused + used, room, "%s%s: %zu", used ? ", " : " (", names[reason], f->n_of[reason]);
    }
    if (f->n_unused > 0)
        snprintf(f->unused + strlen(f->unused), 2, ")");
}

static int read_file(struct bb_measurements *e, json_t *root, const char *path)
{
    struct bb_measurement_file *f;
    bool is_nccl_tests;
    int rc;

    BB_GROW(e->files, e->n_files);
    f = &e->files[e->n_files++];
    *f = (struct bb_measurement_file){.path = bb_visible_text(path)};
    bb_warn_if_incomplete(path, root, false);
    TRY(validate_kind(path, root, &is_nccl_tests));
    TRY(is_nccl_tests ? read_nccl_tests_head(f, root) : read_busbar_head(f, root));
    TRY(validate_file(f, root));
    TRY(is_nccl_tests ? validate_nccl_tests(f, root) : validate_bench(f, root));
    TRY(validate_same_machine(f, &e->files[0]));
    TRY(is_nccl_tests ? bb_measurements_add_nccl_tests(e, root) : bb_measurements_add_results(e, root));
    write_unused(f);
out:
    return rc;
}

/* Reports files and runs without usable rows: an error if no other has some, otherwise warnings. */
static int report_empty_files(const struct bb_measurements *e)
{
    for (const struct bb_measurement_file *f = e->files; f < e->files + e->n_files; f++) {
        if (f->n_rows == 0 && e->n_rows == 0)
            return bb_err(
                BB_EUSAGE,
                "%s: none of its %zu rows can be used%s; expected collectives (not alltoallv or hypercube) on "
                "2 ranks or more in mode stream, p2p, compute or overlap",
                f->path, f->n_unused, f->unused);
        if (f->n_rows == 0)
            bb_warn("%s: all %zu rows of a run are skipped%s", f->path, f->n_unused, f->unused);
    }
    return 0;
}

int bb_measurements_read(struct bb_measurements *e, const char *const *paths, size_t n)
{
    json_t *list = NULL;
    int rc = 0;

    *e = (struct bb_measurements){0};
    for (size_t i = 0; i < n; i++) {
        const char *path;

        TRY(bb_result_trees_load(paths[i], &path, &list));
        for (size_t k = 0; k < json_array_size(list); k++)
            TRY(read_file(e, json_array_get(list, k), path));
        json_decref(list);
        list = NULL;
    }
    TRY(report_empty_files(e));
out:
    json_decref(list);
    return rc;
}

void bb_measurements_release(struct bb_measurements *e)
{
    for (size_t i = 0; i < e->n_files; i++)
        free((char *)e->files[i].path);
    free(e->files);
    free(e->rows);
    *e = (struct bb_measurements){0};
}

/* ---- descriptions of measurements ---- */

void bb_measurement_text(const struct bb_measurement *row, char *text, size_t size)
{
    const struct bb_gemm_shape *g = &row->kernel.gemm;
    char bytes[BB_BYTES_TEXT];

    bb_format_bytes((size_t)row->bytes, bytes);
    if (row->kind == BB_MEASURED_COLLECTIVE)
        snprintf(text, size, "%s %s%s on %d ranks", bb_colls[row->call.kind].name, bytes,
                 row->call.in_place ? " in place" : "", row->call.ranks);
    else if (row->kind == BB_MEASURED_MESSAGE)
        snprintf(text, size, "message of %s %s", bytes, row->same_node ? "within a node" : "between nodes");
    else if (row->kind == BB_MEASURED_KERNEL && row->kernel.is_memory_kernel)
        snprintf(text, size, "memory-bound kernel over %s", bytes);
    else if (row->kind == BB_MEASURED_KERNEL)
        snprintf(text, size, "GEMM %lld x %lld x %lld %s", (long long)g->m, (long long)g->n, (long long)g->k,
                 bb_dtypes[g->dtype].name);
    else if (row->kind == BB_MEASURED_OVERLAP)
        snprintf(text, size, "GEMMs %lld x %lld x %lld during %s %s", (long long)g->m, (long long)g->n, (long long)g->k,
                 bb_colls[row->call.kind].name, bytes);
    else if (row->kind == BB_MEASURED_TIMED_KERNEL)
        snprintf(text, size, "timed kernel of %g us", row->known_us);
    else
        snprintf(text, size, "NCCL call");
}
