/* limits.h - the causes that can limit the speed of an operation (its bottleneck). */
#ifndef BB_PROXIES_SIMULATION_SIMULATE_ENGINE_LIMITS_H
#define BB_PROXIES_SIMULATION_SIMULATE_ENGINE_LIMITS_H

/* One line per limiting cause: X(name, text, key) defines the enumerator BB_LIMIT_name, its text in reports and its
 * JSON key. */
#define BB_EACH_LIMIT(X)                                                                                               \
    X(NONE, "nothing", "none")                                                                                         \
    X(ARITHMETIC, "compute", "compute")    /* kernels: throughput of the SMs */                                        \
    X(MEMORY, "memory", "memory")          /* kernels and communication: memory bandwidth */                           \
    X(LAUNCH, "launch", "launch")          /* kernels: launch overhead and minimum kernel time */                      \
    X(HOST, "host CPU", "host_cpu")        /* kernels: Adam on the host */                                             \
    X(HOST_LINK, "host link", "host_link") /* kernels: copies between GPU and host memory */                           \
    X(LATENCY, "latency", "latency")       /* communication: latency exceeds transfer time */                          \
    X(LINK, "link", "link")                /* NVLink or PCIe within the node */                                        \
    X(NIC, "NIC", "nic")                                                                                               \
    X(LEAF, "leaf uplink", "leaf_uplink")                                                                              \
    X(POD, "pod uplink", "pod_uplink")                                                                                 \
    X(WAITING, "waiting", "waiting") /* communication: waiting for the last rank to arrive */

#define BB_LIMIT_NAME(name, text, key) BB_LIMIT_##name,
enum bb_limit { BB_EACH_LIMIT(BB_LIMIT_NAME) BB_LIMITS };
extern const char *const bb_limit_names[BB_LIMITS], *const bb_limit_keys[BB_LIMITS];

#endif
