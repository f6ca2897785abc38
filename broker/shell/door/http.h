/* http.h: all that the door asks of the broker (door_calls): requests, lanes, the pages /healthz, /readyz and /metrics
 * for people and monitoring, and, for the log, which clients it refused. */
#ifndef TARRY_SHELL_HTTP_H
#define TARRY_SHELL_HTTP_H

#include "door.h"
#include "readiness.h"

struct authorizer;
struct gateway;
struct inbox;
struct lanes;
struct lone;
struct rpc;
struct run;

struct http_needs {
    const struct run *run;
    struct inbox *inbox; /* the core's */
    struct rpc *rpc;
    struct authorizer *authorizer;
    struct lanes *lanes;
    struct lone *lone;
    struct readiness readiness;
    /* Both are there before the door starts. */
    struct door *door;
    struct gateway *gateway;
};

/* What the door calls, of all that answers it: requests, lanes and pages. `needs` must outlive the door. */
struct door_calls http_calls(const struct http_needs *needs);

#endif
