/* pushes.h: webhooks (broker/push) in this broker: the file of secrets, the log, and how many requests there is room
 * for. */
#ifndef TARRY_SHELL_PUSHES_H
#define TARRY_SHELL_PUSHES_H

#include <stddef.h>

struct push;
struct shell;

/* After the gateway, before the door starts. NULL with a sentence: the file of secrets is given and wrong, or there is
 * no memory. */
struct push *pushes_new(struct shell *shell, char *message, size_t message_size);

#endif
