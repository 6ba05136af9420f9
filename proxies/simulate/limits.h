/* limits.h - what keeps an operation from being faster. */
#ifndef BB_PROXIES_SIMULATE_LIMITS_H
#define BB_PROXIES_SIMULATE_LIMITS_H

/* X(name, text, its key in JSON) */
#define BB_EACH_LIMIT(X)                                                                                               \
    X(NONE, "nothing", "none")                                                                                         \
    X(ARITHMETIC, "arithmetic", "arithmetic") /* kernels: products                                 */                  \
    X(MEMORY, "memory", "memory")             /* kernels: passes; communication: the memory's rate */                  \
    X(LAUNCH, "launches", "launches")         /* kernels: the least time of each, and their launch */                  \
    X(LATENCY, "latency", "latency")          /* communication: steps one after another            */                  \
    X(LINK, "links", "links")                 /* within the node                                   */                  \
    X(NIC, "NIC", "nic")                                                                                               \
    X(LEAF, "leaf uplink", "leaf_uplink")                                                                              \
    X(POD, "pod uplink", "pod_uplink")                                                                                 \
    X(WAITING, "waiting", "waiting") /* for who comes last                                */

#define BB_LIMIT_NAME(name, text, key) BB_LIMIT_##name,
enum bb_limit { BB_EACH_LIMIT(BB_LIMIT_NAME) BB_LIMITS };
extern const char *const bb_limit_names[BB_LIMITS], *const bb_limit_keys[BB_LIMITS];

#endif
