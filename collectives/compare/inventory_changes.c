/* inventory_changes.c - see inventory_changes.h. */
#include "collectives/compare/inventory_changes.h"

#include "bootstrap/base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const json_t *bb_inventory_entry(const json_t *root, const char *item)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(root, "inventory"), i, entry)
    {
        const char *text = json_string_value(json_object_get(entry, "item"));

        if (text && strcmp(text, item) == 0)
            return entry;
    }
    return NULL;
}

const char *bb_inventory_text(const json_t *entry, const char *host, int gpu)
{
    const json_t *other;
    size_t i;

    json_array_foreach(json_object_get(entry, "others"), i, other)
    {
        const char *name = json_string_value(json_object_get(other, "host"));

        if (name && strcmp(name, host) == 0 && json_integer_value(json_object_get(other, "gpu")) == gpu) {
            const char *value = json_string_value(json_object_get(other, "value"));

            return value ? value : "";
        }
    }
    return json_string_value(json_object_get(entry, "usual"));
}

/* An item in two results, and the number of GPUs per node. */
struct item {
    const char *name;
    const json_t *a, *b; /* its entries */
    int gpus;
};

/* Returns whether a GPU has another text in b than in a. before, now: out: the texts */
static bool differs(const struct item *item, const char *host, int gpu, const char **before, const char **now)
{
    *before = bb_inventory_text(item->a, host, gpu);
    *now = bb_inventory_text(item->b, host, gpu);
    *now = *now ? *now : "";
    return *before && strcmp(*before, *now) != 0;
}

/* Returns whether all GPUs of a node have these texts. */
static bool is_of_node(const struct item *item, const char *host, const char *before, const char *now)
{
    const char *other_before, *other_now;
    bool same = true;

    for (int gpu = 0; gpu < item->gpus && same; gpu++)
        same = differs(item, host, gpu, &other_before, &other_now) && strcmp(before, other_before) == 0 &&
               strcmp(now, other_now) == 0;
    return same;
}

/* Adds a node, or one of its GPUs, to the change with its texts. changes: by both texts: what has changed first, and a number */
static void add_change(json_t *changes, const struct item *item, const char *host, int gpu, bool of_node,
                       const char *before, const char *now)
{
    char *key = bb_format("%s\n%s", before, now);
    json_t *change = json_object_get(changes, key);

    if (!change) {
        change = json_pack("{s:o, s:i, s:s, s:s}", "what",
                           of_node ? json_sprintf("%s of %s", item->name, host)
                                   : json_sprintf("%s of %s GPU %d", item->name, host, gpu),
                           "n", 0, "a", *before ? before : "unknown", "b", *now ? now : "unknown");
        json_object_set_new(changes, key, change);
    }
    json_object_set_new(change, "n", json_integer(1 + json_integer_value(json_object_get(change, "n"))));
    free(key);
}

/* Appends the changes of an item. verdicts: of b, with the hosts of its nodes */
static void append_changes(json_t *list, const struct item *item, const json_t *verdicts)
{
    json_t *changes = json_object(), *change;
    const json_t *verdict;
    const char *key;
    size_t i;

    json_array_foreach(verdicts, i, verdict)
    {
        const char *host = json_string_value(json_object_get(verdict, "host")), *before, *now;
        bool of_node = false;

        for (int gpu = 0; host && gpu < item->gpus && !of_node; gpu++)
            if (differs(item, host, gpu, &before, &now)) {
                of_node = is_of_node(item, host, before, now);
                add_change(changes, item, host, gpu, of_node, before, now);
            }
    }
    json_object_foreach(changes, key, change)
    {
        const int more = (int)json_integer_value(json_object_get(change, "n")) - 1;

        if (more > 0)
            json_object_set_new(
                change, "what",
                json_sprintf("%s and %d more", json_string_value(json_object_get(change, "what")), more));
        json_object_del(change, "n");
        json_array_append(list, change);
    }
    json_decref(changes);
}

json_t *bb_inventory_differences(const json_t *a, const json_t *b)
{
    const json_t *verdicts = json_object_get(b, "verdicts"), *entry;
    const size_t nodes = json_array_size(verdicts);
    json_t *list = json_array();
    size_t i;

    json_array_foreach(json_object_get(b, "inventory"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "item"));
        const struct item item = {.name = name,
                                  .a = name ? bb_inventory_entry(a, name) : NULL,
                                  .b = entry,
                                  .gpus =
                                      nodes ? (int)(json_integer_value(json_object_get(b, "ranks")) / (int)nodes) : 0};

        if (item.a && !json_is_true(json_object_get(entry, "counter")))
            append_changes(list, &item, verdicts);
    }
    return list;
}
