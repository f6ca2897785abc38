/* message_reader.h: the receive buffer of a client's WebSocket, from which messages are read in place. No I/O.
 *
 *   0      begun                 begun + size        at                      end          capacity
 *   │ free │ the message so far  │ decoded headers   │ bytes not decoded yet │ room to receive │
 *
 * The payload of an unfragmented message stays where it was received. Fragments are moved together, each once. */
#ifndef TARRY_MESSAGE_READER_H
#define TARRY_MESSAGE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ws_frame.h"

struct message_reader {
    struct ws_decoder decoder;
    uint8_t *data;
    size_t capacity;
    size_t begun; /* start of the current message's payload */
    size_t size;  /* number of bytes of the current message's payload so far */
    bool in_message;
    size_t at;
    size_t end;
    uint64_t received; /* payload bytes of all messages so far: shows progress */
};

void message_reader_init(struct message_reader *reader, size_t message_max);
void message_reader_deinit(struct message_reader *reader);
/* Returns the address for the next received bytes and their maximum number. The buffer grows with the received
 * bytes, not with the size that a header announces. NULL: out of memory. */
uint8_t *message_reader_room(struct message_reader *reader, size_t *out_size);
void message_reader_took(struct message_reader *reader, size_t size);
/* Reads the next whole message (WS_DATA) or control frame. Returns WS_NEEDS_MORE and WS_FAILED as `ws_decode` does. The
 * event's data are valid until the next call of a message_reader function. */
void message_reader_next(struct message_reader *reader, struct ws_event *out);

#endif
