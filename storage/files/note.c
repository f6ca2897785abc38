/* note.c: see note.h. */
#include "note.h"

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

bool note_has_peer(const struct note *note) {
    static const uint8_t nobody[MEMBER_ID_SIZE];
    return memcmp(note->peer, nobody, MEMBER_ID_SIZE) != 0;
}

bool note_is_another(const struct note *note, const uint8_t member[MEMBER_ID_SIZE]) {
    return note_has_peer(note) && memcmp(note->peer, member, MEMBER_ID_SIZE) != 0;
}

void note_encode(const struct note *note, uint8_t out[NOTE_SIZE]) {
    memcpy(out + AT_MAGIC, note_magic, sizeof note_magic);
    put_u32(out + AT_VERSION, FORMAT_VERSION);
    put_u32(out + AT_NODE, note->node);
    put_u32(out + AT_FLOOR, note->floor);
    put_u32(out + AT_LED, note->led);
    put_u32(out + AT_FLAGS, (note->in_sync ? FLAG_IN_SYNC : 0u) | (note->alone ? FLAG_ALONE : 0u));
    put_u32(out + AT_RECORDED, note->recorded);
    put_u64(out + AT_RUNS, note->runs);
    memcpy(out + AT_PEER, note->peer, MEMBER_ID_SIZE);
    put_u64(out + AT_SUM, frame_sum(out, AT_SUM));
}

int note_decode(const uint8_t *bytes, size_t size, const char *path, struct note *out,
                char message[IDENTITY_MESSAGE_SIZE]) {
    bool is_ours = size >= AT_NODE && memcmp(bytes, note_magic, sizeof note_magic) == 0;
    if (is_ours && get_u32(bytes + AT_VERSION) != FORMAT_VERSION) {
        snprintf(message, IDENTITY_MESSAGE_SIZE, "%s has format version %u, this program reads version %u", path,
                 get_u32(bytes + AT_VERSION), FORMAT_VERSION);
        return 1;
    }
    bool is_whole = is_ours && size == NOTE_SIZE && get_u64(bytes + AT_SUM) == frame_sum(bytes, AT_SUM);
    if (!is_whole || get_u32(bytes + AT_NODE) > 1 || get_u32(bytes + AT_FLAGS) > (FLAG_IN_SYNC | FLAG_ALONE)) {
        snprintf(message, IDENTITY_MESSAGE_SIZE,
                 "%s is damaged; it holds what this node has promised to the other one, so it cannot be made up. Let "
                 "the node join again with an empty data directory, or restore this one",
                 path);
        return 1;
    }
    *out = (struct note){
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

int note_read(const struct disk *disk, const char *directory, struct note *out, char message[IDENTITY_MESSAGE_SIZE]) {
    char path[4096];
    uint8_t bytes[NOTE_SIZE + 1];
    int64_t size = disk_read_file(disk, directory, NOTE_NAME, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/%s", directory, NOTE_NAME);
    return size < 0 ? (int)size : note_decode(bytes, (size_t)size, path, out, message);
}

int note_write(const struct disk *disk, const char *directory, const struct note *note) {
    uint8_t bytes[NOTE_SIZE];
    note_encode(note, bytes);
    return disk_replace(disk, directory, NOTE_NAME ".new", NOTE_NAME, bytes, sizeof bytes);
}
