/* head.c: see head.h, whose table has the offsets. */
#include "head.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "bytes.h"

enum {
    AT_MAGIC = 0,
    AT_NUMBER = 8,
    AT_CLUSTER = 16,
    AT_POSITION = 32,
    AT_SEGMENT = 40,
    AT_KEPT_FROM = 48,
    AT_STEADY = 56,
    AT_WALL = 64,
    AT_EPOCH = 72,
    AT_RESERVED = 76,
    AT_CHAIN = 80,
    AT_SIGNER = 112,
    AT_SIGNATURE = 120,
    AT_SUM = 184,
};

static const char magic[8] = {'T', 'A', 'R', 'R', 'Y', 'H', 'D', '1'};
/* Prefix of the signed bytes. Other uses of these keys must sign bytes with another prefix. */
static const char context[] = "tarry signed head 1\n";
static const char prefix[] = "tarry-head-1:";
#define CONTEXT_SIZE (sizeof(context) - 1)
#define PREFIX_SIZE (sizeof(prefix) - 1)
#define MESSAGE_SIZE (CONTEXT_SIZE + AT_SIGNATURE)

_Static_assert(AT_SUM + 8 == HEAD_SIZE, "the table in head.h");
_Static_assert(AT_SIGNER + SIGN_KEY_ID_SIZE == AT_SIGNATURE, "the table in head.h");
_Static_assert(crypto_sign_BYTES == HEAD_SIGNATURE_SIZE, "Ed25519");
_Static_assert(PREFIX_SIZE + 2 * HEAD_SIZE + 1 == HEAD_TEXT_SIZE, "head.h");

void head_encode(const struct head *head, uint8_t out[HEAD_SIZE]) {
    memcpy(out + AT_MAGIC, magic, sizeof(magic));
    put_u64(out + AT_NUMBER, head->number);
    memcpy(out + AT_CLUSTER, head->cluster, sizeof(head->cluster));
    put_u64(out + AT_POSITION, head->position);
    put_u64(out + AT_SEGMENT, head->segment);
    put_u64(out + AT_KEPT_FROM, head->kept_from);
    put_u64(out + AT_STEADY, head->steady_ns);
    put_u64(out + AT_WALL, head->wall_ns);
    put_u32(out + AT_EPOCH, head->epoch);
    put_u32(out + AT_RESERVED, 0);
    memcpy(out + AT_CHAIN, head->chain, sizeof(head->chain));
    memcpy(out + AT_SIGNER, head->signer, sizeof(head->signer));
    memcpy(out + AT_SIGNATURE, head->signature, sizeof(head->signature));
    put_u64(out + AT_SUM, frame_sum(out, AT_SUM));
}

bool head_decode(const uint8_t in[HEAD_SIZE], struct head *out) {
    if (memcmp(in + AT_MAGIC, magic, sizeof(magic)) != 0 || get_u64(in + AT_SUM) != frame_sum(in, AT_SUM)) return false;
    if (get_u32(in + AT_RESERVED) != 0) return false;
    struct head head = {
        .number = get_u64(in + AT_NUMBER),
        .position = get_u64(in + AT_POSITION),
        .segment = get_u64(in + AT_SEGMENT),
        .kept_from = get_u64(in + AT_KEPT_FROM),
        .steady_ns = get_u64(in + AT_STEADY),
        .wall_ns = get_u64(in + AT_WALL),
        .epoch = get_u32(in + AT_EPOCH),
    };
    memcpy(head.cluster, in + AT_CLUSTER, sizeof(head.cluster));
    memcpy(head.chain, in + AT_CHAIN, sizeof(head.chain));
    memcpy(head.signer, in + AT_SIGNER, sizeof(head.signer));
    memcpy(head.signature, in + AT_SIGNATURE, sizeof(head.signature));
    *out = head;
    return true;
}

static void message_of(const struct head *head, uint8_t out[MESSAGE_SIZE]) {
    uint8_t bytes[HEAD_SIZE];
    head_encode(head, bytes);
    memcpy(out, context, CONTEXT_SIZE);
    memcpy(out + CONTEXT_SIZE, bytes, AT_SIGNATURE);
}

void head_sign(struct head *head, const struct sign_secret *secret) {
    uint8_t message[MESSAGE_SIZE];
    memcpy(head->signer, secret->public.id, sizeof(head->signer));
    message_of(head, message);
    int failed = crypto_sign_detached(head->signature, NULL, message, sizeof(message), secret->bytes);
    assert(failed == 0);
}

bool head_is_signed(const struct head *head, const struct sign_public *public) {
    uint8_t message[MESSAGE_SIZE];
    if (memcmp(head->signer, public->id, sizeof(head->signer)) != 0) return false;
    message_of(head, message);
    return crypto_sign_verify_detached(head->signature, message, sizeof(message), public->bytes) == 0;
}

char *head_format(const struct head *head, char out[HEAD_TEXT_SIZE]) {
    uint8_t bytes[HEAD_SIZE];
    head_encode(head, bytes);
    memcpy(out, prefix, PREFIX_SIZE);
    sodium_bin2hex(out + PREFIX_SIZE, HEAD_TEXT_SIZE - PREFIX_SIZE, bytes, sizeof(bytes));
    return out;
}

bool head_parse(const char *text, struct head *out) {
    uint8_t bytes[HEAD_SIZE];
    size_t taken;
    text += strspn(text, " \t\r\n");
    if (strncmp(text, prefix, PREFIX_SIZE) != 0) return false;
    text += PREFIX_SIZE;
    size_t size = strcspn(text, " \t\r\n");
    if (size != 2 * HEAD_SIZE || text[size + strspn(text + size, " \t\r\n")] != '\0') return false;
    if (sodium_hex2bin(bytes, sizeof(bytes), text, size, NULL, &taken, NULL) != 0 || taken != sizeof(bytes))
        return false;
    return head_decode(bytes, out);
}
