target_sources(bb_steps PRIVATE
  transformer/arch.c
  transformer/arch_load.c
  transformer/grid.c
  transformer/grid_settle.c
  transformer/block.c
  transformer/context.c
  transformer/experts.c
  transformer/layer.c
  transformer/layer_work.c
  transformer/layers.c
  transformer/routing.c
  transformer/memory.c
  transformer/options.c
  transformer/pipe.c
  transformer/schedule.c)
