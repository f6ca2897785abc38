/* file_presence.c: see file_presence.h. */
#include "file_presence.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNTIL_DIGITS 20
#define TEXT_SIZE (UNTIL_DIGITS + 1 + COORDINATOR_PRESENCE_SIZE_MAX + 1 + 1) /* "until text\n" */
#define LASTS_MAX_MS 600000 /* a lifetime longer than this was written before a reboot */
#define NAMED_PATH_SIZE (FILE_PRESENCE_PATH_SIZE + 32)

static void set_path(const struct file_presence *self, const char *name, char out[NAMED_PATH_SIZE]) {
    snprintf(out, NAMED_PATH_SIZE, "%s.%s", self->path, name);
}

void file_presence_init(struct file_presence *self, const char *path, uint32_t lasts_ms) {
    *self = (struct file_presence){.lasts_ms = lasts_ms};
    snprintf(self->path, sizeof self->path, "%s", path);
}

/* Writes the time until which this process is present. Returns whether it was written. */
static bool write_until(const struct file_presence *self, uint64_t until_ms) {
    char path[NAMED_PATH_SIZE], text[TEXT_SIZE];
    set_path(self, self->declared.name, path);
    int size = snprintf(text, sizeof text, "%020" PRIu64 " %s\n", until_ms, self->declared.text);
    int handle = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (handle < 0) return false;
    bool is_written = pwrite(handle, text, (size_t)size, 0) == size;
    if (is_written) (void)!ftruncate(handle, size);
    close(handle);
    return is_written;
}

enum file_presence_news file_presence_declare(struct file_presence *self, const struct presence *presence) {
    uint64_t now_ms = coordinator_now_ms();
    if (presence == NULL) {
        if (self->again_ms == 0) return FILE_PRESENCE_SAME;
        self->again_ms = 0;
        (void)write_until(self, 0);
        return FILE_PRESENCE_GONE;
    }
    bool is_same = strcmp(self->declared.name, presence->name) == 0 && strcmp(self->declared.text, presence->text) == 0;
    if (is_same && now_ms < self->again_ms) return FILE_PRESENCE_SAME;
    self->declared = *presence;
    self->again_ms = now_ms + self->lasts_ms / PRESENCE_PARTS;
    return write_until(self, now_ms + self->lasts_ms) ? FILE_PRESENCE_STANDS : FILE_PRESENCE_GONE;
}

/* Reads the text of the presence `name` into `text`. Returns NULL if the process is not present, or its file is
 * invalid. */
static const char *find(const struct file_presence *self, const char *name, char text[TEXT_SIZE + 1]) {
    char path[NAMED_PATH_SIZE];
    set_path(self, name, path);
    int handle = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = handle < 0 ? -1 : read(handle, text, TEXT_SIZE);
    if (handle >= 0) close(handle);
    if (size < UNTIL_DIGITS + 2 || text[UNTIL_DIGITS] != ' ' || text[size - 1] != '\n') return NULL;
    text[size - 1] = text[UNTIL_DIGITS] = '\0';
    uint64_t until_ms = strtoull(text, NULL, 10), now_ms = coordinator_now_ms();
    bool is_over = until_ms <= now_ms || until_ms > now_ms + LASTS_MAX_MS;
    return is_over ? NULL : text + UNTIL_DIGITS + 1;
}

enum pair_outcome file_presence_read(const struct file_presence *self, struct coordinator_call *call) {
    char text[TEXT_SIZE + 1];
    const char *words = find(self, call->name, text);
    if (words == NULL) return PAIR_DONE;
    call->version = 1;
    call->size = strlen(words);
    memcpy(call->value, words, call->size + 1);
    return PAIR_DONE;
}

void file_presence_watch(struct file_presence *self, const char *name) {
    snprintf(self->watched, sizeof self->watched, "%s", name);
}

bool file_presence_look(struct file_presence *self) {
    char text[TEXT_SIZE + 1];
    if (self->watched[0] == '\0') return false;
    const char *words = find(self, self->watched, text);
    if (words == NULL) words = "";
    if (strcmp(words, self->words) == 0) return false;
    snprintf(self->words, sizeof self->words, "%s", words);
    return true;
}
