/* test_nics.c - reads the RDMA ports of a copy of /sys/class/infiniband. */
#include "bootstrap/base/alloc.h"
#include "cuda/device/nics.h"
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void link_device(const char *root, const char *name, const char *device)
{
    char *link = bb_format("%s/%s", root, name), *target = bb_format("%s/sys/devices/%s", root, device),
         *folders = bb_format("mkdir -p %s $(dirname %s)", target, link);

    assert_int_equal(system(folders), 0);
    assert_int_equal(symlink(target, link), 0);
    free(folders);
    free(link);
    free(target);
}

/* A switch has two GPUs and three NICs, one of which is for storage; another GPU has the far NIC. */
static void test_nics_below_the_switch_of_a_gpu_are_near(void **state)
{
    static const char *const nics[][2] = {{"mlx5_0", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:13:00.0"},
                                          {"mlx5_1", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:14:00.0"},
                                          {"mlx5_2", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:15:00.0"},
                                          {"mlx5_3", "pci0000:20/0000:20:01.0/0000:21:00.0/0000:23:00.0"}};
    char root[] = "/tmp/near.XXXXXX", text[BB_NICS_TEXT];

    (void)state;
    assert_non_null(mkdtemp(root));
    link_device(root, "sys/bus/pci/devices/0000:12:00.0", "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0");
    link_device(root, "sys/bus/pci/devices/0000:22:00.0", "pci0000:20/0000:20:01.0/0000:21:00.0/0000:22:00.0");
    for (size_t i = 0; i < ROWS(nics); i++) {
        char *device = bb_format("sys/class/infiniband/%s/device", nics[i][0]),
             *port = bb_format("%s/sys/class/infiniband", root);

        link_device(root, device, nics[i][1]);
        write_file(port, nics[i][0], "state", "4: ACTIVE\n");
        write_file(port, nics[i][0], "rate", i == 2 ? "100 Gb/sec\n" : "200 Gb/sec\n");
        free(device);
        free(port);
    }
    bb_nics_near(root, "0000:12:00.0", text);
    assert_string_equal(text, "mlx5_0, mlx5_1");
    bb_nics_near(root, "0000:22:00.0", text);
    assert_string_equal(text, "mlx5_3");
    bb_nics_near(root, "0000:99:00.0", text);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts_active_ports_of_the_highest_rate),
                                       cmocka_unit_test(test_nics_below_the_switch_of_a_gpu_are_near)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
