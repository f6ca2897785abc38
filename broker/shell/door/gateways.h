/* gateways.h: the gateway (broker/gateway) in this broker: what it calls, and which clients it serves. */
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

/* `needs` must outlive it. NULL: no memory. The door is to be told of it before it starts (gateway_serve). */
struct gateway *gateways_new(const struct gateways_needs *needs);

#endif
