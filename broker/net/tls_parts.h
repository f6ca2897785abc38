/* tls_parts.h: declarations shared by the TLS files; no other file includes it. */
#ifndef TARRY_NET_TLS_PARTS_H
#define TARRY_NET_TLS_PARTS_H

#include <openssl/x509.h>
#include <sys/types.h>
#include <time.h>

#include "tls.h"

/* The contents of all files, read together. */
struct tls_identity {
    X509 *leaf; /* this broker's certificate; NULL: none */
    STACK_OF(X509) * chain;
    EVP_PKEY *key;
    X509_STORE *client_store; /* CAs of clients: client_ca and peer_ca; NULL: clients are not asked for a certificate */
    STACK_OF(X509_NAME) * client_names;
    X509_STORE *peer_store; /* CAs of the other node: peer_ca, else client_ca */
};

/* File attributes that reveal a change. */
struct tls_stamps {
    struct tls_stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed;
    } of[4];
};

/* Reads the files. Returns 0, or 1 with a sentence; after 1 there is nothing to free. */
int tls_identity_read(struct tls_identity *out, const struct tls_files *files, char message[TLS_SENTENCE_SIZE]);
void tls_identity_free(struct tls_identity *identity);
/* Returns the attributes of the files; zeros for a missing file. */
struct tls_stamps tls_stamps(const struct tls_files *files);

#endif
