/*
 * json_memory.h - handles out-of-memory errors of jansson. When an allocation fails, some jansson calls silently omit a
 * key and others crash. After bb_json_memory_guard, a failed allocation inside jansson prints one error line and ends
 * the process with exit status 1.
 */
#ifndef BB_BOOTSTRAP_BASE_JSON_MEMORY_H
#define BB_BOOTSTRAP_BASE_JSON_MEMORY_H

/* bb_json_memory_guard - install the policy for this process. Call before any other jansson function. end: ends the
 * process with this exit status; NULL: _exit(). */
void bb_json_memory_guard(void (*end)(int code));

#endif
