/* door_frames.h: follows the frames that a client of WebSocket sends, and finds what the library lets pass (4.1.6): a
 * frame that is not masked, a Close of one byte, with a code above 4999 or a reason that is not UTF-8. Pure. */
#ifndef TARRY_NET_DOOR_FRAMES_H
#define TARRY_NET_DOOR_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX 14
#define FRAME_CONTROL_MAX 125

/* All zero: at the beginning of a frame. */
struct door_frames {
    uint8_t head[FRAME_HEAD_MAX]; /* of the frame at hand, as far as it has come */
    uint8_t head_size;
    bool is_in_payload;
    uint64_t left;                    /* bytes of its payload that have not come */
    uint8_t close[FRAME_CONTROL_MAX]; /* a Close's payload, unmasked */
    uint8_t close_size;
    bool has_closed; /* a whole Close has come: what follows is not looked at */
};

/* NULL: the bytes are fine. Else a sentence that says what the client did wrong (RFC 6455, 5.1, 7.4). */
const char *door_frames_follow(struct door_frames *frames, const uint8_t *bytes, size_t size);

#endif
