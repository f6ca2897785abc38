/* logfmt.h: the broker's log: one line of `name=value` pairs an event, on standard error.
 *
 *     logfmt("torn_tail", "segment=%u offset=%" PRIu64, 12, offset);
 *     logfmt_text("refused", "reason", sentence);
 *
 * Where standard error is systemd's journal, a line becomes an entry there, with a field for each pair (journal.h).
 * A line is written by one write(2), so lines of several threads do not mix. Any thread. */
#ifndef TARRY_SHELL_LOGFMT_H
#define TARRY_SHELL_LOGFMT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* event=<event> and what `format` makes. Values that may hold blanks or quotes go through logfmt_quote first. */
void logfmt(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* … that an operator must see: with level=warning, and with the journal's own mark of it where that reads the lines
 * (sd-daemon(3)). */
void logfmt_warning(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define LOGFMT_VALUE_SIZE 512
/* `text` as a value: quoted if it must be, control characters escaped, cut to fit. Returns `out`. */
const char *logfmt_quote(const char *text, char out[LOGFMT_VALUE_SIZE]);

/* For what any client can cause as often as it likes: at most LOGFMT_BURST lines a second and place. */
#define LOGFMT_BURST 5
struct logfmt_limit {
    _Atomic uint64_t second;
    _Atomic uint32_t count;
};
bool logfmt_allowed(struct logfmt_limit *limit);

/* For what goes on until an operator ends it: the same sentence is logged at once, then after 1 s, 2 s, 4 s … and every
 * 60 s. All zeros at first. One thread. */
#define LOGFMT_REPEAT_FIRST_S 1u
#define LOGFMT_REPEAT_MAX_S 60u
struct logfmt_repeat {
    uint64_t sentence_hash; /* of the sentence logged last */
    uint64_t next_s;        /* MONOTONIC, seconds: not before this again */
    uint64_t wait_s;
    uint64_t count; /* how often it came since it was logged first */
};
/* Whether `sentence` is to be logged now. `out_count`: how often it has come, this time included. */
bool logfmt_repeat_due(struct logfmt_repeat *repeat, const char *sentence, uint64_t now_s, uint64_t *out_count);
/* … by the clock: logs event=<event> what `format` makes, reason=<sentence> and, from the second line on, times=N. */
void logfmt_repeated(struct logfmt_repeat *repeat, const char *sentence, const char *event, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
