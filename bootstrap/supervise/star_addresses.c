/*
 * star_addresses.c - lists the addresses at which other hosts can reach this host. First come the interfaces
 * selected by NCCL_SOCKET_IFNAME, then the interface of the default route, then the others. NCCL's own connections use
 * the same order.
 */
#include "bootstrap/supervise/star.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WANTED, DEFAULT_ROUTE, OTHER, EXCLUDED, CANDIDATES_MAX = 64 };

struct candidate {
    int preference, order; /* preference: WANTED to EXCLUDED; order: position among equal preferences, IPv4 before
                              IPv6; lower is better */
    struct sockaddr_storage at;
};

/* Returns whether an entry of the comma-separated list is equal to the name or, unless `exact`, a prefix of the
 * name. */
static bool is_listed(const char *list, const char *name, bool exact)
{
    while (*list) {
        const size_t length = strcspn(list, ",");

        if (length > 0 && strncmp(list, name, length) == 0 && (!exact || name[length] == '\0'))
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

int bb_star_preference(const char *name, const char *socket_ifname, const char *default_route)
{
    const char *list = socket_ifname ? socket_ifname : "";
    const bool excludes = *list == '^';
    bool exact, listed;

    list += excludes;
    exact = *list == '=';
    listed = is_listed(list + exact, name, exact);
    if (listed)
        return excludes ? EXCLUDED : WANTED;
    return strcmp(name, default_route) == 0 ? DEFAULT_ROUTE : OTHER;
}

/* Finds the interface of the IPv6 default route, unless `name` is already set. The fields of a line of
 * /proc/net/ipv6_route are destination, prefix length, source, prefix length, gateway, four numbers, interface. */
static void find_default_route6(char name[IF_NAMESIZE])
{
    FILE *file = fopen("/proc/net/ipv6_route", "re");
    char line[256], found[IF_NAMESIZE] = "";
    unsigned length;

    while (file && !*name && fgets(line, sizeof(line), file))
        if (sscanf(line, "%*32s %2x %*s %*s %*s %*s %*s %*s %*s %15s", &length, found) == 2 && length == 0 &&
            strcmp(found, "lo") != 0)
            memcpy(name, found, IF_NAMESIZE);
    if (file)
        fclose(file);
}

/* Finds the interface of the IPv4 default route, else that of the IPv6 default route; "" if there is none. The
 * fields of a line of /proc/net/route are interface, destination, gateway, ... */
static void find_default_route(char name[IF_NAMESIZE])
{
    FILE *file = fopen("/proc/net/route", "re");
    char line[256];
    unsigned long destination;

    name[0] = '\0';
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "%15s %lx", name, &destination) == 2 && destination == 0)
            break;
        else
            name[0] = '\0';
    if (file)
        fclose(file);
    find_default_route6(name);
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return x->preference != y->preference ? x->preference - y->preference : x->order - y->order;
}

/* Returns whether other hosts may be able to reach the address: the interface is up and not loopback, and the
 * address is not link-local. */
static bool is_reachable(const struct ifaddrs *i)
{
    const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

    if ((family != AF_INET && family != AF_INET6) || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return false;
    return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

static struct candidate candidate_of(const struct ifaddrs *i, int n, const char *route)
{
    const bool is_v4 = i->ifa_addr->sa_family == AF_INET;
    struct candidate c = {.preference = bb_star_preference(i->ifa_name, getenv("NCCL_SOCKET_IFNAME"), route),
                          .order = is_v4 ? n : CANDIDATES_MAX + n};

    memcpy(&c.at, i->ifa_addr, is_v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return c;
}

void bb_star_list_addresses(struct bb_star_endpoint *at)
{
    struct candidate all[CANDIDATES_MAX];
    struct ifaddrs *interfaces;
    char route[IF_NAMESIZE];
    int n = 0;

    if (getifaddrs(&interfaces))
        return;
    find_default_route(route);
    for (const struct ifaddrs *i = interfaces; i && n < CANDIDATES_MAX; i = i->ifa_next)
        if (is_reachable(i)) {
            all[n] = candidate_of(i, n, route);
            n++;
        }
    freeifaddrs(interfaces);
    qsort(all, (size_t)n, sizeof(*all), compare_candidates);
    for (int i = 0; i < n && at->n < BB_STAR_ADDRESSES; i++)
        at->at[at->n++] = all[i].at;
}
