target_sources(bb_steps PRIVATE transformer/options.c)
