/* door_frames.c: see door_frames.h. The library checks lengths, opcodes, reserved bits and fragments. */
#include "door_frames.h"

#include "check.h"

#define OPCODE_CLOSE 8u
#define MASK_SIZE 4u

/* Returns the size of the frame's head, as far as the received bytes show it. */
static size_t head_needs(const struct door_frames *frames) {
    if (frames->head_size < 2) return 2;
    unsigned length = frames->head[1] & 0x7fu;
    return 2 + (length == 126 ? 2 : length == 127 ? 8 : 0) + MASK_SIZE;
}

static uint64_t payload_size(const struct door_frames *frames) {
    unsigned length = frames->head[1] & 0x7fu;
    size_t bytes = length == 126 ? 2 : length == 127 ? 8 : 0;
    uint64_t size = 0;
    for (size_t i = 0; i < bytes; i++) size = size << 8 | frames->head[2 + i];
    return bytes == 0 ? length : size;
}

static bool is_close(const struct door_frames *frames) {
    return (frames->head[0] & 0x0fu) == OPCODE_CLOSE;
}

/* The highest close code (RFC 6455, 7.4.2). The library itself refuses forbidden codes below 3000, by a Close with
 * 1002. */
#define CODE_MAX 4999u

static const char *judge_close(struct door_frames *frames) {
    frames->has_closed = true;
    if (frames->close_size == 0) return NULL;
    if (frames->close_size == 1) return "a Close's payload has one byte: half a code";
    if (((unsigned)frames->close[0] << 8 | frames->close[1]) > CODE_MAX) return "a Close has a code above 4999";
    if (!is_utf8(frames->close + 2, frames->close_size - 2u)) return "a Close's reason is not UTF-8";
    return NULL;
}

static const char *end_frame(struct door_frames *frames) {
    bool was_close = is_close(frames);
    frames->head_size = 0;
    frames->is_in_payload = false;
    return was_close ? judge_close(frames) : NULL;
}

/* Begins the payload of a frame whose head is complete. */
static const char *begin_payload(struct door_frames *frames) {
    frames->left = payload_size(frames);
    frames->is_in_payload = true;
    if (is_close(frames)) frames->close_size = 0;
    /* The library ends the connection for a longer control frame. */
    if (is_close(frames) && frames->left > FRAME_CONTROL_MAX) frames->has_closed = true;
    return frames->left == 0 ? end_frame(frames) : NULL;
}

/* Consumes payload; stores that of a Close. Returns the number of consumed bytes. */
static size_t take_payload(struct door_frames *frames, const uint8_t *bytes, size_t size) {
    size_t part = size < frames->left ? size : (size_t)frames->left;
    const uint8_t *mask = frames->head + frames->head_size - MASK_SIZE;
    for (size_t i = 0; is_close(frames) && i < part; i++) {
        frames->close[frames->close_size] = bytes[i] ^ mask[frames->close_size % MASK_SIZE];
        frames->close_size++;
    }
    frames->left -= part;
    return part;
}

const char *door_frames_follow(struct door_frames *frames, const uint8_t *bytes, size_t size) {
    const char *problem = NULL;
    for (size_t at = 0; at < size && problem == NULL && !frames->has_closed;) {
        if (frames->is_in_payload) {
            at += take_payload(frames, bytes + at, size - at);
            if (frames->left == 0) problem = end_frame(frames);
            continue;
        }
        frames->head[frames->head_size++] = bytes[at++];
        if (frames->head_size == 2 && (frames->head[1] & 0x80u) == 0) return "a client's frames are masked";
        if (frames->head_size == head_needs(frames)) problem = begin_payload(frames);
    }
    return problem;
}
