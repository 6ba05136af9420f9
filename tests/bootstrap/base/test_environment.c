/* test_environment.c - which environment variables result files record, and whose values they hide. */
#include "bootstrap/base/environment.h"
#include "tests/check.h"

#include <stddef.h>

static void records_known_variables_and_hides_secrets(void **state)
{
    static const struct {
        const char *name;
        int recorded, shown;
    } rows[] = {
        {"NCCL_ALGO", 1, 1},
        {"NCCL_IB_HCA", 1, 1},
        {"CUDA_VISIBLE_DEVICES", 1, 1},
        {"SLURM_JOB_ID", 1, 1},
        {"EMU_FAULT", 1, 1},
        {"OMPI_COMM_WORLD_SIZE", 1, 1},
        {"NCCL_COMM_ID", 1, 0},
        {"NCCL_FOO_TOKEN", 1, 0},
        {"CUDA_X_KEY", 1, 0},
        {"BUSBAR_PASSWORD", 1, 0},
        {"BUSBAR_RANK", 0, 1},
        {"BUSBAR_SIBLINGS", 0, 1},
        {"NCCL_ALGO_TOKEN", 1, 0},
        {"NCCL_", 1, 0},
        {"HF_TOKEN", 0, 0},
        {"SLURM_JOB_ID_X", 0, 0},
        {"AWS_SECRET_ACCESS_KEY", 0, 0},
        {"PATH", 0, 0},
        {"SLURM_JWT", 0, 0},
        {"", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(bb_environment_is_recorded(rows[i].name), rows[i].recorded);
        assert_string_equal(bb_environment_value(rows[i].name, "the value"), rows[i].shown ? "the value" : "set");
    }
}

/* Known variables, also of the newest NCCL, and variables of other programs get no suggestion. */
static void suggests_the_variable_of_the_closest_spelling(void **state)
{
    static const struct {
        const char *name, *meant;
    } rows[] = {
        {"NCCL_AGLO", "NCCL_ALGO"},
        {"nccl_algo", NULL},
        {"NCCL_GIN_ENABEL", "NCCL_GIN_ENABLE"},
        {"NCCL_ALGO", NULL},
        {"NCCL_GIN_ENABLE", NULL},
        {"NCCL_TESTS_DEVICE", NULL},
        {"NCCL_COMM_ID", NULL},
        {"CUDA_VISIBLE_DEV", NULL},
        {"NCCL_SOMETHING_ELSE", NULL},
        {"EMU_FAULTS", "EMU_FAULT"},
        {"BUSBAR_PROGRES", "BUSBAR_PROGRESS"},
        {"BUSBAR_PROGRESS", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        const char *meant = bb_environment_suggest(rows[i].name);

        assert_string_equal(meant ? meant : "none", rows[i].meant ? rows[i].meant : "none");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_known_variables_and_hides_secrets),
        cmocka_unit_test(suggests_the_variable_of_the_closest_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
