/* identity.c: see identity.h. */
#include "identity.h"

#include <assert.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "disk.h"
#include "frame.h"
#include "tarry_limits.h"

#define PATH_SIZE 4096
#define MAGIC_SIZE 8
#define SUM_SIZE 8

static const uint8_t identity_magic[MAGIC_SIZE] = {'T', 'A', 'R', 'R', 'Y', 'I', 'D', '1'};
static const uint8_t member_magic[MAGIC_SIZE] = {'T', 'A', 'R', 'R', 'Y', 'M', 'B', '1'};

static int refuse(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *message, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, IDENTITY_MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    return 1;
}

void identity_make(struct identity *out) {
    randombytes_buf(out->cluster, sizeof out->cluster);
    randombytes_buf(out->secret, sizeof out->secret);
}

void member_make(struct member *out) {
    *out = (struct member){.epoch_min = 1};
    randombytes_buf(out->id, sizeof out->id);
}

bool identity_copy(const struct identity *from, const struct member *parent, uint32_t epoch_last,
                   struct identity *out_identity, struct member *out_member) {
    uint32_t last = parent->epoch_min > epoch_last ? parent->epoch_min : epoch_last;
    if (last > UINT32_MAX - 2 * RESTORE_EPOCH_GAP - 1) return false;
    identity_make(out_identity);
    memcpy(out_identity->cluster, from->cluster, sizeof from->cluster);
    member_make(out_member);
    memcpy(out_member->parent, parent->id, sizeof parent->id);
    out_member->epoch_min = last + RESTORE_EPOCH_GAP + randombytes_uniform(RESTORE_EPOCH_GAP);
    return true;
}

void identity_encode(const struct identity *identity, uint8_t out[IDENTITY_SIZE]) {
    uint8_t *at = out;
    memcpy(at, identity_magic, MAGIC_SIZE);
    at = put_u32(at + MAGIC_SIZE, FORMAT_VERSION);
    at = put_u32(at, 0);
    memcpy(at, identity->cluster, CLUSTER_ID_SIZE);
    at += CLUSTER_ID_SIZE;
    memcpy(at, identity->secret, IDENTITY_SECRET_SIZE);
    at += IDENTITY_SECRET_SIZE;
    assert(at == out + IDENTITY_SIZE - SUM_SIZE);
    put_u64(at, frame_sum(out, IDENTITY_SIZE - SUM_SIZE));
}

void member_encode(const struct member *member, uint8_t out[MEMBER_SIZE]) {
    uint8_t *at = out;
    memcpy(at, member_magic, MAGIC_SIZE);
    at = put_u32(at + MAGIC_SIZE, FORMAT_VERSION);
    at = put_u32(at, member->epoch_min);
    memcpy(at, member->id, MEMBER_ID_SIZE);
    at += MEMBER_ID_SIZE;
    memcpy(at, member->parent, MEMBER_ID_SIZE);
    at += MEMBER_ID_SIZE;
    assert(at == out + MEMBER_SIZE - SUM_SIZE);
    put_u64(at, frame_sum(out, MEMBER_SIZE - SUM_SIZE));
}

/* Checks the common fields of both files: magic, version and checksum. */
static int check_file(const uint8_t *bytes, size_t size, size_t size_right, const uint8_t magic[MAGIC_SIZE],
                      const char *path, char message[IDENTITY_MESSAGE_SIZE]) {
    if (size < MAGIC_SIZE + 4 || memcmp(bytes, magic, MAGIC_SIZE) != 0)
        return refuse(message, "%s is not an identity file of Tarry; give another directory", path);
    uint32_t version = get_u32(bytes + MAGIC_SIZE);
    if (version != FORMAT_VERSION)
        return refuse(message, "%s: the data directory has format version %u, this program reads version %u", path,
                      version, FORMAT_VERSION);
    if (size != size_right || get_u64(bytes + size - SUM_SIZE) != frame_sum(bytes, size - SUM_SIZE))
        return refuse(message, "identity file %s is damaged; restore it from a copy of the data directory", path);
    return 0;
}

int identity_decode(const uint8_t *bytes, size_t size, const char *path, struct identity *out,
                    char message[IDENTITY_MESSAGE_SIZE]) {
    if (check_file(bytes, size, IDENTITY_SIZE, identity_magic, path, message) != 0) return 1;
    if (get_u32(bytes + MAGIC_SIZE + 4) != 0)
        return refuse(message, "identity file %s has reserved bytes that are not 0: another program wrote it", path);
    memcpy(out->cluster, bytes + 16, CLUSTER_ID_SIZE);
    memcpy(out->secret, bytes + 16 + CLUSTER_ID_SIZE, IDENTITY_SECRET_SIZE);
    return 0;
}

int member_decode(const uint8_t *bytes, size_t size, const char *path, struct member *out,
                  char message[IDENTITY_MESSAGE_SIZE]) {
    if (check_file(bytes, size, MEMBER_SIZE, member_magic, path, message) != 0) return 1;
    out->epoch_min = get_u32(bytes + MAGIC_SIZE + 4);
    memcpy(out->id, bytes + 16, MEMBER_ID_SIZE);
    memcpy(out->parent, bytes + 16 + MEMBER_ID_SIZE, MEMBER_ID_SIZE);
    return 0;
}

int identity_read(const char *directory, struct identity *out, char message[IDENTITY_MESSAGE_SIZE]) {
    char path[PATH_SIZE];
    uint8_t bytes[IDENTITY_SIZE + 1];
    snprintf(path, sizeof path, "%s/%s", directory, IDENTITY_NAME);
    int64_t size = disk_read_file(&disk_posix, directory, IDENTITY_NAME, bytes, sizeof bytes);
    return size < 0 ? (int)size : identity_decode(bytes, (size_t)size, path, out, message);
}

int member_read(const char *directory, struct member *out, char message[IDENTITY_MESSAGE_SIZE]) {
    char path[PATH_SIZE];
    uint8_t bytes[MEMBER_SIZE + 1];
    snprintf(path, sizeof path, "%s/%s", directory, MEMBER_NAME);
    int64_t size = disk_read_file(&disk_posix, directory, MEMBER_NAME, bytes, sizeof bytes);
    return size < 0 ? (int)size : member_decode(bytes, (size_t)size, path, out, message);
}

int identity_write(const char *directory, const struct identity *identity) {
    uint8_t bytes[IDENTITY_SIZE];
    identity_encode(identity, bytes);
    return disk_replace(&disk_posix, directory, IDENTITY_NAME ".new", IDENTITY_NAME, bytes, sizeof bytes);
}

int member_write(const char *directory, const struct member *member) {
    uint8_t bytes[MEMBER_SIZE];
    member_encode(member, bytes);
    return disk_replace(&disk_posix, directory, MEMBER_NAME ".new", MEMBER_NAME, bytes, sizeof bytes);
}

bool directory_is_partial(const char *directory) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", directory, BACKUP_PARTIAL_NAME);
    return access(path, F_OK) == 0;
}

void member_format(const uint8_t id[MEMBER_ID_SIZE], char out[MEMBER_TEXT_SIZE]) {
    sodium_bin2hex(out, MEMBER_TEXT_SIZE, id, MEMBER_ID_SIZE);
}
