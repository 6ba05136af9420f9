/*
 * star_addresses.c - lists the addresses at which other hosts can reach this host. First come the interfaces
 * selected by NCCL_SOCKET_IFNAME, then InfiniBand, then the others, then Docker's bridges, whose addresses other hosts
 * cannot reach. NCCL's own connections use the same order (ncclFindInterfaces in NCCL's misc/socket.cc).
 */
#include "bootstrap/supervise/star.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Preferences of bb_star_preference, best first; addresses of EXCLUDED interfaces are used last. */
enum { WANTED, INFINIBAND, OTHER, BRIDGE, EXCLUDED, PREFERENCES };

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

int bb_star_preference(const char *name, const char *socket_ifname)
{
    const char *list = socket_ifname ? socket_ifname : "";
    const bool excludes = *list == '^';
    bool exact, listed;

    list += excludes;
    exact = *list == '=';
    listed = is_listed(list + exact, name, exact);
    if (listed)
        return excludes ? EXCLUDED : WANTED;
    if (is_listed("ib", name, false))
        return INFINIBAND;
    return is_listed("docker", name, false) ? BRIDGE : OTHER;
}

/* Returns whether other hosts may be able to reach the address: the interface is up and not loopback, and the
 * address is not link-local. */
static bool is_reachable(const struct ifaddrs *i, int family)
{
    if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
        return false;
    return family == AF_INET || !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

static void add_addresses(struct bb_star_endpoint *at, const struct ifaddrs *interfaces, int preference, int family)
{
    const size_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    const char *ifname = getenv("NCCL_SOCKET_IFNAME");

    for (const struct ifaddrs *i = interfaces; i && at->n < BB_STAR_ADDRESSES; i = i->ifa_next)
        if (is_reachable(i, family) && bb_star_preference(i->ifa_name, ifname) == preference)
            memcpy(&at->at[at->n++], i->ifa_addr, bytes);
}

void bb_star_list_addresses(struct bb_star_endpoint *at)
{
    struct ifaddrs *interfaces;

    if (getifaddrs(&interfaces))
        return;
    for (int preference = 0; preference < PREFERENCES; preference++) {
        add_addresses(at, interfaces, preference, AF_INET);
        add_addresses(at, interfaces, preference, AF_INET6);
    }
    freeifaddrs(interfaces);
}
