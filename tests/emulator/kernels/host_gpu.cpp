/*
 * host_gpu.cpp - runs the threads of a launch. See host_gpu.h. A fiber runs threads one after another until a thread
 * waits. The fiber then belongs to that thread, and another fiber runs the threads that have not begun.
 */
#include "host_gpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

__thread struct host_gpu_index threadIdx, blockIdx, blockDim, gridDim;

namespace
{
enum {
    MOST_THREADS = 1024,
    WARP = 32,
    STACK_BYTES = (32 << 10) + 5 * 64,
    GUARD_BYTES = HOST_GPU_GUARD_BYTES,
    GUARD = 0xa7
};

enum state { NOT_BEGUN, RUNNING, AT_SHUFFLE, AT_POLL, AT_BARRIER, ENDED };

#ifdef __x86_64__
struct context {
    void *stack; /* top of the saved stack: six registers and the return address */
};
#else
struct context {
    ucontext_t saved;
};
#endif

struct fiber {
    struct context context;
    unsigned thread; /* the thread that it runs, or ran last */
};

/* State of a host thread, created at its first launch. */
struct gpu {
    const struct host_gpu_launch *launch;
    unsigned threads, n_fibers, n_free, running;
    unsigned next, limit;   /* threads below `limit` (in run order) may begin; `next` is the first that has not begun */
    bool reversed, waited;  /* last warp first; a thread of this block has waited */
    bool looked;            /* a thread has read the clock */
    int64_t met_ns, end_ns; /* time of the latest barrier; latest clock value of all blocks */
    int64_t seen_ns[MOST_THREADS];   /* latest clock value of each thread */
    int64_t beyond_ns[MOST_THREADS]; /* next step of the clock past the end */
    unsigned char state[MOST_THREADS];
    unsigned n_shuffles[MOST_THREADS];
    float exchange[2][MOST_THREADS];
    struct fiber *fiber_of[MOST_THREADS], *free[MOST_THREADS + 1], fibers[MOST_THREADS + 1];
    unsigned char *stacks;
    struct context scheduler;
};
__thread struct gpu *own;

struct owner { /* frees the state at the end of its thread */
    struct gpu *gpu;
    ~owner()
    {
        if (gpu && gpu->stacks)
            munmap(gpu->stacks, (size_t)STACK_BYTES * (MOST_THREADS + 1));
        free(gpu);
    }
};
thread_local struct owner owner;

[[noreturn]] void fail(const struct gpu *g, const char *what, unsigned thread)
{
    fprintf(stderr, "emulated GPUs: kernel %s, block (%u, %u, %u), thread %u: %s\n", g->launch->name, blockIdx.x,
            blockIdx.y, blockIdx.z, thread, what);
    abort();
}

/* ---- fibers ---- */

#ifdef __x86_64__
/* Saves the callee-saved registers on this stack and restores them from the other: takes a tenth of swapcontext's
 * time. */
extern "C" void host_gpu_switch(void **from, void *to) HOST_GPU_OWN;
asm(".text\n"
    ".hidden host_gpu_switch\n"
    ".globl host_gpu_switch\n"
    ".type host_gpu_switch, @function\n"
    "host_gpu_switch:\n"
    "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
    "    mov %rsp, (%rdi)\n"
    "    mov %rsi, %rsp\n"
    "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
    "    ret\n"
    ".size host_gpu_switch, . - host_gpu_switch\n");

void change(struct context *from, struct context *to)
{
    host_gpu_switch(&from->stack, to->stack);
}

/* Prepares a stack so that the first switch enters main, which never returns. */
void context_init(struct context *c, unsigned char *stack, void (*main)())
{
    void **top = reinterpret_cast<void **>((reinterpret_cast<uintptr_t>(stack) + STACK_BYTES) & ~(uintptr_t)15);

    memset(top - 8, 0, 8 * sizeof *top);
    top[-2] = reinterpret_cast<void *>(main);
    c->stack = top - 8;
}
#else
void change(struct context *from, struct context *to)
{
    swapcontext(&from->saved, &to->saved);
}

void context_init(struct context *c, unsigned char *stack, void (*main)())
{
    getcontext(&c->saved);
    c->saved.uc_stack.ss_sp = stack;
    c->saved.uc_stack.ss_size = STACK_BYTES;
    c->saved.uc_link = NULL;
    makecontext(&c->saved, main, 0);
}
#endif

void enter(struct gpu *g, struct fiber *f)
{
    change(&g->scheduler, &f->context);
}

void leave(struct gpu *g, struct fiber *f)
{
    change(&f->context, &g->scheduler);
}

/* Maps a position in the run order to a thread, and back. In reversed order whole warps swap positions. */
unsigned thread_at(const struct gpu *g, unsigned place)
{
    return g->reversed ? (g->threads / WARP - 1 - place / WARP) * WARP + place % WARP : place;
}

void become(struct gpu *g, unsigned thread)
{
    g->running = thread;
    threadIdx.x = thread % blockDim.x;
    threadIdx.y = thread / blockDim.x % blockDim.y;
    threadIdx.z = thread / blockDim.x / blockDim.y;
}

void run_threads(struct gpu *g, struct fiber *f)
{
    while (g->next < g->limit) {
        f->thread = thread_at(g, g->next++);
        become(g, f->thread);
        g->fiber_of[f->thread] = f;
        g->state[f->thread] = RUNNING;
        g->launch->body(g->launch->args);
        g->state[f->thread] = ENDED;
    }
}

void fiber_main()
{
    struct gpu *g = own;
    struct fiber *f = g->free[g->n_free]; /* the fiber that was just taken */

    for (;;) {
        run_threads(g, f);
        g->free[g->n_free++] = f;
        leave(g, f);
    }
}

struct fiber *fiber_new(struct gpu *g)
{
    struct fiber *f = &g->fibers[g->n_fibers];

