/* logfmt.c: see logfmt.h. */
#include "logfmt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"

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
    /* If two threads reset the count at the same time, only a few more lines are logged. */
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
