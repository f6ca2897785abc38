/* hard_state.c: see hard_state.h. */
#include "hard_state.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "frame.h"
#include "tarry_limits.h"

static const uint8_t note_magic[8] = {'T', 'A', 'R', 'R', 'Y', 'P', 'R', '1'};

enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_NODE = 12,
    AT_FLOOR = 16,
    AT_LED = 20,
    AT_FLAGS = 24,
    AT_RECORDED = 28,
    AT_RUNS = 32,
    AT_PEER = 40,
    AT_SUM = 56,
};
enum { FLAG_IN_SYNC = 1, FLAG_ALONE = 2 };

bool hard_state_has_peer(const struct hard_state *hard_state) {
    static const uint8_t nobody[MEMBER_ID_SIZE];
    return memcmp(hard_state->peer, nobody, MEMBER_ID_SIZE) != 0;
}

bool hard_state_is_another(const struct hard_state *hard_state, const uint8_t member[MEMBER_ID_SIZE]) {
    return hard_state_has_peer(hard_state) && memcmp(hard_state->peer, member, MEMBER_ID_SIZE) != 0;
}

void hard_state_encode(const struct hard_state *hard_state, uint8_t out[HARD_STATE_SIZE]) {
    memcpy(out + AT_MAGIC, note_magic, sizeof note_magic);
    put_u32(out + AT_VERSION, FORMAT_VERSION);
    put_u32(out + AT_NODE, hard_state->node);
    put_u32(out + AT_FLOOR, hard_state->floor);
    put_u32(out + AT_LED, hard_state->led);
    put_u32(out + AT_FLAGS, (hard_state->in_sync ? FLAG_IN_SYNC : 0u) | (hard_state->alone ? FLAG_ALONE : 0u));
    put_u32(out + AT_RECORDED, hard_state->recorded);
    put_u64(out + AT_RUNS, hard_state->runs);
    memcpy(out + AT_PEER, hard_state->peer, MEMBER_ID_SIZE);
    put_u64(out + AT_SUM, frame_sum(out, AT_SUM));
}

int hard_state_decode(const uint8_t *bytes, size_t size, const char *path, struct hard_state *out,
                      char message[IDENTITY_MESSAGE_SIZE]) {
    bool is_ours = size >= AT_NODE && memcmp(bytes, note_magic, sizeof note_magic) == 0;
    if (is_ours && get_u32(bytes + AT_VERSION) != FORMAT_VERSION) {
        snprintf(message, IDENTITY_MESSAGE_SIZE, "%s has format version %u, this program reads version %u", path,
                 get_u32(bytes + AT_VERSION), FORMAT_VERSION);
        return 1;
    }
    bool is_whole = is_ours && size == HARD_STATE_SIZE && get_u64(bytes + AT_SUM) == frame_sum(bytes, AT_SUM);
    if (!is_whole || get_u32(bytes + AT_NODE) > 1 || get_u32(bytes + AT_FLAGS) > (FLAG_IN_SYNC | FLAG_ALONE)) {
        snprintf(message, IDENTITY_MESSAGE_SIZE,
                 "%s is damaged; it contains this node's promises to the other node, so it cannot be created again. "
                 "Let this node join with an empty data directory and --follow, or restore this one",
                 path);
        return 1;
    }
    *out = (struct hard_state){
        .node = (uint8_t)get_u32(bytes + AT_NODE),
        .floor = get_u32(bytes + AT_FLOOR),
        .recorded = get_u32(bytes + AT_RECORDED),
        .led = get_u32(bytes + AT_LED),
        .in_sync = (get_u32(bytes + AT_FLAGS) & FLAG_IN_SYNC) != 0,
        .alone = (get_u32(bytes + AT_FLAGS) & FLAG_ALONE) != 0,
        .runs = get_u64(bytes + AT_RUNS),
    };
    memcpy(out->peer, bytes + AT_PEER, MEMBER_ID_SIZE);
    return 0;
}

int hard_state_read(const struct disk *disk, const char *directory, struct hard_state *out,
                    char message[IDENTITY_MESSAGE_SIZE]) {
    char path[4096];
    uint8_t bytes[HARD_STATE_SIZE + 1];
    int64_t size = disk_read_file(disk, directory, HARD_STATE_NAME, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/%s", directory, HARD_STATE_NAME);
    return size < 0 ? (int)size : hard_state_decode(bytes, (size_t)size, path, out, message);
}

int hard_state_write(const struct disk *disk, const char *directory, const struct hard_state *hard_state) {
    uint8_t bytes[HARD_STATE_SIZE];
    hard_state_encode(hard_state, bytes);
    return disk_replace(disk, directory, HARD_STATE_NAME ".new", HARD_STATE_NAME, bytes, sizeof bytes);
}
