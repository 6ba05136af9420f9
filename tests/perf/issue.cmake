# Host overhead of the step runner compared with plain calls; run by hand (README.md).
add_executable(issue_cost issue_cost.c)
target_link_libraries(issue_cost PRIVATE bb_proxies bb_flags)
target_link_options(issue_cost PRIVATE -Wl,--enable-new-dtags)
