/* kernels_load.c - see kernels_load.h. Each .cu file has a table of its own kernels; the test test_kernels_load
 * checks that these tables contain every kernel. */
#include "cuda/load/kernels_load.h"

#include "cuda/compute/busy.h"
#include "cuda/compute/layer_memory_kernels.h"
#include "cuda/compute/start_barrier.h"
#include "cuda/data/kernels.h"

int bb_kernels_load(void)
{
    int rc = bb_data_kernels_load();

    if (rc == 0)
        rc = bb_busy_load();
    if (rc == 0)
        rc = bb_start_barrier_load();
    return rc ? rc : bb_memory_kernels_load();
}