    if (!g->stacks) {
        void *stacks = mmap(NULL, (size_t)STACK_BYTES * (MOST_THREADS + 1), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == MAP_FAILED) {
            fprintf(stderr, "emulated GPUs: kernel %s: no memory for the stacks of its threads\n", g->launch->name);
            _exit(1);
        }
        g->stacks = static_cast<unsigned char *>(stacks);
    }
    context_init(&f->context, g->stacks + (size_t)STACK_BYTES * g->n_fibers++, fiber_main);
    return f;
}

/* Begins threads up to the limit; takes another fiber whenever a thread waits. */
void begin_threads(struct gpu *g)
{
    while (g->next < g->limit) {
        if (g->n_free == 0)
            g->free[g->n_free++] = fiber_new(g);
        enter(g, g->free[--g->n_free]);
    }
}

void wait_as(enum state state)
{
    struct gpu *g = own;
    struct fiber *f = g->fiber_of[g->running];

    g->state[f->thread] = (unsigned char)state;
    if (!g->waited) { /* from now on warp by warp */
        g->waited = true;
        g->limit = (g->next + WARP - 1) / WARP * WARP;
        g->limit = g->limit < g->threads ? g->limit : g->threads;
    }
    const struct host_gpu_index index = threadIdx;
    leave(g, f);
    threadIdx = index;
    g->running = f->thread;
}

/* ---- a block ---- */

void resume(struct gpu *g, unsigned first, unsigned past, enum state waiting)
{
    for (unsigned t = first; t < past; t++)
        if (g->state[t] == waiting)
            enter(g, g->fiber_of[t]);
}

unsigned count(const struct gpu *g, unsigned first, unsigned past, enum state state)
{
    unsigned n = 0;

    for (unsigned t = first; t < past; t++)
        n += g->state[t] == state;
    return n;
}

/* Runs a warp until each of its lanes has ended or waits at the block's barrier. */
void finish_shuffles(struct gpu *g, unsigned first, unsigned past)
{
    while (count(g, first, past, AT_SHUFFLE) > 0) {
        if (count(g, first, past, AT_SHUFFLE) < WARP)
            fail(g, "its warp waits in a shuffle for a thread that never comes", first);
        resume(g, first, past, AT_SHUFFLE);
    }
}

int64_t wall_ns()
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Lets the CPU run other processes. After 10 s without progress prints where the kernel waits. Returns whether to stop. */
bool rest(const struct gpu *g, unsigned polls, int64_t begin_ns, bool *reported)
{
    const struct timespec pause = {0, 50000};

    if (polls < 64) {
        sched_yield();
        return false;
    }
    nanosleep(&pause, NULL);
    if (!*reported && wall_ns() - begin_ns > 10000000000LL) {
        fprintf(stderr, "emulated GPUs: kernel %s, block (%u, %u, %u): waits for another rank or block since 10 s\n",
                g->launch->name, blockIdx.x, blockIdx.y, blockIdx.z);
        *reported = true;
    }
    return g->launch->is_stopping && g->launch->is_stopping();
}

/* Resumes the threads that poll until none does. Returns false if the launch must stop. */
bool finish_polls(struct gpu *g)
{
    bool reported = false;
    int64_t begin_ns = 0;

    for (unsigned polls = 0; count(g, 0, g->threads, AT_POLL) > 0; polls++) {
        begin_ns = polls == 0 ? wall_ns() : begin_ns;
        if (polls > 0 && rest(g, polls, begin_ns, &reported))
            return false;
        for (unsigned first = 0; first < g->threads; first += WARP) {
            const unsigned past = first + WARP < g->threads ? first + WARP : g->threads;

            resume(g, first, past, AT_POLL);
            finish_shuffles(g, first, past);
        }
    }
    return true;
}

/* Runs a warp from its begin, or from the barrier that all threads have reached. */
void run_warp(struct gpu *g, unsigned place, bool begin)
{
    const unsigned first = thread_at(g, place), past = first + WARP < g->threads ? first + WARP : g->threads;

    if (!begin) {
        resume(g, first, past, AT_BARRIER);
    } else if (g->next <= place) {
        g->limit = place + (past - first);
        begin_threads(g);
    }
    finish_shuffles(g, first, past);
}

int64_t latest_look(const struct gpu *g)
{
    int64_t latest_ns = g->met_ns;

    for (unsigned t = 0; g->looked && t < g->threads; t++)
        latest_ns = latest_ns > g->seen_ns[t] ? latest_ns : g->seen_ns[t];
    return latest_ns;
}

/* Returns false if the launch must stop: then the block's threads are abandoned. */
bool run_block(struct gpu *g)
{
    unsigned waiting;
    bool begin = true;

    memset(g->state, NOT_BEGUN, g->threads);
    g->next = 0;
    g->limit = g->threads;
    g->waited = false;
    begin_threads(g);
    if (!g->waited)
        return true;
    do {
        for (unsigned place = 0; place < g->threads; place += WARP)
            run_warp(g, place, begin);
        begin = false;
        if (!finish_polls(g))
            return false;
        g->met_ns = latest_look(g);
        waiting = count(g, 0, g->threads, AT_BARRIER);
        if (waiting > 0 && waiting < g->threads)
            fail(g, "some threads have ended while this one or others wait at a barrier", 0);
    } while (waiting > 0);
    return true;
}

/* ---- a launch ---- */

void reset_clock(struct gpu *g, bool first_block)
{
    g->met_ns = g->launch->start_ns;
    if (!first_block && !g->looked)
        return;
    for (unsigned t = 0; t < g->threads; t++) {
        g->seen_ns[t] = INT64_MIN;
        g->beyond_ns[t] = 0;
    }
}

/* The next clock value. Past the end the clock advances faster and faster, so that a kernel that waits too long ends
 * late instead of hanging. */
int64_t moment_after(struct gpu *g, int64_t ns)
{
    const struct host_gpu_launch *l = g->launch;
    const int64_t end_ns = l->start_ns + l->lasts_ns, tick_ns = l->tick_ns > 0 ? l->tick_ns : 1;

    if (ns < end_ns)
        return ns + tick_ns < end_ns ? ns + tick_ns : end_ns;
    int64_t *step_ns = &g->beyond_ns[g->running];
    ns += *step_ns;
    *step_ns = *step_ns ? 2 * *step_ns : 1;
    return ns;
}

struct gpu *gpu_of_thread()
{
    if (!own)
        own = owner.gpu = static_cast<struct gpu *>(calloc(1, sizeof(struct gpu)));
    if (!own)
        abort();
    return own;
}

/* Shared memory starts with arbitrary content. Guard bytes after the requested size detect writes past the end. */
unsigned char *shared_end(const struct host_gpu_launch *l)
{
    const size_t capacity = l->shared_capacity - GUARD_BYTES;

    return l->shared + (l->shared_bytes < capacity ? l->shared_bytes : capacity);
}

void open_shared(const struct host_gpu_launch *l)
{
    if (!l->shared)
        return;
    memset(l->shared, 0xff, (size_t)(shared_end(l) - l->shared));
    memset(shared_end(l), GUARD, GUARD_BYTES);
}

void check_shared(const struct gpu *g)
{
    const struct host_gpu_launch *l = g->launch;

    for (size_t i = 0; l->shared && i < GUARD_BYTES; i++)
        if (shared_end(l)[i] != GUARD)
            fail(g, "it wrote past the end of its launch's shared memory", 0);
}
} /* namespace */

