/* ws_handshake.h: opening handshake of a WebSocket (RFC 6455, section 4) for both sides: one HTTP request and one
 * response. No I/O. The server's HTTP parser (broker/net/http_head.h) reads the request; the client's check of the
 * response is here, and is strict. */
#ifndef TARRY_PROTO_WS_HANDSHAKE_H
#define TARRY_PROTO_WS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_VERSION "13" /* the only valid Sec-WebSocket-Version */
#define WS_NONCE_SIZE 16u
#define WS_KEY_SIZE 24u       /* number of characters of Sec-WebSocket-Key: the nonce in base64 */
#define WS_ACCEPT_SIZE 28u    /* number of characters of Sec-WebSocket-Accept */
#define WS_RESPONSE_MAX 8192u /* maximum size in bytes of a response's head */
#define WS_HEADERS_MAX 64u    /* maximum number of header lines in a response */
#define WS_SAID_MAX 256u      /* maximum size in bytes of the sentence of a refusal, with its terminator */

/* Computes the Sec-WebSocket-Accept value for a key of WS_KEY_SIZE characters. */
void ws_accept(const char *key, char out[WS_ACCEPT_SIZE + 1]);

/* ---- server */

/* Returns whether the Sec-WebSocket-Key is the base64 text of 16 bytes. */
bool ws_key_is_valid(const char *key, size_t size);
/* Returns whether the Sec-WebSocket-Protocol list contains `protocol`. */
bool ws_protocols_include(const char *list, size_t size, const char *protocol);
/* Writes the 101 response. Returns its size in bytes, or 0 if it does not fit. */
size_t ws_response(const char *key, const char *protocol, char *out, size_t size);

/* ---- client */

struct ws_request {
    const char *host;     /* host and port as in the URL */
    const char *path;     /* "/rpc" */
    const char *protocol; /* "rep.sp.nanomsg.org" */
    const char *bearer;   /* token to send; "": no token */
};

/* Writes the request, and its key. Returns the request's size in bytes, or 0 if it does not fit. */
size_t ws_request_write(const struct ws_request *request, const uint8_t nonce[WS_NONCE_SIZE],
                        char out_key[WS_KEY_SIZE + 1], char *out, size_t size);

enum ws_verdict {
    WS_RESPONSE_NEEDS_MORE,
    WS_RESPONSE_ACCEPTED,
    WS_RESPONSE_REFUSED,
    WS_RESPONSE_DENIED, /* the server refused this client's credentials; a retry would not help */
};

/* Checks the bytes of the response so far. *out_used (when accepted): size of the response; WebSocket frames follow
 * it. `said` (when refused or denied): the reason, as text for people. */
enum ws_verdict ws_response_judge(const char *bytes, size_t size, const char *accept, const char *protocol,
                                  size_t *out_used, char said[WS_SAID_MAX]);

#endif
