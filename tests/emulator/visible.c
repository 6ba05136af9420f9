/*
 * visible.c - the devices that this process sees, and their order: CUDA_VISIBLE_DEVICES as in the CUDA Programming
 * Guide (numbers, whole or shortened UUIDs; an invalid entry ends the list), and MIG instances, of which a process sees
 * one.
 */
#include "internal.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIG_MAX = 7, ENTRY_TEXT = 128 };

/* A device of a host has the same UUID in every process. The first bytes of the UUID differ between devices. */
void emu_uuid_of(struct emu_device_id device, unsigned char uuid[16])
{
    const unsigned char number[3] = {(unsigned char)device.number, (unsigned char)device.instance,
                                     (unsigned char)(device.number >> 8)};
    char host[256] = "";
    uint64_t hash = 14695981039346656037u;

    gethostname(host, sizeof(host) - 1);
    for (const char *c = host; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (int i = 0; i < (device.number >> 8 ? 3 : 2); i++)
        hash = (hash ^ number[i]) * 1099511628211u;
    hash ^= hash >> 29; /* mixes, so that the first bytes differ */
    hash *= 0xbf58476d1ce4e5b9u;
    memcpy(uuid, &hash, 8);
    memcpy(uuid + 8, "EMU-GPU", 8);
}

static void write_uuid(struct emu_device_id device, char text[40])
{
    unsigned char b[16];
    int at = 0;

    emu_uuid_of(device, b);
    for (int i = 0; i < 16; i++)
        at += sprintf(text + at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

/* MIG-<UUID of the instance>, or the older form MIG-GPU-<UUID of the GPU>/<GPU instance>/<compute instance>. */
static bool names_instance(const char *entry, struct emu_device_id device)
{
    char uuid[40], old[ENTRY_TEXT];

    write_uuid(device, uuid);
    if (entry[0] && strncmp(uuid, entry, strlen(entry)) == 0)
        return true;
    write_uuid((struct emu_device_id){.number = device.number}, uuid);
    snprintf(old, sizeof(old), "GPU-%s/%d/0", uuid, device.instance);
    return strcmp(old, entry) == 0;
}

static bool names(const char *entry, struct emu_device_id device)
{
    char uuid[40], *end;

    if (strncmp(entry, "MIG-", 4) == 0)
        return device.instance > 0 && names_instance(entry + 4, device);
    if (strncmp(entry, "GPU-", 4) == 0) {
        write_uuid((struct emu_device_id){.number = device.number}, uuid);
        return entry[4] && strncmp(uuid, entry + 4, strlen(entry + 4)) == 0;
    }
    return isdigit((unsigned char)*entry) && strtol(entry, &end, 10) == device.number && *end == '\0';
}

/* Lists all devices, or all their MIG instances. With instances a device number or a GPU's UUID selects the first
 * instance of that GPU. */
static int list_devices(struct emu_device_id *ids, int first, int devices, int instances)
{
    int n = 0;

    for (int d = first; d < first + devices; d++)
        for (int i = instances > 0; i <= instances; i++)
            ids[n++] = (struct emu_device_id){.number = d, .instance = i};
    return n;
}

/* The device that an entry selects; -1 if it selects none, or several (a UUID prefix that is too short). */
static int find_device(const char *entry, const struct emu_device_id *ids, int n)
{
    int found = -1;

    for (int i = 0; i < n; i++) {
        if (!names(entry, ids[i]))
            continue;
        if (found >= 0 && ids[found].number != ids[i].number)
            return -1;
        found = found < 0 ? i : found;
    }
    return found;
}

static int take_named(const char *text, const struct emu_device_id *ids, int n, struct emu_device_id *visible)
{
    bool taken[EMU_MAX_DEVICES * MIG_MAX] = {false};
    int seen = 0;

    while (*text && seen < EMU_MAX_DEVICES) {
        size_t length = strcspn(text, ",");
        char entry[ENTRY_TEXT];
        int at;

        snprintf(entry, sizeof(entry), "%.*s", (int)length, text);
        at = find_device(entry + strspn(entry, " "), ids, n);
        if (at < 0 || taken[at])
            break;
        taken[at] = true;
        visible[seen++] = ids[at];
        text += length + (text[length] == ',');
    }
    return seen;
}

static int requested_instances(void)
{
    const char *value = getenv("EMU_MIG");
    char *end;
    long n = value ? strtol(value, &end, 10) : 0;

    if (value && (*end || n < 0 || n > MIG_MAX))
        emu_die("EMU_MIG=%s: expected 0 to %d", value, MIG_MAX);
    return (int)n;
}

int emu_visible_devices(int first, int devices, struct emu_device_id visible[EMU_MAX_DEVICES])
{
    struct emu_device_id ids[EMU_MAX_DEVICES * MIG_MAX];
    const char *asked = getenv("CUDA_VISIBLE_DEVICES");
    int instances = requested_instances(), n = list_devices(ids, first, devices, instances), seen;

    if (asked) {
        seen = take_named(asked, ids, n, visible);
    } else {
        seen = n < EMU_MAX_DEVICES ? n : EMU_MAX_DEVICES;
        memcpy(visible, ids, (size_t)seen * sizeof(*visible));
    }
    return instances > 0 && seen > 1 ? 1 : seen;
}
