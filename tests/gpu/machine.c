/*
 * machine.c - checks a machine before GPU tests; requires only libcudart. Prints lines "KEY<TAB>VALUE":
 *
 *   gpus       number of devices that the CUDA runtime finds
 *   driver     CUDA version that the driver supports
 *   runtime    CUDA version of the loaded libcudart
 *   nccl       version of the loaded libnccl.so.2, or "not found"
 *   glibc      version of the C library
 *   loopback   "up", "was down, is up", or "down". Open MPI requires the interface; the program brings it up if it may
 *
 * Exit status 0: a GPU can be used. 77: no GPU or no driver. 1: a GPU cannot be used; one line on stderr has the reason.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { SKIPPED = 77 };

static void print_cuda_version(const char *key, int version)
{
    printf("%s\t%d.%d\n", key, version / 1000, version % 1000 / 10);
}

static void print_nccl_version(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    int (*get_version)(int *) = NULL, version;

    if (library != NULL)
        *(void **)&get_version = dlsym(library, "ncclGetVersion");
    if (get_version != NULL && get_version(&version) == 0)
        printf("nccl\t%d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
    else
        printf("nccl\tnot found\n");
}

static const char *bring_loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        return "down";
    if (request.ifr_flags & IFF_UP)
        return "up";
    request.ifr_flags |= IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0 ? "was down, is up" : "down";
}

static int explain(cudaError_t rc, int driver, int runtime)
{
    if (rc == cudaErrorNoDevice || (rc == cudaErrorInsufficientDriver && driver == 0))
        return SKIPPED;
    if (rc == cudaErrorInsufficientDriver)
        fprintf(stderr,
                "the driver supports CUDA %d.%d, and this build requires CUDA %d; install a newer driver, or build "
                "with the "
                "CUDA %d toolkit\n",
                driver / 1000, driver % 1000 / 10, runtime / 1000, driver / 1000);
    else
        fprintf(stderr, "cudaGetDeviceCount: %s: %s\n", cudaGetErrorName(rc), cudaGetErrorString(rc));
    return 1;
}

int main(void)
{
    int gpus = 0, driver = 0, runtime = 0;
    cudaError_t rc;

    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    rc = cudaGetDeviceCount(&gpus);
    printf("gpus\t%d\n", gpus);
    print_cuda_version("driver", driver);
    print_cuda_version("runtime", runtime);
    print_nccl_version();
    printf("glibc\t%s\n", gnu_get_libc_version());
    printf("loopback\t%s\n", bring_loopback_up());
    if (rc != cudaSuccess)
        return explain(rc, driver, runtime);
    return gpus > 0 ? 0 : SKIPPED;
}
