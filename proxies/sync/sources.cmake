target_sources(bb_steps PRIVATE sync/buckets.c sync/groups.c sync/options.c sync/policy.c sync/sync.c)
