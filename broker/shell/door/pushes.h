/* pushes.h: connects webhooks (broker/push) to this broker: the file of secrets, the log, and the number of concurrent
 * requests. */
#ifndef TARRY_SHELL_PUSHES_H
#define TARRY_SHELL_PUSHES_H

#include <stddef.h>

struct config;
struct datadir;
struct gateway;
struct push;

/* Creates the webhook sender: after the gateway, before the door starts. `config` must outlive it. Returns NULL with an
 * error message if the file of secrets is given but wrong, or memory is exhausted. */
struct push *pushes_new(const struct config *config, const struct datadir *dir, struct gateway *gateway, char *message,
                        size_t message_size);

#endif
