target_sources(bb_steps PRIVATE sync/options.c)