int64_t host_gpu_run(const struct host_gpu_launch *l)
{
    struct gpu *g = gpu_of_thread();
    uint64_t number = 0;

    g->launch = l;
    g->threads = l->block.x * l->block.y * l->block.z;
    g->looked = false;
    g->end_ns = l->start_ns;
    blockDim = {l->block.x, l->block.y, l->block.z};
    gridDim = {l->grid.x, l->grid.y, l->grid.z};
    open_shared(l);
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                if (l->alone && blockIdx.x != l->number)
                    continue;
                g->reversed = number % 2 == 1 && g->threads % WARP == 0;
                reset_clock(g, number++ == 0);
                if (!run_block(g)) {
                    g->n_fibers = g->n_free = 0;
                    return l->start_ns + l->lasts_ns;
                }
            }
    check_shared(g);
    return g->looked ? g->end_ns : l->start_ns + l->lasts_ns;
}

/* ---- functions that kernels call ---- */

uint64_t bb_gpu_clock_ns()
{
    struct gpu *g = own;

    g->looked = true;
    if (g->launch->is_stopping)
        return g->launch->is_stopping() ? UINT64_MAX / 2 : (uint64_t)wall_ns();
    int64_t *seen_ns = &g->seen_ns[g->running];
    *seen_ns = *seen_ns < g->met_ns ? g->met_ns : moment_after(g, *seen_ns);
    g->end_ns = g->end_ns > *seen_ns ? g->end_ns : *seen_ns;
    return (uint64_t)*seen_ns;
}

void __nanosleep(unsigned ns)
{
    const struct timespec least = {0, ns < 5000 ? 5000 : (long)ns};

    if (own->launch->is_stopping)
        nanosleep(&least, NULL);
}

void __syncthreads()
{
    wait_as(AT_BARRIER);
}

void host_gpu_poll()
{
    wait_as(AT_POLL);
}

/* Two alternating exchange buffers: a released thread may reach the next shuffle before the others have read. */
float __shfl_xor_sync(unsigned, float x, int lanes)
{
    struct gpu *g = own;
    const unsigned t = g->running, turn = g->n_shuffles[t]++ % 2;

    g->exchange[turn][t] = x;
    wait_as(AT_SHUFFLE);
    return g->exchange[turn][t ^ (unsigned)lanes];
}
