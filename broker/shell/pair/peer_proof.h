/* peer_proof.h: how the two nodes of a pair recognise each other: by the peer key, a secret that an operator gives to
 * both.
 *
 *   requester                                          answerer
 *   Request ‖ proof{challenge, nonce, MAC} ──────► the MAC is right, and the challenge is that of this run:
 *                                                  the requester is the other node
 *        ◄───────────────── Reply{challenge}       otherwise: ask again with this challenge
 *        ◄── Reply ‖ proof{request's nonce, nonce, MAC}
 *
 * A proof is the last field of its message, and its MAC covers every byte before it. Requests and replies use different
 * keys, so the proof of a request is not valid for a reply. A reply names the nonce of its request, so an old reply is
 * not valid for a new request. An answerer has one challenge for each run, so requests to earlier runs are not valid.
 *
 * Not protected: messages can be read on the network (except the sealed secret). A request that was recorded on the
 * network is answered again in the same run, as if it had arrived twice.
 *
 * Pure, except for randomness. Thread-safety: any thread; a struct peer_requester has one owner. */
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
/* Sizes of Request.proof and Reply.proof, alone and as encoded at the end of a packed message, with tag and length. */
#define PEER_REQUEST_PROOF_SIZE (PEER_CHALLENGE_SIZE + PEER_NONCE_SIZE + PEER_MAC_SIZE)
#define PEER_REPLY_PROOF_SIZE (2 * PEER_NONCE_SIZE + PEER_MAC_SIZE)
#define PEER_REQUEST_TRAILER_SIZE (2 + PEER_REQUEST_PROOF_SIZE)
#define PEER_REPLY_TRAILER_SIZE (2 + PEER_REPLY_PROOF_SIZE)
/* Size limit of a reply without a proof. Such a reply can only be a refusal. */
#define PEER_REFUSAL_SIZE_MAX 4096u
/* Size of the sealed cluster secret (FollowReply.secret). */
#define PEER_SEALED_SIZE (PEER_NONCE_SIZE + IDENTITY_SECRET_SIZE + PEER_MAC_SIZE)

struct peer_key {
    uint8_t requests[PEER_SUBKEY_SIZE];
    uint8_t replies[PEER_SUBKEY_SIZE];
    uint8_t secrets[PEER_SUBKEY_SIZE];
    uint8_t challenge[PEER_CHALLENGE_SIZE]; /* challenge of this run, when this node answers */
};

/* A requester's knowledge about its answerer. All zeros at first. */
struct peer_requester {
    uint8_t challenge[PEER_CHALLENGE_SIZE]; /* challenge of the other node's run, as last reported */
    uint8_t nonce[PEER_NONCE_SIZE];         /* nonce of the newest request */
};

enum peer_proof {
    PEER_NONE,  /* the message has no proof */
    PEER_STALE, /* a request with another run's challenge, or a reply to an earlier request */
    PEER_WRONG, /* the proof was made with another key, or the message was changed on the network */
    PEER_RIGHT
};

/* Derives the keys from the text of the operator's file, and creates a challenge. */
void peer_key_derive(struct peer_key *key, const void *text, size_t size);

/* Writes the proof into the last PEER_REQUEST_TRAILER_SIZE of `size` bytes. The caller has reserved that space. */
void peer_prove_request(const struct peer_key *key, struct peer_requester *requester, uint8_t *data, size_t size);
enum peer_proof peer_check_reply(const struct peer_key *key, const struct peer_requester *requester,
                                 const uint8_t *data, size_t size);
/* Stores Reply.challenge. Returns true if the challenge is new, so the request may be sent again. Returns false if it
 * is invalid, or already known, which means that the keys differ. */
bool peer_learn(struct peer_requester *requester, const uint8_t *challenge, size_t size);

/* Checks the proof at the end of a packed request. Only the result PEER_RIGHT is reliable before the request is
 * unpacked, because any message may end with bytes that look like a proof. PEER_RIGHT sets `out_nonce`. */
enum peer_proof peer_check_request(const struct peer_key *key, const uint8_t *data, size_t size,
                                   uint8_t out_nonce[PEER_NONCE_SIZE]);
/* Writes the proof into the last PEER_REPLY_TRAILER_SIZE of `size` bytes. `nonce` is the request's. */
void peer_prove_reply(const struct peer_key *key, const uint8_t nonce[PEER_NONCE_SIZE], uint8_t *data, size_t size);

void peer_seal(const struct peer_key *key, const uint8_t secret[IDENTITY_SECRET_SIZE], uint8_t out[PEER_SEALED_SIZE]);
bool peer_unseal(const struct peer_key *key, const uint8_t *sealed, size_t size, uint8_t out[IDENTITY_SECRET_SIZE]);

#endif
