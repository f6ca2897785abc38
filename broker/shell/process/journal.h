/* journal.h: sends a log line to systemd's journal, with one field per pair. `event=ready url=ws://…` becomes
 * TARRY_EVENT=ready and TARRY_URL=ws://…, beside MESSAGE, PRIORITY and SYSLOG_IDENTIFIER. So `journalctl
 * TARRY_EVENT=torn_tail` finds such lines. Uses the journal's native protocol, systemd.journal-fields(7). */
#ifndef TARRY_SHELL_JOURNAL_H
#define TARRY_SHELL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_FIELDS_MAX 64u
#define JOURNAL_ENTRY_SIZE 6144u

/* Sends `line`: logfmt, `size` bytes without the newline; `priority` as in syslog(3). Returns false if the line was not
 * sent and must be written to standard error. Never waits. Any thread. */
bool journal_send(const char *line, size_t size, int priority);
/* Makes the bytes of the entry, for journal_send and tests. Returns 0 if they do not fit. */
size_t journal_entry(const char *line, size_t size, int priority, char out[JOURNAL_ENTRY_SIZE]);

#endif
