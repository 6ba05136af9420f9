/* test_comm_config.c - the ncclConfig_t of a communicator. This file replaces the NCCL functions that create one. */
#include "bootstrap/world/comms.h"
#include "tests/check.h"

#include <string.h>

static ncclConfig_t config_seen;

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    (void)ranks, (void)id, (void)rank;
    config_seen = *config;
    *comm = (ncclComm_t)&config_seen;
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

static void create_comm(const struct bb_comm_opts *opts)
{
    struct bb_world world = {0};
    struct bb_comm comm;

    assert_int_equal(bb_world_alone(&world, 10), 0);
    assert_int_equal(bb_comm_init(&comm, &world, "test", NULL, 1, opts), 0);
    bb_comm_abort(&comm);
    assert_int_equal(bb_world_release(&world, 0), 0);
}

static void unset_options_stay_undefined(void **state)
{
    (void)state;
    create_comm(&(struct bb_comm_opts){.blocking = true});
    assert_int_equal(config_seen.blocking, 1);
    assert_int_equal(config_seen.minCTAs, NCCL_CONFIG_UNDEF_INT);
    assert_int_equal(config_seen.maxCTAs, NCCL_CONFIG_UNDEF_INT);
    assert_int_equal(config_seen.nvlinkCentricSched, NCCL_CONFIG_UNDEF_INT);
#if NCCL_VERSION_CODE >= 23000
    assert_int_equal(config_seen.maxP2pPeers, NCCL_CONFIG_UNDEF_INT);
#endif
}

static void options_are_passed_to_nccl(void **state)
{
    (void)state;
    assert_int_equal(bb_comms_max_p2p_peers_env(2), 0);
    create_comm(
        &(struct bb_comm_opts){.blocking = true, .max_ctas = 4, .nvlink_centric_sched = true, .max_p2p_peers = 2});
    assert_int_equal(config_seen.maxCTAs, 4);
    assert_int_equal(config_seen.nvlinkCentricSched, 1);
#if NCCL_VERSION_CODE >= 23000
    assert_int_equal(config_seen.maxP2pPeers, 2);
#endif
    /* older headers lack the member; the environment variable is read by NCCL 2.30 and newer */
    if (NCCL_VERSION_CODE < 23000)
        assert_string_equal(getenv("NCCL_P2P_MAX_PEERS"), "2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_options_stay_undefined),
        cmocka_unit_test(options_are_passed_to_nccl),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
