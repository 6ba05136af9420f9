target_sources(bb_steps PRIVATE sync/buckets.c sync/options.c sync/sync.c)
