/* gateways.h: the gateway (broker/gateway) in this broker: what it calls, and whom it serves. */
#ifndef TARRY_SHELL_GATEWAYS_H
#define TARRY_SHELL_GATEWAYS_H

#include "gateway_host.h"

struct shell;

/* NULL: no memory. The door is to be told of it before it starts (gateway_serve). */
struct gateway *gateways_new(struct shell *shell);

#endif
