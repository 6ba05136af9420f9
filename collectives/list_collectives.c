/* list_collectives.c - the rows of `busbar list collectives`, `busbar list dtypes` and `busbar list ops`. */
#include "bootstrap/results/table.h"
#include "collectives/bench_main.h"
#include "collectives/ops/coll.h"

json_t *bb_list_collectives(void)
{
    static const struct bb_field fields[] = {
        BB_NAMED(struct bb_coll, name),
        {.key = "description", BB_SHOWS(struct bb_coll, help)},
        {.key = "busbw_factor", BB_SHOWS(struct bb_coll, factor_text)},
        {0},
    };

    return bb_table_list(fields, bb_colls, BB_COLL_KIND_COUNT, sizeof(*bb_colls));
}

json_t *bb_list_dtypes(void)
{
    static const struct bb_field fields[] = {
        BB_NAMED(struct bb_dtype, name), {.key = "description", BB_SHOWS(struct bb_dtype, help)}, {0}};

    return bb_table_list(fields, bb_dtypes, BB_DTYPE_COUNT, sizeof(*bb_dtypes));
}

json_t *bb_list_ops(void)
{
    static const struct bb_field fields[] = {
        BB_NAMED(struct bb_redop, name), {.key = "description", BB_SHOWS(struct bb_redop, help)}, {0}};

    return bb_table_list(fields, bb_redops, BB_REDOP_COUNT, sizeof(*bb_redops));
}
