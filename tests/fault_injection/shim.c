/*
 * shim.c - injects a fault at one call of a library function. inject.py preloads it into the unmodified program.
 *
 *    FAULT=ACTION:FUNCTION:CALL:RANK   ACTION happens at call number CALL of FUNCTION, on this rank of the launcher or
 *    on `all`
 *    FAULT_FROM_PROGRAM                count only calls from busbar and busbar-rank, not calls among libraries
 *    FAULT_PROGRAM                     count only calls in processes with this name: busbar (the supervisor and the
 *                                      process that writes the results) or busbar-rank; default: all processes
 *    FAULT_LOG                         file to which the time of the fault is appended
 *    FAULT_LAUNCHER_PID                process id of the launcher; default: the parent process of the supervisor
 *
 * Actions:
 *    kill stop quit xcpu       the process sends itself SIGKILL, SIGSTOP, SIGQUIT or SIGXCPU
 *    segv crash                SIGSEGV with the default action; SIGSEGV with the handler of the program
 *    exit leave leave-now      exit_group(0) of the kernel; exit(0) and _exit(0) of the C library
 *    stall                     the call never returns
 *    fail                      the call returns the error of its MARK row
 *    nan past                  cudaEventElapsedTime returns NaN or -1 ms
 *    term int hup usr1 usr2 orphan   the launcher gets this signal (orphan: SIGKILL), and the call takes 2 s
 *
 * x86-64 only: the arguments are forwarded unread, six registers and 144 bytes of the stack.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_this_rank(const char *rank)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
    const char *mine = NULL;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !mine; i++)
        mine = getenv(names[i]);
    return strcmp(rank, "all") == 0 || strcmp(rank, mine ? mine : "0") == 0;
}

/* Appends the current time to the log. Returns whether this is its first entry. */
static bool log_time(void)
{
    const char *path = getenv("FAULT_LOG");
    struct timespec now;
    struct stat before = {0};
    char text[64];
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (fd < 0)
        return true;
    if (fstat(fd, &before) != 0 ||
        write(fd, text, (size_t)snprintf(text, sizeof(text), "%ld.%03ld\n", (long)now.tv_sec, now.tv_nsec / 1000000)) <
            0)
        _exit(99);
    close(fd);
    return before.st_size == 0;
}

static int is_busbar(const char *name)
{
    return strcmp(name, "busbar") == 0 || strcmp(name, "busbar-rank") == 0;
}

/* Returns the first ancestor of this process that is not busbar. */
static pid_t find_launcher(void)
{
    pid_t pid = getppid();
    char path[32], name[32];
    int parent;

    for (;;) {
        FILE *file;
        int n = 0;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        file = fopen(path, "re");
        if (file) {
            n = fscanf(file, "%*d (%31[^)]) %*c %d", name, &parent);
            fclose(file);
        }
        if (n != 2 || !is_busbar(name))
            return pid;
        pid = parent;
    }
}

static void signal_launcher(int signal)
{
    const struct timespec delivery_time = {.tv_sec = 2};
    const struct timespec start_time = {.tv_nsec = 300000000};
    const char *launcher = getenv("FAULT_LAUNCHER_PID");

    nanosleep(&start_time, NULL); /* the launcher ends a rank that has not started without a message */
    kill(launcher ? atoi(launcher) : find_launcher(), signal);
    nanosleep(&delivery_time, NULL);
}

/* Sends a signal to the whole process, as another process does: any thread may handle it. Waits until it is handled. */
static void signal_self(int signal)
{
    const struct timespec delivery_time = {.tv_sec = 2};

    kill(getpid(), signal);
    nanosleep(&delivery_time, NULL);
}

/* Returns the invalid time (ms) that the call returns, or NULL for other actions. */
static const float *find_invalid_time(const char *action)
{
    static const struct {
        const char *name;
        float ms;
    } times[] = {{"nan", __builtin_nanf("")}, {"past", -1}};

    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
        if (strncmp(action, times[i].name, strlen(times[i].name)) == 0)
            return &times[i].ms;
    return NULL;
}

/* Returns 1 if the call must return an error or an invalid time. The launcher gets its signal once, although the process
 * that completes the results after the writer makes the same calls; a second SIGINT within a second has another effect. */
