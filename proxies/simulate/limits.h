/* limits.h - what limits the speed of an operation. */
#ifndef BB_PROXIES_SIMULATE_LIMITS_H
#define BB_PROXIES_SIMULATE_LIMITS_H

/* X(name, text, JSON key) */
#define BB_EACH_LIMIT(X)                                                                                               \
    X(NONE, "nothing", "none")                                                                                         \
    X(ARITHMETIC, "compute", "compute") /* kernels: GEMMs */                                                           \
    X(MEMORY, "memory", "memory")       /* kernels: memory-bound; communication: memory bandwidth */                   \
    X(LAUNCH, "launch", "launch")       /* kernels: launch overhead, minimum kernel time */                            \
    X(LATENCY, "latency", "latency")    /* communication: latency of its steps */                                      \
    X(LINK, "link", "link")             /* NVLink or PCIe within the node */                                           \
    X(NIC, "NIC", "nic")                                                                                               \
    X(LEAF, "leaf uplink", "leaf_uplink")                                                                              \
    X(POD, "pod uplink", "pod_uplink")                                                                                 \
    X(WAITING, "waiting", "waiting") /* communication: for the last rank to arrive */

#define BB_LIMIT_NAME(name, text, key) BB_LIMIT_##name,
enum bb_limit { BB_EACH_LIMIT(BB_LIMIT_NAME) BB_LIMITS };
extern const char *const bb_limit_names[BB_LIMITS], *const bb_limit_keys[BB_LIMITS];

#endif
