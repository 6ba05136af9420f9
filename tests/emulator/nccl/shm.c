/*
 * shm.c - the shared region of a communicator: create, join and sweep it, and the waits in it. See shm.h.
 */
#include "shm.h"

#include "../engine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DIRECTORY "/dev/shm"
#define PREFIX    "emu-nccl-"
#define MAGIC     "EMUNCCL"

enum { LAYOUT = 3, PAGE = 4096 };

static const size_t max_chunk = 512u << 10, min_chunk = 16u << 10;
static const size_t max_ring = 256u << 10, min_ring = PAGE;
static const size_t max_rings_total = 1u << 30; /* of address space, not of memory */

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static size_t clamp_pages(size_t x, size_t least, size_t most)
{
    x = x / PAGE * PAGE;
    return x < least ? least : x > most ? most : x;
}

/* Offsets of the parts for a number of ranks. */
struct layout {
    size_t members, pairs, staging, rings, total;
};

static struct layout layout_of(size_t n, size_t chunk, size_t ring)
{
    struct layout l = {.members = round_up(sizeof(struct en_head), PAGE)};

    l.pairs = l.members + round_up(n * sizeof(struct en_member), PAGE);
    l.staging = l.pairs + round_up(n * n * sizeof(struct en_pair), PAGE);
    l.rings = l.staging + n * EN_BUFFERS * chunk;
    l.total = l.rings + n * n * ring;
    return l;
}

/* Buffer sizes: as large as useful, but several regions must fit into a small /dev/shm (64 MiB in containers). */
static void choose_sizes(int members, size_t *chunk, size_t *ring)
{
    struct statvfs fs;
    size_t n = (size_t)members, free_bytes = SIZE_MAX / 2;

    if (statvfs(DIRECTORY, &fs) == 0)
        free_bytes = (size_t)fs.f_bavail * fs.f_frsize;
    *chunk = clamp_pages(free_bytes / 16 / (n * EN_BUFFERS), min_chunk, max_chunk);
    size_t ring_bytes = free_bytes / 16 < max_rings_total ? free_bytes / 16 : max_rings_total;
    *ring = clamp_pages(ring_bytes / (n * n), min_ring, max_ring);
}

static int map_region(struct en_region *r, int fd, size_t total)
{
    void *base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return errno;
    r->head = base;
    return 0;
}

static void find_parts(struct en_region *r)
{
    char *base = (char *)r->head;
    struct layout l = layout_of((size_t)r->head->members, r->head->chunk_bytes, r->head->ring_bytes);

    r->members = (struct en_member *)(base + l.members);
    r->pairs = (struct en_pair *)(base + l.pairs);
    r->staging = base + l.staging;
    r->rings = base + l.rings;
}

/* Only if the open file still has its name: another region of the same id may have replaced it. */
static void unlink_own(const char *path, int fd)
{
    struct stat own;

    if (fstat(fd, &own) == 0 && own.st_nlink > 0)
        unlink(path);
}

/* Starts region_sweeper.c, which is next to this library, for the region. It runs in its own session, so that signals
 * to the job do not reach it. Each rank starts one, because the supervisor of a rank that has ended kills the rank's
 * sweeper while other ranks may still use the region. Without a sweeper the region is removed by the next job
 * (en_sweep). */
static void start_sweeper(struct en_region *r)
{
    static const char marker; /* any address in this library */
    char program[PATH_MAX];
    char *const argv[] = {program, r->path, NULL}, *const no_environment[] = {NULL};
    posix_spawnattr_t own_session;
    Dl_info library;
    pid_t child;

    if (!dladdr(&marker, &library))
        return;
    const int folder = (int)(strrchr(library.dli_fname, '/') - library.dli_fname);
    snprintf(program, sizeof(program), "%.*s/emu-region-sweeper", folder, library.dli_fname);
    posix_spawnattr_init(&own_session);
    posix_spawnattr_setflags(&own_session, POSIX_SPAWN_SETSID);
    if (posix_spawn(&child, program, NULL, &own_session, argv, no_environment) == 0)
        waitpid(child, NULL, 0);
    posix_spawnattr_destroy(&own_session);
}

