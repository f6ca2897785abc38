/* gateways.h: connects the gateway (broker/gateway) to this broker: the callbacks through which it makes requests and
 * checks principals. */
#ifndef TARRY_SHELL_GATEWAYS_H
#define TARRY_SHELL_GATEWAYS_H

#include "gateway_host.h"

struct authorizer;
struct lanes;
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

#endif
