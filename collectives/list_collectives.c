/* list_collectives.c - the rows of `busbar list collectives`, `busbar list dtypes` and `busbar list ops`. */
#include "bootstrap/results/table.h"
#include "collectives/bench_main.h"
#include "collectives/ops/coll.h"

static const struct bb_field coll_fields[] = {
    BB_NAMED(struct bb_coll, name),
    {.key = "description", BB_SHOWS(struct bb_coll, help)},
    {.key = "busbw_factor", BB_SHOWS(struct bb_coll, factor_text)},
    {0},
};
static const struct bb_field dtype_fields[] = {
    BB_NAMED(struct bb_dtype, name), {.key = "description", BB_SHOWS(struct bb_dtype, help)}, {0}};
static const struct bb_field redop_fields[] = {
    BB_NAMED(struct bb_redop, name), {.key = "description", BB_SHOWS(struct bb_redop, help)}, {0}};

json_t *bb_list_collectives(void)
{
    return bb_table_list(coll_fields, bb_colls, BB_COLL_KIND_COUNT, sizeof(*bb_colls));
}

json_t *bb_list_dtypes(void)
{
    return bb_table_list(dtype_fields, bb_dtypes, BB_DTYPE_COUNT, sizeof(*bb_dtypes));
}

json_t *bb_list_ops(void)
{
    return bb_table_list(redop_fields, bb_redops, BB_REDOP_COUNT, sizeof(*bb_redops));
}
