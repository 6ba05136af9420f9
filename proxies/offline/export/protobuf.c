/* protobuf.c - encoding of Protocol Buffers messages; see protobuf.h. */
#include "proxies/offline/export/protobuf.h"

#include "bootstrap/base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, DELIMITED = 2 };

void bb_message_release(struct bb_message *m)
{
    free(m->bytes);
    *m = (struct bb_message){0};
}

static void add_byte(struct bb_message *m, unsigned char byte)
{
    BB_GROW(m->bytes, m->n);
    m->bytes[m->n++] = byte;
}

/* Appends a number as a varint: seven bits per byte, least significant bits first; bit 7 is set in all bytes but the
 * last. */
static void add_varint(struct bb_message *m, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        add_byte(m, (unsigned char)(value | 0x80));
    add_byte(m, (unsigned char)value);
}

static void add_delimited(struct bb_message *m, int field, const void *bytes, size_t n)
{
    add_varint(m, (uint64_t)field << 3 | DELIMITED);
    add_varint(m, n);
    for (size_t i = 0; i < n; i++)
        add_byte(m, ((const unsigned char *)bytes)[i]);
}

void bb_message_number(struct bb_message *m, int field, uint64_t value)
{
    add_varint(m, (uint64_t)field << 3 | VARINT);
    add_varint(m, value);
}

void bb_message_text(struct bb_message *m, int field, const char *text)
{
    add_delimited(m, field, text, strlen(text));
}

void bb_message_message(struct bb_message *m, int field, struct bb_message *part)
{
    add_delimited(m, field, part->bytes, part->n);
    part->n = 0;
}

void bb_message_packed(struct bb_message *m, int field, const uint64_t *values, size_t n)
{
    struct bb_message list = {0};

    for (size_t i = 0; i < n; i++)
        add_varint(&list, values[i]);
    bb_message_message(m, field, &list);
    bb_message_release(&list);
}

void bb_message_write(struct bb_message *m, FILE *out)
{
    struct bb_message length = {0};

    add_varint(&length, m->n);
    fwrite(length.bytes, 1, length.n, out);
    fwrite(m->bytes, 1, m->n, out);
    m->n = 0;
    bb_message_release(&length);
}
