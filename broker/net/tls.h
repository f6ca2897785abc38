/* tls.h: the certificates of this broker, for its clients and for the other node of a pair.
 *
 * What the files say is read at the start, and again when they change. New ones count only whole: a certificate that
 * its key does not fit, that is none, or that has expired, leaves the former in force, and is a problem until it is
 * mended. Each handshake takes what is in force then; connections that stand keep what they began with.
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression. Sessions are not resumed: each handshake proves the client anew,
 * so that what is taken from a CA file counts at once.
 *
 * Thread-safety: any thread. */
#ifndef TARRY_NET_TLS_H
#define TARRY_NET_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

#define TLS_SENTENCE_SIZE 1536u
#define TLS_NAME_SIZE 128u
/* A certificate that ends sooner is a problem. */
#define TLS_EXPIRES_SOON_DAYS 14
/* Distance of two looks at the files. */
#define TLS_LOOK_S 2

/* Paths, which must stay; "": none. */
struct tls_files {
    const char *certificate; /* this broker's, PEM, with what leads to its CA */
    const char *key;
    const char *client_ca; /* a client must show a certificate of one of these */
    const char *peer_ca;   /* the other node's is one of these; a client may show one, too */
};

/* For the log, one sentence each time. Any thread. */
typedef void (*tls_says)(void *argument, bool is_problem, const char *sentence);

struct tls;

/* Reads the files. 0, or 1 with a sentence. */
int tls_open(struct tls **out, const struct tls_files *files, tls_says says, void *argument,
             char message[TLS_SENTENCE_SIZE]);
/* Reads them again if they have changed. What is wrong twice in a row is said: of two files that are replaced one after
 * the other a look may find the first. */
void tls_look(struct tls *tls);
/* NULL: none. Else a sentence, in `buffer`. NULL is fine. */
const char *tls_problem(struct tls *tls, char buffer[TLS_SENTENCE_SIZE]);
bool tls_has_certificate(const struct tls *tls);

/* Makes `context` one for clients. It must go before `tls`. False: no memory. */
bool tls_serve(struct tls *tls, SSL_CTX *context);
/* One for the way to the other node, whose certificate must be for `host`, a name or an address; for SSL_CTX_free.
 * NULL: no memory. */
SSL_CTX *tls_dial(struct tls *tls, const char *host);
/* Before each dial: its CAs as they are now. */
void tls_refresh(struct tls *tls, SSL_CTX *context);
/* The common name in the certificate that the other end has shown and that was verified; "": none. */
void tls_name(SSL *ssl, char out[TLS_NAME_SIZE]);

#endif
