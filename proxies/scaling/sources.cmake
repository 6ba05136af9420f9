target_sources(bb_steps PRIVATE scaling/options.c)
