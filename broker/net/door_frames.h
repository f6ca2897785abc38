/* door_frames.h: checks the WebSocket frames of a client for errors that libwebsockets 4.1.6 accepts: an unmasked
 * frame, and a Close with 1 byte, with a code above 4999, or with a reason that is not UTF-8. Pure. */
#ifndef TARRY_NET_DOOR_FRAMES_H
#define TARRY_NET_DOOR_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX 14
#define FRAME_CONTROL_MAX 125

/* State of the check; all zero before the first frame. */
struct door_frames {
    uint8_t head[FRAME_HEAD_MAX]; /* received bytes of the current frame's header */
    uint8_t head_size;
    bool is_in_payload;
    uint64_t left;                    /* payload bytes of the frame that have not arrived */
    uint8_t close[FRAME_CONTROL_MAX]; /* payload of a Close frame, unmasked */
    uint8_t close_size;
    bool has_closed; /* a complete Close has arrived; later bytes are not checked */
};

/* Checks further bytes. Returns NULL if they are valid, else a sentence that names the broken rule (RFC 6455, 5.1,
 * 7.4). */
const char *door_frames_follow(struct door_frames *frames, const uint8_t *bytes, size_t size);

#endif
