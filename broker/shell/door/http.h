/* http.h: what the door asks of the broker: the pages /healthz, /readyz and /metrics for people and monitoring, and,
 * for the log, whom it refused. */
#ifndef TARRY_SHELL_HTTP_H
#define TARRY_SHELL_HTTP_H

#include "door.h"

struct shell;

/* What the door calls, of all that answers it: requests, lanes and pages. */
struct door_calls http_calls(struct shell *shell);

#endif
