/* http.h: the callbacks of the door (door_calls): requests, lanes, the pages /healthz, /readyz and /metrics for people
 * and monitoring, and log lines about refused clients. */
#ifndef TARRY_SHELL_HTTP_H
#define TARRY_SHELL_HTTP_H

#include "door.h"
#include "stats.h"

struct authorizer;
struct gateway;
struct inbox;
struct lanes;
struct lone;
struct rpc;
struct run;

struct http_needs {
    const struct run *run;
    struct inbox *inbox;
    struct rpc *rpc;
    struct authorizer *authorizer;
    struct lanes *lanes;
    struct lone *lone;
    struct readiness readiness;
    /* `door` and `gateway` are set before the door starts. */
    struct door *door;
    struct gateway *gateway;
};

/* Returns the callbacks of the door: requests, lanes and pages. `needs` must outlive the door. */
struct door_calls http_calls(const struct http_needs *needs);

#endif
