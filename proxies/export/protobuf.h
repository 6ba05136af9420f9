/*
 * protobuf.h - encodes messages in the wire format of Protocol Buffers, as far as the exporters need it: varints and
 * length-delimited fields. A message is built in memory, then written or embedded in another message.
 */
#ifndef BB_PROXIES_EXPORT_PROTOBUF_H
#define BB_PROXIES_EXPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bb_message {
    unsigned char *bytes;
    size_t n;
    int failed; /* 0, or -BB_EFAIL after memory was exhausted (the error is printed) */
};

void bb_message_clear(struct bb_message *m); /* makes the message empty and keeps its memory */
void bb_message_release(struct bb_message *m);

/* Append a field with its number from the message's schema. */
void bb_message_number(struct bb_message *m, int field, uint64_t value);
void bb_message_text(struct bb_message *m, int field, const char *text);
void bb_message_message(struct bb_message *m, int field, const struct bb_message *part);
void bb_message_packed(struct bb_message *m, int field, const uint64_t *values, size_t n);

/* bb_message_write - write the message after its length, as in a stream of messages. Returns 0 or m->failed. */
int bb_message_write(const struct bb_message *m, FILE *out);

#endif
