/* limits.h - what keeps an operation from being faster. */
#ifndef BB_PROXIES_SIMULATE_LIMITS_H
#define BB_PROXIES_SIMULATE_LIMITS_H

#define BB_EACH_LIMIT(X)                                                                                               \
    X(NONE, "nothing")                                                                                                 \
    X(ARITHMETIC, "arithmetic") /* kernels: products                                  */                               \
    X(MEMORY, "memory")         /* kernels: passes; communication: the memory's rate  */                               \
    X(LAUNCH, "launches")       /* kernels: the least time of each, and their launch  */                               \
    X(LATENCY, "latency")       /* communication: steps one after another             */                               \
    X(LINK, "links")            /* within the node                                    */                               \
    X(NIC, "NIC")                                                                                                      \
    X(WAITING, "waiting") /* for who comes last                                 */

#define BB_LIMIT_NAME(name, text) BB_LIMIT_##name,
enum bb_limit { BB_EACH_LIMIT(BB_LIMIT_NAME) BB_LIMITS };
extern const char *const bb_limit_names[BB_LIMITS];

#endif
