/* gpu_library.c - see gpu_library.h. */
#include "bootstrap/start/gpu_library.h"

#include "bootstrap/start/deadline.h"
#include "bootstrap/start/exit_guard.h"
#include "bootstrap/start/launcher.h"
#include "bootstrap/start/program_folder.h"
#include "bootstrap/start/speaker.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GPU_LIBRARY "libbusbar-gpu.so"

/* How to install the dependencies of the GPU library. `library` is the beginning of the library's file name. */
static const struct {
    const char *library, *advice;
} sources[] = {
    {"libmpi", "an MPI library (Open MPI or MPICH, the one that busbar was built with)"},
    {"libnccl", "NCCL (NVIDIA's package libnccl2, or the Python wheel nvidia-nccl-cu13)"},
    {"libcudart", "the CUDA runtime (the CUDA toolkit, or the Python wheel nvidia-cuda-runtime)"},
    {"libcublasLt", "cuBLASLt (the CUDA toolkit, or the Python wheel nvidia-cublas)"},
};

static const char *advice_for(const char *library)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++)
        if (strncmp(library, sources[i].library, strlen(sources[i].library)) == 0)
            return sources[i].advice;
    return NULL;
}

/*
 * Extracts the file name of a library from an error message of glibc's loader, for example from "libnccl.so.2: cannot
 * open shared object file: No such file or directory" or "/opt/libnccl.so.2: file too short".
 */
static void get_library_name(char name[NAME_MAX + 1], const char *error)
{
    const size_t path = strcspn(error, ":");
    const char *slash = memrchr(error, '/', path), *base = slash ? slash + 1 : error;

    snprintf(name, NAME_MAX + 1, "%.*s", (int)(error + path - base), base);
}

static int report_load_error(const char *command, const char *error)
{
    const bool missing = strstr(error, ": cannot open shared object file: No such file") != NULL;
    char library[NAME_MAX + 1], how[PATH_MAX + 64] = "is not found";
    const char *advice;

    get_library_name(library, error);
    advice = advice_for(library);
    if (!missing && !advice)
        return bb_err(BB_EFAIL, "%s needs busbar's GPU library, which cannot be loaded: %s", command, error);
    if (!missing)
        snprintf(how, sizeof(how), "cannot be loaded (%s)", error);
    return bb_err(BB_EFAIL,
                  "%s needs %s, which %s; install %s, or add its folder to LD_LIBRARY_PATH; "
                  "sh bootstrap/setup.sh installs all dependencies",
                  command, library, how, advice ? advice : "it");
}

/* Searches for the GPU library in the program's own folder (build), then in ../lib/busbar (installation). path: out. */
static int find_gpu_library(const char *command, char path[PATH_MAX])
{
    static const char *const subfolders[] = {"", "/../lib/busbar"};
    char folder[PATH_MAX];
    int rc = bb_program_folder(folder);

    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof(subfolders) / sizeof(*subfolders); i++) {
        if (snprintf(path, PATH_MAX, "%s%s/" GPU_LIBRARY, folder, subfolders[i]) >= PATH_MAX)
            return bb_err(BB_EFAIL, "the path of busbar is too long: %s", folder);
        if (access(path, R_OK) == 0)
            return 0;
    }
    return bb_err(BB_EFAIL,
                  "%s needs busbar's GPU library, but " GPU_LIBRARY " is neither in %s nor in its ../lib/busbar: build "
                  "without -DBUSBAR_GPU=OFF, or install busbar completely",
                  command, folder);
}

/* Loads the GPU library with RTLD_GLOBAL, because MPI's plugins, NCCL's plugin search and tools look up symbols in
 * the whole process. */
static int load_gpu_library(const char *command, void **library_handle)
{
    char path[PATH_MAX];
    int rc = find_gpu_library(command, path);

    if (rc)
        return rc;
    *library_handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    return *library_handle ? 0 : report_load_error(command, dlerror());
}

/* Returns an error unless the program and the library have the same version. They share functions and structures
 * without a stable ABI. */
static int check_version(const char *command, void *library_handle)
{
    const char *version = dlsym(library_handle, "bb_gpu_library_version");

    if (version && strcmp(version, BUSBAR_VERSION) == 0)
        return 0;
    return bb_err(BB_EFAIL,
                  "%s needs the GPU library of busbar " BUSBAR_VERSION ", but " GPU_LIBRARY
                  " has version %s: install both together",
                  command, version ? version : "unknown");
}

static int find_entry(const char *command, const char *entry, void **run)
{
    void *library_handle;
    int rc;

    TRY(load_gpu_library(command, &library_handle));
    TRY(check_version(command, library_handle));
    *run = dlsym(library_handle, entry);
    if (!*run)
        rc = bb_err(BB_EFAIL, "%s: " GPU_LIBRARY " has no function %s; rebuild or reinstall busbar", command, entry);
out:
    /* mpirun terminates the other ranks when the first one exits, so record before the exit that the error was
     * reported. */
    if (rc && !bb_launched_alone() && !bb_err_is_mute())
        bb_speaker_says(bb_speaker_take(bb_exit_code(rc)));
    return rc;
}

int bb_gpu_library_run(const char *command, const char *entry, double timeout_s, int argc, char **argv)
{
    int (*run)(int, char **);
    int rc;

    (void)signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe then fails with EPIPE instead of ending the process
                                       before the results are saved */
    bb_deadline_begin("loading the GPU libraries", timeout_s, true);
    TRY(find_entry(command, entry, (void **)&run));
    bb_deadline_begin("the start of the run", timeout_s, true);
    rc = run(argc, argv);
out:
    bb_exit_guard(NULL, NULL);
    return rc;
}
