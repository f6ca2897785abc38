/* upgrade.h: opening handshake of a WebSocket (RFC 6455, section 4): one HTTP request and one response. The response
 * is checked strictly, up to UPGRADE_ANSWER_MAX bytes. No I/O. */
#ifndef TARRY_UPGRADE_H
#define TARRY_UPGRADE_H

#include <stddef.h>
#include <stdint.h>

#define UPGRADE_NONCE_SIZE 16u
#define UPGRADE_KEY_SIZE 24u    /* bytes of the nonce as base64 text */
#define UPGRADE_ACCEPT_SIZE 28u /* bytes of the expected Sec-WebSocket-Accept value */
#define UPGRADE_ANSWER_MAX 8192u
#define UPGRADE_HEADERS_MAX 64u
#define UPGRADE_SAID_MAX 256u

struct upgrade_ask {
    const char *host;     /* host and port as in the URL */
    const char *path;     /* "/rpc" */
    const char *protocol; /* "rep.sp.nanomsg.org" */
    const char *bearer;   /* "": no token */
};

/* Writes the request. Returns its size in bytes, or 0 if it does not fit. Derives `key` from `nonce`. */
size_t upgrade_request(const struct upgrade_ask *ask, const uint8_t nonce[UPGRADE_NONCE_SIZE],
                       char key[UPGRADE_KEY_SIZE + 1], char *out, size_t size);
/* Computes the Sec-WebSocket-Accept value that the response to `key` must contain. */
void upgrade_accept(const char *key, char accept[UPGRADE_ACCEPT_SIZE + 1]);

enum upgrade_verdict {
    UPGRADE_NEEDS_MORE,
    UPGRADE_ACCEPTED,
    UPGRADE_REFUSED,
    UPGRADE_DENIED /* the server refused this client's credentials; a retry would not help */
};

/* Checks the bytes of the response so far. *out_used (when accepted): size of the response; WebSocket frames follow
 * it. `said` (when refused or denied): the reason, as text for people. */
enum upgrade_verdict upgrade_judge(const char *bytes, size_t size, const char *accept, const char *protocol,
                                   size_t *out_used, char said[UPGRADE_SAID_MAX]);

#endif
