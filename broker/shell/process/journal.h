/* journal.h: a line of the log as an entry of systemd's journal, with a field for each of its pairs: `event=ready
 * url=ws://…` has TARRY_EVENT=ready, TARRY_URL=ws://… beside MESSAGE, PRIORITY and SYSLOG_IDENTIFIER. So
 * `journalctl TARRY_EVENT=torn_tail` finds it. (The journal's native protocol, systemd.journal-fields(7).) */
#ifndef TARRY_SHELL_JOURNAL_H
#define TARRY_SHELL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_FIELDS_MAX 64u
#define JOURNAL_ENTRY_SIZE 6144u

/* `line`: logfmt, `size` bytes without the line's end; `priority` as in syslog(3). False: it was not taken, and is to
 * be written to standard error. Never waits. Any thread. */
bool journal_send(const char *line, size_t size, int priority);
/* The entry's bytes, for journal_send and tests. 0: it does not fit. */
size_t journal_entry(const char *line, size_t size, int priority, char out[JOURNAL_ENTRY_SIZE]);

#endif
