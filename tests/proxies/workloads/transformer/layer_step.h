/*
 * layer_step.h - test steps that contain single layers: a grid, one program per position in the expert group if their
 * programs differ, and the operations that the test's function writes into each program. Each group of the grid has one
 * communicator as a lane.
 */
#ifndef BB_TESTS_LAYER_STEP_H
#define BB_TESTS_LAYER_STEP_H

#include "tests/proxies/made.h"

#include "proxies/simulation/simulate/step_check.h"
#include "proxies/workloads/transformer/arch/arch.h"
#include "proxies/workloads/transformer/grid/grid.h"
#include "proxies/workloads/transformer/layer/layer.h"

struct layer_step {
    struct bb_arch arch;
    struct bb_grid grid;
    struct bb_layers_config config;
    const char *compute; /* compute mode; NULL: "timed" */
    struct bb_step step;
    struct bb_layers *layers;
    struct bb_grid_groups groups;
};

typedef void layer_step_write(struct bb_block *b, const struct layer_step *l);

static inline struct bb_script_lane layer_step_lane(struct layer_step *l, struct bb_script *s, const char *name,
                                                    int group)
{
    struct bb_layout *layout = &l->step.layout;
    int comm = 0;

    if (group == BB_NONE)
        return bb_no_lane();
    while (comm < layout->n_comms && strcmp(layout->comms[comm].name, name) != 0)
        comm++;
    if (comm == layout->n_comms)
        comm = bb_layout_add_comm(layout, name, group);
    return bb_script_lane(s, layout, comm);
}

static inline int layer_step_group(const struct layer_step *l, enum bb_grid_group first, enum bb_grid_group second)
{
    return l->groups.of[first] != BB_NONE ? l->groups.of[first] : l->groups.of[second];
}

static inline struct bb_block_lanes layer_step_lanes(struct layer_step *l, struct bb_script *s)
{
    const struct bb_script_lane no = bb_no_lane();
    struct bb_block_lanes lanes = {no, no, no, no, no, no, no, no, {no, no, no}};
    int etp = l->grid.etp > 1 ? layer_step_group(l, BB_GRID_ETP, BB_GRID_TP) : BB_NONE;
    int etp_ep = layer_step_group(l, BB_GRID_TP_EP, BB_GRID_ETP);

    lanes.tp = layer_step_lane(l, s, "tp", l->groups.of[BB_GRID_TP]);
    lanes.cp = layer_step_lane(l, s, "cp", l->groups.of[BB_GRID_CP]);
    if (!l->grid.experts)
        return lanes;
    lanes.ep = layer_step_lane(l, s, "ep", l->groups.of[BB_GRID_EP]);
    lanes.etp = layer_step_lane(l, s, "etp", etp);
    lanes.etp_ep = etp == BB_NONE ? lanes.ep : layer_step_lane(l, s, "etp_ep", etp_ep == BB_NONE ? etp : etp_ep);
    return lanes;
}

static inline int layer_step_begin(struct layer_step *l)
{
    struct bb_layers_config *c = &l->config;
    const struct bb_grid_model model = {.arch = &l->arch,
                                        .sequence = c->sequence,
                                        .chunks = 1,
                                        .sequence_parallel = c->sequence_parallel,
                                        .cp_all_to_all = c->context == BB_CONTEXT_ALL_TO_ALL};
    int rc;

    l->grid.experts = l->arch.experts > 0;
    /* learned positions for all tokens */
    l->arch.sequence = l->arch.sequence > c->sequence ? l->arch.sequence : c->sequence;
    if (!l->grid.dp)
        l->grid.dp = 1;
    rc = bb_grid_resolve(&l->grid, l->grid.ranks, NULL, NULL, "test");
    rc = rc ? rc : bb_grid_validate_model(&l->grid, &model, "test");
    if (rc)
        return rc;
    c->arch = &l->arch;
    c->tp = l->grid.tp;
    c->cp = l->grid.cp;
    c->ep = l->grid.experts ? l->grid.ep : 1;
    c->etp = l->grid.experts ? l->grid.etp : 1;
    c->micro_batch_size = c->micro_batch_size ? c->micro_batch_size : 1;
    c->tflops = c->tflops > 0 ? c->tflops : 100;
    c->gemm = l->compute && strcmp(l->compute, "gemm") == 0;
    l->step = (struct bb_step){.proxy = "layer_step"};
    rc = bb_layers_new(&l->layers, c, &l->step);
    if (rc == 0)
        bb_layers_store_row_counts(l->layers);
    return rc;
}

/* Builds the step. The test has set grid.ranks, the axes, arch and config; all other fields are filled in here.
 * Returns 0 or the error of the grid or of bb_layers_new. */
static inline int layer_step_init(struct layer_step *l, layer_step_write *write)
{
    const char *compute = l->compute ? l->compute : "timed";
    struct bb_proxy_config config = {.dtype = bb_dtypes[l->config.dtype].name, .compute = compute};
    int rc = layer_step_begin(l), programs_per_stage;

    if (rc)
        return rc;
    assert_int_equal(bb_grid_layout(&l->grid, BB_GRID_ALL_GROUPS, &l->step.layout, &l->groups), 0);
    programs_per_stage = bb_layers_programs_per_stage(l->layers);
    assert_int_equal(bb_step_add_roles(&l->step, programs_per_stage), 0);
    for (int v = 0; v < programs_per_stage; v++) {
        struct bb_script script;
        struct bb_block_lanes lanes;
        struct bb_block block;

        l->step.roles[v].name = "rank";
        bb_script_init(&script, &l->step.roles[v].program, &config);
        lanes = layer_step_lanes(l, &script);
        bb_block_init(&block, l->layers, &script, &lanes, v);
        write(&block, l);
        assert_int_equal(bb_script_result(&script), 0);
    }
    for (int r = 0; r < l->step.layout.ranks; r++)
        l->step.role_of[r] = programs_per_stage > 1 ? bb_grid_coord(&l->grid, r, BB_AXIS_EP, true) : 0;
    return 0;
}

static inline void layer_step_release(struct layer_step *l)
{
    bb_layers_free(l->layers);
    bb_step_release(&l->step);
}

/* Checks that the step is valid. */
static inline void assert_valid_layer_step(const struct layer_step *l)
{
    struct bb_checks checks;

    assert_int_equal(bb_step_check(&l->step, &checks), 0);
    for (int i = 0; i < checks.mismatches.n && i < BB_FAULTS_KEPT; i++)
        print_message("%s\n", checks.mismatches.text[i]);
    for (int i = 0; i < checks.deadlock.n && i < BB_FAULTS_KEPT; i++)
        print_message("%s\n", checks.deadlock.text[i]);
    assert_true(checks.matched);
    assert_true(checks.deadlock_free);
    assert_true(checks.safe_serialised);
    bb_checks_release(&checks);
}

#endif
