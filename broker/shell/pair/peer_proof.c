/* peer_proof.c: see peer_proof.h. A MAC is the authentication tag of XChaCha20-Poly1305 for an empty plaintext, with
 * the message as additional data. The nonce is random, and long enough that it never repeats. */
#include "peer_proof.h"

#include <assert.h>
#include <string.h>

/* Tags of Request.proof and Reply.proof, length-delimited; each length takes one byte. */
#define REQUEST_TAG (4u << 3 | 2u)
#define REPLY_TAG (7u << 3 | 2u)
_Static_assert(PEER_REQUEST_PROOF_SIZE < 128 && PEER_REPLY_PROOF_SIZE < 128, "one byte");

static const uint8_t no_content[1];

/* Writes the MAC of all message bytes that precede the MAC. */
static void put_mac(const uint8_t key[PEER_SUBKEY_SIZE], const uint8_t nonce[PEER_NONCE_SIZE], uint8_t *data,
                    size_t size) {
    uint8_t *mac = data + size - PEER_MAC_SIZE;
    uint8_t no_box[1];
    crypto_aead_xchacha20poly1305_ietf_encrypt_detached(no_box, mac, NULL, no_content, 0, data, size - PEER_MAC_SIZE,
                                                        NULL, nonce, key);
}

static bool is_mac_right(const uint8_t key[PEER_SUBKEY_SIZE], const uint8_t nonce[PEER_NONCE_SIZE], const uint8_t *data,
                         size_t size) {
    const uint8_t *mac = data + size - PEER_MAC_SIZE;
    return crypto_aead_xchacha20poly1305_ietf_decrypt_detached(NULL, NULL, no_content, 0, mac, data,
                                                               size - PEER_MAC_SIZE, nonce, key) == 0;
}

void peer_key_derive(struct peer_key *key, const void *text, size_t size) {
    static const char context[crypto_kdf_CONTEXTBYTES + 1] = "tarrypar";
    uint8_t master[crypto_kdf_KEYBYTES];
    crypto_generichash(master, sizeof(master), text, size, NULL, 0);
    crypto_kdf_derive_from_key(key->requests, sizeof(key->requests), 1, context, master);
    crypto_kdf_derive_from_key(key->replies, sizeof(key->replies), 2, context, master);
    crypto_kdf_derive_from_key(key->secrets, sizeof(key->secrets), 3, context, master);
    sodium_memzero(master, sizeof(master));
    randombytes_buf(key->challenge, sizeof(key->challenge));
}

/* ---- the requester */

void peer_prove_request(const struct peer_key *key, struct peer_requester *requester, uint8_t *data, size_t size) {
    assert(size >= PEER_REQUEST_TRAILER_SIZE);
    uint8_t *at = data + size - PEER_REQUEST_TRAILER_SIZE;
    randombytes_buf(requester->nonce, sizeof(requester->nonce));
    *at++ = REQUEST_TAG;
    *at++ = PEER_REQUEST_PROOF_SIZE;
    memcpy(at, requester->challenge, PEER_CHALLENGE_SIZE);
    memcpy(at + PEER_CHALLENGE_SIZE, requester->nonce, PEER_NONCE_SIZE);
    put_mac(key->requests, requester->nonce, data, size);
}

enum peer_proof peer_check_reply(const struct peer_key *key, const struct peer_requester *requester,
                                 const uint8_t *data, size_t size) {
    if (size < PEER_REPLY_TRAILER_SIZE) return PEER_NONE;
    const uint8_t *at = data + size - PEER_REPLY_TRAILER_SIZE;
    if (at[0] != REPLY_TAG || at[1] != PEER_REPLY_PROOF_SIZE) return PEER_NONE;
    const uint8_t *request_nonce = at + 2, *nonce = request_nonce + PEER_NONCE_SIZE;
    if (memcmp(request_nonce, requester->nonce, PEER_NONCE_SIZE) != 0) return PEER_STALE;
    return is_mac_right(key->replies, nonce, data, size) ? PEER_RIGHT : PEER_WRONG;
}

bool peer_learn(struct peer_requester *requester, const uint8_t *challenge, size_t size) {
    if (size != PEER_CHALLENGE_SIZE || memcmp(requester->challenge, challenge, size) == 0) return false;
    memcpy(requester->challenge, challenge, size);
    return true;
}

/* ---- the answerer */

enum peer_proof peer_check_request(const struct peer_key *key, const uint8_t *data, size_t size,
                                   uint8_t out_nonce[PEER_NONCE_SIZE]) {
    if (size < PEER_REQUEST_TRAILER_SIZE) return PEER_NONE;
    const uint8_t *at = data + size - PEER_REQUEST_TRAILER_SIZE;
    if (at[0] != REQUEST_TAG || at[1] != PEER_REQUEST_PROOF_SIZE) return PEER_NONE;
    const uint8_t *challenge = at + 2, *nonce = challenge + PEER_CHALLENGE_SIZE;
    if (memcmp(challenge, key->challenge, PEER_CHALLENGE_SIZE) != 0) return PEER_STALE;
    if (!is_mac_right(key->requests, nonce, data, size)) return PEER_WRONG;
    memcpy(out_nonce, nonce, PEER_NONCE_SIZE);
    return PEER_RIGHT;
}

void peer_prove_reply(const struct peer_key *key, const uint8_t nonce[PEER_NONCE_SIZE], uint8_t *data, size_t size) {
    assert(size >= PEER_REPLY_TRAILER_SIZE);
    uint8_t *at = data + size - PEER_REPLY_TRAILER_SIZE;
    *at++ = REPLY_TAG;
    *at++ = PEER_REPLY_PROOF_SIZE;
    memcpy(at, nonce, PEER_NONCE_SIZE);
    randombytes_buf(at + PEER_NONCE_SIZE, PEER_NONCE_SIZE);
    put_mac(key->replies, at + PEER_NONCE_SIZE, data, size);
}

/* ---- the cluster's secret: nonce ‖ box */

void peer_seal(const struct peer_key *key, const uint8_t secret[IDENTITY_SECRET_SIZE], uint8_t out[PEER_SEALED_SIZE]) {
    randombytes_buf(out, PEER_NONCE_SIZE);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out + PEER_NONCE_SIZE, NULL, secret, IDENTITY_SECRET_SIZE, NULL, 0, NULL,
                                               out, key->secrets);
}

bool peer_unseal(const struct peer_key *key, const uint8_t *sealed, size_t size, uint8_t out[IDENTITY_SECRET_SIZE]) {
    if (size != PEER_SEALED_SIZE) return false;
    return crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, sealed + PEER_NONCE_SIZE, size - PEER_NONCE_SIZE,
                                                      NULL, 0, sealed, key->secrets) == 0;
}
