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

enum { WANTED, INFINIBAND, OTHER, BRIDGE, EXCLUDED, CANDIDATES_MAX = 64 };

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

static struct candidate candidate_of(const struct ifaddrs *i, int n)
{
    const bool is_v4 = i->ifa_addr->sa_family == AF_INET;
    struct candidate c = {.preference = bb_star_preference(i->ifa_name, getenv("NCCL_SOCKET_IFNAME")),
                          .order = is_v4 ? n : CANDIDATES_MAX + n};

    memcpy(&c.at, i->ifa_addr, is_v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    return c;
}

void bb_star_list_addresses(struct bb_star_endpoint *at)
{
    struct candidate all[CANDIDATES_MAX];
    struct ifaddrs *interfaces;
    int n = 0;

    if (getifaddrs(&interfaces))
        return;
    for (const struct ifaddrs *i = interfaces; i && n < CANDIDATES_MAX; i = i->ifa_next)
        if (is_reachable(i)) {
            all[n] = candidate_of(i, n);
            n++;
        }
    freeifaddrs(interfaces);
    qsort(all, (size_t)n, sizeof(*all), compare_candidates);
    for (int i = 0; i < n && at->n < BB_STAR_ADDRESSES; i++)
        at->at[at->n++] = all[i].at;
}
