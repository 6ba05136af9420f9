# What runs a step: everything of the proxies that needs CUDA, NCCL or MPI.
target_sources(bb_proxies PRIVATE
  areas.c data_check.c figures.c issue.c measure.c proxy_run.c run_report.c run_report_json.c run_trace.c runner.c scaling/run.c waiting.c)
