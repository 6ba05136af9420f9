/*
 * test_kernels_load.c - bb_kernels_load loads every kernel that is compiled into the program. The emulated runtime
 * knows which kernels are registered and which are loaded.
 */
#include "cuda/data/kernels.h"
#include "cuda/load/kernels_load.h"
#include "tests/check.h"

#include <dlfcn.h>

typedef const char *unloaded_kernel(int device);

static void every_kernel_is_loaded(void **state)
{
    unloaded_kernel *const emu_unloaded_kernel = (unloaded_kernel *)dlsym(RTLD_DEFAULT, "emu_unloaded_kernel");

    (void)state;
    assert_non_null(emu_unloaded_kernel);
    assert_non_null(emu_unloaded_kernel(0));
    assert_int_equal(bb_kernels_load(), 0);
    if (emu_unloaded_kernel(0))
        fail_msg("%s was not loaded", emu_unloaded_kernel(0));
    assert_non_null(emu_unloaded_kernel(1)); /* kernels are loaded separately on each GPU */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel_is_loaded)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
