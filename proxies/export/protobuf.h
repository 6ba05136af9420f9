/*
 * protobuf.h - messages in the wire format of Protocol Buffers, as far as the exporters write them: varints and
 * length-delimited fields. A message is put together in memory, then written or made a field of another.
 */
#ifndef BB_PROXIES_EXPORT_PROTOBUF_H
#define BB_PROXIES_EXPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bb_message {
    unsigned char *bytes;
    size_t n;
    int failed; /* -BB_EFAIL once memory ran out (said) */
};

void bb_message_clear(struct bb_message *m); /* empty again, its memory kept */
void bb_message_release(struct bb_message *m);

/* Fields, by their number in the message's schema. */
void bb_message_number(struct bb_message *m, int field, uint64_t value);
void bb_message_text(struct bb_message *m, int field, const char *text);
void bb_message_message(struct bb_message *m, int field, const struct bb_message *part);
void bb_message_packed(struct bb_message *m, int field, const uint64_t *values, size_t n);

/* bb_message_write - with its length in front, as a stream of messages wants it. 0 or m->failed. */
int bb_message_write(const struct bb_message *m, FILE *out);

#endif
