/* tls.c: see tls.h. tls_files.c reads the files. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls_parts.h"

/* Ciphers with forward secrecy and authenticated encryption; all those of TLS 1.3 have both. */
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define SECONDS_OF_DAY 86400

struct tls {
    struct tls_files files;
    tls_says says;
    void *argument;
    pthread_mutex_t mutex; /* protects the members below */
    struct tls_identity identity;
    struct tls_stamps read; /* attributes of the files at the last read, even if it failed */
    unsigned failures;      /* consecutive */
    char problem[TLS_SENTENCE_SIZE];
};

int tls_open(struct tls **out, const struct tls_files *files, tls_says says, void *argument,
             char message[TLS_SENTENCE_SIZE]) {
    struct tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL) {
        snprintf(message, TLS_SENTENCE_SIZE, "out of memory while reading certificates");
        return 1;
    }
    tls->files = *files;
    tls->says = says;
    tls->argument = argument;
    tls->read = tls_stamps(files);
    if (tls_identity_read(&tls->identity, files, message) != 0) {
        free(tls);
        return 1;
    }
    pthread_mutex_init(&tls->mutex, NULL);
    *out = tls;
    return 0;
}

/* ---- changes */

void tls_look(struct tls *tls) {
    char message[TLS_SENTENCE_SIZE] = "";
    struct tls_identity identity = {0}, former = {0};
    struct tls_stamps stamps = tls_stamps(&tls->files);
    pthread_mutex_lock(&tls->mutex);
    bool is_same = memcmp(&stamps, &tls->read, sizeof(stamps)) == 0 && tls->failures != 1;
    tls->read = stamps;
    pthread_mutex_unlock(&tls->mutex);
    if (is_same) return;
    bool is_read = tls_identity_read(&identity, &tls->files, message) == 0;
    pthread_mutex_lock(&tls->mutex);
    if (is_read) {
        former = tls->identity;
        tls->identity = identity;
        tls->failures = 0;
        tls->problem[0] = '\0';
        snprintf(message, sizeof(message), "the TLS files have changed; the broker now uses the new ones");
    } else if (++tls->failures > 1) {
        snprintf(tls->problem, sizeof(tls->problem), "%.*s; the broker still uses the earlier one: correct the file",
                 (int)(TLS_SENTENCE_SIZE - 64), message);
        memcpy(message, tls->problem, sizeof(message));
    }
    bool is_told = tls->failures != 1;
    pthread_mutex_unlock(&tls->mutex);
    tls_identity_free(&former);
    if (is_told) tls->says(tls->argument, !is_read, message);
}

const char *tls_problem(struct tls *tls, char buffer[TLS_SENTENCE_SIZE]) {
    if (tls == NULL) return NULL;
    int days = TLS_EXPIRES_SOON_DAYS, seconds = 0;
    buffer[0] = '\0';
    pthread_mutex_lock(&tls->mutex);
    if (tls->identity.leaf != NULL) (void)ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(tls->identity.leaf));
    if (tls->problem[0] != '\0')
        memcpy(buffer, tls->problem, sizeof(tls->problem));
    else if (days < 0 || seconds < 0)
        snprintf(buffer, TLS_SENTENCE_SIZE, "the certificate %s has expired, so clients refuse it: replace it",
                 tls->files.certificate);
    else if (days < TLS_EXPIRES_SOON_DAYS)
        snprintf(buffer, TLS_SENTENCE_SIZE, "the certificate %s expires in %d days: replace it; no restart is needed",
                 tls->files.certificate, days);
    pthread_mutex_unlock(&tls->mutex);
    return buffer[0] != '\0' ? buffer : NULL;
}

bool tls_has_certificate(const struct tls *tls) {
    return tls->files.certificate[0] != '\0';
}

/* ---- handshakes */

/* Sets this broker's certificate for a handshake. Returns 1, which OpenSSL takes as success. */
static int take_own(struct tls *tls, SSL *ssl) {
    const struct tls_identity *identity = &tls->identity;
    return identity->leaf == NULL || SSL_use_cert_and_key(ssl, identity->leaf, identity->key, identity->chain, 1);
}

static int when_somebody_comes(SSL *ssl, void *argument) {
    struct tls *tls = argument;
    pthread_mutex_lock(&tls->mutex);
    const struct tls_identity *identity = &tls->identity;
    int result = take_own(tls, ssl);
    if (result == 1 && identity->client_store != NULL) {
        STACK_OF(X509_NAME) *names = SSL_dup_CA_list(identity->client_names);
        result = names != NULL && SSL_set1_verify_cert_store(ssl, identity->client_store);
        if (names != NULL) SSL_set_client_CA_list(ssl, names); /* takes ownership */
    }
    pthread_mutex_unlock(&tls->mutex);
    return result;
}

static int when_a_certificate_is_asked_for(SSL *ssl, void *argument) {
    struct tls *tls = argument;
    pthread_mutex_lock(&tls->mutex);
    int result = take_own(tls, ssl);
    pthread_mutex_unlock(&tls->mutex);
    return result;
}

static bool restrict_protocol(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, CIPHERS_1_2) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1;
}

bool tls_serve(struct tls *tls, SSL_CTX *context) {
    bool must_show = tls->files.client_ca[0] != '\0', may_show = tls->files.peer_ca[0] != '\0';
    if (must_show || may_show)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (must_show ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    SSL_CTX_set_cert_cb(context, when_somebody_comes, tls);
    SSL_CTX_set_tlsext_servername_callback(context, NULL); /* one certificate serves all server names */
    return restrict_protocol(context);
}

SSL_CTX *tls_dial(struct tls *tls) {
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (context == NULL) return NULL;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_cb(context, when_a_certificate_is_asked_for, tls);
    if (restrict_protocol(context)) return context;
    SSL_CTX_free(context);
    return NULL;
}

void tls_refresh(struct tls *tls, SSL_CTX *context) {
    pthread_mutex_lock(&tls->mutex);
    if (tls->identity.peer_store != NULL) SSL_CTX_set1_cert_store(context, tls->identity.peer_store);
    pthread_mutex_unlock(&tls->mutex);
}

/* Returns whether the name is valid: a 0 byte or a control character could make a reader confuse it with another name.
 */
static bool is_plain(const uint8_t *text, int size) {
    for (int i = 0; i < size; i++)
        if (text[i] < ' ' || text[i] == 0x7f) return false;
    return size > 0 && size < (int)TLS_NAME_SIZE;
}

void tls_name(SSL *ssl, char out[TLS_NAME_SIZE]) {
    out[0] = '\0';
    X509 *shown = SSL_get_verify_result(ssl) == X509_V_OK ? SSL_get1_peer_certificate(ssl) : NULL;
    if (shown == NULL) return;
    const X509_NAME *subject = X509_get_subject_name(shown);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    /* A second common name would make the name ambiguous. */
    bool is_one = at >= 0 && X509_NAME_get_index_by_NID(subject, NID_commonName, at) < 0;
    uint8_t *text = NULL;
    int size = is_one ? ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))) : -1;
    if (size >= 0 && is_plain(text, size)) {
        memcpy(out, text, (size_t)size);
        out[size] = '\0';
    }
    OPENSSL_free(text);
    X509_free(shown);
}
