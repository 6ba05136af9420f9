/* list_proxies.h - `busbar list proxies`, `models`, `clusters`. */
#ifndef BB_PROXIES_REGISTRY_LIST_PROXIES_H
#define BB_PROXIES_REGISTRY_LIST_PROXIES_H

#include <stdio.h>

/* Each prints a line or two for every row. Return 0 or a negative error. */
int bb_list_proxies(FILE *out);
int bb_list_models(FILE *out);
int bb_list_clusters(FILE *out);

#endif
