/* logfmt.c: see logfmt.h. */
#include "logfmt.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* ---- systemd's journal */

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

/* Sends the line to the journal. Returns false if it was not sent and must be written to standard error. Never waits.
 * Any thread. */
static bool journal_send(const char *line, size_t size, int priority) {
    char entry[JOURNAL_ENTRY_SIZE];
    if (!journal_is_there()) return false;
    size_t entry_size = journal_entry(line, size, priority, entry);
    return entry_size > 0 && send(journal, entry, entry_size, MSG_NOSIGNAL) == (ssize_t)entry_size;
}

/* ---- lines */

#define LINE_SIZE 2048

static void put_line(int priority, const char *event, const char *level, const char *format, va_list arguments) {
    char line[LINE_SIZE];
    const bool is_marked = priority < LOG_INFO && getenv("JOURNAL_STREAM") != NULL;
    int used = snprintf(line, sizeof(line), "%sevent=%s%s%s", is_marked ? "<4>" : "", event, level,
                        format[0] == '\0' ? "" : " ");
    used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, arguments);
    size_t size = (size_t)used < sizeof(line) - 1 ? (size_t)used : sizeof(line) - 2;
    const size_t mark_size = is_marked ? strlen("<4>") : 0;
    if (journal_send(line + mark_size, size - mark_size, priority)) return;
    line[size++] = '\n';
    /* Errors are ignored, because they cannot be reported anywhere else. */
    while (write(STDERR_FILENO, line, size) < 0 && errno == EINTR) {
    }
}

void logfmt(const char *event, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_line(LOG_INFO, event, "", format, arguments);
    va_end(arguments);
}

void logfmt_warning(const char *event, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    put_line(LOG_WARNING, event, " level=warning", format, arguments);
    va_end(arguments);
}

static bool is_plain(const char *text) {
    if (*text == '\0') return false;
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == '"' || *text == '=' || *text == '\\' || *text == 0x7f) return false;
    return true;
}

const char *logfmt_quote(const char *text, char out[LOGFMT_VALUE_SIZE]) {
    if (is_plain(text) && strlen(text) < LOGFMT_VALUE_SIZE) {
        memcpy(out, text, strlen(text) + 1);
        return out;
    }
    size_t used = 0;
    out[used++] = '"';
    for (; *text != '\0' && used < LOGFMT_VALUE_SIZE - 8; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') out[used++] = '\\';
        if (c < ' ' || c == 0x7f)
            used += (size_t)snprintf(out + used, LOGFMT_VALUE_SIZE - used, "\\x%02x", c);
        else
            out[used++] = (char)c;
    }
    out[used++] = '"';
    out[used] = '\0';
    return out;
}

bool logfmt_allowed(struct logfmt_limit *limit) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    uint64_t second = (uint64_t)now.tv_sec;
    /* If two threads set limit->count to 0 at the same time, only a few more lines are logged. */
    if (atomic_exchange(&limit->second, second) != second) atomic_store(&limit->count, 0);
    return atomic_fetch_add(&limit->count, 1) < LOGFMT_BURST;
}

/* Returns the FNV-1a hash of the text. */
static uint64_t hash_of(const char *sentence) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *sentence != '\0'; sentence++) hash = (hash ^ (uint8_t)*sentence) * UINT64_C(0x100000001b3);
    return hash;
}

bool logfmt_repeat_due(struct logfmt_repeat *repeat, const char *sentence, uint64_t now_s, uint64_t *out_count) {
    uint64_t hash = hash_of(sentence);
    bool is_other = repeat->count == 0 || repeat->sentence_hash != hash;
    bool is_over = now_s > repeat->next_s + LOGFMT_REPEAT_MAX_S; /* the same problem had ended, and occurs again */
    if (is_other || is_over) *repeat = (struct logfmt_repeat){.sentence_hash = hash, .next_s = now_s};
    *out_count = ++repeat->count;
    if (now_s < repeat->next_s) return false;
    repeat->wait_s = repeat->wait_s == 0 ? LOGFMT_REPEAT_FIRST_S : 2 * repeat->wait_s;
    if (repeat->wait_s > LOGFMT_REPEAT_MAX_S) repeat->wait_s = LOGFMT_REPEAT_MAX_S;
    repeat->next_s = now_s + repeat->wait_s;
    return true;
}

void logfmt_repeated(struct logfmt_repeat *repeat, const char *sentence, const char *event, const char *format, ...) {
    char more[LOGFMT_VALUE_SIZE], quoted[LOGFMT_VALUE_SIZE], times[32] = "";
    struct timespec now;
    uint64_t count;
    va_list arguments;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!logfmt_repeat_due(repeat, sentence, (uint64_t)now.tv_sec, &count)) return;
    va_start(arguments, format);
    vsnprintf(more, sizeof(more), format, arguments);
    va_end(arguments);
    if (count > 1) snprintf(times, sizeof(times), " times=%" PRIu64, count);
    logfmt(event, "%s%sreason=%s%s", more, more[0] != '\0' ? " " : "", logfmt_quote(sentence, quoted), times);
}
