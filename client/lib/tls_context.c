/* tls_context.c: the TLS context of a connection, from the files of the client's credentials. The files are read at
 * each connect, so they may be replaced while the program runs. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

#include "client.h"
#include "private.h"

/* Writes our message followed by OpenSSL's last error. */
static bool say(char said[TLS_SAID_MAX], const char *what, const char *path) {
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    snprintf(said, TLS_SAID_MAX, "%s %s: %s", what, path, reason != NULL ? reason : "the file cannot be used");
    ERR_clear_error();
    return false;
}

static bool use_ca(SSL_CTX *context, const char *path, char said[TLS_SAID_MAX]) {
    if (path == NULL) {
        if (SSL_CTX_set_default_verify_paths(context) == 1) return true;
        return say(said, "the system's certificate authorities", "");
    }
    if (!pem_check(path, "the authorities' certificates in", said, TLS_SAID_MAX)) return false;
    return SSL_CTX_load_verify_file(context, path) == 1 || say(said, "the authorities' certificates in", path);
}

static bool use_cert(SSL_CTX *context, const struct credentials *files, char said[TLS_SAID_MAX]) {
    if (files->tls_cert == NULL && files->tls_key == NULL) return true;
    if (files->tls_cert == NULL) {
        snprintf(said, TLS_SAID_MAX, "the key %s is given without a certificate: give both", files->tls_key);
        return false;
    }
    const char *key = files->tls_key != NULL ? files->tls_key : files->tls_cert;
    if (!private_check(key, "the key's file", said, TLS_SAID_MAX)) return false;
    if (!pem_check(files->tls_cert, "the client's certificate in", said, TLS_SAID_MAX)) return false;
    if (SSL_CTX_use_certificate_chain_file(context, files->tls_cert) != 1)
        return say(said, "the client's certificate in", files->tls_cert);
    if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) return say(said, "the client's key in", key);
    return SSL_CTX_check_private_key(context) == 1 ||
           say(said, "the client's key does not belong to its certificate:", key);
}

SSL_CTX *credentials_tls_context(void *argument, char said[TLS_SAID_MAX]) {
    const struct credentials *credentials = argument;
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) {
        (void)say(said, "TLS", "cannot begin");
        return NULL;
    }
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    const bool is_modern = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 || say(said, "TLS", "1.2");
    if (is_modern && use_ca(context, credentials->tls_ca, said) && use_cert(context, credentials, said)) return context;
    SSL_CTX_free(context);
    return NULL;
}
