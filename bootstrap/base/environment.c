/* environment.c - see environment.h. */
#include "bootstrap/base/environment.h"

#include "bootstrap/base/err.h"
#include "bootstrap/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct variable {
    const char *name;
    bool masked;   /* result files contain "set" in place of the value. An example is NCCL_COMM_ID: users who know this
                    address could join the communicator. */
    bool internal; /* not recorded */
    const char *text; /* effect of a variable that busbar reads; else NULL */
} known[] = {
#define RECORDED(variable)          {.name = #variable},
#define READ(variable, description) {.name = #variable, .text = (description)},
#define INTERNAL(variable)          {.name = #variable, .internal = true},
#define MASKED(variable)            {.name = #variable, .masked = true},
#include "bootstrap/base/environment.def"
};

enum { N_KNOWN = sizeof(known) / sizeof(known[0]) };

/* A variable that is not in `known` but has one of these prefixes is recorded as "set", without its value. */
static const char *const families[] = {"NCCL_", "CUDA_", "BUSBAR_", "EMU_"};

static const struct variable *find_known(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

bool bb_environment_is_recorded(const char *name)
{
    const struct variable *variable = find_known(name);

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (!variable && bb_begins_with(name, families[i]))
            return true;
    return variable && !variable->internal;
}

const char *bb_environment_value(const char *name, const char *value)
{
    const struct variable *variable = find_known(name);

    return variable && !variable->masked ? value : "set";
}

bool bb_environment_is_emulated(void)
{
    return getenv("EMU_TWINS") != NULL; /* set by busbar-emulated */
}

bool bb_environment_has_nodes(void)
{
    const char *nodes = getenv("EMU_NODES");

    return bb_environment_is_emulated() && nodes && *nodes && strcmp(nodes, "0") != 0;
}

const char *bb_environment_program(void)
{
    return bb_environment_is_emulated() ? "busbar-emulated" : "busbar";
}

const char *bb_environment_read_at(size_t i, const char **text)
{
    for (size_t v = 0; v < N_KNOWN; v++)
        if (known[v].text && i-- == 0) {
            *text = known[v].text;
            return known[v].name;
        }
    return NULL;
}

static const struct bb_restriction restrictions[] = {
    {.name = "NCCL_ALGO", .choice = true, .modelled = true},
    {.name = "NCCL_PROTO", .choice = true, .modelled = true},
    {.name = "NCCL_BUFFSIZE"},
    {.name = "NCCL_COLLNET_ENABLE", .only = "0"},
    {.name = "NCCL_DMABUF_ENABLE", .only = "0"},
    {.name = "NCCL_IB_DISABLE", .except = "0"},
    {.name = "NCCL_IB_HCA"},
    {.name = "NCCL_MAX_CTAS", .modelled = true},
    {.name = "NCCL_MAX_NCHANNELS", .modelled = true},
    {.name = "NCCL_MAX_NRINGS"},
    {.name = "NCCL_MAX_P2P_NCHANNELS"},
    {.name = "NCCL_MNNVL_ENABLE", .only = "0"},
    {.name = "NCCL_NCHANNELS_PER_NET_PEER"},
    {.name = "NCCL_NET"},
    {.name = "NCCL_NET_DISABLE_INTRA", .except = "0"},
    {.name = "NCCL_NET_GDR_LEVEL"},
    {.name = "NCCL_NTHREADS"},
    {.name = "NCCL_NVB_DISABLE", .except = "0"},
    {.name = "NCCL_NVLS_ENABLE", .only = "0", .choice = true, .modelled = true},
    {.name = "NCCL_P2P_DIRECT_DISABLE", .except = "0"},
    {.name = "NCCL_P2P_DISABLE", .except = "0"},
    {.name = "NCCL_P2P_LEVEL"},
    {.name = "NCCL_PXN_DISABLE", .except = "0"},
    {.name = "NCCL_SHM_DISABLE", .except = "0"},
};

bool bb_environment_restricts(const struct bb_restriction *r, const char *value)
{
    return value && *value && (!r->only || strcmp(value, r->only) == 0) &&
           (!r->except || strcmp(value, r->except) != 0);
}

const struct bb_restriction *bb_environment_restriction_at(size_t i)
{
    return i < sizeof restrictions / sizeof *restrictions ? &restrictions[i] : NULL;
}

const char *bb_environment_suggest(const char *name)
{
    static const char *const checked[] = {"NCCL_", "EMU_", "BUSBAR_"};
    const char *candidates[N_KNOWN], *family = NULL;
    size_t n = 0;

    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++)
        family = bb_begins_with(name, checked[i]) ? checked[i] : family;
    if (!family || find_known(name))
        return NULL;
    for (size_t i = 0; i < N_KNOWN; i++)
        if (bb_begins_with(known[i].name, family))
            candidates[n++] = known[i].name;
    return bb_nearest_word(name, candidates, n);
}

void bb_environment_warn(void)
{
    char name[64];

    for (char **variable = environ; variable && *variable; variable++) {
        const char *meant;

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*variable, "="), *variable);
        meant = bb_environment_suggest(name);
        if (meant)
            bb_warn("the environment variable %s is unknown and may have no effect, did you mean '%s'?", name, meant);
    }
}
