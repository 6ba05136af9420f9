target_sources(bb_steps PRIVATE sync/buckets.c sync/groups.c sync/options.c sync/network.c sync/policy.c sync/servers.c sync/sync.c sync/replicas.c)
