/* pushes.h: webhooks (broker/push) in this broker: the file of secrets, the log, and how many requests there is room
 * for. */
#ifndef TARRY_SHELL_PUSHES_H
#define TARRY_SHELL_PUSHES_H

#include <stddef.h>

struct config;
struct datadir;
struct gateway;
struct push;

/* After the gateway, before the door starts. `config` must outlive it. NULL with a sentence: the file of secrets is
 * given and wrong, or there is no memory. */
struct push *pushes_new(const struct config *config, const struct datadir *dir, struct gateway *gateway, char *message,
                        size_t message_size);

#endif
