/* test_nics.c - reads the RDMA ports of a copy of /sys/class/infiniband. */
#include "bootstrap/base/alloc.h"
#include "cuda/device/nics.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void write_file(const char *folder, const char *port, const char *name, const char *text)
{
    char *path = bb_format("%s/%s/ports/1/%s", folder, port, name);
    FILE *file;

    for (char *slash = path + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = '\0';
            (void)mkdir(path, 0700);
            *slash = '/';
        }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    free(path);
}

static void test_counts_active_ports_of_the_highest_rate(void **state)
{
    char folder[] = "/tmp/nics.XXXXXX";
    struct bb_nics nics;

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_file(folder, "mlx5_0", "state", "4: ACTIVE\n");
    write_file(folder, "mlx5_0", "rate", "400 Gb/sec (4X NDR)\n");
    write_file(folder, "mlx5_1", "state", "4: ACTIVE\n");
    write_file(folder, "mlx5_1", "rate", "400 Gb/sec (4X NDR)\n");
    write_file(folder, "mlx5_2", "state", "1: DOWN\n");
    write_file(folder, "mlx5_2", "rate", "800 Gb/sec (8X NDR)\n");
    write_file(folder, "mlx5_3", "state", "4: ACTIVE\n");
    write_file(folder, "mlx5_3", "rate", "25 Gb/sec (1X EDR)\n");
    nics = bb_nics_read(folder);
    assert_int_equal(nics.n, 2);
    assert_true(nics.gbit_s == 400);
    assert_int_equal(bb_nics_read("/nowhere").n, 0);
    write_file(folder, "mlx5_0", "counters/symbol_error", "3\n");
    write_file(folder, "mlx5_2", "counters/symbol_error", "4\n");
    assert_int_equal(bb_nics_counter(folder, "symbol_error"), 7);
    assert_int_equal(bb_nics_counter(folder, "link_downed"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts_active_ports_of_the_highest_rate)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
