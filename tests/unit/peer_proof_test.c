/* peer_proof_test.c: a node proves that it has the peer key. A proved message cannot be changed, redirected or replayed
 * to another node (F-29). */
#include "peer_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tarry.pb-c.h"

static const char text[] = "a text that an operator gave to both nodes";
static struct peer_key own, other;

#define REQUEST_SIZE 400
#define REPLY_SIZE 300

static int setup(void **state) {
    (void)state;
    if (sodium_init() < 0) return 1;
    peer_key_derive(&own, text, sizeof(text));
    peer_key_derive(&other, text, sizeof(text));
    return 0;
}

/* Makes a request of the other node that contains the challenge. */
static void ask(struct peer_requester *requester, uint8_t request[REQUEST_SIZE]) {
    memcpy(requester->challenge, own.challenge, sizeof(requester->challenge));
    memset(request, 7, REQUEST_SIZE);
    peer_prove_request(&other, requester, request, REQUEST_SIZE);
}

static void a_question_and_its_answer_are_proved(void **state) {
    (void)state;
    struct peer_requester requester = {0};
    uint8_t request[REQUEST_SIZE], reply[REPLY_SIZE] = {0}, nonce[PEER_NONCE_SIZE];
    ask(&requester, request);
    assert_int_equal(peer_check_request(&own, request, sizeof(request), nonce), PEER_RIGHT);
    peer_prove_reply(&own, nonce, reply, sizeof(reply));
    assert_int_equal(peer_check_reply(&other, &requester, reply, sizeof(reply)), PEER_RIGHT);
}

static void proofs_are_fields_of_their_messages(void **state) {
    (void)state;
    struct peer_requester requester = {0};
    uint8_t request[PEER_REQUEST_TRAILER_SIZE], reply[PEER_REPLY_TRAILER_SIZE];
    peer_prove_request(&own, &requester, request, sizeof(request));
    peer_prove_reply(&own, requester.nonce, reply, sizeof(reply));
    Tarry__Request *asked = tarry__request__unpack(NULL, sizeof(request), request);
    Tarry__Reply *answered = tarry__reply__unpack(NULL, sizeof(reply), reply);
    assert_non_null(asked);
    assert_non_null(answered);
    assert_int_equal(asked->proof.len, PEER_REQUEST_PROOF_SIZE);
    assert_int_equal(answered->proof.len, PEER_REPLY_PROOF_SIZE);
    tarry__request__free_unpacked(asked, NULL);
    tarry__reply__free_unpacked(answered, NULL);
}

