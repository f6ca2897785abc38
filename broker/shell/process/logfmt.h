/* logfmt.h: the broker's log: one line of `name=value` pairs per event, on standard error.
 *
 *     logfmt("torn_tail", "segment=%u offset=%" PRIu64, 12, offset);
 *     logfmt("refused", "reason=%s", logfmt_quote(sentence, quoted));
 *
 * If standard error is systemd's journal, a line becomes an entry there, with a field for each pair. Each
 * line is one write(2), so lines of different threads do not mix. Any thread. */
#ifndef TARRY_SHELL_LOGFMT_H
#define TARRY_SHELL_LOGFMT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Logs event=<event> and the formatted pairs. Quote values that may contain spaces or quotes with logfmt_quote. */
void logfmt(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Logs an event that an operator must see: with level=warning, and in the journal with its warning priority
 * (sd-daemon(3)). */
void logfmt_warning(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define LOGFMT_VALUE_SIZE 512
/* Formats `text` as a value: quoted if necessary, control characters escaped, cut to fit. Returns `out`. */
const char *logfmt_quote(const char *text, char out[LOGFMT_VALUE_SIZE]);

/* Limit for events that any client can cause repeatedly: at most LOGFMT_BURST lines per second and call site. */
#define LOGFMT_BURST 5
struct logfmt_limit {
    _Atomic uint64_t second;
    _Atomic uint32_t count;
};
bool logfmt_allowed(struct logfmt_limit *limit);

/* Limit for a problem that lasts until an operator ends it. The same message is logged at once, and again after 1 s, 2
 * s, 4 s …, in the end every 60 s. Initialized to zeros. One thread. */
#define LOGFMT_REPEAT_FIRST_S 1u
#define LOGFMT_REPEAT_MAX_S 60u
struct logfmt_repeat {
    uint64_t sentence_hash; /* hash of the message that was logged last */
    uint64_t next_s;        /* CLOCK_MONOTONIC in seconds, before which the message is not logged again */
    uint64_t wait_s;
    uint64_t count; /* occurrences since the message was first logged */
};
/* Returns whether to log `sentence` now. `out_count` is the number of its occurrences, including this one. */
bool logfmt_repeat_due(struct logfmt_repeat *repeat, const char *sentence, uint64_t now_s, uint64_t *out_count);
/* Logs event=<event>, the formatted pairs and reason=<sentence> if due now. The second and later lines add times=N. */
void logfmt_repeated(struct logfmt_repeat *repeat, const char *sentence, const char *event, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- systemd's journal */

/* A log line goes to systemd's journal as an entry with one field per pair. `event=ready url=ws://…` becomes
 * TARRY_EVENT=ready and TARRY_URL=ws://…, beside MESSAGE, PRIORITY and SYSLOG_IDENTIFIER. So `journalctl
 * TARRY_EVENT=torn_tail` finds such lines. Uses the journal's native protocol, systemd.journal-fields(7). */

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_FIELDS_MAX 64u
#define JOURNAL_ENTRY_SIZE 6144u

/* Makes the bytes of the journal's entry, for this file and tests. `line`: logfmt, `size` bytes without the newline;
 * `priority` as in syslog(3). Returns the number of bytes; 0: they do not fit. */
size_t journal_entry(const char *line, size_t size, int priority, char out[JOURNAL_ENTRY_SIZE]);

#endif
