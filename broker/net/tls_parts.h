/* tls_parts.h: what the files of TLS share; no other file includes it. */
#ifndef TARRY_NET_TLS_PARTS_H
#define TARRY_NET_TLS_PARTS_H

#include <openssl/x509.h>
#include <sys/types.h>
#include <time.h>

#include "tls.h"

/* What the files said when they were read together. */
struct tls_identity {
    X509 *leaf; /* NULL: none */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    X509_STORE *client_store; /* of clients: client_ca and peer_ca; NULL: none is asked for one */
    STACK_OF(X509_NAME) * client_names;
    X509_STORE *peer_store; /* of the other node: peer_ca, else client_ca */
};

/* By which a changed file is known. */
struct tls_stamps {
    struct tls_stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
    } of[4];
};

/* 0, or 1 with a sentence and nothing to free. */
int tls_identity_read(struct tls_identity *out, const struct tls_files *files, char message[TLS_SENTENCE_SIZE]);
void tls_identity_free(struct tls_identity *identity);
/* Of files that are not there: zeros. */
struct tls_stamps tls_stamps(const struct tls_files *files);

#endif
