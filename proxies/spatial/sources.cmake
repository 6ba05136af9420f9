target_sources(bb_steps PRIVATE
  spatial/cut.c spatial/gems.c spatial/net.c spatial/net_amoebanet.c spatial/net_cosmoflow.c spatial/net_resnet.c spatial/options.c spatial/settle.c spatial/spatial.c spatial/tiles.c spatial/tiling.c spatial/walk.c)
