/* peer_proof.h: how the two nodes of a pair know each other: by the peer key, a secret that an operator gives to both.
 *
 *   requester                                          answerer
 *   Request ‖ proof{challenge, nonce, MAC} ──────► the MAC is right, and the challenge is that of this run:
 *                                                  the other node asks
 *        ◄───────────────── Reply{challenge}       … else it is not: ask again with this challenge
 *        ◄── Reply ‖ proof{its nonce, nonce, MAC}
 *
 * A proof is the last field of its message, and covers every byte before it. Requests and replies have keys of their
 * own, so that no message is good for the other way; a reply names the nonce of its request, so that no old one is
 * taken for it. An answerer has one challenge for each run: requests of before are worth nothing afterwards.
 *
 * What this does not do: messages can be read on the way (but for the sealed secret), and a request that was recorded
 * on the network is answered again in the same run, as if it had come twice.
 *
 * Pure but for randomness; any thread, but a struct peer_requester has one owner. */
#ifndef TARRY_SHELL_PAIR_PEER_PROOF_H
#define TARRY_SHELL_PAIR_PEER_PROOF_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "identity.h"

#define PEER_CHALLENGE_SIZE 16u
#define PEER_NONCE_SIZE crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define PEER_MAC_SIZE crypto_aead_xchacha20poly1305_ietf_ABYTES
#define PEER_SUBKEY_SIZE crypto_aead_xchacha20poly1305_ietf_KEYBYTES
/* Request.proof and Reply.proof; and what they take at the end of a packed message, tag and length included. */
#define PEER_REQUEST_PROOF_SIZE (PEER_CHALLENGE_SIZE + PEER_NONCE_SIZE + PEER_MAC_SIZE)
#define PEER_REPLY_PROOF_SIZE (2 * PEER_NONCE_SIZE + PEER_MAC_SIZE)
#define PEER_REQUEST_TRAILER_SIZE (2 + PEER_REQUEST_PROOF_SIZE)
#define PEER_REPLY_TRAILER_SIZE (2 + PEER_REPLY_PROOF_SIZE)
/* A reply without a proof is no more than a refusal. */
#define PEER_REFUSAL_SIZE_MAX 4096u
/* The cluster's secret (FollowReply.secret), which travels sealed. */
#define PEER_SEALED_SIZE (PEER_NONCE_SIZE + IDENTITY_SECRET_SIZE + PEER_MAC_SIZE)

struct peer_key {
    uint8_t requests[PEER_SUBKEY_SIZE];
    uint8_t replies[PEER_SUBKEY_SIZE];
    uint8_t secrets[PEER_SUBKEY_SIZE];
    uint8_t challenge[PEER_CHALLENGE_SIZE]; /* of this run, as an answerer */
};

/* What one requester knows of the answerer. Zeros at first. */
struct peer_requester {
    uint8_t challenge[PEER_CHALLENGE_SIZE]; /* of the other's run, as it was told last */
    uint8_t nonce[PEER_NONCE_SIZE];         /* of the newest request */
};

enum peer_proof {
    PEER_NONE,  /* there is no proof */
    PEER_STALE, /* a request: with another run's challenge; a reply: to an earlier request */
    PEER_WRONG, /* made with another key, or changed on its way */
    PEER_RIGHT
};

/* From what the operator's file says; makes a challenge. */
void peer_key_derive(struct peer_key *key, const void *text, size_t size);

/* Fills the last PEER_REQUEST_TRAILER_SIZE of `size` bytes, which the caller has made room for. */
void peer_prove_request(const struct peer_key *key, struct peer_requester *requester, uint8_t *data, size_t size);
enum peer_proof peer_check_reply(const struct peer_key *key, const struct peer_requester *requester,
                                 const uint8_t *data, size_t size);
/* Reply.challenge. True: it is news, and the request may be made anew; false: it is none, or was known, so that the
 * keys differ. */
bool peer_learn(struct peer_requester *requester, const uint8_t *challenge, size_t size);

/* Any bytes may end as a proof does: before they are unpacked only PEER_RIGHT is certain. `out_nonce` is set with it.
 */
enum peer_proof peer_check_request(const struct peer_key *key, const uint8_t *data, size_t size,
                                   uint8_t out_nonce[PEER_NONCE_SIZE]);
/* Fills the last PEER_REPLY_TRAILER_SIZE of `size` bytes. `nonce` is the request's. */
void peer_prove_reply(const struct peer_key *key, const uint8_t nonce[PEER_NONCE_SIZE], uint8_t *data, size_t size);

void peer_seal(const struct peer_key *key, const uint8_t secret[IDENTITY_SECRET_SIZE], uint8_t out[PEER_SEALED_SIZE]);
bool peer_unseal(const struct peer_key *key, const uint8_t *sealed, size_t size, uint8_t out[IDENTITY_SECRET_SIZE]);

#endif