/* Gives the complete region its name (O_TMPFILE, linkat). Without a name a region disappears with the process. */
static int name_region(const struct en_region *r, int fd)
{
    char own[64];

    snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, own, AT_FDCWD, r->path, AT_SYMLINK_FOLLOW) ? errno : 0;
}

static int fill_region(struct en_region *r, int fd, int members)
{
    size_t chunk, ring;
    int rc;

    choose_sizes(members, &chunk, &ring);
    struct layout l = layout_of((size_t)members, chunk, ring);
    if (flock(fd, LOCK_SH) || ftruncate(fd, (off_t)l.total))
        return errno;
    if ((rc = map_region(r, fd, l.total)) != 0)
        return rc;
    *r->head = (struct en_head){.magic = MAGIC,
                                .layout = LAYOUT,
                                .members = members,
                                .chunk_bytes = chunk,
                                .ring_bytes = ring,
                                .total_bytes = l.total};
    if ((rc = name_region(r, fd)) != 0)
        munmap(r->head, l.total);
    return rc;
}

static int create_region(struct en_region *r, int members)
{
    int rc, fd = open(DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    rc = fill_region(r, fd, members);
    if (rc) {
        close(fd);
        return rc;
    }
    r->lock_fd = fd;
    if (members > 1)
        start_sweeper(r);
    return 0;
}

static int attach_region(struct en_region *r, int members, int *found)
{
    struct stat st;
    int rc, fd = open(r->path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return errno;
    if (flock(fd, LOCK_SH) || fstat(fd, &st))
        rc = errno;
    else if (st.st_nlink == 0)
        rc = ENOENT; /* swept, or complete without this rank, since open() */
    else
        rc = map_region(r, fd, (size_t)st.st_size);
    if (rc == 0 && (memcmp(r->head->magic, MAGIC, sizeof(MAGIC)) || r->head->layout != LAYOUT)) {
        munmap(r->head, (size_t)st.st_size);
        rc = EPROTO;
    }
    if (rc == 0)
        *found = r->head->members;
    if (rc == 0 && *found != members) {
        en_break(r, "the ranks were given different numbers of ranks for one unique id");
        munmap(r->head, (size_t)st.st_size);
        rc = EINVAL;
    }
    if (rc) {
        close(fd);
        return rc;
    }
    r->lock_fd = fd;
    start_sweeper(r);
    return 0;
}

int en_region_open(struct en_region *r, const uint8_t key[EN_KEY_BYTES], int members, int *found)
{
    int rc;

    r->lock_fd = -1; /* the other fields are zero; another thread may read `open` */
    int at = snprintf(r->path, sizeof(r->path), DIRECTORY "/" PREFIX);
    for (int i = 0; i < EN_KEY_BYTES; i++)
        at += snprintf(r->path + at, sizeof(r->path) - (size_t)at, "%02x", key[i]);
    do { /* another process may create or remove the region between attach and create */
        rc = attach_region(r, members, found);
        if (rc == ENOENT)
            rc = create_region(r, members);
    } while (rc == EEXIST || rc == ENOENT);
    if (rc) {
        r->head = NULL;
        return rc;
    }
    find_parts(r);
    atomic_store(&r->open, true);
    return 0;
}

void en_region_unlink(struct en_region *r)
{
    if (r->lock_fd < 0)
        return;
    unlink_own(r->path, r->lock_fd);
    close(r->lock_fd);
    r->lock_fd = -1;
}

void en_region_close(struct en_region *r)
{
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    if (r->head != NULL)
        munmap(r->head, r->head->total_bytes);
    *r = (struct en_region){.lock_fd = -1};
}

/* A region with a name and without a flock: all its ranks are dead. */
static void sweep_one(const char *name)
{
    char path[sizeof(DIRECTORY) + NAME_MAX + 2];

    snprintf(path, sizeof(path), DIRECTORY "/%s", name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlink_own(path, fd);
    close(fd);
}

void en_sweep(void)
{
    DIR *dir = opendir(DIRECTORY);

    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0)
            sweep_one(e->d_name);
    closedir(dir);
}

char *en_staging(const struct en_region *r, int rank, int buffer)
{
    return r->staging + ((size_t)rank * EN_BUFFERS + (size_t)buffer) * r->head->chunk_bytes;
}

static size_t pair_index(const struct en_region *r, int src, int dst)
{
    return (size_t)src * (size_t)r->head->members + (size_t)dst;
}

struct en_pair *en_pair(const struct en_region *r, int src, int dst)
{
    return &r->pairs[pair_index(r, src, dst)];
}

char *en_ring(const struct en_region *r, int src, int dst)
{
    return r->rings + pair_index(r, src, dst) * r->head->ring_bytes;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    const struct timespec slice = {.tv_nsec = EN_WAIT_SLICE_MS * 1000000L};

    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, seen, &slice, NULL, 0);
}

void en_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static enum en_end look(const struct en_watch *watch)
{
    if (atomic_load(watch->abort_flag))
        return EN_ABORTED;
    if (en_broken(watch->region))
        return EN_BROKEN;
    return emu_stopping() ? EN_STOPPING : EN_GO;
}

enum en_end en_wait(const struct en_watch *watch, _Atomic uint32_t *word, uint32_t seen)
{
    while (atomic_load(word) == seen) {
        enum en_end end = look(watch);
        if (end != EN_GO)
            return end;
        futex_wait(word, seen);
    }
    return EN_GO;
}

uint32_t en_barrier_arrive(struct en_barrier *b, int members)
{
    uint32_t generation = atomic_load(&b->generation);

    if (atomic_fetch_add(&b->arrived, 1) + 1 == (uint32_t)members) {
        atomic_store(&b->arrived, 0);
        atomic_fetch_add(&b->generation, 1);
        en_wake(&b->generation);
    }
    return generation;
}

enum en_end en_barrier_wait(const struct en_watch *watch, struct en_barrier *b, uint32_t generation)
{
    return en_wait(watch, &b->generation, generation);
}

void en_ring_doorbell(struct en_member *m)
{
    atomic_fetch_add(&m->doorbell, 1);
    if (atomic_load(&m->asleep))
        en_wake(&m->doorbell);
}

/* `asleep` is set before the kernel compares the doorbell, and the waker reads `asleep` after incrementing the
 * doorbell: no wake-up is lost. */
enum en_end en_sleep_on_doorbell(const struct en_watch *watch, struct en_member *m, uint32_t seen)
{
    atomic_store(&m->asleep, 1);
    enum en_end end = en_wait(watch, &m->doorbell, seen);
    atomic_store(&m->asleep, 0);
    return end;
}

bool en_broken(const struct en_region *r)
{
    return atomic_load(&r->open) && atomic_load(&r->head->error) != 0;
}

static void wake_head(struct en_head *head)
{
    en_wake(&head->joined);
    en_wake(&head->data.generation);
    en_wake(&head->manage.generation);
    en_wake(&head->connect.generation);
}

void en_wake_all(struct en_region *r)
{
    if (!atomic_load(&r->open))
        return;
    wake_head(r->head);
    for (int i = 0; i < r->head->members; i++)
        en_wake(&r->members[i].doorbell);
}

bool en_break(struct en_region *r, const char *text)
{
    uint32_t none = 0;

    if (!atomic_compare_exchange_strong(&r->head->error, &none, 1))
        return false;
    snprintf(r->head->error_text, sizeof(r->head->error_text), "%s", text);
    atomic_store(&r->head->error, 2);
    wake_head(r->head);
    en_wake_all(r);
    return true;
}
