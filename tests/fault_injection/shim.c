/*
 * shim.c - does a deed at a marked call. Preloaded under the unmodified program by inject.py.
 *
 *    FAULT=DEED:FUNCTION:CALL:RANK   at the CALL-th call of FUNCTION, on that rank of the launcher, or on `all`
 *
 * With FAULT_FROM_PROGRAM only calls from the program's own two files count, whatever the libraries do among themselves.
 *
 * kill stop segv crash exit leave leave-now quit xcpu: what becomes of the process (crash is a SIGSEGV of its own;
 * exit is the kernel's, with status 0; leave and leave-now are the C library's exit(0) and _exit(0)). stall: the
 * call never returns. fail: it fails, as its row says. nan past: cudaEventElapsedTime tells a time that is none, or
 * one below 0. term int hup usr1 usr2, orphan (SIGKILL): the signal is sent to the launcher, and the call takes 2 s.
 * When the deed is done its time goes to $FAULT_LOG. x86-64 only: arguments are passed on unread, six in registers
 * and 144 bytes of the stack.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_ours(const char *rank)
{
    const char *mine = getenv("OMPI_COMM_WORLD_RANK");

    mine = mine ? mine : getenv("PMI_RANK");
    return strcmp(rank, "all") == 0 || strcmp(rank, mine ? mine : "0") == 0;
}

static void log_time(void)
{
    const char *path = getenv("FAULT_LOG");
    struct timespec now;
    char text[64];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (fd < 0)
        return;
    if (write(fd, text, (size_t)snprintf(text, sizeof(text), "%ld.%03ld\n", (long)now.tv_sec, now.tv_nsec / 1000000)) <
        0)
        _exit(99);
    close(fd);
}

static void signal_launcher(int signal)
{
    const struct timespec while_it_comes = {.tv_sec = 2};

    const struct timespec all_have_started = {.tv_nsec = 300000000};
    const char *launcher = getenv("FAULT_LAUNCHER_PID");

    nanosleep(&all_have_started, NULL); /* a rank that is not there yet is ended without a word */
    kill(launcher ? atoi(launcher) : getppid(), signal);
    nanosleep(&while_it_comes, NULL);
}

/* To the process, as others send it: whichever thread takes it. It may be a moment until all is told. */
static void signal_self(int signal)
{
    const struct timespec while_it_ends = {.tv_sec = 2};

    kill(getpid(), signal);
    nanosleep(&while_it_ends, NULL);
}

/* A time that is none, which a call is to tell; NULL: another deed. */
static const float *find_time(const char *deed)
{
    static const struct {
        const char *name;
        float ms;
    } times[] = {{"nan", __builtin_nanf("")}, {"past", -1}};

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (strncmp(deed, times[i].name, strlen(times[i].name)) == 0)
            return &times[i].ms;
    return NULL;
}

