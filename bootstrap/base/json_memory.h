/*
 * json_memory.h - JSON without memory. Some of jansson's calls say nothing of a failed allocation, and leave out a key;
 * others crash. So none of them sees one: without memory for JSON the process says so and ends with exit 1.
 */
#ifndef BB_BOOTSTRAP_BASE_JSON_MEMORY_H
#define BB_BOOTSTRAP_BASE_JSON_MEMORY_H

/* bb_json_memory_guard - from here on, for all of jansson in this process; before its first call. */
void bb_json_memory_guard(void);

#endif
