/* head.h: a signed head: a signed statement about the log up to a position. storage/FORMAT.md describes it for users.
 *
 *   offset size
 *        0    8  magic "TARRYHD1"
 *        8    8  number: counts this signer's heads of this log, from 1 without gaps
 *       16   16  cluster
 *       32    8  position: end of the last frame that the head covers
 *       40    8  segment: base of the segment that contains this frame
 *       48    8  kept_from: oldest position in the signer's log
 *       56    8  steady_ns   logical times of the last frame (TIME-2)
 *       64    8  wall_ns
 *       72    4  epoch       of the last frame
 *       76    4  reserved, 0
 *       80   32  chain       of the last frame
 *      112    8  signer: id of the key (sign_key.h)
 *      120   64  signature: Ed25519 over "tarry signed head 1\n" ‖ bytes 0 … 119
 *      184    8  sum: XXH3-64 of bytes 0 … 183
 *
 * The chain hash covers every frame before the position, so one head proves the whole log before it. All integers are
 * little-endian. No I/O. */
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
/* Size of a head as text: "tarry-head-1:", all bytes as hexadecimal digits, and a final 0. */
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

/* Sets signer and signature. The other fields must be set. */
void head_sign(struct head *head, const struct sign_secret *secret);
/* True: this key signed exactly these fields. */
bool head_is_signed(const struct head *head, const struct sign_public *public);

void head_encode(const struct head *head, uint8_t out[HEAD_SIZE]);
/* Decodes a head. False: magic, sum or reserved bytes are wrong; `out` is then untouched. Does not check the
 * signature. */
bool head_decode(const uint8_t in[HEAD_SIZE], struct head *out);

/* Writes the head as one line of text, to be stored elsewhere. Returns `out`. */
char *head_format(const struct head *head, char out[HEAD_TEXT_SIZE]);
/* Parses a line of head_format. Ignores blanks around it. */
bool head_parse(const char *text, struct head *out);

#endif
