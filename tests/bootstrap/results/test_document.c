/* test_document.c - a thread that blocks forever in a write of the results file, and another thread that takes over. */
#include "bootstrap/results/document.h"
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASS, BLOCK_NEXT, BLOCKED };
static atomic_int write_state;
static atomic_bool writer_returned;
static char path[] = "/tmp/bb_document_XXXXXX";

/* Replaces pwrite() of the C library: with write_state BLOCK_NEXT it writes the data and then blocks while BLOCKED. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    ssize_t n = syscall(SYS_pwrite64, fd, data, bytes, at);
    int state = BLOCK_NEXT;

    if (atomic_compare_exchange_strong(&write_state, &state, BLOCKED))
        while (write_state == BLOCKED)
            usleep(1000);
    return n;
}

static void handle_signal(int signal)
{
    (void)signal;
}

static void *save(void *arg)
{
    (void)bb_document_save(arg, "a status of many more letters than that of who takes over");
    writer_returned = true;
    return NULL;
}

/* Runs in a child process, because the blocked writer never returns. Returns 0, or the number of the failed step. */
static int take_over_from_blocked_writer(void)
{
    static struct bb_document_writer writer;
    struct bb_document d = {.writer = &writer};
    pthread_t thread;

    signal(SIGUSR1, handle_signal);
    if (bb_document_open(&d, path, json_pack("{s:[]}", "results"), "running") ||
        bb_document_add(&d, json_pack("{s:i}", "row", 1)))
        return 1;
    write_state = BLOCK_NEXT;
    if (bb_document_take_over(&writer) || pthread_create(&thread, NULL, save, &d))
        return 2;
    while (write_state != BLOCKED)
        usleep(1000);
    if (!bb_document_take_over(&writer) || bb_document_take_over(&writer))
        return 3;
    write_state = PASS;
    for (int i = 0; i < 50; i++) {
        pthread_kill(thread, SIGUSR1);
        usleep(1000);
    }
    bb_document_rescue(&d, "timeout");
    return writer_returned ? 4 : 0;
}

/*
 * A handled signal does not wake the blocked writer. The longer status that it wrote does not remain after the shorter
 * status of the rescue.
 */
static void rescues_the_file_from_a_blocked_writer(void **state)
{
    json_t *root;
    pid_t child;
    int status;

    (void)state;
    close(mkstemp(path));
    child = fork();
    if (child == 0)
        _exit(take_over_from_blocked_writer());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    root = json_load_file(path, 0, NULL);
    unlink(path);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "timeout");
    assert_int_equal(json_array_size(json_object_get(root, "results")), 1);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rescues_the_file_from_a_blocked_writer)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
