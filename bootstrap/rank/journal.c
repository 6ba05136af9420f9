/* journal.c - see journal.h. */
#include "bootstrap/rank/journal.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What precedes the data of a record. */
struct header {
    int kind, arg;
    size_t bytes;
};

void bb_journal_append(int fd, int kind, int arg, const void *data, size_t bytes)
{
    const struct header header = {kind, arg, bytes};

    if (fd >= 0 && write(fd, &header, sizeof header) == sizeof header && bytes > 0)
        (void)!write(fd, data, bytes);
}

bool bb_journal_next(struct bb_journal *journal, struct bb_journal_record *record)
{
    struct header header;

    if (journal->bytes - journal->at < sizeof header)
        return false;
    memcpy(&header, journal->data + journal->at, sizeof header);
    if (journal->bytes - journal->at - sizeof header < header.bytes)
        return false;
    *record =
        (struct bb_journal_record){header.kind, header.arg, header.bytes, journal->data + journal->at + sizeof header};
    journal->at += sizeof header + header.bytes;
    return true;
}

struct bb_journal bb_journal_load(int fd)
{
    struct bb_journal journal = {0};
    struct bb_journal_record record;
    struct stat file;
    ssize_t n = 0;

    if (fd < 0 || fstat(fd, &file))
        return journal;
    BB_NEW(journal.data, file.st_size + 1);
    while ((n = pread(fd, journal.data + journal.bytes, (size_t)file.st_size - journal.bytes, (off_t)journal.bytes)) >
           0)
        journal.bytes += (size_t)n;
    while (bb_journal_next(&journal, &record))
        ;
    journal.bytes = journal.at;
    journal.at = 0;
    if (ftruncate(fd, (off_t)journal.bytes) == 0)
        (void)lseek(fd, (off_t)journal.bytes, SEEK_SET);
    return journal;
}

void bb_journal_release(struct bb_journal *journal)
{
    free(journal->data);
    *journal = (struct bb_journal){0};
}
