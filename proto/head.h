/* head.h: a signed head: somebody's word for the log up to a position. storage/FORMAT.md tells the same to people.
 *
 *   offset size
 *        0    8  magic "TARRYHD1"
 *        8    8  number: of this signer's heads of this log, from 1 on without gaps
 *       16   16  cluster
 *       32    8  position: the log up to here, where a frame ends
 *       40    8  segment: base of the segment that this last frame lies in
 *       48    8  kept_from: the oldest position that the signer's log still had
 *       56    8  steady_ns   logical times of the last frame (TIME-2)
 *       64    8  wall_ns
 *       72    4  epoch       of the last frame
 *       76    4  reserved, 0
 *       80   32  chain       of the last frame
 *      112    8  signer: id of the key (sign_key.h)
 *      120   64  signature: Ed25519 over "tarry signed head 1\n" ‖ bytes 0 … 119
 *      184    8  sum: XXH3-64 of bytes 0 … 183
 *
 * The chain hash stands for every frame before the position, so one head is proof for the whole log before it. All
 * integers are little-endian. Pure functions. */
#ifndef TARRY_PROTO_HEAD_H
#define TARRY_PROTO_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "sign_key.h"

#define HEAD_SIZE 192u
#define HEAD_SIGNATURE_SIZE 64u
#define HEAD_CLUSTER_SIZE 16u
/* "tarry-head-1:" and every byte of it in hexadecimal digits, and a terminator. */
#define HEAD_TEXT_SIZE (13 + 2 * HEAD_SIZE + 1)

struct head {
    uint64_t number;
    uint8_t cluster[HEAD_CLUSTER_SIZE];
    uint64_t position;
    uint64_t segment;
    uint64_t kept_from;
    uint64_t steady_ns;
    uint64_t wall_ns;
    uint32_t epoch;
    uint8_t chain[FRAME_CHAIN_SIZE];
    uint8_t signer[SIGN_KEY_ID_SIZE];
    uint8_t signature[HEAD_SIGNATURE_SIZE];
};

/* Sets signer and signature; the rest must be set. */
void head_sign(struct head *head, const struct sign_secret *secret);
/* Whether this key signed exactly this. */
bool head_is_signed(const struct head *head, const struct sign_public *public);

void head_encode(const struct head *head, uint8_t out[HEAD_SIZE]);
/* False, `out` untouched, unless magic, sum and the reserved bytes are right. Says nothing about the signature. */
bool head_decode(const uint8_t in[HEAD_SIZE], struct head *out);

/* One line of text, to be kept elsewhere; returns `out`. */
char *head_format(const struct head *head, char out[HEAD_TEXT_SIZE]);
/* Blanks around it are let pass. */
bool head_parse(const char *text, struct head *out);

#endif
