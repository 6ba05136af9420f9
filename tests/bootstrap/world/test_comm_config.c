/* test_comm_config.c - what NCCL is told of a communicator: the calls that make one are this program's own. */
#include "bootstrap/world/comms.h"
#include "tests/check.h"

#include <string.h>

static ncclConfig_t told;

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    (void)ranks, (void)id, (void)rank;
    told = *config;
    *comm = (ncclComm_t)&told;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof(*id));
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

static void tell(const struct bb_comm_opts *opts)
{
    struct bb_world world = {0};
    struct bb_comm comm;

    assert_int_equal(bb_world_alone(&world, 10), 0);
    assert_int_equal(bb_comm_init(&comm, &world, "test", NULL, 1, opts), 0);
    bb_comm_abort(&comm);
    assert_int_equal(bb_world_release(&world, 0), 0);
}

static void nothing_is_told_unasked(void **state)
{
    (void)state;
    tell(&(struct bb_comm_opts){.blocking = true});
    assert_int_equal(told.blocking, 1);
    assert_int_equal(told.minCTAs, NCCL_CONFIG_UNDEF_INT);
    assert_int_equal(told.maxCTAs, NCCL_CONFIG_UNDEF_INT);
    assert_int_equal(told.nvlinkCentricSched, NCCL_CONFIG_UNDEF_INT);
#if NCCL_VERSION_CODE >= 23000
    assert_int_equal(told.maxP2pPeers, NCCL_CONFIG_UNDEF_INT);
#endif
}

static void settings_of_nccl_tests_are_told(void **state)
{
    (void)state;
    tell(&(struct bb_comm_opts){.blocking = true, .max_ctas = 4, .nvlink_centric_sched = true, .max_p2p_peers = 2});
    assert_int_equal(told.maxCTAs, 4);
    assert_int_equal(told.nvlinkCentricSched, 1);
#if NCCL_VERSION_CODE >= 23000
    assert_int_equal(told.maxP2pPeers, 2);
#endif
    /* by a variable where the header has no member for it: NCCL 2.30 and newer read it */
    if (NCCL_VERSION_CODE < 23000)
        assert_string_equal(getenv("NCCL_P2P_MAX_PEERS"), "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_told_unasked),
        cmocka_unit_test(settings_of_nccl_tests_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