/* 1: the call is to fail, or to tell such a time. */
static int do_deed(const char *deed)
{
    static const struct {
        const char *name;
        int to_self, to_launcher;
    } deeds[] = {{"kill", SIGKILL, 0}, {"stop", SIGSTOP, 0},  {"quit", SIGQUIT, 0}, {"xcpu", SIGXCPU, 0},
                 {"term", 0, SIGTERM}, {"int", 0, SIGINT},    {"hup", 0, SIGHUP},   {"usr1", 0, SIGUSR1},
                 {"usr2", 0, SIGUSR2}, {"orphan", 0, SIGKILL}};

    log_time();
    for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++)
        if (strcmp(deed, deeds[i].name) == 0 && deeds[i].to_self)
            signal_self(deeds[i].to_self);
        else if (strcmp(deed, deeds[i].name) == 0)
            signal_launcher(deeds[i].to_launcher);
    if (strcmp(deed, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(deed, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(deed, "exit") == 0)
        syscall(SYS_exit_group, 0);
    if (strcmp(deed, "leave") == 0)
        exit(0);
    if (strcmp(deed, "leave-now") == 0)
        _exit(0);
    while (strcmp(deed, "stall") == 0)
        pause();
    return strcmp(deed, "fail") == 0 || find_time(deed);
}

static int is_due(const char *function, atomic_int *calls)
{
    const char *drill = getenv("FAULT");
    char deed[16], marked[64], rank[16];
    int call;

    if (!drill || sscanf(drill, "%15[^:]:%63[^:]:%d:%15s", deed, marked, &call, rank) != 4)
        return 0;
    if (strcmp(marked, function) != 0 || !is_ours(rank) || ++*calls != call)
        return 0;
    return do_deed(deed);
}

/* What a library leaves to its end, marked as `destructor`; the shell that starts the program has it, too. */
__attribute__((destructor)) static void end_library(void)
{
    static atomic_int calls;

    if (strcmp(program_invocation_short_name, "busbar") == 0)
        (void)is_due("destructor", &calls);
}

/* Whether the call came from busbar or its GPU library. */
static int is_from_program(void *caller)
{
    Dl_info at;
    const char *name;

    if (!getenv("FAULT_FROM_PROGRAM"))
        return 1;
    if (!dladdr(caller, &at) || !at.dli_fname)
        return 0;
    name = strrchr(at.dli_fname, '/') ? strrchr(at.dli_fname, '/') + 1 : at.dli_fname;
    return strcmp(name, "busbar") == 0 || strcmp(name, "libbusbar-gpu.so") == 0;
}

/* What the call returns: its failure, or success with a time in its first argument. */
static long result_of_deed(long failure, float *first)
{
    const float *ms = find_time(getenv("FAULT"));

    errno = EIO;
    if (!ms)
        return failure;
    *first = *ms;
    return 0;
}

/* What has nothing to write cannot fail at it. */
static int can_fail(const char *function, void *first)
{
    return strcmp(function, "fflush") != 0 || !first || __fpending(first) > 0;
}

#define REGISTERS long a, long b, long c, long d, long e, long f
#define STACK                                                                                                          \
    long s0, long s1, long s2, long s3, long s4, long s5, long s6, long s7, long s8, long s9, long s10, long s11,      \
        long s12, long s13, long s14, long s15, long s16, long s17
#define ALL a, b, c, d, e, f, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17

/* Named by the linker's label alone, since its prototype is not that of a mark. */
#define MARK(name, failure)                                                                                            \
    __attribute__((visibility("default"))) long marked_##name(REGISTERS, STACK) __asm__(#name);                        \
    long marked_##name(REGISTERS, STACK)                                                                               \
    {                                                                                                                  \
        static atomic_int calls;                                                                                       \
        static long (*real)(REGISTERS, STACK);                                                                         \
        if (!real)                                                                                                     \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                 \
        if (is_from_program(__builtin_return_address(0)) && can_fail(#name, (void *)a) && is_due(#name, &calls))       \
            return result_of_deed(failure, (void *)a);                                                                 \
        return real(ALL);                                                                                              \
    }

/* MPI */
MARK(MPI_Init_thread, 16)
MARK(MPI_Iallgather, 16)
MARK(MPI_Ibcast, 16)
MARK(MPI_Finalize, 16)
MARK(MPI_Comm_rank, 16)
MARK(MPI_Comm_set_errhandler, 16)
MARK(MPI_Comm_size, 16)
MARK(MPI_Ibarrier, 16)
MARK(MPI_Initialized, 16)
MARK(MPI_Test, 16)
/* CUDA: no memory */
MARK(cudaGetDeviceCount, 2)
MARK(cudaSetDevice, 2)
MARK(cudaMalloc, 2)
MARK(cudaMemcpy, 2)
MARK(cudaMemcpyAsync, 2)
MARK(cudaMemGetInfo, 2)
MARK(cudaEventCreateWithFlags, 2)
MARK(cudaStreamCreateWithFlags, 2)
MARK(cudaHostAlloc, 2)
MARK(cudaDeviceGetAttribute, 2)
MARK(cudaDeviceGetStreamPriorityRange, 2)
MARK(cudaDriverGetVersion, 2)
MARK(cudaEventCreate, 2)
MARK(cudaEventDestroy, 2)
MARK(cudaEventElapsedTime, 2)
MARK(cudaEventQuery, 2)
MARK(cudaEventRecord, 2)
MARK(cudaEventSynchronize, 2)
MARK(cudaFree, 2)
MARK(cudaFreeHost, 2)
MARK(cudaFuncGetAttributes, 2)
MARK(cudaFuncSetAttribute, 2)
MARK(cudaGetDevice, 2)
MARK(cudaGetDeviceProperties, 2)
MARK(cudaGraphDestroy, 2)
MARK(cudaGraphExecDestroy, 2)
MARK(cudaGraphInstantiate, 2)
MARK(cudaGraphLaunch, 2)
MARK(cudaMallocHost, 2)
MARK(cudaMemsetAsync, 2)
MARK(cudaRuntimeGetVersion, 2)
MARK(cudaStreamBeginCapture, 2)
MARK(cudaStreamCreateWithPriority, 2)
MARK(cudaStreamDestroy, 2)
MARK(cudaStreamEndCapture, 2)
MARK(cudaStreamQuery, 2)
MARK(cudaStreamSynchronize, 2)
MARK(cudaStreamWaitEvent, 2)
MARK(cudaGetLastError, 2)
MARK(cudaLaunchKernel, 2)
/* NCCL: a system call failed */
MARK(ncclCommCount, 2)
MARK(ncclCommGetAsyncError, 2)
MARK(ncclCommUserRank, 2)
MARK(ncclGroupStart, 2)
MARK(ncclGroupEnd, 2)
MARK(ncclRecv, 2)
MARK(ncclReduceScatter, 2)
MARK(ncclAllGather, 2)
MARK(ncclGetVersion, 2)
MARK(ncclGetUniqueId, 2)
MARK(ncclCommInitRankConfig, 2)
MARK(ncclMemAlloc, 2)
MARK(ncclAllReduce, 2)
MARK(ncclSend, 2)
MARK(ncclCommFinalize, 2)
MARK(ncclCommDestroy, 2)
MARK(ncclBroadcast, 2)
MARK(ncclCommAbort, 2)
MARK(ncclCommSplit, 2)
MARK(ncclMemFree, 2)
MARK(ncclRedOpCreatePreMulSum, 2)
MARK(ncclRedOpDestroy, 2)
MARK(ncclReduce, 2)
/* cuBLASLt: no memory */
MARK(cublasLtCreate, 3)
MARK(cublasLtDestroy, 3)
MARK(cublasLtMatmul, 3)
MARK(cublasLtMatmulAlgoGetHeuristic, 3)
MARK(cublasLtMatmulDescCreate, 3)
MARK(cublasLtMatmulDescDestroy, 3)
MARK(cublasLtMatmulDescSetAttribute, 3)
MARK(cublasLtMatmulPreferenceCreate, 3)
MARK(cublasLtMatmulPreferenceDestroy, 3)
MARK(cublasLtMatmulPreferenceSetAttribute, 3)
MARK(cublasLtMatrixLayoutCreate, 3)
MARK(cublasLtMatrixLayoutDestroy, 3)
MARK(cublasLtMatrixLayoutSetAttribute, 3)
/* the C library: -1, EOF or NULL */
MARK(rename, -1)
MARK(pwrite, -1)
MARK(fsync, -1)
MARK(ftruncate, -1)
MARK(fclose, -1)
MARK(fflush, -1)
MARK(fdopen, 0)
MARK(open_memstream, 0)
MARK(strdup, 0)
MARK(strndup, 0)
MARK(getrandom, -1)
MARK(eventfd, -1)
MARK(signalfd, -1)
MARK(socket, -1)
MARK(pthread_create, 11)
MARK(setenv, -1)
