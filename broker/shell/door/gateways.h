/* gateways.h: connects the gateway (broker/gateway) to this broker: the callbacks through which it makes requests and
 * checks principals. Also connects webhooks (broker/push), which use the gateway. */
#ifndef TARRY_SHELL_GATEWAYS_H
#define TARRY_SHELL_GATEWAYS_H

#include <stddef.h>

#include "gateway_host.h"

struct authorizer;
struct config;
struct datadir;
struct lanes;
struct push;
struct rpc;
struct run;

struct gateways_needs {
    const struct run *run;
    struct rpc *rpc;
    struct authorizer *authorizer;
    struct lanes *lanes;
};

/* Returns the gateway, or NULL if memory is exhausted. `needs` must outlive it. Register it with the door before the
 * door starts (gateway_serve). */
struct gateway *gateways_new(const struct gateways_needs *needs);

/* ---- webhooks */

/* Connects webhooks to this broker: the file of secrets, the log, and the number of concurrent requests. */

/* Creates the webhook sender: after the gateway, before the door starts. `config` must outlive it. Returns NULL with an
 * error message if the file of secrets is given but wrong, or memory is exhausted. */
struct push *pushes_new(const struct config *config, const struct datadir *dir, struct gateway *gateway, char *message,
                        size_t message_size);

#endif
