/* fuzz_identity.c: the files that name a directory's owner and a pair's promises, and the file names of a backup. An
 * accepted identity equals, byte for byte, what would be written for it; an accepted name leads to no other
 * directory. */
#include <assert.h>
#include <string.h>

#include "backup_directory.h"
#include "fuzz.h"
#include "hard_state.h"
#include "identity.h"

static void try_name(const uint8_t *data, size_t size) {
    char name[BACKUP_NAME_SIZE_MAX + 2];
    if (size >= sizeof name) return;
    memcpy(name, data, size);
    name[size] = 0;
    if (!backup_name_is_right(name)) return;
    assert(name[0] != '/' && strstr(name, "..") != name && strstr(name, "/.") == NULL);
    assert(strchr(name, '/') == strrchr(name, '/') && strcmp(name, BACKUP_PARTIAL_NAME) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct identity identity;
    struct member member;
    char message[IDENTITY_MESSAGE_SIZE] = "";
    uint8_t again[IDENTITY_SIZE];
    if (identity_decode(data, size, "identity", &identity, message) == 0) {
        identity_encode(&identity, again);
        assert(size == IDENTITY_SIZE && memcmp(again, data, size) == 0);
    } else {
        assert(message[0] != 0);
    }
    message[0] = 0;
    if (member_decode(data, size, "member", &member, message) == 0) {
        member_encode(&member, again);
        assert(size == MEMBER_SIZE && memcmp(again, data, size) == 0);
    } else {
        assert(message[0] != 0);
    }
    struct hard_state hard_state;
    message[0] = 0;
    if (hard_state_decode(data, size, "pair", &hard_state, message) == 0) {
        hard_state_encode(&hard_state, again);
        assert(size == HARD_STATE_SIZE && memcmp(again, data, size) == 0);
    } else {
        assert(message[0] != 0);
    }
    try_name(data, size);
    return 0;
}
