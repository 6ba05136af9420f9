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
        {"NCCL_FOO_TOKEN", 1, 0},
        {"CUDA_X_KEY", 1, 0},
        {"BUSBAR_PASSWORD", 1, 0},
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(records_known_variables_and_hides_secrets)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
