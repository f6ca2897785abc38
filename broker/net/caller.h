/* caller.h: the client at the other end of a connection, as far as the door knows it, and what is decided about it.
 *
 * The door asks once for each upgrade and for each page, before it accepts the one or answers the other; no byte of a
 * body has been taken by then. An admitted client has a principal, which the connection keeps and hands on with each of
 * its requests. What a principal is only the callee knows: the door compares nothing and gives it back as it came. */
#ifndef TARRY_NET_CALLER_H
#define TARRY_NET_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum caller_way {
    CALLER_LOOPBACK, /* TCP, from an address of this machine's loopback */
    CALLER_NETWORK,  /* TCP, from any other */
    CALLER_UNIX      /* a Unix socket: uid and pid are known */
};

enum caller_place { CALLER_RPC, CALLER_LANE, CALLER_PAGE };

/* All that it points to is valid during the judgement only. */
struct net_caller {
    const char *peer; /* "127.0.0.1:40312", "unix:uid=1000,pid=77"; for logs and records */
    enum caller_way way;
    enum caller_place place;
    const char *path; /* "/rpc", "/lane/7", "/metrics" */
    uint64_t session; /* CALLER_LANE: whose secret it brought (lane_asks' word); else 0 */
    bool over_tls;
    uint32_t uid; /* CALLER_UNIX: of the process that connected (SO_PEERCRED) */
    uint32_t pid;
    const char *certificate; /* the name in the client certificate that was verified; "": none was shown */
    /* What stood behind "Bearer " in Authorization, without an end mark; size 0: there was none. Of a lane it is the
     * session's secret. */
    const char *token;
    size_t token_size;
    uint64_t former; /* the connection's principal so far, whose place the new one takes; 0: none */
};

struct caller_verdict {
    unsigned status;      /* 0: let in; else 401 (unknown), 403 (may not), 429 (too much) */
    const char *sentence; /* of a refusal, CALLER_SENTENCE_MAX bytes at most, without control characters; copied */
    uint64_t principal;   /* of an admitted client */
    bool wants_token;     /* a refusal that another token would mend: the answer says so (WWW-Authenticate) */
};

#define CALLER_SENTENCE_MAX 256u

#endif
