target_sources(bb_steps PRIVATE
  transformer/layer.c
  transformer/options.c
  transformer/schedule.c)
