/* test_journal.c - the records that a rank keeps for the process that takes its place. */
#include "bootstrap/rank/journal.h"
#include "tests/check.h"

#include <sys/mman.h>
#include <unistd.h>

static void incomplete_record_is_dropped_and_replaced(void **state)
{
    const int fd = memfd_create("journal", 0);
    struct bb_journal_record record;
    struct bb_journal journal;

    (void)state;
    bb_journal_append(fd, 1, 5, "values", 6);
    bb_journal_append(fd, 2, 6, NULL, 0);
    bb_journal_append(fd, 3, 7, "cut", 3);
    assert_int_equal(ftruncate(fd, lseek(fd, 0, SEEK_END) - 1), 0); /* as if the writer was killed */
    journal = bb_journal_load(fd);
    bb_journal_release(&journal);
    bb_journal_append(fd, 4, 8, NULL, 0);
    journal = bb_journal_load(fd);
    assert_true(bb_journal_next(&journal, &record) && record.kind == 1 && record.arg == 5 && record.bytes == 6);
    assert_memory_equal(record.data, "values", 6);
    assert_true(bb_journal_next(&journal, &record) && record.kind == 2 && record.bytes == 0);
    assert_true(bb_journal_next(&journal, &record) && record.kind == 4 && record.arg == 8);
    assert_false(bb_journal_next(&journal, &record));
    bb_journal_release(&journal);
    close(fd);
}

static void rank_without_journal_has_no_records(void **state)
{
    struct bb_journal_record record;
    struct bb_journal journal;

    (void)state;
    bb_journal_append(-1, 1, 0, "x", 1);
    journal = bb_journal_load(-1);
    assert_false(bb_journal_next(&journal, &record));
    bb_journal_release(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incomplete_record_is_dropped_and_replaced),
        cmocka_unit_test(rank_without_journal_has_no_records),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