static void every_flipped_bit_is_noticed(void **state) { /* F-29 */
    (void)state;
    struct peer_requester requester = {0};
    uint8_t request[REQUEST_SIZE], reply[REPLY_SIZE] = {0}, nonce[PEER_NONCE_SIZE];
    ask(&requester, request);
    for (size_t i = 0; i < sizeof(request) * 8; i++) {
        request[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(peer_check_request(&own, request, sizeof(request), nonce), PEER_RIGHT);
        request[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    peer_prove_reply(&own, requester.nonce, reply, sizeof(reply));
    for (size_t i = 0; i < sizeof(reply) * 8; i++) {
        reply[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(peer_check_reply(&other, &requester, reply, sizeof(reply)), PEER_RIGHT);
        reply[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

static void what_is_cut_short_or_went_on_is_not_proved(void **state) {
    (void)state;
    struct peer_requester requester = {0};
    uint8_t request[REQUEST_SIZE + 1] = {0}, nonce[PEER_NONCE_SIZE];
    ask(&requester, request);
    for (size_t size = 0; size < REQUEST_SIZE; size++) {
        uint8_t *exact = malloc(
            size > 0 ? size : 1); /* the message gets its own block, so that ASan finds a read before its beginning */
        memcpy(exact, request + REQUEST_SIZE - size, size);
        assert_int_not_equal(peer_check_request(&own, exact, size, nonce), PEER_RIGHT);
        assert_int_not_equal(peer_check_request(&own, request, size, nonce), PEER_RIGHT);
        assert_int_not_equal(peer_check_reply(&own, &requester, exact, size), PEER_RIGHT);
        free(exact);
    }
    assert_int_equal(peer_check_request(&own, request, REQUEST_SIZE + 1, nonce), PEER_NONE);
}

static void another_key_proves_nothing(void **state) {
    (void)state;
    struct peer_key wrong;
    struct peer_requester requester = {0};
    uint8_t request[REQUEST_SIZE] = {0}, reply[REPLY_SIZE] = {0}, nonce[PEER_NONCE_SIZE];
    peer_key_derive(&wrong, text, sizeof(text) - 1);
    memcpy(requester.challenge, own.challenge, sizeof(requester.challenge));
    peer_prove_request(&wrong, &requester, request, sizeof(request));
    assert_int_equal(peer_check_request(&own, request, sizeof(request), nonce), PEER_WRONG);
    peer_prove_reply(&wrong, requester.nonce, reply, sizeof(reply));
    assert_int_equal(peer_check_reply(&own, &requester, reply, sizeof(reply)), PEER_WRONG);
    /* A request is not accepted as a reply, nor a reply as a request. */
    peer_prove_request(&own, &requester, request, sizeof(request));
    assert_int_not_equal(peer_check_reply(&own, &requester, request, sizeof(request)), PEER_RIGHT);
    peer_prove_reply(&own, requester.nonce, reply, sizeof(reply));
    assert_int_not_equal(peer_check_request(&own, reply, sizeof(reply), nonce), PEER_RIGHT);
}

static void what_is_old_is_worth_nothing(void **state) {
    (void)state;
    struct peer_requester requester = {0}, later;
    uint8_t request[REQUEST_SIZE], reply[REPLY_SIZE] = {0}, nonce[PEER_NONCE_SIZE];
    ask(&requester, request);
    later = requester;
    peer_prove_reply(&own, requester.nonce, reply, sizeof(reply));
    ask(&later, request);
    assert_int_equal(peer_check_reply(&other, &later, reply, sizeof(reply)), PEER_STALE);
    /* The answering node restarts, and then informs the asking node. */
    peer_key_derive(&own, text, sizeof(text));
    assert_int_equal(peer_check_request(&own, request, sizeof(request), nonce), PEER_STALE);
    assert_false(peer_learn(&later, own.challenge, sizeof(own.challenge) - 1));
    assert_true(peer_learn(&later, own.challenge, sizeof(own.challenge)));
    assert_false(peer_learn(&later, own.challenge, sizeof(own.challenge)));
    peer_prove_request(&other, &later, request, sizeof(request));
    assert_int_equal(peer_check_request(&own, request, sizeof(request), nonce), PEER_RIGHT);
}

static void the_secret_is_for_who_has_the_key(void **state) { /* F-23 */
    (void)state;
    struct peer_key wrong;
    uint8_t secret[IDENTITY_SECRET_SIZE] = "of the cluster", sealed[PEER_SEALED_SIZE], again[PEER_SEALED_SIZE];
    uint8_t out[IDENTITY_SECRET_SIZE] = {0};
    peer_key_derive(&wrong, text, sizeof(text) - 1);
    peer_seal(&own, secret, sealed);
    peer_seal(&own, secret, again);
    assert_memory_not_equal(sealed, again, sizeof(sealed));
    assert_false(peer_unseal(&wrong, sealed, sizeof(sealed), out));
    assert_false(peer_unseal(&other, sealed, sizeof(sealed) - 1, out));
    assert_false(peer_unseal(&other, secret, sizeof(secret), out));
    assert_true(peer_unseal(&other, sealed, sizeof(sealed), out));
    assert_memory_equal(out, secret, sizeof(secret));
    sealed[PEER_NONCE_SIZE] ^= 1;
    assert_false(peer_unseal(&other, sealed, sizeof(sealed), out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_question_and_its_answer_are_proved, setup),
        cmocka_unit_test_setup(proofs_are_fields_of_their_messages, setup),
        cmocka_unit_test_setup(every_flipped_bit_is_noticed, setup),
        cmocka_unit_test_setup(what_is_cut_short_or_went_on_is_not_proved, setup),
        cmocka_unit_test_setup(another_key_proves_nothing, setup),
        cmocka_unit_test_setup(what_is_old_is_worth_nothing, setup),
        cmocka_unit_test_setup(the_secret_is_for_who_has_the_key, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
