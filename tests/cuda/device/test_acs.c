/* test_acs.c - reads the ACS control registers of the ports above a GPU and a NIC in a copy of /sys. */
#include "bootstrap/base/alloc.h"
#include "cuda/device/acs.h"
#include "tests/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GPU    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
#define NIC    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0"
#define BEYOND "pci0000:15/0000:15:05.0/0000:20:00.0/0000:21:00.0"

enum { SOURCE_VALIDATION = 0x01, REQUEST_REDIRECT = 0x04, NO_ACS = -1, SHORT = -2 };

static void make_folders(char *path)
{
    for (char *slash = path + 1; *slash; slash++)
        if (*slash == '/') {
            *slash = '\0';
            (void)mkdir(path, 0700);
            *slash = '/';
        }
}

/* Writes the configuration space of a port: an Advanced Error Reporting capability (ID 1), then ACS, whose next one is the
 * first again. control: ACS's control register, NO_ACS, or SHORT: the 64 bytes that Linux shows to others than root. */
static void write_port(const char *root, const char *port, int control)
{
    unsigned char config[4096] = {0};
    char *path = bb_format("%s/sys/devices/%s/config", root, port);
    FILE *file;

    memcpy(config + 0x100, (unsigned char[]){0x01, 0x00, 0x01, 0x14}, 4);                            /* next: 0x140 */
    memcpy(config + 0x140, (unsigned char[]){control == NO_ACS ? 0x0b : 0x0d, 0x00, 0x01, 0x10}, 4); /* next: 0x100 */
    config[0x146] = control < 0 ? 0 : (unsigned char)control;
    make_folders(path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(config, 1, control == SHORT ? 64 : sizeof config, file) > 0, 1);
    assert_int_equal(fclose(file), 0);
    free(path);
}

static void add_device(const char *root, const char *device, const char *link)
{
    char *path = bb_format("%s/sys/devices/%s/config", root, device),
         *target = bb_format("%s/sys/devices/%s", root, device);
    char *name = bb_format("%s/sys/%s", root, link);

    make_folders(path);
    make_folders(name);
    assert_int_equal(symlink(target, name), 0);
    free(name);
    free(target);
    free(path);
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about, (void)kind, (void)place;
    return remove(path);
}

static void test_ports_that_redirect_are_found(void **state)
{
    static const struct {
        int gpu, nic, beyond, found; /* control registers of the ports above the devices */
        const char *port;
    } rows[] = {{0, 0, 0, 0, ""},
                {SOURCE_VALIDATION, NO_ACS, 0, 0, ""},
                {SOURCE_VALIDATION | REQUEST_REDIRECT, 0, 0, 1, "0000:17:00.0"},
                {0, REQUEST_REDIRECT, 0, 1, "0000:17:01.0"},
                {0, 0, REQUEST_REDIRECT, 0, ""}, /* a NIC under another root port */
                {SHORT, 0, 0, -1, ""},
                {SHORT, REQUEST_REDIRECT, 0, 1, "0000:17:01.0"}};

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char root[] = "/tmp/acs.XXXXXX", port[BB_PCI_ADDRESS];

        assert_non_null(mkdtemp(root));
        add_device(root, GPU, "bus/pci/devices/0000:18:00.0");
        add_device(root, NIC, "class/infiniband/mlx5_0/device");
        add_device(root, BEYOND, "class/infiniband/mlx5_1/device");
        write_port(root, "pci0000:15/0000:15:01.0", REQUEST_REDIRECT); /* of a root port it makes no difference */
        write_port(root, "pci0000:15/0000:15:01.0/0000:16:00.0", NO_ACS);
        write_port(root, "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", rows[i].gpu);
        write_port(root, "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0", rows[i].nic);
        write_port(root, "pci0000:15/0000:15:05.0/0000:20:00.0", rows[i].beyond);
        assert_int_equal(bb_acs_redirects(root, "0000:18:00.0", port), rows[i].found);
        assert_string_equal(port, rows[i].port);
        assert_int_equal(bb_acs_redirects(root, "0000:99:00.0", port), -1);
        assert_int_equal(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ports_that_redirect_are_found)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
