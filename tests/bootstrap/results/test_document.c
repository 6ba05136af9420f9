/* test_document.c - a writer of results that does not come back from a write, and who takes over. */
#include "bootstrap/results/document.h"
#include "tests/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASSES, HOLDS, HELD };
static atomic_int write_state;
static atomic_bool came_back;
static char path[] = "/tmp/bb_document_XXXXXX";

/* In place of the C library's: once what it was told is in the file, it stays for as long as it is held. */
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    ssize_t n = syscall(SYS_pwrite64, fd, data, bytes, at);
    int state = HOLDS;

    if (atomic_compare_exchange_strong(&write_state, &state, HELD))
        while (write_state == HELD)
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
    came_back = true;
    return NULL;
}

/* In a child, since the writer never comes back: 0, or what went wrong. */
static int take_over_from_a_writer(void)
{
    static struct bb_document_seat seat;
    struct bb_document d = {.seat = &seat};
    pthread_t writer;

    signal(SIGUSR1, handle_signal);
    if (bb_document_open(&d, path, json_pack("{s:[]}", "results"), "running") ||
        bb_document_add(&d, json_pack("{s:i}", "row", 1)))
        return 1;
    write_state = HOLDS;
    if (bb_document_take_over(&seat) || pthread_create(&writer, NULL, save, &d))
        return 2;
    while (write_state != HELD)
        usleep(1000);
    if (!bb_document_take_over(&seat) || bb_document_take_over(&seat))
        return 3;
    write_state = PASSES;
    for (int i = 0; i < 50; i++) {
        pthread_kill(writer, SIGUSR1);
        usleep(1000);
    }
    bb_document_rescue(&d, "timeout");
    return came_back ? 4 : 0;
}

/* Neither a signal that the program handles wakes it, nor is what it wrote in the way of a shorter text. */
static void the_writer_never_comes_back(void **state)
{
    json_t *root;
    pid_t child;
    int status;

    (void)state;
    close(mkstemp(path));
    child = fork();
    if (child == 0)
        _exit(take_over_from_a_writer());
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_writer_never_comes_back)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
