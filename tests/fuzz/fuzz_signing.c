/* fuzz_signing.c: key files, heads as text, and the file of heads. No bytes crash the parsers. An accepted key or head
 * equals exactly what would be written for it. A file of heads is read up to its torn end, and can be continued there.
 *
 * The input's first byte selects the kind of the remaining bytes: the text of a key file, a head as text, or a file of
 * heads. For a file of heads, the second byte says which of the heads are valid, with their checksums. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../same_head.h"
#include "bytes.h"
#include "fuzz.h"
#include "heads.h"
#include "input.h"

#define FILE_SIZE_MAX 4096u

/* ---- a disk with one file */

static uint8_t file[FILE_SIZE_MAX + HEAD_SIZE];
static size_t file_size;

static int disk_open(void *context, const char *path, int flags, int mode) {
    (void)context, (void)path, (void)mode;
    return file_size == 0 && (flags & O_CREAT) == 0 ? -ENOENT : 1;
}

static int disk_nothing(void *context, int handle) {
    (void)context, (void)handle;
    return 0;
}

static int disk_sync_directory(void *context, const char *path) {
    (void)context, (void)path;
    return 0;
}

static int64_t disk_pread(void *context, int handle, void *out, size_t size, uint64_t offset) {
    (void)context, (void)handle;
    if (offset >= file_size) return 0;
    if (size > file_size - offset) size = file_size - offset;
    memcpy(out, file + offset, size);
    return (int64_t)size;
}

static int64_t disk_pwrite(void *context, int handle, const void *data, size_t size, uint64_t offset) {
    (void)context, (void)handle;
    assert(offset + size <= sizeof(file));
    memcpy(file + offset, data, size);
    if (offset + size > file_size) file_size = offset + size;
    return (int64_t)size;
}

static int64_t disk_size(void *context, int handle) {
    (void)context, (void)handle;
    return (int64_t)file_size;
}

static const struct disk disk = {
    .open = disk_open,
    .close = disk_nothing,
    .pread = disk_pread,
    .pwrite = disk_pwrite,
    .datasync = disk_nothing,
    .size = disk_size,
    .sync_directory = disk_sync_directory,
};

/* ---- the checks */

static void try_key(const char *text, size_t size) {
    struct sign_secret secret;
    struct sign_public public;
    char again[SIGN_KEY_TEXT_SIZE];
    const char *problem = sign_secret_parse(text, size, &secret);
    assert(problem == NULL || strlen(problem) > 10);
    if (problem == NULL) assert(sign_secret_format(&secret, again) == size && memcmp(again, text, size) == 0);
    bool is_secret = problem == NULL;
    problem = sign_public_parse(text, size, &public);
    assert(problem == NULL || strlen(problem) > 10);
    if (problem == NULL) assert(sign_public_format(&public, again) == size && memcmp(again, text, size) == 0);
    assert(!is_secret || problem != NULL);
}

static void try_head_text(const uint8_t *data, size_t size) {
    char text[2 * HEAD_TEXT_SIZE], again[HEAD_TEXT_SIZE];
    struct head head;
    if (size >= sizeof(text)) size = sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = 0;
    if (!head_parse(text, &head)) return;
    head_format(&head, again);
    const char *at = text + strspn(text, " \t\r\n");
    for (size_t i = 0; again[i] != 0; i++) assert((at[i] | 0x20) == (again[i] | 0x20));
}

/* Appends to the file after the last valid entry. */
static void try_append(struct heads *heads) {
    struct head head = {.number = 7, .position = 4096}, read;
    uint64_t count = heads->count;
    if (file_size > FILE_SIZE_MAX) return;
    assert(heads_append(heads, &head) == 0 && heads->count == count + 1);
    assert(heads_read(heads, count, &read) == 0 && is_same_head(&read, &head));
    heads_close(heads);
    assert(heads_open(heads, &disk, "/") == 0 && heads->count == count + 1 && heads->torn_bytes == 0);
}

static void try_file(struct input *input) {
    uint8_t whole = input_byte(input);
    file_size = input->size < FILE_SIZE_MAX ? input->size : FILE_SIZE_MAX;
    if (file_size > 0) memcpy(file, input->data, file_size);
    memset(file + file_size, 0, sizeof(file) - file_size);
    for (size_t i = 0; i < 8 && (i + 1) * HEAD_SIZE <= file_size; i++) {
        uint8_t *at = file + i * HEAD_SIZE;
        if ((whole >> i & 1) == 0) continue;
        memcpy(at, "TARRYHD1", 8);
        put_u32(at + 76, 0);
        put_u64(at + HEAD_SIZE - 8, frame_sum(at, HEAD_SIZE - 8));
    }
    struct heads heads;
    assert(heads_open(&heads, &disk, "/") == 0);
    assert(heads.count * HEAD_SIZE + heads.torn_bytes == file_size && heads.torn_bytes <= HEAD_SIZE);
    struct head head;
    uint64_t damaged;
    for (uint64_t i = 0; i < heads.count; i++) {
        uint8_t again[HEAD_SIZE];
        int result = heads_read(&heads, i, &head);
        assert(result == 0 || (result == 1 && (i + 1 < heads.count || heads.torn_bytes > 0)));
        assert(i >= 8 || (whole >> i & 1) == 0 || result == 0);
        if (result != 0) continue;
        head_encode(&head, again);
        assert(memcmp(again, file + i * HEAD_SIZE, HEAD_SIZE) == 0);
        assert(heads_last(&heads, head.signer, &head, &damaged) <= 1);
    }
    try_append(&heads);
    heads_close(&heads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (sodium_init() < 0) abort();
    struct input input = {data, size};
    switch (input_byte(&input) % 3) {
    case 0:
        try_key((const char *)input.data, input.size);
        break;
    case 1:
        try_head_text(input.data, input.size);
        break;
    default:
        try_file(&input);
    }
    return 0;
}
