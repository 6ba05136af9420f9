/*
 * json_memory.h - out-of-memory policy for jansson. When an allocation fails, some jansson calls silently omit a key
 * and others crash. With this policy, a failed allocation inside jansson prints one error line and ends the process
 * with exit status 1.
 */
#ifndef BB_BOOTSTRAP_BASE_JSON_MEMORY_H
#define BB_BOOTSTRAP_BASE_JSON_MEMORY_H

/* bb_json_memory_guard - install the policy for this process. Call before any other jansson function. */
void bb_json_memory_guard(void);

#endif