static int inject_fault(const char *action)
{
    static const struct {
        const char *name;
        int to_self, to_launcher;
    } signals[] = {{"kill", SIGKILL, 0}, {"stop", SIGSTOP, 0},  {"quit", SIGQUIT, 0}, {"xcpu", SIGXCPU, 0},
                   {"term", 0, SIGTERM}, {"int", 0, SIGINT},    {"hup", 0, SIGHUP},   {"usr1", 0, SIGUSR1},
                   {"usr2", 0, SIGUSR2}, {"orphan", 0, SIGKILL}};
    const bool first = log_time();

    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        if (strcmp(action, signals[i].name) == 0 && signals[i].to_self)
            signal_self(signals[i].to_self);
        else if (strcmp(action, signals[i].name) == 0 && first)
            signal_launcher(signals[i].to_launcher);
    if (strcmp(action, "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(action, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(action, "exit") == 0)
        syscall(SYS_exit_group, 0);
    if (strcmp(action, "leave") == 0)
        exit(0);
    if (strcmp(action, "leave-now") == 0)
        _exit(0);
    while (strcmp(action, "stall") == 0)
        pause();
    return strcmp(action, "fail") == 0 || find_invalid_time(action);
}

static int is_due(const char *function, atomic_int *calls)
{
    const char *fault = getenv("FAULT"), *program = getenv("FAULT_PROGRAM");
    char action[16], marked[64], rank[16];
    int call;

    if (program && strcmp(program, program_invocation_short_name) != 0)
        return 0;
    if (!fault || sscanf(fault, "%15[^:]:%63[^:]:%d:%15s", action, marked, &call, rank) != 4)
        return 0;
    if (strcmp(marked, function) != 0 || !is_this_rank(rank) || ++*calls != call)
        return 0;
    return inject_fault(action);
}

/* The marked function `destructor`: the end of a library of the rank. The shell that starts busbar, and busbar itself,
 * preload the shim too. */
__attribute__((destructor)) static void end_library(void)
{
    static atomic_int calls;

    if (strcmp(program_invocation_short_name, "busbar-rank") == 0)
        (void)is_due("destructor", &calls);
}

/* Returns whether the caller is code of busbar or busbar-rank. */
static int is_from_program(void *caller)
{
    Dl_info at;
    const char *name;

    if (!getenv("FAULT_FROM_PROGRAM"))
        return 1;
    if (!dladdr(caller, &at) || !at.dli_fname)
        return 0;
    name = strrchr(at.dli_fname, '/') ? strrchr(at.dli_fname, '/') + 1 : at.dli_fname;
    return is_busbar(name);
}

/* Returns the error of the call, or stores an invalid time through the first argument and returns 0. */
static long result_of_fault(long failure, float *first)
{
    const float *ms = find_invalid_time(getenv("FAULT"));

    errno = EIO;
    if (!ms)
        return failure;
    *first = *ms;
    return 0;
}

/* fflush() of a stream without buffered output cannot fail. */
static int can_fail(const char *function, void *first)
{
    return strcmp(function, "fflush") != 0 || !first || __fpending(first) > 0;
}

#define REGISTERS long a, long b, long c, long d, long e, long f
#define STACK                                                                                                          \
    long s0, long s1, long s2, long s3, long s4, long s5, long s6, long s7, long s8, long s9, long s10, long s11,      \
        long s12, long s13, long s14, long s15, long s16, long s17
#define ALL a, b, c, d, e, f, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17

/* The asm label gives the wrapper the name of the function; the C prototypes differ. */
#define MARK(name, failure)                                                                                            \
    __attribute__((visibility("default"))) long marked_##name(REGISTERS, STACK) __asm__(#name);                        \
    long marked_##name(REGISTERS, STACK)                                                                               \
    {                                                                                                                  \
        static atomic_int calls;                                                                                       \
        static long (*real)(REGISTERS, STACK);                                                                         \
        if (!real)                                                                                                     \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                 \
        if (is_from_program(__builtin_return_address(0)) && can_fail(#name, (void *)a) && is_due(#name, &calls))       \
            return result_of_fault(failure, (void *)a);                                                                \
        return real(ALL);                                                                                              \
    }

/* MPI: MPI_ERR_OTHER of Open MPI */
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
/* CUDA: cudaErrorMemoryAllocation */
MARK(cudaGetDeviceCount, 2)
MARK(cudaSetDevice, 2)
MARK(cudaMalloc, 2)
MARK(cudaMemcpy, 2)
MARK(cudaMemcpyAsync, 2)
MARK(cudaMemGetInfo, 2)
MARK(cudaEventCreateWithFlags, 2)
MARK(cudaStreamCreateWithFlags, 2)
MARK(cudaHostAlloc, 2)
MARK(cudaIpcGetMemHandle, 2)
MARK(cudaIpcOpenMemHandle, 2)
MARK(cudaIpcCloseMemHandle, 2)
MARK(cudaDeviceGetAttribute, 2)
MARK(cudaDeviceGetStreamPriorityRange, 2)
MARK(cudaDriverGetVersion, 2)
MARK(cudaEventCreate, 2)
MARK(cudaEventDestroy, 2)
MARK(cudaEventElapsedTime, 2)
MARK(cudaEventQuery, 2)
MARK(cudaEventRecord, 2)
MARK(cudaDeviceCanAccessPeer, 3)
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
/* NCCL: ncclSystemError */
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
/* cuBLASLt: CUBLAS_STATUS_ALLOC_FAILED */
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
/* C library: -1, EOF or NULL; pthread_create: EAGAIN */
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
MARK(fork, -1)
MARK(execv, -1)
MARK(memfd_create, -1)
MARK(mmap, -1)
MARK(pipe2, -1)
MARK(socketpair, -1)
