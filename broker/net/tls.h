/* tls.h: this broker's certificates, for its clients and for the other node of a pair.
 *
 * The files are read at startup, and again when they change. New files take effect only if all of them are valid. If
 * the key does not match, or the certificate is malformed or expired, the old certificate stays in use. The error is
 * reported until it is fixed. Each handshake uses the current certificate; open connections keep theirs.
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression. Sessions are never resumed: each handshake authenticates the
 * client again, so that removing a CA from its file takes effect at once.
 *
 * Thread-safety: any thread. */
#ifndef TARRY_NET_TLS_H
#define TARRY_NET_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#define TLS_SENTENCE_SIZE 1536u
#define TLS_NAME_SIZE 128u
/* A certificate that expires within this time is reported as a problem. */
#define TLS_EXPIRES_SOON_DAYS 14
/* Interval between two checks of the files. */
#define TLS_LOOK_S 2

/* Paths of the files, which must outlive `tls`; "": no file. */
struct tls_files {
    const char *certificate; /* this broker's certificate, PEM, with the chain to its CA */
    const char *key;
    const char *client_ca; /* CAs of clients; a client must show a certificate of one of them */
    const char *peer_ca;   /* CAs of the other node; a client may also show a certificate of one of them */
};

/* Callback that logs one sentence; any thread may call it. */
typedef void (*tls_says)(void *argument, bool is_problem, const char *sentence);

struct tls;

/* Reads the files. Returns 0, or 1 with a sentence in `message`. */
int tls_open(struct tls **out, const struct tls_files *files, tls_says says, void *argument,
             char message[TLS_SENTENCE_SIZE]);
/* Reads the files again if they have changed. An error is reported only if it occurs twice in a row: a check may see
 * the first of two files replaced and the second not yet. */
void tls_look(struct tls *tls);
/* Returns the current problem as a sentence in `buffer`; NULL: no problem. `tls` may be NULL. */
const char *tls_problem(struct tls *tls, char buffer[TLS_SENTENCE_SIZE]);
bool tls_has_certificate(const struct tls *tls);

/* Configures `context` for serving clients; `context` must be freed before `tls`. False: out of memory. */
bool tls_serve(struct tls *tls, SSL_CTX *context);
/* Makes a context for connecting to the other node, whose certificate must be of a peer CA. The connection checks the
 * host's name (transport/tls_stream.h). Free it with SSL_CTX_free. NULL: out of memory. */
SSL_CTX *tls_dial(struct tls *tls);
/* Gives the context the current CAs. Call it before each connection attempt. */
void tls_refresh(struct tls *tls, SSL_CTX *context);
/* Returns the common name of the peer's verified certificate; "": the peer showed no certificate. */
void tls_name(SSL *ssl, char out[TLS_NAME_SIZE]);

#endif
