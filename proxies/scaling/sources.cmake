target_sources(bb_steps PRIVATE scaling/baseline.c scaling/builder.c scaling/options.c scaling/report.c scaling/scaling.c)
