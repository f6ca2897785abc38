/* recovery.h: from a data directory to a state: the index, the log's tail on top, and a core that has applied it. */
#ifndef TARRY_SHELL_RECOVERY_H
#define TARRY_SHELL_RECOVERY_H

#include <stddef.h>

struct shell;

/* Opens index and log (read them from shell->dir and shell->config), refuses what does not fit together (LOG-3), and
 * fills in log, index, core, clock and epoch. 0, or 1 with a sentence. No thread of ours runs yet. */
int recovery_run(struct shell *shell, char *message, size_t message_size);

#endif
