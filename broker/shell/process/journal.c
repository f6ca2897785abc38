/* journal.c: see journal.h. */
#include "journal.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct entry {
    char *out;
    size_t used;
    bool is_full;
};

static void put(struct entry *entry, const char *bytes, size_t size) {
    if (entry->is_full || size > JOURNAL_ENTRY_SIZE - entry->used) {
        entry->is_full = true;
        return;
    }
    memcpy(entry->out + entry->used, bytes, size);
    entry->used += size;
}

static void put_char(struct entry *entry, char c) {
    put(entry, &c, 1);
}

/* Writes a value without its quotes and escapes: `"a \"b\""` becomes `a "b"`. Returns the text after the value. The
 * written value contains no newline, which would start another field, because logfmt escapes newlines. */
static const char *put_value(struct entry *entry, const char *at, const char *end) {
    bool is_quoted = at < end && *at == '"';
    if (is_quoted) at++;
    for (; at < end && *at != (is_quoted ? '"' : ' '); at++) {
        bool is_escaped = is_quoted && *at == '\\' && at + 1 < end && (at[1] == '"' || at[1] == '\\');
        if (is_escaped) at++;
        put_char(entry, *at == '\n' ? ' ' : *at);
    }
    return is_quoted && at < end ? at + 1 : at;
}

static bool is_name(const char *at, size_t size) {
    /* The journal allows names of 64 bytes, and each name begins with TARRY_. */
    if (size == 0 || size > 56) return false;
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)at[i]) && at[i] != '_') return false;
    return true;
}

size_t journal_entry(const char *line, size_t size, int priority, char out[JOURNAL_ENTRY_SIZE]) {
    struct entry entry = {.out = out};
    const char *at = line, *end = line + size;
    char head[96];
    put(&entry, "MESSAGE=", 8);
    for (size_t i = 0; i < size; i++) put_char(&entry, line[i] == '\n' ? ' ' : line[i]);
    int head_size = snprintf(head, sizeof(head), "\nPRIORITY=%d\nSYSLOG_IDENTIFIER=tarryd\n", priority);
    put(&entry, head, (size_t)head_size);
    for (unsigned fields = 0; at < end && fields < JOURNAL_FIELDS_MAX; fields++) {
        while (at < end && *at == ' ') at++;
        const char *name = at;
        while (at < end && *at != '=' && *at != ' ') at++;
        if (at == end || *at != '=' || !is_name(name, (size_t)(at - name))) {
            while (at < end && *at != ' ') at++;
            continue;
        }
        put(&entry, "TARRY_", 6);
        for (const char *c = name; c < at; c++) put_char(&entry, (char)toupper((unsigned char)*c));
        put_char(&entry, '=');
        at = put_value(&entry, at + 1, end);
        put_char(&entry, '\n');
    }
    return entry.is_full ? 0 : entry.used;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int journal = -1;

static void look(void) {
    unsigned long long device, inode;
    struct stat status;
    const char *stream = getenv("JOURNAL_STREAM");
    if (stream == NULL || sscanf(stream, "%llu:%llu", &device, &inode) != 2) return;
    if (fstat(STDERR_FILENO, &status) != 0 || status.st_dev != device || status.st_ino != inode) return;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        journal = fd;
    else if (fd >= 0)
        close(fd);
}

/* Returns whether standard error is the journal's stream ($JOURNAL_STREAM has its device and inode). Any thread. */
static bool journal_is_there(void) {
    pthread_once(&once, look);
    return journal >= 0;
}

bool journal_send(const char *line, size_t size, int priority) {
    char entry[JOURNAL_ENTRY_SIZE];
    if (!journal_is_there()) return false;
    size_t entry_size = journal_entry(line, size, priority, entry);
    return entry_size > 0 && send(journal, entry, entry_size, MSG_NOSIGNAL) == (ssize_t)entry_size;
}
