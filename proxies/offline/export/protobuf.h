/*
 * protobuf.h - encodes messages in the wire format of Protocol Buffers. Supports only what the exporters use: varint
 * and length-delimited fields. A message is built in memory, and then written to a file or embedded in another message.
 */
#ifndef BB_PROXIES_OFFLINE_EXPORT_PROTOBUF_H
#define BB_PROXIES_OFFLINE_EXPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bb_message {
    unsigned char *bytes;
    size_t n;
};

void bb_message_release(struct bb_message *m);

/* Append a field to the message. `field` is the field number in the .proto schema. bb_message_message embeds the
 * message `part` and then empties `part`, whose memory is reused. */
void bb_message_number(struct bb_message *m, int field, uint64_t value);
void bb_message_text(struct bb_message *m, int field, const char *text);
void bb_message_message(struct bb_message *m, int field, struct bb_message *part);
void bb_message_packed(struct bb_message *m, int field, const uint64_t *values, size_t n);

/* bb_message_write - write the length of the message and then the message, the format of a stream of messages; then
 * empty the message, whose memory is reused. */
void bb_message_write(struct bb_message *m, FILE *out);

#endif
