/* caller.h: the client at the other end of a connection, as the door knows it, and the decision whether it is admitted.
 *
 * The door asks for a decision before it accepts an upgrade or serves a page, and before it reads a body. An admitted
 * client has a principal, which is a number. The connection stores the number and passes it on with each request. Only
 * the callee knows what the number means. */
#ifndef TARRY_NET_CALLER_H
#define TARRY_NET_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum caller_way {
    CALLER_LOOPBACK, /* connected by TCP, from an address of this machine's loopback */
    CALLER_NETWORK,  /* connected by TCP, from any other address */
    CALLER_UNIX      /* connected by a Unix socket; uid and pid are known */
};

enum caller_place { CALLER_RPC, CALLER_LANE, CALLER_PAGE };

/* A client to be judged; all pointers are valid only during the call. */
struct net_caller {
    /* Address of the client for logs and records, such as "127.0.0.1:40312" or "unix:uid=1000,pid=77". */
    const char *peer;
    enum caller_way way;
    enum caller_place place;
    const char *path; /* requested path, such as "/rpc", "/lane/7" or "/metrics" */
    uint64_t session; /* CALLER_LANE: the session whose secret the client showed (result of lane_asks); else 0 */
    bool over_tls;
    uint32_t uid; /* CALLER_UNIX: user id of the connecting process (SO_PEERCRED) */
    uint32_t pid;
    const char *certificate; /* common name of the verified client certificate; "": no certificate */
    /* The token after "Bearer " in Authorization, not NUL-terminated; size 0: no token. For a lane it is the session's
     * secret. */
    const char *token;
    size_t token_size;
    uint64_t former; /* the connection's previous principal, which the new one replaces; 0: none */
};

struct caller_verdict {
    unsigned status; /* HTTP status; 0: admitted; otherwise 401 (unknown client), 403 (not permitted) or 429 (too many
                        requests) */
    const char *sentence; /* reason of a refusal: at most CALLER_SENTENCE_MAX bytes, no control characters; the door
                             copies it */
    uint64_t principal;   /* principal of the client; valid if admitted */
    bool wants_token;     /* refused, but another token may succeed; the reply then has WWW-Authenticate */
};

#define CALLER_SENTENCE_MAX 256u

#endif
