target_sources(bb_steps PRIVATE spatial/options.c)
