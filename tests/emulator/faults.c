/*
 * faults.c - fault injection. $EMU_FAULT is a list, separated by ';':
 *
 *   KIND:rank=R,call=K[,name=FUNCTION]      kinds: die, stall, fail, corrupt
 *
 * The fault applies to the K-th call (the first is 1) of FUNCTION, or of any function that can fail, on world rank R.
 * Without rank: every rank. Without call: the first call, for corrupt every call. corrupt counts NCCL operations, the other kinds count calls;
 * with name, only those of that function.
 */
#include "internal.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum fault_kind { DIE, STALL, FAIL, CORRUPT };
static const char *const kind_names[] = {[DIE] = "die", [STALL] = "stall", [FAIL] = "fail", [CORRUPT] = "corrupt"};

enum { EVERY = 0, FAULTS = 16 };

struct fault {
    enum fault_kind kind;
    long call, seen; /* call: EVERY: all calls */
    char name[64];   /* "": any function */
};

static struct {
    pthread_mutex_t lock;
    struct fault list[FAULTS];
    int n;
} faults = {.lock = PTHREAD_MUTEX_INITIALIZER};

static long number_of(const char *text, const char *whole)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (end == text || *end || n < 0)
        emu_die("EMU_FAULT: '%s' in '%s' is not a number", text, whole);
    return n;
}

/* Ends the program if the name is no function of the CUDA runtime, NCCL or cuBLASLt. A library that is not loaded yet accepts
 * every name with its prefix. */
static void check_name(const char *name)
{
    static const char *const prefixes[] = {"cuda", "nccl", "cublasLt"};
    Dl_info self;
    void *libraries[] = {dladdr((void *)(uintptr_t)emu_fault, &self) ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD)
                                                                     : NULL,
                         dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD), NULL};
    bool known = false;

    for (int i = 0; i < 3; i++) {
        known |= strncmp(name, prefixes[i], strlen(prefixes[i])) == 0 && (!libraries[i] || dlsym(libraries[i], name));
        if (libraries[i])
            dlclose(libraries[i]);
    }
    if (!known)
        emu_die("EMU_FAULT: unknown function '%s', expected a function of CUDA, NCCL or cuBLASLt, for example "
                "ncclAllReduce",
                name);
}

/* Returns whether a fault for this rank is for the current one. Ends the program if the job has no such rank. */
static bool is_own(long rank)
{
    const int ranks = emu_world_size();

    if (ranks > 1 && rank >= ranks)
        emu_die("EMU_FAULT: rank %ld does not exist, ranks are 0 to %d", rank, ranks - 1);
    return rank == emu_world_rank();
}

/* Returns false when the fault is for another rank. */
static bool read_setting(struct fault *fault, char *setting, const char *whole)
{
    char *value = strchr(setting, '=');

    if (!value)
        emu_die("EMU_FAULT: '%s' in '%s': expected rank=R, call=K or name=FUNCTION", setting, whole);
    *value++ = '\0';
    if (strcmp(setting, "rank") == 0)
        return is_own(number_of(value, whole));
    if (strcmp(setting, "call") == 0)
        fault->call = number_of(value, whole);
    else if (strcmp(setting, "name") == 0 && strlen(value) < sizeof(fault->name))
        check_name(strcpy(fault->name, value));
    else
        emu_die("EMU_FAULT: '%s' in '%s': expected rank, call or name", setting, whole);
    if (strcmp(setting, "call") == 0 && fault->call < 1)
        emu_die("EMU_FAULT: '%s': the first call is 1", whole);
    return true;
}

static void read_fault(const char *text, bool moves_data)
{
    struct fault fault = {0};
    char copy[256], *rest = copy, *part;
    bool ours = true;
    int kind = 0;

    if (strlen(text) >= sizeof(copy))
        emu_die("EMU_FAULT: '%s' is too long", text);
    strcpy(copy, text);
    part = strsep(&rest, ":");
    while (kind <= CORRUPT && strcmp(part, kind_names[kind]) != 0)
        kind++;
    if (kind > CORRUPT)
        emu_die("EMU_FAULT: '%s': expected die, stall, fail or corrupt", part);
    fault.kind = (enum fault_kind)kind;
    fault.call = kind == CORRUPT ? EVERY : 1;
    if (kind == CORRUPT && !moves_data)
        emu_die("EMU_FAULT: '%s' has no effect with EMU_DATA=off, which moves no data; try: EMU_DATA=on", text);
    while ((part = strsep(&rest, ",")))
        ours &= read_setting(&fault, part, text);
    if (!ours)
        return;
    if (faults.n == FAULTS)
        emu_die("EMU_FAULT: more than %d faults for a rank", FAULTS);
    faults.list[faults.n++] = fault;
}

void emu_faults_load(bool moves_data)
{
    const char *value = getenv("EMU_FAULT");
    char *copy, *rest, *part;

    if (!value || !*value)
        return;
    rest = copy = strdup(value);
    while ((part = strsep(&rest, ";")))
        if (*part)
            read_fault(part, moves_data);
    free(copy);
}

static _Noreturn void stall(void)
{
    for (;;)
        pause();
}

/* Counts the call for every fault of these kinds. Returns the kind that is due, or -1. */
static int due(const char *function, bool corrupts)
{
    int kind = -1;

    pthread_mutex_lock(&faults.lock);
    for (int i = 0; i < faults.n; i++) {
        struct fault *f = &faults.list[i];

        if ((f->kind == CORRUPT) != corrupts ||
            (f->name[0] ? strcmp(f->name, function) != 0 : corrupts && strncmp(function, "nccl", 4) != 0))
            continue;
        if (++f->seen == f->call || f->call == EVERY)
            kind = (int)f->kind;
    }
    pthread_mutex_unlock(&faults.lock);
    return kind;
}

bool emu_fault(const char *function)
{
    emu_init();
    if (faults.n == 0)
        return false;
    switch (due(function, false)) {
    case DIE:
        kill(getpid(), SIGKILL);
        stall();
    case STALL:
        stall();
    case FAIL:
        return true;
    }
    return false;
}

bool emu_fault_corrupts(const char *function)
{
    emu_init();
    return faults.n > 0 && due(function, true) == CORRUPT;
}
