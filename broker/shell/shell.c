/* shell.c: see shell.h. */
#include "shell.h"

uint64_t shell_committed(const struct shell *shell) {
    return shell->node.on ? node_committed(&shell->node) : log_durable(shell->log);
}
