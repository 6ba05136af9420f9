/*
 * journal.h - a list of records that a rank keeps for the process that takes its place if the run is restarted without
 * the lost nodes (bootstrap/supervise/restart.c). The records are in a memory file of the supervisor, which outlives the
 * rank. A record whose writer was killed is dropped.
 */
#ifndef BB_BOOTSTRAP_RANK_JOURNAL_H
#define BB_BOOTSTRAP_RANK_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

/* Records of the supervisor: the first rank and the size of the next world as int[2]; and after it, for rank 0, each rank of
 * the first world that was lost so far, as `arg`. Records of a command have kinds from BB_JOURNAL_COMMAND on. */
enum { BB_JOURNAL_WORLD = 1, BB_JOURNAL_LOST, BB_JOURNAL_COMMAND = 16 };

struct bb_journal_record {
    int kind, arg;
    size_t bytes;
    const char *data; /* [bytes], not aligned */
};

/* A copy of all records, which bb_journal_next reads in order. */
struct bb_journal {
    char *data;
    size_t bytes, at;
};

/* bb_journal_append - append a record. fd: the memory file; -1: does nothing.
 * bb_journal_load   - read all records, and remove an incomplete one at the end; the caller calls bb_journal_release.
 * bb_journal_next   - returns false after the last record. */
void bb_journal_append(int fd, int kind, int arg, const void *data, size_t bytes);
struct bb_journal bb_journal_load(int fd);
bool bb_journal_next(struct bb_journal *journal, struct bb_journal_record *record);
void bb_journal_release(struct bb_journal *journal);

#endif
