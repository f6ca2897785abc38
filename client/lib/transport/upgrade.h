/* upgrade.h: how a WebSocket begins (RFC 6455, section 4): one HTTP request, and an answer that is read strictly and
 * never beyond UPGRADE_ANSWER_MAX. Pure. */
#ifndef TARRY_UPGRADE_H
#define TARRY_UPGRADE_H

#include <stddef.h>
#include <stdint.h>

#define UPGRADE_NONCE_SIZE 16u
#define UPGRADE_KEY_SIZE 24u    /* the nonce as text */
#define UPGRADE_ACCEPT_SIZE 28u /* what must come back for it */
#define UPGRADE_ANSWER_MAX 8192u
#define UPGRADE_HEADERS_MAX 64u
#define UPGRADE_SAID_MAX 256u

struct upgrade_ask {
    const char *host;     /* as it stands in the URL, with its port */
    const char *path;     /* "/rpc" */
    const char *protocol; /* "rep.sp.nanomsg.org" */
    const char *bearer;   /* "": none */
};

/* Writes the text of the request. Returns its size, or 0 if it does not fit. `key` is made from `nonce`. */
size_t upgrade_request(const struct upgrade_ask *ask, const uint8_t nonce[UPGRADE_NONCE_SIZE],
                       char key[UPGRADE_KEY_SIZE + 1], char *out, size_t size);
/* What the answer to `key` must contain. */
void upgrade_accept(const char *key, char accept[UPGRADE_ACCEPT_SIZE + 1]);

enum upgrade_verdict {
    UPGRADE_NEEDS_MORE,
    UPGRADE_ACCEPTED,
    UPGRADE_REFUSED,
    UPGRADE_DENIED /* refused for the client: what it shows is not enough, or unknown, and will not be a moment later */
};

/* Judges what has come so far. *out_used, when accepted: the answer's own bytes; what follows are frames. `said`, when
 * refused or denied: why, in words for people. */
enum upgrade_verdict upgrade_judge(const char *bytes, size_t size, const char *accept, const char *protocol,
                                   size_t *out_used, char said[UPGRADE_SAID_MAX]);

#endif
